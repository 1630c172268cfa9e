//! Hands out an event loop, and with it a thread, for each channel.
//!
//! ```text
//!            ┌─ none idle, fewer than the limit: a new thread
//!   lease ──▶│                                                 busy ── Lease dropped ──▶ idle
//!            └─ the one that became idle last ◀───────────────────────────────────────────┤
//!                                                           idle for too long: the thread ends
//! ```
//! Always true:
//! 1. A loop is idle or busy, never both, and a lease is given back once: when the channel has been removed and nothing
//!    of it is left on the loop, or when there never was a channel.
//! 2. `threads` counts every loop whose end has not been seen, those that are ending included: it alone is held against
//!    the limit. So there are never more threads than that.
//! 3. No handle of a loop is dropped, and nobody is told, under the lock: both may call back here.
//! 4. Leases and timers hold the pool weakly. When its last handle is gone, so are its handles to the loops, and those
//!    end as any loop does that nobody holds.
//!
//! Last in, first out: the thread whose stack is still in the caches serves the next channel, and after a burst the
//! others are left alone until they end. An idle loop watches its own time, with one timer however often it is used
//! meanwhile.
//!
//! Not here: how a loop waits (`driver`), who accepts and connects (`bootstrap`).

use super::BlockingSeed;
use crate::Backend;
use netwright_core::{
    BuildError, EventLoop, EventLoopGroup, InvalidArgument, LoopError, Promise, RefusedWhy, SHUTDOWN_TIMEOUT,
    Termination, ThreadFactory, promise,
};
use std::{
    collections::HashMap,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

/// More threads than most systems like; whoever needs more connections than this needs another model.
const LIMIT: usize = 10_000;
/// Tasks that wait for one channel without an allocation: there are seldom more, and 32 KiB for each thread would be most
/// of what it holds.
const TASK_RING: usize = 16;
/// Long enough for a quiet minute between two bursts.
const KEEP_IDLE: Duration = Duration::from_secs(60);

/// A thread for each channel: hands out event loops of one channel each, and uses their threads again.
///
/// The loop of a channel belongs to it until it has been removed; then the next channel gets it. Timers, tasks and
/// futures of the channel itself (its handlers' contexts) end with it. What user code schedules on the
/// [`EventLoop`] directly is its own business: it runs as long as the thread is kept, beside whichever channel is there
/// then, and is dropped with the thread.
///
/// Cheap to clone. When the last clone is dropped, and with it every server and client that uses it, its loops end.
///
/// ```
/// use netwright_transport::ThreadPerChannel;
/// use std::time::Duration;
///
/// let threads = ThreadPerChannel::builder().limit(500).keep_idle(Duration::from_secs(5)).build()?;
/// assert_eq!(threads.figures().threads, 0); // none before the first channel
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
#[derive(Clone)]
pub struct ThreadPerChannel {
    inner: Arc<Inner>,
}

/// What a [`ThreadPerChannel`] does and has done.
///
/// ```
/// use netwright_transport::ThreadPerChannel;
///
/// let threads = ThreadPerChannel::builder().limit(100).build()?;
/// let figures = threads.figures();
/// assert_eq!((figures.threads, figures.limit), (0, 100)); // none before there is a channel for it
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadFigures {
    /// Threads there are: busy, idle, and ending.
    pub threads: usize,
    /// Threads that have a channel.
    pub busy: usize,
    /// Threads that wait for one.
    pub idle: usize,
    /// Threads started in all.
    pub started: u64,
    /// How often there was none to be had.
    pub refused: u64,
    /// How many there may be.
    pub limit: usize,
}

struct Inner {
    name: String,
    limit: usize,
    keep_idle: Duration,
    factory: ThreadFactory,
    state: Mutex<State>,
    termination: Termination,
    calls: Calls,
}

type Leased = Result<(EventLoop, Lease), ThreadError>;

/// What servers and clients call. By pointers, so that a program that makes no [`ThreadPerChannel`] has none of its code.
struct Calls {
    lease: fn(&Arc<Inner>) -> Leased,
    give_back: fn(&Arc<Inner>, u64),
    busy_loops: fn(&Inner) -> Vec<EventLoop>,
    loop_beside: fn() -> Result<EventLoopGroup, BuildError>,
}

struct State {
    busy: HashMap<u64, Kept>,
    /// The last one became idle last.
    idle: Vec<(Instant, Kept)>,
    threads: usize,
    /// Of the loop that was made last; numbers are not used again.
    number: u64,
    started: u64,
    refused: u64,
    shut_down: bool,
    terminate: Option<Promise<(), LoopError>>,
}

struct Kept {
    number: u64,
    event_loop: EventLoop,
    /// A timer of its loop will look whether it has been idle for too long.
    watched: bool,
}

/// The use of a loop; dropping it gives the loop back.
pub(crate) struct Lease {
    pool: Weak<Inner>,
    number: u64,
}

impl ThreadPerChannel {
    /// With every setting at its default.
    #[allow(clippy::new_without_default)] // a default that starts threads later would surprise
    pub fn new() -> Self {
        Self::with(ThreadPerChannelBuilder::new())
    }

    /// Sets one up.
    pub fn builder() -> ThreadPerChannelBuilder {
        ThreadPerChannelBuilder::new()
    }

    fn with(builder: ThreadPerChannelBuilder) -> Self {
        let ThreadPerChannelBuilder { name, limit, keep_idle, factory } = builder;
        let (terminate, termination) = promise();
        let state = State {
            busy: HashMap::new(),
            idle: Vec::new(),
            threads: 0,
            number: 0,
            started: 0,
            refused: 0,
            shut_down: false,
            terminate: Some(terminate),
        };
        let (state, termination) = (Mutex::new(state), termination.shared());
        let calls = Calls {
            lease: Inner::lease,
            give_back: Inner::give_back,
            busy_loops: Inner::busy_loops,
            loop_beside: || Backend::Blocking.event_loops(1),
        };
        Self { inner: Arc::new(Inner { name, limit, keep_idle, factory, state, termination, calls }) }
    }

    /// How it goes.
    pub fn figures(&self) -> ThreadFigures {
        let state = self.inner.lock();
        ThreadFigures {
            threads: state.threads,
            busy: state.busy.len(),
            idle: state.idle.len(),
            started: state.started,
            refused: state.refused,
            limit: self.inner.limit,
        }
    }

    /// The loops that have a channel at the moment, in no particular order.
    pub fn busy_loops(&self) -> Vec<EventLoop> {
        (self.inner.calls.busy_loops)(&self.inner)
    }

    /// Asks all loops to end, as [`EventLoop::shutdown_gracefully`] does for one, and hands out no more. Resolves when
    /// the last has ended. The first request counts.
    pub fn shutdown_gracefully(
        &self,
        quiet: Duration,
        timeout: Duration,
    ) -> Result<Termination, InvalidArgument> {
        if timeout < quiet {
            return Err(InvalidArgument {
                argument: "timeout",
                value: format!("{timeout:?}"),
                expected: format!("at least the quiet period of {quiet:?}"),
            });
        }
        Ok(self.end_all(|event_loop| drop(event_loop.shutdown_gracefully(quiet, timeout))))
    }

    /// Ends all loops now, as [`EventLoop::shutdown_now`] does one, and hands out no more.
    ///
    /// ```
    /// use netwright_transport::ThreadPerChannel;
    ///
    /// let threads = ThreadPerChannel::new();
    /// threads.shutdown_now().wait()?;
    /// # Ok::<(), netwright_core::LoopError>(())
    /// ```
    pub fn shutdown_now(&self) -> Termination {
        self.end_all(|event_loop| drop(event_loop.shutdown_now()))
    }

    fn end_all(&self, end: impl Fn(&EventLoop)) -> Termination {
        let (loops, terminate) = {
            let mut state = self.inner.lock();
            state.shut_down = true;
            let busy = state.busy.values().map(|kept| kept.event_loop.clone());
            let mut loops: Vec<EventLoop> = busy.collect();
            loops.extend(state.idle.iter().map(|(_, kept)| kept.event_loop.clone()));
            (loops, state.take_terminate())
        };
        loops.iter().for_each(end);
        if let Some(terminate) = terminate {
            terminate.succeed(());
        }
        self.termination()
    }

    /// Resolves when a shutdown was asked for and the last loop has ended.
    pub fn termination(&self) -> Termination {
        self.inner.termination.clone()
    }

    /// A loop for one channel: nobody else gets it before the lease is dropped.
    pub(crate) fn lease(&self) -> Result<(EventLoop, Lease), ThreadError> {
        (self.inner.calls.lease)(&self.inner)
    }

    /// A loop for whatever needs one and is no channel.
    pub(crate) fn loop_beside(&self) -> Result<EventLoopGroup, BuildError> {
        (self.inner.calls.loop_beside)()
    }
}

impl Inner {
    fn busy_loops(&self) -> Vec<EventLoop> {
        self.lock().busy.values().map(|kept| kept.event_loop.clone()).collect()
    }

    fn lease(self: &Arc<Self>) -> Result<(EventLoop, Lease), ThreadError> {
        let mut stale = Vec::new(); // dropped last, without the lock
        let mut state = self.lock();
        if state.shut_down {
            return Err(ThreadError::ShutDown);
        }
        while let Some((_, kept)) = state.idle.pop() {
            if kept.event_loop.is_shutting_down() {
                stale.push(kept); // whoever had it shut it down; its end is on its way
                continue;
            }
            let (event_loop, number) = (kept.event_loop.clone(), kept.number);
            state.busy.insert(number, kept);
            drop(state);
            return Ok((event_loop, self.lease_of(number)));
        }
        if state.threads >= self.limit {
            state.refused += 1;
            return Err(ThreadError::Limit { threads: state.threads, limit: self.limit });
        }
        state.threads += 1; // the place is ours while the loop is made
        state.number += 1;
        let number = state.number;
        drop(state);
        self.start(number).inspect_err(|_| {
            let mut state = self.lock();
            state.threads -= 1;
            state.refused += 1;
            let terminate = state.take_terminate(); // the last one there was to be
            drop(state);
            if let Some(terminate) = terminate {
                terminate.succeed(());
            }
        })
    }

    fn start(self: &Arc<Self>, number: u64) -> Result<(EventLoop, Lease), ThreadError> {
        let seed = BlockingSeed::new().map_err(|error| ThreadError::Driver(Arc::new(error)))?;
        let name = format!("{}-{number}", self.name);
        let builder = EventLoop::builder().name(name).driver(seed).task_ring(TASK_RING);
        let built = builder.thread_factory(self.factory.clone()).build();
        let event_loop = built.map_err(|error| match error {
            BuildError::Thread { thread, error } => ThreadError::Factory { thread, error: Arc::new(error) },
            error => ThreadError::Setup(error.to_string()),
        })?;
        // The thread starts with the first task: better now than when somebody's connection depends on it.
        event_loop.execute(|| ()).map_err(|refused| ThreadError::NoThread(refused.why))?;
        let kept = Kept { number, event_loop: event_loop.clone(), watched: false };
        let mut state = self.lock();
        let too_late = state.shut_down;
        state.started += 1;
        state.busy.insert(number, kept);
        drop(state);
        let pool = Arc::downgrade(self);
        event_loop.termination().listen(move |_| {
            if let Some(pool) = pool.upgrade() {
                pool.ended(number);
            }
        });
        if too_late {
            let _ = event_loop.shutdown_gracefully(Duration::ZERO, SHUTDOWN_TIMEOUT);
        }
        Ok((event_loop, self.lease_of(number)))
    }
}

impl State {
    /// The promise of the end, if this is the end.
    fn take_terminate(&mut self) -> Option<Promise<(), LoopError>> {
        if self.shut_down && self.threads == 0 { self.terminate.take() } else { None }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lease_of(self: &Arc<Self>, number: u64) -> Lease {
        Lease { pool: Arc::downgrade(self), number }
    }

    /// The channel has been removed: its loop is free.
    fn give_back(self: &Arc<Self>, number: u64) {
        let mut state = self.lock();
        let Some(mut kept) = state.busy.remove(&number) else { return }; // its loop has ended
        let event_loop = kept.event_loop.clone();
        if state.shut_down || self.keep_idle.is_zero() || event_loop.is_shutting_down() {
            drop(state);
            drop(kept);
            return end(&event_loop);
        }
        let watched = std::mem::replace(&mut kept.watched, true);
        state.idle.push((Instant::now(), kept));
        drop(state);
        if !watched {
            self.watch(number, &event_loop, self.keep_idle);
        }
    }

    /// Has the loop look after `delay` whether it has been idle for too long.
    fn watch(self: &Arc<Self>, number: u64, event_loop: &EventLoop, delay: Duration) {
        let pool = Arc::downgrade(self);
        let look = move || {
            if let Some(pool) = pool.upgrade() {
                pool.look(number);
            }
        };
        // A loop that refuses is ending, and its end takes it out of the pool. Nobody cancels the timer.
        drop(event_loop.schedule(delay, look));
    }

    fn look(self: &Arc<Self>, number: u64) {
        let mut state = self.lock();
        if let Some(kept) = state.busy.get_mut(&number) {
            kept.watched = false; // watched again when it is given back
            return;
        }
        let Some(at) = state.idle.iter().position(|(_, kept)| kept.number == number) else { return };
        let left = self.keep_idle.saturating_sub(state.idle[at].0.elapsed());
        if !left.is_zero() {
            let event_loop = state.idle[at].1.event_loop.clone();
            drop(state);
            return self.watch(number, &event_loop, left);
        }
        let (_, kept) = state.idle.remove(at);
        drop(state);
        end(&kept.event_loop);
    }

    fn ended(&self, number: u64) {
        let mut state = self.lock();
        let busy = state.busy.remove(&number);
        let at = state.idle.iter().position(|(_, kept)| kept.number == number);
        let idle = at.map(|at| state.idle.remove(at));
        state.threads -= 1;
        let terminate = state.take_terminate();
        drop(state);
        drop((busy, idle));
        if let Some(terminate) = terminate {
            terminate.succeed(());
        }
    }
}

/// Ends a loop that nobody of ours uses: what was submitted to it still runs.
fn end(event_loop: &EventLoop) {
    let _ = event_loop.shutdown_gracefully(Duration::ZERO, SHUTDOWN_TIMEOUT);
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            (pool.calls.give_back)(&pool, self.number);
        }
    }
}

