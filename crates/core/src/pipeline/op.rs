//! What travels from the application towards the wire.
//!
//! ```text
//!   write   flush   rest
//!   [ w ]   [ f ]   [ … ]      taken from the left, added at the first place that has nothing behind it
//! ```
//! Nearly always a handler asks for one write, or one flush, or one write and one flush: these have places of their own,
//! next to the stage. A write that passes through ten stages is then moved ten times as it is, and an idle channel has no
//! queue allocated.
//!
//! Always true: operations come out in the order in which they went in.

use super::waiting::Waiting;
use crate::channel::{CloseCause, Weight, WritePromise};
use std::convert::Infallible;

/// An outbound operation, waiting at the boundary between two stages.
#[doc(hidden)]
pub enum Op<W> {
    Write(W, WritePromise),
    Flush,
    Close(CloseCause, WritePromise),
    /// Send what is queued, then tell the peer that no more will come.
    ShutDownOutput(WritePromise),
}

impl Op<Infallible> {
    /// The same among operations on messages.
    pub(crate) fn of_any<W>(self) -> Op<W> {
        match self {
            Self::Write(never, _) => match never {},
            Self::Flush => Op::Flush,
            Self::Close(cause, done) => Op::Close(cause, done),
            Self::ShutDownOutput(done) => Op::ShutDownOutput(done),
        }
    }
}

/// Outbound operations in order.
pub(crate) struct Ops<W> {
    write: Option<(W, WritePromise)>,
    flush: bool,
    /// How many there are in all places.
    len: u32,
    rest: Waiting<Op<W>>,
    /// What messages count for here: said by the stage that takes them.
    weight: Weight<W>,
}

impl<W> Ops<W> {
    pub(crate) const fn new() -> Self {
        Self::weighing(Weight::unsaid())
    }

    /// Where messages count for what is said.
    #[inline]
    pub(crate) const fn weighing(weight: Weight<W>) -> Self {
        Self { write: None, flush: false, len: 0, rest: Waiting::new(), weight }
    }

    #[inline]
    pub(crate) fn weight(&self) -> Weight<W> {
        self.weight
    }

    pub(crate) fn set_weight(&mut self, weight: Weight<W>) {
        self.weight = weight;
    }

    /// Takes everything out, to be dropped by the caller.
    pub(crate) fn take_all(&mut self) -> Self {
        let weight = self.weight;
        std::mem::replace(self, Self::weighing(weight))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there is anything to be dropped: an operation, or a queue for them.
    #[inline]
    pub(crate) fn is_in_use(&self) -> bool {
        self.len > 0 || self.rest.is_allocated()
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn push_write(&mut self, msg: W, done: WritePromise) {
        self.len += 1;
        if self.len == 1 {
            self.write = Some((msg, done));
        } else {
            self.rest.push_back(Op::Write(msg, done));
        }
    }

    #[inline]
    pub(crate) fn push_flush(&mut self) {
        self.len += 1;
        if self.len == 1 || self.len == 2 && self.write.is_some() {
            self.flush = true;
        } else {
            self.rest.push_back(Op::Flush);
        }
    }

    pub(crate) fn push(&mut self, op: Op<W>) {
        match op {
            Op::Write(msg, done) => self.push_write(msg, done),
            Op::Flush => self.push_flush(),
            other => {
                self.len += 1;
                self.rest.push_back(other);
            }
        }
    }

    /// Takes a flush that is all there is.
    #[inline]
    pub(crate) fn take_lone_flush(&mut self) -> bool {
        let lone = self.len == 1 && self.flush;
        if lone {
            self.len = 0;
            self.flush = false;
        }
        lone
    }

    /// The next operation, if it is a write in its own place. To be asked first.
    #[inline]
    pub(crate) fn take_write(&mut self) -> Option<(W, WritePromise)> {
        let write = self.write.take();
        self.len -= u32::from(write.is_some());
        write
    }

    /// Whether the next operation is a flush in its own place. To be asked second.
    #[inline]
    pub(crate) fn take_flush(&mut self) -> bool {
        let flush = std::mem::take(&mut self.flush);
        self.len -= u32::from(flush);
        flush
    }

    /// The next operation, whatever it is.
    pub(crate) fn take_any(&mut self) -> Option<Op<W>> {
        if let Some((msg, done)) = self.take_write() {
            return Some(Op::Write(msg, done));
        }
        if self.take_flush() { Some(Op::Flush) } else { self.take_rest() }
    }

    /// The next operation of all others. To be asked last.
    #[inline]
    pub(crate) fn take_rest(&mut self) -> Option<Op<W>> {
        let op = self.rest.pop_front();
        self.len -= u32::from(op.is_some());
        op
    }
}
