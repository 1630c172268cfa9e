//! Something to send that is more than bytes: where to, or what goes along with it.

use super::Address;
use bytes::Bytes;
use std::cell::RefCell;
#[cfg(unix)]
use std::{os::fd::OwnedFd, sync::Arc};

/// Bytes with a target or with descriptors. Datagram channels send each as one datagram, also an empty one; Unix
/// streams pass the descriptors along with the first byte.
///
/// ```
/// use netwright_core::Envelope;
/// use std::net::SocketAddr;
///
/// let to: SocketAddr = "127.0.0.1:53".parse()?;
/// let letter = Envelope::to(to, "hello");
/// assert_eq!(letter.to.as_ref().and_then(|address| address.ip()), Some(to));
/// assert!(Envelope::new("for whom we are connected to").is_plain());
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Envelope {
    /// What the peer reads.
    pub bytes: Bytes,
    /// Where it goes. `None`: to whom the channel is connected.
    pub to: Option<Address>,
    /// Descriptors that the peer gets a duplicate of. Only Unix sockets can pass them.
    #[cfg(unix)]
    pub descriptors: Vec<Arc<OwnedFd>>,
}

impl Envelope {
    /// Bytes for an address.
    pub fn to(address: impl Into<Address>, bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), to: Some(address.into()), ..Self::default() }
    }

    /// Bytes for whom the channel is connected to.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), ..Self::default() }
    }

    /// Sends a descriptor along.
    #[cfg(unix)]
    pub fn with_descriptor(mut self, descriptor: impl Into<OwnedFd>) -> Self {
        self.descriptors.push(Arc::new(descriptor.into()));
        self
    }

    /// Whether nothing but the bytes has to be told to the system.
    pub fn is_plain(&self) -> bool {
        #[cfg(unix)]
        let alone = self.descriptors.is_empty();
        #[cfg(not(unix))]
        let alone = true;
        alone && self.to.is_none()
    }
}

impl<A: Into<Address>, B: Into<Bytes>> From<(A, B)> for Envelope {
    fn from((address, bytes): (A, B)) -> Self {
        Self::to(address, bytes)
    }
}

/// Boxes that a thread keeps for its next envelopes: as many as one batch has, so that answering datagrams allocates
/// nothing once it runs.
const BOXES_KEPT: usize = 256;

thread_local! {
    #[allow(clippy::vec_box)] // the boxes are the point
    static BOXES: RefCell<Vec<Box<Envelope>>> = const { RefCell::new(Vec::new()) };
}

impl Envelope {
    /// A box, used before if this thread has one.
    pub(super) fn boxed(self) -> Box<Self> {
        match BOXES.try_with(|boxes| boxes.borrow_mut().pop()) {
            Ok(Some(mut place)) => {
                *place = self;
                place
            }
            _ => Box::new(self),
        }
    }

    /// Releases what is in a box, and keeps the box.
    pub(super) fn recycle(mut self: Box<Self>) {
        *self = Self::default(); // first: a drop of the user's own may write to another channel
        let _ = BOXES.try_with(|boxes| {
            let mut boxes = boxes.borrow_mut();
            if boxes.len() < BOXES_KEPT {
                boxes.push(self);
            }
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_used_again_and_nothing_of_its_first_use_is_left() {
        let here: std::net::SocketAddr = "127.0.0.1:1".parse().unwrap();
        let first = Envelope::to(here, "first").boxed();
        let place = &raw const *first;
        first.recycle();
        let second = Envelope::new("second").boxed();
        assert!(std::ptr::eq(place, &raw const *second));
        assert!(second.to.is_none() && second.bytes == "second");
    }

    #[test]
    fn no_more_boxes_are_kept_than_a_batch_needs() {
        let boxes: Vec<_> = (0..BOXES_KEPT + 10).map(|_| Envelope::default().boxed()).collect();
        boxes.into_iter().for_each(Envelope::recycle);
        assert_eq!(BOXES.with_borrow(Vec::len), BOXES_KEPT);
    }
}
