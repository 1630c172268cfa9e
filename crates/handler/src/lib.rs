//! What a server on the open internet needs and nobody should write twice, as stages of a pipeline.
//!
//! | what you look for | where |
//! | --- | --- |
//! | a proxy: two channels that pass on to each other | [`Relay`] |
//!
//! All of them are [`Filter`](netwright_core::Filter)s, unless they say otherwise: they fit anywhere where messages need not be of a certain type.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod relay;

pub use relay::{OtherEnd, Relay, RelayError};

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
