//! How the threads of loops and workers are made, and what is run at both of their ends.
//!
//! ```text
//!   start ──▶ spawner, the system's or one's own ──▶ body, on its thread: runs
//!     ├ failed, or has dropped the body, or would run it on the thread that starts it: an error, and it never runs
//!     └ returned: it runs sooner or later, or its drop is told to `lost`
//! ```
//! Always true:
//! 1. If `start` fails, the body has not run and will not. If it succeeds, the body runs, or `lost` does: there is no third
//!    case, whatever a spawner does with what it was given.
//! 2. A hook that panics is told in the log, and its thread goes on.
//!
//! Not here: which core a thread is bound to (`event_loop::runner`).

use crate::{
    error::InvalidArgument,
    sync::{Arc, Mutex, lock, thread},
    task_error::{catch, tell},
};
use std::{fmt, io, sync::Arc as StdArc};

/// What a thread has to run: once, from its beginning to its end.
pub type ThreadBody = Box<dyn FnOnce() + Send>;

type Hook = StdArc<dyn Fn(&str) + Send + Sync>;
type Spawner = StdArc<dyn Fn(String, ThreadBody) -> io::Result<()> + Send + Sync>;

/// Less does not hold a loop's turn with a few stages in it.
const STACK_MIN: usize = 64 * 1024;

/// How threads are made: the size of their stacks, what runs first and last on each of them, or who makes them at all.
///
/// The examples make loops for tasks and timers. For a group that can host sockets begin with `Backend::group` instead of
/// `EventLoopGroup::builder`.
///
/// For the threads of an [`EventLoopGroup`](crate::EventLoopGroup), of a single [`EventLoop`](crate::EventLoop), of
/// [`Workers`](crate::Workers), and of a thread for each channel. Loops with a factory start their threads when they are built,
/// so that what cannot be had is an error then; without one a loop's thread starts with its first task.
///
/// ```
/// use netwright_core::{EventLoopGroup, ThreadFactory};
///
/// let threads = ThreadFactory::new()
///     .stack_size(256 * 1024)
///     .on_start(|name| println!("{name} begins"))
///     .on_end(|name| println!("{name} ends"));
/// let group = EventLoopGroup::builder().loops(2).thread_factory(threads).build()?;
/// assert!(group.iter().all(|event_loop| event_loop.has_thread()));
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
///
/// With a spawner of one's own:
///
/// ```
/// use netwright_core::{EventLoop, ThreadFactory};
/// use std::thread;
///
/// let threads = ThreadFactory::new().spawner(|name, body| {
///     thread::Builder::new().name(format!("mine: {name}")).spawn(body).map(drop)
/// });
/// let event_loop = EventLoop::builder().name("ticker").thread_factory(threads).build()?;
/// let name = event_loop.submit(|| thread::current().name().map(str::to_owned))?.wait()?;
/// assert_eq!(name.as_deref(), Some("mine: ticker"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "a factory makes threads for whoever is given it"]
pub struct ThreadFactory {
    stack_size: Option<usize>,
    on_start: Option<Hook>,
    on_end: Option<Hook>,
    spawner: Option<Spawner>,
}

impl ThreadFactory {
    /// Makes threads as the standard library does, until something else is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The size of each stack in bytes, at least 64 KiB. Default: what the standard library takes, 2 MiB. A system that does
    /// not give so much makes the building fail.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Runs first on each thread, with its name.
    pub fn on_start(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_start = Some(StdArc::new(hook));
        self
    }

    /// Runs last on each thread, with its name: when all that lived there is gone, and before its end is told. A loop that
    /// gives its thread back for a while ([`suspend_if_idle`](crate::EventLoop::suspend_if_idle)) gets another one later, and
    /// both hooks run for each.
    pub fn on_end(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_end = Some(StdArc::new(hook));
        self
    }

