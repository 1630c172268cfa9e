//! What transports and drivers use of a loop, on its own thread.

use super::{
    EventLoop, JoinHandle, LoopRef,
    local::Local,
    moment::Moment,
    schedule::{self, Scheduled, Timer},
    shared::{Shared, Task},
    spawn,
};
use crate::{
    driver::{Source, Token},
    loop_thread,
    refused::{Refused, RefusedWhy},
    timer::wheel::TimerKey,
};
use std::{
    any::Any,
    fmt,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// A loop seen from its own thread: registers sources and takes what need not be `Send`.
///
/// Not `Send`, so it cannot leave the thread for which it is valid.
///
/// ```
/// use netwright_core::{LocalLoop, ManualLoop};
/// use std::{cell::Cell, rc::Rc, time::Duration};
///
/// let mut manual = ManualLoop::new();
/// let rang = Rc::new(Cell::new(false)); // not `Send`, and need not be
/// let rings = rang.clone();
/// manual.enter(|| {
///     let local = LocalLoop::current().expect("on a loop's thread");
///     local.schedule(Duration::from_secs(60), move || rings.set(true)).unwrap();
/// });
/// manual.advance(Duration::from_secs(60));
/// assert!(rang.get());
/// ```
#[derive(Clone)]
pub struct LocalLoop {
    local: Rc<Local>,
}

impl LocalLoop {
    pub(super) fn new(local: Rc<Local>) -> Self {
        Self { local }
    }

    /// The loop that the calling thread runs.
    pub fn current() -> Option<Self> {
        Local::current().map(Self::new)
    }

    /// The handle that other threads may use.
    pub fn handle(&self) -> EventLoop {
        EventLoop::new_handle(self.local.shared.clone())
    }

    /// The same for what must not keep the loop alive.
    pub(crate) fn reference(&self) -> LoopRef {
        LoopRef::new(self.local.shared.clone())
    }

    /// Takes a source into the loop. Refused once a shutdown was asked for; then the source is dropped.
    pub fn register<S: Source>(&self, source: S) -> Result<Token, RefusedWhy> {
        self.register_with(|_| Ok(source))
    }

    /// Takes in a source that has to know its token. While `make` runs, the token names nobody yet; a source that was
    /// deregistered before it was made is dropped at once.
    pub fn register_with<S: Source, E: From<RefusedWhy>>(
        &self,
        make: impl FnOnce(Token) -> Result<S, E>,
    ) -> Result<Token, E> {
        let place = self.place()?;
        let source = make(place.token())?;
        Ok(place.fill(Box::new(source)))
    }

    /// A place for a source that has to know its token, in steps: for whoever makes sources of several types. Refused once a shutdown
    /// was asked for.
    pub fn place(&self) -> Result<ReservedPlace<'_>, RefusedWhy> {
        self.local.reserve().map(|token| ReservedPlace { local: &self.local, filled: false, token })
    }

    /// Lets a source go. One that is running is dropped when its call returns. False if there is none by that token.
    pub fn deregister(&self, token: Token) -> bool {
        self.local.deregister(token)
    }

    /// A place for a source that is about to be made, to be filled by [`give_back`](Self::give_back).
    pub(crate) fn reserve(&self) -> Result<Token, RefusedWhy> {
        self.local.reserve()
    }

    /// A source that was [lent](Self::lend) does not come back.
    #[inline]
    pub(crate) fn release(&self, token: Token) {
        self.local.release(token);
    }

    /// Whether there is a source of this token.
    #[inline]
    pub(crate) fn has(&self, token: Token) -> bool {
        self.local.sources.borrow().contains(token.0)
    }

    /// Takes a source out of the loop, for another one that calls it.
    #[inline]
    pub(crate) fn lend(&self, token: Token) -> Option<Box<dyn Source>> {
        self.local.lend(token)
    }

    /// Puts it back, unless it was let go meanwhile.
    #[inline]
    pub(crate) fn give_back(&self, token: Token, source: Box<dyn Source>) {
        self.local.give_back(token, source);
    }

    /// Calls a source's [`ready`](Source::ready) as a task of the loop, without an event from the driver.
    ///
    /// A source that asks for itself while it is called is called in the next turn: before that the driver is polled, timers
    /// that are due run and other sources have their turns. So one that has more to do than its share goes on by this.
    pub fn call(&self, token: Token) {
        self.local.call(token);
    }

    /// As [`call`](Self::call), but in this turn if there is time for it.
    pub(crate) fn call_soon(&self, token: Token) {
        self.local.call_soon(token);
    }

    /// As [`call`](Self::call), but when nothing else is left in this turn: one call for what many have to say.
    pub(crate) fn call_late(&self, token: Token) {
        self.local.call_late(token);
    }

    /// The number of the loop's turn: a source that has had its share of this one knows by it when the next has begun.
    pub fn turn(&self) -> u64 {
        self.local.shared.figures.iterations.get()
    }

    /// Has [`Source::signal`] called after `delay`, with that signal. Allocates nothing.
    pub fn arm(&self, token: Token, delay: Duration, signal: u64) -> SourceTimer {
        if delay.is_zero() {
            self.local.shared.figures.timers_at_once.add(1);
        }
        let deadline = self.now().checked_add(delay);
        SourceTimer(self.local.arm(deadline, Timer::Signal(token, signal)))
    }

    /// Has [`Source::signal`] called at `moment`, in a later turn, for a stage that wants to look. False if that cannot be kept: then a timer will do.
    pub(crate) fn appoint(&self, token: Token, stage: u32, moment: Moment) -> bool {
        self.local.appoint(token, stage, moment)
    }

    /// The stages of a source do not want to look any more, from this one on.
    #[inline]
    pub(crate) fn cancel_appointment(&self, token: Token, from: u32) {
        self.local.cancel_appointment(token, from);
    }

    /// Takes a source's timer back. False if it was due already.
    pub fn disarm(&self, timer: SourceTimer) -> bool {
        self.local.disarm(timer.0).is_some()
    }

    /// The present moment by the loop's clock.
    pub fn now(&self) -> Instant {
        self.local.shared.clock.now()
    }

    /// The moment of the loop's turn: when it was first asked for in it. For those who note times of what comes in bulk, and would look
    /// at the clock for each piece; what takes long within a turn does not show.
    ///
    /// ```
    /// use netwright_core::{LocalLoop, ManualLoop};
    /// use std::time::Duration;
    ///
    /// let mut manual = ManualLoop::new();
    /// let time = |manual: &mut ManualLoop| manual.enter(|| LocalLoop::current().unwrap().turn_time());
    /// let before = time(&mut manual);
    /// manual.advance(Duration::from_secs(1));
    /// assert_eq!(time(&mut manual) - before, Duration::from_secs(1));
    /// ```
    pub fn turn_time(&self) -> Instant {
        self.local.turn_time()
    }

    /// When the loop last read the clock by itself, as it does at the begin of each turn and when it has delivered what came.
    #[inline]
    pub(crate) fn looked(&self) -> Moment {
        self.local.looked()
    }

    /// [`turn_time`](Self::turn_time) of the loop that the calling thread runs: one load, once it was asked for in the turn.
    ///
    /// ```
    /// use netwright_core::{LocalLoop, ManualLoop};
    /// use std::time::Duration;
    ///
    /// let (mut outer, mut inner) = (ManualLoop::new(), ManualLoop::new());
    /// inner.advance(Duration::from_secs(60));
    /// let (before, within, behind) = outer.enter(|| {
    ///     let before = LocalLoop::turn_time_here();
    ///     (before, inner.enter(LocalLoop::turn_time_here), LocalLoop::turn_time_here())
    /// });
    /// assert!(before.is_some() && before == behind && before != within);
    /// assert_eq!(within, inner.enter(|| LocalLoop::current().map(|local| local.turn_time())));
    /// assert_eq!(LocalLoop::turn_time_here(), None);
    /// ```
    #[inline]
    pub fn turn_time_here() -> Option<Instant> {
        Local::turn_time_here()
    }

    /// A way to have a source called from any thread, which does not keep the loop alive.
    pub fn caller(&self, token: Token) -> SourceCaller {
        SourceCaller::new(self.local.shared.clone(), token)
    }

    /// What the loop's driver offers to its sources, if it is of this type.
    pub fn driver<T: 'static>(&self) -> Option<Rc<T>> {
        let extension: Rc<dyn Any> = self.local.extension.borrow().clone()?;
        extension.downcast().ok()
    }

    /// [`EventLoop::spawn`] for futures that need not be `Send`.
    pub fn spawn<F: Future + 'static>(&self, future: F) -> Result<JoinHandle<F::Output>, Refused<F>> {
        spawn::spawn_local(&self.local, future)
    }

    /// [`EventLoop::schedule`] for what need not be `Send`.
    pub fn schedule<F, T>(&self, delay: Duration, task: F) -> Result<Scheduled<T>, Refused<F>>
    where
        F: FnOnce() -> T + 'static,
        T: 'static,
    {
        if delay.is_zero() {
            self.local.shared.figures.timers_at_once.add(1);
        }
        schedule::once_local(&self.local, self.local.shared.clock.now().checked_add(delay), task)
    }
}

