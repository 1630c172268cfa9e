//! Peers that do everything they should not. What they do is drawn from a seed, so that it can be done again.
//!
//! | module | whom it plays |
//! | --- | --- |
//! | [`client`] | clients of HTTP and WebSocket, and honest ones beside them |
//! | [`server`] | a server of HTTP that answers rightly, wrongly, early, late, in part or not at all |
//! | [`Unanswering`] | a server that does not even accept |

pub mod client;
pub mod server;
mod unanswering;

pub use unanswering::Unanswering;
