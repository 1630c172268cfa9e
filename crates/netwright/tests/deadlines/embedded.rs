//! Subjects without a socket.

use crate::row::{Seen, Subject};
use netwright::EmbeddedChannel;
use std::time::Duration;

struct Embedded<R, W> {
    channel: EmbeddedChannel<R, W>,
    sent: Vec<u8>,
}

/// A channel that has come to its state: what it has sent so far does not count.
pub(crate) fn subject<R: 'static, W: 'static>(mut channel: EmbeddedChannel<R, W>) -> Box<dyn Subject> {
    drop(channel.outbound_bytes());
    Box::new(Embedded { channel, sent: Vec::new() })
}

impl<R: 'static, W: 'static> Subject for Embedded<R, W> {
    fn send(&mut self, byte: u8) {
        self.channel.write_inbound([byte]);
    }

    fn advance(&mut self, by: Duration) {
        self.channel.advance(by);
    }

    fn seen(&mut self) -> Seen {
        self.sent.extend(self.channel.outbound_bytes());
        let cause = (!self.channel.is_open()).then(|| self.channel.channel().close_cause()).flatten();
        Seen { sent: self.sent.clone(), cause, told: None }
    }

    fn is_gone(&mut self) -> bool {
        !self.channel.is_open()
    }
}
