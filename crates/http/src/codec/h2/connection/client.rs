//! The side that asks.

use super::{
    Block, Core, Drain, Http2, Http2Error,
    sending::Writer,
    side::{Body, Role, Side},
    stream::{Asked, Half, Stream},
};
use crate::{
    codec::{
        h1::{INTERIM_MAX, client_limits, is_bodiless},
        h2::{
            code::ErrorCode,
            head::{self, write::Length},
        },
    },
    error::{HttpError, Limit, Misuse},
    message::{HttpPart, ReplyHead, ReplyPart, RequestHead, RequestPart, recycle_request_box},
};
use bytes::Bytes;
use http::{Method, StatusCode};
use netwright_core::{CloseCause, Context, Fault, IntoPipeline, Segment, WriteError, WritePromise};
use std::fmt;

/// The client's side of [`Http2Client`].
pub struct ClientSide {
    /// There is TLS below.
    tls: bool,
    /// The number of the next stream.
    next: u32,
    /// Why the server said that it goes away, if that was a mistake.
    gone: Option<Http2Error>,
    /// Who is told how many streams there can be.
    watcher: Option<Box<dyn FnMut(Capacity)>>,
}

/// How many streams a connection can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// So many at a time.
    Streams(usize),
    /// Not one more: it ends when those that it has do.
    Over,
}

impl fmt::Debug for ClientSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSide")
            .field("next", &self.next)
            .field("gone", &self.gone)
            .finish_non_exhaustive()
    }
}

/// HTTP/2 as a client speaks it: the last stage of a connection, with a pipeline `P` for each stream. Made by [`http2_client`].
///
/// What is written to the connection opens a stream: it goes to the far end of a new pipeline. Streams that the server does not take yet
/// wait for their turn, as many as [`HttpLimits::in_flight`](crate::HttpLimits::in_flight) says. What the server has not looked at, because it
/// goes away or takes no more, ends as reset with `REFUSED_STREAM`: it can be asked again on another connection.
pub type Http2Client<P, F> = Http2<ClientSide, P, F>;

/// A client of HTTP/2 for connections of which it is known that they speak it: each stream is a channel with stages of its own, which `build` makes. They
/// write [`RequestPart`]s and read [`ReplyPart`]s, as those behind an [`HttpClient`](crate::HttpClient) do.
///
/// The limits are those of [`HttpLimits::client`](crate::HttpLimits::client); how long a reply may take is for those to say who wait for it.
///
/// ```
/// use bytes::Bytes;
/// use http::Request;
/// use netwright_core::{Context, EmbeddedChannel, Handler, WritePromise, pipeline};
/// use netwright_http::{ReplyPart, RequestPart, http2::http2_client};
/// use std::convert::Infallible;
///
/// struct Print;
///
/// impl Handler for Print {
///     type Read = ReplyPart;
///     type ReadOut = Infallible;
///     type Write = RequestPart;
///     type WriteOut = RequestPart;
///
///     fn read(&mut self, _: &mut Context<'_, Self>, part: ReplyPart) {
///         println!("{part:?}");
///     }
///     fn write(&mut self, cx: &mut Context<'_, Self>, part: RequestPart, done: WritePromise) {
///         cx.write_with(part, done);
///     }
/// }
///
/// let mut channel = EmbeddedChannel::of(pipeline().last(http2_client(|| pipeline().last(Print))));
/// let request = Request::get("http://example/hello").body(Bytes::new())?;
/// channel.write_outbound(RequestPart::from(request)); // on a stream of its own
/// assert!(channel.outbound_bytes().starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
/// # Ok::<(), http::Error>(())
/// ```
pub fn http2_client<B, T>(
    mut build: impl FnMut() -> B + 'static,
) -> Http2Client<B::Segment, impl FnMut() -> B::Segment + 'static>
where
    B: IntoPipeline<T, ReplyPart, RequestPart, Written = RequestPart>,
{
    let side = ClientSide { tls: false, next: 1, gone: None, watcher: None };
    Http2::with_side(move || build().into_pipeline(), client_limits(), side)
}

