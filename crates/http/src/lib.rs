//! HTTP/1.1 as stages of a pipeline.

#![forbid(unsafe_code)]

mod aggregate;
mod body;
#[cfg(feature = "client")]
pub mod client;
mod codec;
mod date;
mod error;
mod limits;
mod message;
mod recycle;
mod service;
pub mod web;

pub use aggregate::Aggregate;
pub use body::{Body, BodySender};
pub use codec::{HttpClient, HttpServer, Refused};
pub use error::{Framing, Grammar, HttpError, Limit, Misuse, Within};
pub use limits::Limits;
pub use message::{Part, ReplyHead, ReplyPart, RequestHead, RequestPart};
pub use recycle::{header_map, recycle_headers};
#[cfg(feature = "tower")]
pub use service::tower;
pub use service::{Respond, Serve, respond, serve};
