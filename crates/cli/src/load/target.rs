//! What a load is aimed at, resolved and checked before anything is sent, and how a connection to it is made.

use super::{
    CONNECT_LIMIT, REFRESH,
    course::{Course, Order, Outcome, Shared},
    echo::Echo,
    http::{Expected, Question, Questions},
    http2,
    websocket::{Opening, Wanted},
};
use crate::{
    address::refuse_local,
    failure::Failure,
    through::{Builder, HTTP1, Through, connector},
};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Uri};
use netwright::{
    Address, AppContext, Application, Client, CloseCause, EventLoopGroup, Fault,
    http::{BadAuthority, HostAndPort, HttpClient, HttpPart, ReplyPart, RequestPart, http2::http2_client},
    pipeline,
    pipeline::{Filter, FilterContext, IntoPipeline},
    tls::{Destination, Tls},
    websocket::{Config, Request},
};
use std::{
    net::ToSocketAddrs,
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    time::Instant,
};

/// The longest answer that others are compared with.
const ANSWER_MAX: usize = 64 << 20;

pub(super) struct Target {
    pub(super) address: Address,
    pub(super) speaks: Speaks,
    /// What connections to it go through.
    pub(super) through: Through,
}

pub(super) enum Speaks {
    /// Every byte comes back.
    Echo,
    Http(Url),
    WebSocket(Url),
}

/// What is asked for on a connection that speaks HTTP.
pub(super) struct Url {
    text: String,
    path: Uri,
    host: HeaderValue,
    way: Security,
    http2: bool,
}

/// What the bytes of a connection go through.
enum Security {
    Plain,
    Tls(Destination),
}

impl Target {
    /// A server by a URL whose scheme is one of two: in clear, and with TLS.
    pub(super) fn url(
        text: &str,
        schemes: [&str; 2],
        http2: bool,
        insecure: bool,
        remote: bool,
    ) -> Result<(Address, Url), Failure> {
        let [plain, secure] = schemes;
        let wrong = |why: &str| Failure::usage(format!("{text} {why}; expected {plain}://HOST:PORT/PATH"));
        let url: Uri = text.parse().map_err(|error| wrong(&format!("is no URL: {error}")))?;
        let (Some(scheme), Some(authority)) = (url.scheme_str(), url.authority()) else {
            return Err(wrong("has no scheme or no host"));
        };
        let is_secure = scheme.eq_ignore_ascii_case(secure);
        if !is_secure && !scheme.eq_ignore_ascii_case(plain) {
            return Err(wrong(&format!("has the scheme {scheme} instead of {plain} or {secure}")));
        }
        let place = HostAndPort::parse(authority.as_str())
            .map_err(|error| wrong(&format!("has no proper host and port: {error}")))?;
        let port = place.port.unwrap_or(if is_secure { 443 } else { 80 });
        let address = resolve(&format!("{}:{port}", place.host), remote)?;
        let way = match is_secure {
            true => Security::Tls(
                connector(if http2 { http2::H2 } else { HTTP1 }, insecure)?.to(place.bare_host())?,
            ),
            false => Security::Plain,
        };
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let path = format!("{}{path}", if path.starts_with('/') { "" } else { "/" });
        let path = path.parse().map_err(|error| wrong(&format!("has no path: {error}")))?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| wrong("has no host"))?;
        Ok((address, Url { text: text.to_owned(), path, host, way, http2 }))
    }

    /// What connections are made by. An HTTP server is asked once before: what it answers is what it has to answer always.
    /// Also gives how long answers are.
    pub(super) fn connect(
        &self,
        group: &EventLoopGroup,
        shared: impl FnOnce(usize) -> Arc<Shared>,
        size: Option<usize>,
        outcome: Sender<Outcome>,
    ) -> Result<(Client<Order>, Arc<Shared>), Failure> {
        let builder = || builder(group, &self.through);
        match &self.speaks {
            Speaks::Echo => {
                let shared = shared(size.unwrap_or(super::SIZE));
                let all = shared.clone();
                let client = builder().pipeline(move || {
                    pipeline().last(Echo::load(Course::new(all.clone(), outcome.clone())))
                })?;
                Ok((client, shared))
            }
            Speaks::Http(url) => {
                let expected = match size {
                    Some(_) => Expected::Echo,
                    None => Expected::Same(self.first_answer(group, url)?),
                };
                let len = match &expected {
                    Expected::Same(body) => body.len(),
                    Expected::Echo => size.unwrap_or_default(),
                };
                let shared = shared(len);
                let all = shared.clone();
                let question =
                    Arc::new(Question { path: url.path.clone(), host: url.host.clone(), expected });
                let course = move || Course::new(all.clone(), outcome.clone());
                let client = match url.http2 {
                    true => {
                        let tls = matches!(url.way, Security::Tls(_));
                        url.client(builder(), move || http2::stages(course(), question.clone(), tls))?
                    }
                    false => url.client(builder(), move || {
                        pipeline().add(HttpClient::new()).last(Questions::load(course(), question.clone()))
                    })?,
                };
                Ok((client, shared))
            }
            Speaks::WebSocket(url) => {
                let shared = shared(size.unwrap_or(super::SIZE));
                let all = shared.clone();
                let config = Arc::new(Config::default().max_message(shared.size.max(125)));
                let request = Request::new(&url.text)?;
                let wanted = Arc::new(Wanted { request, config });
                let make = move || {
                    let course = Course::new(all.clone(), outcome.clone());
                    let wanted = wanted.clone();
                    pipeline().joint(|switch| {
                        pipeline().add(HttpClient::new()).last(Opening::new(course, switch, wanted))
                    })
                };
                Ok((url.client(builder(), make)?, shared))
            }
        }
    }

    /// What the server answers when it is asked once.
    fn first_answer(&self, group: &EventLoopGroup, url: &Url) -> Result<Bytes, Failure> {
        let (tell, told) = channel();
        let first = move || FirstAnswer { tell: tell.clone() };
        let builder = builder(group, &self.through);
        let client = match url.http2 {
            true => {
                let tls = matches!(url.way, Security::Tls(_));
                url.client(builder, move || {
                    let first = first.clone();
                    let stream = move || pipeline().app(first());
                    let client = http2_client(stream).over_tls(tls).limits(http2::limits(1));
                    pipeline().filter(Quiet).last(client)
                })?
            }
            false => url.client(builder, move || pipeline().add(HttpClient::new()).app(first()))?,
        };
        let server = client.connect(&self.address).wait()?;
        let expected = Expected::Same(Bytes::new());
        let question = Question { path: url.path.clone(), host: url.host.clone(), expected };
        server.write_and_flush(HttpPart::Whole(question.head(), Bytes::new()));
        let failed = |why: String| Err(Failure::Failed(format!("the server's first answer: {why}")));
        let (deadline, mut body) = (Instant::now() + CONNECT_LIMIT, BytesMut::new());
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let part = match told.recv_timeout(left.min(REFRESH)) {
                Ok(Ok(part)) => part,
                Ok(Err(cause)) => return failed(format!("none, {cause}")),
                Err(_) if left.is_zero() => return failed(format!("none within {CONNECT_LIMIT:?}")),
                Err(_) => match server.close_cause() {
                    Some(cause) => return failed(format!("none, {cause}")), // there was no stream to say so
                    None => continue,
                },
            };
            let over = match part {
                HttpPart::Head(head) | HttpPart::Whole(head, _) if !head.status.is_success() => {
                    return failed(format!("its status is {}", head.status));
                }
                HttpPart::Whole(_, whole) => {
                    body.extend_from_slice(&whole);
                    true
                }
                HttpPart::Data(bytes) => {
                    body.extend_from_slice(&bytes);
                    false
                }
                HttpPart::End(_) => true,
                HttpPart::Head(_) | HttpPart::File(_) | HttpPart::Interim(_) => false,
            };
            if body.len() > ANSWER_MAX {
                return failed(format!(
                    "it has more than {ANSWER_MAX} bytes, which is too long to compare with"
                ));
            }
            if over {
                drop(server.close());
                return Ok(body.freeze());
            }
        }
    }
}

