//! Tasks whose result somebody waits for.
//!
//! ```text
//!   submit ──▶ admitted? ──▶ queue ──▶ claimed? ──▶ run ──▶ promise: what it returned, or that it panicked
//!                 └ refused: the task comes back  └ cancelled: dropped
//! ```

use super::{
    TaskKind,
    local::{Local, Work},
    shared::{Shared, Task},
};
use crate::{
    promise::{Promised, promise},
    refused::Refused,
    task_error::{TaskError, catch},
};
use std::{io, sync::Arc};

pub(super) fn submit<F, T>(shared: &Arc<Shared>, task: F) -> Result<Promised<T, TaskError>, Refused<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if let Some(local) = Local::current_if(shared.id) {
        return match local.admit() {
            Ok(place) => {
                let (run, promised) = body(shared, task);
                place.push(Work::Run(Box::new(run)));
                Ok(promised)
            }
            Err(why) => Err(Refused::new(task, why)),
        };
    }
    match shared.admit() {
        Ok(permit) => {
            let (run, promised) = body(shared, task);
            shared.push(permit, Task::Run(Box::new(run)));
            Ok(promised)
        }
        Err(why) => Err(Refused::new(task, why)),
    }
}

fn body<F, T>(shared: &Arc<Shared>, task: F) -> (impl FnOnce() + use<F, T>, Promised<T, TaskError>)
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    let (mut promise, promised) = promise();
    let reporter = shared.clone();
    let run = move || {
        if !promise.claim() {
            return; // cancelled
        }
        promise.complete(catch(task).map_err(|message| {
            reporter.report_panic(TaskKind::Task, &message);
            TaskError::Panicked(message)
        }));
    };
    (run, promised)
}

/// What a rebuild of a loop's driver comes to: how many registrations moved.
pub(crate) type Rebuilt = io::Result<usize>;
