//! Sockets of the system, by readiness.
//!
//! | file | what it is |
//! | --- | --- |
//! | `stream` | one connection: reads into the loop's scratch buffer, writes at flush |
//! | `acceptor` | one listening socket |
//! | `accepting` | what every listener keeps, and its rest when the system has no descriptor left |
//! | `listener` | accepts by any acceptor |
//! | `reception` | whom a listener tells what it does |
//! | `connect` | opens a connection, within a time limit |
//! | `write` | gathering writes and files |
//! | `unacknowledged` | what a peer has not got yet |
//! | `mishaps` | accepts that fail: the next one, a pause, or the end |
//! | `calls` | the system calls that come with every message |
//! | `address` | the system's addresses and ours |
//! | `unix` | what only Unix sockets have |

mod accepting;
mod acceptor;
mod address;
mod calls;
mod connect;
mod listener;
mod mishaps;
mod reception;
mod stream;
mod unacknowledged;
#[cfg(unix)]
pub(crate) mod unix;
mod write;

pub(crate) use accepting::{ACCEPTS_PER_TURN, ListenerFigures};
pub(crate) use acceptor::SocketAcceptor;
pub(crate) use address::{address, domain, sock_addr};
pub(crate) use connect::{ConnectSettings, connect};
pub(crate) use listener::Listener;
pub(crate) use reception::{Reception, Welcome};
pub(crate) use stream::{SocketKind, SocketStream};
/// What pipes and io_uring have in common with sockets.
#[cfg(unix)]
pub(crate) use write::{Sink, write_flushed};
/// What io_uring has in common with readiness.
#[cfg(all(target_os = "linux", feature = "uring"))]
pub(crate) use {
    accepting::Accepting, calls::recv, connect::OnConnect, mishaps::Mishap, unacknowledged::unacknowledged,
    write::SocketSink,
};

use std::io;

/// Sockets need a loop that can wait for them.
pub(crate) fn no_driver() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "this event loop has no readiness driver: make its group by `event_loops(n)`, or by `Backend::group` for settings of its own (`EventLoopGroup` alone makes loops without sockets)",
    )
}
