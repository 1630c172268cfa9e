//! TLS as a stage of a pipeline, by rustls.
//!
//! ```text
//!   wire ── records ──▶ [ Tls ] ── bytes ──▶ …    Acceptor, Connector: made once, say how
//!        ◀── records ──         ◀── bytes ── …    Handshake: what was agreed on, as an event and as a future
//! ```
//!
//! A stage is all it takes; what lies behind it reads and writes as if there was no TLS:
//!
//! ```
//! use netwright_core::{Peer, CloseCause, pipeline};
//! use netwright_tls::{Acceptor, Certificate, Connector, Roots, Tls};
//! use netwright_transport::{Client, Server};
//! use bytes::{Bytes, BytesMut};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let certificate = Certificate::self_signed(["localhost"])?; // or from_pem_files
//! let acceptor = Acceptor::new(&certificate)?;
//! let server = Server::builder()
//!     .pipeline(move |_| {
//!         pipeline().add(Tls::server(&acceptor)).handle(|cx, bytes| cx.write_and_flush(bytes.freeze()))
//!     })
//!     .bind("127.0.0.1:0")
//!     .wait()?;
//!
//! let connector = Connector::builder().roots(Roots::of(&certificate)?).build()?; // or Connector::system()
//! let localhost = connector.to("localhost")?;
//! let (tell, told) = std::sync::mpsc::channel();
//! let client = Client::builder().pipeline(move || {
//!     let tell = tell.clone();
//!     pipeline().add(Tls::to(&localhost)).serve(move |mut peer: Peer| async move {
//!         peer.write(Bytes::from("hello")).await?; // waits for the handshake by itself
//!         let _ = tell.send(peer.read().await?);
//!         Ok::<(), CloseCause>(())
//!     })
//! })?;
//! client.connect(server.local_addr().expect("bound")).wait()?;
//! assert_eq!(told.recv()?.expect("an answer"), "hello");
//! # Ok(())
//! # }
//! ```
//!
//! # The handshake
//! It begins with the connection and has 10 s ([`TlsLimits`]). [`Handshake`] is fired as an event when it is done, before the
//! first byte of data; [`Tls::handshake`] gives a future of it. What is written before is sent after, and counts as pending
//! until then. If it fails, the peer gets an alert, the pipeline one error ([`TlsError`]), whatever waits fails, and the
//! channel closes. It goes on whether anybody behind asks for messages or not.
//!
//! - Certificates by the name that a client asks for, by a resolver of rustls, or by a future of one's own:
//!   [`Acceptor::builder`]. New ones while the server runs: [`Reloadable`].
//! - The rest of the pipeline by the protocol that was agreed on: [`Alpn`], behind a joint.
//! - `STARTTLS`: [`Tls::start_tls`]. TLS or not on one port: [`looks_like_tls`].
//! - On other threads, so that the loop's connections do not wait for signatures: [`AcceptorBuilder::handshakes_on`].
//!
//! # Deadlines
//! What only this stage can see has a deadline here ([`TlsLimits`]): the handshake, a record of which a part has come, and answers
//! for a peer that has ended its side. How long nothing at all may come is for what lies behind to say.
//!
//! # The end
//! A close, and a shutdown of output, says `close_notify` first. One that is received is what the end of a socket is: with
//! half-closure allowed on the channel it is `input_closed`, without it the channel closes when the peer has taken its
//! answers. [`AcceptorBuilder::half_closure`] decides otherwise for TLS alone. An end without it is [`TlsError::Truncated`]: as the cause of `inactive`, or as an error before `input_closed`.
//!
//! # What it costs
//! Nothing is decrypted that nobody asked for, and no connection keeps a buffer while it is idle. In steady state a message that
//! is read and answered costs the two allocations of rustls, one for each record.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acceptor;
mod alpn;
mod certificate;
mod connection;
mod connector;
mod destination;
mod error;
mod handler;
mod handshake;
mod hello;
mod inbox;
mod key_lines;
mod limits;
mod pem;
mod queue;
mod room;
mod roots;
mod settings;

pub use acceptor::{Acceptor, AcceptorBuilder};
pub use alpn::Alpn;
pub use certificate::{Certificate, CertificateSource, Reloadable};
pub use connector::{Connector, ConnectorBuilder};
pub use destination::Destination;
pub use error::TlsError;
pub use handler::Tls;
pub use handshake::Handshake;
pub use hello::{Hello, Resolved, looks_like_tls};
pub use key_lines::KeyLines;
pub use limits::TlsLimits;
pub use pem::{PemError, PemProblem};
pub use roots::Roots;
pub use rustls;

use rustls::crypto::CryptoProvider;
use std::sync::{Arc, OnceLock};

/// The cryptography that everything here uses: ring's.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())).clone()
}

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