/// A place on a loop whose source is being made; given up when it is dropped.
///
/// ```
/// use netwright_core::{LocalLoop, ManualLoop, driver::{Event, Source}};
///
/// struct Quiet;
///
/// impl Source for Quiet {
///     fn ready(&mut self, _: Event) {}
///     fn shut_down(&mut self) {}
/// }
///
/// ManualLoop::new().enter(|| {
///     let local = LocalLoop::current().unwrap();
///     let place = local.place()?;
///     let source: Box<dyn Source> = Box::new(Quiet); // which may want to know `place.token()`
///     let token = place.fill(source);
///     assert!(local.deregister(token));
///     Ok::<(), netwright_core::RefusedWhy>(())
/// })?;
/// # Ok::<(), netwright_core::RefusedWhy>(())
/// ```
#[must_use = "a place that is dropped is given up"]
pub struct ReservedPlace<'a> {
    local: &'a Local,
    filled: bool,
    token: Token,
}

impl ReservedPlace<'_> {
    /// The token of the source, which names nobody yet.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Takes the source in. One that was deregistered before it was made is dropped at once.
    pub fn fill(mut self, source: Box<dyn Source>) -> Token {
        self.filled = true;
        self.local.put(self.token, source);
        self.token
    }
}

impl Drop for ReservedPlace<'_> {
    fn drop(&mut self) {
        if !self.filled {
            self.local.deregister(self.token);
        }
    }
}

