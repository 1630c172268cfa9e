//! Streams of the `futures` crates as sources.

use super::ItemSource;
use crate::channel::Fault;
use futures_core::Stream;
use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll},
};

/// What a stream gives, as it comes.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, Peer, pipeline, source};
/// # use std::{pin::Pin, task::{Context, Poll}};
/// # struct Numbers(u32);
/// # impl futures_core::Stream for Numbers {
/// #     type Item = String;
/// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<String>> {
/// #         self.0 += 1;
/// #         Poll::Ready((self.0 < 4).then(|| self.0.to_string()))
/// #     }
/// # }
/// # let numbers = Numbers(0);
/// // `numbers` is a `Stream<Item = String>`
/// let mut channel = EmbeddedChannel::new(pipeline().serve(async move |mut peer: Peer| {
///     peer.write_from(source::stream(numbers)).await.map(drop)
/// }));
/// assert_eq!(channel.outbound_bytes(), b"123");
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "futures")))]
pub fn stream<S: Stream>(stream: S) -> FromStream<S> {
    FromStream { stream: Box::pin(stream) }
}

/// [`stream`] for items that may be errors: the first one ends the source with it.
#[cfg_attr(docsrs, doc(cfg(feature = "futures")))]
pub fn try_stream<S, T, E>(stream: S) -> FromTryStream<S>
where
    S: Stream<Item = Result<T, E>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    FromTryStream { stream: Box::pin(stream) }
}

/// A stream as a source. Made by [`stream`].
#[cfg_attr(docsrs, doc(cfg(feature = "futures")))]
#[derive(Debug)]
#[must_use = "nothing is given before somebody asks"]
pub struct FromStream<S> {
    stream: Pin<Box<S>>,
}

/// A stream of results as a source. Made by [`try_stream`].
#[cfg_attr(docsrs, doc(cfg(feature = "futures")))]
#[derive(Debug)]
#[must_use = "nothing is given before somebody asks"]
pub struct FromTryStream<S> {
    stream: Pin<Box<S>>,
}

impl<S: Stream> ItemSource for FromStream<S> {
    type Item = S::Item;

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<S::Item>, Fault>> {
        self.stream.as_mut().poll_next(cx).map(Ok)
    }
}

impl<S, T, E> ItemSource for FromTryStream<S>
where
    S: Stream<Item = Result<T, E>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Item = T;

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<T>, Fault>> {
        self.stream.as_mut().poll_next(cx).map(|next| next.transpose().map_err(Fault::new))
    }
}
