//! One value that is replaced now and then, and those who want to hear of it.
//!
//! Always true between calls:
//! 1. `version` grows with each change; a watcher that has seen it waits, any other is told at once. What lies between two looks is missed.
//! 2. When the last [`Watch`] goes, watchers are told: there will be no more.

use crate::{
    arena::{Arena, Key},
    sync::{Arc, Mutex, MutexGuard, lock},
    task_error,
};
use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::Arc as StdArc,
    task::{Context, Poll, Waker},
};

/// A value whose latest state others want to know, and want to hear of when it changes: a configuration, a price, whether to go on. On any thread.
///
/// Whoever looks sees the latest value; what it was in between is not kept, so a watcher that is slow costs nothing.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Peer, Watch, pipeline};
///
/// let price = Watch::new(10);
/// let watcher = price.watcher();
/// let mut client = EmbeddedChannel::new(pipeline().serve(async move |mut peer: Peer| {
///     let mut watcher = watcher;
///     peer.write_and_flush(format!("{} ", watcher.get())).await?;
///     while let Ok(price) = watcher.changed().await {
///         peer.write_and_flush(format!("{price} ")).await?;
///     }
///     peer.write("closed").await
/// }));
/// price.set(11);
/// price.set(12); // before anybody has looked
/// client.run();
/// price.update(|price| price + 1);
/// client.run();
/// drop(price);
/// assert_eq!(client.run().outbound_bytes(), b"10 12 13 closed");
/// ```
#[doc(alias = "latest value")]
pub struct Watch<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    value: StdArc<T>,
    version: u64,
    /// How many may still change it.
    watches: usize,
    wakers: Arena<Waker>,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }
}

impl<T> Watch<T> {
    /// With its first value, which a watcher has seen.
    pub fn new(value: T) -> Self {
        let state = State { value: StdArc::new(value), version: 0, watches: 1, wakers: Arena::default() };
        Self { shared: Arc::new(Shared { state: Mutex::new(state) }) }
    }

    /// The latest value.
    pub fn get(&self) -> StdArc<T> {
        self.shared.lock().value.clone()
    }

    /// Replaces the value, and tells all who watch. Gives back the one before.
    pub fn set(&self, value: T) -> StdArc<T> {
        let value = StdArc::new(value);
        let mut state = self.shared.lock();
        let before = std::mem::replace(&mut state.value, value);
        state.version += 1;
        let wakers = state.wakers.take_all();
        drop(state);
        wakers.into_iter().for_each(task_error::wake);
        before
    }

    /// Makes the next value of the latest one. If another thread changes it meanwhile, that is done again: so `next` may be called more than
    /// once, with no lock held.
    pub fn update(&self, mut next: impl FnMut(&T) -> T) -> StdArc<T> {
        loop {
            let (latest, version) = {
                let state = self.shared.lock();
                (state.value.clone(), state.version)
            };
            let value = StdArc::new(next(&latest));
            let mut state = self.shared.lock();
            if state.version != version {
                drop(state);
                continue;
            }
            let before = std::mem::replace(&mut state.value, value);
            state.version += 1;
            let wakers = state.wakers.take_all();
            drop(state);
            wakers.into_iter().for_each(task_error::wake);
            return before;
        }
    }

    /// Somebody who hears of every change from now on.
    pub fn watcher(&self) -> Watcher<T> {
        let seen = self.shared.lock().version;
        Watcher { shared: self.shared.clone(), seen }
    }
}

/// Changes the same value.
impl<T> Clone for Watch<T> {
    fn clone(&self) -> Self {
        self.shared.lock().watches += 1;
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.watches -= 1;
        if state.watches > 0 {
            return;
        }
        let wakers = state.wakers.take_all();
        drop(state);
        wakers.into_iter().for_each(task_error::wake);
    }
}

impl<T: fmt::Debug> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("value", &self.get()).finish_non_exhaustive()
    }
}

/// Hears of the changes of a [`Watch`]. Each clone sees for itself.
pub struct Watcher<T> {
    shared: Arc<Shared<T>>,
    /// The version that it knows.
    seen: u64,
}

impl<T> Watcher<T> {
    /// The latest value, seen or not. A change that was not waited for can still be.
    pub fn get(&self) -> StdArc<T> {
        self.shared.lock().value.clone()
    }

