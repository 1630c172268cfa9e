//! WebSocket (RFC 6455) and its compression (RFC 7692) as stages of a pipeline.

#![forbid(unsafe_code)]

mod close;
mod config;
mod decode;
pub mod deflate;
mod error;
pub mod frame;
mod gather;
pub mod handshake;
mod mask;
mod message;
mod stage;
mod text;
mod utf8;

pub use close::{Close, CloseCode};
pub use config::{CLOSE_DEADLINE, Config, LINGER, MESSAGE_MAX, PING_AFTER, PONG_DEADLINE};
pub use deflate::{Agreed, Deflate};
pub use error::{ClosedByPeer, NoClose, Violation};
pub use handshake::{
    Accept, BadRequest, HANDSHAKE_DEADLINE, HandshakeError, Opened, Refusal, Request, Upgrade, Upgraded,
    accept_key,
};
#[cfg(feature = "client")]
pub use handshake::{ConnectRefused, Socket, WebSocketClient};
pub use message::Message;
pub use stage::{PeerClosed, TooLongForControl, WebSocket};
pub use text::Text;
