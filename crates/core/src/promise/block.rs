//! Blocking a thread until a future is ready: `wait` and `wait_timeout`.
//!
//! A condition variable of our own rather than `thread::park`: an executor further up this stack may rely on its
//! `unpark`, and a park of ours would swallow it.
//!
//! Not here: whether this thread may block at all (the callers ask [`may_block`]).

use std::{
    pin::{Pin, pin},
    sync::{Arc as StdArc, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use crate::{
    loop_thread,
    sync::{Condvar, Mutex, lock},
    world::{self, World},
};

/// Whether this thread runs no event loop.
pub(crate) fn may_block() -> bool {
    loop_thread::current_id().is_none()
}

pub(super) fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        let mut output = None;
        wait_for(&mut |cx| is_ready(future.as_mut(), cx, &mut output), None);
        if let Some(output) = output {
            return output;
        }
    }
}

/// `None` when `timeout` passed first.
pub(super) fn wait_timeout<F: Future>(future: F, timeout: Duration) -> Option<F::Output> {
    // A moment too far to be represented never comes.
    let Some(deadline) = world::now().checked_add(timeout) else {
        return Some(wait(future));
    };
    let mut future = pin!(future);
    let mut output = None;
    wait_for(&mut |cx| is_ready(future.as_mut(), cx, &mut output), Some(deadline));
    output
}

fn is_ready<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>, output: &mut Option<F::Output>) -> bool {
    match future.poll(cx) {
        Poll::Ready(ready) => output.replace(ready).is_none(),
        Poll::Pending => false,
    }
}

/// Blocks until `poll` says so, or the deadline has come. Knows nothing of the future, and so is compiled once.
fn wait_for(poll: &mut dyn FnMut(&mut Context<'_>) -> bool, deadline: Option<Instant>) {
    if let Some(world) = world::current() {
        return wait_in(&*world, poll, deadline);
    }
    let parker = StdArc::new(Parker::new());
    let waker = Waker::from(parker.clone());
    while !poll(&mut Context::from_waker(&waker)) {
        match deadline {
            None => parker.park(),
            Some(deadline) if !parker.park_until(deadline) => return,
            Some(_) => {}
        }
    }
}

/// Who waits for longer than this in a world waits for what does not come, while something else goes on and on.
const WAIT_MAX: Duration = Duration::from_secs(30 * 86_400);

/// In a world nobody blocks: it goes on until the future is ready.
#[cold]
fn wait_in(world: &dyn World, poll: &mut dyn FnMut(&mut Context<'_>) -> bool, deadline: Option<Instant>) {
    let mut cx = Context::from_waker(Waker::noop());
    let begun = world.now();
    while !poll(&mut cx) {
        let waited = world.now().saturating_duration_since(begun);
        assert!(deadline.is_some() || waited < WAIT_MAX, "somebody has waited for {waited:?} in a world");
        if !world.go_on(deadline) {
            // The last thing that happened may have been this.
            let is_ready = poll(&mut cx);
            assert!(
                is_ready || deadline.is_some(),
                "nothing is left that could happen, and somebody waits for something"
            );
            return;
        }
    }
}

struct Parker {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Parker {
    fn new() -> Self {
        Self { woken: Mutex::new(false), changed: Condvar::new() }
    }

    fn park(&self) {
        let mut woken = lock(&self.woken);
        while !*woken {
            woken = self.changed.wait(woken).unwrap_or_else(PoisonError::into_inner);
        }
        *woken = false;
    }

    /// `false` if nobody woke us by `deadline`.
    fn park_until(&self, deadline: Instant) -> bool {
        let mut woken = lock(&self.woken);
        while !*woken {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            woken = self.changed.wait_timeout(woken, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *woken = false;
        true
    }
}

impl Wake for Parker {
    fn wake(self: StdArc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &StdArc<Self>) {
        *lock(&self.woken) = true;
        self.changed.notify_one();
    }
}
