//! What a server on the open internet needs and nobody should write twice, as stages of a pipeline.
//!
//! | what you look for | where |
//! | --- | --- |
//! | to be told, or to close, when nothing happens | [`Idle`], [`IdleEvent`] |
//! | to close when the peer says nothing | [`ReadTimeout`] |
//! | to close when the peer does not take what is written | [`WriteTimeout`] |
//! | to end a connection in order when it is old | [`Lifetime`] |
//! | to see in the log what happens on connections and at listeners | [`Log`] |
//!
//! All of them are [`Filter`](netwright_core::Filter)s, unless they say otherwise: they fit anywhere where messages need not be of a certain type.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod idle;
mod lifetime;
mod log;
mod timeout;

pub use idle::{Idle, IdleEvent, IdleKind};
pub use lifetime::{Lifetime, LifetimeOver};
pub use log::{Bytewise, Direction, Log, told};
pub use timeout::{ReadTimeout, WriteTimeout};

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
