//! The codec of a client as a stage.
//!
//! ```text
//!   bytes ◀── out ◀── request line, headers, body ◀── RequestPart         awaited: [GET] [HEAD] [CONNECT]
//!   bytes ──▶ input ─▶ ReplyDecoder ──▶ ReplyPart                          a reply belongs to the first of them
//! ```
//! Always true:
//! 1. Replies are read as what their requests make them: those to HEAD have no body, a 2xx to CONNECT ends HTTP.
//! 2. A connection that the server or a request wants closed is closed when the reply is over; requests that still wait for
//!    replies then fail with [`HttpError::Premature`]. Whoever is behind is told before ([`LastReply`]).
//! 3. A reply that ends with its connection is complete only if the peer ended it in order.
//! 4. What came before a request was written is never its reply.

use super::{
    encoder::{BodyOut, Said as Written, content_length},
    input::Input,
    out::Out,
    reply_decoder::{Awaited, ReplyDecoder, Said},
};
use crate::{
    error::{Grammar, HttpError, Limit, Misuse, Within},
    head::RequestHead,
    limits::Limits,
    message::{Part, ReplyPart, RequestPart},
    recycle::recycle_request_box,
};
use bytes::BytesMut;
use http::{Method, Version};
use netwright_core::{
    CloseCause, Context, Event, Fault, Handler, Leftover, Outgoing, Weight, WriteError, WritePromise,
};
use std::{
    collections::VecDeque,
    sync::{Arc, LazyLock},
};

/// Answers before an answer. Servers send one or two.
const INTERIM_MAX: u32 = 32;

/// Told by [`HttpClient`] to the stages behind it, once and before the part that ends the reply: no other reply will come on
/// this connection. The server or the request said that it closes, what follows is not HTTP any more, or bytes lie behind the
/// reply that nobody asked for. Whoever keeps connections for later does not keep this one.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, Event, pipeline};
/// use netwright_http::{HttpClient, LastReply, ReplyPart, RequestPart};
///
/// #[derive(Default)]
/// struct Keeps { not_this_one: bool }
///
/// impl Application for Keeps {
///     type Read = ReplyPart;
///     type Write = RequestPart;
///     fn read(&mut self, _: &mut AppContext<'_, Self>, _: ReplyPart) {
///         assert!(self.not_this_one);
///     }
///     fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
///         self.not_this_one |= event.get::<LastReply>().is_some();
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(HttpClient::new()).app(Keeps::default()));
/// channel.write_outbound(http::Request::get("http://example/").body("").unwrap().into());
/// channel.write_inbound("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
/// assert!(!channel.is_open());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastReply;

/// HTTP/1.1 as a client speaks it: the stage next to the wire, or behind TLS.
///
/// What is written to it are [`RequestPart`]s; what it passes on are [`ReplyPart`]s, in the order of their requests. A
/// `Host` and a length are added where they are missing.
///
/// ```
/// use bytes::Bytes;
/// use http::Request;
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{HttpClient, Part};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(HttpClient::new()));
/// channel.write_outbound(Request::get("http://example/hello").body(Bytes::new()).unwrap().into());
/// assert_eq!(channel.outbound_bytes(), b"GET /hello HTTP/1.1\r\nhost: example\r\n\r\n");
/// channel.write_inbound("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
/// let Some(Part::Whole(head, body)) = channel.read_inbound() else { panic!() };
/// assert_eq!((head.status.as_u16(), &body[..]), (200, &b"hello"[..]));
/// ```
#[derive(Debug)]
pub struct HttpClient {
    limits: Arc<Limits>,
    absolute: bool,
    input: Input,
    decoder: ReplyDecoder,
    out: Out,
    awaited: VecDeque<Awaited>,
    /// The rest of the request that is being written.
    current: Option<BodyOut>,
    interim: u32,
    /// The connection ends with the reply that is being read.
    closes: bool,
    /// That was told.
    told_last: bool,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    Switched,
    Over,
}

static DEFAULTS: LazyLock<Arc<Limits>> = LazyLock::new(|| Arc::new(Limits::client()));

impl HttpClient {
    /// A codec with [`Limits::client`].
    pub fn new() -> Self {
        Self::with(DEFAULTS.clone())
    }

    /// A codec with limits of your own; an `Arc` of them is shared by many connections. Those that are about time are not
    /// used: whoever waits for a reply knows how long.
    pub fn with(limits: impl Into<Arc<Limits>>) -> Self {
        Self {
            limits: limits.into(),
            absolute: false,
            input: Input::default(),
            decoder: ReplyDecoder::default(),
            out: Out::default(),
            awaited: VecDeque::new(),
            current: None,
            interim: 0,
            closes: false,
            told_last: false,
            phase: Phase::Reading,
        }
    }

    /// Targets with scheme and host are written as they are, as proxies want them.
    pub fn absolute_targets(mut self, absolute: bool) -> Self {
        self.absolute = absolute;
        self
    }

