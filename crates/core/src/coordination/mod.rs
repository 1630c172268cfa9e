//! What futures on loops use between each other: permits that are limited, and a value whose changes are waited for.
//!
//! ```text
//!   Semaphore ── acquire().await ──▶ Permit ── dropped ──▶ the next in line
//!   Watch ── set(value) ──▶ Watcher ── changed().await ──▶ the latest value
//! ```
//! Always true:
//! 1. Both may be used on any thread, from futures of the same loop or of several, and cost one uncontended lock; nothing blocks for longer than
//!    a few instructions, so they are for loops as well.
//! 2. No lock is held while a waker is cloned, called or dropped, or a value is.
//! 3. Whoever gives a wait up leaves nothing behind, and takes from nobody else what it was about to have.

mod semaphore;
mod watch;

pub use semaphore::{Acquire, AcquireError, Permit, Semaphore};
pub use watch::{Changed, Watch, WatchEnded, Watcher};

/// Waits on a thread of a model.
#[cfg(all(test, loom))]
mod loom_block_on {
    use crate::sync::thread;
    use std::{
        pin::pin,
        sync::Arc,
        task::{Context, Poll, Wake, Waker},
    };

    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    pub(super) fn block_on<F: Future>(future: F) -> F::Output {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            thread::park();
        }
    }
}
