//! One connection of the load on an echo server: keeps `depth` messages on their way and compares every byte that comes back.
//!
//! ```text
//!   sent      ────────────────────────▶│      whole messages, at most `depth` of them more than
//!   received  ─────────────▶│                 what has come back
//! ```
//! Always true: bytes before `received` were compared and right.

use super::{
    course::{Course, Order, Problem},
    pattern::Pattern,
};
use bytes::{Bytes, BytesMut};
use netwright::{CloseCause, Context, Handler, WritePromise};
use std::{convert::Infallible, time::Instant};

/// Last and only stage of a load connection: takes orders from outside, sends and checks bytes.
pub(super) struct LoadClient {
    course: Course,
    pattern: Pattern,
    room: BytesMut,
    sent: u64,
    received: u64,
}

impl LoadClient {
    pub(super) fn new(course: Course) -> Self {
        let pattern = Pattern::of_connection(course.number);
        Self { course, pattern, room: BytesMut::new(), sent: 0, received: 0 }
    }

    fn fill_up(&mut self, cx: &mut Context<'_, Self>, now: Instant) {
        let size = self.course.shared.size;
        while self.course.has_room() {
            self.room.resize(size, 0); // takes its memory back once the message before is sent
            self.pattern.fill(self.sent, &mut self.room);
            cx.write(self.room.split().freeze());
            self.sent += size as u64;
            self.course.sent(now);
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
        if self.course.is_done() {
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
        if self.course.has_failed() {
            return;
        }
        if let Some(problem) = self.check(&bytes) {
            self.course.fail(problem);
            return cx.close();
        }
        let size = self.course.shared.size as u64;
        let whole = (self.received + bytes.len() as u64) / size - self.received / size;
        self.received += bytes.len() as u64;
        if whole == 0 {
            return;
        }
        let now = Instant::now();
        self.course.came_back(whole as usize, now);
        self.fill_up(cx, now);
        self.close_if_done(cx);
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, order: Order, done: WritePromise) {
        match order {
            Order::Go => self.fill_up(cx, Instant::now()),
            Order::Finish => {
                self.course.finish();
                self.close_if_done(cx);
            }
        }
        done.succeed();
    }

    fn inactive(&mut self, _: &mut Context<'_, Self>, cause: CloseCause) {
        self.course.end(cause, self.sent - self.received, "bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::course::{Outcome, Shared, take_latencies};
    use netwright::{EmbeddedChannel, pipeline};
    use std::sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, channel},
    };

    fn client(
        size: usize,
        depth: usize,
    ) -> (EmbeddedChannel<Infallible, Order>, Arc<Shared>, Receiver<Outcome>) {
        let shared = Arc::new(Shared { size, depth, ..Shared::default() });
        let (outcome, outcomes) = channel();
        let load = LoadClient::new(Course::new(shared.clone(), outcome));
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
