//! One result for any number of readers.
//!
//! ```text
//!   Core ── its next listener clones the result into ──► Board { result, waiters }
//!     ▲                                                      ▲
//!     └ listen: order kept by the core                       └ poll, peek, wait of every clone
//! ```
//! Always true between calls:
//! 1. The board's result is set once and then stays, so a reader that has seen it sees it again.
//! 2. A clone has at most one waker on the board, and takes it along when dropped or ready.
//!
//! Not here: cancelling. One of many readers has no right to it; cancel before sharing.

use std::{
    fmt, mem,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{
    PromiseError, block,
    core::{Core, discard},
    trampoline,
};
use crate::sync::{Arc, Mutex, lock};

/// A [`Promised`](super::Promised) that can be cloned: every clone is a future of a clone of the result.
///
/// Made by [`Promised::shared`](super::Promised::shared).
///
/// ```
/// use netwright_core::{PromiseError, promise};
///
/// let (promise, promised) = promise::<u32, PromiseError>();
/// let shared = promised.shared();
/// let other = shared.clone();
/// promise.succeed(42);
/// assert_eq!((shared.wait(), other.wait()), (Ok(42), Ok(42)));
/// ```
pub struct SharedPromised<T = (), E = PromiseError> {
    /// Keeps the original result for listeners; nothing takes it.
    source: Arc<Core<T, E>>,
    board: Arc<Mutex<Board<Posted<T, E>>>>,
    /// Our waker's place on the board.
    waiter: Option<u64>,
}

/// What the clones look at. `R` is `Posted<T, E>`, or any: what does not depend on it is compiled once.
struct Board<R: ?Sized> {
    is_posted: bool,
    waiters: Waiters,
    posted: R,
}

/// The result, if it is there. Behind an `Arc` so that it can be cloned for a reader after the lock is let go.
struct Posted<T, E>(Option<Arc<Result<T, E>>>);

trait Anything {}

impl<T> Anything for T {}

type AnyBoard<'a> = Mutex<Board<dyn Anything + 'a>>;

/// Wakers by arrival, so that who came first is woken first. Knows nothing of the result, and so is compiled once.
#[derive(Default)]
struct Waiters {
    list: Vec<(u64, Waker)>,
    arrivals: u64,
}

impl Waiters {
    /// Keeps a waker in the place that its owner has, or in a new one. What was there is given back.
    fn keep(&mut self, place: &mut Option<u64>, waker: Waker) -> Option<Waker> {
        if let Some(known) = place.and_then(|arrival| self.find(arrival)) {
            return Some(mem::replace(&mut self.list[known].1, waker));
        }
        self.arrivals += 1;
        self.list.push((self.arrivals, waker));
        *place = Some(self.arrivals);
        None
    }

    fn remove(&mut self, arrival: u64) -> Option<Waker> {
        self.find(arrival).map(|place| self.list.remove(place).1)
    }

    fn find(&self, arrival: u64) -> Option<usize> {
        self.list.binary_search_by_key(&arrival, |(known, _)| *known).ok()
    }

    fn wake_all(self) {
        for (_, waker) in self.list {
            trampoline::catch("waker", || waker.wake());
        }
    }
}

impl<T, E> SharedPromised<T, E> {
    pub(super) fn new(source: Arc<Core<T, E>>) -> Self
    where
        T: Clone + Send + Sync + 'static,
        E: Clone + Send + Sync + 'static,
    {
        let board = Arc::new(Mutex::new(Board {
            is_posted: false,
            waiters: Waiters::default(),
            posted: Posted(None),
        }));
        let (poster, abandoned) = (board.clone(), source.error_fn());
        let posted = Core::listen(
            &source,
            Box::new(move |result| {
                // Readers must not wait for ever because a clone panicked.
                let copy = trampoline::catch("clone of its result", || result.clone());
                post(&poster, copy.unwrap_or_else(|| Err(abandoned(PromiseError::Abandoned))));
            }),
        );
        assert!(posted.is_ok(), "sharing a promise whose result was already taken");
        Self { source, board, waiter: None }
    }

    /// Whether the result has arrived; then it stays.
    #[must_use]
    pub fn is_done(&self) -> bool {
        lock(&self.board).is_posted
    }

    /// How many wakers the board holds.
    #[cfg(all(test, not(loom)))]
    pub(super) fn waiters(&self) -> usize {
        lock(&self.board).waiters.list.len()
    }

    /// Calls `listener` with the result, by the rules of [`Promised::listen`](super::Promised::listen).
    pub fn listen(&self, listener: impl FnOnce(&Result<T, E>) + Send + 'static) {
        let added = Core::listen(&self.source, Box::new(listener));
        debug_assert!(added.is_ok(), "nothing takes the result of a shared promise");
    }
}

impl<T: Clone, E: Clone> SharedPromised<T, E> {
    /// A clone of the result if it has arrived.
    #[must_use]
    pub fn peek(&self) -> Option<Result<T, E>> {
        let result = lock(&self.board).posted.0.clone();
        result.map(|result| Result::clone(&result))
    }

    /// Blocks until the result arrives; on an event loop's thread it answers
    /// [`PromiseError::WouldBlockLoop`] instead, as [`Promised::wait`](super::Promised::wait) does.
    pub fn wait(&self) -> Result<T, E> {
        match self.before_blocking() {
            Some(result) => result,
            None => block::wait(self.clone()),
        }
    }

    /// Blocks until the result arrives, but for at most `timeout`: `None` if it passed. Event loops are not blocked:
    /// see [`wait`](SharedPromised::wait).
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Result<T, E>> {
        match self.before_blocking() {
            Some(result) => Some(result),
            None => block::wait_timeout(self.clone(), timeout),
        }
    }

    fn before_blocking(&self) -> Option<Result<T, E>> {
        if let Some(result) = self.peek() {
            return Some(result);
        }
        trampoline::drain(); // the notification that we wait for may be queued on this very thread
        self.peek().or_else(|| {
            let on_loop = !block::may_block();
            on_loop.then(|| Err(self.source.error(PromiseError::WouldBlockLoop)))
        })
    }
}

impl<T: Clone, E: Clone> Future for SharedPromised<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut place = self.waiter;
        loop {
            if let Some(result) = self.peek() {
                self.waiter = None; // the post took every waker
                return Poll::Ready(result);
            }
            if keep(&*self.board, &mut place, cx.waker()) {
                self.waiter = place;
                return Poll::Pending;
            }
        }
    }
}

