//! The last stage: who answers requests.
//!
//! | file | what it is |
//! | --- | --- |
//! | `respond` | a closure, whole request to whole reply, at once |
//! | `serve` | an async function, bodies streamed both ways |
//! | `tower` | any `tower` service |

mod respond;
mod serve;
#[cfg(feature = "tower")]
mod tower;

pub use respond::{Received, Respond, respond};
pub use serve::{Serve, serve};
#[cfg(feature = "tower")]
pub use tower::tower;
