//! Where messages enter that are written to a sealed segment.
//!
//! ```text
//!   Channel<M> ── write(m) ──▶ Inlet<M>: m, m, m          taken by the segment, one for each mark
//!                         └──▶ the channel's commands: [mark][flush][mark][close] …   in the order of one thread
//! ```
//! The channel's own commands have a type that no message can have. So the messages wait here, and a mark for each stands
//! in the line of commands: what one thread asks for is carried out in that order, whatever it is.
//!
//! Always true:
//! 1. While the segment is there, as many messages wait here as marks are on their way: both are put down under the lock
//!    of this queue.
//! 2. Marks alone count for room to write. A mark whose segment has left finds nobody and still gives its room back.
//! 3. A message that was accepted is taken by its segment, at the latest when that leaves; or, if the channel ends first,
//!    fails with the cause. Once there is an `end`, nothing is accepted.

use super::{
    CloseCause, Weight, WriteError, WritePromise,
    shared::{AnyShared, ChannelShared, Command, put},
    weight::SaidOnce,
};
use crate::task_error::discard;
use std::{
    any::Any,
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A message, and who waits to hear of it.
pub(crate) type Waiting<W> = (W, WritePromise);

/// The messages on their way to one sealed segment.
pub(crate) struct Inlet<W> {
    channel: Arc<ChannelShared<Infallible>>,
    /// The number of the segment.
    stage: u32,
    /// What messages count for that are written there.
    pub(super) weight: SaidOnce<W>,
    queue: Mutex<Queue<W>>,
}

struct Queue<W> {
    messages: VecDeque<Waiting<W>>,
    /// Why nothing is accepted any more.
    end: Option<WriteError>,
}

impl<W> Inlet<W> {
    pub(super) fn new(channel: Arc<ChannelShared<Infallible>>, stage: u32, weight: Weight<W>) -> Arc<Self> {
        Arc::new(Self {
            channel,
            stage,
            weight: SaidOnce::new(weight),
            queue: Mutex::new(Queue { messages: VecDeque::new(), end: None }),
        })
    }

    /// The channel, as the outside has it.
    pub(super) fn channel(&self) -> &Arc<ChannelShared<Infallible>> {
        &self.channel
    }

    fn lock(&self) -> MutexGuard<'_, Queue<W>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- any thread ----

    pub(super) fn is_open(&self) -> bool {
        self.lock().end.is_none()
    }

    pub(super) fn write(&self, msg: W, done: WritePromise, size: usize) {
        let mut queue = self.lock();
        if let Some(end) = queue.end.clone() {
            drop(queue);
            return refuse(msg, done, end);
        }
        self.channel.sets_out(size);
        match self.channel.accept(Command::Inlet(self.stage, size)) {
            Ok(call) => {
                queue.messages.push_back((msg, done));
                drop(queue);
                if call {
                    self.channel.call();
                }
            }
            Err((mark, cause)) => {
                drop(queue);
                self.channel.refuse(mark, &cause);
                refuse(msg, done, WriteError::Closed(cause));
            }
        }
    }

    // ---- the loop's side ----

    /// The next message.
    pub(crate) fn take(&self) -> Option<Waiting<W>> {
        self.lock().messages.pop_front()
    }

    /// The segment leaves: what was accepted is for it to carry out, and whoever waits for room learns that it is gone.
    pub(crate) fn leave(&self) -> VecDeque<Waiting<W>> {
        let messages = self.end(WriteError::Exchanged);
        self.channel.wake();
        messages
    }

    /// Nobody will take what is left.
    pub(crate) fn fail(&self, why: WriteError) {
        let messages = self.end(why.clone());
        for (msg, done) in messages {
            refuse(msg, done, why.clone());
        }
    }

    fn end(&self, why: WriteError) -> VecDeque<Waiting<W>> {
        let mut queue = self.lock();
        queue.end.get_or_insert(why);
        std::mem::take(&mut queue.messages)
    }
}

/// The message first, so that it is released when somebody hears of it.
fn refuse<W>(msg: W, done: WritePromise, why: WriteError) {
    discard(msg);
    done.fail(why);
}

impl<W: 'static> AnyShared for Inlet<W> {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn put_into(self: Arc<Self>, place: &mut dyn Any) {
        put(self, place);
    }
    fn outermost(self: Arc<Self>) -> Option<Arc<ChannelShared<Infallible>>> {
        Some(self.channel.clone())
    }
    fn ended(&self, cause: &CloseCause) {
        self.fail(WriteError::Closed(cause.clone()));
    }
    fn cause(&self) -> Option<CloseCause> {
        self.channel.close_cause()
    }
    fn break_off(&self, cause: CloseCause) {
        self.channel.break_off(cause);
    }
}
