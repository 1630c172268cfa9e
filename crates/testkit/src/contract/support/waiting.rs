//! Ways to wait that end: for a result, for what another thread brings about, and for loops to have nothing to do.

use netwright_core::EventLoop;
use std::{
    borrow::Borrow,
    pin::Pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// Longer than any healthy step of a test takes; only a failing test waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Blocks a loop for as long as it lives.
pub(crate) struct Hold {
    _release: mpsc::Sender<()>,
}

impl Hold {
    pub(crate) fn new(event_loop: &EventLoop) -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (begun, beginning) = mpsc::channel();
        let task = move || {
            begun.send(()).unwrap();
            let _ = released.recv_timeout(PATIENCE);
        };
        event_loop.execute(task).unwrap();
        beginning.recv_timeout(PATIENCE).expect("the loop takes a task");
        Self { _release: release }
    }
}

pub(crate) fn settle(loops: impl IntoIterator<Item: Borrow<EventLoop>>) {
    let loops: Vec<_> = loops.into_iter().collect();
    for _ in 0..3 {
        for event_loop in &loops {
            let (done, answer) = mpsc::channel();
            event_loop.borrow().execute(move || done.send(()).unwrap()).unwrap();
            answer.recv_timeout(PATIENCE).expect("the loop takes a task");
        }
    }
}

/// A loop that sleeps turns for the timer and little else, however slow the machine is; one that spins turns thousands
/// of times. Workers may still bring what was given to them earlier, so a loop has time to become quiet: one that spins
/// never does.
pub(crate) fn assert_quiet(loops: impl IntoIterator<Item: Borrow<EventLoop>>) {
    for event_loop in loops {
        let event_loop = event_loop.borrow();
        let begun = Instant::now();
        loop {
            let before = event_loop.figures().iterations;
            event_loop.schedule(Duration::from_millis(20), || ()).unwrap().soon().unwrap();
            let turns = event_loop.figures().iterations - before;
            if turns <= 20 {
                break;
            }
            let name = event_loop.name();
            assert!(begun.elapsed() < PATIENCE, "{name} turned {turns} times though nothing happened");
        }
    }
}

/// Waits for a result, but not for ever.
pub(crate) trait Soon: Future + Unpin {
    #[track_caller]
    fn soon(&mut self) -> Self::Output;
}

impl<F: Future + Unpin> Soon for F {
    fn soon(&mut self) -> Self::Output {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let begun = Instant::now();
        loop {
            if let Poll::Ready(output) = Pin::new(&mut *self).poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            let left = PATIENCE.checked_sub(begun.elapsed()).expect("a result comes in time");
            thread::park_timeout(left);
        }
    }
}

/// For what another thread brings about and nothing announces.
pub(crate) fn wait_until(mut done: impl FnMut() -> bool, what: impl FnOnce() -> String) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {}", what());
        thread::yield_now();
    }
}