    /// Makes the threads: is given a name and a body, which it must run on a thread that has nothing else to do meanwhile, and not
    /// on the one that it is called on. How large stacks are is its business then.
    ///
    /// If it fails, panics, or lets go of the body before it returns, that is the error of whoever wanted the thread. A body
    /// that is dropped later ends its loop with [`LoopError::Start`](crate::LoopError::Start).
    pub fn spawner(
        mut self,
        spawn: impl Fn(String, ThreadBody) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.spawner = Some(StdArc::new(spawn));
        self
    }

    /// What cannot work, before a thread is made.
    ///
    /// ```
    /// use netwright_core::ThreadFactory;
    ///
    /// let error = ThreadFactory::new().stack_size(1000).validate().unwrap_err();
    /// assert!(error.to_string().starts_with("stack_size is 1000, but must be between 65536 and "));
    /// ```
    pub fn validate(&self) -> Result<(), InvalidArgument> {
        let Some(bytes) = self.stack_size else { return Ok(()) };
        const STACK_MAX: usize = isize::MAX as usize;
        if !(STACK_MIN..=STACK_MAX).contains(&bytes) {
            let expected = format!("between {STACK_MIN} and {STACK_MAX} bytes");
            return Err(InvalidArgument::new("stack_size", bytes, expected));
        }
        if self.spawner.is_some() {
            return Err(InvalidArgument::new(
                "stack_size",
                bytes,
                "left to the spawner, which makes the threads",
            ));
        }
        Ok(())
    }

    /// Whether anything was said.
    pub(crate) fn is_set(&self) -> bool {
        self.stack_size.is_some()
            || self.on_start.is_some()
            || self.on_end.is_some()
            || self.spawner.is_some()
    }

    /// The hook at the start, on the thread of that name. False if it panicked.
    pub(crate) fn begins(&self, name: &str) -> bool {
        run_hook(self.on_start.as_ref(), name, "the hook at the start of a thread panicked")
    }

    /// The hook at the end. False if it panicked.
    pub(crate) fn ends(&self, name: &str) -> bool {
        run_hook(self.on_end.as_ref(), name, "the hook at the end of a thread panicked")
    }

    /// Has `run` run on a thread of its own. `lost` is told if that becomes impossible after this has returned.
    ///
    /// The handle is there if the system's own threads are used.
    pub(crate) fn start(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
        lost: impl FnOnce(io::Error) + Send + 'static,
    ) -> io::Result<Option<thread::JoinHandle<()>>> {
        let slot = Arc::new(Mutex::new(Slot {
            phase: Phase::Starting,
            parts: Some((Box::new(run), Box::new(lost))),
        }));
        let starter = thread::current().id();
        let body = Body { slot: slot.clone() };
        let body: ThreadBody = Box::new(move || body.run(thread::current().id() == starter));
        // The spawner is somebody else's code, and the standard library panics for some sizes of stacks.
        let spawned = catch(|| self.spawn(name, body))
            .unwrap_or_else(|panic| Err(io::Error::other(format!("making it panicked: {panic}"))));
        let mut slot = lock(&slot);
        let found = slot.phase;
        if found == Phase::Starting {
            slot.phase = if spawned.is_ok() { Phase::Started } else { Phase::Over };
        }
        // What a body holds goes with the failure, also if the spawner keeps the body.
        let parts = if slot.phase == Phase::Over { slot.parts.take() } else { None };
        drop(slot);
        drop(parts);
        match (spawned, found) {
            (Ok(handle), Phase::Starting | Phase::Started | Phase::Running) => Ok(handle),
            (Ok(_), Phase::Inline) => {
                Err(io::Error::other("the spawner ran the body on the thread that called it"))
            }
            (Ok(_), Phase::Over) => Err(dropped()),
            (Err(error), Phase::Running) => {
                tell(
                    || tracing::warn!(thread = name, %error, "a thread runs although it is said to have failed"),
                );
                Ok(None)
            }
            (Err(error), _) => Err(self.explain(error)),
        }
    }

