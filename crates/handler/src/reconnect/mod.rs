//! A client that keeps one connection: when it ends, another one is made.
//!
//! ```text
//!   connect ── ok ──▶ connected ── ends ──▶ stood for a while? ── yes ─▶ failures := 0 ─┐
//!      ▲  └─ fails ─▶ the next address ── none is left ─▶ failures + 1 ────────────────┤
//!      │                                                   └ too many: over            │
//!      └─────────────────────────────── pause, longer each time, with jitter ◀─────────┘
//! ```
//! Always true:
//! 1. There is one attempt or one connection at the most, and one task on a loop that waits for its end.
//! 2. Between two rounds through all addresses there is a pause; nothing makes a client try without one.
//! 3. Messages that wait go out in their order, and before those that come later.
//! 4. Whoever waits, for a connection or for a message to go out, is told when no connection will come any more.
//! 5. No lock is held while a promise, a closure or the drop of a message runs.
//!
//! | file | what it is |
//! | --- | --- |
//! | `backoff` | [`Backoff`], how long the pauses are |
//! | `builder` | [`ReconnectBuilder`] |
//! | `event` | [`ReconnectEvent`], [`ReconnectError`] |
//! | `inner` | the task, and what handles share with it |

mod backoff;
mod builder;
mod event;
mod inner;

#[cfg(test)]
mod tests;

pub(crate) use self::inner::Hook;
pub use self::{
    backoff::Backoff,
    builder::ReconnectBuilder,
    event::{ReconnectError, ReconnectEvent},
};

use self::inner::Inner;
use netwright_core::{Carries, Channel, EventLoop, PromiseError, Promised, Written, promise};
use netwright_transport::{Client, ConnectError};
use std::{fmt, sync::Arc};

/// A client that keeps one connection, to one of several addresses, and makes another one when it has ended.
///
/// Cheap to clone, for any thread. When the last handle is gone, it [stops](Self::stop).
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_handler::{Reconnect, ReconnectEvent};
/// use netwright_transport::{Client, Server};
/// use std::sync::mpsc;
///
/// let server = Server::builder()
///     .pipeline(|_| pipeline().handle(|cx, _| cx.close())) // says nothing, and closes
///     .bind("127.0.0.1:0")
///     .wait()?;
///
/// let (tell, told) = mpsc::channel();
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// let reconnect = Reconnect::to(&client, server.address())
///     .observe(move |event| {
///         if let ReconnectEvent::Connected { .. } = event {
///             tell.send(()).unwrap();
///         }
///     })
///     .start()?;
/// reconnect.connected().wait()?; // or `.await`
/// told.recv()?;
/// reconnect.send("hello").wait()?;
/// told.recv()?; // once more
/// reconnect.stop().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "reconnecting")]
#[doc(alias = "exponential backoff")]
pub struct Reconnect<W: Send + 'static> {
    handle: Arc<Handle<W>>,
}

/// What the clones share; the task does not count.
struct Handle<W: Send + 'static> {
    inner: Arc<Inner<W>>,
}

impl<W: Send + 'static> Drop for Handle<W> {
    fn drop(&mut self) {
        self.inner.stop(|channel| drop(channel.close_when_flushed()));
    }
}

impl<W: Send + 'static> Reconnect<W> {
    /// One that connects to this address by this client. What happens, happens on a loop of the client's group.
    pub fn to(client: &Client<W>, address: impl ToString) -> ReconnectBuilder<W> {
        let (client, event_loop) = (client.clone(), client.group().next());
        Self::with(event_loop, address, move |address| client.connect(address))
    }

    /// One that connects by whatever way; the closure is given the address. What happens, happens on this loop.
    pub fn with(
        event_loop: EventLoop,
        address: impl ToString,
        connect: impl Fn(&str) -> Promised<Channel<W>, ConnectError> + Send + Sync + 'static,
    ) -> ReconnectBuilder<W> {
        ReconnectBuilder::new(event_loop, address.to_string(), Box::new(connect))
    }

    /// The connection, if there is one at present. It may end at any moment.
    pub fn channel(&self) -> Option<Channel<W>> {
        self.handle.inner.channel()
    }

    /// The connection, as soon as there is one. A future, and a blocking wait.
    pub fn connected(&self) -> Promised<Channel<W>, ReconnectError> {
        self.handle.inner.connected()
    }

    /// Sends a message on the connection. Without one it waits, if it [may](ReconnectBuilder::max_waiting); else it fails at once with a
    /// [`ReconnectError`]. What was handed to a connection that ends is not sent again.
    pub fn send<M>(&self, message: M) -> Written
    where
        W: Carries<M>,
    {
        self.handle.inner.send(W::carry(message))
    }

    /// Makes no other connection, and closes the one that is there when everything that was flushed is sent. Tells when it is closed.
    pub fn stop(&self) -> Promised<(), PromiseError> {
        self.stop_by(|channel| drop(channel.close_when_flushed()))
    }

    pub(crate) fn stop_by(&self, end: impl FnOnce(&Channel<W>)) -> Promised<(), PromiseError> {
        let Some(channel) = self.handle.inner.stop(end) else { return Promised::ready(Ok(())) };
        let (promise, stopped) = promise();
        channel.on_close(move |_| promise.succeed(()));
        stopped
    }
}

impl<W: Send + 'static> Clone for Reconnect<W> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<W: Send + 'static> fmt::Debug for Reconnect<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconnect").field("channel", &self.channel()).finish()
    }
}
