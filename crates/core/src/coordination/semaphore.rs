//! A number of permits, and those who wait for some, in order.
//!
//! ```text
//!   waiting:  [ granted ][ granted ][ wants 3 ][ wants 1 ] ◀── acquire
//!                                       ▲ has to be served before anybody behind it
//! ```
//! Always true between calls:
//! 1. Those who were granted permits and have not come for them yet stand in front; `granted` counts them.
//! 2. Nobody overtakes: with somebody waiting, permits go to the first one, however few the next one wants.

use crate::{
    sync::{Arc, Mutex, lock},
    task_error,
};
use std::{
    collections::VecDeque,
    error::Error,
    fmt, mem,
    pin::Pin,
    task::{Context, Poll, Waker},
};

/// Permits for what may be done by so many at a time: requests to a backend, uploads, jobs. For async code, on any thread.
///
/// Fair: permits are given in the order in which they were asked for. A [`Permit`] gives back what it has when it is dropped.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Peer, Semaphore, pipeline, time};
/// use std::time::Duration;
///
/// let two_at_a_time = Semaphore::new(2); // shared by all connections of a server, whatever their loops
/// let mut clients: Vec<_> = (0..3).map(|_| {
///     let limit = two_at_a_time.clone();
///     EmbeddedChannel::new(pipeline().serve(async move |mut peer: Peer| {
///         let _permit = limit.acquire().await.expect("not closed");
///         peer.write_and_flush("begun").await?;
///         time::sleep(Duration::from_secs(1)).await; // the work
///         Ok::<(), netwright_core::CloseCause>(())
///     }))
/// }).collect();
/// let begun: Vec<_> = clients.iter_mut().map(|client| client.run().outbound_bytes() == b"begun").collect();
/// assert_eq!(begun, [true, true, false]);
/// clients[0].advance(Duration::from_secs(1)); // one is done
/// assert_eq!(clients[2].run().outbound_bytes(), b"begun");
/// ```
#[doc(alias = "concurrency limit")]
#[derive(Clone)]
pub struct Semaphore {
    shared: Arc<Mutex<State>>,
}

struct State {
    permits: usize,
    waiting: VecDeque<Waiting>,
    /// How many of those in front have their permits.
    granted: usize,
    next: u64,
    closed: bool,
}

struct Waiting {
    ticket: u64,
    wants: usize,
    /// None: it was granted.
    waker: Option<Waker>,
}

impl State {
    /// Grants as many as can be, in order. The wakers are for the caller to wake, with no lock held.
    fn grant(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(first) = self.waiting.get_mut(self.granted)
            && !self.closed
            && first.wants <= self.permits
        {
            self.permits -= first.wants;
            self.granted += 1;
            wakers.extend(first.waker.take());
        }
        wakers
    }

    fn find(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiting| waiting.ticket).ok()
    }
}

impl Semaphore {
    /// So many permits. With none, everybody waits until some are [added](Self::add).
    pub fn new(permits: usize) -> Self {
        let waiting = VecDeque::new();
        Self { shared: Arc::new(Mutex::new(State { permits, waiting, granted: 0, next: 0, closed: false })) }
    }

    /// Waits for one permit.
    ///
    /// # Errors
    /// The semaphore was [closed](Self::close).
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Waits for so many permits, and takes them together. Those who come later wait behind it, so more than there will ever be hold up
    /// everybody.
    ///
    /// # Errors
    /// The semaphore was [closed](Self::close).
    pub fn acquire_many(&self, permits: usize) -> Acquire {
        Acquire { semaphore: self.clone(), wants: permits, ticket: None }
    }

    /// A permit, if there is one now and nobody waits.
    pub fn try_acquire(&self) -> Option<Permit> {
        self.try_acquire_many(1)
    }

    /// So many permits, if there are now and nobody waits.
    pub fn try_acquire_many(&self, permits: usize) -> Option<Permit> {
        let mut state = lock(&self.shared);
        if state.closed || state.waiting.len() > state.granted || permits > state.permits {
            return None;
        }
        state.permits -= permits;
        drop(state);
        Some(self.permit(permits))
    }

