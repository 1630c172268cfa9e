//! The classic servers. Each file has one handler and a `bind` that puts it on a server.

pub(crate) mod chat;
pub(crate) mod discard;
pub(crate) mod echo;
pub(crate) mod proxy;
pub(crate) mod time;
