//! Who waits for a reply: a plain state machine that knows neither a channel nor a clock.
//!
//! ```text
//!   in order   [ a ][ gone ][ c ][ d ]        a reply belongs to the first; who gave up keeps the slot, and its reply is swallowed
//!   by id      7: a   9: gone   12: d         a reply belongs to its id; who gave up leaves a mark, so that a late reply is known as one
//! ```
//! Always true:
//! 1. A reply goes to one request at the most, and never to one that was asked for something else.
//! 2. Whoever waits is told exactly once: by the reply, the deadline, the end, or the drop of this.
//! 3. No more than `max_in_flight` wait, slots of those who gave up included in order; by id, marks are at most [`MARKS_MAX`].

use super::{
    RequestError,
    ask::{Answer, Parts},
};
use std::{
    collections::{
        HashMap, HashSet, VecDeque,
        hash_map::{DefaultHasher, Entry},
    },
    hash::{BuildHasherDefault, Hash},
    time::{Duration, Instant},
};

/// Ids that were given up and whose replies may still come. A reply to an older one is taken as one to no request.
pub(super) const MARKS_MAX: usize = 1024;

/// Somebody who waits for a reply, or has given it up.
pub(super) struct Waiting<Q: 'static, R: 'static> {
    /// Gone when whoever asked was told.
    pub(super) answer: Option<Answer<Q, R>>,
    /// When it is too late; later, when the slot of somebody who gave up has been there for too long.
    pub(super) deadline: Option<Instant>,
    pub(super) limit: Duration,
    /// Who gets the parts of the reply but for the last.
    pub(super) parts: Option<Parts<R>>,
}

impl<Q: 'static, R: 'static> Waiting<Q, R> {
    /// A part has come for somebody who wants it: the next one may take as long again.
    fn part(&mut self, part: R, now: Instant) {
        if self.deadline.is_some() {
            self.deadline = now.checked_add(self.limit);
        }
        if let Some(parts) = &mut self.parts {
            parts(part);
        }
    }

    pub(super) fn fail(mut self, error: RequestError) {
        if let Some(answer) = self.answer.take() {
            answer.fail(error, None);
        }
    }

    /// Only the slot stays, and for so long.
    fn give_up(&mut self, now: Instant, stuck_after: Duration) {
        (self.answer, self.parts) = (None, None);
        self.deadline = if stuck_after.is_zero() { None } else { now.checked_add(stuck_after) };
    }

    fn is_due(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Nobody wants the reply any more.
    fn is_given_up(&self) -> bool {
        self.answer.as_ref().is_none_or(Answer::is_cancelled)
    }
}

/// The pipeline broke down, or the stage was exchanged.
impl<Q: 'static, R: 'static> Drop for Waiting<Q, R> {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer.fail(RequestError::Abandoned, None);
        }
    }
}

/// Whose a reply is.
pub(super) enum Found<Q: 'static, R: 'static> {
    Of(Answer<Q, R>),
    /// Of somebody who gave up.
    Late,
    /// Of nobody.
    Unmatched,
}

/// Whose a part of a reply is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Taken,
    /// Of somebody who gave up. With the moment by which the rest has to be there, if that is news.
    Late(Option<Instant>),
    /// Of nobody.
    Unmatched,
}

/// What a look at the deadlines found.
pub(super) struct Look<Q: 'static, R: 'static> {
    /// Whom to tell that it is too late, and what the limit was.
    pub(super) late: Vec<(Answer<Q, R>, Duration)>,
    /// When to look again.
    pub(super) next: Option<Instant>,
    /// The slot of somebody who gave up has got no reply for too long: nobody behind it will get one either.
    pub(super) stuck: bool,
}

/// Why a request cannot be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoId {
    /// Another one has its id, or all ids are in use.
    InUse,
    /// Most ids are those of requests that were given up, and whose replies have not come: so many.
    Unanswered(usize),
}

