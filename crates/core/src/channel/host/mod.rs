//! A channel without its socket: the pipeline, what it wants of the transport, and what the outside wants of it.
//!
//! ```text
//!   transport ── activate, received, read_complete, input_closed, closed ──▶ ┌ Host ────────────────┐
//!             ◀─ wants_read, take_flush + outbound, take_close, … ────────── │ pipeline, core       │
//!   loop      ── signal (timer), run_commands (other threads) ─────────────▶ └──────────────────────┘
//! ```
//!
//! What does not depend on the pipeline's type ([`Inside`]) is apart from the pipeline ([`Pipe`]), and deals with it as a trait object wherever
//! that is not a call for each message: so a user's crate compiles little more than its own stages, and transports of bytes are
//! compiled once.
//!
//! | file | what it is |
//! | --- | --- |
//! | `pipe` | the pipeline and what other threads have of it: what is compiled for each pipeline |
//! | `inside` | what follows from a call of it |
//! | `commands` | what other threads, or other channels, asked for |
//! | `wants` | what a transport asks of its channel |
//! | `ends` | how a channel ends |
//! | `over` | another conversation with the same stages |
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

mod commands;
mod ends;
mod inside;
mod over;
mod pipe;
mod settings;
mod wants;

use super::{
    Address, CarriedBy, ChannelId, ChannelState, CloseCause, Fault, Kin, Outgoing, Pack, Parcel, Weighed,
    Weight, WritePromise,
    child::{Family, STORE_DUE},
    core::ChannelCore,
    handle::Channel,
    shared::ChannelShared,
};
use crate::{
    driver::Token,
    event_loop::LocalLoop,
    pipeline::{Boundary, Event, Inbound, Segment, Signal},
};
use bytes::BytesMut;
pub use inside::Inside;
pub(super) use inside::{Rest, see_to_bytes, see_to_messages};
use pipe::Entry;
pub use pipe::{AnyPipe, Pipe, PipeOf};
pub use settings::HostSettings;
use std::{
    any::{Any, TypeId},
    cell::OnceCell,
    rc::Rc,
    sync::Arc,
};

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
///
/// What a transport does with its channels need not be compiled for each pipeline: see [`HostOf`].
pub type Host<P, W, R = BytesMut, M = Outgoing> = HostOf<Pipe<P, W, R>, M>;

/// A host of bytes whose pipeline nobody knows: what a transport of bytes is compiled for.
pub type AnyHost = HostOf<dyn PipeOf<BytesMut, Outgoing>>;

/// A [`Host`], or one whose pipeline is not known here ([`AnyHost`]): a reference to the one becomes a reference to the other by itself.
///
/// ```
/// use netwright_core::{AnyHost, Host, HostSettings, LocalLoop, ManualLoop, pipeline};
/// use bytes::BytesMut;
///
/// /// Compiled once, whatever pipelines there are.
/// fn drive(host: &mut AnyHost, bytes: &str) -> bool {
///     host.received(BytesMut::from(bytes));
///     host.read_complete();
///     host.take_flush()
/// }
///
/// ManualLoop::new().enter(|| {
///     let echo = pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).into_segment();
///     let mut host = Host::new(LocalLoop::current().unwrap(), echo, HostSettings::default());
///     host.activate(None, None);
///     assert!(drive(&mut host, "hello"));
/// });
/// ```
pub struct HostOf<Q: AnyPipe<M> + ?Sized, M: Parcel = Outgoing> {
    inside: Inside<M>,
    /// Last, so that it may be of a type that is not known.
    pipe: Q,
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

    /// The same for one of many channels: its handle is made when somebody asks for it.
    #[doc(hidden)]
    pub fn of_kin(local: LocalLoop, pipeline: P, settings: &HostSettings, kin: &Arc<Kin>) -> Self {
        let mut core = ChannelCore::set_up(local, settings);
        core.kin = Some(kin.clone());
        let mut host = Self::of_core(core, pipeline, settings);
        kin.tail_weighs(host.pipe.root.weigh(Weight::unsaid()));
        host
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

    /// Writes a message at the far end, and flushes, as a handle would: at once, because whoever drives this host is here.
    pub(super) fn write_and_flush(&mut self, msg: P::Tail, done: WritePromise) {
        self.pipe.write_at_tail(&mut self.inside, msg, done);
        self.inside.enter_at_tail(self.pipe.as_any(), crate::pipeline::Op::Flush);
    }

    /// The first message that waits to be sent.
    pub(super) fn first_message(&self) -> Option<&W> {
        self.inside.line.first_flushed().map(|weighed| &weighed.message)
    }

    /// Takes something of the first message that waits to be sent. What is left of it is weighed anew.
    pub(super) fn change_first<T>(&mut self, change: impl FnOnce(&mut W) -> T) -> Option<T> {
        let weight = self.pipe.root.ops().weight();
        self.outbound().change_first(weight, change)
    }

    /// A host for a child of a stage. Handles and all that other threads share with it are made when somebody asks for them.
    pub(super) fn of_child(
        family: &Rc<Family>,
        pipeline: P,
        settings: &HostSettings,
        weight: Weight<W>,
    ) -> Self {
        let mut core = ChannelCore::set_up(family.local().clone(), settings);
        core.family = Some(family.clone());
        let mut host = Self::of_core(core, pipeline, settings);
        family.tail_weighs(host.pipe.root.weigh(weight));
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
        let mut core = ChannelCore::set_up(local, settings);
        let high_mark = settings.water_marks.high();
        let shared = ChannelShared::new(core.id, core.loop_reference(), high_mark, core.side().clone());
        core.set_handle(shared.clone());
        let mut host = Self::of_core(core, pipeline, settings);
        shared.weight.say(host.pipe.root.weigh(weight));
        host.pipe.shared = OnceCell::from(shared);
        host
    }

    /// A host whose handle is made when somebody asks for it.
    fn of_core(core: ChannelCore, pipeline: P, settings: &HostSettings) -> Self {
        let pipe = Pipe { root: Boundary::new(pipeline), shared: OnceCell::new() };
        Self { inside: Inside::new(core, settings.forsaken_after), pipe }
    }

    /// The handle for the outside.
    pub fn channel(&self) -> Channel<P::Tail> {
        match self.pipe.shared(&self.inside.core) {
            Some(shared) => Channel::of(shared.clone()),
            None => {
                let made = self.inside.core.make_own_handle();
                Channel::of(made.expect("a channel without a handle has a family or kin, and can make one"))
            }
        }
    }
}

/// What happens to the channel.
impl<Q: AnyPipe<M> + ?Sized, M: Parcel> HostOf<Q, M> {
    fn enter(&mut self, entry: Entry) {
        self.pipe.run(&mut self.inside, entry);
    }

