//! Bytes that are in no message yet, and how a decoder is asked for messages.
//!
//! ```text
//!   input:  [ message ][ message ][ unfin            what was read, in the loop's own buffer; messages are pieces of it
//!                                   └──────┐ copied
//!   rest:                            [ unfin ── as much of the next read as the message wants ──▶ ished ]
//! ```
//! Always true when `next` has answered `None`:
//! 1. `input` is empty: nothing of the loop's buffer is kept, and an idle connection between messages holds no buffer.
//! 2. `rest` holds the unfinished message alone, in a buffer of its own, at most `Decoder::limit` bytes.
//! 3. Every byte was copied at most once, but for rests whose length their decoder does not know: these grow by doubling, and
//!    move when others were copied along with them.
//!
//! Not here: what becomes of messages and errors (`decoding`).

use super::{DecodeError, Decoder, DecoderDefect, Unfinished};
use bytes::{Buf, BytesMut};

/// Room for an unfinished message: most fit, and an idle connection may hold that much.
const ROOM_MIN: usize = 64;
/// Room that is made for a message on its word alone. Beyond that a peer has to have sent a share of it.
const ROOM_UNPROVEN: usize = 16 * 1024;
/// The share: who claims 1 MiB gets room for it once 16 KiB are there.
const ROOM_FACTOR: usize = 64;
/// Messages in a row without a byte taken off. A decompressor may give many; none gives that many.
const STILL_MAX: u32 = 1 << 16;

/// The bytes that a decoder has not used yet.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    input: BytesMut,
    rest: BytesMut,
    /// The decoder has seen all of `rest` and wants more.
    waiting: bool,
    /// Something was cut off the front of `rest`, whose buffer is larger than what is left needs.
    cut: bool,
    /// Messages in a row without a byte taken off.
    still: u32,
}

impl Intake {
    /// Takes what was read.
    pub(crate) fn feed(&mut self, bytes: BytesMut) {
        if self.input.is_empty() {
            self.input = bytes;
        } else {
            self.input.unsplit(bytes); // a stage in front passes on several pieces before messages are asked for
        }
    }

    /// The next message, or what is wrong. `None`: more bytes are needed.
    #[inline]
    pub(crate) fn next<D: Decoder>(&mut self, decoder: &mut D) -> Option<Result<D::Item, DecodeError>> {
        loop {
            let in_rest = !self.rest.is_empty();
            if in_rest {
                if self.waiting && !self.top_up(decoder) {
                    return None;
                }
            } else if self.input.is_empty() && !decoder.has_more() {
                self.input = BytesMut::new();
                return None;
            }
            let bytes = if in_rest { &mut self.rest } else { &mut self.input };
            let before = bytes.len();
            let result = decoder.decode(bytes);
            let left = bytes.len();
            match result {
                Ok(Some(message)) => {
                    if left < before {
                        self.still = 0;
                    } else if let Err(defect) = self.stands_still(decoder) {
                        return Some(Err(defect));
                    }
                    if in_rest {
                        self.cut = left > 0;
                        if left == 0 {
                            self.rest = BytesMut::new(); // what is left of its room belongs to the message
                        }
                    }
                    return Some(Ok(message));
                }
                Ok(None) if left == 0 && !in_rest => {
                    self.input = BytesMut::new();
                    return None;
                }
                Ok(None) if left == 0 => self.rest = BytesMut::new(),
                Ok(None) if left < before => self.cut = in_rest, // it skipped something: it may go on
                Ok(None) => {
                    if let Err(error) = self.put_aside(decoder, in_rest) {
                        return Some(Err(error));
                    }
                }
                Err(error) => {
                    if !error.is_fatal() && left >= before {
                        let (decoder, has) = (decoder.name(), before);
                        return Some(Err(DecoderDefect::RefusesInPlace { decoder, has }.into()));
                    }
                    self.cut = in_rest;
                    if in_rest && left == 0 {
                        self.rest = BytesMut::new();
                    }
                    self.still = 0;
                    return Some(Err(error));
                }
            }
        }
    }

