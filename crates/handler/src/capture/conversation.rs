//! One channel as a connection of TCP: what it would have looked like on a wire that loses nothing.
//!
//! ```text
//!   who began  SYN ──▶        payload ──▶ seq += length          FIN ──▶ seq += 1
//!              ◀── SYN ACK    ◀── payload, acknowledges all      ◀── FIN ACK, or RST
//!              ACK ──▶
//! ```
//! Each segment acknowledges whatever has come from the other side, so there are none that only acknowledge, but for those
//! that end a handshake, a comment needs, or a side whose bytes would fill the other one's window: that has 65,535 bytes, because nobody who begins in the
//! middle of a capture knows a larger one. Sequence numbers count what has passed, also if it is lost from the capture: a reader shows the gap.

use super::{
    block::{self, Way},
    packet::{ACK, FIN, HEADS_MAX, PAYLOAD_MAX, PSH, RST, SYN, Segment, WINDOW},
};
use std::{net::SocketAddr, time::Duration};

/// Takes packets, each a block.
pub(super) trait Packets {
    /// A packet of this time.
    fn packet(&mut self, block: &[u8]);
}

#[derive(Debug)]
pub(super) struct Conversation {
    us: Side,
    peer: Side,
    /// What the next packet says: of the channel as a whole, most often.
    said: Option<String>,
    over: bool,
    block: Vec<u8>,
}

#[derive(Debug)]
struct Side {
    address: SocketAddr,
    /// The next sequence number.
    seq: u32,
    /// So many bytes have been sent since the other side sent anything.
    unacknowledged: u64,
    /// It sends no more.
    ended: bool,
}

impl Conversation {
    /// A channel between these, the `number`th of its capture.
    pub(super) fn new(us: SocketAddr, peer: SocketAddr, number: u32, said: Option<String>) -> Self {
        // Far enough from each other that nobody takes one connection for the continuation of another one between the same ports.
        let first = number.wrapping_mul(0x0100_0193);
        let side = |address, seq| Side { address, seq, unacknowledged: 0, ended: false };
        Self { us: side(us, first), peer: side(peer, !first), said, over: false, block: Vec::new() }
    }

    fn sides(&mut self, way: Way) -> (&mut Side, &mut Side) {
        match way {
            Way::In => (&mut self.peer, &mut self.us),
            Way::Out => (&mut self.us, &mut self.peer),
        }
    }

    fn segment(&mut self, at: Duration, way: Way, flags: u8, payload: &[u8], to: &mut impl Packets) {
        let said = self.said.take();
        let (sender, receiver) = self.sides(way);
        let segment = Segment {
            from: sender.address,
            to: receiver.address,
            seq: sender.seq,
            ack: receiver.seq,
            flags,
            payload,
        };
        let mut heads = [0; HEADS_MAX];
        let len = segment.heads(&mut heads);
        sender.seq = sender.seq.wrapping_add(payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0));
        sender.unacknowledged += payload.len() as u64;
        receiver.unacknowledged = 0;
        self.block.clear();
        block::packet(&mut self.block, at, way, &heads[..len], payload, said.as_deref());
        to.packet(&self.block);
        if self.block.capacity() > 4096 {
            self.block = Vec::new(); // thousands of channels are idle behind one large message each
        }
    }

    /// It has begun: this side came first.
    pub(super) fn begin(&mut self, at: Duration, first: Way, to: &mut impl Packets) {
        self.segment(at, first, SYN, &[], to);
        self.segment(at, first.other(), SYN | ACK, &[], to);
        self.segment(at, first, ACK, &[], to);
    }

    /// Bytes went this way.
    pub(super) fn bytes(&mut self, at: Duration, way: Way, bytes: &[u8], to: &mut impl Packets) {
        if self.over {
            return;
        }
        for bytes in bytes.chunks(PAYLOAD_MAX) {
            let (sender, _) = self.sides(way);
            if sender.unacknowledged + bytes.len() as u64 >= WINDOW {
                self.segment(at, way.other(), ACK, &[], to);
            }
            self.segment(at, way, PSH | ACK, bytes, to);
        }
    }

    /// So many bytes went this way that nobody has seen.
    pub(super) fn unseen(&mut self, at: Duration, way: Way, len: u64, to: &mut impl Packets) {
        if !self.over && len > 0 {
            let earlier = self.said.take().map_or(String::new(), |said| format!("{said}; "));
            self.said = Some(format!("{earlier}{len} bytes of a file follow, which are not captured"));
            self.segment(at, way, ACK, &[], to);
            let (sender, _) = self.sides(way);
            sender.seq = sender.seq.wrapping_add(len as u32);
            sender.unacknowledged = sender.unacknowledged.saturating_add(len);
        }
    }

    /// This side sends no more.
    pub(super) fn end_of(&mut self, at: Duration, way: Way, to: &mut impl Packets) {
        if !self.over && !std::mem::replace(&mut self.sides(way).0.ended, true) {
            self.segment(at, way, FIN | ACK, &[], to);
        }
    }

    /// It has ended in order, this side first, for this reason.
    pub(super) fn close(&mut self, at: Duration, first: Way, both: bool, why: &str, to: &mut impl Packets) {
        if self.over {
            return;
        }
        self.say(why);
        self.end_of(at, first, to);
        if both {
            self.end_of(at, first.other(), to);
        }
        if self.said.is_some() {
            self.segment(at, first.other(), ACK, &[], to); // both had ended before
        }
        self.over = true;
    }

    /// This side has broken it off.
    pub(super) fn reset(&mut self, at: Duration, way: Way, why: &str, to: &mut impl Packets) {
        if !self.over {
            self.say(why);
            self.segment(at, way, RST | ACK, &[], to);
            self.over = true;
        }
    }

    fn say(&mut self, text: &str) {
        self.said = Some(match self.said.take() {
            Some(said) => format!("{said}; {text}"),
            None => text.to_owned(),
        });
    }
}
