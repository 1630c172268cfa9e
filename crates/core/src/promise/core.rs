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

/// Puts a notification, of this result, into the trampoline's queue.
type Defer<T, E> = fn(Arc<Core<T, E>>, Result<T, E>);

pub(super) struct Core<T, E> {
    state: Mutex<State<T, E>>,
    /// `E::from`, and the way into the trampoline's queue. Held as pointers so that the two ends need neither
    /// `E: From<PromiseError>` nor `'static` in their types, yet a dropped writer can make its error.
    error: fn(PromiseError) -> E,
    defer: Defer<T, E>,
}

struct State<T, E> {
    value: Value<T, E>,
    work: Work,
    /// A world wants to know when it ends.
    counted: bool,
    /// The reader's, the last one it polled with.
    waker: Option<Waker>,
    /// Added and not yet picked up by a notifier. Empty in `Done` and `Taken`.
    listeners: Vec<Listener<T, E>>,
}

enum Value<T, E> {
    Pending,
    /// A notifier owns the result and will put it back.
    Notifying,
    Done(Result<T, E>),
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
        Self::with(Value::Pending, promises::made(type_name::<Result<T, E>>))
    }

    pub(super) fn done(result: Result<T, E>) -> Self {
        Self::with(Value::Done(result), false)
    }

    fn with(value: Value<T, E>, counted: bool) -> Self {
        let state = State { value, work: Work::Open, counted, waker: None, listeners: Vec::new() };
        Self {
            state: Mutex::new(state),
            error: E::from,
            defer: |core, result| trampoline::defer(Box::new(move || core.notify(result))),
        }
    }
}

/// The writer's side.
impl<T, E> Core<T, E> {
    pub(super) fn complete(core: &Arc<Self>, result: Result<T, E>) {
        Self::settle(core, result, Why::Done);
    }

    pub(super) fn abandon(core: &Arc<Self>) {
        // The error is the user's code: made outside the lock, and only if it looks needed.
        if core.is_pending() {
            Self::settle(core, Err(core.error(PromiseError::Abandoned)), Why::Done);
        }
    }

    pub(super) fn claim(&self) -> bool {
        let mut state = lock(&self.state);
        if state.work == Work::Open {
            state.work = Work::Claimed;
        }
        state.work == Work::Claimed
    }

    pub(super) fn is_cancelled(&self) -> bool {
        lock(&self.state).work == Work::Cancelled
    }
}

/// The reader's side.
impl<T, E> Core<T, E> {
    pub(super) fn cancel(core: &Arc<Self>) -> bool {
        if !lock(&core.state).is_cancellable() {
            return false;
        }
        Self::settle(core, Err(core.error(PromiseError::Cancelled)), Why::Cancelled)
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(lock(&self.state).value, Value::Done(_) | Value::Taken)
    }

    pub(super) fn try_take(&self) -> Take<T, E> {
        lock(&self.state).take()
    }

    /// Takes the result, or leaves `cx`'s waker in place of an earlier one.
    pub(super) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Take<T, E>> {
        let mut state = lock(&self.state);
        let found = state.take();
        let known = state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        drop(state);
        match found {
            Take::NotYet if known => return Poll::Pending,
            Take::NotYet => {}
            found => return Poll::Ready(found),
        }

        // Cloning and dropping a waker is foreign code, so the lock is let go in between, and the state asked again.
        let waker = cx.waker().clone();
        let mut state = lock(&self.state);
        match state.take() {
            Take::NotYet => {
                let before = state.waker.replace(waker);
                drop(state);
                drop(before);
                Poll::Pending
            }
            found => {
                drop(state);
                Poll::Ready(found)
            }
        }
    }

    pub(super) fn forget_waker(&self) {
        let waker = lock(&self.state).waker.take();
        trampoline::catch("waker", || drop(waker));
    }

    /// Runs `listener` now if the promise is done, else leaves it to whoever completes or is notifying already.
    /// Gives it back when the result was taken.
    pub(super) fn listen(core: &Arc<Self>, listener: Listener<T, E>) -> Result<(), Listener<T, E>> {
        let mut state = lock(&core.state);
        match mem::replace(&mut state.value, Value::Notifying) {
            Value::Done(result) => {
                state.listeners.push(listener);
                drop(state);
                Self::notify_or_defer(core, result);
            }
            Value::Taken => {
                state.value = Value::Taken;
                drop(state);
                return Err(listener);
            }
            unfinished => {
                state.value = unfinished;
                state.listeners.push(listener);
            }
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
        let state = lock(&self.state);
        match (&state.value, state.work) {
            (Value::Pending, Work::Claimed) => "claimed",
            (Value::Pending, _) => "pending",
            (Value::Notifying, _) => "notifying",
            (Value::Done(_), Work::Cancelled) => "cancelled",
            (Value::Done(_), _) => "done",
            (Value::Taken, _) => "taken",
        }
    }

    fn is_pending(&self) -> bool {
        matches!(lock(&self.state).value, Value::Pending)
    }
}

/// Completing: the only way out of `Pending`.
impl<T, E> Core<T, E> {
    /// Gives `result` to listeners and reader if nothing else completed first, and if a cancel may still come, both under one
    /// lock. Says whether it did.
    #[inline(always)] // a result is moved less, and the reason is known; what is rare stays outside
    fn settle(core: &Arc<Self>, result: Result<T, E>, why: Why) -> bool {
        let mut state = lock(&core.state);
        if !matches!(state.value, Value::Pending) || why == Why::Cancelled && state.work != Work::Open {
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
        if state.listeners.is_empty() {
            state.value = Value::Done(result);
            let waker = state.waker.take();
            drop(state);
            wake(waker);
        } else {
            state.value = Value::Notifying;
            drop(state);
            Self::notify_or_defer(core, result);
        }
        true
    }

    #[inline(never)] // keeps the usual end short, which nobody listens to
    fn notify_or_defer(core: &Arc<Self>, result: Result<T, E>) {
        match trampoline::enter() {
            Some(_nested) => core.notify(result),
            None => (core.defer)(core.clone(), result),
        }
    }

    /// Runs every listener, those that they add too, then puts the result where the reader finds it. Called by the
    /// one who moved the state to `Notifying`.
    fn notify(&self, result: Result<T, E>) {
        loop {
            let mut state = lock(&self.state);
            if state.listeners.is_empty() {
                state.value = Value::Done(result);
                let waker = state.waker.take();
                drop(state);
                return wake(waker);
            }
            let batch = mem::take(&mut state.listeners);
            drop(state);
            for listener in batch {
                trampoline::catch("listener", || listener(&result));
            }
        }
    }
}

impl<T, E> State<T, E> {
    fn is_cancellable(&self) -> bool {
        self.work == Work::Open && matches!(self.value, Value::Pending)
    }

    fn take(&mut self) -> Take<T, E> {
        match mem::replace(&mut self.value, Value::Taken) {
            Value::Done(result) => Take::Ready(result),
            Value::Taken => Take::Gone,
            unfinished => {
                self.value = unfinished;
                Take::NotYet
            }
        }
    }
}

/// A result that nobody took goes with the promise, whoever that happens to: it may be anyone who completes another one.
impl<T, E> Drop for Core<T, E> {
    fn drop(&mut self) {
        if mem::needs_drop::<Result<T, E>>() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            if matches!(state.value, Value::Done(_)) {
                trampoline::catch("result", || state.value = Value::Taken); // dropped where it lies
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