    /// The stream has ended: what the decoder makes of the rest.
    pub(crate) fn last<D: Decoder>(&mut self, decoder: &mut D) -> Option<Result<D::Item, DecodeError>> {
        let mut rest = self.take();
        let result = decoder.decode_last(&mut rest);
        self.feed(rest);
        result.transpose()
    }

    /// Everything that was read and is in no message.
    pub(crate) fn take(&mut self) -> BytesMut {
        let mut rest = std::mem::take(&mut self.rest);
        let input = std::mem::take(&mut self.input);
        self.waiting = false;
        if rest.is_empty() {
            return input;
        }
        rest.unsplit(input);
        rest
    }

    #[cfg(test)]
    pub(crate) fn is_waiting_alone(&self) -> bool {
        self.input.capacity() == 0
    }

    #[cfg(test)]
    pub(crate) fn rest(&self) -> &BytesMut {
        &self.rest
    }

    /// Adds to the rest what its message wants of the input. False if there is nothing to add.
    fn top_up<D: Decoder>(&mut self, decoder: &D) -> bool {
        if self.input.is_empty() {
            self.input = BytesMut::new();
            return false;
        }
        let wanted = match decoder.needs() {
            Some(needs) => needs.saturating_sub(self.rest.len()),
            None => decoder.wants(&self.input),
        };
        let wanted = wanted.clamp(1, self.input.len());
        self.make_room(decoder, wanted);
        self.rest.extend_from_slice(&self.input[..wanted]);
        self.input.advance(wanted);
        self.waiting = false;
        true
    }

    /// The decoder wants more than it has: keeps that, in a buffer of its own.
    fn put_aside<D: Decoder>(&mut self, decoder: &D, in_rest: bool) -> Result<(), DecodeError> {
        if !in_rest {
            let input = std::mem::take(&mut self.input);
            self.make_room(decoder, input.len());
            self.rest.extend_from_slice(&input);
        } else if std::mem::take(&mut self.cut) {
            let rest = std::mem::take(&mut self.rest);
            self.make_room(decoder, rest.len());
            self.rest.extend_from_slice(&rest); // a few bytes would keep a large buffer
        }
        self.waiting = true;
        let got = self.rest.len();
        if let Some(needs) = decoder.needs().filter(|&needs| needs <= got) {
            return Err(DecoderDefect::WaitsForWhatItHas { decoder: decoder.name(), needs, has: got }.into());
        }
        let limit = decoder.limit();
        if got > limit {
            return Err(Unfinished { decoder: decoder.name(), limit, got }.into());
        }
        Ok(())
    }

    /// Room for so many more bytes of the rest, and for what is still to come.
    fn make_room<D: Decoder>(&mut self, decoder: &D, more: usize) {
        let len = self.rest.len() + more;
        if self.rest.capacity() >= len && !self.rest.is_empty() {
            return;
        }
        let room = match decoder.needs() {
            Some(needs) if needs <= ROOM_UNPROVEN || needs / ROOM_FACTOR <= len => needs.max(len),
            _ => (2 * len).max(ROOM_MIN).min(decoder.limit().saturating_add(2)).max(len),
        };
        let mut rest = BytesMut::with_capacity(room); // `reserve` would double it, beyond the limit
        rest.extend_from_slice(&self.rest);
        self.rest = rest;
    }

    #[cold]
    fn stands_still<D: Decoder>(&mut self, decoder: &D) -> Result<(), DecodeError> {
        self.still += 1;
        if self.still < STILL_MAX {
            return Ok(());
        }
        Err(DecoderDefect::Endless { decoder: decoder.name(), messages: self.still }.into())
    }
}

/// So many bytes off the front: all of them without making anything shared.
pub(crate) fn take(bytes: &mut BytesMut, len: usize) -> BytesMut {
    if bytes.len() == len {
        return std::mem::take(bytes);
    }
    bytes.split_to(len)
}

#[cfg(test)]
mod tests;