    /// The channel has its place on the loop: handlers are added.
    pub fn register(&mut self, token: Token) {
        self.inside.core.set_token(token);
        if let Some(outside) = self.pipe.outside(&self.inside) {
            outside.set_token(token);
        }
        self.enter(Entry::Link);
    }

    /// The channel is connected.
    pub fn activate(&mut self, local: Option<Address>, peer: Option<Address>) {
        self.inside.core.is_at(local, peer);
        self.begin();
    }

    /// Attaches values, one for each type, to a channel that has just been made.
    #[doc(hidden)]
    pub fn attach(&mut self, attributes: &[(TypeId, Arc<dyn Any + Send + Sync>)]) {
        if !attributes.is_empty() {
            self.inside.core.attach(attributes);
        }
    }

    /// Closes by way of the stages, as a handle does.
    #[doc(hidden)]
    pub fn close_because(&mut self, cause: CloseCause) {
        self.inside.close_from_outside(self.pipe.as_any(), cause, WritePromise::untracked());
    }

    /// Closes without asking the stages, as a handle does.
    #[doc(hidden)]
    pub fn close_now(&mut self, cause: CloseCause) {
        self.inside.close_now_from_outside(self.pipe.as_any(), cause);
    }

    /// Tells the pipeline that the channel is connected.
    pub(super) fn begin(&mut self) {
        self.inside.was_active = true;
        self.enter(Entry::Event(Inbound::Active));
    }

    /// Bytes, or a message, from the peer.
    #[inline]
    pub fn received<R>(&mut self, message: R)
    where
        Q: PipeOf<R, M>,
    {
        self.pipe.received(&mut self.inside, message);
    }

    /// Everything that was there has been received.
    #[inline]
    pub fn read_complete(&mut self) {
        self.pipe.read_complete(&mut self.inside);
    }

    /// The peer sends no more, and half-closure is [allowed](Self::allows_half_closure).
    pub fn input_closed(&mut self) {
        self.enter(Entry::Event(Inbound::InputClosed));
    }

    /// The transport has an error that does not end the channel.
    pub fn raise(&mut self, fault: Fault) {
        self.enter(Entry::Event(Inbound::Error(fault)));
    }

    /// The transport has news that is no error, and that nobody has to take care of.
    pub fn tell(&mut self, event: Event) {
        self.enter(Entry::Event(Inbound::User(event)));
    }

    /// A timer of a stage is due.
    pub fn signal(&mut self, signal: u64) {
        if signal == STORE_DUE {
            self.inside.core.poke_families();
            return self.inside.look_after_children(self.pipe.as_any());
        }
        if let Some((stage, timer)) = self.inside.core.due(signal) {
            if stage == HOST {
                return self.inside.look_after_end(self.pipe.as_any());
            }
            self.enter(Entry::Signal(stage, Signal::Timer(timer)));
        }
    }

    /// Carries out what other threads, or other channels, asked for.
    pub fn run_commands(&mut self) {
        self.inside.run_commands(self.pipe.as_any());
    }

    /// The channel's number.
    pub fn id(&self) -> ChannelId {
        self.inside.core.id
    }

    /// How far the channel is.
    pub fn state(&self) -> ChannelState {
        match self.pipe.outside(&self.inside) {
            Some(outside) => outside.state(),
            None if self.inside.ended => ChannelState::Closed,
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

    /// Ten thousand idle connections are ten thousand of these: who needs more room in them finds it in them. The last 8 bytes are a pointer to what
    /// stages have armed, for which a channel with one timer kept 200 bytes more elsewhere.
    #[test]
    fn an_idle_channel_takes_no_more_room_than_it_had() {
        let echo = crate::pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).into_segment();
        let (host, shared) = (size_of_host(&echo), size_of::<ChannelShared<Outgoing>>());
        assert!(host <= 552 && shared <= 152, "host {host}, shared {shared}");
    }
}
