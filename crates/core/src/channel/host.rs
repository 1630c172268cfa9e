//! A channel without its socket: the pipeline, what it wants of the transport, and what the outside wants of it.
//!
//! ```text
//!   transport ── activate, received, read_complete, input_closed, closed ──▶ ┌ Host ────────────────┐
//!             ◀─ wants_read, take_flush + outbound, take_close, … ────────── │ pipeline, core       │
//!   loop      ── signal (timer), run_commands (other threads) ─────────────▶ └──────────────────────┘
//! ```
//!
//! Always true:
//! 1. Between two calls of the transport everything that could happen has happened: no operation waits at a boundary,
//!    and no message waits unless delivery is paused.
//! 2. A panic in a handler ends in a request to close with that cause; the pipeline is not called again, but for
//!    `panicked`, in which stages may still say something to the peer, and `removed`.
//! 3. `active` and `inactive` come once each, in this order, and `removed` after both, from the last stage to the first.
//! 4. Every channel that has ended comes to `removed`. What a peer sent before it went is delivered as it is asked for,
//!    and whoever waits for room hears of it, because there is nothing left to wait for; timers and futures go on. What
//!    nobody has asked for in `forsaken_after` is dropped; at once what is left when whoever reads it has closed the channel.
//! 5. Messages that flow by themselves stop while their answers are more than the channel takes.

use super::{
    Address, ChannelState, CloseCause, Fault, LeastRate, Outbound, Outgoing, WaterMarks, Weight, WriteError,
    WritePromise,
    core::{ChannelCore, Delivered},
    handle::Channel,
    shared::{ChannelShared, Command},
};
use crate::{
    driver::Token,
    event_loop::LocalLoop,
    pipeline::{Boundary, Event, Inbound, Next, Op, Segment, Signal},
    task_error::{catch, tell},
};
use bytes::BytesMut;
use std::{any::Any, sync::Arc, time::Duration};

/// What a channel is set up with.
///
/// ```
/// use netwright_core::{EmbeddedChannel, HostSettings, pipeline};
///
/// let mut settings = HostSettings::default();
/// settings.auto_read = false;
/// let mut channel = EmbeddedChannel::with_settings(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())), settings);
/// channel.write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b""); // nobody has asked for it
/// channel.channel().request();
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HostSettings {
    /// When to tell writers that there is too much, and when that there is room again.
    pub water_marks: WaterMarks,
    /// Whether reading starts by itself. If not, nothing is read before it is asked for.
    pub auto_read: bool,
    /// Whether reading pauses while more waits to be sent than the high water mark, if that was written in answer to what
    /// was read. On unless said otherwise: a peer that sends and does not read can then not make us keep its answers. It
    /// concerns messages that flow by themselves; who asks for them one by one, as async functions do, decides itself.
    pub hold_back: bool,
    /// How long messages that nobody asks for are kept after the peer has gone. Each message that is asked for counts anew.
    pub forsaken_after: Duration,
    /// How fast the peer has to take what waits for it; who does not is cut. `None`: it may take for ever. The transports of
    /// byte streams see to it.
    pub least_rate: Option<LeastRate>,
    /// Whether a channel lives on when its peer sends no more. Transports act on it when the connection's input ends, and
    /// stages whose own protocol has such an end, as that of TLS.
    pub half_closure: bool,
    /// Whether each message arrives at the peer as one, so that an empty one has to be sent too. Byte streams: no.
    pub whole_messages: bool,
}

/// How long an application may take for a message before those behind it are dropped, when their peer has gone.
const FORSAKEN_AFTER: Duration = Duration::from_secs(60);

/// The stage that timers of the host itself are for: stages count from 1.
const HOST: u32 = 0;

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            water_marks: WaterMarks::default(),
            auto_read: true,
            hold_back: true,
            forsaken_after: FORSAKEN_AFTER,
            least_rate: Some(LeastRate::default()),
            half_closure: false,
            whole_messages: false,
        }
    }
}

