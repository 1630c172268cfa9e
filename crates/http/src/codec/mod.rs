//! Bytes to messages and back, as stages next to the wire.
//!
//! | file | what it is |
//! | --- | --- |
//! | `h1` | HTTP/1.1: [`HttpServer`] and [`HttpClient`] |
//! | `h2` | HTTP/2 |
//! | `versions`, `upgrade` | which of the two a connection speaks, and how it comes to speak the other one |
//! | `tunnel` | bytes in the place of messages, of either version |
//! | `input`, `out` | bytes that are in no message yet; what is gathered until the flush |
//! | `date` | the `date` of replies, made once per second |
//!
//! What the stages behind them see is of no version: parts of messages (`message`).

mod date;
mod h1;
mod h2;
mod input;
mod out;
mod tunnel;
mod upgrade;
mod versions;

/// HTTP/2: its connections, its codes, its errors.
pub mod http2 {
    pub use super::h2::{
        ClientSide, ErrorCode, Http2, Http2Client, Http2Error, Http2Server, ServerSide, Side, http2_client,
        http2_server,
    };
}

pub(crate) use h1::recycle_request;
pub use h1::{HttpClient, HttpServer, LastReply, RequestRefused};
#[cfg(feature = "client")]
pub(crate) use h2::Capacity;
pub use tunnel::HttpTunnel;
pub use versions::HttpVersions;
