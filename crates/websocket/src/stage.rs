//! WebSocket as a stage: frames on the wire's side, messages on the application's.
//!
//! ```text
//!            ┌───────── peer's close: answered ─────────────────────────────────────▶┐
//!   Open ────┼─ our close: sent ──▶ Asked ── peer's close, or the deadline ─────────▶ Over ──▶ socket closed
//!            └─ violation: told by a close frame, output shut down ──▶ Failed ── linger ──▶┘
//! ```
//! Always true:
//! 1. One close frame is sent at most, and nothing behind it.
//! 2. Behind the peer's close, or a violation, nothing of the peer is looked at.
//! 3. However the channel is closed from our side, the peer gets a close frame first, and no more time than the deadline; none,
//!    if it ends with a panic.
//! 4. The peer's close is answered when the application has asked for what follows its last message, so that it can answer that.
//! 5. Of pings that come while there is no room to write only the last one is answered, when there is.
//! 6. Behind a close handshake, or a violation, it no longer matters how the socket ends: the cause is what was said.
//!
//! Not here: frames (`decode`, `gather`), when a peer counts as gone (`watch`), the handshake before (`handshake`).

use crate::{
    Close, CloseCode, ClosedByPeer, Config, Message, NoClose, Violation, chance,
    decode::Decoder,
    deflate::{Agreed, Deflater, Inflater},
    frame::{CONTROL_MAX, Opcode, Role},
    gather::{Frame, Gather},
    watch::{Next, Seen, Watch},
};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    CloseCause, Context, Event, HalfClosure, Handler, Hold, Leftover, Promise, PromiseError, SharedPromised,
    ShuttingDown, StageTimer, Weight, WriteError, WritePromise, promise,
};
use std::{fmt, sync::Arc, time::Duration};

/// Frames to messages and back, with everything that belongs to it: pings, the close handshake, limits, compression.
///
/// The handshake has taken place before.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_websocket::{Config, Message, WebSocket};
///
/// let echo = pipeline().add(WebSocket::client(Config::default()));
/// let mut channel = EmbeddedChannel::new(echo);
/// channel.write_inbound(b"\x81\x05hello");
/// assert_eq!(channel.read_inbound(), Some(Message::from("hello")));
/// channel.write_inbound(b"\x88\x02\x03\xe8"); // the peer closes, and is answered
/// assert_eq!(channel.outbound_bytes().len(), 8);
/// ```
///
/// As an event it tells the stages behind it [`PeerClosed`] when the peer begins to close. A channel whose peer has broken the
/// protocol ends with a [`Violation`] as its cause, one whose peer closed for a reason with [`ClosedByPeer`], and one whose
/// peer vanished with [`NoClose`].
pub struct WebSocket {
    role: Role,
    phase: Phase,
    /// While asked: whether messages still go to the application.
    deliver: bool,
    /// Delivery was insisted on.
    insists: Option<Box<Hold>>,
    watch: Watch,
    decoder: Decoder,
    input: BytesMut,
    gather: Gather,
    timer: Option<(StageTimer, Due)>,
    config: Arc<Config>,
    deflater: Option<Box<Deflater>>,
    rare: Option<Box<Rare>>,
    /// Who wants to hear how it all ended, once they do.
    over: Option<Box<Over>>,
}

struct Over {
    promise: Promise<CloseCause>,
    promised: SharedPromised<CloseCause, PromiseError>,
    cause: Option<CloseCause>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// We have sent a close frame.
    Asked,
    /// The peer broke the protocol and was told.
    Failed,
    /// Both have sent a close frame.
    Over,
}

/// What the timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Look,
    Close,
}

/// What most connections have only at their end, if ever.
#[derive(Debug, Default)]
struct Rare {
    /// Why the channel ends.
    cause: Option<CloseCause>,
    /// Who waits for the end.
    waiting: Vec<WritePromise>,
    /// A ping that is not answered yet, for lack of room.
    ping: Option<Bytes>,
    /// The peer's close, which was seen while the application asked for nothing: it may have something to say first.
    close: Option<Close>,
}

/// The peer has begun to close: with this code and reason. An event for the stages behind a [`WebSocket`].
///
/// ```
/// use netwright_core::Event;
/// use netwright_websocket::PeerClosed;
///
/// fn report(event: &Event) {
///     if let Some(PeerClosed(close)) = event.get() {
///         println!("the peer says goodbye: {close}");
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerClosed(pub Close);