impl fmt::Debug for ThreadPerChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThreadPerChannel").field(&self.figures()).finish()
    }
}

/// Sets up a [`ThreadPerChannel`].
///
/// ```
/// use netwright_transport::ThreadPerChannel;
/// use std::time::Duration;
///
/// let threads = ThreadPerChannel::builder().name("session").limit(500).keep_idle(Duration::from_secs(10)).build()?;
/// # drop(threads);
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct ThreadPerChannelBuilder {
    name: String,
    limit: usize,
    keep_idle: Duration,
    factory: ThreadFactory,
}

impl ThreadPerChannelBuilder {
    fn new() -> Self {
        let name = "netwright-channel".to_owned();
        Self { name, limit: LIMIT, keep_idle: KEEP_IDLE, factory: ThreadFactory::new() }
    }

    /// The threads are called `name-1`, `name-2` and so on. Default: `netwright-channel`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many threads there may be, and so how many channels at a time. Default: 10,000.
    pub fn limit(mut self, threads: usize) -> Self {
        self.limit = threads;
        self
    }

    /// How long a thread waits for its next channel before it ends. Zero: not at all. Default: 60 s.
    pub fn keep_idle(mut self, time: Duration) -> Self {
        self.keep_idle = time;
        self
    }

    /// How the threads are made: with so many of them small stacks are worth the while. Default: as the system does.
    ///
    /// ```
    /// use netwright_core::ThreadFactory;
    /// use netwright_transport::ThreadPerChannel;
    ///
    /// let small = ThreadFactory::new().stack_size(256 * 1024);
    /// let threads = ThreadPerChannel::builder().thread_factory(small).build()?;
    /// # drop(threads);
    /// # Ok::<(), netwright_core::BuildError>(())
    /// ```
    pub fn thread_factory(mut self, threads: ThreadFactory) -> Self {
        self.factory = threads;
        self
    }

