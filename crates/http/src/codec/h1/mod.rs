//! HTTP/1.1.
//!
//! | folder, file | what it is |
//! | --- | --- |
//! | `decode` | requests and replies out of bytes: state machines, one part for each call |
//! | `encode` | requests and replies into bytes, in order |
//! | `input`, `out` | bytes that are in no message yet; what is gathered until the flush |
//! | `server`, `client` | the stages around them |

mod client;
mod decode;
mod encode;
mod input;
mod out;
mod server;

pub use client::{HttpClient, LastReply};
pub(crate) use decode::recycle_request;
pub use server::{HttpServer, Refused};