impl WebSocket {
    /// The server's end of a connection. Without compression; see [`agreed`](Self::agreed).
    pub fn server(config: impl Into<Arc<Config>>) -> Self {
        Self::new(Role::Server, config.into())
    }

    /// The client's end of a connection. Without compression; see [`agreed`](Self::agreed).
    pub fn client(config: impl Into<Arc<Config>>) -> Self {
        Self::new(Role::Client, config.into())
    }

    fn new(role: Role, config: Arc<Config>) -> Self {
        let decoder = Decoder::new(role, &config, None);
        Self {
            role,
            phase: Phase::Open,
            deliver: true,
            insists: None,
            watch: Watch::default(),
            decoder,
            input: BytesMut::new(),
            gather: Gather::default(),
            timer: None,
            config,
            deflater: None,
            rare: None,
            over: None,
        }
    }
}

impl WebSocket {
    /// With the compression that the handshake has agreed to.
    pub fn agreed(mut self, agreed: Option<Agreed>) -> Self {
        let Some(agreed) = agreed else { return self };
        let ours = self.config.deflate.clone().unwrap_or_default();
        let peer = match self.role {
            Role::Server => Role::Client,
            Role::Client => Role::Server,
        };
        self.decoder = Decoder::new(self.role, &self.config, Some(Inflater::new(&agreed, &ours, peer)));
        self.deflater = Deflater::new(&agreed, &ours, self.role).map(Box::new);
        self
    }

