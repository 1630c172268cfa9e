//! What the stage and the peer of an async tail share. One thread; every borrow is short.

use crate::{
    arena::{Arena, Key},
    channel::{Channel, CloseCause, ShortQueue, TailEnded, WriteError, WritePromise},
};
use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll, Waker},
};

/// Messages that may wait for the stage to take them before a writer has to wait.
const OUTBOX_MAX: usize = 64;
/// And about so many bytes of them.
const OUTBOX_BYTES_MAX: usize = 64 * 1024;

pub(super) type SharedState<R, W> = Rc<RefCell<State<R, W>>>;

pub(super) enum Out<W> {
    Write(W, WritePromise),
    Flush,
    ShutDownOutput(WritePromise),
    CloseWhenFlushed,
    /// At once, with everything that was written after it.
    CloseBecause(Box<CloseCause>),
}

/// How reading can go on.
#[derive(Clone, Copy)]
enum Input {
    Open,
    /// The peer sends no more.
    Ended,
    /// The channel ended otherwise: `closed` says how.
    Failed,
}

pub(super) struct State<R, W> {
    /// One message at most, unless somebody asks beside the tail: in its own place, so that an idle tail holds no room for more.
    inbox: ShortQueue<R>,
    /// Somebody has asked for a message at least once.
    has_read: bool,
    /// Somebody waits for a message, and the pipeline has not been asked for it yet.
    pub(super) wanted: bool,
    /// The pipeline has been asked for a message that has not come yet.
    pub(super) asked: bool,
    input: Input,
    pub(super) outbox: ShortQueue<Out<W>>,
    /// Bytes in the outbox, about.
    outbox_bytes: usize,
    writable: bool,
    closed: Option<CloseCause>,
    shutting_down: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Those who wait for the end, or for word of it: one pointer until somebody does.
    watchers: Option<Box<Arena<Waker>>>,
    /// The future is being polled by its stage, which looks here afterwards by itself.
    pub(super) in_stage: bool,
    /// Has the stage look here; the future is polled with it.
    pub(super) stage: Option<Waker>,
    pub(super) channel: Option<Channel<W>>,
}

impl<R, W> State<R, W> {
    pub(super) fn new() -> SharedState<R, W> {
        Rc::new(RefCell::new(Self {
            inbox: ShortQueue::new(),
            has_read: false,
            wanted: false,
            asked: false,
            input: Input::Open,
            outbox: ShortQueue::new(),
            outbox_bytes: 0,
            writable: true,
            closed: None,
            shutting_down: false,
            reader: None,
            writer: None,
            watchers: None,
            in_stage: false,
            stage: None,
            channel: None,
        }))
    }

    // ---- the stage's side: what changes returns whom to wake, for when the borrow is over ----

    pub(super) fn arrived(&mut self, msg: R) -> Option<Waker> {
        self.inbox.push_back(msg);
        self.asked = false;
        self.reader.take()
    }

    /// What arrived and was not read.
    pub(super) fn take_inbox(&mut self) -> Vec<R> {
        std::mem::take(&mut self.inbox).into_iter().collect()
    }

    pub(super) fn input_ended(&mut self) -> Option<Waker> {
        if matches!(self.input, Input::Open) {
            self.input = Input::Ended;
        }
        self.reader.take()
    }

    pub(super) fn ended(&mut self, cause: CloseCause) -> Vec<Waker> {
        if matches!(self.input, Input::Open) {
            self.input = match &cause {
                CloseCause::PeerClosed => Input::Ended,
                _ => Input::Failed,
            };
        }
        // Stages on its way may know more than the transport, which has told writers before.
        self.closed = Some(cause.clone());
        let mut wakers = self.cut(cause);
        wakers.extend(self.reader.take());
        wakers
    }

    /// The channel has ended, and what had come before may still be read: writers have nothing to wait for.
    pub(super) fn cut(&mut self, cause: CloseCause) -> Vec<Waker> {
        self.closed.get_or_insert(cause);
        let mut wakers = self.take_watchers();
        wakers.extend(self.writer.take());
        wakers
    }

    pub(super) fn shuts_down(&mut self) -> Vec<Waker> {
        self.shutting_down = true;
        self.take_watchers()
    }

