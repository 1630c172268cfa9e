//! The handle to a channel: what every thread may ask of it.
//!
//! ```text
//!   Channel<W> ──▶ ChannelShared<W>: commands, in order ──▶ the loop
//!
//!   Channel<M> of a sealed segment ──▶ Inlet<M>: messages ┐
//!                                  └─▶ ChannelShared<Infallible>: commands, in order ──▶ the loop
//! ```
//! A handle made inside of a sealed segment differs in one thing only: where its messages wait. All the rest is the one
//! channel's.

use super::{
    Address, ChannelId, CloseCause, Envelope, Outgoing, WriteError, WritePromise, Written,
    core::{Side, SideTable},
    inlet::Inlet,
};
use crate::{
    event_loop::SourceCaller,
    pipeline::{Event, Slot, StageInfo},
    promise::{Promise, PromiseError, Promised, promise},
    task_error::catch,
};
use bytes::{Bytes, BytesMut};
use std::{
    any::{Any, TypeId},
    convert::Infallible,
    fmt,
    future::poll_fn,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

/// What a write from outside counts for while it is on its way to the loop, beside the message itself.
const COMMAND_OVERHEAD: usize = 32;

pub(super) enum Command<W> {
    Write(W, WritePromise, usize),
    /// A message of this size waits in the inlet of the sealed segment that has this number.
    Inlet(u32, usize),
    Flush,
    Close(CloseCause, WritePromise),
    CloseWhenFlushed,
    ShutDownOutput(WritePromise),
    Pause,
    Resume,
    Request,
    Stages(Promise<Vec<StageInfo>, PromiseError>),
    Event(Event),
}

impl<W> Command<W> {
    /// Whether it makes no sense on a channel that has ended.
    fn is_write(&self) -> bool {
        matches!(self, Self::Write(..) | Self::Inlet(..) | Self::Flush | Self::ShutDownOutput(_))
    }
}

/// What a message counts for while it is on its way: its bytes if it is made of bytes, else the room it takes itself.
pub(crate) fn size_of_message<W: 'static>(msg: &W) -> usize {
    let msg: &dyn Any = msg;
    let len = |len: Option<usize>| len.unwrap_or(0);
    size_of::<W>()
        + len(msg.downcast_ref::<Bytes>().map(Bytes::len))
        + len(msg.downcast_ref::<BytesMut>().map(BytesMut::len))
        + len(msg.downcast_ref::<Vec<u8>>().map(Vec::len))
        + len(msg.downcast_ref::<String>().map(String::len))
        + len(msg.downcast_ref::<Envelope>().map(|envelope| envelope.bytes.len()))
        + match msg.downcast_ref::<Outgoing>() {
            Some(Outgoing::Bytes(bytes)) => bytes.len(),
            Some(Outgoing::Envelope(envelope)) => envelope.bytes.len(),
            _ => 0,
        }
}

/// Told to every connection of a server that shuts down gracefully, as an event of its pipeline: finish what you have begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShuttingDown;

/// How far a channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelState {
    /// Not connected yet.
    Opening,
    /// Connected.
    Active,
    /// Over.
    Closed,
}

pub(crate) struct ChannelShared<W> {
    /// Itself, for who has it without its type.
    me: Weak<Self>,
    id: ChannelId,
    caller: OnceLock<SourceCaller>,
    writable: AtomicBool,
    /// Bytes written from outside that are still on their way to the loop, and how many of them are too many.
    on_their_way: AtomicUsize,
    high_mark: usize,
    side: SideTable,
    outside: Mutex<Outside<W>>,
}

/// Where the messages of any type enter that handles write.
pub(crate) trait AnyShared {
    fn as_any(&self) -> &dyn Any;
    /// The channel's own shared part, if nothing can be written to it from outside.
    fn outermost(&self) -> Option<Arc<ChannelShared<Infallible>>>;
    /// The channel has ended, and whoever waits for messages to be sent is told before all others.
    fn ended(&self, cause: &CloseCause);
}

impl<W: 'static> AnyShared for ChannelShared<W> {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn outermost(&self) -> Option<Arc<ChannelShared<Infallible>>> {
        self.as_any().downcast_ref::<ChannelShared<Infallible>>()?.me.upgrade()
    }
    fn ended(&self, _: &CloseCause) {} // `close` tells
}

