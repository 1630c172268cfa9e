//! What comes behind a body: headers, and none that would have to be known before.

use super::fields;
use crate::{
    codec::{
        h1::is_forbidden,
        h2::{
            field::{Field, Line},
            hpack::{Decoder, HeadLimits, HpackError},
        },
    },
    error::{Grammar, HttpError, Limit},
    limits::HttpLimits,
};
use http::HeaderMap;

/// Reads the block behind a body.
///
/// # Errors
/// Without a block that can be decoded, the connection has to end; without good trailers, the stream.
pub(crate) fn read_trailers(
    decoder: &mut Decoder,
    block: &[u8],
    limits: &HttpLimits,
) -> Result<Result<Box<HeaderMap>, HttpError>, HpackError> {
    let mut trailers = Box::<HeaderMap>::default();
    let mut failed = None;
    let list = HeadLimits { size: limits.trailers, fields: limits.headers };
    let decoded = decoder.decode(block, list, |field| {
        if failed.is_none() {
            failed = take(&mut trailers, field).err();
        }
    })?;
    let decoded = match decoded.result() {
        Err(HttpError::TooMuch { limit: Limit::Head, max, got }) => {
            Err(HttpError::TooMuch { limit: Limit::Trailers, max, got })
        }
        decoded => decoded,
    };
    Ok(match failed {
        Some(error) => Err(error),
        None => decoded.map(|()| trailers),
    })
}

fn take(trailers: &mut HeaderMap, field: &Field) -> Result<(), HttpError> {
    match &field.line {
        Line::Header(name, value) => {
            fields::kind(name, value)?;
            if is_forbidden(name) {
                return Err(Grammar::Trailer.into());
            }
            trailers.try_append(name.clone(), value.clone()).map_err(|_| Grammar::Trailer)?;
            Ok(())
        }
        Line::Pseudo(..) => Err(Grammar::PseudoUnexpected.into()),
        Line::BadName => Err(Grammar::HeaderName.into()),
        Line::BadValue(_) => Err(Grammar::HeaderValue.into()),
    }
}
