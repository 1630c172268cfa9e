//! Bytes to messages and back.
//!
//! | file | what it is |
//! | --- | --- |
//! | `request_decoder`, `reply_decoder` | requests and replies out of bytes: the state machines |
//! | `fields`, `framing`, `chunked`, `body` | header lines; where a message ends; chunks; bodies |
//! | `replies`, `encoder`, `out` | replies into bytes, in order; what is gathered until the flush |
//! | `same_again`, `seen` | heads and lines that come again are not parsed again |
//! | `input` | bytes that are in no message yet |
//! | `server`, `client` | the stages |

mod body;
mod chunked;
mod client;
mod encoder;
mod extension;
mod fields;
mod framing;
mod input;
mod out;
mod replies;
mod reply_decoder;
mod request_decoder;
mod same_again;
mod seen;
mod server;

pub use client::{HttpClient, LastReply};
pub(crate) use same_again::recycle_request;
pub use server::{HttpServer, Refused};
