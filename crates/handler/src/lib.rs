//! What a server on the open internet needs and nobody should write twice, as stages of a pipeline.
//!
//! | what you look for | where |
//! | --- | --- |
//! | replies matched to requests, with deadlines (pipelining, correlation ids, multiplexing) | [`Requests`], [`Requester`] |
//! | to be told, or to close, when nothing happens | [`Idle`], [`IdleEvent`] |
//! | to close when the peer says nothing | [`ReadTimeout`] |
//! | to close when the peer does not take what is written | [`WriteTimeout`] |
//! | to end a connection in order when it is old | [`Lifetime`] |
//! | a client that keeps a connection: backoff with jitter, several addresses | [`Reconnect`], [`Backoff`] |
//! | pings to silent peers, and the end of those who stay silent (keepalive) | [`Heartbeat`] |
//! | rate limits, traffic shaping: per channel, per key, together | [`Shape`], [`shape`] |
//! | requests over a connection that comes again: deadlines, retries with a budget (RPC client) | [`RpcClient`], [`RetryBudget`] |
//! | to see in the log what happens on connections and at listeners | [`Log`] |
//! | faults of a bad network, on purpose | [`Chaos`], [`chaos`] |
//! | what passes, for Wireshark | [`Capture`] |
//! | the client's address behind a proxy (PROXY protocol, haproxy) | [`ProxyProtocol`], [`TrustedNetworks`]; to be such a proxy: [`SendProxyHeader`] |
//! | networks that may come in, judged by the client's address | [`AddressFilter`] |
//! | a proxy: two channels that pass on to each other | [`Relay`] |
//!
//! All of them are [`Filter`](netwright_core::Filter)s, unless they say otherwise: they fit anywhere where messages need not be of a certain type.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod heartbeat;
mod reconnect;
mod requests;
mod rpc;

pub use heartbeat::Heartbeat;
pub use reconnect::{Backoff, Reconnect, ReconnectBuilder, ReconnectError, ReconnectEvent};
pub use requests::{Ask, RequestError, RequestFigures, Requester, Requests, Unanswered, UnmatchedReply};
mod idle;
mod lifetime;
mod log;
mod timeout;

pub use idle::{Idle, IdleEvent, IdleKind};
pub use lifetime::{Lifetime, LifetimeOver};
pub use log::{Bytewise, Direction, Log, told};
pub use requests::{
    Ask, NumbersUsedUp, RequestError, RequestFigures, Requester, Requests, Unanswered, UnmatchedReply,
};
pub use rpc::{RetryBudget, RpcClient, RpcClientBuilder, RpcFigures, RpcRequest};
pub use timeout::{ReadTimeout, WriteTimeout};
mod capture;

pub use capture::{Capture, CaptureError, CaptureFigures, CaptureObserver, Captured};
mod address_filter;
mod proxy_protocol;

pub use address_filter::{AddressFilter, AddressRefused};
pub use proxy_protocol::{
    ProxyError, ProxyHeader, ProxyProtocol, ProxySsl, SendProxyHeader, Tlv, TrustError, TrustedNetworks,
};
mod relay;

pub use relay::{OtherEnd, Relay, RelayError};

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod chaos;
mod inbound;
pub mod shape;

pub use chaos::Chaos;
pub use shape::Shape;
