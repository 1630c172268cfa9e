//! The side that answers.

use super::{
    Block, Core, Drain, Http2, Http2Error, WINDOW_DEFAULT,
    points::price,
    sending::Writer,
    side::{Body, Role, Side},
    stream::{Asked, Half, Stream},
    window::SendWindow,
};
use crate::{
    codec::{
        h1::{default_limits, is_bodiless},
        h2::{
            code::ErrorCode,
            frame::{Settings, encode},
            head::{self, write::Length},
        },
    },
    error::{HttpError, Misuse},
    message::{HttpPart, ReplyHead, ReplyPart, RequestHead, RequestPart, recycle_reply_head},
};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use netwright_core::{Context, IntoPipeline, Segment, WritePromise};
use std::convert::Infallible;

/// The server's side of [`Http2Server`].
#[derive(Debug)]
pub struct ServerSide {
    /// Whether `date` is added to replies.
    date: bool,
    requests: head::RequestReader,
    /// What was asked for by HTTP/1.1.
    before: Option<Box<(Settings, RequestHead)>>,
}

/// HTTP/2 as a server speaks it: the last stage of a connection, with a pipeline `P` for each stream. Made by [`http2_server`].
pub type Http2Server<P, F> = Http2<ServerSide, P, F>;

/// A server of HTTP/2 alone, for connections of which that is known: each stream is a channel with stages of its own, which `build` makes. They read
/// [`RequestPart`]s and write [`ReplyPart`]s, as those behind an [`HttpServer`](crate::HttpServer) do.
///
/// ```
/// use http::Response;
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{Received, http2::http2_server, respond};
///
/// let hello = |request: &Received| Response::new(format!("hello, {}", request.uri()));
/// let server = pipeline().last(http2_server(move || pipeline().app(respond(hello))));
/// let mut channel = EmbeddedChannel::new(server);
/// assert_eq!(channel.outbound_bytes()[3], 4, "settings come first");
/// ```
pub fn http2_server<B, T>(
    mut build: impl FnMut() -> B + 'static,
) -> Http2Server<B::Segment, impl FnMut() -> B::Segment + 'static>
where
    B: IntoPipeline<T, RequestPart, ReplyPart, Written = ReplyPart>,
{
    Http2::with_side(
        move || build().into_pipeline(),
        default_limits(),
        ServerSide { date: true, requests: head::RequestReader::default(), before: None },
    )
}

impl<P, F> Http2Server<P, F>
where
    P: Segment<RequestPart, ReplyPart>,
{
    /// A request came before the connection spoke HTTP/2, with the client's settings: it is stream 1, of which the client sends no more.
    pub(crate) fn asked_before(mut self, settings: Settings, request: RequestHead) -> Self {
        self.core.side.before = Some(Box::new((settings, request)));
        self
    }

    /// Whether `date` is added to replies that have none. Default: yes, as servers with a clock have to.
    #[must_use]
    pub fn date(mut self, date: bool) -> Self {
        self.core.side.date = date;
        self
    }
}

impl Side for ServerSide {
    type In = RequestHead;
    type Out = ReplyHead;
    type Ask<T: 'static> = Infallible;
    const IS_SERVER: bool = true;
    const NAME: &'static str = "Http2Server";
}

/// How much of a body is sent right behind a 101. What comes before the client has spoken HTTP/2 itself has to fit into what it reads the head of a
/// reply with: for curl that is 32 KiB.
const BEHIND_UPGRADE: u32 = 16 * 1024;

type Server<P, F> = Http2<ServerSide, P, F>;

