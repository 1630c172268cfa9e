//! What a loop is asked for beside tasks: one word that it looks at once in a turn.
//!
//! Always true:
//! 1. Who asks makes sure that the loop looks, by a message that keeps it awake; the loop takes a request back when it answers
//!    it.
//! 2. Of all who ask for a look at the world ([`WAKE`]), one sends that message. The request is taken back before the loop
//!    reads its clock, so who finds it still there has whatever he did seen before the loop sleeps.
//! 3. [`END_NOW`] is never taken back.

use crate::sync::{AtomicUsize, Ordering};

/// Give the thread back, if nothing lives on it.
pub(crate) const SUSPEND: usize = 1;
/// Replace the driver's kernel object; who wants to hear of it waits in `Local::rebuilds`.
pub(crate) const REBUILD: usize = 1 << 1;
/// Have a look round.
pub(crate) const WAKE: usize = 1 << 2;
/// End, without running what waits.
pub(crate) const END_NOW: usize = 1 << 3;

pub(crate) struct Requests {
    word: AtomicUsize,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self { word: AtomicUsize::new(0) }
    }

    /// True if nobody had asked for it.
    pub(crate) fn ask(&self, what: usize) -> bool {
        self.word.fetch_or(what, Ordering::AcqRel) & what == 0
    }

    /// Takes a request back, and whether there was one.
    pub(crate) fn take(&self, what: usize) -> bool {
        self.word.fetch_and(!what, Ordering::AcqRel) & what != 0
    }

    /// Whether anything is asked for.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn is_to_end_now(&self) -> bool {
        self.word.load(Ordering::Acquire) & END_NOW != 0
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::{super::inbox, *};
    use crate::sync::{Arc, thread};
    use inbox::{Cursor, Inbox, Next, RING_LEN, UNLIMITED, loom_tests::Wakeup};

    /// What two threads change in the world before they wake a loop is seen by it before it sleeps: otherwise it sleeps for
    /// ever, which loom reports as a deadlock.
    #[test]
    fn loom_what_was_done_before_a_wake_is_seen_before_the_next_sleep() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let shared = Arc::new((
                Inbox::new(UNLIMITED, RING_LEN),
                Requests::new(),
                Wakeup::new(),
                AtomicUsize::new(0),
            ));
            shared.0.started();
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        let (inbox, requests, woken, world) = &*shared;
                        world.fetch_add(1, Ordering::Relaxed);
                        if requests.ask(WAKE) && inbox.admit_internal().unwrap().push(()) == Next::Wake {
                            woken.ring();
                        }
                    })
                })
                .collect();
            let (inbox, requests, woken, world) = &*shared;
            let mut cursor = Cursor::default();
            loop {
                while inbox.take(&mut cursor).is_some() {
                    requests.take(WAKE);
                    inbox.done(1);
                }
                if world.load(Ordering::Relaxed) == 2 {
                    break;
                }
                if inbox.fall_asleep() {
                    woken.wait();
                    inbox.wake_up();
                } else {
                    thread::yield_now();
                }
            }
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }
}