    /// The end, for others: resolves when everything behind this stage is over, too, to the cause that it was told. To be
    /// asked before the stage is put into a pipeline.
    ///
    /// The end of the channel itself ([`Channel::closed`](netwright_core::Channel::closed)) is the end of its socket. That may
    /// come while messages are still to be read, and does not know whether the peer has said goodbye. Fails if the pipeline
    /// does not hear of the end, because it panicked.
    ///
    /// ```
    /// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
    /// use netwright_websocket::{Config, NoClose, WebSocket};
    ///
    /// let mut socket = WebSocket::client(Config::default());
    /// let over = socket.over();
    /// let mut channel = EmbeddedChannel::new(pipeline().add(socket).handle(|_, _| {}));
    /// channel.close_by_peer(); // without a close frame
    /// drop(channel);
    /// assert!(matches!(over.wait(), Ok(CloseCause::Fault(fault)) if fault.downcast_ref::<NoClose>().is_some()));
    /// ```
    pub fn over(&mut self) -> SharedPromised<CloseCause, PromiseError> {
        let over = self.over.get_or_insert_with(|| {
            let (promise, promised) = promise();
            Box::new(Over { promise, promised: promised.shared(), cause: None })
        });
        over.promised.clone()
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

impl WebSocket {
    // ---- writing ----

    #[inline]
    fn frame(&mut self, cx: &mut Context<'_, Self>, opcode: Opcode, payload: Bytes, done: WritePromise) {
        let packed = match &mut self.deflater {
            Some(deflater) if !opcode.is_control() => deflater.compress(&payload),
            _ => None,
        };
        let compressed = packed.is_some();
        let mask = (self.role == Role::Client).then(chance::drawn);
        let frame = Frame { opcode, compressed, payload: packed.unwrap_or(payload), mask };
        self.gather.write(cx, frame, done);
    }

    fn control(&mut self, cx: &mut Context<'_, Self>, opcode: Opcode, payload: Bytes) {
        self.frame(cx, opcode, payload, WritePromise::untracked());
        self.gather.pass_on(cx);
        cx.flush();
    }

    fn pong(&mut self, cx: &mut Context<'_, Self>, payload: Bytes) {
        if cx.is_writable() {
            self.control(cx, Opcode::Pong, payload);
        } else {
            self.rare().ping = Some(Bytes::copy_from_slice(&payload)); // it may wait long: not in the loop's buffer
        }
    }

    // ---- the end ----

    /// We begin to close.
    fn ask(&mut self, cx: &mut Context<'_, Self>, close: &Close, done: WritePromise) {
        self.phase = Phase::Asked;
        self.frame(cx, Opcode::Close, close.payload(), done);
        self.gather.pass_on(cx);
        cx.flush();
        let deadline = self.config.close_deadline;
        self.set_timer(cx, Some((deadline, Due::Close)));
    }

    /// The peer closes: begins to, or answers.
    fn peer_closes(&mut self, cx: &mut Context<'_, Self>, close: &Close) {
        self.input = BytesMut::new();
        if self.phase == Phase::Open {
            self.rare().cause = Some(cause_of(close));
            let answer = Close { code: close.code, ..Close::default() };
            self.control(cx, Opcode::Close, answer.payload());
            let deadline = self.config.close_deadline;
            self.set_timer(cx, Some((deadline, Due::Close)));
        }
        self.phase = Phase::Over;
        cx.fire_event(Event::new(PeerClosed(close.clone())));
        self.insist(cx); // nothing more goes to the application, but the end of the stream has to be seen
        if self.role == Role::Server {
            cx.close_when_flushed(); // comes back as a close
        }
        // A client leaves the socket to the server, until the deadline.
    }

    /// A close that was seen while delivery was paused: none, or it waits on, or it takes place now.
    fn close_that_waited(&mut self, cx: &mut Context<'_, Self>) -> Option<Option<Message>> {
        let waiting = &mut self.rare.as_mut()?.close;
        if waiting.is_some() && cx.view().is_paused() {
            return Some(None);
        }
        let close = waiting.take()?;
        let shown = self.config.show_control && self.deliver;
        self.peer_closes(cx, &close);
        Some(shown.then_some(Message::Close(close)))
    }

    #[cold]
    fn fail(&mut self, cx: &mut Context<'_, Self>, violation: Violation) {
        tracing::debug!(channel = %cx.view().id(), %violation, "the peer broke the protocol");
        self.input = BytesMut::new();
        let told = self.phase == Phase::Asked;
        self.phase = Phase::Failed;
        if !told {
            self.control(cx, Opcode::Close, violation.close().payload());
        }
        self.rare().cause = Some(CloseCause::Fault(violation.into()));
        self.insist(cx);
        cx.shut_down_output();
        let linger = self.config.linger;
        self.set_timer(cx, Some((linger, Due::Close)));
    }

    /// From now on the peer is listened to whatever the application asks for, which gets nothing more.
    fn insist(&mut self, cx: &mut Context<'_, Self>) {
        self.deliver = false;
        if self.insists.is_none() {
            self.insists = Some(Box::new(cx.insist()));
        }
    }

    /// Closes the channel, for whoever asked for it.
    fn finish(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        self.phase = Phase::Over;
        self.set_timer(cx, None);
        let Rare { cause: known, waiting, .. } = self.rare.take().map(|rare| *rare).unwrap_or_default();
        let cause = known.unwrap_or(cause);
        cx.close_with(cause.clone(), done);
        for done in waiting {
            cx.close_with(cause.clone(), done);
        }
    }

    // ---- time ----

    fn set_timer(&mut self, cx: &mut Context<'_, Self>, due: Option<(Duration, Due)>) {
        if let Some((timer, _)) = self.timer.take() {
            cx.disarm(timer);
        }
        self.timer = due.map(|(delay, due)| (cx.arm(delay), due));
    }

    fn look_after(&mut self, cx: &mut Context<'_, Self>, time: Duration) {
        self.set_timer(cx, Some((time, Due::Look)));
    }

    /// Looks after the peer, which may be gone.
    fn look(&mut self, cx: &mut Context<'_, Self>) {
        let Some(ping_after) = self.config.ping_after else { return };
        let seen = Seen {
            paused: cx.view().is_paused(),
            waits: cx.view().unsent_bytes() > 0,
            written: self.gather.written(),
            pending: cx.view().pending_bytes() as u64,
        };
        match self.watch.due(seen, ping_after, self.config.pong_deadline) {
            Next::Look(time) => self.look_after(cx, time),
            Next::Ping(time) => {
                self.control(cx, Opcode::Ping, Bytes::new());
                self.look_after(cx, time);
            }
            Next::GiveUp => {
                let silent = ping_after + self.config.pong_deadline;
                self.finish(cx, CloseCause::TimedOut(silent), WritePromise::untracked());
            }
        }
    }

    #[cold]
    fn first_heard(&mut self, cx: &mut Context<'_, Self>) {
        let Some(ping_after) = self.config.ping_after else { return };
        let time = self.watch.first(ping_after);
        if self.phase == Phase::Open {
            self.look_after(cx, time);
        }
    }

    #[cold]
    fn answered(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(ping_after) = self.config.ping_after
            && self.phase == Phase::Open
            && let Some(time) = self.watch.answered(ping_after)
        {
            self.look_after(cx, time);
        }
    }
}

impl Handler for WebSocket {
    type Read = BytesMut;
    type ReadOut = Message;
    type Write = Message;
    type WriteOut = Bytes;
    const WEIGHT: Weight<Message> = Weight::of(|message| message.payload().len());

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(ping_after) = self.config.ping_after {
            let time = self.watch.begin(ping_after);
            self.look_after(cx, time);
        }
        cx.fire_active();
    }

    #[inline]
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        if self.watch.hears() {
            self.first_heard(cx);
        }
        if matches!(self.phase, Phase::Failed | Phase::Over)
            || self.rare.as_ref().is_some_and(|rare| rare.close.is_some())
        {
            return;
        }
        if self.input.is_empty() {
            self.input = bytes;
        } else {
            self.input.unsplit(bytes);
        }
    }