/// Called once, with the cause of a channel's end.
pub(super) type CloseListener = Box<dyn FnOnce(&CloseCause) + Send>;

/// The owner of a listener that nobody will take back.
const NOBODY: usize = 0;

struct Outside<W> {
    commands: Vec<Command<W>>,
    /// A call of the channel is under way and will find what is added now.
    called: bool,
    closed: Option<CloseCause>,
    /// Nobody carries out commands any more.
    gone: bool,
    /// What most channels never have: one pointer until one does.
    rare: Option<Box<Rare>>,
}

#[derive(Default)]
struct Rare {
    wakers: Vec<Waker>,
    /// Told of the end, in this order. The number says whose it is, for an owner that may want it back.
    listeners: Vec<(usize, CloseListener)>,
    attributes: Vec<(TypeId, Attribute)>,
}

type Attribute = Arc<dyn Any + Send + Sync>;

impl<W> Outside<W> {
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

impl<W> ChannelShared<W> {
    pub(super) fn new(id: ChannelId, high_mark: usize, side: SideTable) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            id,
            caller: OnceLock::new(),
            writable: AtomicBool::new(true),
            on_their_way: AtomicUsize::new(0),
            high_mark,
            side,
            outside: Mutex::new(Outside {
                commands: Vec::new(),
                called: false,
                closed: None,
                gone: false,
                rare: None,
            }),
        })
    }

    pub(super) fn channel(&self) -> Option<Channel<W>> {
        self.me.upgrade().map(|shared| Channel { way: Way::Shared(shared) })
    }

    fn side(&self) -> MutexGuard<'_, Side> {
        self.side.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Outside<W>> {
        self.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- the loop's side ----

    pub(super) fn set_caller(&self, caller: SourceCaller) {
        // Set first: what is sent from now on calls by itself, and what was sent before is seen below.
        let caller = self.caller.get_or_init(|| caller);
        let waiting = !self.lock().commands.is_empty();
        if waiting {
            caller.call();
        }
    }

    pub(super) fn activate(&self, local: Option<Address>, peer: Option<Address>) {
        self.side().addresses = Some((local, peer));
    }

    pub(super) fn take_commands(&self) -> Vec<Command<W>> {
        let mut outside = self.lock();
        outside.called = false;
        std::mem::take(&mut outside.commands)
    }

    /// Lets the room of a list be used again.
    pub(super) fn give_back(&self, commands: Vec<Command<W>>) {
        let mut outside = self.lock();
        if outside.commands.capacity() == 0 && commands.capacity() <= 64 {
            outside.commands = commands;
        }
    }

    /// A write from outside has arrived. True if with it there is room again for others on their way.
    pub(super) fn arrived(&self, bytes: usize) -> bool {
        let before = self.on_their_way.fetch_sub(bytes, Ordering::AcqRel);
        let room_again = before > self.high_mark && before - bytes <= self.high_mark;
        if room_again {
            self.wake();
        }
        room_again
    }

    fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire) && self.on_their_way.load(Ordering::Acquire) <= self.high_mark
    }

    pub(super) fn set_writable(&self, writable: bool) {
        self.writable.store(writable, Ordering::Release);
        if writable {
            self.wake();
        }
    }

    pub(super) fn close(&self, cause: CloseCause) {
        let mut outside = self.lock();
        let cause = outside.closed.get_or_insert(cause).clone();
        let listeners =
            outside.rare.as_mut().map(|rare| std::mem::take(&mut rare.listeners)).unwrap_or_default();
        // From here on writes are answered by `send`; those that are on their way already are answered here, because a
        // channel that has ended is not called again unless it holds messages.
        let commands = std::mem::take(&mut outside.commands);
        let (writes, others): (Vec<_>, _) = commands.into_iter().partition(Command::is_write);
        outside.commands = others;
        drop(outside);
        self.refuse(writes, &cause);
        for (_, listener) in listeners {
            if let Err(panic) = catch(|| listener(&cause)) {
                tracing::error!(channel = %self.id, %panic, "a listener for the end of a channel panicked");
            }
        }
        self.wake();
    }

    /// The channel has left its loop: what was asked for and not done is dropped, and so is what will be.
    pub(super) fn leave(&self) {
        let mut outside = self.lock();
        outside.gone = true;
        let commands = std::mem::take(&mut outside.commands);
        drop(outside);
        let calls = self.side().leave();
        drop((commands, calls)); // outside of both locks: what they hold is a user's
    }

    pub(super) fn refuse(&self, commands: impl IntoIterator<Item = Command<W>>, cause: &CloseCause) {
        for command in commands {
            match command {
                Command::Write(msg, done, size) => {
                    self.arrived(size);
                    drop(msg);
                    done.fail(WriteError::Closed(cause.clone()));
                }
                Command::Inlet(_, size) => drop(self.arrived(size)), // the message itself is refused by its inlet
                Command::ShutDownOutput(done) => done.fail(WriteError::Closed(cause.clone())),
                _ => {}
            }
        }
    }

    /// Has a listener told of the end. Gives it back with the cause if that has come already.
    fn listen(&self, owner: usize, listener: CloseListener) -> Result<(), (CloseListener, CloseCause)> {
        let mut outside = self.lock();
        match outside.closed.clone() {
            Some(cause) => Err((listener, cause)),
            None => {
                outside.rare().listeners.push((owner, listener));
                Ok(())
            }
        }
    }

    fn take_listener(&self, owner: usize) -> Option<CloseListener> {
        let mut outside = self.lock();
        let listeners = &mut outside.rare.as_mut()?.listeners;
        let index = listeners.iter().position(|(known, _)| *known == owner)?;
        Some(listeners.swap_remove(index).1)
    }

    fn set_attribute(&self, key: TypeId, value: Attribute) -> Option<Attribute> {
        let mut outside = self.lock();
        let attributes = &mut outside.rare().attributes;
        match attributes.iter_mut().find(|(known, _)| *known == key) {
            Some((_, place)) => Some(std::mem::replace(place, value)),
            None => {
                attributes.push((key, value));
                None
            }
        }
    }

    fn attribute(&self, key: TypeId) -> Option<Attribute> {
        let outside = self.lock();
        let attributes = &outside.rare.as_ref()?.attributes;
        attributes.iter().find(|(known, _)| *known == key).map(|(_, value)| value.clone())
    }

    pub(super) fn close_cause(&self) -> Option<CloseCause> {
        self.lock().closed.clone()
    }

    pub(super) fn state(&self) -> ChannelState {
        if self.lock().closed.is_some() {
            ChannelState::Closed
        } else if self.side().addresses.is_some() {
            ChannelState::Active
        } else {
            ChannelState::Opening
        }
    }

    pub(super) fn wake(&self) {
        let wakers =
            self.lock().rare.as_mut().map(|rare| std::mem::take(&mut rare.wakers)).unwrap_or_default();
        for waker in wakers {
            waker.wake();
        }
    }

    // ---- the outside ----

    fn send(&self, command: Command<W>) {
        match self.accept(command) {
            Ok(true) => self.call(),
            Ok(false) => {}
            Err((command, cause)) => self.refuse(Some(command), &cause),
        }
    }

    /// Takes a command and says whether the channel has to be called because of it; or gives it back with the cause of
    /// the channel's end.
    pub(super) fn accept(&self, command: Command<W>) -> Result<bool, (Command<W>, CloseCause)> {
        let mut outside = self.lock();
        // A channel that is over still hears what may release held messages; the rest is refused.
        if let Some(cause) = &outside.closed
            && (outside.gone || command.is_write())
        {
            return Err((command, cause.clone()));
        }
        outside.commands.push(command);
        Ok(!std::mem::replace(&mut outside.called, true))
    }

    /// Has the loop carry out the commands.
    pub(super) fn call(&self) {
        if let Some(caller) = self.caller.get() {
            caller.call();
        }
    }

    /// A write of this size begins its way to the loop.
    pub(super) fn sets_out(&self, bytes: usize) {
        self.on_their_way.fetch_add(bytes, Ordering::AcqRel);
    }

    fn register(&self, waker: &Waker) {
        let waker = waker.clone();
        let mut outside = self.lock();
        let wakers = &mut outside.rare().wakers;
        if !wakers.iter().any(|known| known.will_wake(&waker)) {
            wakers.push(waker);
        }
    }
}

