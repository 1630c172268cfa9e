//! HTTP/2.
//!
//! | folder, file | what it is |
//! | --- | --- |
//! | `connection` | the last stage of a connection, with a child for each stream |
//! | `frame` | frames: bytes to frames and back |
//! | `hpack` | the compression of fields |
//! | `head` | heads out of fields, and fields out of heads |
//! | `field` | a line of a head, as it lies between these two |
//! | `priority` | how urgent a reply is |
//! | `code`, `error` | what a reset or a goodbye says: [`ErrorCode`]; why we said it: [`Http2Error`] |
//!
//! All but `connection` know no stream and no channel.

mod code;
mod connection;
mod error;
mod field;
mod frame;
mod head;
mod hpack;
mod priority;

pub use code::ErrorCode;
#[cfg(feature = "client")]
pub(crate) use connection::Capacity;
pub use connection::{
    ClientSide, Http2, Http2Client, Http2Server, ServerSide, Side, http2_client, http2_server,
};
pub use error::Http2Error;
pub(crate) use frame::{PREFACE, Settings};
pub(crate) use head::give_back;