impl<P, F> Server<P, F>
where
    P: Segment<RequestPart, ReplyPart>,
    F: FnMut() -> P + 'static,
{
    /// The head of a new request.
    fn request(&mut self, cx: &mut Context<'_, Self>, block: &Block<Bytes>) -> Result<(), Http2Error> {
        let id = block.stream;
        let core = &mut self.core;
        let read = core.side.requests.read(&mut core.decoder, &block.bytes, &core.limits, true)?;
        core.last = id;
        core.opened += 1;
        if matches!(core.drain, Drain::Last(last) if id > last) {
            return Ok(()); // it was told that nothing behind that is looked at
        }
        if self.children.len() + self.children.parting() >= core.limits.http2.streams {
            let why = format!("{} streams are the most allowed", core.limits.http2.streams);
            return Err(Http2Error::stream(ErrorCode::REFUSED_STREAM, id, why));
        }
        let request = match read {
            Ok(request) => request,
            Err(error) => return self.refuse_request(cx, block, error),
        };
        if block.end_stream && request.facts.content_length.is_some_and(|length| length > 0) {
            request.head.recycle();
            let why = "a body was announced and none follows";
            return Err(Http2Error::stream(ErrorCode::PROTOCOL_ERROR, id, why));
        }
        self.open(cx, id, request, block.end_stream)
    }

    /// Opens a stream with its request.
    fn open(
        &mut self,
        cx: &mut Context<'_, Self>,
        id: u32,
        request: head::Request,
        end: bool,
    ) -> Result<(), Http2Error> {
        let place = self.core.streams.next_place();
        let head::Request { head, facts } = request;
        let opened = self.children.open_with(cx, &mut self.build, |child| {
            child.set_tag(place);
            let part = if end { HttpPart::Whole(head, Bytes::new()) } else { HttpPart::Head(head) };
            // Who does not read a part of a request must not keep it when the rest cannot come.
            child.drop_unread_at_end(!end && !facts.connect);
            child.received(part, 0);
            if end && facts.connect {
                child.input_closed();
            }
        });
        let key = match opened {
            Ok(key) => key,
            Err(error) => return Err(Http2Error::stream(ErrorCode::REFUSED_STREAM, id, error.to_string())),
        };
        let core = &mut self.core;
        let mut stream = Stream::new(id, key, core.peer.window, core.new_window());
        stream.input = if end { Half::Over } else { Half::Open };
        stream.body_in.left = facts.content_length;
        stream.priority = facts.priority;
        stream.asked = Asked {
            head: facts.head,
            connect: facts.connect,
            expects: facts.expects && !end,
            ..Asked::default()
        };
        let first = core.streams.is_empty();
        core.streams.insert(stream);
        if first {
            self.watch_stream(cx);
        }
        if self.core.opened >= self.core.limits.requests {
            self.drain(cx);
            // Who goes on as if it had not heard of the end has had enough of what was under way.
            let most = self.core.limits.requests.saturating_add(2 * self.core.limits.http2.streams as u64);
            if self.core.drain == Drain::Announced && self.core.opened >= most {
                self.drain_behind_last(cx);
            }
        }
        Ok(())
    }

    /// A request that is answered here: no child hears of it.
    #[cold]
    fn refuse_request(
        &mut self,
        cx: &mut Context<'_, Self>,
        block: &Block<Bytes>,
        error: HttpError,
    ) -> Result<(), Http2Error> {
        let id = block.stream;
        tracing::debug!(channel = %cx.view().id(), stream = id, %error, "refused");
        if !matches!(error, HttpError::TooMuch { .. } | HttpError::Expectation(_)) {
            return Err(Http2Error::stream(ErrorCode::PROTOCOL_ERROR, id, error.to_string()));
        }
        self.charge(cx, price::RESET)?;
        let core = &mut self.core;
        core.writer.reply_alone(core.side.date, id, error.status());
        if !block.end_stream {
            core.write_reset_of(id, ErrorCode::NO_ERROR);
        }
        Ok(())
    }

    /// Fields behind a body.
    fn trailers(
        &mut self,
        cx: &mut Context<'_, Self>,
        place: u32,
        block: &Block<Bytes>,
    ) -> Result<(), Http2Error> {
        let (core, id) = (&mut self.core, block.stream);
        let read = head::read_trailers(&mut core.decoder, &block.bytes, &core.limits)?;
        let Some(stream) = core.streams.get(place) else { return Ok(()) };
        if stream.input != Half::Open {
            return Err(Http2Error::stream(
                ErrorCode::STREAM_CLOSED,
                id,
                "a head behind the end of its stream",
            ));
        }
        if !block.end_stream {
            return Err(Http2Error::stream(
                ErrorCode::PROTOCOL_ERROR,
                id,
                "trailers that do not end their stream",
            ));
        }
        if stream.body_in.left.is_some_and(|left| left > 0) {
            let why = "the body is not as long as was announced";
            return Err(Http2Error::stream(ErrorCode::PROTOCOL_ERROR, id, why));
        }
        match read {
            Ok(trailers) => {
                stream.input = Half::Over;
                let tunnel = stream.asked.tunnel || stream.asked.connect;
                self.children.with(stream.key, |child| {
                    child.drop_unread_at_end(false);
                    child.received(HttpPart::End(Some(trailers)), 0);
                    if tunnel {
                        child.input_closed();
                    }
                });
                self.said_all(cx, place);
                Ok(())
            }
            Err(error @ HttpError::TooMuch { .. }) => {
                self.charge(cx, price::RESET)?;
                self.refuse(cx, place, error);
                Ok(())
            }
            Err(error) => Err(Http2Error::stream(ErrorCode::PROTOCOL_ERROR, id, error.to_string())),
        }
    }
}