/// Which requests are in flight.
pub(super) trait Awaited<Q: 'static, R: 'static> {
    /// Takes one more, which is written next. Given back if it has no id of its own.
    fn add(&mut self, request: &mut Q, waiting: Waiting<Q, R>) -> Result<(), (Waiting<Q, R>, NoId)>;
    /// Whose reply this is.
    fn take(&mut self, reply: &R) -> Found<Q, R>;
    /// A part of a reply, for whoever asked. The rest of one that nobody wants may take `stuck_after` (zero: for ever), however it comes.
    fn part(&mut self, part: R, now: Instant, stuck_after: Duration) -> Part;
    /// How many count as in flight.
    fn len(&self) -> usize;
    /// Whether anybody still wants a reply.
    fn is_anybody_waiting(&self) -> bool;
    /// Lets go of those who have cancelled, if that makes room.
    fn forget_cancelled(&mut self);
    /// Looks whose deadline has passed. The slot of one who gives up may be without a reply for `stuck_after` (zero: for ever).
    fn look(&mut self, now: Instant, stuck_after: Duration) -> Look<Q, R>;
    /// All that are left.
    fn take_all(&mut self) -> Vec<Waiting<Q, R>>;
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

// ---- in order ----

pub(super) struct InOrder<Q: 'static, R: 'static> {
    slots: VecDeque<Waiting<Q, R>>,
}

impl<Q: 'static, R: 'static> InOrder<Q, R> {
    pub(super) fn new() -> Self {
        Self { slots: VecDeque::new() }
    }
}

impl<Q: 'static, R: 'static> Awaited<Q, R> for InOrder<Q, R> {
    fn add(&mut self, _: &mut Q, waiting: Waiting<Q, R>) -> Result<(), (Waiting<Q, R>, NoId)> {
        self.slots.push_back(waiting);
        Ok(())
    }

    fn take(&mut self, _: &R) -> Found<Q, R> {
        let Some(mut first) = self.slots.pop_front() else { return Found::Unmatched };
        match first.answer.take() {
            Some(answer) if !answer.is_cancelled() => Found::Of(answer),
            _ => Found::Late,
        }
    }

    fn part(&mut self, part: R, now: Instant, stuck_after: Duration) -> Part {
        let Some(first) = self.slots.front_mut() else { return Part::Unmatched };
        if !first.is_given_up() {
            first.part(part, now);
            return Part::Taken;
        }
        // That somebody has cancelled is found now.
        let news = first.answer.is_some();
        if news {
            first.give_up(now, stuck_after);
        }
        Part::Late(first.deadline.filter(|_| news))
    }

    fn len(&self) -> usize {
        self.slots.len()
    }

    fn is_anybody_waiting(&self) -> bool {
        self.slots.iter().any(|slot| !slot.is_given_up())
    }

    fn forget_cancelled(&mut self) {} // the slots stay

    fn look(&mut self, now: Instant, stuck_after: Duration) -> Look<Q, R> {
        let mut look = Look { late: Vec::new(), next: None, stuck: false };
        for slot in &mut self.slots {
            if slot.is_due(now) {
                match slot.answer.take() {
                    Some(answer) => {
                        look.late.push((answer, slot.limit));
                        slot.give_up(now, stuck_after);
                    }
                    None => look.stuck = true,
                }
            }
            look.next = earlier(look.next, slot.deadline);
        }
        look
    }

    fn take_all(&mut self) -> Vec<Waiting<Q, R>> {
        self.slots.drain(..).collect()
    }
}

// ---- by id ----

/// What the id of a request is; it may be given to it here. The second argument says which ids are in use.
pub(super) type IdOfRequest<Q, K> = Box<dyn FnMut(&mut Q, &dyn Fn(&K) -> bool) -> Option<K>>;
pub(super) type IdOfReply<R, K> = Box<dyn FnMut(&R) -> Option<K>>;

/// Only our own requests make entries, so the hash need not be a secret; it is the same in every run, so a simulation goes the same way.
type Entries<K, Q, R> = HashMap<K, Waiting<Q, R>, BuildHasherDefault<DefaultHasher>>;

pub(super) struct ById<K, Q: 'static, R: 'static> {
    of_request: IdOfRequest<Q, K>,
    of_reply: IdOfReply<R, K>,
    entries: Entries<K, Q, R>,
    /// Of which entries only a mark is left, the oldest first. Some may have got their late reply.
    marks: VecDeque<K>,
    /// How many marks are among the entries.
    given_up: usize,
}

impl<K: Eq + Hash + Clone, Q: 'static, R: 'static> ById<K, Q, R> {
    pub(super) fn new(of_request: IdOfRequest<Q, K>, of_reply: IdOfReply<R, K>) -> Self {
        let (entries, marks) = (Entries::default(), VecDeque::new());
        Self { of_request, of_reply, entries, marks, given_up: 0 }
    }

