//! A connection of HTTP/2: one last stage, with a child for each stream.
//!
//! ```text
//!   bytes ─▶ FrameDecoder ─▶ frames ─▶ streams: windows, lengths, ends ─▶ child: parts of messages, as it asks for them
//!   bytes ◀─ Out ◀─ HEADERS, DATA ◀─ turns: room, windows, priorities  ◀─ child: parts wait in its line
//! ```
//! Always true:
//! 1. The connection reads whether or not anybody reads a stream: credit and resets never wait behind a handler. What a child has not
//!    asked for waits in the child, and its stream's credit with it.
//! 2. What a child has written stays there until the connection has room, both windows allow it and it is its turn. A stream that is reset
//!    costs no bytes.
//! 3. A stream counts until its child has ended, also if the peer has reset it.
//! 4. Each block of fields is decoded, whatever becomes of its stream, because the next one depends on it.
//! 5. Each state in which the peer is waited for has its deadline (`time`).
//!
//! | file | what it is |
//! | --- | --- |
//! | `side` | what servers and clients do differently |
//! | `server`, `client` | these two |
//! | `frames` | what the peer says |
//! | `sending` | whose turn it is, and what is sent |
//! | `ends` | how streams and connections end |
//! | `time` | how long a peer may take |
//! | `stream` | what is known of one stream |
//! | `window`, `turns`, `points` | flow control, priorities, what abuse costs |

mod client;
mod ends;
mod frames;
mod points;
mod sending;
mod server;
mod side;
mod stream;
#[cfg(test)]
mod tests;
mod time;
mod turns;
mod window;

#[cfg(feature = "client")]
pub(crate) use client::Capacity;
pub use client::{ClientSide, Http2Client, http2_client};
pub use server::{Http2Server, ServerSide, http2_server};
pub use side::Side;

use self::{
    points::Points,
    sending::Writer,
    side::Role,
    stream::Streams,
    time::Clock,
    turns::Turns,
    window::{RecvWindow, SendWindow, WINDOW_MAX},
};
use super::{
    code::ErrorCode,
    error::Http2Error,
    frame::{FrameDecoder, MAX_FRAME_DEFAULT, PREFACE, Settings, encode},
    hpack,
};
use crate::{
    codec::{input::Input, out::Out},
    limits::HttpLimits,
    message::HttpPart,
};
use bytes::{Buf, Bytes, BytesMut};
use netwright_core::{
    ChildSettings, Children, CloseCause, Context, Event, HalfClosure, Handler, Hold, Outgoing, Segment,
    ShuttingDown, StageTimer, WritePromise,
};
use std::{collections::VecDeque, convert::Infallible, fmt, sync::Arc};

/// Windows of streams and of the connection before anybody has said anything.
const WINDOW_DEFAULT: u32 = 65_535;

/// A connection that speaks HTTP/2: [`Http2Server`].
pub struct Http2<S: Side, P, F>
where
    P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
{
    children: Children<P, HttpPart<S::In>, HttpPart<S::Out>>,
    build: F,
    /// What is to open streams when the peer takes more.
    asks: VecDeque<(S::Ask<P::Tail>, WritePromise)>,
    core: Core<S>,
}

/// All of a connection but its children.
pub(crate) struct Core<S: Side> {
    limits: Arc<HttpLimits>,
    phase: Phase,
    input: Input,
    frames: FrameDecoder,
    decoder: hpack::Decoder,
    writer: Writer,
    streams: Streams,
    turns: Turns,
    /// A block of fields that is not over.
    block: Option<Box<Block>>,
    peer: PeerSays,
    recv: RecvWindow,
    /// What children hold that nobody has read, and what of it was not granted again for that reason.
    unread: u64,
    withheld: u64,
    points: Points,
    /// The last stream of the peer's that was looked at.
    last: u32,
    /// Streams that the peer has opened.
    opened: u64,
    drain: Drain,
    /// The peer sends no more.
    input_over: bool,
    /// Streams that we have reset a moment ago: what comes of them was sent before the peer knew.
    resets: VecDeque<u32>,
    clock: Clock,
    insists: Option<Box<Hold>>,
    /// What may be sent once the peer has been heard, and not before.
    held_back: u32,
    side: S,
}

/// What the peer takes.
#[derive(Debug, Clone, Copy)]
struct PeerSays {
    window: u32,
    streams: usize,
    connect_protocol: bool,
}

