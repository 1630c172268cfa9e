//! Small answers over HTTP, for load and for test suites of others.
//!
//! ```text
//!   GET /           Hello, World!            GET /bytes/N    N bytes: 0, 1, … 250, 0, 1, …
//!   GET /json       serialised per request   ANY /echo       the request's body, as it comes
//! ```
//! Always true:
//! 1. What is echoed and what is made up goes out only while there is room; meanwhile nothing of the peer is read. So what we
//!    hold for a peer is bounded, however long the body is.
//! 2. Nothing is read of the next request while a stream of bytes goes out: replies keep their order.

use super::{front::Front, versions::Versions};
use crate::record::Tape;
use bytes::Bytes;
use http::{HeaderValue, Method, header};
use netwright::{
    AppContext, Application, Event, Promised, Server,
    http::{
        HttpLimits, HttpPart, HttpVersions, ReplyHead, ReplyPart, RequestHead, RequestPart, RequestRefused,
        header_map,
        web::{Reply, Router},
    },
    pipeline,
    pipeline::IntoPipeline,
    server::{BindError, ServerBuilder},
};
use serde::Serialize;
use std::{
    convert::Infallible,
    sync::{Arc, LazyLock},
};

/// Bodies are passed on and never held, so they may be long.
const BODY_MAX: u64 = 1 << 40;
/// The bytes of `/bytes/N` repeat after a prime number of them: what is lost or doubled shows.
const PATTERN: usize = 251;
/// What is written at a time.
const PIECE: usize = PATTERN * 256;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");

pub(crate) fn bind(
    server: ServerBuilder,
    address: &str,
    front: Front,
    versions: Versions,
) -> Promised<Server, BindError> {
    let made = Stages { versions, ..Stages::default() };
    front.bind(server, address, move |_, tape| made.stages(tape))
}

/// What all connections share.
pub(crate) struct Stages {
    limits: Arc<HttpLimits>,
    routes: Arc<Router<Route>>,
    versions: Versions,
}

impl Default for Stages {
    fn default() -> Self {
        Self { limits: limits(), routes: routes(), versions: Versions::default() }
    }
}

impl Stages {
    pub(crate) fn stages(&self, tape: &Tape) -> impl IntoPipeline<Infallible> + use<> {
        let routes = self.routes.clone();
        let web = HttpVersions::new(move || pipeline().app(Hello::new(routes.clone())));
        pipeline().add(tape.stage()).then(self.versions.of(web.limits(self.limits.clone())).pipeline())
    }
}

fn limits() -> Arc<HttpLimits> {
    let mut limits = HttpLimits::default();
    limits.body = BODY_MAX;
    limits.requests = u64::MAX; // a load does not want to connect again
    Arc::new(limits)
}

#[derive(Debug, Clone, Copy)]
enum Route {
    Plaintext,
    Json,
    Echo,
    Bytes,
}

fn routes() -> Arc<Router<Route>> {
    let routes = Router::new()
        .get("/", Route::Plaintext)
        .and_then(|routes| routes.get("/json", Route::Json))
        .and_then(|routes| routes.any("/echo", Route::Echo))
        .and_then(|routes| routes.get("/bytes/{n}", Route::Bytes));
    Arc::new(routes.expect("these routes go together"))
}

#[derive(Serialize)]
struct Greeting {
    message: &'static str,
}

struct Hello {
    routes: Arc<Router<Route>>,
    at: At,
}

/// What the peer is owed.
enum At {
    /// Nothing; what still comes of a request's body was not asked for.
    Between,
    /// The body that comes. Its head is written with its first piece, so that who waits for a 100 gets it.
    Echo { head: Option<ReplyHead> },
    /// Bytes that we make up: the position, and where it ends.
    Bytes { position: u64, end: u64 },
}

impl Hello {
    fn new(routes: Arc<Router<Route>>) -> Self {
        Self { routes, at: At::Between }
    }

