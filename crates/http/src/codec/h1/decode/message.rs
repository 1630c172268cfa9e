//! What requests and replies have in common once their first line is read: a head, then a body whose length it says.
//!
//! ```text
//!   head ──▶ Whole                    no body, or one that is there and short
//!     └────▶ Head, Data …, End        a length, chunks, or all until the end of the connection
//! ```

use super::{
    body::{Body, Piece},
    fields::HeadScan,
    framing::Length,
};
use crate::{
    error::{HttpError, Limit},
    limits::HttpLimits,
    message::HttpPart,
};
use bytes::{Bytes, BytesMut};

/// The message that is being read.
#[derive(Debug, Default)]
pub(crate) struct Message {
    scan: HeadScan,
    body: Option<Body>,
}

impl Message {
    /// Whether the next byte begins a message.
    #[inline]
    pub(crate) fn is_between(&self) -> bool {
        self.body.is_none()
    }

    /// So many bytes of an unfinished head are there.
    #[inline]
    pub(crate) fn head_seen(&self) -> usize {
        self.scan.seen()
    }

    /// The length of the head at the front; `None` if it is not all there.
    #[inline]
    pub(crate) fn find_head(
        &mut self,
        input: &[u8],
        limits: &HttpLimits,
    ) -> Result<Option<usize>, HttpError> {
        self.scan.find(input, limits.head, Limit::Head)
    }

    /// The first part of a message, behind whose head the input stands.
    #[inline]
    pub(crate) fn begin<H>(
        &mut self,
        head: H,
        length: Length,
        input: &mut BytesMut,
        limits: &HttpLimits,
    ) -> Result<HttpPart<H>, HttpError> {
        if let Length::Known(length) = length {
            if length == 0 {
                return Ok(HttpPart::Whole(head, Bytes::new()));
            }
            if length > limits.body {
                return Err(HttpError::TooMuch { limit: Limit::Body, max: limits.body, got: length });
            }
            if length <= limits.whole as u64 && length <= input.len() as u64 {
                return Ok(HttpPart::Whole(head, input.split_to(length as usize).freeze()));
            }
        }
        self.body = Some(Body::new(length));
        Ok(HttpPart::Head(head))
    }

    /// The next part of the body that has begun; `None` if more bytes are needed.
    pub(crate) fn rest<H>(
        &mut self,
        input: &mut BytesMut,
        limits: &HttpLimits,
    ) -> Result<Option<HttpPart<H>>, HttpError> {
        let Some(body) = &mut self.body else { return Ok(None) };
        Ok(match body.next(input, limits)? {
            Some(Piece::Data(bytes)) => Some(HttpPart::Data(bytes)),
            Some(Piece::End(trailers)) => {
                self.body = None;
                Some(HttpPart::End(trailers))
            }
            None => None,
        })
    }

    /// The connection has ended. True if that is the end of the body.
    pub(crate) fn ends_with_connection(&mut self) -> bool {
        self.body.take_if(|body| matches!(body, Body::UntilClose { .. })).is_some()
    }
}

/// Takes a head off the input: all of it, mostly.
#[inline]
pub(crate) fn take_head(input: &mut BytesMut, len: usize) -> Bytes {
    if input.len() == len { std::mem::take(input).freeze() } else { input.split_to(len).freeze() }
}