impl fmt::Debug for LocalLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalLoop").field(&self.local.shared.config.name).finish()
    }
}

/// A timer of a source.
///
/// ```
/// use netwright_core::{LocalLoop, ManualLoop, driver::{Event, Source}};
/// use std::time::Duration;
///
/// struct Clock;
/// impl Source for Clock {
///     fn ready(&mut self, _: Event) {}
///     fn signal(&mut self, hours: u64) {
///         println!("it is {hours}");
///     }
///     fn shut_down(&mut self) {}
/// }
///
/// ManualLoop::new().enter(|| {
///     let local = LocalLoop::current().unwrap();
///     let clock = local.register(Clock).unwrap();
///     let timer = local.arm(clock, Duration::from_secs(3600), 1);
///     assert!(local.disarm(timer));
///     assert!(!local.disarm(timer));
/// });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceTimer(TimerKey);

/// Has one source called, from any thread.
///
/// ```
/// use netwright_core::{LocalLoop, ManualLoop, driver::{Event, Source}};
/// use std::{cell::Cell, rc::Rc};
///
/// struct Counts(Rc<Cell<u32>>);
/// impl Source for Counts {
///     fn ready(&mut self, _: Event) {
///         self.0.set(self.0.get() + 1);
///     }
///     fn shut_down(&mut self) {}
/// }
///
/// let (mut manual, count) = (ManualLoop::new(), Rc::new(Cell::new(0)));
/// let caller = manual.enter(|| {
///     let local = LocalLoop::current().unwrap();
///     let token = local.register(Counts(count.clone())).unwrap();
///     local.caller(token)
/// });
/// std::thread::spawn(move || caller.call()).join().unwrap();
/// manual.run_until_idle();
/// assert_eq!(count.get(), 1);
/// ```
#[derive(Clone)]
pub struct SourceCaller {
    shared: Arc<Shared>,
    token: Token,
}

impl SourceCaller {
    pub(super) fn new(shared: Arc<Shared>, token: Token) -> Self {
        Self { shared, token }
    }

    /// Has the source's [`ready`](Source::ready) called with nothing ready. After the loop's end nothing happens.
    pub fn call(&self) {
        self.shared.send(Task::Call(self.token));
    }

    /// Whether the calling thread runs the source's loop.
    pub fn in_event_loop(&self) -> bool {
        loop_thread::is_current(self.shared.id)
    }
}

impl fmt::Debug for SourceCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceCaller").field(&self.token).finish()
    }
}