/// A handle to a channel, for any thread. `W` is what its pipeline takes at the application's end.
///
/// Cheap to clone. What is asked for is carried out on the channel's loop, in the order in which one thread asks. The
/// handle does not keep the channel or its loop alive.
///
/// A handle that comes from inside of a [sealed](crate::PipelineBuilder::sealed) segment writes to that segment. When the
/// segment is exchanged, what was accepted before is carried out, and later writes report
/// [`WriteError::Exchanged`]; everything else goes on to be the channel's.
pub struct Channel<W> {
    way: Way<W>,
}

/// Where messages go. Everything else goes to the channel.
enum Way<W> {
    Shared(Arc<ChannelShared<W>>),
    Inlet(Arc<Inlet<W>>),
}

impl<W> Clone for Way<W> {
    fn clone(&self) -> Self {
        match self {
            Self::Shared(shared) => Self::Shared(shared.clone()),
            Self::Inlet(inlet) => Self::Inlet(inlet.clone()),
        }
    }
}

/// Does something with the channel's own shared part, whatever it takes.
macro_rules! shared {
    ($way:expr, $shared:ident => $call:expr) => {
        match &$way {
            Way::Shared($shared) => $call,
            Way::Inlet(inlet) => {
                let $shared = inlet.channel();
                $call
            }
        }
    };
}

