//! Frames to bytes and back. Knows no stream and no channel.

use super::{MuxError, MuxLimits};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes in front of each payload.
pub const HEAD: usize = 7;

/// What a frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of the stream.
    Data(BytesMut),
    /// No more will come.
    End,
    /// So many bytes more may be sent.
    Credit(u32),
    /// The stream is broken off.
    Reset(u32),
}

/// What is said of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Which.
    pub stream: u32,
    /// What.
    pub kind: Kind,
}

impl Frame {
    /// The first frame of what has come, which is taken off; `None` if it has not come as a whole. Only the head of a frame is
    /// believed before: nothing is kept for what it promises.
    pub fn decode(bytes: &mut BytesMut, limits: &MuxLimits) -> Result<Option<Self>, MuxError> {
        let Some(mut head) = bytes.get(..HEAD) else { return Ok(None) };
        let (length, kind, stream) = (usize::from(head.get_u16()), head.get_u8(), head.get_u32());
        let expected = match kind {
            0 if length <= limits.frame => length,
            0 => return Err(MuxError::FrameTooLong { length, limit: limits.frame }),
            1 => 0,
            2 | 3 => 4,
            other => return Err(MuxError::UnknownKind(other)),
        };
        if length != expected {
            return Err(MuxError::WrongLength { kind, length, expected });
        }
        if bytes.len() < HEAD + length {
            return Ok(None);
        }
        bytes.advance(HEAD);
        let mut payload = bytes.split_to(length);
        let kind = match kind {
            0 => Kind::Data(payload),
            1 => Kind::End,
            2 => Kind::Credit(payload.get_u32()),
            _ => Kind::Reset(payload.get_u32()),
        };
        Ok(Some(Self { stream, kind }))
    }

    /// The head of a frame of bytes, which go behind it as they are.
    pub fn head(stream: u32, length: u16) -> Bytes {
        Self::bytes(stream, 0, length, &[])
    }

    /// A frame without bytes of a stream.
    pub fn encode(stream: u32, kind: &Kind) -> Bytes {
        match kind {
            Kind::Data(bytes) => Self::bytes(stream, 0, bytes.len() as u16, bytes),
            Kind::End => Self::bytes(stream, 1, 0, &[]),
            Kind::Credit(more) => Self::bytes(stream, 2, 4, &more.to_be_bytes()),
            Kind::Reset(code) => Self::bytes(stream, 3, 4, &code.to_be_bytes()),
        }
    }

    fn bytes(stream: u32, kind: u8, length: u16, payload: &[u8]) -> Bytes {
        let mut bytes = BytesMut::with_capacity(HEAD + payload.len());
        bytes.put_u16(length);
        bytes.put_u8(kind);
        bytes.put_u32(stream);
        bytes.put_slice(payload);
        bytes.freeze()
    }
}
