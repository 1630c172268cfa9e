//! A loop that has no thread, because a world drives it.

use crate::{
    error::LoopError,
    event_loop::{Driven, LoopFigures, Shared},
    task_error::tell,
};
use std::{fmt, sync::Arc, time::Instant};

/// A loop on its way to the world that drives it: made where a thread would have been.
///
/// If it is dropped instead of driven, the loop ends with [`LoopError::Start`].
pub struct LoopBody {
    shared: Option<Arc<Shared>>,
    tag: u64,
}

impl LoopBody {
    pub(crate) fn new(shared: Arc<Shared>, tag: u64) -> Self {
        Self { shared: Some(shared), tag }
    }

    /// The number that came with its [driver](super::World::driver).
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// The loop's name.
    pub fn name(&self) -> &str {
        self.shared.as_ref().map_or("", |shared| &shared.config.name)
    }

    /// Starts the loop's driver on the calling thread, which drives the loop from now on. `None`: that failed, and the loop has ended.
    pub fn drive(mut self) -> Option<DrivenLoop> {
        let shared = self.shared.take()?;
        match Driven::start(&shared) {
            Ok(driven) => Some(DrivenLoop { driven, tag: self.tag, asleep: false }),
            Err(error) => {
                let name = &shared.config.name;
                tell(|| tracing::error!(event_loop = %name, %error, "the event loop did not start"));
                shared.refuse_all();
                shared.terminate(Err(error));
                None
            }
        }
    }
}

impl Drop for LoopBody {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.refuse_all();
            let error = std::io::Error::other("the world dropped the loop without driving it");
            shared.terminate(Err(LoopError::Start(Arc::new(error))));
        }
    }
}

impl fmt::Debug for LoopBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopBody").field("name", &self.name()).field("tag", &self.tag).finish()
    }
}

/// What came of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turned {
    /// There is more to do at once.
    Busy,
    /// The loop sleeps: until its driver's waker is used, or something happens that its driver knows of, or the
    /// [next timer](DrivenLoop::next_timer) is due.
    Asleep,
    /// The loop is over, or has given its thread back, and gets another [`LoopBody`] when it has something to do again.
    Over,
}

/// A loop that is driven, turn by turn. Dropped, it ends as if its thread was ended: what was accepted runs, what lives on it is dropped.
pub struct DrivenLoop {
    driven: Driven,
    tag: u64,
    asleep: bool,
}

impl DrivenLoop {
    /// The number that came with its [driver](super::World::driver).
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// The loop's name.
    pub fn name(&self) -> &str {
        &self.driven.shared().config.name
    }

    /// One turn: a poll of the driver with no time to wait, and all that follows from it.
    pub fn turn(&mut self) -> Turned {
        if std::mem::replace(&mut self.asleep, false) {
            self.driven.shared().inbox.wake_up();
        }
        let busy = self.driven.turn_once();
        if self.driven.is_over() {
            return Turned::Over;
        }
        // By the same step as a loop with a thread: who has a task for it from now on wakes it.
        if busy || self.driven.has_tasks() || !self.driven.shared().inbox.fall_asleep() {
            return Turned::Busy;
        }
        self.asleep = true;
        Turned::Asleep
    }

    /// When its next timer is due, or it has to look whether it may leave, by the loop's clock.
    pub fn next_timer(&self) -> Option<Instant> {
        self.driven.next_look()
    }

    /// What it has done and has still to do.
    pub fn figures(&self) -> LoopFigures {
        self.driven.figures()
    }

    /// Ends it at once, as [`EventLoop::shutdown_now`](crate::EventLoop::shutdown_now) does, without another turn: what has not begun is dropped.
    pub fn cut(self) {
        self.driven.shared().shut_down_now();
        drop(self);
    }
}

impl fmt::Debug for DrivenLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrivenLoop")
            .field("name", &self.name())
            .field("tag", &self.tag)
            .field("asleep", &self.asleep)
            .finish_non_exhaustive()
    }
}
