//! Messages made smaller.

use super::{Agreed, Deflate, WINDOW_BITS_MAX};
use crate::frame::Role;
use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress};
use std::cell::RefCell;

/// Zlib cannot compress with less.
const WINDOW_BITS_COMPRESS_MIN: u8 = 9;
/// A flush that finds less room than its marker needs begins anew with each call. It always gets this much.
const ROOM_MIN: usize = 64;
/// What every message ends with, and what is taken off.
const TAIL_LEN: usize = 4;

thread_local! {
    /// One that nobody uses right now: of this level, with the largest window.
    static SPARE: RefCell<Option<(u32, Box<Compress>)>> = const { RefCell::new(None) };
}

/// Compresses messages.
#[derive(Debug)]
pub(crate) struct Deflater {
    engine: Option<Box<Compress>>,
    takeover: bool,
    bits: u8,
    level: Compression,
    min: usize,
}

impl Deflater {
    /// `None` if nothing can be compressed for that peer.
    pub(crate) fn new(agreed: &Agreed, deflate: &Deflate, role: Role) -> Option<Self> {
        let (takeover, bits) = agreed.direction(role);
        (bits >= WINDOW_BITS_COMPRESS_MIN).then(|| Self {
            engine: None,
            takeover,
            bits,
            level: deflate.compression(),
            min: deflate.min_len(),
        })
    }

    /// The message, smaller; `None` if it is better sent as it is.
    pub(crate) fn compress(&mut self, message: &[u8]) -> Option<Bytes> {
        if message.len() < self.min || message.is_empty() {
            return None;
        }
        let mut engine = self.engine.take().unwrap_or_else(|| self.lend());
        let packed = pack(&mut engine, message);
        if self.takeover {
            self.engine = packed.is_some().then_some(engine);
        } else if self.bits == WINDOW_BITS_MAX {
            SPARE.with(|spare| *spare.borrow_mut() = Some((self.level.level(), engine)));
        }
        // With a context the peer has to see everything that was compressed, also if it grew.
        packed.filter(|packed| self.takeover || packed.len() < message.len()).map(Bytes::from)
    }

    fn lend(&self) -> Box<Compress> {
        if self.bits == WINDOW_BITS_MAX
            && !self.takeover
            && let Some((level, mut engine)) = SPARE.with(|spare| spare.borrow_mut().take())
            && level == self.level.level()
        {
            engine.reset();
            return engine;
        }
        Box::new(Compress::new_with_window_bits(self.level, false, self.bits))
    }
}

fn pack(engine: &mut Compress, mut message: &[u8]) -> Option<Vec<u8>> {
    let mut packed = Vec::with_capacity(ROOM_MIN + message.len() / 2);
    loop {
        if packed.capacity() - packed.len() < ROOM_MIN {
            packed.reserve(ROOM_MIN + message.len() / 2 + packed.len() / 2);
        }
        let taken = engine.total_in();
        engine.compress_vec(message, &mut packed, FlushCompress::Sync).ok()?;
        message = &message[(engine.total_in() - taken) as usize..];
        if message.is_empty() && packed.capacity() > packed.len() {
            break;
        }
    }
    packed.ends_with(&[0, 0, 0xff, 0xff]).then(|| {
        packed.truncate(packed.len() - TAIL_LEN);
        packed
    })
}