    /// Empties the places, which stay: whoever has one finds it empty, and not somebody else's.
    fn take_watchers(&mut self) -> Vec<Waker> {
        self.watchers.as_mut().map(|watchers| watchers.take_all()).unwrap_or_default()
    }

    /// Whether there is room, as the channel sees it now that the outbox is empty.
    pub(super) fn set_writable(&mut self, writable: bool) -> Option<Waker> {
        self.writable = writable;
        self.outbox_bytes = 0;
        if writable { self.writer.take() } else { None }
    }

    /// What the end of the function is, if it comes now and is no error.
    pub(super) fn end_of_tail(&self) -> TailEnded {
        match self.input {
            Input::Open => TailEnded::ByItself,
            Input::Ended | Input::Failed => TailEnded::BehindItsPeer,
        }
    }

    pub(super) fn has_read(&self) -> bool {
        self.has_read
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    // ---- the peer's side ----

    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<R>, CloseCause>> {
        self.has_read = true;
        if let Some(msg) = self.inbox.pop_front() {
            return Poll::Ready(Ok(Some(msg)));
        }
        match (self.input, &self.closed) {
            (Input::Failed, Some(cause)) => Poll::Ready(Err(cause.clone())),
            (Input::Ended | Input::Failed, _) => Poll::Ready(Ok(None)),
            (Input::Open, _) => {
                self.wanted = !self.asked;
                remember(&mut self.reader, cx);
                Poll::Pending
            }
        }
    }

    /// Ready when something may be written.
    pub(super) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CloseCause>> {
        if let Some(cause) = &self.closed {
            return Poll::Ready(Err(cause.clone()));
        }
        if self.writable && self.outbox.len() < OUTBOX_MAX && self.outbox_bytes < OUTBOX_BYTES_MAX {
            return Poll::Ready(Ok(()));
        }
        remember(&mut self.writer, cx);
        Poll::Pending
    }

    /// Takes something for the stage. Given back if the channel has ended: nobody will look here any more.
    pub(super) fn put(&mut self, out: Out<W>, bytes: usize) -> Result<(), Unwanted<W>> {
        if let Some(cause) = &self.closed {
            return Err(Unwanted { out, cause: cause.clone() });
        }
        self.outbox_bytes = self.outbox_bytes.saturating_add(bytes);
        self.outbox.push_back(out);
        Ok(())
    }

    pub(super) fn end(&self) -> Option<CloseCause> {
        self.closed.clone()
    }

    /// What was put and will not be taken.
    pub(super) fn take_outbox(&mut self, cause: &CloseCause) -> Vec<Unwanted<W>> {
        let outbox = std::mem::take(&mut self.outbox);
        outbox.into_iter().map(|out| Unwanted { out, cause: cause.clone() }).collect()
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Keeps a waker for whoever watches, in the place that it has, or in a new one. Returns the waker that was there, to
    /// be dropped when the borrow is over.
    pub(super) fn watch(&mut self, place: &mut Option<Key>, waker: Waker) -> Option<Waker> {
        let watchers = self.watchers.get_or_insert_default();
        match place.and_then(|key| watchers.get_mut(key)) {
            Some(known) => Some(std::mem::replace(known, waker)),
            None => {
                *place = Some(watchers.insert(waker));
                None
            }
        }
    }

    /// Somebody watches no more.
    pub(super) fn unwatch(&mut self, place: Key) -> Option<Waker> {
        self.watchers.as_mut()?.remove(place)
    }

    /// Whether the stage has to be told, because nobody else will make it look here.
    pub(super) fn poke(&self) -> Option<Waker> {
        let news = self.wanted || !self.outbox.is_empty();
        if news && !self.in_stage { self.stage.clone() } else { None }
    }
}

/// Something that came too late, and why.
pub(super) struct Unwanted<W> {
    out: Out<W>,
    cause: CloseCause,
}

impl<W> Unwanted<W> {
    /// Tells whoever waits to hear of it, with no borrow held.
    pub(super) fn refuse(self) {
        let done = match self.out {
            Out::Write(msg, done) => {
                drop(msg);
                done
            }
            Out::ShutDownOutput(done) => done,
            Out::Flush | Out::CloseWhenFlushed | Out::CloseBecause(_) => return,
        };
        done.fail(WriteError::Closed(self.cause));
    }
}

fn remember(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(known) => known.clone_from(cx.waker()),
        None => *place = Some(cx.waker().clone()),
    }
}
