//! Messages out of bytes: plain state machines.
//!
//! | file | what it is |
//! | --- | --- |
//! | `request`, `request_line` | requests; method, target and version |
//! | `reply` | replies, each by what was asked |
//! | `message` | what both have in common: a head, then a body |
//! | `fields`, `framing` | header lines; where a message ends |
//! | `body`, `chunked`, `extension` | bodies; chunks; what may stand behind the size of one |
//! | `same_again`, `seen` | heads and lines that come again are not parsed again |

mod body;
mod chunked;
mod extension;
mod fields;
mod framing;
mod message;
mod reply;
mod request;
mod request_line;
mod same_again;
mod seen;

pub(crate) use chunked::is_forbidden;
pub(crate) use reply::{ReplyDecoder, Said};
pub(crate) use request::RequestDecoder;
pub(crate) use same_again::{new_number, recycle_request};

/// The first part of a request, for tests that need no stage.
#[cfg(test)]
pub(crate) fn read_request(
    input: &mut bytes::BytesMut,
    limits: &crate::HttpLimits,
) -> Result<Option<crate::RequestPart>, crate::HttpError> {
    RequestDecoder::default().next(input, limits)
}
