//! The stage that polls an async tail.

use super::{
    Outcome, Peer,
    state::{Out, SharedState, State, Unwanted},
};
use crate::{
    channel::{CloseCause, HalfClosure, ShuttingDown, WritePromise},
    pipeline::{Context, Event, Handler, Job, Leftover},
};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{self, Poll, Waker},
};

/// An async function as the last stage. Made by [`serve`](crate::PipelineBuilder::serve).
///
/// ```
/// use netwright_core::{EmbeddedChannel, Peer, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// // `serve` adds it; its future's end closes the channel.
/// let mut channel = EmbeddedChannel::new(pipeline().serve(|mut peer: Peer| async move {
///     let _ = peer.write(Bytes::from("goodbye")).await;
/// }));
/// assert_eq!(channel.outbound_bytes(), b"goodbye");
/// assert!(!channel.is_open());
/// ```
pub struct Serve<R, W, F, T> {
    serve: Option<F>,
    future: Option<Pin<Box<T>>>,
    state: SharedState<R, W>,
    /// Something was written and not flushed.
    unflushed: bool,
    /// A message has come since the last `read_complete`, which will flush.
    reading: bool,
    /// Messages came without being asked for before this stage was added, and do so when it has left.
    flowed: bool,
}

impl<R, W, F, T> Serve<R, W, F, T>
where
    R: 'static,
    W: 'static,
    F: FnOnce(Peer<R, W>) -> T + 'static,
    T: Future<Output: Outcome> + 'static,
{
    pub(super) fn new(serve: F) -> Self {
        Self {
            serve: Some(serve),
            future: None,
            state: State::new(),
            unflushed: false,
            reading: false,
            flowed: false,
        }
    }

    /// Polls the future if it is the one that waits; wakes whoever else does.
    fn notify(&mut self, cx: &mut Context<'_, Self>, waiting: impl IntoIterator<Item = Waker>) {
        let mut ours = false;
        for waker in waiting {
            if self.is_own(&waker) {
                ours = true;
            } else {
                waker.wake();
            }
        }
        if ours {
            self.poll(cx);
        }
    }

    /// Whether this waker wakes the future itself. What it points to says so, as long as ours is there to compare: of what is
    /// called through it there is a copy in each crate, so that two copies of the same waker may differ in that.
    fn is_own(&self, waker: &Waker) -> bool {
        self.state.borrow().stage.as_ref().is_some_and(|own| own.data() == waker.data())
    }

    fn poll(&mut self, cx: &mut Context<'_, Self>) {
        let Some(waker) = self.state.borrow().stage.clone() else { return };
        loop {
            let Some(future) = &mut self.future else { return };
            self.state.borrow_mut().in_stage = true;
            let polled = future.as_mut().poll(&mut task::Context::from_waker(&waker));
            self.state.borrow_mut().in_stage = false;
            let waiting = self.carry_out(cx);
            match polled {
                Poll::Ready(output) => return self.finish(cx, output.into_result()),
                // The writer waited for the outbox to be taken, and there is room.
                Poll::Pending if waiting.as_ref().is_some_and(|waiting| self.is_own(waiting)) => {}
                Poll::Pending => {
                    if let Some(waiting) = waiting {
                        waiting.wake();
                    }
                    return self.flush_unless_reading(cx);
                }
            }
        }
    }

    /// Passes on what was written and asked for. Returns who waits for room, if there is any now.
    fn carry_out(&mut self, cx: &mut Context<'_, Self>) -> Option<Waker> {
        loop {
            let next = self.state.borrow_mut().outbox.pop_front();
            match next {
                Some(Out::Write(msg, done)) => {
                    self.unflushed = true;
                    cx.write_with(msg, done);
                }
                Some(Out::Flush) => {
                    self.unflushed = false;
                    cx.flush();
                }
                Some(Out::ShutDownOutput(done)) => {
                    cx.flush();
                    cx.shut_down_output_with(done);
                }
                Some(Out::CloseWhenFlushed) => {
                    cx.flush();
                    cx.close_when_flushed();
                }
                Some(Out::CloseBecause(cause)) => cx.close_because(*cause),
                None => break,
            }
        }
        let mut state = self.state.borrow_mut();
        if std::mem::take(&mut state.wanted) {
            state.asked = true;
            cx.request();
        }
        let writable = cx.is_writable();
        state.set_writable(writable)
    }

    /// `read_complete` flushes while messages come. But it comes behind those that a decoder holds, and who waits for room does not
    /// ask for these: what there is no room for is flushed at once, or there would never be any.
    fn flush_unless_reading(&mut self, cx: &mut Context<'_, Self>) {
        if (!self.reading || !cx.is_writable()) && std::mem::take(&mut self.unflushed) {
            cx.flush();
        }
    }

    fn is_over(&self) -> bool {
        self.future.is_none() && self.serve.is_none()
    }

    /// The future has ended, and so does the channel: after what it wrote is sent, if it ended well.
    fn finish(&mut self, cx: &mut Context<'_, Self>, result: Result<(), CloseCause>) {
        self.future = None;
        if self.state.borrow().is_closed() {
            return cx.resume(); // to the end: nobody reads what comes before it
        }
        cx.flush();
        match result {
            Ok(()) => cx.tail_ended(self.state.borrow().end_of_tail()),
            Err(cause) => cx.close_because(cause),
        }
    }
}

