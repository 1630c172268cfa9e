//! The ways in which operations on files are carried out, and a folder that goes with its test.

use netwright_core::{EventLoop, EventLoopGroup, promise};
use netwright_transport::Backend;
use std::{
    fmt,
    path::{Path, PathBuf},
    pin::pin,
    process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake},
    thread::{self, Thread},
    time::Duration,
};

/// Ends a test that hangs.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

/// Who asks, and so: who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// A loop with a ring: the ring.
    Ring,
    /// A loop without one: workers.
    Readiness,
    /// A thread that may block: workers.
    Thread,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Way {
    /// Those that this machine has.
    pub(crate) fn all() -> Vec<Self> {
        let mut ways = vec![Self::Readiness, Self::Thread];
        match ring() {
            Some(_) => ways.push(Self::Ring),
            None => eprintln!("skipped on rings: there is no io_uring here"),
        }
        ways
    }

    /// Runs a future where this way is taken, and gives what comes of it.
    pub(crate) fn run<F, T>(self, future: F) -> T
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        match self {
            Self::Ring => on(&ring().expect("asked before"), future),
            Self::Readiness => on(&Backend::Readiness.event_loops(1).unwrap(), future),
            Self::Thread => block_on(future),
        }
    }
}

/// A loop with a ring, if there can be one.
pub(crate) fn ring() -> Option<EventLoopGroup> {
    Backend::Uring.event_loops(1).ok()
}

/// Runs a future on a loop.
pub(crate) fn on<F, T>(group: &EventLoopGroup, future: F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    on_loop(&group.next(), future)
}

pub(crate) fn on_loop<F, T>(event_loop: &EventLoop, future: F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let (tell, told) = mpsc::channel();
    let _task = event_loop.spawn(async move { tell.send(future.await) }).unwrap();
    told.recv_timeout(HANGS).expect("it hangs, or has panicked")
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(thread::current())).into();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park_timeout(HANGS);
    }
}

/// A folder of one test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("netwright-files-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    /// A file with this content.
    pub(crate) fn with(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes that are different at every place of a piece.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// A thread's way to wait until something has come that far.
pub(crate) fn gate() -> (impl FnOnce() + Send, impl FnOnce() + Send) {
    let (open, mut opened) = promise::<(), netwright_core::PromiseError>();
    (move || open.succeed(()), move || opened.wait_timeout(HANGS).expect("it hangs").unwrap())
}