    /// Adds permits: for those who wait, and for later.
    pub fn add(&self, permits: usize) {
        if permits == 0 {
            return;
        }
        let mut state = lock(&self.shared);
        state.permits = state.permits.saturating_add(permits);
        let wakers = state.grant();
        drop(state);
        wakers.into_iter().for_each(task_error::wake);
    }

    /// How many permits nobody has.
    pub fn available(&self) -> usize {
        lock(&self.shared).permits
    }

    /// How many wait for permits.
    pub fn waiting(&self) -> usize {
        let state = lock(&self.shared);
        state.waiting.len() - state.granted
    }

    /// Gives out no more permits: whoever waits or asks later is told. Permits that were given are good.
    pub fn close(&self) {
        let mut state = lock(&self.shared);
        state.closed = true;
        let granted = state.granted;
        let wakers: Vec<_> =
            state.waiting.iter_mut().skip(granted).filter_map(|waiting| waiting.waker.take()).collect();
        state.waiting.truncate(granted);
        drop(state);
        wakers.into_iter().for_each(task_error::wake);
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        lock(&self.shared).closed
    }

    fn permit(&self, permits: usize) -> Permit {
        Permit { semaphore: self.clone(), permits }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available", &self.available())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// The wait for permits: [`Semaphore::acquire`]. Its turn comes with its first poll.
#[must_use = "a future does nothing until it is awaited"]
pub struct Acquire {
    semaphore: Semaphore,
    wants: usize,
    /// Its turn, once it waits.
    ticket: Option<u64>,
}

impl Future for Acquire {
    type Output = Result<Permit, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut waker = Some(cx.waker().clone()); // with no lock held: it is anybody's code, and so is its drop
        let this = &mut *self;
        let mut state = lock(&this.semaphore.shared);
        let Some(ticket) = this.ticket else {
            if state.closed {
                return Poll::Ready(Err(AcquireError));
            }
            if state.waiting.len() == state.granted && this.wants <= state.permits {
                state.permits -= this.wants;
                drop(state);
                return Poll::Ready(Ok(this.semaphore.permit(this.wants)));
            }
            let ticket = state.next;
            state.next += 1;
            state.waiting.push_back(Waiting { ticket, wants: this.wants, waker });
            this.ticket = Some(ticket);
            return Poll::Pending;
        };
        let Some(index) = state.find(ticket) else {
            this.ticket = None; // it was closed
            drop(state);
            return Poll::Ready(Err(AcquireError));
        };
        if index < state.granted {
            state.waiting.remove(index);
            state.granted -= 1;
            this.ticket = None;
            drop(state);
            return Poll::Ready(Ok(this.semaphore.permit(this.wants)));
        }
        mem::swap(&mut state.waiting[index].waker, &mut waker);
        drop(state);
        drop(waker); // the one before
        Poll::Pending
    }
}

/// Given up: what was granted goes to the next one, and so does its turn.
impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = lock(&self.semaphore.shared);
        let Some(index) = state.find(ticket) else { return };
        let gone = state.waiting.remove(index);
        if index < state.granted {
            state.granted -= 1;
            state.permits = state.permits.saturating_add(self.wants);
        }
        let wakers = state.grant();
        drop(state);
        drop(gone);
        wakers.into_iter().for_each(task_error::wake);
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").field("permits", &self.wants).finish_non_exhaustive()
    }
}

/// Permits of a [`Semaphore`], given back when this is dropped.
#[must_use = "the permit is given back when this is dropped"]
pub struct Permit {
    semaphore: Semaphore,
    permits: usize,
}

impl Permit {
    /// How many they are.
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// Keeps them for good: there are so many less.
    pub fn forget(mut self) {
        self.permits = 0;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.add(self.permits);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("permits", &self.permits).finish_non_exhaustive()
    }
}

/// The [`Semaphore`] was closed: there will be no more permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcquireError;

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the semaphore was closed")
    }
}

