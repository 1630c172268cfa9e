//! HTTP/2.
//!
//! | folder, file | what it is |
//! | --- | --- |
//! | `code` | what a reset or a goodbye says: [`ErrorCode`] |
//! | `field` | a line of a head, as it lies between the compression and the heads |
//! | `frame` | frames: bytes to frames and back |

#![allow(dead_code)]

mod code;
mod connection;
mod error;
mod field;
mod frame;
mod head;
mod hpack;

pub use code::ErrorCode;
pub use connection::{
    ClientSide, Http2, Http2Client, Http2Server, ServerSide, Side, http2_client, http2_server,
};
pub use error::Http2Error;
pub(crate) use frame::{PREFACE, Settings};
