//! One connection of the load: keeps `depth` messages on their way and compares every byte that comes back.
//!
//! ```text
//!   sent      ────────────────────────▶│      whole messages, at most `depth` of them more than
//!   received  ─────────────▶│                 what has come back
//! ```
//! Always true: bytes before `received` were compared and right; `on_their_way` has one moment for each message that
//! was sent and has not come back whole.

use super::pattern::Pattern;
use bytes::{Bytes, BytesMut};
use hdrhistogram::Histogram;
use netwright::{CloseCause, Context, Handler, WritePromise};
use std::{
    cell::RefCell,
    collections::VecDeque,
    convert::Infallible,
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
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    /// Send.
    Go,
    /// Send no more, and close when everything has come back.
    Finish,
}

/// What all connections share.
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
    WrongByte {
        position: u64,
        expected: u8,
        got: u8,
    },
    /// More came than was sent.
    Unasked {
        position: u64,
    },
    Ended {
        cause: CloseCause,
        missing: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongByte { position, expected, got } => {
                write!(
                    f,
                    "byte {position} of a connection came back as {got:#04x} instead of {expected:#04x}"
                )
            }
            Self::Unasked { position } => {
                write!(f, "a connection got more than the {position} bytes it sent")
            }
            Self::Ended { cause, missing } => {
                write!(f, "a connection ended while {missing} bytes had not come back: {cause}")
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

/// Last and only stage of a load connection: takes orders from outside, sends and checks bytes.
pub(super) struct LoadClient {
    shared: Arc<Shared>,
    pattern: Pattern,
    outcome: Sender<Outcome>,
    latencies: Rc<RefCell<Histogram<u64>>>,
    room: BytesMut,
    on_their_way: VecDeque<Instant>,
    sent: u64,
    received: u64,
    finishing: bool,
    problem: Option<Problem>,
}

impl LoadClient {
    pub(super) fn new(shared: Arc<Shared>, outcome: Sender<Outcome>) -> Self {
        let number = shared.connections.fetch_add(1, Ordering::Relaxed);
        Self {
            shared,
            pattern: Pattern::of_connection(number),
            outcome,
            latencies: LATENCIES.with(Rc::clone),
            room: BytesMut::new(),
            on_their_way: VecDeque::new(),
            sent: 0,
            received: 0,
            finishing: false,
            problem: None,
        }
    }

    fn fill_up(&mut self, cx: &mut Context<'_, Self>, now: Instant) {
        while !self.finishing && self.on_their_way.len() < self.shared.depth {
            self.room.resize(self.shared.size, 0); // takes its memory back once the message before is sent
            self.pattern.fill(self.sent, &mut self.room);
            cx.write(self.room.split().freeze());
            self.sent += self.shared.size as u64;
            self.on_their_way.push_back(now);
        }
        cx.flush();
    }

    fn check(&self, bytes: &[u8]) -> Option<Problem> {
        if self.received + bytes.len() as u64 > self.sent {
            return Some(Problem::Unasked { position: self.sent });
        }
        let (at, expected) = self.pattern.first_difference(self.received, bytes)?;
        Some(Problem::WrongByte { position: self.received + at as u64, expected, got: bytes[at] })
    }

    fn close_if_done(&mut self, cx: &mut Context<'_, Self>) {
        if self.finishing && self.on_their_way.is_empty() {
            cx.close();
        }
    }
}

impl Handler for LoadClient {
    type Read = BytesMut;
    type ReadOut = Infallible;
    type Write = Order;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        if self.problem.is_some() {
            return;
        }
        self.problem = self.check(&bytes);
        if self.problem.is_some() {
            return cx.close();
        }
        let size = self.shared.size as u64;
        let whole = (self.received + bytes.len() as u64) / size - self.received / size;
        self.received += bytes.len() as u64;
        if whole == 0 {
            return;
        }
        let now = Instant::now();
        {
            let mut latencies = self.latencies.borrow_mut();
            for sent in self.on_their_way.drain(..whole as usize) {
                latencies.saturating_record((now - sent).as_nanos() as u64);
            }
        }
        self.shared.requests.fetch_add(whole, Ordering::Relaxed);
        self.fill_up(cx, now);
        self.close_if_done(cx);
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, order: Order, done: WritePromise) {
        match order {
            Order::Go => self.fill_up(cx, Instant::now()),
            Order::Finish => {
                self.finishing = true;
                self.close_if_done(cx);
            }
        }
        done.succeed();
    }

    fn inactive(&mut self, _: &mut Context<'_, Self>, cause: CloseCause) {
        let missing = self.sent - self.received;
        if self.problem.is_none() && !(self.finishing && missing == 0) {
            self.problem = Some(Problem::Ended { cause, missing });
        }
        if self.problem.is_some() {
            self.shared.problems.fetch_add(1, Ordering::Relaxed);
        }
        let _ = self.outcome.send(self.problem.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright::{EmbeddedChannel, pipeline};
    use std::sync::mpsc::{Receiver, channel};

    fn client(
        size: usize,
        depth: usize,
    ) -> (EmbeddedChannel<Infallible, Order>, Arc<Shared>, Receiver<Outcome>) {
        let shared = Arc::new(Shared {
            size,
            depth,
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            problems: AtomicU64::new(0),
        });
        let (outcome, outcomes) = channel();
        let load = LoadClient::new(shared.clone(), outcome);
        (EmbeddedChannel::new(pipeline().add(load)), shared, outcomes)
    }

    #[test]
    fn what_comes_back_in_pieces_is_counted_and_replaced_message_by_message() {
        let (mut channel, shared, outcomes) = client(10, 2);
        channel.write_outbound(Order::Go);
        let sent = channel.outbound_bytes();
        assert_eq!(sent.len(), 20, "two messages are on their way");
        channel.write_inbound(&sent[..9]);
        assert_eq!(channel.outbound_bytes().len(), 0);
        channel.write_inbound(&sent[9..12]);
        assert_eq!(shared.requests.load(Ordering::Relaxed), 1);
        let more = channel.outbound_bytes();
        assert_eq!(more.len(), 10, "a new one for the one that came back");
        channel.write_outbound(Order::Finish);
        channel.write_inbound(&sent[12..]).write_inbound(&more);
        assert_eq!(channel.outbound_bytes().len(), 0);
        assert!(!channel.is_open());
        assert!(outcomes.try_recv().unwrap().is_none(), "all is well");
        assert_eq!(take_latencies().len(), 3);
    }

    #[test]
    fn a_wrong_byte_ends_the_connection_and_names_its_place() {
        let (mut channel, _, outcomes) = client(10, 1);
        channel.write_outbound(Order::Go);
        let mut sent = channel.outbound_bytes();
        sent[7] ^= 0x40;
        channel.write_inbound(&sent);
        assert!(!channel.is_open());
        let problem = outcomes.try_recv().unwrap();
        assert!(matches!(problem, Some(Problem::WrongByte { position: 7, .. })), "{problem:?}");
    }

    #[test]
    fn an_answer_that_nobody_asked_for_is_wrong() {
        let (mut channel, _, outcomes) = client(10, 1);
        channel.write_outbound(Order::Go);
        let mut sent = channel.outbound_bytes();
        sent.push(0);
        channel.write_inbound(&sent);
        assert!(matches!(outcomes.try_recv().unwrap(), Some(Problem::Unasked { position: 10 })));
    }

    #[test]
    fn a_peer_that_leaves_early_is_a_problem_with_the_number_of_missing_bytes() {
        let (mut channel, shared, outcomes) = client(10, 3);
        channel.write_outbound(Order::Go);
        let sent = channel.outbound_bytes();
        channel.write_inbound(&sent[..4]).close_by_peer();
        let problem = outcomes.try_recv().unwrap();
        assert!(matches!(problem, Some(Problem::Ended { missing: 26, .. })), "{problem:?}");
        assert_eq!(shared.problems.load(Ordering::Relaxed), 1);
    }
}
