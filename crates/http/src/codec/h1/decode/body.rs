//! A body as it is read: so many bytes, chunks, or all that come until the connection ends.

use super::{chunked::Chunked, framing::Length};
use crate::{
    error::{HttpError, Limit},
    limits::HttpLimits,
};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;

/// A piece of a body.
#[derive(Debug)]
pub(crate) enum Piece {
    Data(Bytes),
    End(Option<Box<HeaderMap>>),
}

/// What is still to come of a body.
#[derive(Debug)]
pub(crate) enum Body {
    Length(u64),
    Chunked(Box<Chunked>),
    UntilClose { got: u64 },
}

impl Body {
    pub(crate) fn new(length: Length) -> Self {
        match length {
            Length::Known(length) => Self::Length(length),
            Length::Chunked => Self::Chunked(Box::new(Chunked::new())),
            Length::Unknown => Self::UntilClose { got: 0 },
        }
    }

    /// The next piece; `None` if more bytes are needed.
    pub(crate) fn next(
        &mut self,
        input: &mut BytesMut,
        limits: &HttpLimits,
    ) -> Result<Option<Piece>, HttpError> {
        match self {
            Self::Length(0) => Ok(Some(Piece::End(None))),
            Self::Length(_) | Self::UntilClose { .. } if input.is_empty() => Ok(None),
            Self::Length(left) => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= take as u64;
                Ok(Some(Piece::Data(input.split_to(take).freeze())))
            }
            Self::Chunked(chunked) => chunked.next(input, limits),
            Self::UntilClose { got } => {
                let room = usize::try_from(limits.body - *got).unwrap_or(usize::MAX);
                if room == 0 {
                    let got = limits.body.saturating_add(input.len() as u64);
                    return Err(HttpError::TooMuch { limit: Limit::Body, max: limits.body, got });
                }
                let bytes = input.split_to(room.min(input.len())).freeze();
                *got += bytes.len() as u64;
                Ok(Some(Piece::Data(bytes)))
            }
        }
    }
}