    /// `body`: the whole one, or none if it is still to come.
    fn answer(&mut self, cx: &mut AppContext<'_, Self>, request: RequestHead, body: Option<Bytes>) {
        let routes = self.routes.clone();
        match routes.find(&request.method, request.uri.path()) {
            Ok(found) => match found.handler {
                Route::Plaintext => {
                    cx.write(HttpPart::Whole(ok(TEXT), Bytes::from_static(b"Hello, World!")));
                }
                Route::Json => {
                    let greeting = serde_json::to_vec(&Greeting { message: "Hello, World!" });
                    cx.write(HttpPart::Whole(ok(JSON), greeting.unwrap_or_default().into()));
                }
                Route::Echo => self.echo(cx, &request, body),
                Route::Bytes => match found.params.parse::<u64>("n") {
                    Ok(end) if end <= BODY_MAX => self.begin_bytes(cx, &request.method, end),
                    Ok(end) => {
                        let why = format!("{end} bytes are more than {BODY_MAX}");
                        cx.write(Reply::whole(Reply::bad_request(why)));
                    }
                    Err(error) => cx.write(Reply::whole(Reply::bad_request(error))),
                },
            },
            Err(miss) => cx.write(Reply::whole(miss.reply())),
        }
        request.recycle();
    }

    fn echo(&mut self, cx: &mut AppContext<'_, Self>, request: &RequestHead, body: Option<Bytes>) {
        let of_request = |name| request.headers.get(name).cloned();
        let mut head = ok(of_request(header::CONTENT_TYPE).unwrap_or(BINARY));
        match body {
            Some(body) => cx.write(HttpPart::Whole(head, body)),
            None => {
                if let Some(length) = of_request(header::CONTENT_LENGTH) {
                    head.headers.insert(header::CONTENT_LENGTH, length);
                }
                self.at = At::Echo { head: Some(head) };
            }
        }
    }

    /// A piece of a body, or its end.
    fn echo_on(&mut self, cx: &mut AppContext<'_, Self>, part: ReplyPart) {
        let At::Echo { head } = &mut self.at else { return };
        if let Some(head) = head.take() {
            cx.write(HttpPart::Head(head));
        }
        if matches!(part, HttpPart::End(_)) {
            self.at = At::Between;
        }
        cx.write(part);
    }

    fn begin_bytes(&mut self, cx: &mut AppContext<'_, Self>, method: &Method, end: u64) {
        let mut head = ok(BINARY);
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(end));
        cx.write(HttpPart::Head(head));
        if method == Method::HEAD {
            return cx.write(HttpPart::End(None));
        }
        cx.pause();
        self.at = At::Bytes { position: 0, end };
        self.more_bytes(cx);
    }

    /// As many as there is room for.
    fn more_bytes(&mut self, cx: &mut AppContext<'_, Self>) {
        while let At::Bytes { position, end } = &mut self.at
            && cx.is_writable()
        {
            let piece = pattern(*position, *end - *position);
            *position += piece.len() as u64;
            let over = position == end;
            if !piece.is_empty() {
                cx.write(HttpPart::Data(piece));
            }
            if over {
                self.at = At::Between;
                cx.write(HttpPart::End(None));
                cx.resume();
            }
        }
        cx.flush();
    }
}

impl Application for Hello {
    type Read = RequestPart;
    type Write = ReplyPart;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, part: RequestPart) {
        match part {
            HttpPart::Whole(head, body) => self.answer(cx, head, Some(body)),
            HttpPart::Head(head) => self.answer(cx, head, None),
            HttpPart::Data(bytes) => self.echo_on(cx, HttpPart::Data(bytes)),
            HttpPart::End(trailers) => self.echo_on(cx, HttpPart::End(trailers)),
            HttpPart::File(_) | HttpPart::Interim(_) => {} // never read
        }
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush(); // once for all that came in this turn
    }

    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        match (&self.at, writable) {
            (At::Bytes { .. }, true) => self.more_bytes(cx),
            (At::Bytes { .. }, false) => {} // paused already
            (_, true) => cx.resume(),
            (_, false) => cx.pause(),
        }
    }

    /// The codec tells the peer; the body that we echoed ends here.
    fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
        if event.get::<RequestRefused>().is_some() {
            self.at = At::Between;
        }
    }
}

fn ok(content_type: HeaderValue) -> ReplyHead {
    let mut head = ReplyHead::new();
    head.headers = header_map();
    head.headers.insert(header::CONTENT_TYPE, content_type);
    head
}

