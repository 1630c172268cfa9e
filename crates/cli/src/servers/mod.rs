//! The classic servers, and those on HTTP. Each file has one handler and a `bind` that puts it on a server; `datagrams` has
//! those over UDP, `front` is what may stand in front of any of them, `versions` which HTTP those on HTTP speak.

pub(crate) mod chat;
pub(crate) mod datagrams;
pub(crate) mod discard;
pub(crate) mod echo;
pub(crate) mod files;
pub(crate) mod front;
pub(crate) mod hello;
pub(crate) mod page;
pub(crate) mod proxy;
pub(crate) mod room;
pub(crate) mod time;
pub(crate) mod versions;
pub(crate) mod ws_echo;