/// A block of fields: whole, or as much of it as has come.
struct Block<B = BytesMut> {
    stream: u32,
    end_stream: bool,
    bytes: B,
    /// Frames behind the first one.
    continuations: u32,
}

impl Block {
    fn freeze(self) -> Block<Bytes> {
        let Self { stream, end_stream, bytes, continuations } = self;
        Block { stream, end_stream, bytes: bytes.freeze(), continuations }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// So many bytes of the client's preface have come.
    Preface(usize),
    Open,
    /// The peer was told why; what it still sends is thrown away for a while.
    Lingering,
    Closing,
}

/// How a connection ends in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drain {
    No,
    /// The peer was told that the end comes. What it sends until it knows is still answered.
    Announced,
    /// It knows; nothing above this stream is answered.
    Last(u32),
}

/// The ping by which we learn that the peer knows of the end.
const DRAIN_PING: [u8; 8] = *b"draining";

/// Pipelines of streams that have ended which are kept for the next ones: what is under way at a time on a busy connection.
const CHILDREN_KEPT: usize = 32;

type Cx<'a, S, P, F> = Context<'a, Http2<S, P, F>>;

impl<S: Side> Core<S> {
    fn new(limits: Arc<HttpLimits>, side: S) -> Self {
        let own = &limits.http2;
        Self {
            phase: if S::IS_SERVER { Phase::Preface(0) } else { Phase::Open },
            input: Input::default(),
            frames: FrameDecoder::default(),
            decoder: hpack::Decoder::default(),
            writer: Writer {
                out: Out::default(),
                encoder: hpack::Encoder::default(),
                frame: MAX_FRAME_DEFAULT,
                window: SendWindow::new(WINDOW_DEFAULT),
                sent: 0,
            },
            streams: Streams::default(),
            turns: Turns::default(),
            block: None,
            peer: PeerSays {
                window: WINDOW_DEFAULT,
                streams: 100, // until it says how many
                connect_protocol: false,
            },
            recv: RecvWindow::new(own.connection_window.clamp(WINDOW_DEFAULT, WINDOW_MAX)),
            unread: 0,
            withheld: 0,
            points: Points::new(own.points, own.points_per_second),
            last: 0,
            opened: 0,
            drain: Drain::No,
            input_over: false,
            resets: VecDeque::new(),
            clock: Clock::default(),
            insists: None,
            held_back: 0,
            side,
            limits,
        }
    }

    /// What we say first.
    fn greet(&mut self) {
        let own = &self.limits.http2;
        let settings = Settings {
            header_table_size: (own.table != 4096).then_some(own.table),
            enable_push: (!S::IS_SERVER).then_some(false),
            max_concurrent_streams: S::IS_SERVER.then(|| own.streams.try_into().unwrap_or(u32::MAX)),
            initial_window_size: Some(own.stream_window.min(WINDOW_MAX)),
            max_header_list_size: Some(self.limits.head.try_into().unwrap_or(u32::MAX)),
            enable_connect_protocol: S::IS_SERVER.then_some(true),
            no_rfc7540_priorities: Some(true),
            ..Settings::default()
        };
        let more = self.recv.size() - WINDOW_DEFAULT;
        self.writer.begin();
        if !S::IS_SERVER {
            self.writer.out.buffer.extend_from_slice(PREFACE);
        }
        encode::settings(&mut self.writer.out.buffer, &settings);
        if more > 0 {
            encode::window_update(&mut self.writer.out.buffer, 0, more);
        }
    }

    /// Takes what has come of the preface. `Ok(false)`: more is needed.
    fn preface(&mut self) -> Result<bool, Http2Error> {
        let Phase::Preface(seen) = self.phase else { return Ok(true) };
        let rest = &PREFACE[seen..];
        let len = rest.len().min(self.input.len());
        if self.input.bytes[..len] != rest[..len] {
            return Err(Http2Error::connection(
                ErrorCode::PROTOCOL_ERROR,
                "the client did not begin as clients of HTTP/2 do",
            ));
        }
        self.input.bytes.advance(len);
        self.phase = if len == rest.len() { Phase::Open } else { Phase::Preface(seen + len) };
        Ok(self.phase == Phase::Open)
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Lingering | Phase::Closing)
    }
}