impl<P, F> Http2Client<P, F>
where
    P: Segment<ReplyPart, RequestPart>,
{
    /// Says in requests that the connection is protected by TLS.
    #[must_use]
    pub fn over_tls(mut self, tls: bool) -> Self {
        self.core.side.tls = tls;
        self
    }

    /// Has somebody know how many streams there can be: as soon as the server has said so, and whenever that changes.
    #[cfg(feature = "client")]
    #[must_use]
    pub(crate) fn watched(mut self, watcher: impl FnMut(Capacity) + 'static) -> Self {
        self.core.side.watcher = Some(Box::new(watcher));
        self
    }
}

impl ClientSide {
    fn tell(&mut self, capacity: Capacity) {
        if let Some(watcher) = &mut self.watcher {
            watcher(capacity);
        }
    }
}

impl Side for ClientSide {
    type In = ReplyHead;
    type Out = RequestHead;
    type Ask<T: 'static> = T;
    const IS_SERVER: bool = false;
    const NAME: &'static str = "Http2Client";
}

type Client<P, F> = Http2<ClientSide, P, F>;

impl<P, F> Client<P, F>
where
    P: Segment<ReplyPart, RequestPart>,
    F: FnMut() -> P + 'static,
{
    fn may_open(&self) -> bool {
        self.children.len() < self.most_streams()
    }

    fn most_streams(&self) -> usize {
        self.core.peer.streams.min(self.core.limits.http2.streams.max(1))
    }

    /// A reply passes a limit.
    #[cold]
    fn too_much(&mut self, cx: &mut Context<'_, Self>, id: u32, error: HttpError) -> Result<(), Http2Error> {
        if let Some(place) = self.core.streams.place(id) {
            self.refuse(cx, place, error);
        }
        Ok(())
    }

    /// Opens a stream, and has its pipeline take what was asked.
    fn open(&mut self, cx: &mut Context<'_, Self>, ask: P::Tail, done: WritePromise) {
        let place = self.core.streams.next_place();
        let mut asked = Some((ask, done));
        let opened = self.children.open_with(cx, &mut self.build, |child| {
            child.set_tag(place);
            if let Some((ask, done)) = asked.take() {
                child.write_and_flush(ask, done);
            }
        });
        match opened {
            Ok(key) => {
                let core = &mut self.core;
                core.opened += 1;
                let first = core.streams.is_empty();
                let window = core.new_window();
                // It gets its number with its head: heads have to leave in the order of their numbers.
                core.streams.insert(Stream::new(0, key, core.peer.window, window));
                if first {
                    self.watch_stream(cx);
                }
            }
            Err(error) => {
                if let Some((ask, done)) = asked {
                    drop(ask);
                    done.fail(WriteError::Fault(Fault::new(error)));
                }
            }
        }
    }
}

