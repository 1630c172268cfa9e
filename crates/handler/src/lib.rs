//! What a server on the open internet needs and nobody should write twice, as stages of a pipeline.
//!
//! | what you look for | where |
//! | --- | --- |
//! | rate limits, traffic shaping: per channel, per key, together | [`Shape`], [`shape`] |
//! | faults of a bad network, on purpose | [`Chaos`], [`chaos`] |
//!
//! All of them are [`Filter`](netwright_core::Filter)s, unless they say otherwise: they fit anywhere where messages need not be of a certain type.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod chaos;
mod inbound;
pub mod shape;

pub use chaos::Chaos;
pub use shape::Shape;
