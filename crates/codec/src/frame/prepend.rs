//! A length before each frame that is written.

use super::{
    FrameError, Impossible,
    length::{check_width, largest},
};
use crate::base::{Batch, Encoder};
use bytes::Bytes;
use netwright_core::Fault;

/// Puts a length before each frame: the other side of a [`LengthField`](super::LengthField), with all parameters of Netty's
/// `LengthFieldPrepender`.
///
/// ```
/// use netwright_codec::{LengthPrepender, encode};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let prepender = LengthPrepender::new(2)?.little_endian(true).counts_itself(true);
/// let mut channel = EmbeddedChannel::new(pipeline().add(encode(prepender)));
/// channel.write_outbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"\x07\0hello");
/// # Ok::<(), netwright_codec::Impossible>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct LengthPrepender {
    width: usize,
    little_endian: bool,
    adjustment: i64,
    counts_itself: bool,
}

impl LengthPrepender {
    /// A length of 1, 2, 3, 4 or 8 bytes, the highest first.
    pub fn new(width: usize) -> Result<Self, Impossible> {
        check_width(width)?;
        Ok(Self::plain(width))
    }

    /// The same of a width that has been checked.
    pub(super) const fn plain(width: usize) -> Self {
        Self { width, little_endian: false, adjustment: 0, counts_itself: false }
    }

    /// The lowest byte comes first.
    pub fn little_endian(mut self, little: bool) -> Self {
        self.little_endian = little;
        self
    }

    /// What is added to a frame's length before it is written.
    pub fn adjustment(mut self, adjustment: i64) -> Self {
        self.adjustment = adjustment;
        self
    }

    /// Whether the length counts its own bytes.
    pub fn counts_itself(mut self, counts: bool) -> Self {
        self.counts_itself = counts;
        self
    }
}

impl Encoder for LengthPrepender {
    type Message = Bytes;

    #[inline]
    fn encode(&mut self, frame: Bytes, out: &mut Batch) -> Result<(), Fault> {
        let width = self.width;
        let own = if self.counts_itself { width as i128 } else { 0 };
        let length = frame.len() as i128 + i128::from(self.adjustment) + own;
        let fits = u64::try_from(length).ok().filter(|&length| length <= largest(width));
        let Some(length) = fits else { return Err(FrameError::DoesNotFit { width, length }.into()) };
        match self.little_endian {
            true => out.extend_from_slice(&length.to_le_bytes()[..width]),
            false => out.extend_from_slice(&length.to_be_bytes()[8 - width..]),
        }
        out.pass(frame);
        Ok(())
    }
}
