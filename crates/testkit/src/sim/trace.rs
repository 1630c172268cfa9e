//! What happened in a simulation, in order, such that two runs can be compared.

use super::net::{Record, Time};
use std::{collections::VecDeque, fmt, time::Duration};

/// How many of the last lines are kept as text.
const KEPT: usize = 2_000;

/// Everything that happened, as a hash, and the end of it as lines. The same program with the same seed has the same trace.
///
/// What it tells of: everything in the network (but for the bytes: their number), each turn of each loop, each task of workers, each fault.
pub(super) struct Trace {
    hash: u64,
    entries: u64,
    last: VecDeque<Line>,
}

#[derive(Clone)]
enum Line {
    Turn { at: Time, event_loop: u64, events: u64, tasks: u64 },
    Work { at: Time, pool: u64 },
    Net(Record),
    Said { at: Time, text: String },
}

impl Trace {
    pub(super) fn new() -> Self {
        Self { hash: FNV_OFFSET, entries: 0, last: VecDeque::new() }
    }

    pub(super) fn turn(&mut self, at: Time, event_loop: u64, events: u64, tasks: u64) {
        self.mix(&[1, at.0, event_loop, events, tasks]);
        self.keep(Line::Turn { at, event_loop, events, tasks });
    }

    pub(super) fn work(&mut self, at: Time, pool: u64) {
        self.mix(&[2, at.0, pool]);
        self.keep(Line::Work { at, pool });
    }

    /// The network has a hash of its own.
    pub(super) fn net(&mut self, record: Record) {
        self.keep(Line::Net(record));
    }

    pub(super) fn say(&mut self, at: Time, text: String) {
        self.mix(&[4, at.0]);
        for byte in text.as_bytes() {
            self.mix(&[u64::from(*byte)]);
        }
        self.keep(Line::Said { at, text });
    }

    fn mix(&mut self, words: &[u64]) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(FNV_PRIME).rotate_left(23);
        }
    }

    fn keep(&mut self, line: Line) {
        self.entries += 1;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// `net`: the network's hash.
    pub(super) fn summary(&self, net: u64) -> TraceHash {
        TraceHash { hash: (self.hash ^ net).wrapping_mul(FNV_PRIME), entries: self.entries }
    }

    /// The last lines, as text.
    pub(super) fn tail(&self, lines: usize) -> String {
        let skipped = self.last.len().saturating_sub(lines);
        self.last.iter().skip(skipped).map(|line| format!("{line}\n")).collect()
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |time: &Time| Duration::from_nanos(time.0);
        match self {
            Self::Turn { at: time, event_loop, events, tasks } => {
                write!(f, "{:>14?}  loop {event_loop}: {events} events, {tasks} tasks", at(time))
            }
            Self::Work { at: time, pool } => write!(f, "{:>14?}  workers {pool}: a task", at(time)),
            Self::Net(record) => write!(f, "{:>14?}  {}", at(&record.at), record.what),
            Self::Said { at: time, text } => write!(f, "{:>14?}  {text}", at(time)),
        }
    }
}

/// The trace of a run as two numbers: equal for runs in which the same happened.
///
/// ```
/// use netwright_testkit::sim::Sim;
/// use std::time::Duration;
///
/// let run = |seed| Sim::seed(seed).run(|sim| sim.run_for(Duration::from_secs(1))).trace;
/// assert_eq!(run(7), run(7));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceHash {
    hash: u64,
    entries: u64,
}

impl TraceHash {
    /// How many things happened.
    pub fn entries(&self) -> u64 {
        self.entries
    }
}

impl fmt::Display for TraceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}/{}", self.hash, self.entries)
    }
}