    /// No thread is started before there is a channel for it.
    pub fn build(self) -> Result<ThreadPerChannel, BuildError> {
        if self.limit == 0 {
            return Err(InvalidArgument {
                argument: "limit",
                value: "0".to_owned(),
                expected: "at least 1 thread".to_owned(),
            }
            .into());
        }
        if self.name.contains('\0') {
            return Err(InvalidArgument {
                argument: "name",
                value: format!("{:?}", self.name),
                expected: "free of NUL, as a thread's name has to be".to_owned(),
            }
            .into());
        }
        self.factory.validate()?;
        Ok(ThreadPerChannel::with(self))
    }
}

/// Why there is no thread for a channel.
///
/// ```
/// use netwright_transport::ThreadError;
///
/// let error = ThreadError::Limit { threads: 500, limit: 500 };
/// assert!(error.to_string().contains("the limit is 500"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ThreadError {
    /// As many as are allowed have a channel, or are still ending.
    Limit {
        /// How many threads there are.
        threads: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The system gave no descriptor for the loop's wake-up.
    Driver(Arc<io::Error>),
    /// The system gave no thread.
    NoThread(RefusedWhy),
    /// The [factory](ThreadPerChannelBuilder::thread_factory) made none.
    Factory {
        /// The name of the thread that is missing.
        thread: String,
        /// What the system or the spawner said.
        error: Arc<io::Error>,
    },
    /// A setting cannot work.
    Setup(String),
    /// No more threads are handed out.
    ShutDown,
}

