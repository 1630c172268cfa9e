//! HTTP/1.1.
//!
//! | folder, file | what it is |
//! | --- | --- |
//! | `decode` | requests and replies out of bytes: state machines, one part for each call |
//! | `encode` | requests and replies into bytes, in order |
//! | `wire` | bytes that are in no message yet, and what is gathered until the flush |
//! | `asked` | what a reply depends on |
//! | `server`, `client` | the stages around them |

mod asked;
mod client;
mod decode;
mod encode;
mod server;
mod wire;

pub(crate) use asked::is_bodiless;
pub use client::{HttpClient, LastReply};
pub(crate) use client::{INTERIM_MAX, client_limits};
#[cfg(test)]
pub(crate) use decode::read_request;
pub(crate) use decode::{is_forbidden, new_number, recycle_request};
pub(crate) use server::default_limits;
pub use server::{HttpServer, RequestRefused};
