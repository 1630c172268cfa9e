//! The door of an event loop: where other threads leave tasks, and the one word that says what the loop is doing.
//!
//! ```text
//!   word:  [ tasks accepted and not yet run … | FLOODED | CLOSED | SLEEPING | UNSTARTED ]
//!
//!   submitter                                      loop
//!   admit: word += 1 ── CLOSED? full? ─▶ refused   take … run … done: word -= n
//!   push into the queue                            fall asleep: word 0 ─▶ SLEEPING, by compare-and-swap
//!   word had SLEEPING? clear it; who cleared       wake up:     clear SLEEPING
//!   it wakes the loop                              close:       word 0 ─▶ CLOSED, by compare-and-swap
//! ```
//!
//! Always true:
//! 1. A task is counted before it is queued, and the loop falls asleep or closes only at a count of zero. So a
//!    submitter either is seen by the loop before it sleeps, or sees that the loop sleeps. No fence is needed: both
//!    facts are in one word.
//! 2. Of all submitters that find the loop asleep, exactly one clears SLEEPING and wakes it.
//! 3. What was admitted is run: after CLOSED nothing is admitted any more, and the loop takes tasks until the count
//!    is zero.
//! 4. Tasks leave in the order in which they came, whichever of the two queues they went through, if one came before the
//!    other: those of one submitter, and those of two of whom one had seen the other's.
//!
//! Two queues, because most loops never have many tasks waiting: a ring that allocates nothing, and behind it an
//! unbounded one for floods. Who finds the ring full sets FLOODED, and from then on newcomers line up in the second
//! queue (rule 4). The flood is over when the count is zero: then no task is in either queue or on its way.
//!
//! Not here: what a task is, who runs it, how a loop is woken.

use crate::{
    alone::Alone,
    refused::RefusedWhy,
    sync::{AtomicUsize, Ordering},
};

const UNSTARTED: usize = 1;
const SLEEPING: usize = 1 << 1;
const CLOSED: usize = 1 << 2;
const FLOODED: usize = 1 << 3;
const ONE_TASK: usize = 1 << 4;

/// Tasks that wait without an allocation, if nothing is said: covers a burst of one task from each of a thousand channels
/// in 32 KiB.
pub(crate) const RING_LEN: usize = 1024;

/// "No limit" for [`Inbox::new`].
pub(crate) const UNLIMITED: usize = usize::MAX / ONE_TASK;

pub(crate) struct Inbox<T> {
    word: Alone<AtomicUsize>,
    limit: usize,
    queue: TwoQueues<T>,
}

/// What a submitter has to do after its task is queued.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Next {
    /// Nothing: the loop is awake, or somebody else wakes it.
    Nothing,
    /// Wake the loop: it sleeps, and this submitter is the one who noticed first.
    Wake,
}

impl<T> Inbox<T> {
    pub(crate) fn new(limit: usize, ring_len: usize) -> Self {
        Self {
            word: Alone(AtomicUsize::new(UNSTARTED)),
            limit: limit.min(UNLIMITED),
            queue: TwoQueues::new(ring_len),
        }
    }

    // ---- any thread ----