    /// Whether there is a value that it has not seen.
    pub fn has_changed(&self) -> bool {
        self.shared.lock().version != self.seen
    }

    /// Waits for a value that it has not seen yet, and takes the latest one. Giving the wait up misses nothing.
    ///
    /// # Errors
    /// Nobody is left who could change it, and the last value was seen.
    pub fn changed(&mut self) -> Changed<'_, T> {
        Changed { watcher: self, key: None }
    }
}

impl<T> Clone for Watcher<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), seen: self.seen }
    }
}

impl<T: fmt::Debug> fmt::Debug for Watcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("value", &self.get()).finish_non_exhaustive()
    }
}

/// The wait for a change: [`Watcher::changed`].
#[must_use = "a future does nothing until it is awaited"]
pub struct Changed<'w, T> {
    watcher: &'w mut Watcher<T>,
    key: Option<Key>,
}

impl<T> Future for Changed<'_, T> {
    type Output = Result<StdArc<T>, WatchEnded>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = cx.waker().clone(); // with no lock held, and dropped without one if it is not needed
        let Self { watcher, key } = &mut *self;
        let mut state = watcher.shared.lock();
        if state.version != watcher.seen {
            watcher.seen = state.version;
            let value = state.value.clone();
            drop(state);
            return Poll::Ready(Ok(value));
        }
        if state.watches == 0 {
            drop(state);
            return Poll::Ready(Err(WatchEnded));
        }
        let before = match key.and_then(|key| state.wakers.get_mut(key)) {
            Some(known) => Some(std::mem::replace(known, waker)),
            None => {
                *key = Some(state.wakers.insert(waker));
                None
            }
        };
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl<T> Drop for Changed<'_, T> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.watcher.shared.lock().wakers.remove(key);
            drop(waker);
        }
    }
}

impl<T> fmt::Debug for Changed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changed").finish_non_exhaustive()
    }
}

/// Nobody is left who could change the value of a [`Watch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchEnded;

impl fmt::Display for WatchEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody is left who could change the value")
    }
}

impl Error for WatchEnded {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn poll<T>(watcher: &mut Watcher<T>) -> Poll<Result<StdArc<T>, WatchEnded>> {
        Pin::new(&mut watcher.changed()).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_watcher_sees_the_latest_value_once_and_the_last_one_before_the_end() {
        let watch = Watch::new(1);
        let mut watcher = watch.watcher();
        assert!(poll(&mut watcher).is_pending() && !watcher.has_changed());
        watch.set(2);
        assert_eq!(*watch.set(3), 2);
        assert!(matches!(poll(&mut watcher), Poll::Ready(Ok(value)) if *value == 3));
        assert!(poll(&mut watcher).is_pending());
        let second = watch.clone();
        drop(watch);
        assert!(poll(&mut watcher).is_pending(), "somebody else may change it");
        second.update(|value| value + 1);
        drop(second);
        assert!(matches!(poll(&mut watcher), Poll::Ready(Ok(value)) if *value == 4));
        assert!(matches!(poll(&mut watcher), Poll::Ready(Err(WatchEnded))));
        assert_eq!(*watcher.get(), 4);
    }

    #[test]
    fn a_wait_that_is_given_up_leaves_no_waker_behind() {
        let watch = Watch::new(());
        let mut watcher = watch.watcher();
        for _ in 0..3 {
            assert!(poll(&mut watcher).is_pending());
        }
        assert!(watch.shared.lock().wakers.is_empty());
    }

    #[test]
    fn a_closure_that_panics_changes_nothing_and_one_that_looks_at_the_value_does_not_stand_in_its_own_way() {
        let watch = Watch::new(1);
        let panics =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| watch.update(|_| panic!("no"))));
        assert!(panics.is_err());
        watch.update(|value| value + *watch.get());
        assert_eq!(*watch.get(), 2);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::loom_block_on::block_on;
    use super::*;
    use crate::sync::thread;

    #[test]
    fn loom_a_change_reaches_whoever_waits_and_so_does_the_end() {
        loom::model(|| {
            let watch = Watch::new(1);
            let mut watcher = watch.watcher();
            let thread = thread::spawn(move || {
                watch.set(2);
            });
            assert_eq!(*block_on(watcher.changed()).unwrap(), 2);
            assert_eq!(block_on(watcher.changed()).unwrap_err(), WatchEnded);
            thread.join().unwrap();
        });
    }
}