    fn encode(&mut self, part: RequestPart) -> Result<(), HttpError> {
        let mark = self.out.mark();
        match part {
            Part::Whole(head, body) => {
                let framed =
                    self.begin(&head, Some(body.len() as u64)).inspect_err(|_| self.out.roll_back(mark));
                framed?;
                recycle_request_box(head.into_box());
                self.out.bytes(body);
                Ok(())
            }
            Part::Head(head) => {
                let framed = self.begin(&head, None);
                match framed {
                    Ok(framed) => {
                        recycle_request_box(head.into_box());
                        self.current = Some(framed);
                        Ok(())
                    }
                    Err(error) => {
                        self.out.roll_back(mark);
                        Err(error)
                    }
                }
            }
            Part::Data(bytes) => {
                let current = self.current.as_mut().ok_or(Misuse::BodyWithoutHead)?;
                current.data(&mut self.out, bytes)
            }
            Part::File(file) => {
                let current = self.current.as_mut().ok_or(Misuse::BodyWithoutHead)?;
                current.file(&mut self.out, file)
            }
            Part::End(trailers) => {
                let current = self.current.take().ok_or(Misuse::BodyWithoutHead)?;
                current.end(&mut self.out, trailers.as_deref())
            }
            Part::Interim(_) => Err(Misuse::Direction.into()),
        }
    }

