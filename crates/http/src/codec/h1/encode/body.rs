//! Bodies by the length that was announced: a plain state machine for both sides.

use super::head::field;
use crate::{
    codec::{h1::decode::is_forbidden, out::Out},
    error::{HttpError, Misuse},
    message::HttpPart,
};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use netwright_core::FileRegion;

/// A message that is being written: what is still to come behind its head.
#[derive(Debug, Default)]
pub(crate) struct Unfinished(Option<BodyOut>);

impl Unfinished {
    /// Whether a head was written, and its end was not.
    #[inline]
    pub(crate) fn is_within(&self) -> bool {
        self.0.is_some()
    }

    /// A head was written.
    pub(crate) fn begin(&mut self, body: BodyOut) {
        self.0 = Some(body);
    }

    /// Appends a part behind a head. True if it was the last. After an error the message is as unfinished as before.
    pub(crate) fn append<H>(&mut self, part: HttpPart<H>, out: &mut Out) -> Result<bool, HttpError> {
        let body = self.0.as_mut().ok_or(Misuse::BodyWithoutHead)?;
        match part {
            HttpPart::Data(bytes) => body.data(out, bytes)?,
            HttpPart::File(file) => body.file(out, file)?,
            HttpPart::End(trailers) => {
                body.end(out, trailers.as_deref())?;
                self.0 = None;
                return Ok(true);
            }
            HttpPart::Head(_) | HttpPart::Whole(..) | HttpPart::Interim(_) => {
                return Err(Misuse::Direction.into());
            }
        }
        Ok(false)
    }
}

/// How the rest of a message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyOut {
    Length {
        announced: u64,
        left: u64,
    },
    Chunked,
    UntilClose,
    /// What is written is not sent: replies to HEAD.
    Nothing,
}

impl BodyOut {
    /// So many bytes follow.
    #[inline]
    pub(crate) fn length(len: u64) -> Self {
        Self::Length { announced: len, left: len }
    }

    /// All of it is there, so many bytes: what was announced, if anything was.
    pub(crate) fn whole(len: u64, announced: Option<u64>) -> Result<Self, HttpError> {
        match announced {
            Some(announced) if len > announced => Err(too_long(announced, len)),
            Some(announced) if len < announced => {
                Err(Misuse::BodyTooShort { announced, written: len }.into())
            }
            _ => Ok(Self::length(len)),
        }
    }

    fn data(&mut self, out: &mut Out, bytes: Bytes) -> Result<(), HttpError> {
        self.piece(out, bytes.len() as u64, |out| out.bytes(bytes))
    }

    /// How long it is has been said before it, so if it fails its connection has to end.
    fn file(&mut self, out: &mut Out, file: FileRegion) -> Result<(), HttpError> {
        self.piece(out, file.remaining(), |out| out.file(file.within_message()))
    }

    fn piece(&mut self, out: &mut Out, len: u64, put: impl FnOnce(&mut Out)) -> Result<(), HttpError> {
        if len == 0 {
            return Ok(()); // an empty chunk would end the body
        }
        match self {
            Self::Length { announced, left } => {
                if len > *left {
                    return Err(too_long(*announced, *announced - *left + len));
                }
                *left -= len;
                put(out);
            }
            Self::Chunked => {
                chunk_size(&mut out.buffer, len);
                put(out);
                out.buffer.extend_from_slice(b"\r\n");
            }
            Self::UntilClose => put(out),
            Self::Nothing => {}
        }
        Ok(())
    }

    fn end(self, out: &mut Out, trailers: Option<&HeaderMap>) -> Result<(), HttpError> {
        match self {
            Self::Length { announced, left } if left > 0 => {
                return Err(Misuse::BodyTooShort { announced, written: announced - left }.into());
            }
            Self::Chunked => {
                if trailers.is_some_and(|trailers| trailers.keys().any(is_forbidden)) {
                    return Err(Misuse::Trailer.into());
                }
                out.buffer.extend_from_slice(b"0\r\n");
                for (name, value) in trailers.into_iter().flatten() {
                    field(&mut out.buffer, name.as_str(), value);
                }
                out.buffer.extend_from_slice(b"\r\n");
            }
            _ => {}
        }
        Ok(())
    }
}

#[cold]
fn too_long(announced: u64, written: u64) -> HttpError {
    Misuse::BodyTooLong { announced, written }.into()
}

fn chunk_size(out: &mut BytesMut, mut size: u64) {
    let mut digits = [0; 16];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(size & 15) as usize];
        size >>= 4;
        if size == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_chunks_are_written_as_they_are_read() {
        for number in [0, 9, 10, 57, 99, 100, 1234, u64::MAX] {
            let mut out = BytesMut::new();
            chunk_size(&mut out, number);
            assert_eq!(out, format!("{number:x}\r\n"));
        }
    }
}
