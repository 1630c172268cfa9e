//! The line of bytes and files: what a transport of bytes takes from it, and how.

use super::{
    super::{envelope::Envelope, file_region::FileRegion, outgoing::Special},
    ENTRY_OVERHEAD, Entry, GATHER_BYTES_MAX, GATHER_PIECES_MAX, Outbound, Outgoing,
};
use bytes::{Buf, Bytes};
use std::{io::IoSlice, mem};

/// What [`Outbound::gather`] found.
///
/// ```
/// use netwright_core::{GATHER_BYTES_MAX, OutboundQueue, WaterMarks, WritePromise};
/// use bytes::Bytes;
/// use std::io::IoSlice;
///
/// let mut queue = OutboundQueue::new(WaterMarks::default());
/// let mut outbound = queue.outbound();
/// for word in ["hello, ", "world"] {
///     outbound.push(Bytes::from(word).into(), WritePromise::default());
/// }
/// outbound.flush();
/// let mut slices = [IoSlice::new(&[]); 8];
/// let gathered = outbound.gather(&mut slices, GATHER_BYTES_MAX);
/// assert_eq!((gathered.pieces, gathered.bytes), (2, 12)); // for one `writev`
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Gathered {
    /// How many slices were filled in, from the first on.
    pub pieces: usize,
    /// How many bytes these are together.
    pub bytes: usize,
}

impl Entry<Outgoing> {
    /// Whether it is so many bytes, and nobody waits for them.
    fn is_plain_of(&self, len: usize) -> bool {
        !self.promise.is_tracked() && matches!(&self.rest, Outgoing::Bytes(bytes) if bytes.len() == len)
    }
}

impl Outbound<'_> {
    /// The first flushed message, if it is bytes. Enough when only one is flushed; cheap to clone, for a transport that
    /// has to hold on to what the kernel reads.
    pub fn first_bytes(&self) -> Option<&Bytes> {
        match self.first()? {
            Outgoing::Bytes(bytes) => Some(bytes),
            Outgoing::Special(_) => None,
        }
    }

    /// The first flushed message, if it is a file region. What was sent of it is reported to
    /// [`advance`](Self::advance) here, not to the region.
    pub fn first_file(&self) -> Option<&FileRegion> {
        match self.first()? {
            Outgoing::Special(Special::File(region)) => Some(region),
            Outgoing::Bytes(_) | Outgoing::Special(Special::Envelope(_)) => None,
        }
    }

    /// The first flushed message, if it is an envelope.
    pub fn first_envelope(&self) -> Option<&Envelope> {
        match self.first()? {
            Outgoing::Special(Special::Envelope(envelope)) => Some(envelope),
            Outgoing::Bytes(_) | Outgoing::Special(Special::File(_)) => None,
        }
    }

    /// Lends out the first flushed message, if it is bytes, to a transport that moves them on as they are. They count
    /// until they are reported to [`advance`](Self::advance), at least one at a time; until then nothing else can be had
    /// from the queue.
    pub fn lend_first(&mut self) -> Option<Bytes> {
        if self.line.flushed == 0 || self.line.lent > 0 {
            return None;
        }
        let Outgoing::Bytes(bytes) = &mut self.line.entries.iter_mut().next()?.rest else { return None };
        self.line.lent = bytes.len();
        Some(mem::take(bytes))
    }

    /// The first flushed message becomes plain bytes if it is an envelope: what went along with them has been sent, so
    /// that a rest of the bytes goes without.
    pub fn open_first_envelope(&mut self) {
        if self.line.flushed > 0
            && let Some(entry) = self.line.entries.iter_mut().next()
            && let Outgoing::Special(Special::Envelope(envelope)) = &mut entry.rest
        {
            entry.rest = Outgoing::Bytes(mem::take(&mut envelope.bytes));
        }
    }

    /// The flushed pieces in order, none of them empty, as far as the next file region or envelope.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        let rests = self.line.entries.iter().take(self.line.flushed).map(|entry| &entry.rest);
        rests.filter(|rest| !rest.is_empty()).map_while(|rest| match rest {
            Outgoing::Bytes(bytes) => Some(bytes),
            Outgoing::Special(_) => None,
        })
    }

    /// Fills in `slices` with flushed pieces for one gathering write: as far as the next file region, at most
    /// [`GATHER_PIECES_MAX`] of them, and at most `bytes_max` bytes; the last piece is cut there.
    ///
    /// The slices are the caller's, so a call allocates nothing; what was in those not filled in stays.
    pub fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>], bytes_max: usize) -> Gathered {
        let mut gathered = Gathered::default();
        let bytes_max = bytes_max.min(GATHER_BYTES_MAX);
        for (slice, piece) in slices.iter_mut().take(GATHER_PIECES_MAX).zip(self.pieces()) {
            let room = bytes_max - gathered.bytes;
            if room == 0 {
                break;
            }
            let piece = &piece[..piece.len().min(room)];
            *slice = IoSlice::new(piece);
            gathered.pieces += 1;
            gathered.bytes += piece.len();
        }
        gathered
    }

    /// The transport has taken `taken` bytes from the front: messages whose last byte is among them are released and
    /// their promises completed, in order; of the next the rest is kept.
    ///
    /// # Panics
    /// If fewer were flushed.
    #[inline(always)]
    pub fn advance(&mut self, taken: usize) {
        self.account.sent(taken as u64);
        // Nearly always: one message, taken as a whole, and nobody waits to hear of it.
        if self.line.flushed == 1 && self.line.entries.only().is_some_and(|entry| entry.is_plain_of(taken)) {
            let first = self.line.entries.take_only();
            self.line.flushed = 0;
            self.account.discharge(taken + ENTRY_OVERHEAD);
            self.give_room_back();
            if let Some(Entry { rest: Outgoing::Bytes(bytes), promise }) = first {
                drop(bytes);
                promise.succeed();
            }
        } else {
            self.advance_far(taken);
        }
    }

    fn advance_far(&mut self, taken: usize) {
        let lent = self.line.lent;
        if lent > 0 {
            assert!(taken <= lent, "the transport reports {taken} bytes as taken, but was lent {lent}");
            self.line.lent -= taken;
            self.account.discharge(taken);
            return self.complete_finished();
        }
        let (mut left, mut released) = (taken as u64, 0);
        for entry in self.line.entries.iter_mut().take(self.line.flushed) {
            if left == 0 {
                break;
            }
            let here = left.min(entry.rest.len());
            left -= here;
            if let Outgoing::Special(Special::Envelope(envelope)) = &mut entry.rest {
                entry.rest = Outgoing::Bytes(mem::take(&mut envelope.bytes)); // sent with what goes along
            }
            match &mut entry.rest {
                Outgoing::Bytes(bytes) => {
                    bytes.advance(here as usize); // no longer than `bytes`, so it fits
                    released += here as usize;
                }
                Outgoing::Special(Special::File(region)) => region.advance(here),
                Outgoing::Special(Special::Envelope(_)) => {}
            }
        }
        self.account.discharge(released);
        self.complete_finished();
        assert!(left == 0, "the transport reports {taken} bytes as taken, {left} more than were flushed");
    }
}