    #[inline]
    fn pull(&mut self, cx: &mut Context<'_, Self>) -> Option<Message> {
        if self.rare.is_some()
            && let Some(message) = self.close_that_waited(cx)
        {
            return message;
        }
        loop {
            if self.input.is_empty() {
                self.input = BytesMut::new(); // nothing of the loop's buffer is kept
                return None;
            }
            let message = match self.decoder.next(&mut self.input) {
                Ok(Some(message)) => message,
                Ok(None) => continue,
                Err(violation) => {
                    self.fail(cx, violation);
                    return None;
                }
            };
            let deliver = self.deliver;
            match &message {
                Message::Text(_) | Message::Binary(_) if deliver => return Some(message),
                Message::Text(_) | Message::Binary(_) => continue,
                Message::Ping(payload) if self.phase == Phase::Open => self.pong(cx, payload.clone()),
                Message::Ping(_) => {}
                Message::Pong(_) => self.answered(cx),
                Message::Close(close) if self.phase == Phase::Open && cx.view().is_paused() => {
                    self.input = BytesMut::new();
                    self.rare().close = Some(close.clone());
                    return None;
                }
                Message::Close(close) => self.peer_closes(cx, close),
            }
            if self.config.show_control && deliver {
                return Some(message);
            }
        }
    }

    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        let shutting_down = event.get::<ShuttingDown>().is_some();
        cx.fire_event(event);
        if shutting_down {
            // Behind what the application has to say, which passes this stage when this call has returned.
            cx.caller().call(|socket, cx| {
                if socket.phase == Phase::Open {
                    socket.rare().cause = Some(CloseCause::ShutDown);
                    socket.ask(cx, &CloseCode::GOING_AWAY.into(), WritePromise::untracked());
                }
            });
        }
    }

    fn writability(&mut self, cx: &mut Context<'_, Self>, writable: bool) {
        if writable
            && self.phase == Phase::Open
            && let Some(ping) = self.rare.as_mut().and_then(|rare| rare.ping.take())
        {
            self.control(cx, Opcode::Pong, ping);
        }
        cx.fire_writability(writable);
    }

    /// A WebSocket ends by its own goodbye, for both sides.
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Refuses
    }

    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        let cause = match self.phase {
            Phase::Open | Phase::Asked => CloseCause::Fault(NoClose.into()),
            Phase::Failed | Phase::Over => CloseCause::PeerClosed,
        };
        self.finish(cx, cause, WritePromise::untracked());
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.timer = None;
        let closed = self.rare.as_mut().and_then(|rare| rare.close.take());
        let known = self.rare.as_mut().and_then(|rare| rare.cause.take());
        // Both have said what they had to, or one of them has said what was wrong: a socket may end as it likes.
        let settled = closed.is_some() || matches!(self.phase, Phase::Failed | Phase::Over);
        let cause = match (known.or_else(|| closed.as_ref().map(cause_of)), cause) {
            (Some(known), CloseCause::PeerClosed | CloseCause::Requested) => known,
            (Some(known), CloseCause::Io(_)) if settled => known,
            (None, CloseCause::PeerClosed) if self.phase == Phase::Open => CloseCause::Fault(NoClose.into()),
            (_, cause) => cause,
        };
        self.phase = Phase::Over;
        if let Some(over) = &mut self.over {
            over.cause = Some(cause.clone());
        }
        for done in self.rare.take().map(|rare| rare.waiting).unwrap_or_default() {
            done.succeed(); // they waited for the end
        }
        cx.fire_inactive(cause);
    }

    #[inline]
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: Message, done: WritePromise) {
        if self.phase != Phase::Open {
            let cause =
                self.rare.as_ref().and_then(|rare| rare.cause.clone()).unwrap_or(CloseCause::Requested);
            return done.fail(WriteError::Closed(cause));
        }
        match msg {
            Message::Text(text) => self.frame(cx, Opcode::Text, text.into_bytes(), done),
            Message::Binary(bytes) => self.frame(cx, Opcode::Binary, bytes, done),
            Message::Ping(payload) | Message::Pong(payload) if payload.len() > CONTROL_MAX => {
                done.fail(WriteError::Fault(TooLongForControl { len: payload.len() }.into()));
            }
            Message::Ping(payload) => self.frame(cx, Opcode::Ping, payload, done),
            Message::Pong(payload) => self.frame(cx, Opcode::Pong, payload, done),
            Message::Close(close) => {
                self.rare().cause = Some(CloseCause::Requested);
                self.ask(cx, &close, done);
            }
        }
    }

    #[inline]
    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        self.gather.pass_on(cx);
        cx.flush();
    }

    fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        match self.phase {
            Phase::Open if self.rare.as_ref().is_some_and(|rare| rare.close.is_some()) => {
                let rare = self.rare();
                rare.waiting.push(done);
                let close = rare.close.take().unwrap_or_default();
                self.peer_closes(cx, &close);
            }
            Phase::Open => {
                let code = code_of(&cause);
                let rare = self.rare();
                rare.cause = Some(cause);
                rare.waiting.push(done);
                self.ask(cx, &code.into(), WritePromise::untracked());
                self.insist(cx); // the peer's answer has to come through, and nothing else does
            }
            Phase::Asked | Phase::Failed => {
                self.rare().waiting.push(done);
                self.insist(cx);
            }
            Phase::Over => self.finish(cx, cause, done),
        }
    }

    fn shut_down_output(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
        if self.phase != Phase::Open {
            return done.succeed(); // nothing follows our close frame
        }
        self.rare().cause = Some(CloseCause::Requested);
        self.ask(cx, &CloseCode::NORMAL.into(), done);
    }

    fn timer(&mut self, cx: &mut Context<'_, Self>, timer: StageTimer) {
        let Some((_, due)) = self.timer.take_if(|(armed, _)| *armed == timer) else { return };
        match due {
            Due::Look => self.look(cx),
            Due::Close => self.finish(cx, CloseCause::Requested, WritePromise::untracked()),
        }
    }

    fn panicked(&mut self, cx: &mut Context<'_, Self>) {
        if self.phase == Phase::Open {
            self.phase = Phase::Over;
            self.control(cx, Opcode::Close, Close::from(CloseCode::INTERNAL).payload());
        }
    }

    /// What lies behind has been removed before, so nothing of it is left now.
    fn removed(&mut self) {
        if let Some(over) = self.over.take()
            && let Some(cause) = over.cause
        {
            over.promise.succeed(cause);
        }
    }

    fn leftover(&mut self) -> Leftover<BytesMut> {
        let input = std::mem::take(&mut self.input);
        if input.is_empty() { Leftover::nothing() } else { Leftover::one(input) }
    }

    fn name(&self) -> &'static str {
        "WebSocket"
    }
}

/// Why a channel ends whose peer has closed like this.
fn cause_of(close: &Close) -> CloseCause {
    if close.is_ordinary() {
        CloseCause::PeerClosed
    } else {
        CloseCause::Fault(ClosedByPeer(close.clone()).into())
    }
}

/// The code that tells the peer why we close.
fn code_of(cause: &CloseCause) -> CloseCode {
    match cause {
        CloseCause::ShutDown | CloseCause::TimedOut(_) => CloseCode::GOING_AWAY,
        CloseCause::Fault(_) | CloseCause::Panicked(_) | CloseCause::Io(_) => CloseCode::INTERNAL,
        _ => CloseCode::NORMAL,
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("role", &self.role)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

/// A ping or pong of ours is longer than control frames may be.
///
/// ```
/// use netwright_websocket::TooLongForControl;
///
/// assert!(TooLongForControl { len: 200 }.to_string().ends_with("the limit is 125"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLongForControl {
    /// How long it is.
    pub len: usize,
}

impl fmt::Display for TooLongForControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a ping or pong of {} bytes, the limit is {CONTROL_MAX}", self.len)
    }
}

impl std::error::Error for TooLongForControl {}
