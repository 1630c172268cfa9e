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

mod ends;
mod inside;
mod over;
mod settings;
mod wants;

use super::{
    Address, CarriedBy, ChannelId, ChannelState, CloseCause, Fault, MessageLine, Outgoing, Pack, Parcel,
    Weighed, Weight, WriteError, WritePromise,
    child::{Family, STORE_DUE},
    core::ChannelCore,
    handle::Channel,
    shared::{ChannelShared, Command},
};
use crate::{
    driver::Token,
    event_loop::LocalLoop,
    pipeline::{Boundary, Event, Inbound, Next, Op, Segment, Signal},
};
use bytes::BytesMut;
use settings::ForsakenAfter;
pub use settings::HostSettings;
use std::{any::Any, cell::OnceCell, rc::Rc, sync::Arc};

/// The stage that timers of the host itself are for, and calls of others who know no type of its own: stages count from 1.
pub(super) const HOST: u32 = 0;

/// Runs one channel's pipeline; transports drive it. `R` is what they bring: bytes, datagrams, or messages of any type. `W`
/// is what the pipeline writes, and `M` what waits of it to be sent: [bytes and files](Outgoing), or messages as they
/// are ([`Weighed`]).
///
/// ```
/// use netwright_core::{CloseCause, Host, HostSettings, LocalLoop, ManualLoop, pipeline};
/// use bytes::BytesMut;
///
/// // What a transport does with a channel, without the system calls.
/// ManualLoop::new().enter(|| {
///     let echo = pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).into_segment();
///     let mut host = Host::new(LocalLoop::current().unwrap(), echo, HostSettings::default());
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
pub struct Host<P: Segment<R, W>, W: 'static, R: 'static = BytesMut, M: Parcel = Outgoing> {
    core: ChannelCore,
    /// What waits to be sent. How much that is, the core's account knows.
    line: MessageLine<M>,
    root: Boundary<P, R, W>,
    /// What it shares with its handles. A child has it from when somebody asks for a handle; see [`shared`](Self::shared).
    shared: OnceCell<Arc<ChannelShared<P::Tail>>>,
    forsaken_after: ForsakenAfter,
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
    W: CarriedBy<Outgoing>,
{
    /// A host for a pipeline that writes bytes, or files, on the loop of the calling thread.
    pub fn new(local: LocalLoop, pipeline: P, settings: HostSettings) -> Self {
        Self::make(local, pipeline, &settings, Weight::unsaid())
    }
}

impl<P, W: 'static, R: 'static> Host<P, W, R, Weighed<W>>
where
    P: Segment<R, W>,
{
    /// A host for a pipeline that writes messages of any type, on the loop of the calling thread. `weight` says what they
    /// count for while they wait: whoever drives this host is the one that takes them. See [`Weighed`].
    pub fn of_messages(local: LocalLoop, pipeline: P, settings: HostSettings, weight: Weight<W>) -> Self {
        Self::make(local, pipeline, &settings, weight)
    }

    /// The first message that waits to be sent.
    pub(super) fn first_message(&self) -> Option<&W> {
        self.line.first_flushed().map(|weighed| &weighed.message)
    }

    /// Takes something of the first message that waits to be sent. What is left of it is weighed anew.
    pub(super) fn change_first<T>(&mut self, change: impl FnOnce(&mut W) -> T) -> Option<T> {
        let weight = self.root.ops().weight();
        self.outbound().change_first(weight, change)
    }

    /// A host for a child of a stage. Handles and all that other threads share with it are made when somebody asks for them.
    pub(super) fn of_child(
        family: &Rc<Family>,
        pipeline: P,
        settings: &HostSettings,
        weight: Weight<W>,
    ) -> Self {
        let mut core = ChannelCore::new(family.local().clone(), settings.water_marks, settings.auto_read);
        core.family = Some(family.clone());
        let mut host = Self::of_core(core, pipeline, settings);
        family.tail_weighs(host.root.weigh(weight));
        host
    }
}

impl<P, W, R, M> Host<P, W, R, M>
where
    P: Segment<R, W>,
    W: 'static,
    R: 'static,
    M: Pack<W>,
{
    fn make(local: LocalLoop, pipeline: P, settings: &HostSettings, weight: Weight<W>) -> Self {
        let mut core = ChannelCore::new(local, settings.water_marks, settings.auto_read);
        let high_mark = settings.water_marks.high();
        let shared = ChannelShared::new(core.id, core.loop_reference(), high_mark, core.side().clone());
        core.set_handle(shared.clone());
        let mut host = Self::of_core(core, pipeline, settings);
        shared.weight.say(host.root.weigh(weight));
        host.shared = OnceCell::from(shared);
        host
    }

    /// A host whose handle is made when somebody asks for it.
    fn of_core(mut core: ChannelCore, pipeline: P, settings: &HostSettings) -> Self {
        core.half_closure = settings.half_closure;
        core.whole_messages = settings.whole_messages;
        core.hold_back = settings.hold_back;
        Self {
            core,
            line: MessageLine::new(),
            root: Boundary::new(pipeline),
            shared: OnceCell::new(),
            forsaken_after: settings.forsaken_after.into(),
            was_active: false,
            ended: false,
            silent: false,
            removed: false,
        }
    }

    /// The handle for the outside.
    pub fn channel(&self) -> Channel<P::Tail> {
        match self.shared() {
            Some(shared) => Channel::of(shared.clone()),
            None => Channel::of(
                self.core.make_own_handle().expect("a channel without a handle is a child, and can make one"),
            ),
        }
    }

    // ---- what happens to the channel ----

    /// The channel has its place on the loop: handlers are added.
    pub fn register(&mut self, token: Token) {
        self.core.set_token(token);
        if let Some(shared) = self.shared() {
            shared.set_token(token);
        }
        self.run(|root, core| root.link(core));
    }

    /// The channel is connected.
    pub fn activate(&mut self, local: Option<Address>, peer: Option<Address>) {
        if let Some(shared) = self.shared() {
            shared.activate(local, peer);
        }
        self.begin();
    }

    /// Tells the pipeline that the channel is connected.
    pub(super) fn begin(&mut self) {
        self.was_active = true;
        self.run(|root, core| root.event(core, Inbound::Active));
    }

    /// Bytes, or a message, from the peer.
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
        if signal == STORE_DUE {
            self.core.poke_families();
            return self.look_after_children();
        }
        if let Some((stage, timer)) = self.core.due(signal) {
            if stage == HOST {
                return self.look_after_end();
            }
            self.run(|root, core| root.signal(core, stage, Signal::Timer(timer)));
        }
    }

