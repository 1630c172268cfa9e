//! How HTTP becomes WebSocket.
//!
//! ```text
//!   client                                                server
//!   Request ── GET, Upgrade, Sec-WebSocket-Key: k ──────▶ Accept: is it for us, may it, what is agreed
//!   check   ◀─ 101, Sec-WebSocket-Accept: hash(k) ─────── Upgrade: answers, then exchanges the segment behind its joint
//! ```
//! | file | what it is |
//! | --- | --- |
//! | `accept` | what a server makes of a request: pure |
//! | `upgrade` | the stage of a server, behind its HTTP codec |
//! | `request` | what a client asks, and what it makes of the reply: pure |
//! | `opening` | the stage of a client, behind its HTTP codec |
//! | `error` | why there is no WebSocket |
//! | `client` | connections by address, with TLS for those that are to be encrypted |
//! | `socket` | what a client has of a connection, and why it has none |

mod accept;
#[cfg(feature = "client")]
mod client;
mod error;
mod opening;
mod request;
#[cfg(feature = "client")]
mod socket;
mod upgrade;

pub use accept::{Accept, Opened, Refusal};
#[cfg(feature = "client")]
pub use client::WebSocketClient;
pub use error::{BadRequest, HandshakeError, REJECTION_MAX, Rejection};
pub use request::{HANDSHAKE_DEADLINE, Request};
#[cfg(feature = "client")]
pub use socket::{OpenError, Socket, SocketClosed};
pub use upgrade::{Upgrade, Upgraded};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName};
use sha1::{Digest, Sha1};

/// What a server answers to a client's key: the proof that it speaks WebSocket.
///
/// ```
/// assert_eq!(netwright_websocket::accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
/// ```
pub fn accept_key(key: &str) -> String {
    let digest =
        Sha1::new().chain_update(key).chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
    STANDARD.encode(digest)
}

/// A key for [`Request::head`]: 16 random bytes in base64. Of one connection only, so that an answer to another one, which somebody
/// on the way may have kept, does not fit.
///
/// ```
/// use netwright_websocket::{accept_key, new_key};
///
/// assert_ne!(accept_key(&new_key()), accept_key(&new_key()));
/// ```
pub fn new_key() -> String {
    STANDARD.encode(crate::chance::drawn::<16>())
}

/// Whether this is a key: 16 bytes in base64.
fn is_key(key: &str) -> bool {
    key.len() == 24 && STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16)
}

/// The parts of all values of a header, separated by commas.
fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|part| !part.is_empty())
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    list(headers, name).any(|part| part.eq_ignore_ascii_case(token))
}

/// A header's value, if it is there once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).into_iter();
    let Some(first) = values.next() else { return Ok(None) };
    match (first.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value.trim())),
        _ => Err(()),
    }
}