    fn begin(&mut self, head: &RequestHead, whole: Option<u64>) -> Result<BodyOut, HttpError> {
        if self.current.is_some() {
            return Err(Misuse::HeadWithinBody.into());
        }
        if self.awaited.back().is_some_and(|last| last.close) {
            return Err(Misuse::AfterClose.into());
        }
        let http10 = head.version == Version::HTTP_10;
        let out = &mut self.out.buffer;
        out.extend_from_slice(head.method.as_str().as_bytes());
        out.extend_from_slice(b" ");
        target(out, head, self.absolute)?;
        out.extend_from_slice(if http10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
        if !head.headers.contains_key(http::header::HOST) {
            let authority = head.uri.authority().ok_or(Misuse::Target)?;
            let host = authority.as_str().rsplit('@').next().unwrap_or_default();
            out.extend_from_slice(b"host: ");
            out.extend_from_slice(host.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        let said = Written::fields(out, &head.headers)?;
        let body = match (whole.or(said.length), said.length) {
            (Some(len), Some(announced)) if len > announced => {
                return Err(Misuse::BodyTooLong { announced, written: len }.into());
            }
            (Some(len), Some(announced)) if len < announced => {
                return Err(Misuse::BodyTooShort { announced, written: len }.into());
            }
            (Some(len), announced) => {
                let expects_body = [Method::POST, Method::PUT, Method::PATCH].contains(&head.method);
                if len > 0 || announced.is_some() || expects_body {
                    content_length(out, len);
                }
                BodyOut::Length { announced: len, left: len }
            }
            (None, _) if http10 => return Err(Misuse::Length.into()), // its end could not be told
            (None, _) => {
                out.extend_from_slice(b"transfer-encoding: chunked\r\n");
                BodyOut::Chunked
            }
        };
        said.connection(out, said.close, false);
        out.extend_from_slice(b"\r\n");
        self.awaited.push_back(Awaited {
            head: head.method == Method::HEAD,
            connect: head.method == Method::CONNECT,
            upgrade: said.upgrade,
            close: said.close || http10, // we never ask a server of HTTP/1.0 to keep it
        });
        Ok(body)
    }

    fn said(&mut self, cx: &mut Context<'_, Self>, said: Said, awaited: Awaited) -> Result<(), HttpError> {
        match said {
            Said::Interim => {
                self.interim += 1;
                if self.interim > INTERIM_MAX {
                    let (max, got) = (u64::from(INTERIM_MAX), u64::from(self.interim));
                    return Err(HttpError::TooMuch { limit: Limit::Interim, max, got });
                }
            }
            Said::Reply { close, switches } => {
                self.interim = 0;
                self.closes |= (close || awaited.close) && !switches;
                if switches {
                    self.phase = Phase::Switched;
                }
                if switches || self.closes {
                    self.tell_last(cx);
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn tell_last(&mut self, cx: &mut Context<'_, Self>) {
        if !std::mem::replace(&mut self.told_last, true) {
            cx.fire_event(Event::new(LastReply));
        }
    }

    fn over(&mut self, cx: &mut Context<'_, Self>) {
        self.awaited.pop_front();
        if self.awaited.is_empty() && !self.input.is_empty() {
            self.tell_last(cx); // nobody has asked for what is behind it
        }
        if self.closes {
            self.phase = Phase::Over;
            cx.close_when_flushed();
        }
    }

    #[cold]
    fn fail(&mut self, cx: &mut Context<'_, Self>, error: HttpError) {
        self.phase = Phase::Over;
        self.awaited.clear();
        drop(self.input.take());
        let fault = Fault::new(error);
        cx.fire_error(fault.clone());
        // Behind what was written because of the error, which passes this stage when this call has returned.
        cx.caller().call(move |_, cx| cx.close_because(CloseCause::Fault(fault)));
    }

    /// The peer sends no more.
    fn input_ended(&mut self, cx: &mut Context<'_, Self>, in_order: bool) {
        if self.phase != Phase::Reading {
            return;
        }
        if in_order && self.decoder.ends_with_connection() {
            self.phase = Phase::Over;
            self.awaited.pop_front();
            cx.fire_read(Part::End(None));
        }
        let within = if !self.decoder.is_between() {
            Within::Body
        } else if !self.input.is_empty() {
            Within::Head
        } else if !self.awaited.is_empty() {
            Within::Waiting
        } else {
            return;
        };
        self.fail(cx, HttpError::Premature { within });
    }
}

/// The target in the form that the request needs (RFC 9112, section 3.2).
fn target(out: &mut BytesMut, head: &RequestHead, absolute: bool) -> Result<(), HttpError> {
    let uri = &head.uri;
    if head.method == Method::CONNECT {
        let authority =
            uri.authority().filter(|authority| authority.port().is_some()).ok_or(Misuse::Target)?;
        out.extend_from_slice(authority.as_str().as_bytes());
        return Ok(());
    }
    if absolute && let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) {
        out.extend_from_slice(scheme.as_bytes());
        out.extend_from_slice(b"://");
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        out.extend_from_slice(host.as_bytes());
    }
    match uri.path_and_query() {
        Some(path) if path.as_str() == "*" && head.method != Method::OPTIONS => {
            return Err(Misuse::Target.into());
        }
        Some(path) => {
            if path.as_str().starts_with('?') {
                out.extend_from_slice(b"/"); // a target has a path (RFC 9112, section 3.2.1)
            }
            out.extend_from_slice(path.as_str().as_bytes());
        }
        None => out.extend_from_slice(b"/"),
    }
    Ok(())
}

impl Default for HttpClient {
    fn default() -> Self {
        Self::new()
    }
}

impl Handler for HttpClient {
    type Read = BytesMut;
    type ReadOut = ReplyPart;
    type Write = RequestPart;
    type WriteOut = Outgoing;
    const WEIGHT: Weight<RequestPart> = Part::WEIGHT;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        if self.phase != Phase::Over {
            self.input.feed(bytes);
        }
        let (max, got) = (self.limits.linger, self.input.len() as u64);
        if self.phase == Phase::Switched && got > max {
            self.fail(cx, HttpError::TooMuch { limit: Limit::Unclaimed, max, got }); // nobody has taken over
        }
    }

    fn pull(&mut self, cx: &mut Context<'_, Self>) -> Option<ReplyPart> {
        if self.phase != Phase::Reading {
            self.input.put_aside();
            return None;
        }
        let Some(&awaited) = self.awaited.front() else {
            if !self.input.is_empty() {
                self.fail(cx, Grammar::Unasked.into());
            }
            self.input.put_aside();
            return None;
        };
        match self.decoder.next(&mut self.input.bytes, &self.limits, awaited) {
            Ok(Some((part, said))) => {
                if let Err(error) = said.map_or(Ok(()), |said| self.said(cx, said, awaited)) {
                    self.fail(cx, error);
                    return None;
                }
                if matches!(part, Part::Whole(..) | Part::End(_)) {
                    self.over(cx);
                }
                Some(part)
            }
            Ok(None) => {
                self.input.put_aside();
                None
            }
            Err(error) => {
                self.fail(cx, error);
                None
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, part: RequestPart, mut done: WritePromise) {
        if self.phase != Phase::Reading {
            return done.fail(WriteError::Fault(Fault::new(HttpError::from(Misuse::AfterClose))));
        }
        if done.is_tracked() {
            if !done.claim() {
                return; // taken back in time; from here on it is a part of what its message says of itself
            }
            self.out.pass_on(cx); // what somebody waits for is a piece of its own
        }
        self.out.begin();
        match self.encode(part) {
            Ok(()) => self.out.written(cx, done),
            Err(error) => {
                let within = self.current.take().is_some();
                done.fail(WriteError::Fault(Fault::new(error.clone())));
                if within {
                    self.fail(cx, error); // the server could not tell where the next one begins
                } else {
                    cx.fire_error(error);
                }
            }
        }
    }

    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        self.out.flush(cx);
        cx.flush();
    }

    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        self.input_ended(cx, true);
        cx.fire_input_closed();
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        // Of what our side has decided the peer is not to blame: that is told as it is.
        let ours = matches!(cause, CloseCause::TimedOut(_) | CloseCause::TooSlow(_) | CloseCause::ShutDown);
        if !ours {
            self.input_ended(cx, matches!(cause, CloseCause::PeerClosed));
        }
        self.phase = Phase::Over;
        cx.fire_inactive(cause);
    }

    fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        self.out.flush(cx);
        cx.close_with(cause, done);
    }

    fn shut_down_output(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
        self.out.flush(cx);
        cx.shut_down_output_with(done);
    }

    fn leftover(&mut self) -> Leftover<BytesMut> {
        let rest = self.input.take();
        if rest.is_empty() { Leftover::nothing() } else { Leftover::one(rest) }
    }

    fn name(&self) -> &'static str {
        "HttpClient"
    }
}