    /// Asks for a place. The permit must be used: what is admitted is waited for.
    pub(crate) fn admit(&self) -> Result<Permit<'_, T>, RefusedWhy> {
        self.admit_under(self.limit)
    }

    /// A place for the framework's own small messages (a waker, a cancelled timer). Their number is bounded by the
    /// futures and timers that exist, so the limit does not apply.
    pub(crate) fn admit_internal(&self) -> Result<Permit<'_, T>, RefusedWhy> {
        self.admit_under(UNLIMITED)
    }

    fn admit_under(&self, limit: usize) -> Result<Permit<'_, T>, RefusedWhy> {
        let before = self.word.fetch_add(ONE_TASK, Ordering::AcqRel);
        let permit = Permit { inbox: self, before };
        if before & CLOSED != 0 {
            return Err(RefusedWhy::ShutDown); // dropping the permit gives the place back
        }
        if before / ONE_TASK >= limit {
            return Err(RefusedWhy::Full { limit });
        }
        Ok(permit)
    }

    /// Counts a task that the loop keeps in a queue of its own, so that a limit covers both.
    pub(crate) fn count_local(&self) -> Result<(), RefusedWhy> {
        self.admit()?.keep_counted();
        Ok(())
    }

    /// Queues what was [counted](Self::count_local) before.
    pub(crate) fn push_counted(&self, task: T) {
        Permit { inbox: self, before: self.word.load(Ordering::Acquire) }.push_lazily(task);
    }

    /// The loop's thread runs: from now on submitters have nothing to start.
    pub(crate) fn started(&self) {
        self.word.fetch_and(!UNSTARTED, Ordering::AcqRel);
    }

    /// Closes a loop that never ran anything. False if it has started or a submitter is about to start it.
    pub(crate) fn close_unstarted(&self) -> bool {
        self.word.compare_exchange(UNSTARTED, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Tasks accepted and not yet run.
    pub(crate) fn pending(&self) -> usize {
        self.word.load(Ordering::Relaxed) / ONE_TASK
    }

    // ---- the loop ----

    /// Takes the next task. `None` with `pending() > 0` means that a submitter is between its two steps.
    #[inline]
    pub(crate) fn take(&self, cursor: &mut Cursor) -> Option<T> {
        self.queue.take(cursor)
    }

    /// Gives back the places of `n` tasks that were taken and run.
    pub(crate) fn done(&self, n: usize) {
        if n > 0 && self.word.fetch_sub(n * ONE_TASK, Ordering::AcqRel) == (n * ONE_TASK) | FLOODED {
            // Nothing is in the queues and nobody on the way: the flood is over, unless somebody came just now.
            let _ = self.word.compare_exchange(FLOODED, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Announces sleep. False if a task has been accepted meanwhile: look again instead.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.change_if_empty(SLEEPING)
    }

    /// Ends the sleep. True if a submitter had ended it already, that is, sent a wake-up.
    pub(crate) fn wake_up(&self) -> bool {
        self.word.fetch_and(!SLEEPING, Ordering::AcqRel) & SLEEPING == 0
    }

    /// Goes back to a loop without a thread, if nothing is pending: the next submitter starts a new one.
    pub(crate) fn suspend_if_empty(&self) -> bool {
        self.change_if_empty(UNSTARTED)
    }

    /// Whether the loop has no thread: it never had one, or it is suspended.
    pub(crate) fn is_unstarted(&self) -> bool {
        self.word.load(Ordering::Acquire) & UNSTARTED != 0
    }

    /// Whether nothing is admitted any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Whether the loop waits for something to do.
    pub(crate) fn is_sleeping(&self) -> bool {
        self.word.load(Ordering::Relaxed) & SLEEPING != 0
    }

    /// Closes if nothing is pending.
    pub(crate) fn close_if_empty(&self) -> bool {
        self.change_if_empty(CLOSED)
    }

    /// Goes from a count of zero to `state`. What is left of a flood ends with it: who was refused may have taken the
    /// count down to zero after `done`.
    fn change_if_empty(&self, state: usize) -> bool {
        let change = |from| self.word.compare_exchange(from, state, Ordering::AcqRel, Ordering::Acquire);
        match change(0) {
            Err(FLOODED) => change(FLOODED).is_ok(),
            changed => changed.is_ok(),
        }
    }

    /// Closes now; what is pending is still to be taken.
    pub(crate) fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::AcqRel);
    }
}

/// A place in the inbox that is not filled yet.
#[must_use]
pub(crate) struct Permit<'a, T> {
    inbox: &'a Inbox<T>,
    before: usize,
}