impl Error for AcquireError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll(acquire: &mut Acquire, waker: &Waker) -> Poll<Result<Permit, AcquireError>> {
        Pin::new(acquire).poll(&mut Context::from_waker(waker))
    }

    #[test]
    fn permits_go_to_those_who_wait_in_order_and_nobody_overtakes() {
        let semaphore = Semaphore::new(1);
        let held = semaphore.try_acquire().unwrap();
        let waker = Waker::noop();
        let (mut large, mut small) = (semaphore.acquire_many(2), semaphore.acquire());
        assert!(poll(&mut large, waker).is_pending() && poll(&mut small, waker).is_pending());
        drop(held);
        assert!(poll(&mut small, waker).is_pending(), "one is free, and the first one needs two");
        assert!(semaphore.try_acquire().is_none(), "it is spoken for");
        semaphore.add(1);
        let Poll::Ready(Ok(two)) = poll(&mut large, waker) else { panic!() };
        assert_eq!((two.permits(), semaphore.waiting()), (2, 1));
        drop(two);
        assert!(poll(&mut small, waker).is_ready());
        assert_eq!(semaphore.available(), 2, "the permit was dropped where it was looked at");
    }

    #[test]
    fn who_gives_up_leaves_its_turn_and_what_it_was_granted_to_the_next_one() {
        let semaphore = Semaphore::new(0);
        let woken = std::sync::Arc::<Woken>::default();
        let waker = Waker::from(woken.clone());
        let [mut first, mut second, mut third] = [3, 1, 1].map(|permits| semaphore.acquire_many(permits));
        for acquire in [&mut first, &mut second, &mut third] {
            assert!(poll(acquire, &waker).is_pending());
        }
        semaphore.add(1);
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        drop(first); // before it is granted
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        drop(second); // behind that
        assert_eq!(woken.0.load(Ordering::SeqCst), 2);
        let Poll::Ready(Ok(permit)) = poll(&mut third, &waker) else { panic!() };
        permit.forget();
        assert_eq!((semaphore.available(), semaphore.waiting()), (0, 0));
        assert_eq!(std::sync::Arc::strong_count(&woken), 2, "no waker stays behind");
    }

    #[test]
    fn a_closed_semaphore_tells_those_who_wait_and_lets_those_have_theirs_who_were_granted() {
        let semaphore = Semaphore::new(0);
        let waker = Waker::noop();
        let (mut granted, mut waiting, unpolled) =
            (semaphore.acquire(), semaphore.acquire(), semaphore.acquire());
        assert!(poll(&mut granted, waker).is_pending() && poll(&mut waiting, waker).is_pending());
        semaphore.add(1);
        semaphore.close();
        assert!(matches!(poll(&mut granted, waker), Poll::Ready(Ok(_))));
        assert!(matches!(poll(&mut waiting, waker), Poll::Ready(Err(AcquireError))));
        let mut unpolled = unpolled;
        assert!(matches!(poll(&mut unpolled, waker), Poll::Ready(Err(AcquireError))));
        assert!(semaphore.try_acquire().is_none());
    }

    #[test]
    fn no_permits_at_all_are_had_at_once_and_too_many_do_not_overflow() {
        let semaphore = Semaphore::new(0);
        assert!(matches!(poll(&mut semaphore.acquire_many(0), Waker::noop()), Poll::Ready(Ok(_))));
        semaphore.add(usize::MAX);
        semaphore.add(usize::MAX);
        assert_eq!(semaphore.available(), usize::MAX);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::loom_block_on::block_on;
    use super::*;
    use crate::sync::thread;

    #[test]
    fn loom_a_permit_that_is_given_back_reaches_whoever_waits() {
        loom::model(|| {
            let semaphore = Semaphore::new(1);
            let other = semaphore.clone();
            let thread = thread::spawn(move || drop(block_on(other.acquire()).unwrap()));
            drop(block_on(semaphore.acquire()).unwrap());
            thread.join().unwrap();
            assert_eq!(semaphore.available(), 1);
        });
    }

    #[test]
    fn loom_a_wait_that_is_given_up_in_the_race_with_a_permit_loses_none() {
        loom::model(|| {
            let semaphore = Semaphore::new(0);
            let other = semaphore.clone();
            let thread = thread::spawn(move || other.add(1));
            let mut acquire = semaphore.acquire();
            let polled = Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop()));
            drop(acquire);
            drop(polled);
            thread.join().unwrap();
            assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0));
        });
    }
}