impl Url {
    /// Whether that is to be spoken.
    pub(super) fn is_http2(&self) -> bool {
        self.http2
    }

    fn client<P, T>(
        &self,
        builder: Builder,
        make: impl Fn() -> P + Send + Sync + 'static,
    ) -> Result<Client<T>, Failure>
    where
        P: IntoPipeline<T>,
        T: Send + 'static,
    {
        Ok(match &self.way {
            Security::Plain => builder.pipeline(make)?,
            Security::Tls(server) => {
                let server = server.clone();
                builder.pipeline(move || pipeline().add(Tls::to(&server)).joint(|_| make()))?
            }
        })
    }
}

/// What goes wrong with a connection is told by its end.
struct Quiet;

impl<W: 'static> Filter<BytesMut, W> for Quiet {
    const PASSES: bool = true;

    fn error(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>, fault: Fault) {
        cx.close_because(CloseCause::Fault(fault));
    }
}

struct FirstAnswer {
    tell: Sender<Result<ReplyPart, CloseCause>>,
}

impl Application for FirstAnswer {
    type Read = ReplyPart;
    type Write = RequestPart;

    fn read(&mut self, _: &mut AppContext<'_, Self>, part: ReplyPart) {
        let _ = self.tell.send(Ok(part));
    }

    /// Comes again as the cause of the end.
    fn error(&mut self, _: &mut AppContext<'_, Self>, _: Fault) {}

    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        let _ = self.tell.send(Err(cause));
    }
}

/// A client bounds itself what it has under way, and reads however much of it waits to be sent: a server may not take the
/// next question before its last answer is read.
fn builder(group: &EventLoopGroup, through: &Through) -> Builder {
    let builder = through.client(Client::builder()).group(group.clone());
    builder.connect_timeout(CONNECT_LIMIT).hold_back(false)
}

/// Resolved here, so that what is connected to is what was checked.
pub(super) fn resolve(name: &str, remote: bool) -> Result<Address, Failure> {
    refuse_local(name)?;
    if let Some(address) = Address::parse_prefixed(name) {
        return address.map_err(|error| Failure::usage(error.to_string())); // on this machine by its kind
    }
    if let Err(error @ BadAuthority::Port) = HostAndPort::parse(name) {
        return Err(Failure::usage(format!("{name} is no HOST:PORT: {error}")));
    }
    let unknown = |error: &dyn std::fmt::Display| Failure::Failed(format!("cannot resolve {name}: {error}"));
    let found = name.to_socket_addrs().map_err(|error| unknown(&error))?.next();
    let address = found.ok_or_else(|| unknown(&"it has no address"))?;
    if !remote && !address.ip().to_canonical().is_loopback() {
        let text = "is not on this machine; load on servers of others is an attack";
        return Err(Failure::usage(format!("{address} {text}, so say --allow-remote if it is yours")));
    }
    Ok(address.into())
}