    fn spawn(&self, name: &str, body: ThreadBody) -> io::Result<Option<thread::JoinHandle<()>>> {
        if let Some(spawner) = &self.spawner {
            return spawner(name.to_owned(), body).map(|()| None);
        }
        let builder = thread::Builder::new().name(name.to_owned());
        let builder = match self.stack_size {
            Some(bytes) => builder.stack_size(bytes),
            None => builder,
        };
        builder.spawn(body).map(Some)
    }

    fn explain(&self, error: io::Error) -> io::Error {
        match self.stack_size {
            Some(bytes) => io::Error::new(error.kind(), format!("{error} (with a stack of {bytes} bytes)")),
            None => error,
        }
    }
}

fn dropped() -> io::Error {
    io::Error::other("the spawner dropped the body without running it")
}

fn run_hook(hook: Option<&Hook>, name: &str, what: &str) -> bool {
    let Some(hook) = hook else { return true };
    match catch(|| hook(name)) {
        Ok(()) => true,
        Err(panic) => {
            tell(|| tracing::error!(thread = name, panic, "{what}"));
            false
        }
    }
}

impl fmt::Debug for ThreadFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadFactory")
            .field("stack_size", &self.stack_size)
            .field("on_start", &self.on_start.is_some())
            .field("on_end", &self.on_end.is_some())
            .field("spawner", &self.spawner.is_some())
            .finish()
    }
}

/// How far a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Its spawner has not returned.
    Starting,
    /// Its spawner has returned, and it will run.
    Started,
    Running,
    /// It was to run on the thread that starts it, and did not.
    Inline,
    /// It was dropped, or its start failed: it will not run.
    Over,
}

type Parts = (Box<dyn FnOnce() + Send>, Box<dyn FnOnce(io::Error) + Send>);

struct Slot {
    phase: Phase,
    /// What to run, and whom to tell if that is impossible. Gone from `Running` on.
    parts: Option<Parts>,
}

/// What a spawner is given.
struct Body {
    slot: Arc<Mutex<Slot>>,
}

