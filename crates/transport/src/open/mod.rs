//! Transports of one's own: what one implements so that channels run over it, and how servers and clients learn of it.
//!
//! ```text
//!   Server::builder().scheme("pipe", T) ── bind("pipe:x") ────▶ T.listen ──▶ Listener      one for all loops that accept
//!                                                                               │ attend, on each of them
//!                                                                               ▼
//!                                                                            Acceptor      accept, until WouldBlock
//!                                                                               │ Arrival
//!                                                                               ▼
//!   Client::builder().scheme("pipe", T) ── connect("pipe:x") ─▶ T.connect ─▶ Connection    on its way to its loop
//!   Client::adopt(connection) ──────────────────────────────────────────────▶   │ open, on the loop that hosts it
//!                                                                               ▼
//!                                                                             Stream       the channel calls it
//! ```
//! The channels within a process (`local:name`) and over pipes (`Pipes`) come through this door; sockets of the system have a
//! [`Stream`] as well, and a way past the box that it is put into here. What stands in for all sockets of a loop, such as those of a
//! simulation, is a [`Network`].
//!
//! # What is implemented, and who calls it
//!
//! | trait | lives | called |
//! | --- | --- | --- |
//! | [`Transport`] | in a builder, then as long as its servers and clients; any thread | once for each `bind` and `connect`, on a loop: it must not block |
//! | [`Listener`] | from `bind` until the last loop has ceased to accept; any thread | once by each loop that accepts, also by one that takes the place of a loop that died |
//! | [`Acceptor`] | on one loop; dropping it is the end of accepting there | after each event under its token, and after each call of it |
//! | [`Connection`] | between whoever made it and its loop; any thread | once: opened, or refused |
//! | [`Stream`] | on one loop; dropping it closes | by its channel, within its turn |
//! | [`Network`] | with the drivers of its loops; any thread | in place of the system, once for each `bind`, `connect` and name |
//! | [`DatagramSocket`] | on one loop; dropping it closes | by its channel, within its turn |
//!
//! # What must be true
//!
//! 1. **Nothing blocks.** Everything here is called on loops. What cannot be had at once is
//!    [`WouldBlock`](std::io::ErrorKind::WouldBlock), or [`Wrote::Blocked`].
//! 2. **Who says that there is nothing tells when there is.** After `WouldBlock` of [`Acceptor::accept`] or [`Stream::receive`], after
//!    `more: false`, and after [`Wrote::Blocked`], the token is told of it once it has changed: by the driver of the loop, with which a
//!    descriptor is registered ([`Readiness`](crate::Readiness)), or by a [call](netwright_core::SourceCaller), which any
//!    thread can make; then [`Stream::look`] says what there is. Whatever changed while that was being said is told too: it is looked at, and
//!    marked as waiting, in one step.
//! 3. **Nobody is told without a reason.** A stream that calls again and again keeps its loop from sleeping.
//! 4. **What was taken was taken.** Bytes leave the queue ([`Outbound::advance`](netwright_core::Outbound::advance)) when they need not be
//!    sent again, in order and once.
//! 5. **The end is told once**, as a receive of no bytes, and behind everything that came before it. What ends otherwise is an error.
//! 6. **A drop closes**, deregisters before it does so, and does not wait.
//!
//! A panic of any of it costs the listener or the channel that it belongs to. Whether all of it holds is what the contract suite of
//! `netwright-testkit` finds out: every behaviour of channels over connections, with one test for each.
//!
//! # Addresses
//!
//! `scheme:name`, with a scheme that a builder was told of; what the name means is the transport's affair. Servers and
//! clients have tables of their own: nothing is registered for the process. A name of a scheme that nobody was told of is a
//! [`SchemeError::Unknown`], which says what is known.
//!
//! ```
//! use netwright_core::pipeline;
//! use netwright_transport::{BindError, Server, open::SchemeError};
//!
//! let server = Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("vsock:2:5000").wait();
//! let Err(BindError::Scheme(SchemeError::Unknown { scheme, known, .. })) = server else { panic!("{server:?}") };
//! assert_eq!((scheme.as_str(), &known[..]), ("vsock", &["local".to_owned(), "tcp".into(), "unix".into()][..]));
//! ```

mod backlog;
mod connection;
mod listener;
mod network;
mod schemes;
mod transport;

pub use crate::{
    datagram::carrier::{DatagramBatch, DatagramQueue, DatagramSocket, OutgoingDatagram, datagram_too_long},
    stream::{Received, Stream, Wrote, next_bytes},
};
pub use backlog::Backlog;
pub use connection::{Arrival, Connection};
pub use listener::{Acceptor, Listener};
pub(crate) use network::Substitute;
pub use network::{LookingUp, Network, NetworkConnect, NetworkDatagrams, NetworkListen, NetworkOf};
pub use schemes::SchemeError;
pub(crate) use schemes::{Means, Schemes, Whereabouts, contained, contained_connecting};
pub use transport::{Connect, Connecting, Listen, Transport};
