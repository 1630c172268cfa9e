//! The PROXY protocol: a proxy in front of a server says first on each connection whom it speaks for.
//!
//! ```text
//!   client ── TCP ──▶ haproxy ── PROXY TCP4 client …, then the client's bytes ──▶ ProxyProtocol ─▶ stages that see the client's address
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `stage` | [`ProxyProtocol`]: waits for the header, and lets the connection begin behind it |
//! | `send` | [`SendProxyHeader`]: writes it |
//! | `trusted` | [`TrustedNetworks`]: who may say it |
//! | `header`, `tlv` | [`ProxyHeader`] and its further values |
//! | `decode`, `v1`, `v2`, `crc32c` | bytes to headers and back, without a channel |
//! | `error` | [`ProxyProtocolError`] |
//!
//! Specified by haproxy's `doc/proxy-protocol.txt`. Not here: `X-Forwarded-For` and its like, which are HTTP's.

mod crc32c;
mod decode;
mod error;
mod header;
mod send;
mod stage;
#[cfg(test)]
mod tests;
mod tlv;
mod trusted;
mod v1;
mod v2;

pub use error::ProxyProtocolError;
pub use header::ProxyHeader;
pub use send::SendProxyHeader;
pub use stage::ProxyProtocol;
pub use tlv::{ProxySsl, Tlv};
pub use trusted::{TrustError, TrustedNetworks};