impl<W> Way<W> {
    fn close_cause(&self) -> Option<CloseCause> {
        shared!(self, shared => shared.close_cause())
    }

    fn register(&self, waker: &Waker) {
        shared!(self, shared => shared.register(waker));
    }
}

impl<W: 'static> Channel<W> {
    pub(super) fn new(shared: Arc<ChannelShared<W>>) -> Self {
        Self { way: Way::Shared(shared) }
    }

    pub(super) fn through(inlet: Arc<Inlet<W>>) -> Self {
        Self { way: Way::Inlet(inlet) }
    }

    /// The channel's number, unique in this process.
    pub fn id(&self) -> ChannelId {
        shared!(self.way, shared => shared.id)
    }

    /// How far the channel is.
    pub fn state(&self) -> ChannelState {
        shared!(self.way, shared => shared.state())
    }

    /// Our host and port, once connected; `None` if the channel is not on the network.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local().as_ref().and_then(Address::ip)
    }

    /// The peer's host and port, once connected; `None` if the channel is not on the network.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer().as_ref().and_then(Address::ip)
    }

    /// Our address of any kind, once connected.
    pub fn local(&self) -> Option<Address> {
        shared!(self.way, shared => shared.side())
            .addresses
            .as_ref()
            .and_then(|addresses| addresses.0.clone())
    }

    /// The peer's address of any kind, once connected.
    pub fn peer(&self) -> Option<Address> {
        shared!(self.way, shared => shared.side())
            .addresses
            .as_ref()
            .and_then(|addresses| addresses.1.clone())
    }

    /// Tells the pipeline something, from its first stage on, as if a stage in front had said it.
    pub fn fire_event(&self, event: Event) {
        shared!(self.way, shared => shared.send(Command::Event(event)));
    }

    // ---- writing ----

    /// Writes a message that nobody tracks; it is sent with the next flush.
    pub fn write(&self, msg: W) {
        self.write_with(msg, WritePromise::untracked());
    }

    /// Writes a message. The future tells when the transport has taken it; until it is flushed it can be cancelled.
    pub fn write_tracked(&self, msg: W) -> Written {
        let (done, written) = WritePromise::tracked();
        self.write_with(msg, done);
        written
    }

    /// Sends what was written so far.
    pub fn flush(&self) {
        shared!(self.way, shared => shared.send(Command::Flush));
    }

    /// Writes a message and sends it. The future tells when the transport has taken it.
    pub fn write_and_flush(&self, msg: W) -> Written {
        let written = self.write_tracked(msg);
        self.flush();
        written
    }

    /// Writes a message that nobody tracks, and sends it.
    pub fn send(&self, msg: W) {
        self.write(msg);
        self.flush();
    }

    fn write_with(&self, msg: W, done: WritePromise) {
        let size = size_of_message(&msg) + COMMAND_OVERHEAD;
        match &self.way {
            Way::Shared(shared) => {
                shared.sets_out(size);
                shared.send(Command::Write(msg, done, size));
            }
            Way::Inlet(inlet) => inlet.write(msg, done, size),
        }
    }

    /// Whether there is room to write.
    pub fn is_writable(&self) -> bool {
        match &self.way {
            Way::Shared(shared) => shared.is_writable(),
            Way::Inlet(inlet) => inlet.is_open() && inlet.channel().is_writable(),
        }
    }

    /// Resolves when there is room to write, or to the cause when the channel has ended. If the segment that takes such
    /// messages was exchanged, there never will be room: the cause is a fault that holds [`WriteError::Exchanged`].
    pub async fn writable(&self) -> Result<(), CloseCause> {
        poll_fn(|cx| {
            let look = || match self.way.close_cause() {
                Some(cause) => Poll::Ready(Err(cause)),
                None if self.is_writable() => Poll::Ready(Ok(())),
                None if self.is_exchanged() => {
                    Poll::Ready(Err(CloseCause::Fault(WriteError::Exchanged.into())))
                }
                None => Poll::Pending,
            };
            if let Poll::Ready(found) = look() {
                return Poll::Ready(found); // nothing stays behind of those who need not wait
            }
            // Look again: what changes after we have registered wakes us, what changed before would not.
            self.way.register(cx.waker());
            look()
        })
        .await
    }

    fn is_exchanged(&self) -> bool {
        matches!(&self.way, Way::Inlet(inlet) if !inlet.is_open())
    }

    // ---- reading ----

    /// Stops delivery: the transport stops reading, messages on their way are held.
    pub fn pause(&self) {
        shared!(self.way, shared => shared.send(Command::Pause));
    }

    /// Lets delivery go on.
    pub fn resume(&self) {
        shared!(self.way, shared => shared.send(Command::Resume));
    }

    /// Asks for one message while paused.
    pub fn request(&self) {
        shared!(self.way, shared => shared.send(Command::Request));
    }

    // ---- the end ----

    /// Closes the channel. The future resolves when it is closed; closing twice is fine.
    pub fn close(&self) -> Closed<W> {
        self.close_because(CloseCause::Requested)
    }

    /// Closes the channel for a reason that everybody will be told.
    pub fn close_because(&self, cause: CloseCause) -> Closed<W> {
        shared!(self.way, shared => shared.send(Command::Close(cause, WritePromise::untracked())));
        self.closed()
    }

    /// Closes the channel once everything that was flushed is sent.
    pub fn close_when_flushed(&self) -> Closed<W> {
        shared!(self.way, shared => shared.send(Command::CloseWhenFlushed));
        self.closed()
    }

    /// Tells the peer that no more will come, once everything that was flushed is sent. Reading goes on.
    pub fn shut_down_output(&self) -> Written {
        let (done, written) = WritePromise::tracked();
        shared!(self.way, shared => shared.send(Command::ShutDownOutput(done)));
        written
    }

    /// The end of the channel: a future of its cause, and a blocking wait.
    pub fn closed(&self) -> Closed<W> {
        Closed { way: self.way.clone() }
    }

    /// Calls `listener` with the cause when the channel has ended: on its loop, before its pipeline hears of it; or here
    /// and now if it has ended already. A listener that panics is reported, and the others are still called.
    pub fn on_close(&self, listener: impl FnOnce(&CloseCause) + Send + 'static) {
        if let Err((listener, cause)) = self.listen(NOBODY, Box::new(listener)) {
            listener(&cause);
        }
    }

    /// The same for an owner, any number but 0, that can take its listener back. A channel that has ended already gives
    /// it back at once.
    pub(super) fn listen_for(&self, owner: usize, listener: CloseListener) -> Result<(), CloseListener> {
        debug_assert_ne!(owner, NOBODY);
        self.listen(owner, listener).map_err(|(listener, _)| listener)
    }

    fn listen(&self, owner: usize, listener: CloseListener) -> Result<(), (CloseListener, CloseCause)> {
        shared!(self.way, shared => shared.listen(owner, listener))
    }

    /// Why the channel ended, if it has.
    pub fn close_cause(&self) -> Option<CloseCause> {
        self.way.close_cause()
    }

    // ---- attributes and stages ----

    /// Attaches a value to the channel, one for each type. Returns the one that was there.
    pub fn set_attribute<T: Send + Sync + 'static>(&self, value: T) -> Option<Arc<T>> {
        let before = shared!(self.way, shared => shared.set_attribute(TypeId::of::<T>(), Arc::new(value)));
        before.and_then(|before| before.downcast().ok())
    }

    /// Attaches values that many channels share. For transports: servers and clients are given them once for all.
    #[doc(hidden)]
    pub fn attach(&self, attributes: &[(TypeId, Arc<dyn Any + Send + Sync>)]) {
        if !attributes.is_empty() {
            shared!(self.way, shared => shared.lock().rare().attributes.extend(attributes.iter().cloned()));
        }
    }

    /// The value of this type that is attached to the channel.
    pub fn attribute<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        shared!(self.way, shared => shared.attribute(TypeId::of::<T>()))?.downcast().ok()
    }

    /// The slot of this name, if the pipeline has one for these types.
    pub fn slot<R: 'static, X: 'static>(&self, name: &str) -> Option<Slot<R, X>> {
        let mut side = shared!(self.way, shared => shared.side());
        side.rare_if_any()?
            .slots
            .iter()
            .find(|(known, _)| *known == name)
            .and_then(|(_, slot)| slot.downcast_ref::<Slot<R, X>>().cloned())
    }

    /// The stages of the pipeline, from the wire to the application, with their figures.
    pub fn stages(&self) -> Promised<Vec<StageInfo>, PromiseError> {
        let (answer, stages) = promise();
        shared!(self.way, shared => shared.send(Command::Stages(answer)));
        stages
    }
}