/// Runs one channel's pipeline; transports drive it. `R` is what they bring: bytes, or datagrams.
///
/// ```
/// use netwright_core::{CloseCause, Host, HostSettings, LocalLoop, ManualLoop, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// // What a transport does with a channel, without the system calls.
/// ManualLoop::new().enter(|| {
///     let echo = pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).into_segment();
///     let mut host: Host<_, Bytes> = Host::new(LocalLoop::current().unwrap(), echo, HostSettings::default());
///     host.activate(None, None);
///     assert!(host.wants_read());
///     host.received(BytesMut::from("hello")); // what `recv` gave
///     host.read_complete();
///     assert!(host.take_flush());
///     assert_eq!(host.outbound().first_bytes().unwrap(), "hello"); // what `send` gets
///     host.outbound().advance(5);
///     host.wrote();
///     host.closed(CloseCause::PeerClosed);
///     assert!(host.is_finished());
///     host.remove();
/// });
/// ```
pub struct Host<P: Segment<R, W>, W: 'static, R: 'static = BytesMut> {
    core: ChannelCore,
    root: Boundary<P, R, W>,
    shared: Arc<ChannelShared<P::Tail>>,
    forsaken_after: Duration,
    hold_back: bool,
    was_active: bool,
    /// The socket is closed.
    ended: bool,
    /// A handler panicked, or the pipeline has been told of the end.
    silent: bool,
    removed: bool,
}

