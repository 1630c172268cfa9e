//! The classic servers. Each file has one handler and a `bind` that puts it on a server; `datagrams` has those over UDP.

pub(crate) mod chat;
pub(crate) mod datagrams;
pub(crate) mod discard;
pub(crate) mod echo;
pub(crate) mod proxy;
pub(crate) mod time;
