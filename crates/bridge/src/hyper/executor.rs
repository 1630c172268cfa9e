//! hyper's executor.

use hyper::rt::Executor;
use netwright_core::LocalLoop;

/// Spawns on the loop that it is used on; futures need not be `Send`.
///
/// hyper needs one for HTTP/2, whose streams are futures of their own. They end with their connection.
///
/// # Panics
/// [`execute`](Executor::execute) panics outside of an event loop.
///
/// ```
/// use hyper::server::conn::http2;
/// use netwright_bridge::{LoopExecutor, LoopTimer};
///
/// let builder = http2::Builder::new(LoopExecutor::new());
/// # drop(builder);
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct LoopExecutor;

impl LoopExecutor {
    /// An executor for every loop.
    pub fn new() -> Self {
        Self
    }
}

impl<F: Future + 'static> Executor<F> for LoopExecutor {
    fn execute(&self, future: F) {
        let local = LocalLoop::current();
        let local = local.unwrap_or_else(|| panic!("LoopExecutor was used outside of an event loop"));
        // A loop that refuses is about to end and drops its channels, so nobody waits for this any more.
        drop(local.spawn(future));
    }
}
