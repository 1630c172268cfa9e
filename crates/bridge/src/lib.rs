//! Netwright's channels and loops for code that was written for tokio, `futures-io` or hyper.
//!
//! ```text
//!   … ──▶ [ last stage: serve ] ── Peer ──▶ PeerIo ── poll_read ──▶ ┌ tokio::io, futures::io, ┐
//!   … ◀────────────────────────── Peer ◀── PeerIo ◀── poll_write ── └ hyper::rt               ┘
//!
//!   hyper ── execute(future) ──▶ LoopExecutor ──▶ the loop that hyper runs on
//!   hyper ── sleep_until(t) ───▶ LoopTimer ─────▶ the timers of one loop, from any thread
//! ```
//!
//! | file | what it is | feature |
//! | --- | --- | --- |
//! | `io` | [`PeerIo`] and its halves: a channel as a stream of bytes | any |
//! | `send` | [`SendIo`]: the same for other threads, and for upgrades (hyper's `with_upgrades`, WebSockets of axum) | any |
//! | `ends` | what both stand on | any |
//! | `tokio` | the halves as tokio's `AsyncRead`, `AsyncBufRead`, `AsyncWrite` | `tokio` |
//! | `futures` | the same for `futures-io` | `futures` |
//! | `hyper` | the halves as hyper's `Read` and `Write`; `LoopExecutor`, `LoopTimer` | `hyper` |
//! | `error` | why a channel ended, as an `io::Error` | any |
//!
//! A stock hyper server on an event loop:
//!
//! ```
//! # #[cfg(feature = "hyper")] {
//! use http_body_util::Full;
//! use hyper::{Request, Response, body::{Bytes, Incoming}, server::conn::http1, service::service_fn};
//! use netwright_bridge::{LoopTimer, PeerIo};
//! use netwright_core::{EmbeddedChannel, pipeline};
//! use std::convert::Infallible;
//!
//! async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
//!     Ok(Response::new(Full::from("hello")))
//! }
//!
//! let mut channel = EmbeddedChannel::new(pipeline().serve(|peer| async move {
//!     http1::Builder::new()
//!         .timer(LoopTimer::here())
//!         .serve_connection(PeerIo::new(peer), service_fn(hello))
//!         .await
//! }));
//! channel.write_inbound(b"GET / HTTP/1.1\r\n\r\n");
//! assert!(channel.outbound_bytes().ends_with(b"\r\n\r\nhello"));
//! # }
//! ```
//!
//! The other way round no bridge is needed. All that Netwright promises (`bind`, `connect`, `write`, `close`, `spawn`) is a
//! plain future, so a tokio program awaits it; and what a tokio runtime spawns is a plain future too, so a handler gives
//! it to `cx.spawn` and has the output back on its loop.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// What all bridges share is not used up by one of them.
#![cfg_attr(not(any(feature = "tokio", feature = "futures")), allow(dead_code))]

#[cfg(any(feature = "tokio", feature = "futures"))]
#[macro_use]
mod same;

mod ends;
mod error;
#[cfg(feature = "futures")]
mod futures;
#[cfg(feature = "hyper")]
mod hyper;
mod io;
mod send;
#[cfg(feature = "tokio")]
mod tokio;

pub use ends::{Reads, Writes};
#[cfg(feature = "hyper")]
pub use hyper::{LoopExecutor, LoopSleep, LoopTimer};
pub use io::{PeerIo, PeerRead, PeerWrite};
pub use send::{Carry, SendIo, SendReader, SendWriter};

/// The code of that page is built and run.
#[cfg(all(doctest, feature = "hyper"))]
#[doc = include_str!("../README.md")]
mod readme {}