#[allow(private_bounds)]
impl<S, P, F> Http2<S, P, F>
where
    S: Role,
    P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
    F: FnMut() -> P + 'static,
{
    fn with_side(build: F, limits: Arc<HttpLimits>, side: S) -> Self {
        let mut settings = ChildSettings::default();
        settings.weight = HttpPart::WEIGHT;
        settings.keep = CHILDREN_KEPT;
        Self {
            children: Children::new(settings),
            build,
            asks: VecDeque::new(),
            core: Core::new(limits, side),
        }
    }

    /// Other limits; an `Arc` of them is shared by many connections.
    #[must_use]
    pub fn limits(mut self, limits: impl Into<Arc<HttpLimits>>) -> Self {
        let Core { side, .. } = self.core;
        self.core = Core::new(limits.into(), side);
        self
    }

    /// Has somebody know each stream before anything happens to it: to put it into a [group](netwright_core::ChannelGroup), for
    /// instance.
    #[must_use]
    pub fn introduce(mut self, to: impl FnMut(&netwright_core::Channel<P::Tail>) + 'static) -> Self {
        self.children = self.children.introduce(to);
        self
    }

    /// Decodes what has come, and tells the streams.
    fn take_frames(&mut self, cx: &mut Cx<'_, S, P, F>) {
        match self.core.preface() {
            Ok(true) => {}
            Ok(false) => return self.core.input.put_aside(),
            Err(error) => return self.fail(cx, error),
        }
        let mut found = false;
        while self.core.phase == Phase::Open {
            let next = self.core.frames.next(&mut self.core.input.bytes, MAX_FRAME_DEFAULT);
            let done = match next {
                Ok(Some(frame)) => {
                    found = true;
                    self.take(cx, frame)
                }
                Ok(None) => break,
                Err(error) => Err(error.into()),
            };
            match done {
                Ok(()) => {}
                Err(error) if error.stream.is_some() => self.refuse_stream(cx, error),
                Err(error) => return self.fail(cx, error),
            }
        }
        self.core.input.put_aside();
        self.watch_frame(cx, found);
    }
}

#[allow(private_bounds)]
impl<S, P, F> Handler for Http2<S, P, F>
where
    S: Role,
    P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
    F: FnMut() -> P + 'static,
{
    type Read = BytesMut;
    type ReadOut = Infallible;
    type Write = S::Ask<P::Tail>;
    type WriteOut = Outgoing;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.core.greet();
        self.core.writer.out.flush(cx);
        cx.flush();
        self.begin_watch(cx);
        S::begin(self, cx);
        cx.fire_active();
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        match self.core.phase {
            Phase::Preface(_) | Phase::Open => {
                self.core.clock.heard(cx.now());
                self.core.input.feed(bytes);
                self.take_frames(cx);
            }
            Phase::Lingering => self.lingered(cx, bytes.len()),
            Phase::Closing => {}
        }
    }

    fn read_complete(&mut self, cx: &mut Context<'_, Self>) {
        self.look(cx);
        cx.fire_read_complete();
    }

    fn children_ready(&mut self, cx: &mut Context<'_, Self>) {
        self.look(cx);
    }

    fn writability(&mut self, cx: &mut Context<'_, Self>, writable: bool) {
        if writable {
            self.look(cx);
        }
        cx.fire_writability(writable);
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, ask: S::Ask<P::Tail>, done: WritePromise) {
        S::asked(self, cx, ask, done);
    }

    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        if event.get::<ShuttingDown>().is_some() {
            self.drain(cx);
        }
        cx.fire_event(event);
    }

    /// What was asked for as a whole is still answered.
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        self.input_ended(cx);
        cx.fire_input_closed();
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.core.phase = Phase::Closing;
        cx.fire_inactive(cause);
    }

    fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        self.say_goodbye(&cause);
        self.core.writer.out.flush(cx);
        cx.flush();
        cx.close_with(cause, done);
    }

    fn shut_down_output(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
        self.core.writer.out.flush(cx);
        cx.shut_down_output_with(done);
    }

    fn timer(&mut self, cx: &mut Context<'_, Self>, timer: StageTimer) {
        self.due(cx, timer);
    }

    fn owes(&self) -> bool {
        !self.core.is_over() && !self.core.streams.is_empty()
    }

    fn name(&self) -> &'static str {
        S::NAME
    }
}

impl<S, P, F> fmt::Debug for Http2<S, P, F>
where
    S: Side,
    P: Segment<HttpPart<S::In>, HttpPart<S::Out>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(S::NAME)
            .field("phase", &self.core.phase)
            .field("streams", &self.core.streams.len())
            .field("points", &self.core.points.left())
            .finish_non_exhaustive()
    }
}