impl<T> Permit<'_, T> {
    /// Whether the loop's thread has to be started first.
    pub(crate) fn unstarted(&self) -> bool {
        self.before & UNSTARTED != 0
    }

    /// Queues the task; a loop that sleeps is to be woken.
    pub(crate) fn push(self, task: T) -> Next {
        let (inbox, before) = (self.inbox, self.before);
        self.push_lazily(task);
        #[cfg(feature = "_planted")]
        if crate::planted::Bug::LostWakeUp.is_planted() && before >= ONE_TASK {
            return Next::Nothing; // who was first has woken it
        }
        if before & SLEEPING != 0 && inbox.word.fetch_and(!SLEEPING, Ordering::AcqRel) & SLEEPING != 0 {
            return Next::Wake;
        }
        Next::Nothing
    }

    /// Queues the task and lets a sleeping loop sleep.
    pub(crate) fn push_lazily(self, task: T) {
        let Inbox { word, queue, .. } = self.inbox;
        // Who finds a flood joins it: an earlier task of the same submitter may be in there.
        if self.before & FLOODED != 0 {
            queue.flood.push(task);
        } else if let Err(task) = queue.ring.push(task) {
            word.fetch_or(FLOODED, Ordering::AcqRel);
            queue.flood.push(task);
        }
        self.keep_counted();
    }

    fn keep_counted(self) {
        std::mem::forget(self);
    }
}

impl<T> Drop for Permit<'_, T> {
    fn drop(&mut self) {
        self.inbox.word.fetch_sub(ONE_TASK, Ordering::AcqRel);
    }
}

/// The loop's place in [`TwoQueues`]: how many tasks of the second queue it may take before it looks at the ring again.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    credit: usize,
}

/// A ring, and a list for what does not fit.
struct TwoQueues<T> {
    ring: Ring<T>,
    flood: List<T>,
}

impl<T> TwoQueues<T> {
    fn new(ring_len: usize) -> Self {
        Self { ring: Ring::new(ring_len), flood: List::new() }
    }

    #[inline]
    fn take(&self, cursor: &mut Cursor) -> Option<T> {
        if cursor.credit > 0 {
            cursor.credit -= 1;
            return self.flood.pop();
        }
        if let Some(task) = self.ring.pop() {
            return Some(task);
        }
        // First count the list, then see the ring empty: whatever a submitter put into the ring before one of the
        // counted tasks has left by then. A task that joins the list later waits for the next count.
        let counted = self.flood.len();
        if counted == 0 {
            return None;
        }
        if let Some(task) = self.ring.pop() {
            return Some(task);
        }
        cursor.credit = counted - 1;
        self.flood.pop()
    }
}

#[cfg(not(loom))]
type Ring<T> = crossbeam_queue::ArrayQueue<T>;
#[cfg(not(loom))]
type List<T> = crossbeam_queue::SegQueue<T>;

// loom cannot look into crossbeam's queues, and need not: they are proven elsewhere. A locked queue stands in for each,
// so that the models check the protocol around them.
#[cfg(loom)]
use stand_in::{List, Ring};

#[cfg(loom)]
mod stand_in {
    use crate::sync::{Mutex, lock};
    use std::collections::VecDeque;

    pub(super) struct Ring<T>(Mutex<VecDeque<T>>);
    pub(super) struct List<T>(Mutex<VecDeque<T>>);

    impl<T> Ring<T> {
        pub(super) fn new(_len: usize) -> Self {
            Self(Mutex::new(VecDeque::new()))
        }
        pub(super) fn push(&self, task: T) -> Result<(), T> {
            let mut ring = lock(&self.0);
            if ring.len() == 1 {
                return Err(task); // a ring of one makes every model pass through both queues
            }
            ring.push_back(task);
            Ok(())
        }
        pub(super) fn pop(&self) -> Option<T> {
            lock(&self.0).pop_front()
        }
    }

