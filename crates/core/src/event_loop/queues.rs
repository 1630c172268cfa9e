//! What a loop has to run, but for its timers: in which order, and who waits for whom.
//!
//! ```text
//!   own         [call][wake-up]                    what the loop gives itself to do: sources to call, futures to poll
//!   late        [call]                             parents whose children have news: when nothing else is left in this turn
//!   again       [call]                             sources that called themselves; they join `own` when the next turn begins
//!
//!   submitted   [task][task]                       tasks of the loop, from a time when nobody else's waited
//!               inbox: [task][MARK][task][MARK]    tasks of other threads, as they came;
//!                         └──────────────┴─ a mark stands for the next of the loop's later tasks: [task][task]
//! ```
//!
//! Always true:
//! 1. Submitted tasks run in the order in which they were submitted, whoever did it: if one submission happened before
//!    another, its task runs before the other's. The inbox keeps that order among threads, and by its marks the loop is one
//!    of them.
//! 2. A push costs the same however much waits, and nothing is moved from queue to queue. So no number of submitters can
//!    hold the loop up in a push.
//! 3. `own` has no order with what is submitted: these are continuations of I/O and of futures, which nobody submitted, and
//!    a backlog from outside must not hold them up.
//! 4. What is in `again` does not run before the driver was polled and timers were released: a source that is never done has
//!    one call in each turn, as others have.
//! 5. What is in `late` waits for all else that there is, but not for the next turn: one call for what many have to say.
//! 6. There is a mark in the inbox exactly for each task in `submitted` behind the first `unmarked`.
//!
//! Not here: timers, and how the kinds take turns (`local`). Loop thread only.

use super::{
    inbox::Cursor,
    local::Work,
    shared::{Shared, Task},
};
use crate::refused::RefusedWhy;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    sync::Arc,
};

/// So much fits before a queue of the loop's own grows: a loop that serves does not allocate for its first busy turn.
const AT_FIRST: usize = 16;

/// What is to be run next.
pub(super) struct Queued {
    pub(super) work: Work,
    /// How many places in the inbox's count it holds, one or none, to be given back through [`Queues::done`]. A number, because
    /// that is what becomes of it, and because a whole word is moved along with the rest.
    pub(super) places: usize,
}

impl Queued {
    /// Something without a place.
    pub(super) fn free(work: Work) -> Self {
        Self { work, places: 0 }
    }
}

pub(crate) struct Queues {
    shared: Arc<Shared>,
    own: RefCell<VecDeque<Work>>,
    /// How many that are: asked before each task.
    own_len: Cell<usize>,
    late: RefCell<VecDeque<Work>>,
    late_len: Cell<usize>,
    again: RefCell<VecDeque<Work>>,
    again_len: Cell<usize>,
    submitted: RefCell<VecDeque<Queued>>,
    /// How many of `submitted`, from the front, have no mark: nothing in the inbox came before them.
    unmarked: Cell<usize>,
    cursor: RefCell<Cursor>,
    /// Tasks taken from the inbox and not given back by [`done`](Self::done).
    counted: Cell<usize>,
    /// Tasks that the inbox was seen to hold and that were not taken since.
    waiting: Cell<usize>,
    /// Tasks in `submitted` that have no mark and a place all the same: none without a limit.
    placed: Cell<usize>,
    limited: bool,
}