impl<W> Channel<W> {
    /// Takes back what [`listen_for`](Self::listen_for) was given. The caller drops it, with no lock held.
    pub(super) fn take_listener(&self, owner: usize) -> Option<CloseListener> {
        shared!(self.way, shared => shared.take_listener(owner))
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn listeners(&self) -> usize {
        shared!(self.way, shared => shared.lock().rare.as_ref().map_or(0, |rare| rare.listeners.len()))
    }
}

impl<W> Clone for Channel<W> {
    fn clone(&self) -> Self {
        Self { way: self.way.clone() }
    }
}

impl<W> PartialEq for Channel<W> {
    fn eq(&self, other: &Self) -> bool {
        shared!(self.way, shared => shared.id) == shared!(other.way, shared => shared.id)
    }
}

impl<W> Eq for Channel<W> {}

impl<W: 'static> fmt::Debug for Channel<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("id", &self.id())
            .field("state", &self.state())
            .field("peer", &self.peer_addr())
            .finish_non_exhaustive()
    }
}

/// The end of a channel: resolves to its cause.
pub struct Closed<W> {
    way: Way<W>,
}

impl<W> Closed<W> {
    /// Blocks until the channel has ended. On a loop's thread this is an error unless it has ended already.
    pub fn wait(&self) -> Result<CloseCause, PromiseError>
    where
        W: Send + 'static,
    {
        if let Some(cause) = self.way.close_cause() {
            return Ok(cause);
        }
        let (promise, mut promised) = promise::<CloseCause, PromiseError>();
        self.way.register(&Waker::from(Arc::new(CompleteOnWake {
            way: self.way.clone(),
            promise: Mutex::new(Some(promise)),
        })));
        if let Some(cause) = self.way.close_cause() {
            return Ok(cause);
        }
        promised.wait()
    }
}

/// Completes a promise when the channel has ended; a wake-up for other reasons registers it again.
struct CompleteOnWake<W> {
    way: Way<W>,
    promise: Mutex<Option<Promise<CloseCause, PromiseError>>>,
}

impl<W: Send + 'static> std::task::Wake for CompleteOnWake<W> {
    fn wake(self: Arc<Self>) {
        if self.way.close_cause().is_none() {
            self.way.register(&Waker::from(self.clone()));
        }
        // Looked at again, because the end may have come just before we registered.
        if let Some(cause) = self.way.close_cause() {
            let promise = self.promise.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(promise) = promise {
                promise.succeed(cause);
            }
        }
    }
}

impl<W> Future for Closed<W> {
    type Output = CloseCause;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CloseCause> {
        self.way.register(cx.waker());
        self.way.close_cause().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<W> fmt::Debug for Closed<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closed").field("cause", &self.way.close_cause()).finish()
    }
}