impl fmt::Display for ThreadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { threads, limit } => {
                write!(f, "no thread for another channel: there are {threads}, and the limit is {limit}")
            }
            Self::Driver(error) => write!(f, "no thread for another channel: {error}"),
            Self::NoThread(why) => write!(f, "no thread for another channel: {why}"),
            Self::Factory { thread, error } => {
                write!(f, "no thread for another channel: {thread:?} could not be made: {error}")
            }
            Self::Setup(text) => f.write_str(text),
            Self::ShutDown => f.write_str("no thread for another channel: they have been shut down"),
        }
    }
}

impl std::error::Error for ThreadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Driver(error) | Self::Factory { error, .. } => Some(error.as_ref()),
            _ => None,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};

    /// Ends a test that hangs. Nothing waits as long unless something is broken.
    const HANGS: Duration = Duration::from_secs(60);

    fn wait_until(mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < HANGS, "waited in vain");
            thread::yield_now();
        }
    }

    fn thread_of(event_loop: &EventLoop) -> thread::ThreadId {
        let (tell, told) = mpsc::channel();
        event_loop.execute(move || tell.send(thread::current().id()).unwrap()).unwrap();
        told.recv_timeout(HANGS).unwrap()
    }

    fn counts(pool: &ThreadPerChannel) -> (usize, usize, usize, u64) {
        let ThreadFigures { threads, busy, idle, started, .. } = pool.figures();
        (threads, busy, idle, started)
    }

    #[test]
    fn a_pool_whose_last_thread_cannot_be_started_while_it_is_shut_down_has_ended() {
        let (asked, asking) = mpsc::channel();
        let (go_on, going_on) = mpsc::channel::<()>();
        let going_on = Mutex::new(going_on);
        let factory = ThreadFactory::new().spawner(move |_, _| {
            asked.send(()).unwrap();
            let _ = going_on.lock().unwrap().recv_timeout(HANGS);
            Err(std::io::Error::other("no more threads today"))
        });
        let pool = ThreadPerChannel::builder().thread_factory(factory).build().unwrap();
        thread::scope(|scope| {
            let leased = scope.spawn(|| pool.lease().map(drop));
            asking.recv_timeout(HANGS).unwrap();
            pool.shutdown_now();
            drop(go_on);
            assert!(leased.join().unwrap().is_err());
        });
        assert!(pool.termination().wait_timeout(HANGS).is_some(), "nobody waits for what never came");
    }

    #[test]
    fn every_lease_has_a_thread_of_its_own_and_the_one_given_back_last_is_used_next() {
        let pool = ThreadPerChannel::new();
        let (first, first_lease) = pool.lease().unwrap();
        let (second, second_lease) = pool.lease().unwrap();
        assert_ne!(thread_of(&first), thread_of(&second));
        assert_eq!(counts(&pool), (2, 2, 0, 2));
        assert_eq!(pool.busy_loops().len(), 2);
        drop(second_lease);
        drop(first_lease);
        assert_eq!(counts(&pool), (2, 0, 2, 2));
        let (third, _lease) = pool.lease().unwrap();
        assert_eq!(thread_of(&third), thread_of(&first));
        assert_eq!(counts(&pool), (2, 1, 1, 2));
    }

    #[test]
    fn a_loop_that_is_used_often_has_one_timer() {
        let pool = ThreadPerChannel::new();
        for _ in 0..100 {
            drop(pool.lease().unwrap());
        }
        let (event_loop, _lease) = pool.lease().unwrap();
        thread_of(&event_loop); // all that was submitted before has happened
        assert_eq!((event_loop.figures().timers_pending, pool.figures().started), (1, 1));
    }

    #[test]
    fn an_idle_thread_ends_after_its_time_and_one_in_use_does_not() {
        let keep = Duration::from_millis(5);
        let pool = ThreadPerChannel::builder().keep_idle(keep).build().unwrap();
        let (used, lease) = pool.lease().unwrap();
        let (idle, second) = pool.lease().unwrap();
        drop(second);
        idle.termination().wait_timeout(HANGS).unwrap().unwrap();
        wait_until(|| pool.figures().threads == 1);
        assert_eq!(counts(&pool), (1, 1, 0, 2));
        thread_of(&used);

        let begun = Instant::now();
        drop(lease);
        used.termination().wait_timeout(HANGS).unwrap().unwrap();
        assert!(begun.elapsed() >= keep, "not before its time");
        wait_until(|| counts(&pool) == (0, 0, 0, 2));
        drop(pool.lease().unwrap());
        assert_eq!(pool.figures().started, 3);
    }

    #[test]
    fn with_no_time_to_keep_a_thread_ends_with_its_channel() {
        let pool = ThreadPerChannel::builder().keep_idle(Duration::ZERO).build().unwrap();
        let (event_loop, lease) = pool.lease().unwrap();
        drop(lease);
        event_loop.termination().wait_timeout(HANGS).unwrap().unwrap();
        wait_until(|| counts(&pool) == (0, 0, 0, 1));
    }

    #[test]
    fn beyond_the_limit_there_is_an_error_with_both_numbers_until_one_is_given_back() {
        let pool = ThreadPerChannel::builder().limit(2).build().unwrap();
        let (_first, lease) = pool.lease().unwrap();
        let _second = pool.lease().unwrap();
        let error = pool.lease().err().expect("both are in use");
        assert_eq!(error.to_string(), "no thread for another channel: there are 2, and the limit is 2");
        assert_eq!(pool.figures().refused, 1);
        drop(lease);
        drop(pool.lease().unwrap());
        assert_eq!(counts(&pool), (2, 1, 1, 2));
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let error = ThreadPerChannel::builder().limit(0).build().unwrap_err();
        assert_eq!(error.to_string(), "limit is 0, but must be at least 1 thread");
        let error = ThreadPerChannel::builder().name("a\0b").build().unwrap_err();
        assert!(error.to_string().contains("NUL"), "{error}");
        let (two, one) = (Duration::from_secs(2), Duration::from_secs(1));
        let error = ThreadPerChannel::new().shutdown_gracefully(two, one).unwrap_err();
        assert_eq!(error.to_string(), "timeout is 1s, but must be at least the quiet period of 2s");
    }

    #[test]
    fn a_factory_makes_the_threads_and_one_that_fails_is_an_error_that_takes_no_place() {
        let fails = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let failing = fails.clone();
        let factory = ThreadFactory::new().spawner(move |name, body| {
            if failing.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(io::Error::other("none today"));
            }
            thread::Builder::new().name(format!("own {name}")).spawn(body).map(drop)
        });
        let builder = ThreadPerChannel::builder().name("c").limit(2).thread_factory(factory);
        let pool = builder.build().unwrap();
        let (event_loop, _lease) = pool.lease().unwrap();
        let name = event_loop.submit(|| thread::current().name().map(str::to_owned)).unwrap().wait().unwrap();
        assert_eq!(name.as_deref(), Some("own c-1"));
        fails.store(true, std::sync::atomic::Ordering::Relaxed);
        let error = pool.lease().err().expect("no thread").to_string();
        assert_eq!(error, r#"no thread for another channel: "c-2" could not be made: none today"#);
        assert_eq!((counts(&pool), pool.figures().refused), ((1, 1, 0, 1), 1));
        fails.store(false, std::sync::atomic::Ordering::Relaxed);
        drop(pool.lease().unwrap());
        let error = ThreadPerChannel::builder().thread_factory(ThreadFactory::new().stack_size(1)).build();
        assert!(error.unwrap_err().to_string().starts_with("stack_size is 1, but must be between"));
    }

    #[test]
    fn a_shutdown_ends_the_busy_and_the_idle_and_hands_out_no_more() {
        let pool = ThreadPerChannel::new();
        let (busy, lease) = pool.lease().unwrap();
        let (idle, second) = pool.lease().unwrap();
        drop(second);
        let ended = pool.shutdown_gracefully(Duration::ZERO, HANGS).unwrap();
        ended.wait_timeout(HANGS).unwrap().unwrap();
        assert!(busy.is_terminated() && idle.is_terminated());
        assert_eq!(counts(&pool), (0, 0, 0, 2));
        drop(lease);
        assert_eq!(counts(&pool), (0, 0, 0, 2), "what has ended does not come back");
        assert!(matches!(pool.lease(), Err(ThreadError::ShutDown)));
        let unused = ThreadPerChannel::new();
        unused.shutdown_gracefully(Duration::ZERO, HANGS).unwrap().wait_timeout(HANGS).unwrap().unwrap();
    }

    #[test]
    fn an_end_now_ends_the_busy_and_the_idle_and_what_waits_on_them_is_told() {
        let pool = ThreadPerChannel::new();
        let (busy, _lease) = pool.lease().unwrap();
        drop(pool.lease().unwrap());
        let mut never = busy.schedule(HANGS, || ()).unwrap();
        pool.shutdown_now().wait_timeout(HANGS).unwrap().unwrap();
        assert_eq!(never.wait(), Err(netwright_core::TaskError::Abandoned));
        assert!(matches!(pool.lease(), Err(ThreadError::ShutDown)));
    }

    #[test]
    fn a_loop_that_somebody_else_shut_down_is_not_handed_out_again() {
        let pool = ThreadPerChannel::new();
        let (event_loop, lease) = pool.lease().unwrap();
        drop(lease);
        let ended = event_loop.shutdown_gracefully(Duration::ZERO, HANGS).unwrap();
        let (other, _lease) = pool.lease().unwrap();
        assert_ne!(event_loop, other);
        ended.wait_timeout(HANGS).unwrap().unwrap();
        wait_until(|| counts(&pool) == (1, 1, 0, 2));
    }

    #[test]
    fn when_the_last_handle_is_gone_the_loops_end_and_a_lease_given_back_later_is_nobodys() {
        let pool = ThreadPerChannel::new();
        let (event_loop, lease) = pool.lease().unwrap();
        drop(pool.lease().unwrap());
        let ended = event_loop.termination();
        drop(event_loop);
        drop(pool);
        ended.wait_timeout(HANGS).unwrap().unwrap();
        drop(lease);
    }
}
