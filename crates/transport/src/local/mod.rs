//! Channels that never leave the process: between any two loops, by name.
//!
//! ```text
//!   connect("local:name") ──▶ Hall (who listens, by name) ──▶ Door: backlog ──▶ Acceptor ──▶ on_accept
//!        │                                                                            │
//!        └── End ═══ Pipe, bytes to the server ═══════════════════════════════ End ───┘
//!                ═══ Pipe, bytes to the client ═══
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `pipe` | one direction: a bounded queue of bytes, and who waits at which end |
//! | `end` | one end of a connection: an incoming and an outgoing pipe |
//! | `stream` | an end on its loop: what [`Stream`](crate::stream::Stream) asks for |
//! | `door` | names, and where their connections wait to be accepted |
//! | `transport` | the way in by [`open`](crate::open), as for every transport that is no socket |
//!
//! **No copies.** A message that nobody else holds moves to the peer's handlers as it is, also one that is cut because
//! the pipe has no room for all of it: halves of a `BytesMut` can both be written to. Handlers are given `BytesMut`, so
//! bytes that somebody else still holds (a constant, one message to many peers, a part of a larger buffer) are copied once,
//! by the reader.
//!
//! **As with sockets.** A pipe holds [`PIPE_LEN`] bytes (or what `recv_buffer_size` or `send_buffer_size` say), counting a
//! little for each message, and at most half as much again; then its writer waits. What is in the pipe when its writer
//! closes is still read. An end that is closed with bytes unread resets its peer. A name that nobody listens to refuses.
//!
//! On a loop with a network in place of the system's, names are those of its scope.
//!
//! Needs no driver: an end is called through its loop's task queue, so any loop will do.

mod door;
mod end;
mod pipe;
mod stream;
mod transport;

use end::End;
use pipe::PIPE_LEN;
use stream::LocalStream;
pub(crate) use transport::LocalTransport;