    impl<T> List<T> {
        pub(super) fn new() -> Self {
            Self(Mutex::new(VecDeque::new()))
        }
        pub(super) fn push(&self, task: T) {
            lock(&self.0).push_back(task);
        }
        pub(super) fn pop(&self) -> Option<T> {
            lock(&self.0).pop_front()
        }
        pub(super) fn len(&self) -> usize {
            lock(&self.0).len()
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn drain(inbox: &Inbox<usize>) -> Vec<usize> {
        let mut cursor = Cursor::default();
        let taken: Vec<_> = std::iter::from_fn(|| inbox.take(&mut cursor)).collect();
        inbox.done(taken.len());
        taken
    }

    fn put(inbox: &Inbox<usize>, task: usize) -> Next {
        inbox.admit().expect("open and not full").push(task)
    }

    #[test]
    fn tasks_leave_in_order_when_they_overflow_the_ring() {
        let inbox = Inbox::new(UNLIMITED, RING_LEN);
        let all: Vec<usize> = (0..RING_LEN * 3).collect();
        for &task in &all {
            let _ = put(&inbox, task);
        }
        assert_eq!(drain(&inbox), all);
        assert_eq!(inbox.pending(), 0);
    }

    #[test]
    fn a_flood_is_over_when_nothing_is_pending() {
        let inbox = Inbox::new(UNLIMITED, RING_LEN);
        inbox.started();
        (0..RING_LEN * 2).for_each(|task| drop(put(&inbox, task)));
        assert!(!inbox.queue.flood.is_empty());
        drain(&inbox);
        let _ = put(&inbox, 1);
        assert!(inbox.queue.flood.is_empty(), "the ring has room and is used again");
    }

    #[test]
    fn only_the_first_submitter_after_sleep_wakes_the_loop() {
        let inbox = Inbox::new(UNLIMITED, RING_LEN);
        inbox.started();
        assert!(inbox.fall_asleep());
        assert_eq!(put(&inbox, 1), Next::Wake);
        assert_eq!(put(&inbox, 2), Next::Nothing);
        assert!(inbox.wake_up(), "a submitter ended the sleep");
        assert_eq!(drain(&inbox), [1, 2]);
    }

    #[test]
    fn a_lazy_task_leaves_the_loop_asleep_and_comes_out_before_the_one_that_wakes_it() {
        let inbox = Inbox::new(UNLIMITED, RING_LEN);
        inbox.started();
        assert!(inbox.fall_asleep());
        inbox.admit().unwrap().push_lazily(1);
        assert_eq!(put(&inbox, 2), Next::Wake);
        inbox.wake_up();
        assert_eq!(drain(&inbox), [1, 2]);
    }

    #[test]
    fn a_loop_with_an_accepted_task_neither_sleeps_nor_closes() {
        let inbox = Inbox::<usize>::new(UNLIMITED, RING_LEN);
        inbox.started();
        let permit = inbox.admit().unwrap();
        assert!(!inbox.fall_asleep());
        assert!(!inbox.close_if_empty());
        drop(permit);
        assert!(inbox.fall_asleep());
    }

    #[test]
    fn over_the_limit_a_task_is_refused_and_the_place_is_free_again_after_a_run() {
        let inbox = Inbox::new(2, RING_LEN);
        let _ = (put(&inbox, 1), put(&inbox, 2));
        assert!(matches!(inbox.admit(), Err(RefusedWhy::Full { limit: 2 })));
        assert!(inbox.admit_internal().is_ok(), "the framework's own messages pass");
        assert_eq!(drain(&inbox), [1, 2]);
        assert!(inbox.admit().is_ok());
    }

    #[test]
    fn after_close_nothing_is_admitted_and_what_was_admitted_comes_out() {
        let inbox = Inbox::new(UNLIMITED, RING_LEN);
        let _ = put(&inbox, 1);
        inbox.close();
        assert!(matches!(inbox.admit(), Err(RefusedWhy::ShutDown)));
        assert_eq!(drain(&inbox), [1]);
        assert_eq!(inbox.pending(), 0);
    }
}

#[cfg(all(test, loom))]
pub(crate) mod loom_tests {
    use super::*;
    use crate::sync::{Arc, thread};

    /// A loop that takes tasks until `expected` have come, and sleeps on a flag in between. If a wake-up got lost, it
    /// would sleep for ever: loom reports that as a deadlock.
    fn take_all(inbox: &Inbox<usize>, woken: &Wakeup, expected: usize) -> Vec<usize> {
        let (mut cursor, mut taken) = (Cursor::default(), Vec::new());
        while taken.len() < expected {
            while let Some(task) = inbox.take(&mut cursor) {
                taken.push(task);
                inbox.done(1);
            }
            if taken.len() < expected && inbox.fall_asleep() {
                woken.wait();
                inbox.wake_up();
            } else {
                thread::yield_now();
            }
        }
        taken
    }