impl Role for ServerSide {
    fn begin<P, F>(stage: &mut Server<P, F>, cx: &mut Context<'_, Server<P, F>>)
    where
        P: Segment<RequestPart, ReplyPart>,
        F: FnMut() -> P + 'static,
    {
        let Some(before) = stage.core.side.before.take() else { return };
        let (settings, head) = *before;
        let (core, request) = (&mut stage.core, head::Request::asked_by_http1(head));
        (core.last, core.opened) = (1, 1);
        core.writer.window = SendWindow::new(BEHIND_UPGRADE);
        core.held_back = WINDOW_DEFAULT - BEHIND_UPGRADE;
        let done = stage.apply(settings).and_then(|()| stage.open(cx, 1, request, true));
        match done {
            Ok(()) => stage.look(cx),
            Err(error) if error.stream.is_some() => stage.refuse_stream(cx, error),
            Err(error) => stage.fail(cx, error),
        }
    }

    fn asked<P, F>(_: &mut Server<P, F>, _: &mut Context<'_, Server<P, F>>, ask: Infallible, _: WritePromise)
    where
        P: Segment<RequestPart, ReplyPart>,
        F: FnMut() -> P + 'static,
    {
        match ask {}
    }

    fn fields<P, F>(
        stage: &mut Server<P, F>,
        cx: &mut Context<'_, Server<P, F>>,
        block: Block<Bytes>,
    ) -> Result<(), Http2Error>
    where
        P: Segment<RequestPart, ReplyPart>,
        F: FnMut() -> P + 'static,
    {
        let id = block.stream;
        if id > stage.core.last && !id.is_multiple_of(2) {
            return stage.request(cx, &block);
        }
        if let Some(place) = stage.core.streams.place(id) {
            return stage.trailers(cx, place, &block);
        }
        let core = &mut stage.core;
        core.decoder.skip(&block.bytes)?; // what comes next depends on it
        if Self::is_idle(core, id) || core.resets.contains(&id) {
            return stage.stray(id);
        }
        let why = "a head on a stream that has ended";
        Err(Http2Error::connection(ErrorCode::STREAM_CLOSED, why))
    }

    /// We open none.
    fn is_idle(core: &Core<Self>, id: u32) -> bool {
        id.is_multiple_of(2) || id > core.last
    }

    #[inline]
    fn head(
        side: &mut Self,
        writer: &mut Writer,
        stream: &mut Stream,
        head: ReplyHead,
        whole: Option<u64>,
    ) -> Result<Body, HttpError> {
        let status = head.status;
        if stream.output != Half::Idle {
            return Err(Misuse::HeadWithinBody.into());
        }
        if status.as_u16() < 200 {
            return Err(Misuse::Status(status.as_u16()).into()); // 101 is not for HTTP/2
        }
        let tunnel = stream.asked.connect && status.is_success();
        let bodiless = is_bodiless(status);
        if bodiless && whole.is_some_and(|len| len > 0) {
            return Err(Misuse::NoBodyAllowed(status.as_u16()).into());
        }
        let nothing = stream.asked.head || bodiless;
        let length = match whole {
            _ if tunnel || status == StatusCode::NO_CONTENT => Length::Nothing,
            Some(len) if nothing && len > 0 => Length::OrElse(len),
            Some(len) if !nothing => Length::Is(len),
            _ => Length::AsSaid,
        };
        let ends = nothing || whole == Some(0) && !tunnel;
        let said = writer.head(stream.id, ends, |encoder, block| {
            head::write::reply(encoder, block, &head, length, side.date)
        })?;
        stream.body_out.announced = if nothing || tunnel { None } else { whole.or(said.length) };
        stream.body_out.nothing = nothing;
        stream.asked.tunnel = tunnel;
        stream.asked.expects = false;
        recycle_reply_head(head);
        Ok(if ends { Body::Nothing } else { Body::Follows })
    }

    fn interim(
        _: &mut Self,
        writer: &mut Writer,
        stream: &mut Stream,
        head: ReplyHead,
    ) -> Result<(), HttpError> {
        if stream.output != Half::Idle {
            return Err(Misuse::HeadWithinBody.into());
        }
        if !head.status.is_informational() || head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Misuse::Status(head.status.as_u16()).into());
        }
        if head.status == StatusCode::CONTINUE {
            stream.asked.expects = false;
        }
        writer.reply(false, stream.id, false, &head, Length::Nothing)
    }

