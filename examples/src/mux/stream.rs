//! What a connection knows of one stream.

use super::MuxError;
use netwright::channel::ChildKey;

/// One stream, beside its child.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) key: ChildKey,
    /// Bytes that we may send.
    pub(super) to_send: usize,
    /// Bytes that the peer may send.
    pub(super) to_receive: usize,
    /// The peer sends no more.
    pub(super) input_ended: bool,
    /// We send no more.
    pub(super) output_ended: bool,
    /// It waits for its turn to send.
    pub(super) in_line: bool,
}

impl Stream {
    pub(super) fn new(key: ChildKey, credit: usize) -> Self {
        Self {
            key,
            to_send: credit,
            to_receive: credit,
            input_ended: false,
            output_ended: false,
            in_line: false,
        }
    }

    /// So many bytes have come.
    pub(super) fn received(&mut self, stream: u32, bytes: usize) -> Result<(), MuxError> {
        if self.input_ended {
            return Err(MuxError::BehindTheEnd(stream));
        }
        match self.to_receive.checked_sub(bytes) {
            Some(left) => {
                self.to_receive = left;
                Ok(())
            }
            None => Err(MuxError::TooMuch { stream, sent: bytes, granted: self.to_receive }),
        }
    }

    /// The peer takes so many bytes more.
    pub(super) fn granted(&mut self, stream: u32, more: u32) -> Result<(), MuxError> {
        let credit = self.to_send.checked_add(more as usize).filter(|credit| *credit <= u32::MAX as usize);
        self.to_send = credit.ok_or(MuxError::CreditOverflow(stream))?;
        Ok(())
    }

    /// Whether both sides have said all.
    pub(super) fn is_over(&self) -> bool {
        self.input_ended && self.output_ended
    }
}
