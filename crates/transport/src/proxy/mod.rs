//! Connections that are made through proxies: HTTP `CONNECT`, SOCKS 4, 4a and 5, one behind the other.
//!
//! ```text
//!   connect("example.org:80")
//!      │ rules: which chain, if any          env, rules
//!      ▼
//!   connect to the first proxy ─▶ channel ─▶ ( joint ) ─▶ [ handshake ]     asks hop after hop, reads their answers
//!                                               │               │ switch
//!                                               ├─────────▶ [ TLS ] ( joint ) [ handshake ]   goes on with the next proxy
//!                                               └─────────▶ [ the user's pipeline ]   active; first what lay behind the last answer
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `proxy` | [`Proxy`]: one of them, its protocol, its address, its credentials |
//! | `text` | a proxy as a URL |
//! | `chain` | [`ProxyChain`]: several, one behind the other |
//! | `rules`, `bypass`, `env` | [`Proxies`]: which chain for which target; what `NO_PROXY` says; the environment |
//! | `target` | whom a proxy is asked for |
//! | `connect`, `socks4`, `socks5` | one protocol each, as a plain state machine: bytes in, what to do out |
//! | `dialogue` | one after the other through a chain |
//! | `handshake` | the stage that has the dialogue, and exchanges itself for the user's pipeline |
//! | `secure` | who makes the stage in front of a proxy that is spoken to in TLS |
//! | `error` | [`ProxyError`]: which proxy, and why |
//!
//! Always true:
//! 1. The user's pipeline is made when the last proxy has agreed, and not before; it reads every byte behind that answer.
//! 2. The whole handshake, over all hops, has one deadline, which no drop of bytes moves.
//! 3. What is kept of answers is bounded by [`ANSWER_MAX`] and one read.
//! 4. Nothing is sent to a hop before the one in front of it has agreed, and nothing may have come by then.
//! 5. A proxy in TLS hears nothing but TLS, and the handshake has to be done within the same deadline.
//! 6. Credentials are in no `Debug`, no `Display`, no error and no log.
//!
//! Not here: TLS itself, because this crate knows none. What is in front of a proxy is a stage that the client is given; TLS to the target is
//! a stage of the user's pipeline.

mod bypass;
mod chain;
mod connect;
mod dialogue;
mod env;
mod error;
mod handshake;
#[allow(clippy::module_inception)]
mod proxy;
mod rules;
mod secure;
mod socks4;
mod socks5;
mod target;
mod text;

pub use chain::ProxyChain;
pub use error::{ProxyError, ProxyWhy};
pub use proxy::Proxy;
pub use rules::{Proxies, Purpose};
pub use secure::NoTls;
pub use text::BadProxy;

pub(crate) use chain::Route;
pub(crate) use dialogue::Dialogue;
pub(crate) use handshake::{Told, through};
pub(crate) use secure::Secures;

/// The longest answer of one proxy, with interim replies: what servers of HTTP take for a head.
pub const ANSWER_MAX: usize = 8 * 1024;
/// Proxies one behind the other at most: more than anybody has a use for.
pub const HOPS_MAX: usize = 8;
/// The longest name of a target: what SOCKS 5 has a byte for, and DNS has no longer ones.
pub const NAME_MAX: usize = 255;
