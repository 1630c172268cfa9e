//! The newest packets of all channels of a capture, in memory.
//!
//! Secrets are kept beside them: those of a connection came with its beginning, and without them nothing later can be read.

use super::{CaptureError, block, figures::Counts, file::since_epoch};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Less has no room for a packet.
pub(super) const BYTES_MIN: u64 = 4096;
/// Secrets of some thousand connections.
const SECRETS_MAX: usize = 1 << 20;

pub(super) struct Ring {
    state: Mutex<State>,
    bytes_max: usize,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct State {
    /// Whole blocks.
    packets: VecDeque<u8>,
    /// Blocks with secrets, the oldest first.
    secrets: VecDeque<u8>,
}

impl Ring {
    pub(super) fn new(bytes_max: usize, counts: Arc<Counts>) -> Result<Self, CaptureError> {
        if (bytes_max as u64) < BYTES_MIN {
            return Err(CaptureError::TooSmall { got: bytes_max as u64, least: BYTES_MIN });
        }
        Ok(Self { state: Mutex::default(), bytes_max, counts })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn packet(&self, bytes: &[u8]) {
        if bytes.len() > self.bytes_max {
            return self.counts.lose(1, bytes.len() as u64);
        }
        let mut state = self.lock();
        while state.packets.len() + bytes.len() > self.bytes_max {
            let len = drop_first(&mut state.packets);
            self.counts.take_back(1, len as u64);
        }
        state.packets.extend(bytes);
        self.counts.accept(1, bytes.len() as u64);
    }

    pub(super) fn secrets(&self, bytes: &[u8]) {
        let mut state = self.lock();
        while state.secrets.len() + bytes.len() > SECRETS_MAX {
            drop_first(&mut state.secrets);
        }
        state.secrets.extend(bytes);
    }

    /// The bytes of a file.
    pub(super) fn dump(&self) -> Vec<u8> {
        let mut out = Vec::new();
        block::preamble(&mut out);
        let state = self.lock();
        out.reserve(state.secrets.len() + state.packets.len() + 256);
        for blocks in [&state.secrets, &state.packets] {
            let (front, back) = blocks.as_slices();
            out.extend_from_slice(front);
            out.extend_from_slice(back);
        }
        let (packets, lost) = self.counts.seen();
        drop(state);
        let said = "dumped from a ring, which keeps the newest packets";
        block::statistics(&mut out, since_epoch(), packets + lost, lost, said);
        out
    }
}

/// Tells how long it was.
fn drop_first(blocks: &mut VecDeque<u8>) -> usize {
    let len = block::len_of(blocks.iter().copied());
    blocks.drain(..len);
    len
}
