//! Compressed messages, piece by piece.

use super::{Agreed, Deflate, WINDOW_BITS_MAX};
use crate::{Violation, frame::Role};
use flate2::{Decompress, FlushDecompress, Status};
use std::cell::RefCell;

/// What a sender takes off the end of each message.
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
/// Room that is made at once: what most short messages become.
const ROOM_MIN: usize = 256;
/// And no more than this much, however long the piece is.
const ROOM_MAX: usize = 16 * 1024;

thread_local! {
    /// One that nobody uses right now, with the largest window.
    static SPARE: RefCell<Option<Box<Decompress>>> = const { RefCell::new(None) };
}

/// Makes messages of their compressed pieces.
#[derive(Debug)]
pub(crate) struct Inflater {
    engine: Option<Box<Decompress>>,
    takeover: bool,
    bits: u8,
    ratio: u64,
    grace: u64,
    /// Compressed bytes of the message so far.
    taken: u64,
}

impl Inflater {
    pub(crate) fn new(agreed: &Agreed, deflate: &Deflate, peer: Role) -> Self {
        let (takeover, bits) = agreed.direction(peer);
        Self { engine: None, takeover, bits, ratio: deflate.ratio, grace: deflate.grace, taken: 0 }
    }

    /// Appends to the message what this piece of it becomes.
    pub(crate) fn push(
        &mut self,
        piece: &[u8],
        message: &mut Vec<u8>,
        limit: usize,
    ) -> Result<(), Violation> {
        self.taken += piece.len() as u64;
        self.run(piece, message, limit)
    }

    /// The message has come to its end.
    pub(crate) fn finish(&mut self, message: &mut Vec<u8>, limit: usize) -> Result<(), Violation> {
        self.run(&TAIL, message, limit)?;
        self.taken = 0;
        if !self.takeover
            && let Some(engine) = self.engine.take()
            && self.bits == WINDOW_BITS_MAX
        {
            SPARE.with(|spare| *spare.borrow_mut() = Some(engine));
        }
        Ok(())
    }

    fn run(&mut self, mut piece: &[u8], message: &mut Vec<u8>, limit: usize) -> Result<(), Violation> {
        let engine = match &mut self.engine {
            Some(engine) => engine,
            None => self.engine.insert(lend(self.bits, self.takeover)),
        };
        loop {
            if message.capacity() - message.len() < ROOM_MIN / 4 {
                make_room(message, (4 * piece.len()).clamp(ROOM_MIN, ROOM_MAX), limit);
            }
            let (taken, made) = (engine.total_in(), engine.total_out());
            let status = engine.decompress_vec(piece, message, FlushDecompress::None).map_err(|error| {
                Violation::NotDeflated { why: error.message().unwrap_or("not deflate").to_owned() }
            })?;
            let (taken, made) = ((engine.total_in() - taken) as usize, engine.total_out() - made);
            piece = &piece[taken..];
            if message.len() > limit {
                return Err(Violation::MessageTooLong { len: message.len() as u64, limit: limit as u64 });
            }
            let to = message.len() as u64;
            if to > self.grace && to / self.ratio.max(1) > self.taken {
                return Err(Violation::Inflated { from: self.taken, to, limit: self.ratio });
            }
            match status {
                // A last block does not end the message: more may follow, and begins anew.
                Status::StreamEnd => engine.reset(false),
                _ if taken == 0 && made == 0 && piece.is_empty() => return Ok(()),
                _ if taken == 0 && made == 0 => {
                    return Err(Violation::NotDeflated { why: "it stands still".to_owned() });
                }
                _ => {}
            }
            if piece.is_empty() && message.capacity() > message.len() {
                return Ok(()); // room is left, so there is nothing more to come
            }
        }
    }
}

/// Room for more of a message: twice of what it has, as far as it may become that long. One byte beyond the limit is enough to
/// see that there is more.
fn make_room(message: &mut Vec<u8>, more: usize, limit: usize) {
    let wanted = (message.len() + more).max(2 * message.capacity()).min(limit.saturating_add(1));
    message.reserve_exact(wanted.saturating_sub(message.len()));
}

fn lend(bits: u8, takeover: bool) -> Box<Decompress> {
    let spare = if bits == WINDOW_BITS_MAX && !takeover {
        SPARE.with(|spare| spare.borrow_mut().take())
    } else {
        None
    };
    match spare {
        Some(mut engine) => {
            engine.reset(false);
            engine
        }
        // A window of 8 bits is part of one of 9, which is the smallest that there is.
        None => Box::new(Decompress::new_with_window_bits(false, bits.clamp(9, WINDOW_BITS_MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compress, Compression, FlushCompress};

    #[test]
    fn a_bomb_is_refused_one_byte_beyond_the_limit_and_takes_no_more_memory() {
        const BOMB: usize = 10 << 20;
        let mut packed = Vec::with_capacity(BOMB / 500);
        let mut engine = Compress::new(Compression::default(), false);
        engine.compress_vec(&vec![0; BOMB], &mut packed, FlushCompress::Sync).unwrap();
        for limit in [0, 1, 100, 1000, 65_536, 1_000_000, 5_000_001] {
            let mut inflater = Inflater::new(&Agreed::default(), &Deflate::default(), Role::Client);
            let mut message = Vec::new();
            let refused =
                packed.chunks(4096).find_map(|piece| inflater.push(piece, &mut message, limit).err());
            let (len, limit) = (limit as u64 + 1, limit as u64);
            assert_eq!(refused, Some(Violation::MessageTooLong { len, limit }));
            assert!(message.capacity() as u64 <= len, "{} bytes for {limit}", message.capacity());
        }
    }
}
