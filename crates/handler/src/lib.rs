//! What a server on the open internet needs and nobody should write twice, as stages of a pipeline.
//!
//! | what you look for | where |
//! | --- | --- |
//! | the client's address behind a proxy (PROXY protocol, haproxy) | [`ProxyProtocol`], [`TrustedNetworks`]; to be such a proxy: [`SendProxyHeader`] |
//! | networks that may come in, judged by the client's address | [`AddressFilter`] |
//!
//! All of them are [`Filter`](netwright_core::Filter)s, unless they say otherwise: they fit anywhere where messages need not be of a certain type.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address_filter;
mod proxy_protocol;

pub use address_filter::{AddressFilter, AddressRefused};
pub use proxy_protocol::{
    ProxyError, ProxyHeader, ProxyProtocol, ProxySsl, SendProxyHeader, Tlv, TrustError, TrustedNetworks,
};

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
