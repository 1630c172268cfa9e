//! What is written piece by piece, while there is room: whatever can be asked for the next item.
//!
//! ```text
//!   file.pieces(..)     ┐
//!   reader(read, pool)  │                 ┌ Channel::write_from  on any thread
//!   iter, try_iter      ├─ ItemSource ──▶ ┤ Peer::write_from     in an async tail
//!   stream, try_stream  │                 └ Context::write_from  in a handler, which goes on meanwhile
//!   one's own           ┘
//! ```
//! Always true, whichever it is:
//! 1. An item is asked for when the one before it was written, and that is done when there is room: no more than one waits here.
//! 2. A source is dropped as soon as its end, its error or the channel's end is known, and is not asked again after any of these.
//! 3. What was begun is finished, or the channel ends: its peer would take what comes next for the rest. Only items that are
//!    [separate](ItemSource::separate) may stop in the middle.
//! 4. A panic of a source is an error of it: [`SourceError::Panicked`].
//!
//! Not here: who writes (`channel/byte_source.rs`, `pipeline/write_from.rs`); files (`netwright-transport`).

mod error;
mod iter;
mod reader;
#[cfg(feature = "futures")]
mod stream;

pub use error::SourceError;
pub use iter::{Iter, TryIter, iter, try_iter};
pub use reader::{Reader, reader};
#[cfg(feature = "futures")]
pub use stream::{FromStream, FromTryStream, stream, try_stream};

use crate::{
    channel::{ByteSource, Fault},
    task_error::catch,
};
use bytes::Bytes;
use std::task::{Context, Poll};

/// Something that gives messages one by one, to be written as there is room: rows of a query, quotes, parts of a reply, bytes.
///
/// What it gives is one thing in pieces, unless it says otherwise ([`separate`](Self::separate)): a channel to which only a part could be
/// written is closed. Every [`ByteSource`] is one.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Fault, Peer, pipeline, source::{self, ItemSource}};
/// use std::task::{Context, Poll};
///
/// /// Every other number up to a last one.
/// struct Odd { next: u32, last: u32 }
///
/// impl ItemSource for Odd {
///     type Item = String;
///     fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<String>, Fault>> {
///         let number = self.next;
///         self.next += 2;
///         Poll::Ready(Ok((number <= self.last).then(|| format!("{number} "))))
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().serve(async |mut peer: Peer| {
///     assert_eq!(peer.write_from(Odd { next: 1, last: 7 }).await?, 4);
///     peer.write_from(source::iter(["and ", "so ", "on"])).await
///         .map(drop)
/// }));
/// assert_eq!(channel.outbound_bytes(), b"1 3 5 7 and so on");
/// ```
#[doc(alias = "stream")]
#[doc(alias = "ChunkedWriteHandler")]
pub trait ItemSource {
    /// What it gives.
    type Item;

    /// The next item; `None` at the end. Giving the wait up loses nothing.
    ///
    /// # Errors
    /// There will be no more although the end has not come: why.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Self::Item>, Fault>>;

    /// What an item adds to the sum that `write_from` tells: 1, and for bytes how many they are. What counts nothing is not written,
    /// and says that there is nothing yet.
    fn size(&self, item: &Self::Item) -> u64 {
        let _ = item;
        1
    }

    /// Whether each item stands for itself.
    fn is_separate(&self) -> bool {
        false
    }

    /// This source with items that stand for themselves: who stops in the middle, or a source that fails, leaves the channel open.
    ///
    /// ```
    /// use netwright_core::{CloseCause, EmbeddedChannel, Peer, Selected, pipeline, select, source::{self, ItemSource}, time};
    /// use std::time::Duration;
    ///
    /// // Ticks until somebody says something: giving the ticks up is no end of the conversation.
    /// let mut channel = EmbeddedChannel::new(pipeline().serve(async |peer: Peer| {
    ///     let (mut reader, mut writer) = peer.split();
    ///     let ticks = source::iter(std::iter::repeat("tick ").take(3)).separate();
    ///     let mut waits = time::sleep(Duration::from_secs(3600));
    ///     let ticking = async { writer.write_from(ticks).await?; (&mut waits).await; Ok::<(), CloseCause>(()) };
    ///     if let Selected::First(said) = select(reader.read(), Box::pin(ticking)).await {
    ///         said?;
    ///     }
    ///     writer.write("enough").await
    /// }));
    /// channel.write_inbound("stop");
    /// assert_eq!(channel.outbound_bytes(), b"tick tick tick enough");
    /// ```
    fn separate(self) -> Separate<Self>
    where
        Self: Sized,
    {
        Separate { source: self }
    }
}

impl<S: ByteSource + ?Sized> ItemSource for S {
    type Item = Bytes;

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        self.poll_piece(cx)
    }
    fn size(&self, item: &Bytes) -> u64 {
        item.len() as u64
    }
}

/// A source whose items stand for themselves. Made by [`ItemSource::separate`].
#[derive(Debug, Clone)]
#[must_use = "nothing is given before somebody asks"]
pub struct Separate<S> {
    source: S,
}

impl<S: ItemSource> ItemSource for Separate<S> {
    type Item = S::Item;

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<S::Item>, Fault>> {
        self.source.poll_next(cx)
    }
    fn size(&self, item: &S::Item) -> u64 {
        self.source.size(item)
    }
    fn is_separate(&self) -> bool {
        true
    }
}

/// What whoever writes has of a source: it is gone when there is nothing more to ask for.
pub(crate) struct Asked<S> {
    source: Option<S>,
    separate: bool,
}

/// What came of asking.
pub(crate) enum Given<M> {
    Item(M, u64),
    End,
    Failed(Fault),
}

impl<S: ItemSource> Asked<S> {
    pub(crate) fn new(source: S) -> Self {
        let separate = source.is_separate();
        Self { source: Some(source), separate }
    }

    /// Whether it may stop in the middle.
    pub(crate) fn is_separate(&self) -> bool {
        self.separate
    }

    /// The next item that counts something. One that does not takes no room, so a source that is never short of them would be asked for
    /// ever: it is asked again in another turn.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Given<S::Item>> {
        let Some(source) = &mut self.source else { return Poll::Ready(Given::End) };
        let next = catch(|| match source.poll_next(cx) {
            Poll::Ready(Ok(Some(item))) => {
                let size = source.size(&item);
                Poll::Ready(Ok(Some((item, size))))
            }
            Poll::Ready(Ok(None)) => Poll::Ready(Ok(None)),
            Poll::Ready(Err(fault)) => Poll::Ready(Err(fault)),
            Poll::Pending => Poll::Pending,
        });
        let given = match next {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Ok(Some((_, 0))))) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Ok(Poll::Ready(Ok(Some((item, size))))) => return Poll::Ready(Given::Item(item, size)),
            Ok(Poll::Ready(Ok(None))) => Given::End,
            Ok(Poll::Ready(Err(fault))) => Given::Failed(fault),
            Err(message) => Given::Failed(SourceError::Panicked(message).into()),
        };
        // Its drop is somebody else's code as well.
        let source = self.source.take();
        match (catch(move || drop(source)), given) {
            (Err(message), Given::End) => Poll::Ready(Given::Failed(SourceError::Panicked(message).into())),
            (_, given) => Poll::Ready(given),
        }
    }
}
