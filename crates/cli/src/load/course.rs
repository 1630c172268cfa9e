//! What every connection of a load keeps, whatever it speaks: what is on its way, how long it took, how it ended.
//!
//! ```text
//!   room() ──▶ sent(now) ──▶ … ──▶ came_back(n): latencies, figures ──▶ room() …
//!   finish() ──▶ is_done() when the last has come back ──▶ end(): the outcome
//! ```
//! Always true: `on_their_way` has one moment for each message that was sent and has not come back whole.

use hdrhistogram::Histogram;
use netwright::CloseCause;
use std::{
    cell::RefCell,
    collections::VecDeque,
    fmt,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::Sender,
    },
    time::Instant,
};

/// What the outside tells a connection, by writing it to the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Send.
    Go,
    /// Send no more, and close when everything has come back.
    Finish,
}

/// What all connections share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) size: usize,
    pub(super) depth: usize,
    pub(super) connections: AtomicU64,
    /// Messages that came back whole and right.
    pub(super) requests: AtomicU64,
    pub(super) problems: AtomicU64,
}

/// How a connection ended: `None` if all was well.
pub(super) type Outcome = Option<Problem>;

/// What went wrong on a connection.
#[derive(Debug)]
pub(super) enum Problem {
    /// The server did not agree to what was asked for first.
    Refused(String),
    WrongByte {
        position: u64,
        expected: u8,
        got: u8,
    },
    /// More came than was sent.
    Unasked {
        position: u64,
    },
    /// An answer that is not what it should be: which of the connection, and why not.
    Answer {
        number: u64,
        why: String,
    },
    Ended {
        cause: CloseCause,
        /// How much had not come back, of what.
        missing: u64,
        of: &'static str,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => f.write_str(why),
            Self::WrongByte { position, expected, got } => {
                write!(
                    f,
                    "byte {position} of a connection came back as {got:#04x} instead of {expected:#04x}"
                )
            }
            Self::Unasked { position } => {
                write!(f, "a connection got more than the {position} bytes it sent")
            }
            Self::Answer { number, why } => write!(f, "answer {number} of a connection: {why}"),
            Self::Ended { cause, missing, of } => {
                write!(f, "a connection ended while {missing} {of} had not come back: {cause}")
            }
        }
    }
}

/// From a microsecond below what loopback takes to more than anybody waits, to three digits.
const LATENCY_NS: std::ops::RangeInclusive<u64> = 1..=120_000_000_000;

pub(super) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(*LATENCY_NS.start(), *LATENCY_NS.end(), 3).expect("these bounds are valid")
}

thread_local! {
    /// One for each loop: a histogram for each connection would not fit, one for all would need a lock.
    static LATENCIES: Rc<RefCell<Histogram<u64>>> = Rc::new(RefCell::new(latencies()));
}

/// What the connections of the calling loop have measured.
pub(super) fn take_latencies() -> Histogram<u64> {
    LATENCIES.with(|measured| measured.replace(latencies()))
}

/// One connection's part of the load.
pub(super) struct Course {
    pub(super) shared: Arc<Shared>,
    /// Which connection this is.
    pub(super) number: u64,
    outcome: Sender<Outcome>,
    latencies: Rc<RefCell<Histogram<u64>>>,
    on_their_way: VecDeque<Instant>,
    finishing: bool,
    problem: Option<Problem>,
}

impl Course {
    pub(super) fn new(shared: Arc<Shared>, outcome: Sender<Outcome>) -> Self {
        Self {
            number: shared.connections.fetch_add(1, Ordering::Relaxed),
            shared,
            outcome,
            latencies: LATENCIES.with(Rc::clone),
            on_their_way: VecDeque::new(),
            finishing: false,
            problem: None,
        }
    }

    /// Whether another message may be sent.
    pub(super) fn has_room(&self) -> bool {
        !self.finishing && self.problem.is_none() && self.on_their_way.len() < self.shared.depth
    }

    pub(super) fn sent(&mut self, now: Instant) {
        self.on_their_way.push_back(now);
    }

    pub(super) fn on_their_way(&self) -> usize {
        self.on_their_way.len()
    }

    /// So many messages have come back, whole and right.
    pub(super) fn came_back(&mut self, messages: usize, now: Instant) {
        let mut latencies = self.latencies.borrow_mut();
        let messages = messages.min(self.on_their_way.len());
        for sent in self.on_their_way.drain(..messages) {
            latencies.saturating_record((now - sent).as_nanos() as u64);
        }
        self.shared.requests.fetch_add(messages as u64, Ordering::Relaxed);
    }

    /// The message that was sent then has come back, whole and right: one of several whose answers come in any order.
    pub(super) fn came_back_from(&mut self, sent: Instant, now: Instant) {
        let Some(at) = self.on_their_way.iter().position(|moment| *moment == sent) else { return };
        self.on_their_way.remove(at);
        self.latencies.borrow_mut().saturating_record((now - sent).as_nanos() as u64);
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn finish(&mut self) {
        self.finishing = true;
    }

    /// Nothing is to be sent, and nothing to come back.
    pub(super) fn is_done(&self) -> bool {
        self.finishing && self.on_their_way.is_empty()
    }

    /// The first problem is the one that is told.
    pub(super) fn fail(&mut self, problem: Problem) {
        self.problem.get_or_insert(problem);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.problem.is_some()
    }

    /// Tells how it ended; `missing` is what had not come back.
    pub(super) fn end(&mut self, cause: CloseCause, missing: u64, of: &'static str) {
        if !self.is_done() {
            self.fail(Problem::Ended { cause, missing, of });
        }
        if self.problem.is_some() {
            self.shared.problems.fetch_add(1, Ordering::Relaxed);
        }
        let _ = self.outcome.send(self.problem.take());
    }
}
