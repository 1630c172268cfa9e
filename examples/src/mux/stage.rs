//! The stage of a connection.

use super::{Frame, Kind, MuxError, MuxLimits, OpenError, code, stream::Stream};
use bytes::BytesMut;
use netwright::{
    Channel, CloseCause, Context, Event, Handler, Outgoing, Promised, WritePromise,
    channel::{ChildKey, Children, ShuttingDown},
    pipeline::Segment,
    promise::{Promise, promise},
};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    convert::Infallible,
};

/// Asks a connection for a stream: written to its channel. `W` is what the stream's pipeline takes.
///
/// ```
/// use netwright::{Channel, Outgoing};
/// use netwright_examples::mux::{Open, OpenError};
///
/// async fn ask(connection: &Channel<Open<Outgoing>>) -> Result<(), OpenError> {
///     let (open, stream) = Open::new();
///     connection.write_and_flush(open);
///     let stream: Channel<Outgoing> = stream.await?; // a channel like any other
///     stream.write_and_flush("hello");
///     Ok(())
/// }
/// ```
pub struct Open<W> {
    answer: Promise<Channel<W>, OpenError>,
}

impl<W: Send + 'static> Open<W> {
    /// What to write, and what comes of it.
    pub fn new() -> (Self, Promised<Channel<W>, OpenError>) {
        let (answer, stream) = promise();
        (Self { answer }, stream)
    }
}

/// Many streams in one connection, each with a pipeline of its own that reads bytes and writes bytes and files. The last stage of a connection,
/// the same on both sides.
///
/// ```
/// use netwright::{EmbeddedChannel, pipeline};
/// use netwright_examples::mux::{Frame, Kind, Mux};
/// use bytes::BytesMut;
///
/// let echo = || pipeline().handle(|cx, bytes| cx.write_and_flush(bytes)).starts_over().into_segment();
/// let mut server = EmbeddedChannel::new(pipeline().last(Mux::server(echo)));
/// server.write_inbound(Frame::encode(1, &Kind::Data(BytesMut::from("hello"))));
/// let sent = server.outbound_bytes();
/// assert!(sent.ends_with(&Frame::encode(1, &Kind::Data(BytesMut::from("hello"))))); // behind credit for more
/// ```
pub struct Mux<P: Segment<BytesMut, Outgoing>, F> {
    children: Children<P, BytesMut, Outgoing>,
    build: F,
    limits: MuxLimits,
    /// Bytes that are no whole frame yet.
    rest: BytesMut,
    streams: BTreeMap<u32, Stream>,
    numbers: HashMap<ChildKey, u32>,
    /// Streams that have something to send, in the order of their turns.
    line: VecDeque<u32>,
    /// Our next stream's number, and the last one of the peer's.
    next: u32,
    last: u32,
    shutting_down: bool,
}

impl<P: Segment<BytesMut, Outgoing>, F: FnMut() -> P> Mux<P, F> {
    /// The side that accepted the connection: opens streams of even numbers.
    pub fn server(build: F) -> Self {
        Self::new(build, 2)
    }

    /// The side that connected: opens streams of odd numbers.
    pub fn client(build: F) -> Self {
        Self::new(build, 1)
    }

    fn new(build: F, next: u32) -> Self {
        Self {
            children: Children::default(),
            build,
            limits: MuxLimits::default(),
            rest: BytesMut::new(),
            streams: BTreeMap::new(),
            numbers: HashMap::new(),
            line: VecDeque::new(),
            next,
            last: 0,
            shutting_down: false,
        }
    }

    /// Other limits.
    #[must_use]
    pub fn limits(mut self, limits: MuxLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Has somebody know each stream before anything happens to it.
    #[must_use]
    pub fn introduce(mut self, to: impl FnMut(&Channel<P::Tail>) + 'static) -> Self {
        self.children = self.children.introduce(to);
        self
    }
}

impl<P: Segment<BytesMut, Outgoing>, F: FnMut() -> P + 'static> Mux<P, F> {
    // ---- what the peer says ----

    fn take_frames(&mut self, cx: &mut Context<'_, Self>) -> Result<(), MuxError> {
        while let Some(frame) = Frame::decode(&mut self.rest, &self.limits)? {
            self.take(cx, frame)?;
        }
        Ok(())
    }

