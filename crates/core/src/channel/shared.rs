//! What a channel's handles and its loop share: commands on their way, and what everybody may know.
//!
//! ```text
//!   handles ── accept ──▶ commands, in order ── take_commands ──▶ the loop
//!   handles ◀── wakers, listeners ── writable, closed ─────────── the loop
//! ```
//! Always true:
//! 1. A command that was accepted is carried out, refused with the cause of the end, or dropped when the channel leaves its
//!    loop; the loop is called once for all that are accepted before it looks.
//! 2. Nobody else's code runs under the lock: messages, promises, listeners and wakers are let go outside of it.

use super::{
    ChannelId, ChannelState, CloseCause, WriteError, WritePromise,
    child::ParentChannel,
    core::{Addresses, Side, SideTable, Whereabouts},
    weight::SaidOnce,
};
use crate::{
    arena::{Arena, Key},
    driver::Token,
    event_loop::{EventLoop, LoopRef},
    pipeline::{Event, Handler, Place, StageCaller, StageError, StageInfo},
    task_error::{self, catch, discard, discard_each, tell},
    world,
};
use std::{
    any::{Any, TypeId},
    convert::Infallible,
    marker::PhantomData,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Waker,
};

pub enum Command<W> {
    Write(W, WritePromise, usize),
    /// A message of this size waits in the inlet of the sealed segment that has this number.
    Inlet(u32, usize),
    Flush,
    Close(CloseCause, WritePromise),
    CloseNow(CloseCause),
    CloseWhenFlushed,
    ShutDownOutput(WritePromise),
    Pause,
    Resume,
    Request,
    /// Whoever holds a guard of the channel wants no messages delivered, beside all others who do not.
    Hold,
    /// And one of them does no more.
    LetGo,
    Ask(Question),
    Event(Event),
}

/// What a handle asks of the channel. A closure, so that the type of an answer is not compiled for all that have a line of commands.
pub(super) type Question = Box<dyn FnOnce(&dyn Answers) + Send>;

/// Who answers.
pub trait Answers {
    fn stages(&self) -> Vec<StageInfo>;
    fn children(&self) -> Vec<ChannelId>;
}

impl<W> Command<W> {
    /// Whether it makes no sense on a channel that has ended.
    fn is_write(&self) -> bool {
        matches!(self, Self::Write(..) | Self::Inlet(..) | Self::Flush | Self::ShutDownOutput(_))
    }

    /// A message with its promise and its size, or else the command, which has none.
    pub(super) fn without_message(self) -> Result<(W, WritePromise, usize), Command<Infallible>> {
        Err(match self {
            Self::Write(msg, done, size) => return Ok((msg, done, size)),
            Self::Inlet(stage, size) => Command::Inlet(stage, size),
            Self::Flush => Command::Flush,
            Self::Close(cause, done) => Command::Close(cause, done),
            Self::CloseNow(cause) => Command::CloseNow(cause),
            Self::CloseWhenFlushed => Command::CloseWhenFlushed,
            Self::ShutDownOutput(done) => Command::ShutDownOutput(done),
            Self::Pause => Command::Pause,
            Self::Resume => Command::Resume,
            Self::Request => Command::Request,
            Self::Hold => Command::Hold,
            Self::LetGo => Command::LetGo,
            Self::Ask(question) => Command::Ask(question),
            Self::Event(event) => Command::Event(event),
        })
    }
}

pub(crate) struct ChannelShared<W> {
    pub(super) id: ChannelId,
    /// Where the channel lives; it keeps that loop from nothing.
    event_loop: LoopRef,
    /// Its place there, once it has one.
    token: OnceLock<Token>,
    writable: AtomicBool,
    /// Bytes written from outside that are still on their way to the loop, and how many of them are too many.
    on_their_way: AtomicUsize,
    high_mark: usize,
    side: SideTable,
    /// What messages count for that are written from outside.
    pub(super) weight: SaidOnce<W>,
    outside: Mutex<Outside<W>>,
}

/// Where the messages of any type enter that handles write.
pub(crate) trait AnyShared {
    fn as_any(&self) -> &dyn Any;
    /// Puts itself into a place for an `Option` of itself; into none for anything else.
    fn put_into(self: Arc<Self>, place: &mut dyn Any);
    /// The channel's own shared part, if nothing can be written to it from outside.
    fn outermost(self: Arc<Self>) -> Option<Arc<ChannelShared<Infallible>>>;
    /// The channel has ended, and whoever waits for messages to be sent is told before all others.
    fn ended(&self, cause: &CloseCause);
    /// Why the channel has ended, if it has.
    fn cause(&self) -> Option<CloseCause>;
    /// Closes the channel from outside of its pipeline.
    fn break_off(&self, cause: CloseCause);
}