/// What `/bytes/N` has from a position on: at most so many bytes.
fn pattern(position: u64, most: u64) -> Bytes {
    static BLOCK: LazyLock<Bytes> =
        LazyLock::new(|| (0..PIECE).map(|place| (place % PATTERN) as u8).collect::<Vec<_>>().into());
    let start = (position % PATTERN as u64) as usize;
    let len = most.min((PIECE - start) as u64) as usize;
    BLOCK.slice(start..start + len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright::{EmbeddedChannel, http::HttpServer};

    fn hello() -> EmbeddedChannel<Infallible, ReplyPart> {
        EmbeddedChannel::new(pipeline().add(HttpServer::with(limits())).app(Hello::new(routes())))
    }

    fn ask(question: &str) -> String {
        String::from_utf8_lossy(&hello().write_inbound(question).outbound_bytes()).into_owned()
    }

    #[test]
    fn every_path_has_its_answer_and_no_other_has_one() {
        let get = |path: &str| ask(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
        assert!(
            get("/").ends_with("content-type: text/plain\r\n\r\nHello, World!")
                || get("/").ends_with("\r\n\r\nHello, World!")
        );
        assert!(get("/json").ends_with("\r\n\r\n{\"message\":\"Hello, World!\"}"));
        assert!(get("/bytes/3").ends_with("\r\n\r\n\0\u{1}\u{2}"));
        assert!(get("/bytes/0").contains("content-length: 0\r\n"));
        assert!(get("/bytes/x").starts_with("HTTP/1.1 400 "));
        assert!(get("/bytes/99999999999999").starts_with("HTTP/1.1 400 "));
        assert!(get("/nowhere").starts_with("HTTP/1.1 404 "));
        assert!(ask("PUT / HTTP/1.1\r\nhost: a\r\n\r\n").starts_with("HTTP/1.1 405 "));
        let head = ask("HEAD /bytes/3 HTTP/1.1\r\nhost: a\r\n\r\n");
        assert!(head.contains("content-length: 3\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn any_body_of_any_method_comes_back_as_it_comes() {
        let mut channel = hello();
        channel.write_inbound(
            "PATCH /echo HTTP/1.1\r\nhost: a\r\ncontent-type: a/b\r\ncontent-length: 6\r\n\r\nab",
        );
        let begun = String::from_utf8(channel.outbound_bytes()).unwrap();
        assert!(
            begun.contains("content-length: 6\r\n") && begun.contains("content-type: a/b\r\n"),
            "{begun}"
        );
        assert!(begun.ends_with("\r\n\r\nab"), "{begun}");
        assert_eq!(channel.write_inbound("cd").outbound_bytes(), b"cd");
        assert_eq!(channel.write_inbound("ef").outbound_bytes(), b"ef");
        channel
            .write_inbound("POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n");
        assert!(channel.outbound_bytes().ends_with(b"\r\n\r\n2\r\nab\r\n"));
        assert!(channel.write_inbound("0\r\n\r\n").outbound_bytes().ends_with(b"0\r\n\r\n"));
        assert!(
            channel
                .write_inbound("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nxy")
                .outbound_bytes()
                .ends_with(b"\r\n\r\nxy")
        );
    }

    #[test]
    fn who_waits_for_a_100_gets_it_before_the_echo() {
        let mut channel = hello();
        channel.write_inbound(
            "POST /echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n",
        );
        assert_eq!(channel.outbound_bytes(), b"HTTP/1.1 100 Continue\r\n\r\n");
        assert!(channel.write_inbound("xy").outbound_bytes().ends_with(b"\r\n\r\nxy"));
    }

    #[test]
    fn a_peer_that_does_not_read_gets_no_more_than_there_is_room_for() {
        let mut channel = hello();
        channel.block_output(true);
        channel.write_inbound(
            "GET /bytes/10000000 HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        );
        assert!(!channel.wants_read(), "nothing is read while bytes go out");
        channel.block_output(false).run();
        let out = channel.outbound_bytes();
        let body = out.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let made = &out[body..body + 10_000_000];
        assert!(made.iter().enumerate().all(|(place, byte)| *byte == (place % PATTERN) as u8));
        assert!(out.ends_with(b"Hello, World!"), "the next request was answered behind them");
        assert!(channel.wants_read());
    }

    #[test]
    fn an_echo_that_is_not_read_is_not_fed() {
        let mut channel = hello();
        channel.block_output(true);
        channel.write_inbound("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n");
        let mut given = 0;
        while channel.wants_read() && given < 1_000_000 {
            channel.write_inbound(vec![b'x'; 10_000]);
            given += 10_000;
        }
        assert!(given < 200_000, "{given} bytes were taken");
        channel.block_output(false).run();
        assert!(channel.wants_read());
    }
}
