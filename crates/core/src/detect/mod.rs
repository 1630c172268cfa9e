//! One port, several protocols: the first bytes decide.
//!
//! ```text
//!   … ──▶ ( joint ) ──▶ [ Detect: 16 03 01 … ] ── rule by rule ──▶ More? wait   No? next rule   Take? exchange
//!                │
//!                └────▶ [ the segment of the rule that took ]     reads everything from the first byte on
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `rules` | [`Verdict`], and rules for what is well known |
//! | `choice` | which rule takes the bytes: the decision alone |
//! | `stage` | [`Detect`], the stage that reads, waits and gives way |
//! | `error` | [`DetectError`], why nobody took them |

mod choice;
mod error;
mod rules;
mod stage;

pub use error::DetectError;
pub use rules::{Verdict, http, prefix, tls};
pub use stage::{DEADLINE, Detect, FIRST_BYTES_MAX};
