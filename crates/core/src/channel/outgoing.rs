//! What can be sent.

use super::{envelope::Envelope, file_region::FileRegion};
use bytes::{Bytes, BytesMut};
use std::fmt;

/// Something that can be sent: bytes, a part of a file, or bytes with an address.
///
/// ```
/// use netwright_core::{FileRegion, Outgoing};
///
/// # fn main() -> std::io::Result<()> {
/// let text = Outgoing::from("hello".to_owned());
/// let file = Outgoing::from(FileRegion::whole(std::fs::File::open(std::env::current_exe()?)?)?);
/// assert_eq!(text.len(), 5);
/// assert!(file.len() > 5); // bytes that are never in our memory
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub enum Outgoing {
    /// Bytes in memory.
    Bytes(Bytes),
    /// What is not just bytes. One variant for all of that, so that this type is as large as `Bytes`: it passes every boundary of a
    /// pipeline, and waits in every channel.
    Special(Special),
}

/// What can be sent and is not just bytes.
///
/// ```
/// use netwright_core::{FileRegion, Outgoing, Special};
///
/// /// Whether its bytes are read when they are sent.
/// fn is_file(message: &Outgoing) -> bool {
///     matches!(message, Outgoing::Special(Special::File(_)))
/// }
///
/// assert!(!is_file(&Outgoing::from("hello")));
/// ```
#[derive(Clone)]
pub enum Special {
    /// Bytes of a file, which need not pass through our memory.
    File(Box<FileRegion>),
    /// Bytes with a target or descriptors. Never finished before it is sent, also if it has no bytes.
    Envelope(Box<Envelope>),
}

impl Outgoing {
    /// How many bytes the peer will get.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Special(Special::File(region)) => region.remaining(),
            Self::Special(Special::Envelope(envelope)) => envelope.bytes.len() as u64,
        }
    }

    /// Whether there is nothing to send. An envelope is something, also without bytes.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Special(Special::File(region)) => region.remaining() == 0,
            Self::Special(Special::Envelope(_)) => false,
        }
    }

    /// The bytes, if they are in memory: those of a file are not.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Special(Special::Envelope(envelope)) => Some(&envelope.bytes),
            Self::Special(Special::File(_)) => None,
        }
    }

    /// Takes the first `len` bytes off, for whoever sends a message in parts: bytes share their memory, files stay files. The part of a
    /// file is [within a message](FileRegion::within_message), as the rest is from now on; descriptors stay with the rest.
    ///
    /// ```
    /// use netwright_core::Outgoing;
    ///
    /// let mut rest = Outgoing::from("hello, world".to_owned());
    /// let first = rest.split_to(5);
    /// assert_eq!((first.len(), rest.len()), (5, 7));
    /// ```
    ///
    /// # Panics
    /// If there are fewer.
    pub fn split_to(&mut self, len: u64) -> Self {
        assert!(len <= self.len(), "{len} bytes were to be split off, but there are only {}", self.len());
        match self {
            // No more than there are in memory, so it fits.
            Self::Bytes(bytes) => Self::Bytes(bytes.split_to(len as usize)),
            Self::Special(Special::Envelope(envelope)) => Self::Bytes(envelope.bytes.split_to(len as usize)),
            Self::Special(Special::File(region)) => {
                let part = FileRegion::new(region.file().clone(), region.position(), len);
                region.advance(len);
                Self::from(part.within_message())
            }
        }
    }

    /// How many bytes of our memory it holds.
    pub(super) fn held(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Special(Special::File(_)) => 0,
            Self::Special(Special::Envelope(envelope)) => envelope.bytes.len(),
        }
    }
}

/// Tells lengths, not contents: what a peer is sent does not belong in a log by accident.
impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Self::Special(Special::File(region)) => region.fmt(f),
            Self::Special(Special::Envelope(envelope)) => {
                write!(f, "Envelope({} bytes, to {:?})", envelope.bytes.len(), envelope.to)
            }
        }
    }
}

impl From<Bytes> for Outgoing {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<BytesMut> for Outgoing {
    fn from(bytes: BytesMut) -> Self {
        Self::Bytes(bytes.freeze())
    }
}

impl From<FileRegion> for Outgoing {
    fn from(region: FileRegion) -> Self {
        Self::Special(Special::File(Box::new(region)))
    }
}

impl From<Envelope> for Outgoing {
    fn from(envelope: Envelope) -> Self {
        Self::Special(Special::Envelope(envelope.boxed()))
    }
}

impl From<&'static [u8]> for Outgoing {
    fn from(bytes: &'static [u8]) -> Self {
        Self::Bytes(Bytes::from_static(bytes))
    }
}

impl From<Vec<u8>> for Outgoing {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<&'static str> for Outgoing {
    fn from(text: &'static str) -> Self {
        Self::Bytes(Bytes::from_static(text.as_bytes()))
    }
}

impl From<Box<[u8]>> for Outgoing {
    fn from(bytes: Box<[u8]>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<String> for Outgoing {
    fn from(text: String) -> Self {
        Self::Bytes(text.into())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::channel::file_region::tests::file_with;

    #[test]
    fn what_may_be_a_file_takes_no_more_room_than_bytes() {
        assert_eq!(size_of::<Outgoing>(), size_of::<Bytes>());
    }

    #[test]
    fn a_part_is_taken_off_the_front_of_whatever_it_is() {
        let messages: [Outgoing; 3] = [
            Bytes::from_static(b"123456").into(),
            Envelope::new(Bytes::from_static(b"123456")).into(),
            FileRegion::new(file_with(b"0123456"), 1, 6).into(),
        ];
        for mut rest in messages {
            assert_eq!((rest.split_to(4).len(), rest.len(), rest.split_to(2).len()), (4, 2, 2));
            assert_eq!(rest.len(), 0);
        }
        let mut rest = Outgoing::from(FileRegion::new(file_with(b"0123456"), 1, 6));
        let part = rest.split_to(4);
        let (Outgoing::Special(Special::File(part)), Outgoing::Special(Special::File(rest))) = (part, rest)
        else {
            panic!("files stay files")
        };
        assert_eq!(
            (&part.read_chunk(9).unwrap()[..], &rest.read_chunk(9).unwrap()[..]),
            (&b"1234"[..], &b"56"[..])
        );
        assert!(part.is_begun() && rest.is_begun());
    }

    #[test]
    #[should_panic(expected = "7 bytes were to be split off, but there are only 6")]
    fn no_more_than_there_is_can_be_split_off() {
        Outgoing::from("123456".to_owned()).split_to(7);
    }

    #[test]
    fn everything_that_is_bytes_can_be_sent_and_its_content_stays_out_of_logs() {
        let messages: [Outgoing; 5] = [
            Bytes::from_static(b"secret").into(),
            BytesMut::from("secret").into(),
            b"secret".as_slice().into(),
            b"secret".to_vec().into(),
            "secret".to_owned().into(),
        ];
        for message in messages {
            assert_eq!((message.len(), message.is_empty()), (6, false));
            assert_eq!(format!("{message:?}"), "Bytes(6 bytes)");
        }
        let file = Outgoing::from(FileRegion::new(file_with(b""), 3, 4));
        assert_eq!(format!("{file:?}"), "FileRegion { position: 3, remaining: 4, .. }");
        assert_eq!((file.len(), file.held()), (4, 0));
    }
}
