//! What a server on the open internet needs and nobody should write twice, as stages of a pipeline.
//!
//! | what you look for | where |
//! | --- | --- |
//! | replies matched to requests, with deadlines (pipelining, correlation ids, multiplexing) | [`Requests`], [`Requester`] |
//! | a client that keeps a connection: backoff with jitter, several addresses | [`Reconnect`], [`Backoff`] |
//! | pings to silent peers, and the end of those who stay silent (keepalive) | [`Heartbeat`] |
//! | requests over a connection that comes again: deadlines, retries with a budget (RPC client) | [`RpcClient`], [`RetryBudget`] |
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
pub use requests::{
    Ask, NumbersUsedUp, RequestError, RequestFigures, Requester, Requests, Unanswered, UnmatchedReply,
};
pub use rpc::{RetryBudget, RpcClient, RpcClientBuilder, RpcFigures, RpcRequest};

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
