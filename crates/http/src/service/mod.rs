//! Who answers requests: the last stage, and one before it for those who want whole requests.
//!
//! | file | what it is |
//! | --- | --- |
//! | `aggregate` | requests in one piece, for whoever comes behind |
//! | `respond` | a closure, whole request to whole reply, at once |
//! | `serve` | an async function, bodies streamed both ways |
//! | `tower` | any `tower` service |

mod aggregate;
mod respond;
mod serve;
#[cfg(feature = "tower")]
mod tower;

pub use aggregate::HttpAggregate;
pub use respond::{Received, Respond, respond};
pub use serve::{ServeRequests, serve};
#[cfg(feature = "tower")]
pub use tower::tower;
