//! What lies on top of the codec: everything between "a request came" and "this is the reply".
//!
//! ```text
//!   codec ─▶ AccessLog ─▶ Cors ─▶ RequestDecompression ─▶ ReplyCompression ─▶ SseKeepAlive ─▶ application, FileServer
//!         ◀── stages of the same types on both sides: each can be left out ──────────────── ◀─  Router, Query, Reply, …
//! ```
//! | file | what it is |
//! | --- | --- |
//! | `router` | [`Router`]: methods times paths |
//! | `form`, `multipart` | [`Query`], [`Urlencoded`], [`Multipart`]: forms, whole or as they come |
//! | `cookie`, `media_type`, `accept` | [`cookies`], [`SetCookie`], [`MediaType`], [`Coding`], [`choose_type`] |
//! | `conditional`, `range` | [`Validators`], [`Ranges`]: what a client has, and what it wants of the rest |
//! | `files` | [`Files`]: a directory as replies |
//! | `coding` | `ReplyCompression`, `RequestDecompression`: bodies by negotiation (feature `compress`, `http-compress` of `netwright`) |
//! | `cors`, `sse`, `access_log` | [`Cors`], [`SseEvent`], [`AccessLog`] and their stages |
//! | `reply` | [`Reply`]: what everybody answers |
//! | `percent`, `html` | text in addresses and pages |
//! | `turns` | requests and replies in step, for stages that answer themselves |
//!
//! Always true:
//! 1. Nothing in here trusts a peer. Every input has a limit with a finite default, and what is refused says which value was
//!    refused, and by which limit.
//! 2. What can be decided without a channel is decided by a plain function or state machine; stages only carry it out.
//! 3. A stage that answers a request itself does so in the request's turn.

mod accept;
mod access_log;
#[cfg(feature = "compress")]
mod coding;
mod conditional;
mod cookie;
mod cors;
mod files;
mod form;
mod html;
mod media_type;
mod multipart;
mod percent;
mod range;
mod reply;
mod router;
mod sse;
#[cfg(test)]
mod testing;
mod turns;

pub use crate::grammar::{is_field_value, is_token};
pub use accept::{Coding, choose_type};
pub use access_log::{AccessEntry, AccessLog, AccessLogStage};
#[cfg(feature = "compress")]
pub use coding::{ReplyCompression, ReplyCompressionStage, RequestDecompression};
pub use conditional::{Precondition, Validators};
pub use cookie::{CookieError, SameSite, SetCookie, cookie, cookies};
pub use cors::{Cors, CorsDecision, CorsError, CorsStage};
pub use files::{FileReply, FileServer, Files, PrefixError, mime_of};
pub use form::{FormError, FormLimits, Query, Urlencoded};
pub use media_type::{MediaType, MediaTypeError};
pub use multipart::{
    FormBodyError, FormPart, Multipart, MultipartError, MultipartEvent, MultipartReader, PartHead,
};
pub use percent::{PercentError, percent_decode, percent_encode, percent_encode_path};
pub use range::Ranges;
pub use reply::{RedirectError, Reply};
pub use router::{Match, Miss, ParamError, Params, RouteError, Router};
pub use sse::{SseError, SseEvent, SseKeepAlive, event_stream, last_event_id};