impl<W: 'static> AnyShared for ChannelShared<W> {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn put_into(self: Arc<Self>, place: &mut dyn Any) {
        put(self, place);
    }
    fn outermost(self: Arc<Self>) -> Option<Arc<ChannelShared<Infallible>>> {
        find(self)
    }
    fn ended(&self, _: &CloseCause) {} // `close` tells
    fn cause(&self) -> Option<CloseCause> {
        self.close_cause()
    }
    fn break_off(&self, cause: CloseCause) {
        self.side().closing = true;
        self.send(Command::Close(cause, WritePromise::untracked()));
    }
}

pub(super) fn put<T: 'static>(shared: Arc<T>, place: &mut dyn Any) {
    if let Some(place) = place.downcast_mut() {
        *place = Some(shared);
    }
}

/// The same with its type, if it is that.
pub(super) fn find<T: 'static>(shared: Arc<dyn AnyShared>) -> Option<Arc<T>> {
    let mut place: Option<Arc<T>> = None;
    shared.put_into(&mut place);
    place
}

/// Called once, with the cause of a channel's end.
pub(super) type CloseListener = Box<dyn FnOnce(&CloseCause) + Send>;

/// The owner of a listener that nobody will take back.
pub(super) const NOBODY: usize = 0;

pub(super) struct Outside<W> {
    commands: Vec<Command<W>>,
    /// A call of the channel is under way and will find what is added now.
    called: bool,
    closed: Option<CloseCause>,
    /// Nobody carries out commands any more.
    gone: bool,
    /// What most channels never have: one pointer until one does.
    pub(super) rare: Option<Box<Rare>>,
}

#[derive(Default)]
pub(super) struct Rare {
    /// Of those who wait for the end or for room.
    wakers: Arena<Waker>,
    /// Told of the end, in this order. The number says whose it is, for an owner that may want it back.
    pub(super) listeners: Vec<(usize, CloseListener)>,
}

pub(super) type Attribute = Arc<dyn Any + Send + Sync>;

impl<W> Outside<W> {
    pub(super) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

fn tell_listeners(channel: ChannelId, listeners: Vec<(usize, CloseListener)>, cause: &CloseCause) {
    for (_, listener) in listeners {
        if let Err(panic) = catch(|| listener(cause)) {
            tell(|| {
                tracing::error!(%channel, %panic, "a listener for the end of a channel panicked");
            });
        }
    }
}

impl Rare {
    fn take_wakers(&mut self) -> Vec<Waker> {
        self.wakers.take_all()
    }

    /// Keeps a waker in the place that its owner has, or in a new one. What was there is given back.
    fn keep(&mut self, place: &mut Option<Key>, waker: Waker) -> Option<Waker> {
        match place.and_then(|key| self.wakers.get_mut(key)) {
            Some(known) => Some(std::mem::replace(known, waker)),
            None => {
                *place = Some(self.wakers.insert(waker));
                None
            }
        }
    }
}

fn wake_all(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(task_error::wake);
}

/// What was on its way to a channel has arrived, or was refused: nobody can write any more.
impl<W> Drop for ChannelShared<W> {
    fn drop(&mut self) {
        let left = *self.on_their_way.get_mut();
        if left > 0 {
            let id = self.id;
            world::flaw(|| format!("channel {id} has gone, and {left} bytes are still on their way to it"));
        }
    }
}

impl<W> ChannelShared<W> {
    pub(super) fn new(id: ChannelId, event_loop: LoopRef, high_mark: usize, side: SideTable) -> Arc<Self> {
        Arc::new(Self {
            id,
            event_loop,
            token: OnceLock::new(),
            writable: AtomicBool::new(true),
            on_their_way: AtomicUsize::new(0),
            high_mark,
            side,
            weight: SaidOnce::default(),
            outside: Mutex::new(Outside {
                commands: Vec::new(),
                called: false,
                closed: None,
                gone: false,
                rare: None,
            }),
        })
    }

