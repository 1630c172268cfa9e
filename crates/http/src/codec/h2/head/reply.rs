//! Replies that a client reads.

use super::fields::{self, Kind};
use crate::{
    codec::h2::{
        field::{Field, Line, Pseudo},
        hpack::{Decoder, HeadLimits, HpackError},
    },
    error::{Grammar, HttpError},
    limits::HttpLimits,
    message::{ReplyHead, header_map},
};
use bytes::Bytes;
use http::{StatusCode, Version};

/// The head of a reply, and what it says to the connection.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: ReplyHead,
    pub(crate) content_length: Option<u64>,
}

/// Reads the block of a reply.
///
/// # Errors
/// Without a block that can be decoded, the connection has to end; without a good head, the stream.
pub(crate) fn read_reply(
    decoder: &mut Decoder,
    block: &[u8],
    limits: &HttpLimits,
) -> Result<Result<Reply, HttpError>, HpackError> {
    let mut head = ReplyHead::new();
    head.headers = header_map();
    let mut taking = Taking { head, status: None, content_length: None, regular: false };
    let mut failed = None;
    let decoded = decoder.decode(block, HeadLimits::from(limits), |field| {
        if failed.is_none()
            && let Err(error) = taking.take(field)
        {
            failed = Some(error);
        }
    })?;
    let result = failed.map_or(Ok(()), Err).and_then(|()| decoded.result());
    Ok(result.and_then(|()| taking.finish()))
}

struct Taking {
    head: ReplyHead,
    status: Option<StatusCode>,
    content_length: Option<u64>,
    /// A field that is not a pseudo-field has come.
    regular: bool,
}

impl Taking {
    fn take(&mut self, field: &Field) -> Result<(), HttpError> {
        match &field.line {
            Line::Header(name, value) => {
                self.regular = true;
                if fields::kind(name, value)? == Kind::Length {
                    fields::note_length(&mut self.content_length, value)?;
                }
                self.head.headers.try_append(name.clone(), value.clone()).map_err(|_| Grammar::HeaderName)?;
                Ok(())
            }
            Line::Pseudo(_, _) if self.regular => Err(Grammar::PseudoLate.into()),
            Line::Pseudo(Pseudo::Status, value) => {
                let status = status(value)?;
                if self.status.replace(status).is_some() { Err(Grammar::PseudoTwice.into()) } else { Ok(()) }
            }
            Line::Pseudo(..) => Err(Grammar::PseudoUnexpected.into()),
            Line::BadName => Err(Grammar::HeaderName.into()),
            Line::BadValue(_) => Err(Grammar::HeaderValue.into()),
        }
    }

    fn finish(mut self) -> Result<Reply, HttpError> {
        let status = self.status.ok_or(Grammar::PseudoMissing)?;
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Grammar::Unasked.into()); // there is none in HTTP/2
        }
        (self.head.status, self.head.version) = (status, Version::HTTP_2);
        Ok(Reply { head: self.head, content_length: self.content_length })
    }
}

fn status(value: &Bytes) -> Result<StatusCode, HttpError> {
    match **value {
        [b'1'..=b'5', b'0'..=b'9', b'0'..=b'9'] => {
            StatusCode::from_bytes(value).map_err(|_| Grammar::Status.into())
        }
        _ => Err(Grammar::Status.into()),
    }
}
