//! What both ends of a promise share: the state of the module's drawing behind one lock.
//!
//! A listener sees the value by reference while other threads go on using the promise, so the value leaves the lock for
//! as long as listeners run: the state is `Notifying`, and what is added meanwhile queues up for that notifier.

use std::{
    any::type_name,
    mem,
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

use super::{PromiseError, trampoline};
use crate::{
    sync::{Arc, Mutex, lock},
    world::promises,
};

pub(super) type Listener<T, E> = Box<dyn FnOnce(&Result<T, E>) + Send>;

pub(super) struct Core<T, E> {
    state: Mutex<State<Slot<T, E>>>,
    /// `E::from`, and what is rare. Held as pointers so that the two ends need neither `E: From<PromiseError>` nor `'static` in
    /// their types, yet a dropped writer can make its error; and so that the rare is compiled where promises of these types are
    /// made, and not again wherever one is dropped.
    error: fn(PromiseError) -> E,
    rare: fn(&Arc<Self>, Rare<T, E>) -> bool,
}

/// What does not happen to most promises.
enum Rare<T, E> {
    /// The writer has gone.
    Abandon,
    /// The reader gives it up, and this is what listeners are told. Says whether that came in time.
    Cancel(E),
    /// A result for listeners, or one that may come too late.
    Settle(Result<T, E>),
    /// The state is `Notifying`, and there is a listener for this result.
    Notify(Result<T, E>),
}

/// What does not depend on the types comes first, so that it is compiled once: see [`AnyState`].
struct State<S: ?Sized> {
    phase: Phase,
    work: Work,
    /// A world wants to know when it ends.
    counted: bool,
    /// The reader's, the last one it polled with.
    waker: Option<Waker>,
    slot: S,
}

struct Slot<T, E> {
    /// There in `Done`.
    result: Option<Result<T, E>>,
    /// Added and not yet picked up by a notifier. Empty in `Done` and `Taken`.
    listeners: Vec<Listener<T, E>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Pending,
    /// A notifier owns the result and will put it back.
    Notifying,
    Done,
    Taken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Not started as far as we know: may be cancelled.
    Open,
    Claimed,
    Cancelled,
}

/// Why there is a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Done,
    Cancelled,
}

/// What a reader finds.
pub(super) enum Take<T, E> {
    Ready(Result<T, E>),
    NotYet,
    Gone,
}

impl<T: 'static, E: From<PromiseError> + 'static> Core<T, E> {
    pub(super) fn pending() -> Self {
        Self::with(Phase::Pending, None, promises::made(type_name::<Result<T, E>>))
    }

    pub(super) fn done(result: Result<T, E>) -> Self {
        Self::with(Phase::Done, Some(result), false)
    }

    fn with(phase: Phase, result: Option<Result<T, E>>, counted: bool) -> Self {
        let slot = Slot { result, listeners: Vec::new() };
        Self {
            state: Mutex::new(State { phase, work: Work::Open, counted, waker: None, slot }),
            error: E::from,
            rare: Self::do_rare,
        }
    }

    #[cold]
    fn do_rare(core: &Arc<Self>, rare: Rare<T, E>) -> bool {
        match rare {
            Rare::Abandon => Self::settle(core, Err(core.error(PromiseError::Abandoned)), Why::Done),
            Rare::Cancel(error) => Self::settle(core, Err(error), Why::Cancelled),
            Rare::Settle(result) => Self::settle(core, result, Why::Done),
            Rare::Notify(result) => {
                Self::notify_or_defer(core, result);
                true
            }
        }
    }
}

/// The writer's side.
impl<T, E> Core<T, E> {
    #[inline] // a result is moved less; what is rare stays outside
    pub(super) fn complete(core: &Arc<Self>, result: Result<T, E>) {
        let mut state = lock(&core.state);
        if state.phase != Phase::Pending || state.counted || !state.slot.listeners.is_empty() {
            drop(state);
            (core.rare)(core, Rare::Settle(result));
            return;
        }
        let waker = state.finish(result);
        drop(state);
        wake(waker);
    }