/// Leaves a waker on the board. Not if the result has come.
fn keep(board: &AnyBoard<'_>, place: &mut Option<u64>, waker: &Waker) -> bool {
    let waker = waker.clone(); // foreign code: outside the lock, and the board is asked again
    let mut board = lock(board);
    if board.is_posted {
        drop(board);
        drop(waker);
        return false;
    }
    let before = board.waiters.keep(place, waker);
    drop(board);
    drop(before);
    true
}

fn remove(board: &AnyBoard<'_>, waiter: u64) {
    let waker = lock(board).waiters.remove(waiter);
    trampoline::catch("waker", || drop(waker));
}

impl<T, E> Clone for SharedPromised<T, E> {
    fn clone(&self) -> Self {
        Self { source: self.source.clone(), board: self.board.clone(), waiter: None }
    }
}

impl<T, E> Drop for SharedPromised<T, E> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            remove(&*self.board, waiter);
        }
    }
}

impl<T, E> fmt::Debug for SharedPromised<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPromised").field("state", &self.source.describe()).finish()
    }
}

/// The last reader's drop of the copy must not get in the way of that of the original, or the other way round.
impl<T, E> Drop for Posted<T, E> {
    fn drop(&mut self) {
        discard(self.0.take());
    }
}

fn post<T, E>(board: &Mutex<Board<Posted<T, E>>>, result: Result<T, E>) {
    let result = Arc::new(result);
    let mut board = lock(board);
    board.posted.0 = Some(result);
    board.is_posted = true;
    let waiters = mem::take(&mut board.waiters);
    drop(board);
    waiters.wake_all();
}
