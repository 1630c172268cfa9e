//! Messages out of bytes: plain state machines.
//!
//! | file | what it is |
//! | --- | --- |
//! | `request`, `reply` | what comes first: a head, and what follows from it |
//! | `fields`, `framing` | header lines; where a message ends |
//! | `body`, `chunked`, `extension` | bodies; chunks; what may stand behind the size of one |
//! | `same_again`, `seen` | heads and lines that come again are not parsed again |

mod body;
mod chunked;
mod extension;
mod fields;
mod framing;
mod reply;
mod request;
mod same_again;
mod seen;

pub(crate) use chunked::is_forbidden;
pub(crate) use framing::number;
pub(crate) use reply::{Awaited, ReplyDecoder, Said};
pub(crate) use request::{Asked, RequestDecoder};
pub(crate) use same_again::recycle_request;
