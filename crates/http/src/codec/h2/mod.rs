//! HTTP/2.
//!
//! | folder, file | what it is |
//! | --- | --- |
//! | `code` | what a reset or a goodbye says: [`ErrorCode`] |
//! | `field` | a line of a head, as it lies between the compression and the heads |
//! | `frame` | frames: bytes to frames and back |

#![allow(dead_code, unreachable_pub, unused_imports)]

mod code;
mod field;
mod frame;
mod head;
mod hpack;

pub(crate) use head::give_back;