    fn go_on(_: &mut Self, writer: &mut Writer, stream: &mut Stream) {
        writer.begin();
        let _ =
            writer.reply(false, stream.id, false, &ReplyHead::from(StatusCode::CONTINUE), Length::Nothing);
    }

    fn refusal(
        side: &mut Self,
        writer: &mut Writer,
        stream: &mut Stream,
        status: StatusCode,
        why: &str,
    ) -> bool {
        stream.output = Half::Over;
        writer.refuse(side.date, stream, status, why);
        true
    }

    fn goes_away<P, F>(_: &mut Server<P, F>, _: &mut Context<'_, Server<P, F>>, _: u32, _: ErrorCode, _: &str)
    where
        P: Segment<RequestPart, ReplyPart>,
        F: FnMut() -> P + 'static,
    {
        // It takes no pushes, which we do not make; its own streams go on.
    }

    fn gone(_: &Core<Self>) -> Option<HttpError> {
        None
    }

    fn has_settings<P, F>(_: &mut Server<P, F>, _: &mut Context<'_, Server<P, F>>)
    where
        P: Segment<RequestPart, ReplyPart>,
        F: FnMut() -> P + 'static,
    {
    }

    fn has_room<P, F>(_: &mut Server<P, F>, _: &mut Context<'_, Server<P, F>>)
    where
        P: Segment<RequestPart, ReplyPart>,
        F: FnMut() -> P + 'static,
    {
    }
}

impl Writer {
    /// The head of a reply.
    fn reply(
        &mut self,
        date: bool,
        id: u32,
        ends: bool,
        head: &ReplyHead,
        length: Length,
    ) -> Result<(), HttpError> {
        self.head(id, ends, |encoder, block| head::write::reply(encoder, block, head, length, date).map(drop))
    }

    /// A whole reply of the connection's own, which says why there is no other, as far as the windows allow.
    fn refuse(&mut self, date: bool, stream: &mut Stream, status: StatusCode, why: &str) {
        let text = format!("{why}\n");
        let len = text.len();
        if len > stream.send.available().min(self.window.available()) && !stream.asked.head {
            return self.reply_alone(date, stream.id, status);
        }
        let mut head = ReplyHead::from(status);
        head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        self.begin();
        let length = Length::Is(len as u64);
        let written = self.reply(date, stream.id, stream.asked.head, &head, length).is_ok();
        if written && !stream.asked.head {
            stream.send.took(len);
            self.window.took(len);
            encode::data_head(&mut self.out.buffer, stream.id, len, true);
            self.out.buffer.extend_from_slice(text.as_bytes());
        }
    }

    /// A reply of which only the status is known.
    fn reply_alone(&mut self, date: bool, id: u32, status: StatusCode) {
        self.begin();
        let _ = self.reply(date, id, true, &ReplyHead::from(status), Length::Is(0)); // nothing in it contradicts
    }
}
