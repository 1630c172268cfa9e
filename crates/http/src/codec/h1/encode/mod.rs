//! Messages into bytes.
//!
//! | file | what it is |
//! | --- | --- |
//! | `replies` | replies, each to its request |
//! | `body` | heads and bodies, by the length that was announced |

mod body;
mod replies;

pub(crate) use body::{BodyOut, Said, content_length};
pub(crate) use replies::{Replies, Then};