    pub(super) fn abandon(core: &Arc<Self>) {
        // The error is the user's code: made outside the lock, and only if it looks needed.
        if core.any().is_pending() {
            (core.rare)(core, Rare::Abandon);
        }
    }

    pub(super) fn claim(&self) -> bool {
        self.any().claim()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.any().is_cancelled()
    }
}

/// The reader's side.
impl<T, E> Core<T, E> {
    pub(super) fn cancel(core: &Arc<Self>) -> bool {
        if !core.any().is_cancellable() {
            return false;
        }
        let error = core.error(PromiseError::Cancelled); // likewise
        let mut state = lock(&core.state);
        if !state.is_cancellable() || state.counted || !state.slot.listeners.is_empty() {
            drop(state);
            return (core.rare)(core, Rare::Cancel(error));
        }
        state.work = Work::Cancelled;
        let waker = state.finish(Err(error));
        drop(state);
        wake(waker);
        true
    }

    pub(super) fn is_done(&self) -> bool {
        self.any().is_done()
    }

    pub(super) fn try_take(&self) -> Take<T, E> {
        lock(&self.state).take()
    }

    /// Takes the result, or leaves `cx`'s waker in place of an earlier one.
    pub(super) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Take<T, E>> {
        loop {
            let mut state = lock(&self.state);
            let found = state.take();
            let known = state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
            drop(state);
            match found {
                Take::NotYet if known || self.any().keep(cx.waker()) => return Poll::Pending,
                Take::NotYet => {} // it has come meanwhile
                found => return Poll::Ready(found),
            }
        }
    }

    pub(super) fn forget_waker(&self) {
        self.any().forget_waker();
    }

    /// Runs `listener` now if the promise is done, else leaves it to whoever completes or is notifying already.
    /// Gives it back when the result was taken.
    pub(super) fn listen(core: &Arc<Self>, listener: Listener<T, E>) -> Result<(), Listener<T, E>> {
        let mut state = lock(&core.state);
        if state.phase == Phase::Taken {
            drop(state);
            return Err(listener);
        }
        state.slot.listeners.push(listener);
        if let Some(result) = state.slot.result.take() {
            state.phase = Phase::Notifying;
            drop(state);
            (core.rare)(core, Rare::Notify(result));
        }
        Ok(())
    }

    /// `error` as this promise's error type.
    pub(super) fn error(&self, error: PromiseError) -> E {
        (self.error)(error)
    }

    /// What makes this promise's error type out of a [`PromiseError`].
    pub(super) fn error_fn(&self) -> fn(PromiseError) -> E {
        self.error
    }

    /// For `Debug`: one word.
    pub(super) fn describe(&self) -> &'static str {
        self.any().describe()
    }

    fn any(&self) -> AnyState<'_> {
        AnyState(&self.state)
    }
}

/// Completing: the only way out of `Pending`.
impl<T: 'static, E: 'static> Core<T, E> {
    /// Gives `result` to listeners and reader if nothing else completed first, and if a cancel may still come, both under one
    /// lock. Says whether it did.
    #[inline(always)] // a result is moved less, and the reason is known; what is rare stays outside
    fn settle(core: &Arc<Self>, result: Result<T, E>, why: Why) -> bool {
        let mut state = lock(&core.state);
        if state.phase != Phase::Pending || why == Why::Cancelled && state.work != Work::Open {
            drop(state);
            discard(result); // the user's own code: after the lock
            return false;
        }
        if why == Why::Cancelled {
            state.work = Work::Cancelled;
        }
        if state.counted {
            promises::ended(type_name::<Result<T, E>>());
        }
        if state.slot.listeners.is_empty() {
            let waker = state.finish(result);
            drop(state);
            wake(waker);
        } else {
            state.phase = Phase::Notifying;
            drop(state);
            Self::notify_or_defer(core, result);
        }
        true
    }

    #[inline(never)] // keeps the usual end short, which nobody listens to
    fn notify_or_defer(core: &Arc<Self>, result: Result<T, E>) {
        match trampoline::enter() {
            Some(_nested) => core.notify(result),
            None => {
                let core = core.clone();
                trampoline::defer(Box::new(move || core.notify(result)));
            }
        }
    }

