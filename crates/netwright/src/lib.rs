//! Netwright: a network application framework with Netty's architecture, for Rust. Event loops own channels, channels own
//! pipelines of handlers, codecs are handlers.
//!
//! ```text
//!  other threads ──tasks──▶ ┌────────── event loop (one thread, one driver) ──────────┐
//!                           │ 1 poll   2 deliver I/O   3 run tasks   4 tail tasks  5 … │
//!                           └──────────────────────────────────────────────────────────┘
//!   socket ──▶ loop's buffer ──▶ [ stage ] ── call ─▶ [ stage ] ── call ─▶ [ stage ]    (active, read, …, inactive)
//!   socket ◀── outbound queue ◀─ [ stage ] ◀─ ops ── [ stage ] ◀─ ops ── [ stage ]      (write, flush, close)
//!                                wire side                          application side
//! ```
//!
//! ```
//! use netwright::{AppContext, Application, Client, Server, codec::{LineFrames, Utf8}, event_loops, pipeline};
//! use std::sync::mpsc;
//!
//! struct Greeter;
//!
//! impl Application for Greeter {
//!     type Read = String;
//!     type Write = String;
//!
//!     fn read(&mut self, cx: &mut AppContext<'_, Self>, name: String) {
//!         cx.write_and_flush(format!("hello, {name}"));
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder()
//!     .group(event_loops(1)?)
//!     .pipeline(|_| pipeline().add(LineFrames::max(1024)).add(Utf8::strict()).app(Greeter))
//!     .bind("127.0.0.1:0")
//!     .wait()?;
//!
//! let (send, greetings) = mpsc::channel();
//! let client = Client::builder().pipeline(move || {
//!     let send = send.clone();
//!     pipeline()
//!         .add(LineFrames::max(1024))
//!         .add(Utf8::strict())
//!         .handle(move |_, greeting| send.send(greeting).unwrap())
//! })?;
//! let channel = client.connect(server.address()).wait()?;
//! channel.send("world".to_owned()).wait()?;
//! assert_eq!(greetings.recv()?, "hello, world");
//! # Ok(())
//! # }
//! ```
//!
//! # Where to find what
//!
//! - Servers and clients: [`Server`], [`Client`], [`Pool`], [`ChannelGroup`]; UDP and Unix datagrams: [`Datagrams`].
//! - What you write: [`Handler`] and its smaller relatives [`Application`], [`Observer`], [`InboundOnly`] and
//!   [`OutboundOnly`]; put together by [`pipeline`].
//! - What you hold: [`Channel`], from any thread.
//! - Frames and text: [`codec`]; Protobuf, MessagePack, JSON, CBOR, postcard and Thrift, by features of these names:
//!   [`codec::serial`].
//! - Loops, timers, futures, tasks: [`EventLoop`], [`EventLoopGroup`]; work that blocks: [`Workers`], or a thread for
//!   each channel: [`ThreadPerChannel`]. How their threads are made: [`ThreadFactory`]; how loops wait: [`WaitStrategy`].
//! - Files that no loop waits for, and files piece by piece as what channels and bodies send: [`files`], [`ByteSource`].
//! - Straight-line code: [`serve`](PipelineBuilder::serve) and [`Peer`]; [`time`]. Between it and tokio, `futures-io` or hyper:
//!   `bridge`, behind features of these names.
//! - TLS, HTTP/1.1 and WebSocket: `tls`, `http` and `websocket`, behind features of these names; their clients behind further ones.
//! - Tests without sockets and sleeps: [`EmbeddedChannel`], [`ManualLoop`].
//!
//! # Features
//! None is on unless asked for. The documentation of the parts names features as the part has them; where it is another name here, both
//! are said.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `tls`, `self-signed` | TLS as a stage; certificates for development |
//! | `http`, `tower`, `http-compress` | HTTP/1.1; `tower` services behind it; content coding |
//! | `http-client`, `https` | the pooled HTTP client; with `https://` |
//! | `websocket`, `websocket-client`, `wss` | WebSocket; clients by address; with `wss://` |
//! | `protobuf`, `messagepack`, `json`, `cbor`, `postcard`, `thrift` | messages in these formats |
//! | `gzip`, `zlib`, `deflate`, `zstd`, `brotli`, `lz4`, `snappy`, `compress` | compression by these formats; by all |
//! | `base64`, `charsets` | text as bytes, and in other charsets than UTF-8 |
//! | `tokio`, `futures`, `hyper`, `tokio-util` | bridges to these |
//!
//! This crate gathers what the others offer; it has no logic of its own.

#![forbid(unsafe_code)]

/// Channels as the I/O of tokio, futures and hyper; loops as hyper's executor and timer.
#[cfg(any(feature = "tokio", feature = "futures", feature = "hyper"))]
pub use netwright_bridge as bridge;
/// Frames, text and serialisation as stages.
pub use netwright_codec as codec;
pub use netwright_core::*;
/// HTTP/1.1: codec, services, files, forms, client.
#[cfg(feature = "http")]
pub use netwright_http as http;
/// TLS as a stage.
#[cfg(feature = "tls")]
pub use netwright_tls as tls;
pub use netwright_transport::*;
/// WebSocket: handshake, frames, messages.
#[cfg(feature = "websocket")]
pub use netwright_websocket as websocket;
