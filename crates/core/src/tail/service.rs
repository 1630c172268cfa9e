//! Requests in, replies out: several futures at a time, replies in the order of their requests, or as they are ready.

use crate::{
    channel::{CarriedBy, HalfClosure, TailEnded, WritePromise},
    pipeline::{Context, Handler, Job},
};
use std::{
    collections::VecDeque,
    convert::Infallible,
    marker::PhantomData,
    num::NonZeroUsize,
    pin::Pin,
    task::{self, Poll, Waker},
};

/// A function from requests to futures of replies, as the last stage. Made by
/// [`service`](crate::PipelineBuilder::service) and [`service_unordered`](crate::PipelineBuilder::service_unordered).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline, time};
/// use bytes::{Bytes, BytesMut};
/// use std::{num::NonZeroUsize, time::Duration};
///
/// // `service` adds it; two requests at a time, replies in order.
/// let two = NonZeroUsize::new(2).unwrap();
/// let mut channel = EmbeddedChannel::new(pipeline().service(two, |request: BytesMut| async move {
///     if request == "slow" {
///         time::sleep(Duration::from_secs(1)).await;
///     }
///     request.freeze()
/// }));
/// channel.write_inbound("slow").write_inbound("fast");
/// assert_eq!(channel.outbound_bytes(), b"");
/// channel.advance(Duration::from_secs(1));
/// assert_eq!(channel.outbound_bytes(), b"slowfast");
/// ```
pub struct Service<R, W, F, T> {
    call: F,
    concurrency: NonZeroUsize,
    /// Requests that may be asked for and have not been.
    owed: usize,
    /// In the order of their requests, and the first one is not done; or in no order, and none of them is.
    calls: VecDeque<Slot<T, W>>,
    ordered: bool,
    waker: Option<Waker>,
    unflushed: bool,
    /// A message has come since the last `read_complete`, which will flush.
    reading: bool,
    /// The peer sends no more: the channel ends with the last reply.
    input_ended: bool,
    /// Messages came without being asked for before this stage was added, and do so when it has left.
    flowed: bool,
    reads: PhantomData<fn(R)>,
}

enum Slot<T, W> {
    Running(Pin<Box<T>>),
    Done(W),
}

impl<R, W, F, T> Service<R, W, F, T>
where
    R: 'static,
    W: 'static,
    F: FnMut(R) -> T + 'static,
    T: Future<Output: CarriedBy<W>> + 'static,
{
    pub(super) fn new(concurrency: NonZeroUsize, ordered: bool, call: F) -> Self {
        Self {
            call,
            concurrency,
            owed: 0,
            calls: VecDeque::new(),
            ordered,
            waker: None,
            unflushed: false,
            reading: false,
            input_ended: false,
            flowed: false,
            reads: PhantomData,
        }
    }

    /// Polls what runs, from the given call on, and sends the replies whose turn it is.
    fn poll(&mut self, cx: &mut Context<'_, Self>, from: usize) {
        let Some(known) = self.waker.take() else { return };
        let mut waker = task::Context::from_waker(&known);
        let mut index = from;
        while let Some(slot) = self.calls.get_mut(index) {
            if let Slot::Running(future) = slot
                && let Poll::Ready(reply) = future.as_mut().poll(&mut waker)
            {
                let reply = reply.carried();
                if !self.ordered {
                    drop(self.calls.swap_remove_back(index)); // the last one takes its place, and is the next to be asked
                    self.reply(cx, reply);
                    continue;
                }
                *slot = Slot::Done(reply);
            }
            index += 1;
        }
        self.waker = Some(known);
        while let Some(Slot::Done(_)) = self.calls.front() {
            if let Some(Slot::Done(reply)) = self.calls.pop_front() {
                self.reply(cx, reply);
            }
        }
        self.ask(cx);
        self.end_if_done(cx);
    }

    fn reply(&mut self, cx: &mut Context<'_, Self>, reply: W) {
        cx.write(reply);
        self.owed += 1; // one more request may come
        self.unflushed = true;
    }

    /// Ends the channel when everything that was asked is answered and nothing more will be.
    fn end_if_done(&mut self, cx: &mut Context<'_, Self>) {
        if self.input_ended && self.calls.is_empty() {
            self.unflushed = false;
            cx.flush();
            cx.tail_ended(TailEnded::BehindItsPeer);
        }
    }

    /// Asks for as many requests as may be worked on, unless the peer does not take its replies.
    fn ask(&mut self, cx: &mut Context<'_, Self>) {
        while self.owed > 0 && cx.is_writable() {
            self.owed -= 1;
            cx.request();
        }
    }

    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        if std::mem::take(&mut self.unflushed) {
            cx.flush();
        }
    }
}

/// Polls the calls whenever one of them is woken.
struct Drive;

impl<R, W, F, T> Job<Service<R, W, F, T>> for Drive
where
    R: 'static,
    W: 'static,
    F: FnMut(R) -> T + 'static,
    T: Future<Output: CarriedBy<W>> + 'static,
{
    fn poll(
        self: Pin<&mut Self>,
        waker: &mut task::Context<'_>,
        stage: &mut Service<R, W, F, T>,
        cx: &mut Context<'_, Service<R, W, F, T>>,
    ) -> Poll<()> {
        if stage.waker.is_none() {
            stage.waker = Some(waker.waker().clone());
            stage.owed = stage.concurrency.get(); // from now on calls can be polled
        }
        stage.reading = false; // a turn of its own
        stage.poll(cx, 0);
        stage.flush(cx);
        Poll::Pending
    }

    fn lasts(&self) -> bool {
        true
    }
}

impl<R, W, F, T> Handler for Service<R, W, F, T>
where
    R: 'static,
    W: 'static,
    F: FnMut(R) -> T + 'static,
    T: Future<Output: CarriedBy<W>> + 'static,
{
    type Read = R;
    type ReadOut = Infallible;
    type Write = W;
    type WriteOut = W;

    fn added(&mut self, cx: &mut Context<'_, Self>) {
        self.flowed = cx.view().is_flowing();
        cx.pause(); // as many requests are read as may be worked on
    }

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        cx.spawn_job(Drive);
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, request: R) {
        self.reading = true;
        let future = Box::pin((self.call)(request));
        self.calls.push_back(Slot::Running(future));
        self.poll(cx, self.calls.len() - 1);
    }

    fn read_complete(&mut self, cx: &mut Context<'_, Self>) {
        self.reading = false;
        self.flush(cx);
    }

    fn writability(&mut self, cx: &mut Context<'_, Self>, _: bool) {
        self.ask(cx);
    }

    fn owes(&self) -> bool {
        !self.calls.is_empty()
    }

    /// What was asked is answered, however long it takes, and then the channel ends.
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        self.input_ended = true;
        self.end_if_done(cx);
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, msg: W, done: WritePromise) {
        cx.write_with(msg, done);
    }

    fn leaving(&mut self, cx: &mut Context<'_, Self>) {
        self.flush(cx);
        cx.restore_demand(self.flowed);
    }

    fn removed(&mut self) {
        self.calls.clear();
    }

    fn name(&self) -> &'static str {
        "service"
    }
}