impl Queues {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            limited: shared.config.is_limited(),
            shared,
            own: RefCell::new(VecDeque::with_capacity(AT_FIRST)),
            own_len: Cell::new(0),
            late: RefCell::default(),
            late_len: Cell::new(0),
            again: RefCell::new(VecDeque::with_capacity(AT_FIRST)),
            again_len: Cell::new(0),
            submitted: RefCell::default(),
            unmarked: Cell::new(0),
            cursor: RefCell::default(),
            counted: Cell::new(0),
            waiting: Cell::new(0),
            placed: Cell::new(0),
        }
    }

    /// Queues what the loop gives itself to do.
    pub(super) fn push_own(&self, work: Work) {
        self.own_len.set(self.own_len.get() + 1);
        self.own.borrow_mut().push_back(work);
    }

    /// Queues what has to wait for the next turn.
    pub(super) fn push_again(&self, work: Work) {
        self.again_len.set(self.again_len.get() + 1);
        self.again.borrow_mut().push_back(work);
    }

    /// Queues what comes behind all that there is in this turn.
    pub(super) fn push_late(&self, work: Work) {
        self.late_len.set(self.late_len.get() + 1);
        self.late.borrow_mut().push_back(work);
    }

    /// Whether the loop has given itself something to do.
    #[inline]
    pub(super) fn has_own_or_late(&self) -> bool {
        self.own_len.get() | self.late_len.get() > 0
    }

    /// Nothing else is left.
    pub(super) fn next_late(&self) -> Option<Work> {
        self.late_len.set(self.late_len.get().checked_sub(1)?);
        self.late.borrow_mut().pop_front()
    }

    /// A turn begins: what waited for it joins the rest.
    #[inline]
    pub(super) fn begin_turn(&self) {
        if self.late_len.get() > 0 {
            // The last turn was over before all was done.
            self.own_len.set(self.own_len.get() + self.late_len.take());
            self.own.borrow_mut().append(&mut self.late.borrow_mut());
        }
        if self.again_len.get() > 0 {
            self.own_len.set(self.own_len.get() + self.again_len.take());
            self.own.borrow_mut().append(&mut self.again.borrow_mut());
        }
    }

    #[inline]
    pub(super) fn has_own(&self) -> bool {
        self.own_len.get() > 0
    }

    #[inline]
    pub(super) fn next_own(&self) -> Option<Work> {
        if !self.has_own() {
            return None;
        }
        let work = self.own.borrow_mut().pop_front()?;
        self.own_len.set(self.own_len.get() - 1);
        Some(work)
    }

    /// Asks for a place within the limit on pending tasks.
    pub(super) fn count_place(&self) -> Result<(), RefusedWhy> {
        if self.limited {
            self.shared.inbox.count_local()?;
            self.counted.set(self.counted.get() + 1);
        }
        Ok(())
    }

    /// Queues a task that has a place, by [`count_place`](Self::count_place).
    pub(super) fn submit_counted(&self, work: Work) {
        self.submit_with(work, usize::from(self.limited));
    }

    /// Queues a task to which the limit does not apply.
    pub(super) fn submit(&self, work: Work) {
        self.submit_with(work, 0);
    }

    #[inline]
    fn submit_with(&self, work: Work, places: usize) {
        if self.has_outside() {
            return self.submit_behind_others(work, places);
        }
        self.unmarked.set(self.unmarked.get() + 1);
        self.placed.set(self.placed.get() + places);
        self.submitted.borrow_mut().push_back(Queued { work, places });
    }

    #[inline(never)] // keeps the common way short
    fn submit_behind_others(&self, work: Work, places: usize) {
        if self.mark(places > 0) {
            self.submitted.borrow_mut().push_back(Queued { work, places: 1 });
        } else {
            self.push_own(work); // the inbox is closed: no order is left to keep
        }
    }

    /// Whether the inbox holds something. One that was refused may be counted for a moment: then a mark too many is made.
    #[inline]
    fn has_outside(&self) -> bool {
        // Submitters write the inbox's word with every task, so a look at it may have to fetch it from another core: one
        // look for all that it shows.
        if self.waiting.get() == 0 {
            self.waiting.set(self.shared.inbox.pending() - self.counted.get());
        }
        self.waiting.get() > 0
    }

    /// Lines up in the inbox for the next task in `submitted`. A task that has a place lends it to its mark.
    fn mark(&self, counted: bool) -> bool {
        let inbox = &self.shared.inbox;
        if counted {
            self.counted.set(self.counted.get() - 1);
            inbox.push_counted(Task::Mark);
        } else {
            match inbox.admit_internal() {
                Ok(permit) => permit.push_lazily(Task::Mark),
                Err(_) => return false,
            }
        }
        self.waiting.set(self.waiting.get() + 1);
        true
    }

    /// Whether a submitted task may wait: one whose submitter is between its two steps counts as well.
    #[inline]
    pub(super) fn may_have_submitted(&self) -> bool {
        self.unmarked.get() > 0 || self.has_outside()
    }

    /// The next submitted task.
    #[inline(always)]
    pub(super) fn next_submitted(&self) -> Option<Queued> {
        let unmarked = self.unmarked.get();
        if unmarked == 0 {
            return if self.has_outside() { self.next_from_inbox() } else { None };
        }
        self.unmarked.set(unmarked - 1);
        let queued = self.submitted.borrow_mut().pop_front()?;
        self.placed.set(self.placed.get() - queued.places);
        Some(queued)
    }

    #[inline(never)]
    fn next_from_inbox(&self) -> Option<Queued> {
        let task = self.take_from_inbox()?;
        self.shared.figures.tasks_from_outside.add(1);
        let work = match task {
            Task::Run(run) => Work::Run(run),
            other => self.other_than_a_task(other),
        };
        Some(Queued { work, places: 1 })
    }

    #[inline(never)] // keeps the common way short
    fn other_than_a_task(&self, task: Task) -> Work {
        match task {
            Task::Run(run) => Work::Run(run),
            Task::Poll(task) => Work::Poll(task),
            Task::Call(token) => Work::Call(token),
            Task::Rebuild(promise) => Work::Rebuild(promise),
            Task::Nudge => Work::Nudge,
            Task::Mark => self.take_marked(),
        }
    }

    fn take_marked(&self) -> Work {
        self.shared.figures.tasks_from_outside.take_back(1);
        let marked = self.submitted.borrow_mut().pop_front();
        marked.map_or(Work::Nudge, |queued| queued.work)
    }

    #[inline]
    fn take_from_inbox(&self) -> Option<Task> {
        let Some(task) = self.shared.inbox.take(&mut self.cursor.borrow_mut()) else {
            // A submitter is between its two steps, or was refused and gives its place back: look again next time.
            self.waiting.set(0);
            return None;
        };
        self.waiting.set(self.waiting.get() - 1);
        self.counted.set(self.counted.get() + 1);
        Some(task)
    }

    /// Gives back the places of tasks that have run.
    pub(crate) fn done(&self, counted: usize) {
        self.counted.set(self.counted.get() - counted);
        self.shared.inbox.done(counted);
    }

    /// Gives back the places of tasks that were taken and did not get to their end, because the loop itself failed.
    pub(super) fn abandon(&self) {
        self.done(self.counted.get());
    }

    /// Whether places have to be given back task by task, because somebody may be waiting for one.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.has_own()
            && self.late_len.get() == 0
            && self.again_len.get() == 0
            && self.submitted.borrow().is_empty()
            && self.shared.inbox.pending() == 0
    }

    /// Tasks that wait here and are not in the inbox's count.
    pub(super) fn uncounted(&self) -> usize {
        self.unmarked.get() - self.placed.get() + self.waiting_here()
    }

    fn waiting_here(&self) -> usize {
        self.own_len.get() + self.late_len.get() + self.again_len.get()
    }
}
