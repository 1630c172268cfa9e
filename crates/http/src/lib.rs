//! HTTP/1.1 as stages of a pipeline.
//!
//! ```text
//!   bytes ──▶ [ HttpServer ] ── RequestPart ──▶ [ log, CORS, coding … ] ── RequestPart ──▶ [ respond, serve, tower ]
//!   bytes ◀──                ◀── ReplyPart ───                          ◀── ReplyPart ───
//! ```
//!
//! ```
//! use http::Response;
//! use netwright_core::{EmbeddedChannel, pipeline};
//! use netwright_http::{HttpServer, Received, respond};
//!
//! let hello = |request: &Received| Response::new(format!("hello from {}", request.uri()));
//! let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(respond(hello)));
//! channel.write_inbound("GET /here HTTP/1.1\r\nHost: example\r\n\r\n");
//! assert!(channel.outbound_bytes().ends_with(b"\r\n\r\nhello from /here"));
//! ```
//!
//! # Where to find what
//! - The wire: [`HttpServer`] and [`HttpClient`], strict in what they take; what they bear is in [`HttpLimits`], what
//!   they refuse in [`HttpError`], whose kinds are in [`error`].
//! - What passes between stages: [`HttpPart`], whole messages or streams. [`HttpAggregate`] makes the one of the other.
//! - Who answers: a closure ([`respond`]), an async function with streaming bodies ([`serve`], [`Body`]), any `tower` service
//!   (`tower`, feature `tower`).
//! - Router, files, forms, cookies, content coding, CORS, events, access log: [`web`].
//! - A client with a pool of connections: `client::WebClient` (feature `client`, `http-client` of `netwright`); with `https` (feature `tls`, `https` of `netwright`).

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod authority;
mod body;
mod calendar;
#[cfg(feature = "client")]
pub mod client;
mod codec;
pub mod error;
mod grammar;
mod limits;
mod message;
mod service;
pub mod web;

pub use authority::{BadAuthority, HostAndPort};
pub use body::{Body, BodySender};
pub use codec::{HttpClient, HttpServer, HttpTunnel, HttpVersions, LastReply, RequestRefused, http2};
pub use error::HttpError;
#[doc(no_inline)]
pub use http; // whose requests, replies and headers they are
pub use limits::{Http2Limits, HttpLimits};
pub use message::{
    Head, HttpPart, Protocol, ReplyHead, ReplyPart, RequestHead, RequestPart, header_map, recycle_headers,
};
#[cfg(feature = "tower")]
pub use service::tower;
pub use service::{HttpAggregate, Received, Respond, ServeRequests, respond, serve};

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
