//! HTTP/1.1 as stages of a pipeline.

#![forbid(unsafe_code)]

mod codec;
mod date;
mod error;
mod limits;
mod message;
mod recycle;
pub mod web;

pub use codec::{HttpServer, Refused};
pub use error::{Framing, Grammar, HttpError, Limit, Misuse, Within};
pub use limits::Limits;
pub use message::{Part, ReplyHead, ReplyPart, RequestHead, RequestPart};
pub use recycle::{header_map, recycle_headers};
