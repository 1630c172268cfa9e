//! What a server on the open internet needs and nobody should write twice, as stages of a pipeline.
//!
//! | what you look for | where |
//! | --- | --- |
//! | to be told, or to close, when nothing happens | [`Idle`], [`IdleEvent`] |
//! | to close when the peer says nothing | [`ReadTimeout`] |
//! | to close when the peer does not take what is written | [`WriteTimeout`] |
//! | to end a connection in order when it is old | [`Lifetime`] |
//! | rate limits, traffic shaping: per channel, per key, together | [`Shape`], [`shape`] |
//! | networks that may come in, judged by the client's address | [`AddressFilter`] |
//! | so many connections of a client's address, also behind a proxy (connection limit) | [`PerAddress`] |
//! | the client's address behind a proxy (PROXY protocol, haproxy) | [`ProxyProtocol`], [`TrustedNetworks`]; to be such a proxy: [`SendProxyHeader`] |
//! | to see in the log what happens on connections and at listeners | [`Log`] |
//! | what passes, for Wireshark | [`Capture`] |
//! | faults of a bad network, on purpose | [`Chaos`], [`chaos`] |
//! | a proxy: two channels that pass on to each other | [`Relay`] |
//! | replies matched to requests, with deadlines (pipelining, correlation ids, multiplexing) | [`Requests`], [`Requester`] |
//! | a client that keeps a connection: backoff with jitter, several addresses | [`Reconnect`], [`Backoff`] |
//! | pings to silent peers, and the end of those who stay silent (keepalive) | [`Heartbeat`] |
//! | requests over a connection that comes again: deadlines, retries with a budget (RPC client) | [`RpcClient`], [`RetryBudget`] |
//!
//! All of them are [`Filter`](netwright_core::Filter)s, unless they say otherwise: they fit anywhere where messages need not be of a certain type.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address_filter;
mod capture;
pub mod chaos;
mod heartbeat;
mod idle;
mod inbound;
mod lifetime;
mod log;
mod per_address;
mod proxy_protocol;
mod reconnect;
mod relay;
mod requests;
mod rpc;
pub mod shape;
mod timeout;

pub use address_filter::{AddressFilter, AddressRefused};
pub use capture::{Capture, CaptureError, CaptureFigures, CaptureObserver, Captured};
pub use chaos::Chaos;
pub use heartbeat::Heartbeat;
pub use idle::{Idle, IdleEvent, IdleKind};
pub use lifetime::{Lifetime, LifetimeOver};
pub use log::{Bytewise, Direction, Log, told};
pub use per_address::{PerAddress, PerAddressStage};
pub use proxy_protocol::{
    ProxyHeader, ProxyProtocol, ProxyProtocolError, ProxySsl, SendProxyHeader, Tlv, TrustError,
    TrustedNetworks,
};
pub use reconnect::{Backoff, Reconnect, ReconnectBuilder, ReconnectError, ReconnectEvent};
pub use relay::{OtherEnd, Relay, RelayError};
pub use requests::{
    Ask, NumbersUsedUp, RequestError, RequestFigures, Requester, Requests, Unanswered, UnmatchedReply,
};
pub use rpc::{RetryBudget, RpcClient, RpcClientBuilder, RpcFigures, RpcRequest};
pub use shape::Shape;
pub use timeout::{ReadTimeout, WriteTimeout};

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
