//! What runs after everything else in a turn: figures, consolidated flushes, dashboards.
//!
//! A tail task that is added while tail tasks run waits for the next turn, so the turn always ends. A one-shot tail
//! task keeps the loop from sleeping before it has run; a recurring one does not, it rides along.

use super::{
    TaskKind,
    local::Local,
    shared::{Shared, Task},
};
use crate::{
    arena::{Arena, Key},
    refused::{Refused, RefusedWhy},
};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fmt,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Empty while its task runs.
type Pending = Option<(Run, Arc<Ticket>)>;

enum Run {
    Once(Box<dyn FnOnce()>),
    Every(Box<dyn FnMut()>),
}

/// The tail tasks of one loop, in the order in which they were added.
pub(crate) struct TailTasks {
    table: RefCell<Arena<Pending>>,
    order: RefCell<VecDeque<Key>>,
    once: Cell<usize>,
}

impl TailTasks {
    pub(crate) fn new() -> Self {
        Self { table: RefCell::new(Arena::new()), order: RefCell::default(), once: Cell::new(0) }
    }

    /// Whether a one-shot task waits.
    pub(crate) fn has_pending(&self) -> bool {
        self.once.get() > 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.borrow().is_empty()
    }

    fn add(&self, run: Run, ticket: Arc<Ticket>) {
        if ticket.settled.load(Ordering::Acquire) {
            return; // removed on the way here
        }
        if let Run::Once(_) = run {
            self.once.set(self.once.get() + 1);
        }
        let key = self.table.borrow_mut().insert(Some((run, ticket.clone())));
        self.order.borrow_mut().push_back(key);
        ticket.key.store(key.to_u64(), Ordering::Release);
    }

    /// Runs what is there now. Returns how many ran.
    pub(crate) fn run(&self, local: &Rc<Local>) -> usize {
        let waiting = self.order.borrow().len();
        let mut ran = 0;
        for _ in 0..waiting {
            let Some(key) = self.order.borrow_mut().pop_front() else { break };
            let Some((run, ticket)) = self.table.borrow_mut().get_mut(key).and_then(Option::take) else {
                continue; // removed
            };
            ran += 1;
            match run {
                Run::Once(run) => {
                    self.table.borrow_mut().remove(key);
                    self.once.set(self.once.get() - 1);
                    if !ticket.settled.swap(true, Ordering::AcqRel) {
                        local.contain(TaskKind::Tail, run);
                    }
                }
                Run::Every(mut run) => {
                    let whole = local.contain(TaskKind::Tail, &mut run).is_some();
                    if whole && !ticket.settled.load(Ordering::Acquire) {
                        if let Some(place) = self.table.borrow_mut().get_mut(key) {
                            *place = Some((Run::Every(run), ticket));
                            self.order.borrow_mut().push_back(key);
                        }
                    } else {
                        self.table.borrow_mut().remove(key);
                        local.contain(TaskKind::Tail, || drop(run));
                    }
                }
            }
        }
        ran
    }

    fn remove(&self, local: &Rc<Local>, key: Key) {
        let removed = self.table.borrow_mut().remove(key).flatten();
        if let Some((Run::Once(_), _)) = removed {
            self.once.set(self.once.get() - 1);
        }
        local.contain(TaskKind::Tail, || drop(removed));
    }

    pub(crate) fn clear(&self, local: &Rc<Local>) {
        self.order.borrow_mut().clear();
        self.once.set(0);
        let table = self.table.replace(Arena::new());
        local.drop_each(TaskKind::Tail, table.into_values());
    }
}

struct Ticket {
    shared: Arc<Shared>,
    /// A one-shot task has run, or the task was removed.
    settled: AtomicBool,
    key: AtomicU64,
}

/// A tail task that can be removed. Dropping the handle leaves it in place.
///
/// ```
/// use netwright_core::ManualLoop;
/// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
///
/// let (mut manual, turns) = (ManualLoop::new(), Arc::new(AtomicU32::new(0)));
/// let counted = turns.clone();
/// let counting = manual.handle().after_every_iteration(move || _ = counted.fetch_add(1, Ordering::Relaxed)).unwrap();
/// manual.run_once();
/// assert!(turns.load(Ordering::Relaxed) > 0);
/// assert!(counting.remove());
/// ```
pub struct TailTask {
    ticket: Arc<Ticket>,
}

impl TailTask {
    /// Removes the task. False if it ran once and for all, or was removed before.
    pub fn remove(&self) -> bool {
        if self.ticket.settled.swap(true, Ordering::AcqRel) {
            return false;
        }
        let ticket = self.ticket.clone();
        let remove = move |local: &Rc<Local>| {
            local.tail.remove(local, Key::from_u64(ticket.key.load(Ordering::Acquire)));
        };
        match Local::current_if(self.ticket.shared.id) {
            Some(local) => remove(&local),
            None => self.ticket.shared.send(Task::Run(Box::new(move || {
                if let Some(local) = Local::current() {
                    remove(&local);
                }
            }))),
        }
        true
    }
}

impl fmt::Debug for TailTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settled = self.ticket.settled.load(Ordering::Relaxed);
        f.debug_struct("TailTask").field("settled", &settled).finish_non_exhaustive()
    }
}

pub(super) fn add_once<F: FnOnce() + Send + 'static>(
    shared: &Arc<Shared>,
    task: F,
) -> Result<TailTask, Refused<F>> {
    add(shared, task, |task| Run::Once(Box::new(task)))
}

pub(super) fn add_every<F: FnMut() + Send + 'static>(
    shared: &Arc<Shared>,
    task: F,
) -> Result<TailTask, Refused<F>> {
    add(shared, task, |task| Run::Every(Box::new(task)))
}

fn add<F: Send + 'static>(
    shared: &Arc<Shared>,
    task: F,
    make: impl FnOnce(F) -> Run + Send + 'static,
) -> Result<TailTask, Refused<F>> {
    let new_ticket = || {
        Arc::new(Ticket { shared: shared.clone(), settled: AtomicBool::new(false), key: AtomicU64::new(0) })
    };
    match Local::current_if(shared.id) {
        Some(local) if local.closed.get() => Err(Refused::new(task, RefusedWhy::ShutDown)),
        Some(local) => {
            let ticket = new_ticket();
            local.tail.add(make(task), ticket.clone());
            Ok(TailTask { ticket })
        }
        None => {
            let permit = match shared.admit() {
                Ok(permit) => permit,
                Err(why) => return Err(Refused::new(task, why)),
            };
            let ticket = new_ticket();
            let handle = TailTask { ticket: ticket.clone() };
            let arrive = move || {
                if let Some(local) = Local::current() {
                    local.tail.add(make(task), ticket);
                }
            };
            shared.push(permit, Task::Run(Box::new(arrive)));
            Ok(handle)
        }
    }
}
