//! WebSocket (RFC 6455) and its compression (RFC 7692) as stages of a pipeline.
//!
//! ```text
//!   server:  ( joint ) ─▶ [ HttpServer ] ─▶ [ Upgrade ] ─▶ [ HTTP application ]     101, then in their place:
//!                │                                                                   (client: HttpClient and a request)
//!                └──────▶ [ WebSocket ] ── Message ─▶ [ application, or async tail ]
//!                                       ◀─ Message ──
//! ```
//!
//! A server, here without HTTP pages beside it:
//!
//! ```
//! use netwright_core::{CloseCause, Peer, pipeline};
//! use netwright_http::HttpServer;
//! use netwright_transport::Server;
//! use netwright_websocket::{Accept, Config, Message, Upgrade};
//! use std::sync::Arc;
//!
//! async fn echo(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
//!     while let Some(message) = peer.read().await? {
//!         peer.write(message).await?;
//!     }
//!     Ok(())
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let accept = Arc::new(Accept::new(Config::default()).path("/echo"));
//! let server = Server::builder()
//!     .pipeline(move |_| {
//!         let accept = accept.clone();
//!         pipeline().joint(|switch| {
//!             let upgrade = Upgrade::new(switch, accept, |socket, _, _| pipeline().add(socket).serve(echo));
//!             pipeline().add(HttpServer::new()).add(upgrade).handle(|cx, _| cx.close()).sealed()
//!         })
//!     })
//!     .bind("127.0.0.1:0")
//!     .wait()?;
//! # drop(server);
//! # Ok(())
//! # }
//! ```
//!
//! A client: `WebSocketClient`, which connects by address, or [`Request::pipeline`] with the transport's `Client`.
//!
//! # Features
//! | here | in `netwright` | what it adds |
//! | --- | --- | --- |
//! | | `websocket` | this crate |
//! | `client` | `websocket-client` | `WebSocketClient`: connections by address |
//! | `tls` | `wss` | `wss` addresses in it |
//!
//! # What is done by itself
//! - Pings are answered, also while nobody writes; a silent peer gets a ping, and is given up if it stays silent.
//! - Text is checked as it comes, fragments are put together, compressed messages unpacked, all within limits ([`Config`]).
//! - A peer that breaks a rule gets a close frame with the right code, and the channel ends with a [`Violation`] as its cause.
//! - A peer that takes nothing of what waits for it is given up as well, however much it sends.
//! - A channel that is closed, by whomever on our side, says goodbye first and waits for the answer, but not for ever. A server that
//!   shuts down gracefully says 1001.
//!
//! # What to know
//! - Demand is strict: a peer's pings and its close are seen when its messages are asked for. A tail that waits for something
//!   else than its peer for long should read beside it (`select`).
//! - Compression is off unless [asked for](Config::deflate), and then carries no context over from message to message unless
//!   [allowed to](Deflate::takeover), so that an idle connection holds no more than one without.
//! - How long a request for a WebSocket may take is up to the HTTP codec on a server
//!   ([`HttpLimits`](netwright_http::HttpLimits)), and to [`Request::deadline`] on a client.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod chance;
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
mod watch;

pub use close::{Close, CloseCode};
pub use config::{CLOSE_DEADLINE, Config, LINGER, MESSAGE_MAX, PING_AFTER, PONG_DEADLINE};
pub use deflate::{Agreed, Deflate};
pub use error::{ClosedByPeer, NoClose, Violation};
pub use handshake::{
    Accept, BadRequest, HANDSHAKE_DEADLINE, HandshakeError, Opened, REJECTION_MAX, Refusal, Rejection,
    Request, Upgrade, Upgraded, accept_key, new_key,
};
#[cfg(feature = "client")]
pub use handshake::{OpenError, Socket, SocketClosed, WebSocketClient};
pub use message::Message;
pub use stage::{PeerClosed, TooLongForControl, WebSocket};
pub use text::Text;

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
