//! Peers that do everything they should not. What they do is drawn from a seed, so that it can be done again.
//!
//! | module | whom it plays |
//! | --- | --- |
//! | [`client`] | clients of HTTP and WebSocket, and honest ones beside them |

pub mod client;
