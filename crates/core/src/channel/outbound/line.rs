//! The line itself: messages in order, each with the promise of its write.

use super::{
    super::{cause::WritePromise, outgoing::Outgoing, short_queue::ShortQueue, water_marks::WaterMarks},
    Account, ENTRY_OVERHEAD, Outbound, Parcel,
};

pub(super) struct Entry<M> {
    /// What is left to be sent.
    pub(super) rest: M,
    pub(super) promise: WritePromise,
}

impl<M: Parcel> Entry<M> {
    /// Whether there is something to send and nobody who waits for it.
    pub(super) fn is_plain(&self) -> bool {
        !self.promise.is_tracked() && !self.rest.is_sent()
    }

    /// What it adds to the pending bytes.
    pub(super) fn charge(&self) -> usize {
        self.rest.held() + ENTRY_OVERHEAD
    }
}

/// Messages in order, those that may be sent in front.
pub(crate) struct MessageLine<M> {
    pub(super) entries: ShortQueue<Entry<M>>,
    /// How many entries, from the front, may be sent.
    pub(super) flushed: usize,
    /// Bytes of the first message that the transport has in its hands and has not reported as taken.
    pub(super) lent: usize,
}

impl<M> MessageLine<M> {
    pub(crate) const fn new() -> Self {
        Self { entries: ShortQueue::new(), flushed: 0, lent: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The first message, if it may be sent.
    #[inline]
    pub(crate) fn first_flushed(&self) -> Option<&M> {
        if self.flushed == 0 { None } else { self.entries.first().map(|entry| &entry.rest) }
    }

    /// Whether the transport has something to send.
    #[inline]
    pub(crate) fn has_flushed(&self) -> bool {
        self.flushed > 0
    }
}

/// An [`Outbound`] queue of its own, for tests of transports.
///
/// ```
/// use netwright_core::{OutboundQueue, WaterMarks, WritePromise};
///
/// let mut queue = OutboundQueue::new(WaterMarks::default());
/// queue.outbound().push(b"hello".as_slice().into(), WritePromise::untracked());
/// queue.outbound().flush();
/// assert_eq!(queue.outbound().unsent_bytes(), 5);
/// ```
pub struct OutboundQueue<M = Outgoing> {
    account: Account,
    line: MessageLine<M>,
}

impl OutboundQueue {
    /// An empty queue, writable.
    pub fn new(marks: WaterMarks) -> Self {
        Self { account: Account::new(marks), line: MessageLine::new() }
    }
}

impl<M> OutboundQueue<M> {
    /// The queue as a transport gets it.
    pub fn outbound(&mut self) -> Outbound<'_, M> {
        Outbound::of(&mut self.account, &mut self.line)
    }
}