    pub(crate) struct Wakeup {
        gate: loom::sync::Mutex<bool>,
        bell: loom::sync::Condvar,
    }

    impl Wakeup {
        pub(crate) fn new() -> Self {
            Self { gate: loom::sync::Mutex::new(false), bell: loom::sync::Condvar::new() }
        }
        pub(crate) fn ring(&self) {
            *self.gate.lock().unwrap() = true;
            self.bell.notify_one();
        }
        pub(crate) fn wait(&self) {
            let mut rung = self.gate.lock().unwrap();
            while !*rung {
                rung = self.bell.wait(rung).unwrap();
            }
            *rung = false;
        }
    }

    /// Every schedule with up to three preemptions: beyond that the number of schedules explodes and no new kind of
    /// schedule appears.
    fn check(model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    #[test]
    fn loom_no_wake_up_is_lost_between_two_submitters_and_a_loop_that_falls_asleep() {
        check(|| {
            let shared = Arc::new((Inbox::new(UNLIMITED, RING_LEN), Wakeup::new()));
            shared.0.started();
            let submitters: Vec<_> = (0..2)
                .map(|n| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        if shared.0.admit().unwrap().push(n) == Next::Wake {
                            shared.1.ring();
                        }
                    })
                })
                .collect();
            let mut taken = take_all(&shared.0, &shared.1, 2);
            taken.sort_unstable();
            assert_eq!(taken, [0, 1]);
            for submitter in submitters {
                submitter.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_a_loop_that_looks_out_before_it_sleeps_needs_no_wake_up_for_what_it_sees_and_misses_nothing() {
        check(|| {
            let shared = Arc::new((Inbox::new(UNLIMITED, RING_LEN), Wakeup::new()));
            shared.0.started();
            let submitter = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let mut rang = false;
                    for task in 0..2 {
                        if shared.0.admit().unwrap().push(task) == Next::Wake {
                            shared.1.ring();
                            rang = true;
                        }
                    }
                    rang
                })
            };
            let (inbox, woken) = &*shared;
            let (mut cursor, mut taken, mut slept) = (Cursor::default(), Vec::new(), false);
            while taken.len() < 2 {
                while let Some(task) = inbox.take(&mut cursor) {
                    taken.push(task);
                    inbox.done(1);
                }
                // Awake, and looking: twice, then it sleeps.
                let sees = (0..2).any(|_| {
                    thread::yield_now();
                    inbox.pending() > 0
                });
                if !sees && taken.len() < 2 && inbox.fall_asleep() {
                    slept = true;
                    woken.wait();
                    inbox.wake_up();
                }
            }
            assert_eq!(taken, [0, 1]);
            assert!(!submitter.join().unwrap() || slept, "woken although it did not sleep");
        });
    }