impl<P, W, R: 'static> Host<P, W, R>
where
    P: Segment<R, W>,
    W: Into<Outgoing> + 'static,
{
    /// A host for a pipeline on the loop of the calling thread.
    pub fn new(local: LocalLoop, pipeline: P, settings: HostSettings) -> Self {
        let mut core = ChannelCore::new(local, settings.water_marks, settings.auto_read);
        let high_mark = settings.water_marks.high();
        let shared = ChannelShared::new(core.id, core.loop_reference(), high_mark, core.side());
        core.set_handle(shared.clone());
        core.half_closure = settings.half_closure;
        if settings.whole_messages {
            core.outbound.keep_empty_messages();
        }
        let mut root = Boundary::new(pipeline);
        shared.weight.say(root.weigh(Weight::unsaid()));
        Self {
            core,
            root,
            shared,
            forsaken_after: settings.forsaken_after,
            hold_back: settings.hold_back,
            was_active: false,
            ended: false,
            silent: false,
            removed: false,
        }
    }

    /// The handle for the outside.
    pub fn channel(&self) -> Channel<P::Tail> {
        Channel::of(self.shared.clone())
    }

    // ---- what happens to the channel ----

    /// The channel has its place on the loop: handlers are added.
    pub fn register(&mut self, token: Token) {
        self.core.set_token(token);
        self.shared.set_token(token);
        self.run(|root, core| root.link(core));
    }

    /// The channel is connected.
    pub fn activate(&mut self, local: Option<Address>, peer: Option<Address>) {
        self.shared.activate(local, peer);
        self.was_active = true;
        self.run(|root, core| root.event(core, Inbound::Active));
    }

    /// Bytes, or a datagram, from the peer.
    pub fn received(&mut self, message: R) {
        self.run(|root, core| root.read(core, message));
    }

    /// Everything that was there has been received.
    pub fn read_complete(&mut self) {
        self.run(|root, core| root.read_complete(core));
    }

    /// The peer sends no more, and half-closure is allowed.
    pub fn input_closed(&mut self) {
        self.run(|root, core| root.event(core, Inbound::InputClosed));
    }

    /// The transport has an error that does not end the channel.
    pub fn raise(&mut self, fault: Fault) {
        self.run(|root, core| root.event(core, Inbound::Error(fault)));
    }

    /// The transport has news that is no error, and that nobody has to take care of.
    pub fn tell(&mut self, event: Event) {
        self.run(|root, core| root.event(core, Inbound::User(event)));
    }

    /// A timer of a stage is due.
    pub fn signal(&mut self, signal: u64) {
        if let Some((stage, timer)) = self.core.due(signal) {
            if stage == HOST {
                return self.look_after_end();
            }
            self.run(|root, core| root.signal(core, stage, Signal::Timer(timer)));
        }
    }

    /// Carries out what other threads, or other channels, asked for.
    pub fn run_commands(&mut self) {
        let mut commands = self.shared.take_commands();
        let mut room_again = false;
        for command in commands.drain(..) {
            match command {
                Command::Write(msg, done, size) => {
                    room_again |= self.shared.arrived(size);
                    self.enter_at_tail(Op::Write(msg, done));
                }
                Command::Inlet(stage, size) => {
                    room_again |= self.shared.arrived(size);
                    // A segment that has gone has taken the message with it, on its way out.
                    self.run(|root, core| root.signal(core, stage, Signal::Inlet));
                }
                Command::Flush => self.enter_at_tail(Op::Flush),
                Command::Close(cause, done) => {
                    if self.ended {
                        done.succeed();
                        self.forsake(); // nobody waits for what is held any more
                    } else {
                        self.core.wishes.wants_no_more = true;
                        self.enter_at_tail(Op::Close(cause, done));
                    }
                }
                Command::CloseNow(_) if self.ended => self.forsake(),
                Command::CloseNow(cause) => self.core.close_at_once(cause),
                Command::CloseWhenFlushed => {
                    self.core.wishes.wants_no_more = true;
                    self.core.close_when_flushed();
                }
                Command::ShutDownOutput(done) => self.enter_at_tail(Op::ShutDownOutput(done)),
                Command::Pause => self.core.demand.pause(),
                Command::Resume => {
                    self.core.resume();
                    self.settle();
                }
                Command::Request => {
                    self.core.request();
                    self.settle();
                }
                Command::Event(event) => self.run(|root, core| root.event(core, Inbound::User(event))),
                Command::Stages(answer) => {
                    let mut list = Vec::new();
                    self.root.stages(&mut list);
                    answer.succeed(list);
                }
            }
        }
        self.shared.give_back(commands);
        for (stage, call) in self.core.take_calls() {
            match self.silent {
                true => self.bring_back(stage, call),
                false => self.run(|root, core| root.signal(core, stage, Signal::Call(call))),
            }
        }
        let woken = self.core.take_woken();
        for &key in &woken {
            if let Some((stage, task)) = self.core.take_task(key) {
                self.run(|root, core| {
                    core.delivered.mark_call(); // what it writes answers what its stage has read before
                    if root.signal(core, stage, Signal::Poll(task)).is_some() {
                        core.abort_task(key); // its stage has gone
                    }
                });
            }
        }
        self.core.give_woken_back(woken);
        self.tell_writability();
        if room_again && !self.ended && self.core.outbound.is_writable() {
            // Whoever stopped because too much was on its way here waits for this.
            self.run(|root, core| root.event(core, Inbound::Writability(true)));
        }
    }

    fn enter_at_tail(&mut self, op: Op<P::Tail>) {
        if !self.silent {
            return self.run(|root, core| root.enter_at_tail(core, op));
        }
        let cause = self.shared.close_cause().unwrap_or(CloseCause::Requested);
        match op {
            Op::Write(_, done) | Op::ShutDownOutput(done) => done.fail(WriteError::Closed(cause)),
            Op::Close(cause, done) => self.core.request_close(cause, done),
            Op::Flush => {}
        }
    }

    /// The socket is closed. Tells everybody, in order: writers, whoever waits for the end, the pipeline.
    pub fn closed(&mut self, cause: CloseCause) {
        if self.ended {
            return;
        }
        // A stage nearer to the wire may close behind messages that are still to be read: that is no reason to drop them.
        let unwanted = self.core.wishes.wants_no_more || matches!(cause, CloseCause::ShutDown);
        let said_full = self.core.outbound.said_full();
        self.tell_outside(&cause);
        if self.was_active {
            let mut waiting = said_full;
            if !said_full && self.core.demand.is_paused() {
                self.run(|root, core| waiting = root.would_hold_up(core));
            }
            self.let_go_on();
            if waiting {
                // Whoever paused until there is room would wait for ever, and the end behind what is held with it.
                self.run(|root, core| root.event(core, Inbound::Writability(true)));
            }
            self.run(|root, core| root.event(core, Inbound::Inactive(cause)));
        }
        if unwanted {
            self.forsake();
        } else {
            self.look_again_later();
        }
    }

    /// Drops the messages of a channel that has ended and that nobody has asked for, and tells the pipeline of the end. For
    /// whoever wants it gone: its loop shuts down, or it is closed once more.
    pub fn forsake(&mut self) {
        if !self.ended || self.silent || !self.root.is_holding() {
            return;
        }
        let before = self.core.unhandled_messages;
        self.core.forsaken = true;
        self.core.waiting_inside = true;
        self.settle();
        let dropped = self.core.unhandled_messages - before;
        if dropped > 0 {
            tracing::debug!(channel = %self.core.id, dropped, "messages that nobody had asked for when the channel ended");
        }
    }

    /// The channel has ended and holds messages: are they still asked for?
    #[cold]
    fn look_after_end(&mut self) {
        if !self.core.delivered.take(Delivered::SINCE_LOOK) && !self.root.is_busy() {
            tracing::warn!(
                channel = %self.core.id,
                after = ?self.forsaken_after,
                "nobody asks for the messages of a channel whose peer has gone, dropping them"
            );
            return self.forsake();
        }
        self.look_again_later();
    }

    fn look_again_later(&mut self) {
        if !self.is_finished() {
            self.core.delivered.take(Delivered::SINCE_LOOK);
            self.core.arm(HOST, self.forsaken_after);
        }
    }

    // ---- what the transport has to do ----

    /// Whether the pipeline wants bytes.
    pub fn wants_read(&self) -> bool {
        !self.ended && self.core.demand.takes_input() && self.core.wishes.close.is_none()
    }

    /// Whether a close was asked for and has not been carried out: what arrives now has nobody left to read it.
    pub fn is_closing(&self) -> bool {
        self.ended || self.core.wishes.close.is_some()
    }

    /// How many messages the pipeline wants at most: none while it is paused, as many as there are while it flows.
    pub fn wanted(&self) -> usize {
        if self.wants_read() { self.core.demand.messages() } else { 0 }
    }

    /// Whether something should be sent now; asked once for each wish.
    pub fn take_flush(&mut self) -> bool {
        std::mem::take(&mut self.core.wishes.flush)
    }

    /// What is flushed and not sent yet should be tried again: the socket has room, or it is this channel's turn.
    pub fn wants_flush_again(&mut self) {
        self.core.wishes.flush |= self.core.outbound.has_flushed();
    }

    /// What waits to be sent.
    pub fn outbound(&mut self) -> &mut Outbound {
        &mut self.core.outbound
    }

    /// The transport took something out of [`outbound`](Self::outbound).
    pub fn wrote(&mut self) {
        self.tell_writability();
    }

    /// Whether the channel should be closed now, and why.
    pub fn take_close(&mut self) -> Option<CloseCause> {
        // What a stage on workers has under way may be a write or its flush.
        let sent = |host: &Self| !host.core.outbound.has_flushed() && !host.root.is_busy();
        if self.core.wishes.close_when_flushed && sent(self) {
            self.core.wishes.close_when_flushed = false;
            self.core.wishes.last_words = true;
            // Through the pipeline, like any close: a stage may have something to send first. Whoever it passes has not asked.
            let wants_no_more = self.core.wishes.wants_no_more;
            self.enter_at_tail(Op::Close(CloseCause::Requested, WritePromise::untracked()));
            self.core.wishes.wants_no_more = wants_no_more;
        }
        if self.core.wishes.last_words && self.core.outbound.has_flushed() && !self.closes_at_once() {
            return None; // it has, and that goes first
        }
        // What is under way on workers may be a reply that was there before the close.
        if self.core.wishes.close.is_none() || self.ended || self.is_busy() && !self.closes_at_once() {
            return None;
        }
        self.core.wishes.close.take().map(|cause| *cause)
    }

    /// Whether the channel is to end now, whoever else it could be waited for: [`Channel::close_now`].
    pub fn closes_at_once(&self) -> bool {
        self.core.wishes.at_once
    }

    /// Whether a stage has something under way on workers, so that what has happened to the channel is not all over yet. A
    /// transport that would end the channel because nothing else can happen waits for this; the channel is called when it
    /// changes.
    pub fn is_busy(&self) -> bool {
        self.core.demand.is_away()
    }

    /// Whether answers are being made, or wait for the peer to take them, in the queue or in a stage, or messages for room for
    /// theirs.
    pub fn is_answering(&self) -> bool {
        self.core.outbound.has_flushed()
            || self.root.is_busy()
            || self.root.owes()
            || self.core.demand.is_full() && self.root.is_holding()
    }

    /// Whether a close waits for something that a stage flushed on its way out, and that has not been tried yet.
    pub fn has_last_words(&self) -> bool {
        self.core.wishes.last_words && self.core.wishes.flush && self.core.outbound.has_flushed()
    }

    /// Whether the output side should be shut down now: everything flushed before is sent.
    pub fn take_output_shutdown(&mut self) -> bool {
        !self.core.outbound.has_flushed() && std::mem::take(&mut self.core.wishes.shut_down_output)
    }

    /// The output side is shut down, or could not be.
    pub fn output_shut_down(&mut self, result: Result<(), WriteError>) {
        self.core.outbound.fail_all(WriteError::OutputShutDown);
        for done in self.core.wishes.shut_down_done.take() {
            match &result {
                Ok(()) => done.succeed(),
                Err(error) => done.fail(error.clone()),
            }
        }
    }

    /// Whether messages or events wait inside: what is told now waits behind them.
    pub fn is_holding(&self) -> bool {
        self.root.is_holding()
    }

    /// Whether nothing is left to do: the channel has ended and its pipeline knows everything.
    pub fn is_finished(&self) -> bool {
        self.ended && (self.silent || !self.root.is_holding() && !self.root.is_busy())
    }

    /// The last act: handlers are told that they leave, from the last to the first.
    pub fn remove(&mut self) {
        if !std::mem::replace(&mut self.removed, true) {
            self.silent = true;
            self.core.disarm_all();
            self.core.drop_tasks(0);
            self.root.removed();
            self.shared.leave();
        }
    }

    // ---- inside ----

    /// Calls the pipeline, then does all that follows from it.
    fn run<T>(&mut self, call: impl FnOnce(&mut Boundary<P, R, W>, &mut ChannelCore) -> T) {
        if self.silent {
            return;
        }
        let (root, core) = (&mut self.root, &mut self.core);
        match catch(|| drop(call(root, core))) {
            Ok(()) => self.settle(),
            Err(message) => self.break_down(message),
        }
    }

    /// Does all that follows from a call. Nearly always that is one write or one flush, and then nothing.
    #[inline]
    fn settle(&mut self) {
        if self.root.ops().take_lone_flush() {
            self.flush();
        } else if self.root.has_ops() {
            self.carry_out();
        }
        if !self.core.comes_to_rest() {
            self.settle_rest();
        }
    }

    #[inline(never)]
    fn settle_rest(&mut self) {
        loop {
            if self.root.has_ops() {
                self.carry_out();
            }
            if self.hold_back() || self.tell_writability_once() || self.tell_room() {
                continue; // what it caused comes first, also while paused
            }
            if self.silent {
                break;
            }
            match self.step() {
                Ok(true) => {}
                Ok(false) if self.root.has_ops() => {}
                Ok(false) if self.flush_for_pause() => {}
                Ok(false) => break,
                Err(message) => return self.break_down(message),
            }
        }
        self.core.call_over();
    }

    /// Whoever answers messages faster than the peer takes the answers gets no more until it has taken them. What was written
    /// so far is flushed, or it would never be taken.
    #[inline]
    fn hold_back(&mut self) -> bool {
        if self.core.demand.is_full() && self.core.outbound.is_writable() {
            return self.let_go_on(); // there was no news of it: what was too much was cancelled
        }
        if !self.hold_back || !self.core.has_too_many_answers() || !self.core.demand.too_many_answers() {
            return false;
        }
        self.flush_at_tail();
        true
    }

    /// There is room for answers: what flowed before does so again. True if so.
    fn let_go_on(&mut self) -> bool {
        let flows = self.core.demand.room();
        self.core.waiting_inside |= flows;
        flows
    }

    /// Carries out what the first stage asked for, in order.
    #[inline(never)]
    fn carry_out(&mut self) {
        while self.root.has_ops() {
            if let Some((msg, done)) = self.root.ops().take_write() {
                self.push(msg, done);
            } else if self.root.ops().take_flush() {
                self.flush();
            } else if !self.carry_out_next() {
                break;
            }
        }
    }

    /// Carries out the next operation that has no place of its own. False if there is none.
    #[inline(never)]
    fn carry_out_next(&mut self) -> bool {
        let Some(op) = self.root.ops().take_rest() else { return false };
        match op {
            Op::Write(msg, done) => self.push(msg, done),
            Op::Flush => self.flush(),
            Op::Close(cause, done) => {
                self.core.request_close(cause, done);
                // What is under way on workers was there before it, and is written first.
                self.core.wishes.closing |= !self.is_busy();
            }
            Op::ShutDownOutput(done) => {
                self.core.wishes.shut_down_output = true;
                if done.is_tracked() {
                    self.core.wishes.shut_down_done.push_back(done);
                }
            }
        }
        true
    }

    /// Delivers one thing that waits inside, if anything may.
    #[inline]
    fn step(&mut self) -> Result<bool, String> {
        if self.core.waiting_inside { self.step_inside() } else { Ok(false) }
    }

    #[inline(never)]
    fn step_inside(&mut self) -> Result<bool, String> {
        let (root, core) = (&mut self.root, &mut self.core);
        let stepped = catch(|| root.step(core))?;
        self.core.waiting_inside = stepped;
        Ok(stepped)
    }

    /// A `read_complete` that waits behind held messages cannot tell anybody to flush, and who paused for lack of room
    /// would wait for ever for what was never sent. So what was written before the pause is flushed here.
    fn flush_for_pause(&mut self) -> bool {
        if !self.core.demand.is_stopped()
            || self.core.demand.is_away()
            || !self.root.is_holding()
            || !self.core.delivered.take(Delivered::SINCE_FLUSH)
        {
            return false;
        }
        self.flush_at_tail();
        true
    }

    #[cold]
    fn flush_at_tail(&mut self) {
        let (root, core) = (&mut self.root, &mut self.core);
        if let Err(message) = catch(|| root.enter_at_tail(core, Op::Flush)) {
            self.break_down(message);
        }
    }

    #[inline]
    fn flush(&mut self) {
        if !self.core.has_output_ended() {
            self.core.outbound.flush();
            self.core.wishes.flush = true;
        }
    }

    #[inline(always)]
    fn push(&mut self, msg: W, done: WritePromise) {
        // Once it has ended, the queue itself says why.
        if !self.ended
            && self.core.has_output_ended()
            && let Some(error) = self.core.output_ended()
        {
            return refuse(msg, done, error);
        }
        match catch(|| msg.into()) {
            Ok(message) => self.core.outbound.push(message, done),
            Err(panic) => self.break_down_with(done, panic),
        }
    }

    #[cold]
    fn break_down_with(&mut self, done: WritePromise, panic: String) {
        done.fail(WriteError::Closed(CloseCause::Panicked(panic.clone())));
        self.break_down(panic);
    }

    fn tell_writability(&mut self) {
        if self.tell_writability_once() {
            self.settle();
        }
    }

    /// Somebody stopped because of what one call wrote, but the queue took it without being full.
    #[inline]
    fn tell_room(&mut self) -> bool {
        if !self.core.writes_settled() || self.silent || self.core.is_closing() {
            return false;
        }
        self.tell_room_again();
        true
    }

    #[cold]
    fn tell_room_again(&mut self) {
        let (root, core) = (&mut self.root, &mut self.core);
        if let Err(message) = catch(|| root.event(core, Inbound::Writability(true))) {
            self.break_down(message);
        }
    }

    #[inline]
    fn tell_writability_once(&mut self) -> bool {
        self.core.outbound.take_flip().is_some_and(|writable| self.tell_flip(writable))
    }

    #[cold]
    fn tell_flip(&mut self, writable: bool) -> bool {
        self.core.told_by_queue();
        self.shared.set_writable(writable);
        if writable {
            self.let_go_on();
        }
        if !self.silent && !self.ended && !self.core.is_closing() {
            let (root, core) = (&mut self.root, &mut self.core);
            if let Err(message) = catch(|| root.event(core, Inbound::Writability(writable))) {
                self.break_down(message);
            }
        }
        true
    }

    #[cold]
    fn break_down(&mut self, message: String) {
        let channel = self.core.id;
        tell(|| tracing::error!(%channel, panic = %message, "a handler panicked, closing its channel"));
        if !std::mem::replace(&mut self.silent, true) && !self.ended && !self.say_last_words() {
            drop(self.root.ops().take_all()); // what was asked for in the call that panicked
        }
        self.core.request_close(CloseCause::Panicked(message), WritePromise::untracked());
    }

    /// Has the stages of a broken pipeline speak, as far as none of them waits for a worker. Tells whether one has.
    fn say_last_words(&mut self) -> bool {
        let (root, core) = (&mut self.root, &mut self.core);
        let spoke = catch(|| root.panicked(core)).unwrap_or_else(|panic| {
            tracing::error!(channel = %self.core.id, %panic, "and one that was asked for last words");
            false
        });
        if spoke {
            self.carry_out();
        }
        spoke
    }

    /// Something of a broken pipeline is back from a worker: it goes its way to the wire, and others may speak now.
    #[cold]
    fn bring_back(&mut self, stage: u32, call: Box<dyn Any + Send>) {
        if self.ended {
            return;
        }
        let (root, core) = (&mut self.root, &mut self.core);
        match catch(|| drop(root.signal(core, stage, Signal::Return(call)))) {
            Ok(()) => self.carry_out(),
            Err(panic) => {
                tracing::error!(channel = %self.core.id, %panic, "a stage of a broken pipeline panicked")
            }
        }
        self.say_last_words();
    }

    /// How far the channel is.
    pub fn state(&self) -> ChannelState {
        self.shared.state()
    }
}

/// The message first, so that it is released when somebody hears of it.
#[cold]
fn refuse<W>(msg: W, done: WritePromise, error: WriteError) {
    drop(msg);
    done.fail(error);
}

impl<P: Segment<R, W>, W: 'static, R: 'static> Host<P, W, R> {
    /// Tells everybody but the pipeline of the end.
    fn tell_outside(&mut self, cause: &CloseCause) {
        self.ended = true;
        self.core.outbound.fail_all(WriteError::Closed(cause.clone()));
        self.core.end_inlet(cause);
        self.shared.close(cause.clone());
        for done in self.core.wishes.close_done.take() {
            done.succeed();
        }
        for done in self.core.wishes.shut_down_done.take() {
            done.fail(WriteError::Closed(cause.clone()));
        }
    }
}

/// Nobody waits for a channel whose loop has let it go.
impl<P: Segment<R, W>, W: 'static, R: 'static> Drop for Host<P, W, R> {
    fn drop(&mut self) {
        if !self.ended {
            self.tell_outside(&CloseCause::ShutDown);
        }
        self.core.disarm_all();
        self.shared.leave();
    }
}
