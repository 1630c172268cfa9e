//! A connection on loan.

use super::inner::Inner;
use netwright_core::Channel;
use std::{fmt, ops::Deref, sync::Arc, time::Instant};

/// A connection of a [`Pool`](super::Pool): use it like its [`Channel`], and drop it to give it back.
///
/// What is cloned out of it should be forgotten by then: the next one who gets the connection writes to it as well.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, Pool, Server};
///
/// let server = Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("local:pooled").wait()?;
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// let pool = Pool::to(&client, server.address()).build()?;
/// let first = pool.acquire().wait()?;
/// let id = first.id(); // a channel like any other
/// drop(first); // goes back
/// let second = pool.acquire().wait()?;
/// assert_eq!(second.id(), id);
/// second.discard(); // does not
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it gives the connection back"]
pub struct Pooled<W: Send + 'static> {
    member: Member<W>,
    inner: Arc<Inner<W>>,
    discarded: bool,
    fresh: bool,
}

/// A connection of a pool, wherever it is.
pub(super) struct Member<W: Send + 'static> {
    pub(super) channel: Channel<W>,
    /// When it is too old to be lent again.
    pub(super) dies: Option<Instant>,
}

impl<W: Send + 'static> Clone for Member<W> {
    fn clone(&self) -> Self {
        Self { channel: self.channel.clone(), dies: self.dies }
    }
}

impl<W: Send + 'static> Pooled<W> {
    /// For a connection that counts as in use.
    pub(super) fn new(inner: Arc<Inner<W>>, member: Member<W>, fresh: bool) -> Self {
        Self { member, inner, discarded: false, fresh }
    }

    /// Whether the connection was made for this loan: nobody has used it before, and it has not waited. Peers close what
    /// waits too long, and that may be seen only when something is written to it.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Closes the connection instead of giving it back: after an error, or half an answer.
    pub fn discard(mut self) {
        self.discarded = true;
    }
}

impl<W: Send + 'static> Deref for Pooled<W> {
    type Target = Channel<W>;

    fn deref(&self) -> &Channel<W> {
        &self.member.channel
    }
}

impl<W: Send + 'static> Drop for Pooled<W> {
    fn drop(&mut self) {
        self.inner.release(self.member.clone(), self.discarded);
    }
}

impl<W: Send + 'static> fmt::Debug for Pooled<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pooled").field(&self.member.channel).finish()
    }
}