    #[test]
    fn loom_tasks_of_one_submitter_keep_their_order_through_both_queues() {
        check(|| {
            let shared = Arc::new((Inbox::new(UNLIMITED, RING_LEN), Wakeup::new()));
            shared.0.started();
            let spawn = |tasks: &'static [usize]| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for &task in tasks {
                        if shared.0.admit().unwrap().push(task) == Next::Wake {
                            shared.1.ring();
                        }
                    }
                })
            };
            let (first, second) = (spawn(&[1, 2]), spawn(&[11]));
            let taken = take_all(&shared.0, &shared.1, 3);
            let of_first: Vec<_> = taken.iter().copied().filter(|&task| task < 10).collect();
            assert_eq!(of_first, [1, 2]);
            first.join().unwrap();
            second.join().unwrap();
        });
    }

    #[test]
    fn loom_what_one_submitter_puts_after_it_has_seen_anothers_comes_out_after_it() {
        check(|| {
            let inbox = Arc::new(Inbox::new(UNLIMITED, RING_LEN));
            inbox.started();
            let put = {
                let inbox = inbox.clone();
                move |task| {
                    let _ = inbox.admit().unwrap().push(task);
                }
            };
            let seen = Arc::new(crate::sync::AtomicUsize::new(0));
            let first = {
                let (put, seen) = (put.clone(), seen.clone());
                thread::spawn(move || {
                    put(1);
                    seen.store(1, Ordering::Release);
                })
            };
            let stranger = {
                let put = put.clone();
                thread::spawn(move || put(99))
            };
            // The loop itself: it marks the place of its own task, and takes some before and some after.
            let (mut cursor, mut taken) = (Cursor::default(), Vec::new());
            let mut take = |taken: &mut Vec<usize>| {
                if let Some(task) = inbox.take(&mut cursor) {
                    inbox.done(1);
                    taken.push(task);
                }
            };
            take(&mut taken);
            let after = seen.load(Ordering::Acquire) == 1;
            put(2);
            while taken.len() < 3 {
                take(&mut taken);
                thread::yield_now();
            }
            if after {
                let place = |wanted| taken.iter().position(|&task| task == wanted);
                assert!(place(1) < place(2), "{taken:?}");
            }
            first.join().unwrap();
            stranger.join().unwrap();
        });
    }

    #[test]
    fn loom_a_task_in_the_race_with_close_is_run_or_refused_never_lost() {
        check(|| {
            let inbox = Arc::new(Inbox::new(UNLIMITED, RING_LEN));
            inbox.started();
            let submitters: Vec<_> = (0..2)
                .map(|n| {
                    let inbox = inbox.clone();
                    thread::spawn(move || match inbox.admit() {
                        Ok(permit) => {
                            let _ = permit.push(n);
                            1
                        }
                        Err(_) => 0,
                    })
                })
                .collect();
            let (mut cursor, mut run) = (Cursor::default(), 0);
            if !inbox.close_if_empty() {
                inbox.close();
            }
            while inbox.pending() > 0 {
                while inbox.take(&mut cursor).is_some() {
                    inbox.done(1);
                    run += 1;
                }
                thread::yield_now();
            }
            let accepted: usize = submitters.into_iter().map(|submitter| submitter.join().unwrap()).sum();
            // A submitter that was admitted after the count was zero cannot exist: CLOSED was set at that moment.
            assert_eq!(accepted, run);
        });
    }

    #[test]
    fn loom_a_task_in_the_race_with_suspension_keeps_the_thread_or_starts_a_new_one() {
        check(|| {
            let inbox = Arc::new(Inbox::new(UNLIMITED, RING_LEN));
            inbox.started();
            let submitter = {
                let inbox = inbox.clone();
                thread::spawn(move || {
                    let permit = inbox.admit().unwrap();
                    let restarted = permit.unstarted();
                    if restarted {
                        inbox.started();
                    }
                    let _ = permit.push(7);
                    restarted
                })
            };
            let suspended = inbox.suspend_if_empty();
            let restarted = submitter.join().unwrap();
            assert_eq!(suspended, restarted, "suspended with a task that nobody would run, or started twice");
            assert_eq!(inbox.take(&mut Cursor::default()), Some(7));
        });
    }

    #[test]
    fn loom_the_thread_is_started_once_and_shutting_down_an_unstarted_loop_needs_none() {
        check(|| {
            let inbox = Arc::new(Inbox::new(UNLIMITED, RING_LEN));
            let thread_started = Arc::new(crate::sync::Mutex::new(0));
            let submitter = {
                let (inbox, thread_started) = (inbox.clone(), thread_started.clone());
                thread::spawn(move || match inbox.admit() {
                    Ok(permit) => {
                        if permit.unstarted() {
                            *crate::sync::lock(&thread_started) += 1;
                            inbox.started();
                        }
                        let _ = permit.push(7);
                        true
                    }
                    Err(_) => false,
                })
            };
            let closed_unstarted = inbox.close_unstarted();
            let accepted = submitter.join().unwrap();
            if accepted {
                assert!(!closed_unstarted, "accepted by a loop that has no thread");
                assert!(inbox.take(&mut Cursor::default()).is_some());
                assert_eq!(*crate::sync::lock(&thread_started), 1);
            } else {
                assert_eq!(*crate::sync::lock(&thread_started), 0);
            }
        });
    }
}
