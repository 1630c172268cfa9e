//! Bytes to messages and back, as stages next to the wire.
//!
//! | file | what it is |
//! | --- | --- |
//! | `h1` | HTTP/1.1: [`HttpServer`] and [`HttpClient`] |
//! | `h2` | HTTP/2 |
//! | `input`, `out` | bytes that are in no message yet; what is gathered until the flush |
//! | `date` | the `date` of replies, made once per second |
//!
//! What the stages behind them see is of no version: parts of messages (`message`).

mod date;
mod h1;
mod h2;
mod input;
mod out;

pub(crate) use h1::recycle_request;
pub use h1::{HttpClient, HttpServer, LastReply, RequestRefused};
