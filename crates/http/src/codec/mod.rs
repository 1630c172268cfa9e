//! Bytes to messages and back.
//!
//! | file | what it is |
//! | --- | --- |
//! | `request_decoder` | requests out of bytes: the state machine |
//! | `fields`, `framing`, `chunked`, `body` | header lines; where a message ends; chunks; bodies |
//! | `replies`, `encoder`, `out` | replies into bytes, in order; what is gathered until the flush |
//! | `input` | bytes that are in no message yet |
//! | `server` | the stage of a server |

mod body;
mod chunked;
mod encoder;
mod fields;
mod framing;
mod input;
mod out;
mod replies;
mod request_decoder;
mod server;

pub use server::{HttpServer, Refused};