    /// Leaves marks in place of these.
    fn mark(&mut self, ids: Vec<K>) {
        for id in ids {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            (entry.answer, entry.deadline, entry.parts) = (None, None, None);
            self.given_up += 1;
            self.marks.push_back(id);
        }
        while self.given_up > MARKS_MAX {
            let Some(oldest) = self.marks.pop_front() else { break };
            self.unmark(&oldest);
        }
        // Those whose late reply came have left names in the list.
        if self.marks.len() > 2 * MARKS_MAX {
            let (entries, mut seen) = (&self.entries, HashSet::new());
            let is_mark = |id: &K| entries.get(id).is_some_and(|entry| entry.answer.is_none());
            self.marks.retain(|id| is_mark(id) && seen.insert(id.clone()));
        }
    }

    /// Forgets a mark, if it is one.
    fn unmark(&mut self, id: &K) {
        if self.entries.get(id).is_some_and(|entry| entry.answer.is_none()) {
            self.entries.remove(id);
            self.given_up -= 1;
        }
    }
}

impl<K: Eq + Hash + Clone, Q: 'static, R: 'static> Awaited<Q, R> for ById<K, Q, R> {
    fn add(&mut self, request: &mut Q, waiting: Waiting<Q, R>) -> Result<(), (Waiting<Q, R>, NoId)> {
        let entries = &self.entries;
        let Some(id) = (self.of_request)(request, &|id| entries.contains_key(id)) else {
            let most_are_marks = self.given_up > self.len();
            let why = if most_are_marks { NoId::Unanswered(self.given_up) } else { NoId::InUse };
            return Err((waiting, why));
        };
        match self.entries.entry(id) {
            Entry::Vacant(vacant) => {
                vacant.insert(waiting);
                Ok(())
            }
            Entry::Occupied(_) => Err((waiting, NoId::InUse)),
        }
    }

    fn take(&mut self, reply: &R) -> Found<Q, R> {
        let Some(id) = (self.of_reply)(reply) else { return Found::Unmatched };
        let Some(mut entry) = self.entries.remove(&id) else { return Found::Unmatched };
        match entry.answer.take() {
            Some(answer) if !answer.is_cancelled() => Found::Of(answer),
            Some(_) => Found::Late,
            None => {
                self.given_up -= 1;
                Found::Late
            }
        }
    }

    fn part(&mut self, part: R, now: Instant, _: Duration) -> Part {
        let entry = (self.of_reply)(&part).and_then(|id| self.entries.get_mut(&id));
        match entry {
            None => Part::Unmatched,
            Some(entry) if entry.is_given_up() => Part::Late(None), // which holds nobody up
            Some(entry) => {
                entry.part(part, now);
                Part::Taken
            }
        }
    }

    fn len(&self) -> usize {
        self.entries.len() - self.given_up
    }

    fn is_anybody_waiting(&self) -> bool {
        self.entries.values().any(|entry| !entry.is_given_up())
    }

    fn forget_cancelled(&mut self) {
        let cancelled = |entry: &Waiting<Q, R>| entry.answer.is_some() && entry.is_given_up();
        let ids =
            self.entries.iter().filter(|(_, entry)| cancelled(entry)).map(|(id, _)| id.clone()).collect();
        self.mark(ids);
    }

    fn look(&mut self, now: Instant, _: Duration) -> Look<Q, R> {
        let mut look = Look { late: Vec::new(), next: None, stuck: false };
        let mut ids = Vec::new();
        for (id, entry) in &mut self.entries {
            match entry.is_due(now) {
                true => {
                    ids.push(id.clone());
                    look.late.extend(entry.answer.take().map(|answer| (answer, entry.limit)));
                }
                false => look.next = earlier(look.next, entry.deadline),
            }
        }
        self.mark(ids);
        look
    }

    fn take_all(&mut self) -> Vec<Waiting<Q, R>> {
        self.marks.clear();
        self.given_up = 0;
        self.entries.drain().map(|(_, entry)| entry).filter(|entry| entry.answer.is_some()).collect()
    }
}
