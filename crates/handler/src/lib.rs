//! What a server on the open internet needs and nobody should write twice, as stages of a pipeline.
//!
//! | what you look for | where |
//! | --- | --- |
//! | what passes, for Wireshark | [`Capture`] |
//!
//! All of them are [`Filter`](netwright_core::Filter)s, unless they say otherwise: they fit anywhere where messages need not be of a certain type.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod capture;

pub use capture::{Capture, CaptureError, CaptureFigures, CaptureObserver, Captured};

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
