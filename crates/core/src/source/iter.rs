//! Iterators as sources.

use super::ItemSource;
use crate::channel::Fault;
use std::{
    error::Error,
    task::{Context, Poll},
};

/// What an iterator gives, one by one. It is asked on the thread that writes, so it must not block: what does is for
/// [`reader`](super::reader()), or for an async function.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, pipeline, source};
/// use bytes::BytesMut;
///
/// /// Answers with as many lines as it is asked for, as fast as they are taken.
/// struct Lines;
///
/// impl Application for Lines {
///     type Read = BytesMut;
///     type Write = netwright_core::Outgoing;
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, request: BytesMut) {
///         let lines = (0..request[0]).map(|number| format!("line {number}\n"));
///         cx.write_from(source::iter(lines)); // goes on when this call is over
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().app(Lines));
/// channel.block_output(true).write_inbound([200]);
/// let waiting = channel.outbound_bytes().len();
/// channel.block_output(false).run();
/// assert_eq!(waiting + channel.outbound_bytes().len(), (0..200).map(|number| format!("line {number}\n").len()).sum::<usize>());
/// ```
pub fn iter<I: IntoIterator>(items: I) -> Iter<I::IntoIter> {
    Iter { items: items.into_iter() }
}

/// [`iter`] for items that may be errors: the first one ends the source with it.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, Peer, pipeline, source};
///
/// let mut channel = EmbeddedChannel::new(pipeline().serve(async |mut peer: Peer| {
///     let rows = [Ok("one "), Ok("two "), Err(std::fmt::Error)];
///     peer.write_from(source::try_iter(rows)).await.map(drop)
/// }));
/// assert_eq!(channel.outbound_bytes(), b"one two ");
/// assert!(matches!(channel.channel().close_cause(), Some(CloseCause::Fault(fault)) if fault.downcast_ref::<std::fmt::Error>().is_some()));
/// ```
pub fn try_iter<I, T, E>(items: I) -> TryIter<I::IntoIter>
where
    I: IntoIterator<Item = Result<T, E>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    TryIter { items: items.into_iter() }
}

/// An iterator as a source. Made by [`iter`].
#[derive(Debug, Clone)]
#[must_use = "nothing is given before somebody asks"]
pub struct Iter<I> {
    items: I,
}

/// An iterator of results as a source. Made by [`try_iter`].
#[derive(Debug, Clone)]
#[must_use = "nothing is given before somebody asks"]
pub struct TryIter<I> {
    items: I,
}

impl<I: Iterator> ItemSource for Iter<I> {
    type Item = I::Item;

    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<I::Item>, Fault>> {
        Poll::Ready(Ok(self.items.next()))
    }
}

impl<I, T, E> ItemSource for TryIter<I>
where
    I: Iterator<Item = Result<T, E>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Item = T;

    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<T>, Fault>> {
        Poll::Ready(self.items.next().transpose().map_err(Fault::new))
    }
}