/// Polls the future for the first time, and whenever something else than its channel wakes it.
struct Drive;

impl<R, W, F, T> Job<Serve<R, W, F, T>> for Drive
where
    R: 'static,
    W: 'static,
    F: FnOnce(Peer<R, W>) -> T + 'static,
    T: Future<Output: Outcome> + 'static,
{
    fn poll(
        self: Pin<&mut Self>,
        waker: &mut task::Context<'_>,
        stage: &mut Serve<R, W, F, T>,
        cx: &mut Context<'_, Serve<R, W, F, T>>,
    ) -> Poll<()> {
        stage.state.borrow_mut().stage.get_or_insert_with(|| waker.waker().clone());
        if let Some(serve) = stage.serve.take() {
            stage.future = Some(Box::pin(serve(Peer::new(stage.state.clone()))));
        }
        stage.reading = false; // a turn of its own: what is written in it is flushed in it
        stage.poll(cx);
        let over = stage.future.is_none();
        if over {
            drop(stage.carry_out(cx)); // halves that live elsewhere may have written
            stage.flush_unless_reading(cx);
        }
        if over && stage.state.borrow().is_closed() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn lasts(&self) -> bool {
        true
    }
}

impl<R, W, F, T> Handler for Serve<R, W, F, T>
where
    R: 'static,
    W: 'static,
    F: FnOnce(Peer<R, W>) -> T + 'static,
    T: Future<Output: Outcome> + 'static,
{
    type Read = R;
    type ReadOut = Infallible;
    type Write = W;
    type WriteOut = W;

    fn added(&mut self, cx: &mut Context<'_, Self>) {
        self.flowed = cx.view().is_flowing();
        cx.pause(); // nothing is read before the tail asks for it
    }

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.state.borrow_mut().channel = cx.handle();
        cx.spawn_job(Drive);
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, msg: R) {
        self.reading = true;
        if self.is_over() && cx.view().close_cause().is_some() {
            return; // the function has ended and so has the channel
        }
        let waiting = self.state.borrow_mut().arrived(msg);
        self.notify(cx, waiting);
    }

    fn read_complete(&mut self, cx: &mut Context<'_, Self>) {
        self.reading = false;
        self.flush_unless_reading(cx);
    }

    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        if event.get::<ShuttingDown>().is_some() {
            let waiting = self.state.borrow_mut().shuts_down();
            self.notify(cx, waiting);
        }
    }

    fn writability(&mut self, cx: &mut Context<'_, Self>, writable: bool) {
        let Some(cause) = cx.view().close_cause().cloned() else {
            let waiting = self.state.borrow_mut().set_writable(writable);
            return self.notify(cx, waiting);
        };
        let waiting = self.state.borrow_mut().cut(cause);
        self.notify(cx, waiting);
        if self.is_over() {
            cx.resume(); // to the end: nobody reads what comes before it
        }
    }

    /// Until it has begun, nobody knows what it will read. Then it gets what it asks for, before anybody looks.
    fn owes(&self) -> bool {
        self.serve.is_some()
    }

    /// A function that has read, or reads, hears of the end and may have an answer to it. One that never does would not hear of
    /// it, nor of a peer that has gone: it ends with its channel.
    fn half_closure(&self) -> HalfClosure {
        if self.state.borrow().has_read() { HalfClosure::Needs } else { HalfClosure::Passes }
    }

    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        let waiting = self.state.borrow_mut().input_ended();
        self.notify(cx, waiting);
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        let waiting = self.state.borrow_mut().ended(cause);
        self.notify(cx, waiting);
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, msg: W, done: WritePromise) {
        cx.write_with(msg, done);
    }

    fn leaving(&mut self, cx: &mut Context<'_, Self>) {
        self.state.borrow_mut().wanted = false;
        self.carry_out(cx);
        if std::mem::take(&mut self.unflushed) {
            cx.flush();
        }
        cx.restore_demand(self.flowed);
    }

    fn leftover(&mut self) -> Leftover<R> {
        Leftover::many(self.state.borrow_mut().take_inbox())
    }

    fn removed(&mut self) {
        self.future = None;
        let cause = {
            let state = self.state.borrow();
            let known = || state.channel.as_ref().and_then(|channel| channel.close_cause()); // a stage of a channel that panics is not told
            state.end().or_else(known).unwrap_or(CloseCause::ShutDown)
        };
        let (waiting, unwanted) = {
            let mut state = self.state.borrow_mut();
            (state.ended(cause.clone()), state.take_outbox(&cause))
        };
        // Of a channel that has panicked: nobody has passed it on, and a half of the peer that lives elsewhere would keep it.
        unwanted.into_iter().for_each(Unwanted::refuse);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn name(&self) -> &'static str {
        "serve"
    }
}