    /// Runs every listener, those that they add too, then puts the result where the reader finds it. Called by the
    /// one who moved the state to `Notifying`.
    fn notify(&self, result: Result<T, E>) {
        loop {
            let mut state = lock(&self.state);
            if state.slot.listeners.is_empty() {
                let waker = state.finish(result);
                drop(state);
                return wake(waker);
            }
            let batch = mem::take(&mut state.slot.listeners);
            drop(state);
            for listener in batch {
                trampoline::catch("listener", || listener(&result));
            }
        }
    }
}

impl<T, E> State<Slot<T, E>> {
    /// The result is there from now on. Gives back whom to wake.
    #[inline]
    fn finish(&mut self, result: Result<T, E>) -> Option<Waker> {
        self.phase = Phase::Done;
        mem::forget(self.slot.result.replace(result)); // there was none: nothing to compile a drop for
        self.waker.take()
    }

    fn take(&mut self) -> Take<T, E> {
        match self.slot.result.take() {
            Some(result) => {
                self.phase = Phase::Taken;
                Take::Ready(result)
            }
            None if self.phase == Phase::Taken => Take::Gone,
            None => Take::NotYet,
        }
    }
}

/// The state of a promise of any types.
#[derive(Clone, Copy)]
struct AnyState<'a>(&'a Mutex<State<dyn Anything + 'a>>);

trait Anything {}

impl<T> Anything for T {}

impl AnyState<'_> {
    fn claim(self) -> bool {
        let mut state = lock(self.0);
        if state.work == Work::Open {
            state.work = Work::Claimed;
        }
        state.work == Work::Claimed
    }

    fn is_cancelled(self) -> bool {
        lock(self.0).work == Work::Cancelled
    }

    fn is_pending(self) -> bool {
        lock(self.0).phase == Phase::Pending
    }

    fn is_done(self) -> bool {
        lock(self.0).is_done()
    }

    fn is_cancellable(self) -> bool {
        lock(self.0).is_cancellable()
    }

    /// Leaves a waker in place of an earlier one. Not if the result has come.
    fn keep(self, waker: &Waker) -> bool {
        // Cloning and dropping a waker is foreign code: outside of the lock.
        let waker = waker.clone();
        let mut state = lock(self.0);
        if state.is_done() {
            drop(state);
            return false;
        }
        let before = state.waker.replace(waker);
        drop(state);
        drop(before);
        true
    }

    fn forget_waker(self) {
        let waker = lock(self.0).waker.take();
        trampoline::catch("waker", || drop(waker));
    }

    fn describe(self) -> &'static str {
        let state = lock(self.0);
        match (state.phase, state.work) {
            (Phase::Pending, Work::Claimed) => "claimed",
            (Phase::Pending, _) => "pending",
            (Phase::Notifying, _) => "notifying",
            (Phase::Done, Work::Cancelled) => "cancelled",
            (Phase::Done, _) => "done",
            (Phase::Taken, _) => "taken",
        }
    }
}

impl<S: ?Sized> State<S> {
    fn is_cancellable(&self) -> bool {
        self.work == Work::Open && self.phase == Phase::Pending
    }

    fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Taken)
    }
}

/// A result that nobody took goes with the promise, whoever that happens to: it may be anyone who completes another one.
impl<T, E> Drop for Core<T, E> {
    fn drop(&mut self) {
        if mem::needs_drop::<Result<T, E>>() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            if state.slot.result.is_some() {
                trampoline::catch("result", || state.slot.result = None); // dropped where it lies
            }
        }
    }
}

/// Drops a result that nobody wants. If that panics, it is told, and nobody's business.
pub(super) fn discard<R>(result: R) {
    if mem::needs_drop::<R>() {
        trampoline::catch("result", || drop(result));
    }
}

#[inline]
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        wake_one(waker);
    }
}

#[inline(never)]
fn wake_one(waker: Waker) {
    trampoline::catch("waker", || waker.wake());
}
