//! Heads out of fields, and fields out of heads (RFC 9113, section 8).
//!
//! ```text
//!   :method GET, :path /a, :authority b, x: y   ◀──▶   GET /a, host: b, x: y       the same head that HTTP/1.1 gives
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `request` | requests that a server reads |
//! | `again` | requests that say what one before said are not put together again |
//! | `reply` | replies that a client reads |
//! | `trailers` | what comes behind a body |
//! | `fields` | what all of them have in common |
//! | `write` | heads and trailers into blocks |
//!
//! Always true of a head that is read: passed on as HTTP/1.1 it says the same. No field in it ends a line, says where the message
//! ends, or speaks of the connection.
//!
//! What is wrong with a head is the error of its stream, not of the connection: the tables are in step all the same.

mod again;
#[cfg(test)]
mod attack;
mod fields;
mod reply;
mod request;
#[cfg(test)]
mod tests;
mod trailers;
pub(crate) mod write;

pub(crate) use again::give_back;
pub(crate) use reply::read_reply;
pub(crate) use request::{Request, RequestFacts, RequestReader};
pub(crate) use trailers::read_trailers;
