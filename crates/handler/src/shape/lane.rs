//! One direction of one channel: which buckets it has to pass, and how far the piece in front has come.
//!
//! ```text
//!   piece ──▶ [ the channel's own ] ──▶ [ its key's ] ──▶ [ everybody's ] ──▶ passes
//! ```
//! A piece asks one bucket after the other, the narrow ones first: what is shared is reserved only when nothing else holds the piece up, so it is never kept by
//! somebody who could not use it.
//!
//! Always true: a lane that is dropped has given back what its piece had reserved, and counts nowhere as waiting.

use super::bucket::{Bucket, HEAVIEST, Ticket, Waker, Watch};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(super) struct Lane {
    taps: Vec<Tap>,
    turn: Option<Turn>,
}

/// A bucket that everything in a lane has to pass.
struct Tap {
    bucket: Bucket,
    width: Width,
    watch: Option<Watch>,
}

/// How many share a bucket, roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Width {
    Channel,
    Key,
    Shared,
}

/// A piece under way.
struct Turn {
    amount: u64,
    /// It has passed so many buckets.
    passed: usize,
    waits: Option<Waits>,
}

struct Waits {
    ticket: Ticket,
    /// What it has added to the bucket's figure.
    counted: u64,
}

/// Whether something may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// So much of it.
    Go(u64),
    /// Not before this time has passed.
    Wait(Duration),
}

impl Lane {
    pub(super) fn add(&mut self, bucket: Bucket, width: Width) {
        self.taps.push(Tap { bucket, width, watch: None });
        self.taps.sort_by_key(|tap| tap.width); // stable
    }

    /// Whether nothing is limited.
    pub(super) fn is_free(&self) -> bool {
        self.taps.is_empty()
    }

    /// Begins a turn, unless there is one.
    fn turn(&mut self, amount: u64, divisible: bool) -> &mut Turn {
        let taps = &self.taps;
        self.turn.get_or_insert_with(|| {
            let piece = taps.iter().map(|tap| tap.bucket.piece()).min().unwrap_or(u64::MAX);
            let amount = if divisible { amount.min(piece) } else { amount };
            Turn { amount, passed: 0, waits: None }
        })
    }

    /// How much of a message may pass. The same message is to be asked for until something of it may. `waiting` is how much waits in all, and `waker` is asked who
    /// is to be called when a rate changes.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        amount: u64,
        divisible: bool,
        waiting: u64,
        waker: impl Fn() -> Waker,
    ) -> Answer {
        if amount == 0 || self.taps.is_empty() {
            return Answer::Go(amount);
        }
        self.turn(amount, divisible);
        let Some(turn) = &mut self.turn else { return Answer::Go(amount) };
        while let Some(tap) = self.taps.get_mut(turn.passed) {
            let ticket = match &turn.waits {
                Some(waits) => Some(waits.ticket),
                None => tap.bucket.reserve(now, turn.amount).err(),
            };
            if let Some(ticket) = ticket {
                // Before it is asked how long: a change after that is heard of.
                tap.watch.get_or_insert_with(|| tap.bucket.watch(waker()));
                if let Err(wait) = tap.bucket.is_due(now, ticket) {
                    if turn.waits.is_none() {
                        tap.bucket.begin_to_wait(waiting);
                        turn.waits = Some(Waits { ticket, counted: waiting });
                    }
                    return Answer::Wait(wait);
                }
                turn.end_to_wait(&tap.bucket);
            }
            turn.passed += 1;
        }
        let amount = turn.amount;
        self.turn = None;
        self.taps.iter().for_each(|tap| tap.bucket.count_passed(amount));
        Answer::Go(amount)
    }

    /// How much of a message passes whatever the buckets say: it is owed.
    pub(super) fn force(&mut self, now: Instant, amount: u64, divisible: bool) -> u64 {
        if amount == 0 || self.taps.is_empty() {
            return amount;
        }
        self.turn(amount, divisible);
        let Some(mut turn) = self.turn.take() else { return amount };
        for tap in &self.taps[turn.passed..] {
            if turn.waits.is_some() {
                turn.end_to_wait(&tap.bucket);
            } else {
                let _ = tap.bucket.reserve(now, turn.amount.min(HEAVIEST));
            }
        }
        self.taps.iter().for_each(|tap| tap.bucket.count_passed(turn.amount));
        turn.amount
    }

    /// So much more waits behind the piece in front.
    pub(super) fn more(&mut self, amount: u64) {
        if let Some(turn) = &mut self.turn
            && let Some(waits) = &mut turn.waits
        {
            waits.counted = waits.counted.wrapping_add(amount); // as in the sum of all
            self.taps[turn.passed].bucket.wait_with_more(amount);
        }
    }

    /// Whether a piece waits for a bucket.
    pub(super) fn is_waiting(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.waits.is_some())
    }

    /// What was in front does not pass: gives back what was reserved for it.
    pub(super) fn give_up(&mut self) {
        let Some(mut turn) = self.turn.take() else { return };
        let waits = usize::from(turn.waits.is_some());
        if let Some(tap) = self.taps.get(turn.passed) {
            turn.end_to_wait(&tap.bucket);
        }
        for tap in self.taps.iter().take(turn.passed + waits) {
            tap.bucket.give_back(turn.amount.min(HEAVIEST));
        }
    }
}

impl Turn {
    fn end_to_wait(&mut self, bucket: &Bucket) {
        if let Some(waits) = self.waits.take() {
            bucket.end_to_wait(waits.counted);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Rate, *};
    use std::sync::Arc;

    fn nobody() -> Waker {
        Arc::new(|| {})
    }

    fn bucket(rate: u64) -> Bucket {
        Bucket::new(Rate::try_from(rate).unwrap().burst(0))
    }

    #[test]
    fn what_is_shared_is_reserved_only_when_nothing_else_holds_a_piece_up() {
        let (own, all) = (bucket(640), bucket(6_400));
        let mut lane = Lane::default();
        lane.add(all.clone(), Width::Shared);
        lane.add(own.clone(), Width::Channel);
        let now = Instant::now();
        assert_eq!(lane.ask(now, 1_000, true, 1_000, nobody), Answer::Go(10));
        assert_eq!(lane.ask(now, 990, true, 990, nobody), Answer::Wait(Duration::from_nanos(15_625_000)));
        assert_eq!((own.figures().channels_waiting, all.figures().channels_waiting), (1, 0));
        assert_eq!(own.figures().waiting, 990);
        lane.more(10);
        assert_eq!(own.figures().waiting, 1_000);
        assert_eq!(all.reserve(now + Duration::from_millis(2), 1), Ok(()), "nobody has reserved anything");
        drop(lane);
        assert_eq!((own.figures().channels_waiting, own.figures().waiting, own.watched_by()), (0, 0, 0));
        assert_eq!(own.reserve(now + Duration::from_millis(16), 1), Ok(()), "what it had reserved is back");
    }

    #[test]
    fn what_is_forced_is_owed() {
        let all = bucket(100);
        let mut lane = Lane::default();
        lane.add(all.clone(), Width::Shared);
        let now = Instant::now();
        assert_eq!(lane.ask(now, 100, false, 100, nobody), Answer::Go(100));
        assert_eq!(lane.ask(now, 100, false, 100, nobody), Answer::Wait(Duration::from_secs(1)));
        assert_eq!(lane.force(now, 100, false), 100);
        assert_eq!(all.figures().channels_waiting, 0);
        assert_eq!(lane.ask(now, 1, false, 1, nobody), Answer::Wait(Duration::from_secs(2)));
        assert_eq!(all.figures().passed, 200);
    }
}