    pub(super) fn side(&self) -> MutexGuard<'_, Side> {
        self.side.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way to the stage of this name.
    pub(super) fn stage<H: Handler<P>, P: Place>(&self, name: &str) -> Result<StageCaller<H, P>, StageError> {
        let stage = self.side().stage::<H, P>(name)?;
        let channel = self.token.get().map(|token| self.event_loop.caller(*token));
        let table = self.side.clone();
        Ok(StageCaller { table, channel, stage, handler: PhantomData })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Outside<W>> {
        self.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- the loop's side ----

    pub(super) fn set_token(&self, token: Token) {
        // Set first: what is sent from now on calls by itself, and what was sent before is seen below.
        let token = *self.token.get_or_init(|| token);
        let waiting = !self.lock().commands.is_empty();
        if waiting {
            self.event_loop.call(token);
        }
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

    pub(super) fn is_writable(&self) -> bool {
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
        let mut writes = Vec::new();
        for command in commands {
            let list = if command.is_write() { &mut writes } else { &mut outside.commands };
            list.push(command);
        }
        drop(outside);
        for write in writes {
            self.refuse(write, &cause);
        }
        tell_listeners(self.id, listeners, &cause);
        self.wake();
    }

    /// The channel has left its loop: what was asked for and not done is dropped, and so is what will be.
    pub(super) fn leave(&self) {
        let mut outside = self.lock();
        outside.gone = true;
        let commands = std::mem::take(&mut outside.commands);
        drop(outside);
        let calls = self.side().leave();
        // Outside of both locks: what they hold is a user's.
        discard_each(commands);
        if let Some(rare) = calls {
            rare.discard();
        }
    }

    #[inline(never)]
    pub(super) fn refuse(&self, command: Command<W>, cause: &CloseCause) {
        match command {
            Command::Write(msg, done, size) => {
                self.arrived(size);
                discard(msg);
                done.fail(WriteError::Closed(cause.clone()));
            }
            Command::Inlet(_, size) => drop(self.arrived(size)), // the message itself is refused by its inlet
            Command::ShutDownOutput(done) => done.fail(WriteError::Closed(cause.clone())),
            _ => {}
        }
    }

    /// Has a listener told of the end. Gives it back with the cause if that has come already.
    pub(super) fn listen(
        &self,
        owner: usize,
        listener: CloseListener,
    ) -> Result<(), (CloseListener, CloseCause)> {
        let mut outside = self.lock();
        match outside.closed.clone() {
            Some(cause) => Err((listener, cause)),
            None => {
                outside.rare().listeners.push((owner, listener));
                Ok(())
            }
        }
    }

    pub(super) fn take_listener(&self, owner: usize) -> Option<CloseListener> {
        let mut outside = self.lock();
        let listeners = &mut outside.rare.as_mut()?.listeners;
        let index = listeners.iter().position(|(known, _)| *known == owner)?;
        Some(listeners.swap_remove(index).1)
    }

    pub(super) fn set_attribute(&self, key: TypeId, value: Attribute) -> Option<Attribute> {
        self.side().set_attribute(key, value)
    }

    pub(super) fn attribute(&self, key: TypeId) -> Option<Attribute> {
        Side::attribute(&self.side, key)
    }

    /// Ours and the peer's address, as far as they are known.
    pub(super) fn addresses(&self) -> Addresses {
        Side::addresses(&self.side)
    }

    /// The same, whatever stages have said.
    pub(super) fn wire_addresses(&self) -> Addresses {
        Side::wire_addresses(&self.side)
    }

    pub(super) fn parent(&self) -> Option<ParentChannel> {
        self.side().parent().cloned()
    }

    pub(super) fn close_cause(&self) -> Option<CloseCause> {
        self.lock().closed.clone()
    }

    pub(super) fn state(&self) -> ChannelState {
        if self.lock().closed.is_some() {
            ChannelState::Closed
        } else if matches!(self.side().whereabouts, Whereabouts::Unknown) {
            ChannelState::Opening
        } else {
            ChannelState::Active
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.side().closing || self.lock().closed.is_some()
    }

    pub(super) fn wake(&self) {
        let wakers = self.lock().rare.as_mut().map(|rare| rare.take_wakers()).unwrap_or_default();
        wake_all(wakers);
    }

    // ---- the outside ----

    pub(super) fn event_loop(&self) -> EventLoop {
        self.event_loop.handle()
    }

    pub(super) fn send(&self, command: Command<W>) {
        match self.accept(command) {
            Ok(true) => self.call(),
            Ok(false) => {}
            Err((command, cause)) => self.refuse(command, &cause),
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
        if let Some(&token) = self.token.get() {
            self.event_loop.call(token);
        }
    }

    /// A write of this size begins its way to the loop.
    pub(super) fn sets_out(&self, bytes: usize) {
        self.on_their_way.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Keeps a waker in the place that its owner has, or in a new one.
    pub(super) fn register(&self, place: &mut Option<Key>, waker: &Waker) {
        let waker = waker.clone();
        let before = self.lock().rare().keep(place, waker);
        drop(before); // outside of the lock
    }

    /// Somebody waits no more.
    pub(super) fn unregister(&self, place: Key) {
        let waker = self.lock().rare.as_mut().and_then(|rare| rare.wakers.remove(place));
        drop(waker); // outside of the lock
    }
}
