//! Bytes that come piece by piece, and the way of any source into a channel.
//!
//! ```text
//!   source ── poll_next ───▶ [ one piece ] ── room? ──▶ write, flush ──▶ channel
//!      ▲                                       │ none: wait, and ask the source for nothing
//!      └──────────── next ◀────────────────────┘
//! ```
//! Always true:
//! 1. A piece is asked for when the one before it was written: no more than one waits here. What a source reads ahead is its own.
//! 2. What was begun is finished, or the channel ends: its peer would take what comes next for the rest.
//!
//! Not here: what a source is (`source/`), and how a handler writes from one (`pipeline/write_from.rs`). A source of files is in
//! `netwright-transport`.

use super::{Carries, Channel, CloseCause, Fault, WriteError, Written};
use crate::{
    select::{Selected, select},
    source::{Asked, Given, ItemSource},
    tail::{Peer, PeerWriter},
};
use bytes::Bytes;
use std::{
    future::poll_fn,
    marker::PhantomData,
    task::{Context, Poll},
};

/// Something that gives bytes piece by piece: a file, what another program prints, what is computed.
///
/// ```
/// use netwright_core::{ByteSource, EmbeddedChannel, Fault, Peer, pipeline};
/// use bytes::{Bytes, BytesMut};
/// use std::task::{Context, Poll};
///
/// /// Counts down.
/// struct Countdown(u32);
///
/// impl ByteSource for Countdown {
///     fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
///         self.0 = self.0.saturating_sub(1);
///         Poll::Ready(Ok((self.0 > 0).then(|| Bytes::from(format!("{} ", self.0)))))
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().serve(async |mut peer: Peer| {
///     let bytes = peer.write_from(Countdown(4)).await?;
///     peer.write(Bytes::from(format!("after {bytes} bytes"))).await
/// }));
/// assert_eq!(channel.outbound_bytes(), b"3 2 1 after 6 bytes");
/// ```
pub trait ByteSource {
    /// The next piece; `None` at the end. An empty one says that there is none yet, and that it is to be asked again. Giving the
    /// wait up loses nothing.
    ///
    /// # Errors
    /// There will be no more pieces although the end has not come: why.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>>;

    /// How many bytes are still to come, if that is known.
    fn bytes_left(&self) -> Option<u64> {
        None
    }
}

impl<S: ByteSource + ?Sized> ByteSource for Box<S> {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        (**self).poll_piece(cx)
    }
    fn bytes_left(&self) -> Option<u64> {
        (**self).bytes_left()
    }
}

impl<S: ByteSource + ?Sized> ByteSource for &mut S {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        (**self).poll_piece(cx)
    }
    fn bytes_left(&self) -> Option<u64> {
        (**self).bytes_left()
    }
}

impl<W: 'static> Channel<W> {
    /// Writes all that `source` gives, each piece when there is room for it: bytes ([`ByteSource`]), or messages ([`ItemSource`]). Resolves to
    /// the number of bytes, or of messages, when the transport has taken the last one.
    ///
    /// If the source fails, or this future is dropped when a part has been written, the channel is closed: its peer would take what
    /// comes next for the rest. The error of the source is the cause of that end. An async tail goes with its channel, so one that
    /// writes like this is not told, but whoever looks at the [cause](Channel::close_cause) is. Items that are
    /// [separate](ItemSource::separate) leave the channel open in both cases.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, EventLoop, pipeline, source};
    ///
    /// let mut embedded = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
    /// let channel = embedded.channel().clone(); // may go to any thread
    /// let elsewhere = EventLoop::new();
    /// let mut sent = elsewhere.spawn(async move {
    ///     channel.write_from(source::iter(["eeny ", "meeny ", "miny"])).await
    /// })?;
    /// let mut got = Vec::new();
    /// while got.len() < 15 {
    ///     got.extend(embedded.run().outbound_bytes());
    /// }
    /// assert_eq!(got, b"eeny meeny miny");
    /// embedded.run();
    /// assert_eq!(sent.wait()??, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Not everything was sent: why the channel has ended, or why the source has, if its items are separate.
    pub async fn write_from<S: ItemSource>(&self, source: S) -> Result<u64, CloseCause>
    where
        W: Carries<S::Item>,
    {
        let mut channel = self;
        pour(&mut channel, source, self.clone()).await
    }
}

