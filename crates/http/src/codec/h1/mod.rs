//! HTTP/1.1.
//!
//! | folder, file | what it is |
//! | --- | --- |
//! | `decode` | requests and replies out of bytes: state machines, one part for each call |
//! | `encode` | requests and replies into bytes, in order |
//! | `wire`: `input`, `out` | bytes that are in no message yet; what is gathered until the flush |
//! | `asked` | what a reply depends on |
//! | `server`, `client` | the stages around them |

mod asked;
mod client;
mod decode;
mod encode;
pub(crate) mod input;
mod out;
mod server;
mod wire;

pub use client::{HttpClient, LastReply};
pub(crate) use decode::{is_forbidden, new_number, recycle_request};
pub use server::{HttpServer, RequestRefused};
