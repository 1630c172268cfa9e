//! What a connection of the load on an echo server says: bytes of its own, every one of which has to come back.
//!
//! ```text
//!   given     ────────────────────────▶│      whole messages, at most `depth` of them more than
//!   received  ─────────────▶│                 what has come back
//! ```
//! Always true: bytes before `received` were compared and right.

use super::{
    course::{Course, Problem},
    pattern::Supply,
    stage::{Load, Talk},
};
use bytes::{Bytes, BytesMut};

pub(super) struct Echo {
    supply: Supply,
    received: u64,
}

impl Echo {
    pub(super) fn load(course: Course) -> Load<Self> {
        let supply = Supply::of_connection(course.number);
        Load::new(course, Self { supply, received: 0 })
    }

    fn check(&self, bytes: &[u8]) -> Result<(), Problem> {
        if self.received + bytes.len() as u64 > self.supply.given {
            return Err(Problem::Unasked { position: self.supply.given });
        }
        match self.supply.pattern.first_difference(self.received, bytes) {
            None => Ok(()),
            Some((at, expected)) => {
                Err(Problem::WrongByte { position: self.received + at as u64, expected, got: bytes[at] })
            }
        }
    }
}

impl Talk for Echo {
    type Read = BytesMut;
    type Write = Bytes;
    const MISSING: &'static str = "bytes";

    fn say(&mut self, course: &Course) -> Bytes {
        self.supply.next(course.shared.size)
    }

    fn judge(&mut self, course: &Course, bytes: BytesMut) -> Result<usize, Problem> {
        self.check(&bytes)?;
        let (size, before) = (course.shared.size as u64, self.received);
        self.received += bytes.len() as u64;
        Ok((self.received / size - before / size) as usize)
    }

    fn missing(&self, _: &Course) -> u64 {
        self.supply.given - self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::course::{Order, Outcome, Shared, take_latencies};
    use netwright::{EmbeddedChannel, pipeline};
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::Ordering,
            mpsc::{Receiver, channel},
        },
    };

    fn client(
        size: usize,
        depth: usize,
    ) -> (EmbeddedChannel<Infallible, Order>, Arc<Shared>, Receiver<Outcome>) {
        let shared = Arc::new(Shared { size, depth, ..Shared::default() });
        let (outcome, outcomes) = channel();
        let load = Echo::load(Course::new(shared.clone(), outcome));
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