impl Role for ClientSide {
    fn begin<P, F>(_: &mut Client<P, F>, _: &mut Context<'_, Client<P, F>>)
    where
        P: Segment<ReplyPart, RequestPart>,
        F: FnMut() -> P + 'static,
    {
    }

    fn asked<P, F>(
        stage: &mut Client<P, F>,
        cx: &mut Context<'_, Client<P, F>>,
        ask: P::Tail,
        done: WritePromise,
    ) where
        P: Segment<ReplyPart, RequestPart>,
        F: FnMut() -> P + 'static,
    {
        let numbers = stage.core.side.next < 1 << 31;
        if stage.core.drain != Drain::No || stage.core.is_over() || !numbers {
            let cause = cx.view().close_cause().cloned().unwrap_or(CloseCause::ShutDown);
            drop(ask);
            return done.fail(WriteError::Closed(cause)); // no other stream will be opened here
        }
        if stage.may_open() && stage.asks.is_empty() {
            stage.open(cx, ask, done);
            return stage.look(cx);
        }
        if stage.asks.len() >= stage.core.limits.in_flight {
            let max = stage.core.limits.in_flight;
            drop(ask);
            let why = format!("{max} requests wait for a stream, and no more may");
            let error = Http2Error::connection(ErrorCode::REFUSED_STREAM, why);
            return done.fail(WriteError::Fault(Fault::new(HttpError::from(error))));
        }
        stage.asks.push_back((ask, done));
    }

    fn fields<P, F>(
        stage: &mut Client<P, F>,
        cx: &mut Context<'_, Client<P, F>>,
        block: Block<Bytes>,
    ) -> Result<(), Http2Error>
    where
        P: Segment<ReplyPart, RequestPart>,
        F: FnMut() -> P + 'static,
    {
        let (core, id) = (&mut stage.core, block.stream);
        let end = block.end_stream;
        let place = core.streams.place(id).unwrap_or(u32::MAX);
        let Some(stream) = core.streams.get(place) else {
            core.decoder.skip(&block.bytes)?; // what comes next depends on it
            return stage.stray(id);
        };
        let protocol = |why| Http2Error::stream(ErrorCode::PROTOCOL_ERROR, id, why);
        let part = match stream.input {
            Half::Idle => {
                let reply = match head::read_reply(&mut core.decoder, &block.bytes, &core.limits)? {
                    Ok(reply) => reply,
                    Err(error @ HttpError::TooMuch { .. }) => return stage.too_much(cx, id, error),
                    Err(error) => return Err(protocol(error.to_string())),
                };
                let status = reply.head.status;
                if status.is_informational() {
                    if end || status == StatusCode::SWITCHING_PROTOCOLS {
                        return Err(protocol(format!("status {status} where there can be none")));
                    }
                    stream.asked.expects &= status != StatusCode::CONTINUE;
                    stream.interims += 1;
                    if stream.interims > INTERIM_MAX {
                        let (max, got) = (INTERIM_MAX.into(), stream.interims.into());
                        let error = HttpError::TooMuch { limit: Limit::Interim, max, got };
                        return stage.too_much(cx, id, error);
                    }
                    HttpPart::Interim(reply.head)
                } else {
                    let nothing = stream.asked.head || is_bodiless(status);
                    stream.asked.tunnel = stream.asked.connect && status.is_success();
                    stream.body_in.left = reply.content_length.filter(|_| !nothing && !stream.asked.tunnel);
                    if end && stream.body_in.left.is_some_and(|left| left > 0) {
                        return Err(protocol("a body was announced and none follows".into()));
                    }
                    if nothing {
                        stream.body_in.left = Some(0);
                    }
                    stream.input = if end { Half::Over } else { Half::Open };
                    if end { HttpPart::Whole(reply.head, Bytes::new()) } else { HttpPart::Head(reply.head) }
                }
            }
            Half::Open => {
                let trailers = match head::read_trailers(&mut core.decoder, &block.bytes, &core.limits)? {
                    Ok(trailers) => trailers,
                    Err(error @ HttpError::TooMuch { .. }) => return stage.too_much(cx, id, error),
                    Err(error) => return Err(protocol(error.to_string())),
                };
                if !end || stream.body_in.left.is_some_and(|left| left > 0) {
                    return Err(protocol("fields within a body, or a body that is too short".into()));
                }
                stream.input = Half::Over;
                HttpPart::End(Some(trailers))
            }
            Half::Over => {
                core.decoder.skip(&block.bytes)?;
                let why = "a head behind the end of its stream";
                return Err(Http2Error::stream(ErrorCode::STREAM_CLOSED, id, why));
            }
        };
        let (key, tunnel) = (stream.key, stream.asked.tunnel && end);
        let waits = stage.children.with(key, |child| {
            let waits = child.wanted() == 0 || child.unread() > 0;
            child.received(part, 0);
            if tunnel {
                child.input_closed();
            }
            waits
        });
        if end && (waits != Some(false) || tunnel) {
            stage.said_all(cx, place);
        }
        Ok(())
    }

    /// The server opens none, because it may not push.
    fn is_idle(core: &Core<Self>, id: u32) -> bool {
        id.is_multiple_of(2) || id >= core.side.next
    }

    fn head(
        side: &mut Self,
        writer: &mut Writer,
        stream: &mut Stream,
        head: RequestHead,
        whole: Option<u64>,
    ) -> Result<Body, HttpError> {
        if stream.output != Half::Idle && !stream.asked.ends_with_data {
            return Err(Misuse::HeadWithinBody.into());
        }
        let connect = head.method == Method::CONNECT;
        let expects_body = [Method::POST, Method::PUT, Method::PATCH].contains(&head.method);
        let length = match whole {
            _ if connect => Length::Nothing,
            Some(len) if len > 0 || expects_body => Length::Is(len),
            _ => Length::AsSaid,
        };
        let ends = whole == Some(0) && !connect;
        let (id, tls) = (side.next, side.tls);
        let said = writer
            .head(id, ends, |encoder, block| head::write::request(encoder, block, &head, length, tls))?;
        stream.asked = Asked {
            head: head.method == Method::HEAD,
            connect,
            expects: said.expects,
            ends_with_data: stream.asked.ends_with_data,
            ..Asked::default()
        };
        stream.body_out.announced = if connect { None } else { whole.or(said.length) };
        stream.id = id;
        side.next += 2;
        recycle_request_box(head.into_box());
        Ok(if ends { Body::Nothing } else { Body::Follows })
    }

    fn interim(_: &mut Self, _: &mut Writer, _: &mut Stream, _: RequestHead) -> Result<(), HttpError> {
        Err(Misuse::Direction.into())
    }

    fn go_on(_: &mut Self, _: &mut Writer, _: &mut Stream) {}

    fn refusal(_: &mut Self, _: &mut Writer, _: &mut Stream, _: StatusCode, _: &str) -> bool {
        false
    }

    /// What the server has not looked at can be asked again, elsewhere. The rest goes on for as long as it takes: how long that may be is for those to
    /// say who wait for it.
    fn goes_away<P, F>(
        stage: &mut Client<P, F>,
        cx: &mut Context<'_, Client<P, F>>,
        last: u32,
        code: ErrorCode,
        said: &str,
    ) where
        P: Segment<ReplyPart, RequestPart>,
        F: FnMut() -> P + 'static,
    {
        if code != ErrorCode::NO_ERROR {
            let why = format!("the server went away: {said}");
            stage.core.side.gone = Some(Http2Error::connection(code, why));
        }
        stage.core.drain = Drain::Last(last);
        stage.core.side.tell(Capacity::Over);
        for place in stage.core.streams.all() {
            if stage.core.streams.get(place).is_some_and(|stream| stream.id > last || stream.id == 0) {
                stage.end_stream(cx, place, CloseCause::Reset(ErrorCode::REFUSED_STREAM.0.into()));
            }
        }
        stage.refuse_asks();
    }

    fn gone(core: &Core<Self>) -> Option<HttpError> {
        core.side.gone.clone().map(HttpError::from)
    }

    fn has_room<P, F>(stage: &mut Client<P, F>, cx: &mut Context<'_, Client<P, F>>)
    where
        P: Segment<ReplyPart, RequestPart>,
        F: FnMut() -> P + 'static,
    {
        while stage.may_open()
            && stage.core.drain == Drain::No
            && let Some((ask, done)) = stage.asks.pop_front()
        {
            stage.open(cx, ask, done);
        }
    }

    fn has_settings<P, F>(stage: &mut Client<P, F>, cx: &mut Context<'_, Client<P, F>>)
    where
        P: Segment<ReplyPart, RequestPart>,
        F: FnMut() -> P + 'static,
    {
        if stage.core.drain == Drain::No {
            let capacity = Capacity::Streams(stage.most_streams());
            stage.core.side.tell(capacity);
        }
        Self::has_room(stage, cx);
    }
}
