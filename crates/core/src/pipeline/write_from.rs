//! A source that a handler writes from: pieces leave while the handler goes on.
//!
//! ```text
//!   handler ── cx.write_from(source) ──▶ [ job of the stage ] ── cx.send(item) while there is room ──▶ towards the wire
//!                                              │ none: waits until the oldest of its items is taken
//!                                              ▼
//!                                     Promised<u64, WriteError>
//! ```
//! Always true:
//! 1. While an item of ours waits to be sent and there is no room, the source is not asked. With nothing of ours under way one item is written
//!    whatever others have written, or it would wait for somebody who may never flush.
//! 2. The promise is kept: by the last item's fate, by the source's error, or by the end of the channel.
//! 3. A source that was begun and not finished ends the channel, unless its items are separate: if it fails, or its stage leaves.

use super::{Context, Handler, Job};
use crate::{
    channel::{AnyShared, Carries, CloseCause, Fault, WriteError, Written},
    promise::{Promise, Promised, promise},
    source::{Asked, Given, ItemSource},
};
use pin_project_lite::pin_project;
use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
};

/// So many items are written in one turn, then others have theirs.
const TURN: usize = 64;

impl<H: Handler> Context<'_, H> {
    /// Writes all that `source` gives, each item when there is room for it, while the handler goes on. Tells the number of bytes, or of messages,
    /// when the transport has taken the last one. What the handler writes meanwhile comes between two items.
    ///
    /// If the source fails, or this stage leaves when a part has been written, the channel is closed: its peer would take what comes next for
    /// the rest. Items that are [separate](ItemSource::separate) leave it open. Dropping the future takes nothing back.
    ///
    /// ```
    /// use netwright_core::{AppContext, Application, EmbeddedChannel, HalfClosure, pipeline, source};
    /// use bytes::BytesMut;
    ///
    /// struct Alphabet;
    ///
    /// impl Application for Alphabet {
    ///     type Read = BytesMut;
    ///     type Write = netwright_core::Outgoing;
    ///     fn active(&mut self, cx: &mut AppContext<'_, Self>) {
    ///         let sent = cx.write_from(source::iter(('a'..='z').map(String::from)));
    ///         cx.spawn(sent, |_, cx, sent| {
    ///             cx.write_and_flush(format!(": {} letters", sent.unwrap()));
    ///         });
    ///     }
    ///     fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().app(Alphabet));
    /// assert_eq!(channel.run().outbound_bytes(), b"abcdefghijklmnopqrstuvwxyz: 26 letters");
    /// ```
    ///
    /// # Errors
    /// Of the future: not everything was sent. [`WriteError::Closed`] says why the channel has ended, [`WriteError::Fault`] why the source has, and
    /// [`WriteError::Abandoned`] that the stage has left.
    pub fn write_from<S>(&mut self, source: S) -> Promised<u64, WriteError>
    where
        S: ItemSource + 'static,
        H::WriteOut: Carries<S::Item>,
    {
        let (mut promise, promised) = promise();
        let _ = promise.claim(); // a source ends by itself, or with its channel
        let end = End { promise: Some(promise), way: self.core.way_back(), begun: false };
        let (source, on_their_way) = (Asked::new(source), VecDeque::new());
        self.spawn_job(Pour { source, on_their_way, sum: 0, over: false, end });
        promised
    }
}

pin_project! {
    struct Pour<S> {
        source: Asked<S>,
        // The oldest first.
        on_their_way: VecDeque<Written>,
        sum: u64,
        // The source has no more.
        over: bool,
        end: End,
    }
}

/// What is owed to others, also if the job is dropped.
struct End {
    promise: Option<Promise<u64, WriteError>>,
    way: Option<Arc<dyn AnyShared>>,
    /// A part was written, and the rest has to follow.
    begun: bool,
}

impl End {
    fn tell(&mut self, result: Result<u64, WriteError>) {
        self.begun = false;
        if let Some(promise) = self.promise.take() {
            promise.complete(result);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let cause = self.way.as_ref().and_then(|way| way.cause());
        if let (true, None, Some(way)) = (self.begun, &cause, &self.way) {
            let fault = Fault::new("what was written piece by piece was given up before its end");
            way.break_off(CloseCause::Fault(fault));
        }
        self.tell(Err(cause.map_or(WriteError::Abandoned, WriteError::Closed)));
    }
}

impl<S, H> Job<H> for Pour<S>
where
    S: ItemSource,
    H: Handler<WriteOut: Carries<S::Item>>,
{
    fn poll(
        self: Pin<&mut Self>,
        waker: &mut task::Context<'_>,
        _: &mut H,
        cx: &mut Context<'_, H>,
    ) -> Poll<()> {
        let this = self.project();
        for _ in 0..TURN {
            while let Some(oldest) = this.on_their_way.front_mut() {
                match Pin::new(oldest).poll(waker) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(())) => drop(this.on_their_way.pop_front()),
                    Poll::Ready(Err(error)) => {
                        if this.end.begun && !*this.over {
                            cx.close_because(error.clone().into()); // some of it is missing
                        }
                        this.end.tell(Err(error));
                        return Poll::Ready(());
                    }
                }
            }
            if *this.over {
                if !this.on_their_way.is_empty() {
                    return Poll::Pending;
                }
                this.end.tell(Ok(*this.sum));
                return Poll::Ready(());
            }
            if !this.on_their_way.is_empty() && !cx.is_writable() {
                return Poll::Pending; // the oldest of them calls
            }
            match task::ready!(this.source.poll(waker)) {
                Given::Item(item, size) => {
                    this.end.begun = !this.source.is_separate();
                    *this.sum = this.sum.saturating_add(size);
                    this.on_their_way.push_back(cx.send(item));
                }
                Given::End => {
                    *this.over = true;
                    this.end.begun = false;
                }
                Given::Failed(fault) => {
                    if !this.source.is_separate() {
                        cx.close_because(CloseCause::Fault(fault.clone()));
                    }
                    this.end.tell(Err(WriteError::Fault(fault)));
                    return Poll::Ready(());
                }
            }
        }
        waker.waker().wake_by_ref();
        Poll::Pending
    }

    fn lasts(&self) -> bool {
        true
    }
}
