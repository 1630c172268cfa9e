//! Something to send that is more than bytes: where to, or what goes along with it.

use super::Address;
use bytes::Bytes;
#[cfg(unix)]
use std::{os::fd::OwnedFd, sync::Arc};

/// Bytes with a target or with descriptors. Datagram channels send each as one datagram, also an empty one; Unix
/// streams pass the descriptors along with the first byte.
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
