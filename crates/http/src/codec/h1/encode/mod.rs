//! Messages into bytes.
//!
//! ```text
//!   Head ─▶ [ Length(n) │ Chunked │ UntilClose │ Nothing ] ─▶ End
//! ```
//! | file | what it is |
//! | --- | --- |
//! | `requests`, `replies` | the two kinds, in order: what was asked, and what answers it |
//! | `head`, `body` | what both have in common: header lines, and bodies by the length that was announced |
//!
//! Always true:
//! 1. As many bytes are written as `Content-Length` says, or the message ends in an error and its connection with it: also if a
//!    file turns out to be shorter only when it is sent ([`FileRegion::within_message`](netwright_core::FileRegion)).
//! 2. A peer can tell where the message ends: by a length, by chunks, or by the end of the connection.
//! 3. Names, values, methods and targets are of types that hold no CR, LF or NUL.

mod body;
mod head;
mod replies;
mod requests;

pub(crate) use replies::{Replies, Then};
pub(crate) use requests::Requests;
