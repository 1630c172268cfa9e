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
                message.reserve((4 * piece.len()).clamp(ROOM_MIN, ROOM_MAX));
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