impl Body {
    /// `by_starter`: on the thread that starts it.
    fn run(&self, by_starter: bool) {
        let mut slot = lock(&self.slot);
        let parts = slot.parts.take();
        let runs = match slot.phase {
            Phase::Starting if by_starter => {
                slot.phase = Phase::Inline;
                false
            }
            Phase::Starting | Phase::Started => {
                slot.phase = Phase::Running;
                true
            }
            _ => false,
        };
        drop(slot);
        if let Some((run, _)) = parts
            && runs
        {
            run();
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let mut slot = lock(&self.slot);
        let parts = slot.parts.take();
        let before = slot.phase;
        if parts.is_some() {
            slot.phase = Phase::Over;
        }
        drop(slot);
        let Some((run, lost)) = parts else { return };
        drop(run);
        if before == Phase::Started {
            lost(dropped());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::{
        Mutex,
        mpsc::{Sender, channel},
    };

    /// A start whose body says that it ran, or that it was lost.
    fn start(factory: &ThreadFactory, tell: &Sender<&'static str>) -> io::Result<()> {
        let (ran, lost) = (tell.clone(), tell.clone());
        factory
            .start("thread", move || ran.send("ran").unwrap(), move |_| lost.send("lost").unwrap())
            .map(drop)
    }

    #[test]
    fn a_body_runs_on_a_thread_of_that_name() {
        let (tell, told) = channel();
        start(&ThreadFactory::new().stack_size(STACK_MIN), &tell).unwrap();
        assert_eq!(told.recv(), Ok("ran"));
        let own = ThreadFactory::new().spawner(|name, body| {
            assert_eq!(name, "thread");
            std::thread::spawn(body);
            Ok(())
        });
        start(&own, &tell).unwrap();
        assert_eq!(told.recv(), Ok("ran"));
    }

    #[test]
    fn whatever_a_spawner_does_wrong_before_it_returns_is_an_error_and_nothing_runs() {
        let (tell, told) = channel();
        let fails = ThreadFactory::new().spawner(|_, _| Err(io::Error::other("no threads today")));
        assert_eq!(start(&fails, &tell).unwrap_err().to_string(), "no threads today");
        let drops = ThreadFactory::new().spawner(|_, _| Ok(()));
        let error = start(&drops, &tell).unwrap_err();
        assert_eq!(error.to_string(), "the spawner dropped the body without running it");
        let inline = ThreadFactory::new().spawner(|_, body| {
            body();
            Ok(())
        });
        let error = start(&inline, &tell).unwrap_err();
        assert_eq!(error.to_string(), "the spawner ran the body on the thread that called it");
        let panics = ThreadFactory::new().spawner(|_, _| std::panic::resume_unwind(Box::new("no")));
        assert_eq!(start(&panics, &tell).unwrap_err().to_string(), "making it panicked: no");
        drop(tell);
        assert!(told.recv().is_err(), "neither ran nor lost");
    }

    #[test]
    fn a_body_that_is_dropped_later_is_told_and_one_that_comes_after_a_failure_does_not_run() {
        let (tell, told) = channel();
        let kept = StdArc::new(Mutex::new(Vec::new()));
        let keep = kept.clone();
        let later = ThreadFactory::new().spawner(move |_, body| {
            keep.lock().unwrap().push(body);
            Ok(())
        });
        start(&later, &tell).unwrap();
        kept.lock().unwrap().clear();
        assert_eq!(told.recv(), Ok("lost"));

        let keep = kept.clone();
        let lies = ThreadFactory::new().spawner(move |_, body| {
            keep.lock().unwrap().push(body);
            Err(io::Error::other("failed"))
        });
        start(&lies, &tell).unwrap_err();
        drop(tell);
        assert!(told.recv().is_err(), "neither ran nor lost, and what the body held is gone");
        let late = kept.lock().unwrap().pop().unwrap();
        std::thread::spawn(late).join().unwrap();
    }

    #[test]
    fn a_stack_that_the_system_refuses_is_an_error_that_names_its_size() {
        let (tell, _told) = channel();
        let size = isize::MAX as usize / 2;
        let error = start(&ThreadFactory::new().stack_size(size), &tell).unwrap_err().to_string();
        assert!(error.contains(&format!("(with a stack of {size} bytes)")), "{error}");
    }

    #[test]
    fn sizes_that_cannot_work_are_refused_by_name() {
        let error = ThreadFactory::new().stack_size(0).validate().unwrap_err().to_string();
        assert!(error.starts_with("stack_size is 0, but must be between 65536 and "), "{error}");
        assert!(ThreadFactory::new().stack_size(usize::MAX).validate().is_err());
        let both = ThreadFactory::new().stack_size(1 << 20).spawner(|_, _| Ok(()));
        let error = both.validate().unwrap_err().to_string();
        assert_eq!(error, "stack_size is 1048576, but must be left to the spawner, which makes the threads");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::{AtomicUsize, Ordering};

    /// A spawner that hands the body to a thread which runs it or drops it, and meanwhile returns well or ill.
    #[test]
    fn loom_a_body_runs_or_is_told_lost_or_its_start_fails_and_only_one_of_them() {
        for (runs, fails) in [(true, false), (true, true), (false, false), (false, true)] {
            loom::model(move || {
                let outcomes = Arc::new(AtomicUsize::new(0));
                let other = StdArc::new(Mutex::new(None));
                let place = other.clone();
                let factory = ThreadFactory::new().spawner(move |_, body| {
                    let thread = thread::spawn(move || if runs { body() } else { drop(body) });
                    *lock(&place) = Some(thread);
                    if fails { Err(io::Error::other("failed")) } else { Ok(()) }
                });
                let (ran, lost) = (outcomes.clone(), outcomes.clone());
                let started = factory.start(
                    "thread",
                    move || _ = ran.fetch_add(1, Ordering::AcqRel),
                    move |_| _ = lost.fetch_add(1, Ordering::AcqRel),
                );
                let thread = lock(&other).take().unwrap();
                thread.join().unwrap();
                let outcomes = outcomes.load(Ordering::Acquire) + usize::from(started.is_err());
                assert_eq!(outcomes, 1);
            });
        }
    }
}