impl<R: 'static, W: 'static> PeerWriter<R, W> {
    /// [`Channel::write_from`], in order with what this half writes.
    ///
    /// # Errors
    /// As those of [`Channel::write_from`].
    pub async fn write_from<S: ItemSource>(&mut self, source: S) -> Result<u64, CloseCause>
    where
        W: Carries<S::Item>,
    {
        let channel = self.channel();
        pour(self, source, channel).await
    }
}

impl<R: 'static, W: 'static> Peer<R, W> {
    /// [`Channel::write_from`], in order with what else is written here.
    ///
    /// # Errors
    /// As those of [`Channel::write_from`].
    pub async fn write_from<S: ItemSource>(&mut self, source: S) -> Result<u64, CloseCause>
    where
        W: Carries<S::Item>,
    {
        self.halves().1.write_from(source).await
    }
}

/// Where pieces can be written.
trait Outlet<W> {
    async fn room(&mut self) -> Result<(), CloseCause>;
    /// Writes and sends.
    fn put(&mut self, msg: W) -> Written;
    /// Closes the channel, in order with what is written here: nothing gets behind what went out before.
    fn break_off(&mut self, cause: CloseCause);
}

impl<W: 'static> Outlet<W> for &Channel<W> {
    async fn room(&mut self) -> Result<(), CloseCause> {
        if !self.is_writable() {
            self.flush(); // what fills the channel may have been written without one, and would never leave
        }
        self.writable().await
    }
    fn put(&mut self, msg: W) -> Written {
        self.send(msg)
    }
    fn break_off(&mut self, cause: CloseCause) {
        drop(self.close_because(cause));
    }
}

impl<R: 'static, W: 'static> Outlet<W> for PeerWriter<R, W> {
    async fn room(&mut self) -> Result<(), CloseCause> {
        poll_fn(|cx| self.poll_ready(cx)).await
    }
    fn put(&mut self, msg: W) -> Written {
        let written = self.write_now_tracked(msg);
        self.flush();
        written
    }
    fn break_off(&mut self, cause: CloseCause) {
        self.close_because(cause);
    }
}

/// Closes the channel unless everything was written, or nothing.
struct Begun<'o, O: Outlet<W>, W> {
    outlet: &'o mut O,
    part: bool,
    writes: PhantomData<W>,
}

impl<O: Outlet<W>, W> Begun<'_, O, W> {
    fn break_off(&mut self, fault: Fault) {
        self.part = false;
        self.outlet.break_off(CloseCause::Fault(fault));
    }
}

impl<O: Outlet<W>, W> Drop for Begun<'_, O, W> {
    fn drop(&mut self) {
        if self.part {
            self.break_off(Fault::new("what was written piece by piece was given up before its end"));
        }
    }
}

async fn pour<W: Carries<S::Item> + 'static, S: ItemSource>(
    outlet: &mut impl Outlet<W>,
    source: S,
    channel: Channel<W>,
) -> Result<u64, CloseCause> {
    let mut source = Asked::new(source);
    let mut begun = Begun { outlet, part: false, writes: PhantomData };
    let (mut sum, mut last) = (0_u64, None);
    loop {
        let next = select(poll_fn(|cx| source.poll(cx)), channel.closed()).await;
        let (item, size) = match next {
            Selected::First(Given::Item(item, size)) => (item, size),
            Selected::First(Given::End) => break,
            Selected::First(Given::Failed(fault)) if source.is_separate() => {
                return Err(CloseCause::Fault(fault));
            }
            Selected::First(Given::Failed(fault)) => {
                begun.break_off(fault);
                return Err(channel.closed().await);
            }
            Selected::Second(cause) => return Err(cause),
        };
        begun.outlet.room().await?;
        begun.part = !source.is_separate();
        sum = sum.saturating_add(size);
        last = Some(begun.outlet.put(W::carry(item)));
    }
    begun.part = false;
    match last {
        None => Ok(sum),
        Some(written) => match written.await {
            Ok(()) => Ok(sum),
            Err(WriteError::Closed(cause)) => Err(cause),
            Err(error) => Err(CloseCause::Fault(error.into())),
        },
    }
}
