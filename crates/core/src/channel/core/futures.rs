//! Futures of stages: where they live, and which of them want to be polled.

use super::{ChannelCore, Home};
use crate::{
    arena::Key,
    pipeline::{Handler, Job, StageTask, TaskWaker},
    task_error::discard_each,
};
use std::{
    any::Any,
    pin::Pin,
    sync::{Arc, PoisonError},
};

impl ChannelCore {
    /// Takes a future of a stage; its first poll comes in a turn of its own. Dropped if the channel has ended.
    pub(crate) fn spawn<H: Handler>(&mut self, stage: u32, job: Pin<Box<dyn Job<H>>>) -> StageTask {
        let task = self.extras.get_or_insert_default().tasks.insert(stage, job);
        match (self.token(), &self.home) {
            (Some(token), Home::Here(local)) => local.call_soon(token),
            _ => self.drop_tasks(0),
        }
        task
    }

    /// The futures that want to be polled.
    pub(in crate::channel) fn take_woken(&mut self) -> Vec<Key> {
        let Some(extras) = &mut self.extras else { return Vec::new() };
        let mut woken = extras.tasks.take_woken();
        if let Some(side) = self.side.get()
            && let Some(rare) = side.lock().unwrap_or_else(PoisonError::into_inner).rare_if_any()
        {
            woken.append(&mut rare.woken);
        }
        woken
    }

    /// Lets the room of a list be used again.
    pub(in crate::channel) fn give_woken_back(&mut self, list: Vec<Key>) {
        if let Some(extras) = &mut self.extras {
            extras.tasks.give_back(list);
        }
    }

    pub(in crate::channel) fn take_task(&mut self, key: Key) -> Option<(u32, Box<dyn Any>)> {
        self.extras.as_mut()?.tasks.take(key)
    }

    pub(crate) fn put_task_back(&mut self, key: Key, task: Box<dyn Any>) {
        if let Some(extras) = &mut self.extras {
            extras.tasks.put_back(key, task);
        }
    }

    pub(crate) fn task_done(&mut self, key: Key, stage: u32, emptied: Box<dyn Any>) {
        if let Some(extras) = &mut self.extras {
            extras.tasks.done(key, stage, emptied);
        }
    }

    pub(crate) fn task_waker(&self, key: Key) -> Option<Arc<TaskWaker>> {
        Some(TaskWaker::new(self.side().clone(), self.source_caller()?, key))
    }

    pub(crate) fn abort_task(&mut self, key: Key) -> bool {
        let known = self.extras.as_mut().is_some_and(|extras| extras.tasks.contains(key));
        let task = self.extras.as_mut().and_then(|extras| extras.tasks.remove(key));
        drop(task); // outside of every borrow: it may be a user's
        known
    }

    /// Drops the futures of all stages from this number on: they leave. Each on its own: one that panics does not keep the
    /// others from being dropped in peace.
    pub(crate) fn drop_tasks(&mut self, from: u32) {
        let leaving = self.extras.as_mut().map(|extras| extras.tasks.take_from(from));
        discard_each(leaving.into_iter().flatten());
    }
}
