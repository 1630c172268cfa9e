//! HTTP/1.1 as stages of a pipeline.

#![forbid(unsafe_code)]

mod message;
pub mod web;

pub use message::{Part, ReplyHead, ReplyPart, RequestHead, RequestPart};
