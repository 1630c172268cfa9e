//! The file format: small, binary, with a version. Described in `docs/recording-format.md`.
//!
//! ```text
//!   magic, version │ meta … │ lost? │ record, record, …                       │ end
//!                                     kind, time after the last, length, body
//! ```
//! | file | what it is |
//! | --- | --- |
//! | `kind` | the numbers |
//! | `varint` | how numbers are written |
//! | `record` | [`Record`], [`Seen`]: one thing that happened |
//! | `cause` | [`Cause`]: why a channel ended |
//! | `recording` | [`Recording`]: a file that was read |
//! | `writer` | a file that is written |

mod cause;
pub(crate) mod kind;
mod record;
mod recording;
#[cfg(test)]
mod tests;
pub(crate) mod varint;
pub(crate) mod writer;

pub(crate) use cause::kind_of;
pub use cause::{Cause, CauseKind};
pub(crate) use record::Raw;
pub use record::{Piece, Record, Seen};
pub use recording::{Ending, FormatError, Recording, Records, Why};
