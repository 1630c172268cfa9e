//! What transports and drivers use of a loop, on its own thread.

use super::{
    EventLoop,
    local::Local,
    schedule::{self, Scheduled},
};
use crate::{
    driver::{Event, Ready, Source, Token},
    refused::{Refused, RefusedWhy},
};
use std::{any::Any, fmt, rc::Rc, time::Duration};

/// A loop seen from its own thread: registers sources and takes what need not be `Send`.
///
/// Not `Send`, so it cannot leave the thread for which it is valid.
#[derive(Clone)]
pub struct LocalLoop {
    local: Rc<Local>,
}

impl LocalLoop {
    pub(super) fn new(local: Rc<Local>) -> Self {
        Self { local }
    }

    /// The loop that the calling thread runs.
    pub fn current() -> Option<Self> {
        Local::current().map(Self::new)
    }

    /// The handle that other threads may use.
    pub fn handle(&self) -> EventLoop {
        EventLoop::new_handle(self.local.shared.clone())
    }

    /// Takes a source into the loop. Refused, with the source in the error, once a shutdown was asked for.
    pub fn register<S: Source>(&self, source: S) -> Result<Token, RefusedWhy> {
        self.local.register(Box::new(source)).map_err(|(source, why)| {
            drop(source);
            why
        })
    }

    /// Lets a source go. One that is running is dropped when its call returns. False if there is none by that token.
    pub fn deregister(&self, token: Token) -> bool {
        self.local.deregister(token)
    }

    /// Calls a source's [`ready`](Source::ready) as a task of the loop, without an event from the driver.
    pub fn call(&self, token: Token) {
        let local = self.local.clone();
        self.local.push(super::local::Work::Run(Box::new(move || {
            local.deliver(Event { token, ready: Ready::NONE });
        })));
    }

    /// What the loop's driver offers to its sources, if it is of this type.
    pub fn driver<T: 'static>(&self) -> Option<Rc<T>> {
        let extension: Rc<dyn Any> = self.local.extension.borrow().clone()?;
        extension.downcast().ok()
    }

    /// [`EventLoop::schedule`] for what need not be `Send`.
    pub fn schedule<F, T>(&self, delay: Duration, task: F) -> Result<Scheduled<T>, Refused<F>>
    where
        F: FnOnce() -> T + 'static,
        T: 'static,
    {
        schedule::once_local(&self.local, self.local.shared.clock.now().checked_add(delay), task)
    }
}

impl fmt::Debug for LocalLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalLoop").field(&self.local.shared.config.name).finish()
    }
}