    /// Carries out what other threads, or other channels, asked for.
    pub fn run_commands(&mut self) {
        let room_again = self.run_commands_of_handles();
        for (stage, call) in self.core.take_calls() {
            match self.silent {
                _ if stage == HOST => self.close_for_child(call),
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
        self.look_after_children();
        self.tell_writability();
        if room_again && !self.ended && self.core.account.is_writable() {
            // Whoever stopped because too much was on its way here waits for this.
            self.run(|root, core| root.event(core, Inbound::Writability(true)));
        }
    }

    /// Has stages look whose children have run by themselves and have something to say.
    fn look_after_children(&mut self) {
        while let Some(stage) = self.core.take_poke() {
            self.run(|root, core| root.signal(core, stage, Signal::Children));
        }
    }

    /// Somebody closes the channel who knows it as a parent.
    #[cold]
    fn close_for_child(&mut self, cause: Box<dyn Any + Send>) {
        if let Ok(cause) = cause.downcast::<CloseCause>() {
            self.close_from_outside(*cause, WritePromise::untracked());
        }
    }

    fn close_from_outside(&mut self, cause: CloseCause, done: WritePromise) {
        if self.ended {
            done.succeed();
            self.forsake(); // nobody waits for what is held any more
        } else {
            self.core.wishes.wants_no_more = true;
            self.enter_at_tail(Op::Close(cause, done));
        }
    }

    /// Carries out what handles asked for. True if there is room again for others on their way.
    fn run_commands_of_handles(&mut self) -> bool {
        let Some(shared) = self.shared() else { return false }; // nobody has a handle
        let mut commands = shared.take_commands();
        let mut room_again = false;
        for command in commands.drain(..) {
            match command {
                Command::Write(msg, done, size) => {
                    room_again |= self.arrived(size);
                    self.enter_at_tail(Op::Write(msg, done));
                }
                Command::Inlet(stage, size) => {
                    room_again |= self.arrived(size);
                    // A segment that has gone has taken the message with it, on its way out.
                    self.run(|root, core| root.signal(core, stage, Signal::Inlet));
                }
                Command::Flush => self.enter_at_tail(Op::Flush),
                Command::Close(cause, done) => self.close_from_outside(cause, done),
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
                Command::Children(answer) => answer.succeed(self.core.children()),
            }
        }
        if let Some(shared) = self.shared() {
            shared.give_back(commands);
        }
        room_again
    }

    /// A write from outside is here. True if with it there is room again for others on their way.
    fn arrived(&self, size: usize) -> bool {
        self.shared().is_some_and(|shared| shared.arrived(size))
    }

    fn enter_at_tail(&mut self, op: Op<P::Tail>) {
        if !self.silent {
            return self.run(|root, core| root.enter_at_tail(core, op));
        }
        let cause = self.core.close_cause().cloned().unwrap_or(CloseCause::Requested);
        match op {
            Op::Write(_, done) | Op::ShutDownOutput(done) => done.fail(WriteError::Closed(cause)),
            Op::Close(cause, done) => self.core.request_close(cause, done),
            Op::Flush => {}
        }
    }

    /// The channel's number.
    pub(super) fn id(&self) -> ChannelId {
        self.core.id
    }

    /// How far the channel is.
    pub fn state(&self) -> ChannelState {
        match self.shared() {
            Some(shared) => shared.state(),
            None if self.ended => ChannelState::Closed,
            None => ChannelState::Active,
        }
    }
}

#[cfg(all(test, not(loom), target_pointer_width = "64"))]
mod tests {
    use super::*;

    fn size_of_host<P: Segment<BytesMut, Outgoing>>(_: &P) -> usize {
        size_of::<Host<P, Outgoing>>()
    }

    /// Ten thousand idle connections are ten thousand of these: who needs more room in them finds it in them.
    #[test]
    fn an_idle_channel_takes_no_more_room_than_it_had() {
        let echo = crate::pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).into_segment();
        let (host, shared) = (size_of_host(&echo), size_of::<ChannelShared<Outgoing>>());
        assert!(host <= 536 && shared <= 152, "host {host}, shared {shared}");
    }
}