    fn take(&mut self, cx: &mut Context<'_, Self>, Frame { stream, kind }: Frame) -> Result<(), MuxError> {
        if !self.streams.contains_key(&stream) && !self.accept(cx, stream, &kind)? {
            return Ok(()); // it is over, or was refused
        }
        let Some(known) = self.streams.get_mut(&stream) else { return Ok(()) };
        match kind {
            Kind::Data(bytes) => {
                let length = bytes.len();
                known.received(stream, length)?;
                self.children.with(known.key, |child| child.received(bytes, length));
            }
            Kind::End if known.input_ended => return Err(MuxError::BehindTheEnd(stream)),
            Kind::End => {
                known.input_ended = true;
                let key = known.key;
                self.children.with(key, |child| child.input_closed());
                self.end_if_over(stream);
            }
            Kind::Credit(more) => {
                known.granted(stream, more)?;
                self.line_up(stream);
            }
            Kind::Reset(code) => self.end(stream, CloseCause::Reset(code.into())),
        }
        Ok(())
    }

    /// A number that we do not know: a new stream, or one that is over. False if nothing is to be done with the frame.
    fn accept(&mut self, cx: &mut Context<'_, Self>, stream: u32, kind: &Kind) -> Result<bool, MuxError> {
        let is_ours = stream % 2 == self.next % 2;
        if stream == 0 || is_ours && stream >= self.next {
            return Err(MuxError::WrongNumber(stream));
        }
        if is_ours || stream <= self.last {
            return Ok(false); // it was there: what was under way when it ended
        }
        self.last = stream;
        if matches!(kind, Kind::Reset(_)) {
            return Ok(false); // opened and given up
        }
        if self.streams.len() >= self.limits.streams || self.shutting_down {
            cx.write(Frame::encode(stream, &Kind::Reset(code::REFUSED)));
            return Ok(false);
        }
        match self.children.open(cx, &mut self.build) {
            Ok(key) => self.know(stream, key),
            Err(_) => {
                cx.write(Frame::encode(stream, &Kind::Reset(code::REFUSED)));
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn know(&mut self, stream: u32, key: ChildKey) {
        self.streams.insert(stream, Stream::new(key, self.limits.credit));
        self.numbers.insert(key, stream);
    }

    // ---- what streams say ----

    /// Looks who has something to say, and sends as much as there is room for.
    fn look(&mut self, cx: &mut Context<'_, Self>) {
        loop {
            while let Some(key) = self.children.next_ready() {
                match self.numbers.get(&key).copied() {
                    Some(stream) => self.line_up(stream),
                    None => drop(self.children.end(key, CloseCause::Requested)), // nobody's
                }
            }
            let Some(stream) = self.line.front().copied().filter(|_| cx.is_writable()) else { break };
            self.line.pop_front();
            self.turn(cx, stream);
        }
        cx.flush();
        if self.shutting_down && self.streams.is_empty() {
            cx.close_when_flushed();
        }
    }

    fn line_up(&mut self, stream: u32) {
        if let Some(known) = self.streams.get_mut(&stream)
            && !std::mem::replace(&mut known.in_line, true)
        {
            self.line.push_back(stream);
        }
    }

    /// A stream's turn: one frame of what it has, and whatever else is to be said of it.
    fn turn(&mut self, cx: &mut Context<'_, Self>, stream: u32) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        known.in_line = false;
        let most = known.to_send.min(self.limits.frame).min(u16::MAX.into());
        let turn = self.children.with(known.key, |child| {
            let credit = child.take_credit();
            if credit > 0 && !known.input_ended {
                known.to_receive += credit;
                cx.write(Frame::encode(stream, &Kind::Credit(credit as u32)));
            }
            let length =
                child.first().map_or(0, |message| usize::try_from(message.len()).unwrap_or(usize::MAX));
            if length > most && most > 0 {
                if let Some(part) = child.take_part(|message| message.split_to(most as u64)) {
                    known.to_send -= most;
                    cx.write(Frame::head(stream, most as u16));
                    cx.write(part); // a part of a file is still one
                }
            } else if length <= most
                && let Some((message, done)) = child.take_first()
            {
                known.to_send -= length;
                cx.write(Frame::head(stream, length as u16));
                cx.write_with(message, done);
            }
            if child.take_output_end() {
                known.output_ended = true;
                cx.write(Frame::encode(stream, &Kind::End));
            }
            let more = child.first().is_some_and(|next| known.to_send > 0 || next.is_empty());
            (child.take_close(), more)
        });
        match turn {
            None => self.forget(stream),
            Some((Some(cause), _)) => self.say_end(cx, stream, cause),
            Some((None, more)) => {
                if more {
                    self.line_up(stream);
                }
                self.end_if_over(stream);
            }
        }
    }

    /// A stream wants to end: its peer is told in the protocol's words.
    fn say_end(&mut self, cx: &mut Context<'_, Self>, stream: u32, cause: CloseCause) {
        let Some(known) = self.streams.get(&stream) else { return };
        let reset = match &cause {
            // Who ends behind its peer has ended in order too.
            CloseCause::Requested | CloseCause::PeerClosed | CloseCause::ShutDown => {
                if !known.output_ended {
                    cx.write(Frame::encode(stream, &Kind::End));
                }
                (!known.input_ended).then_some(code::NO_ERROR)
            }
            CloseCause::Reset(code) => Some(u32::try_from(*code).unwrap_or(code::CANCEL)),
            CloseCause::Panicked(_) | CloseCause::Fault(_) => Some(code::INTERNAL),
            _ => Some(code::CANCEL),
        };
        if let Some(code) = reset {
            cx.write(Frame::encode(stream, &Kind::Reset(code)));
        }
        self.end(stream, cause);
    }

    fn end_if_over(&mut self, stream: u32) {
        if self.streams.get(&stream).is_some_and(Stream::is_over) {
            self.end(stream, CloseCause::PeerClosed);
        }
    }

    fn end(&mut self, stream: u32, cause: CloseCause) {
        if let Some(key) = self.streams.get(&stream).map(|known| known.key) {
            self.forget(stream);
            self.children.end(key, cause);
        }
    }

    fn forget(&mut self, stream: u32) {
        if let Some(known) = self.streams.remove(&stream) {
            self.numbers.remove(&known.key);
        }
    }

    // ---- what our side asks for ----

    fn open(&mut self, cx: &mut Context<'_, Self>) -> Result<Channel<P::Tail>, OpenError> {
        if self.shutting_down {
            return Err(OpenError::ShuttingDown);
        }
        if self.streams.len() >= self.limits.streams {
            return Err(OpenError::TooMany(self.limits.streams));
        }
        let next = self.next.checked_add(2).ok_or(OpenError::NoNumbers)?;
        let key = self.children.open(cx, &mut self.build).map_err(OpenError::Child)?;
        let stream = std::mem::replace(&mut self.next, next);
        self.know(stream, key);
        self.children.channel(key).ok_or(OpenError::Gone)
    }
}

impl<P: Segment<BytesMut, Outgoing>, F: FnMut() -> P + 'static> Handler for Mux<P, F> {
    type Read = BytesMut;
    type ReadOut = Infallible;
    type Write = Open<P::Tail>;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        self.rest.unsplit(bytes);
        if let Err(error) = self.take_frames(cx) {
            cx.fire_error(error); // nobody is behind us: it ends the connection, and all streams with it
        }
        self.look(cx);
    }
    fn children_ready(&mut self, cx: &mut Context<'_, Self>) {
        self.look(cx);
    }
    fn writability(&mut self, cx: &mut Context<'_, Self>, writable: bool) {
        if writable {
            self.look(cx);
        }
    }
    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        if event.get::<ShuttingDown>().is_some() {
            self.shutting_down = true;
            self.look(cx);
        }
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, open: Open<P::Tail>, done: WritePromise) {
        match self.open(cx) {
            Ok(channel) => open.answer.succeed(channel),
            Err(error) => open.answer.fail(error),
        }
        done.succeed();
        self.look(cx);
    }
    /// A peer that sends no more gets the answers to what it has said in full.
    fn owes(&self) -> bool {
        self.streams.values().any(|stream| stream.input_ended && !stream.output_ended)
    }
}
