//! What the pipeline wants of the transport: a flush, or the end.
//!
//! | wish | set by | read by |
//! | --- | --- | --- |
//! | `flush` | the host, when a flush reaches the wire, or the transport has room for what was flushed | the transport (`take_flush`) |
//! | `close`, `close_done` | `request_close`: a close that reached the wire, an error that nobody took, a panic | the transport (`take_close`); the end tells those who wait |
//! | `closing` | the host, when a close reached the wire and nothing is under way on workers; `close_at_once` | writes: they come too late |
//! | `at_once` | `close_at_once` | the transport: nobody is waited for |
//! | `close_when_flushed` | `Context`, `Peer`, handles; an async tail that ended (`tail_ended`) | `take_close`, when all is sent |
//! | `tail_ended` | an async tail that ended by itself | an exchange of its segment, which takes the wish back; `take_close`, for the cause |
//! | `heard_out` | the host, before it looks whether everything is sent behind which the channel is to close | the host: handles are heard once, so that who goes on writing holds no end up |
//! | `last_words` | `take_close`, when that close sets out through the stages | `take_close`: what they flush goes first |
//! | `wants_no_more` | the last stage that closes, an owner of a handle, an error that nobody took | the end: what is held is dropped |
//! | `shut_down_output`, `shut_down_done` | the host, when it reached the wire | writes: they come too late; `room`: there is none before it is carried out; the transport (`take_output_shutdown`) |

use super::{
    super::{CloseCause, Fault, WriteError, WritePromise},
    Asked, ChannelCore,
};
use crate::{spill::Spill, task_error::tell};
use std::{rc::Rc, sync::PoisonError};

/// How an async tail has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TailEnded {
    #[default]
    Not,
    ByItself,
    /// When the peer had sent everything: that was the first to end the channel.
    BehindItsPeer,
}

/// What the pipeline wants of the transport.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) flush: bool,
    pub(crate) close: Option<Rc<CloseCause>>,
    pub(crate) close_done: Spill<WritePromise>,
    pub(crate) close_when_flushed: bool,
    /// That is because an async tail has ended, and not if it has given way to another segment.
    pub(crate) tail_ended: TailEnded,
    /// What handles asked for before that has been carried out.
    pub(crate) heard_out: bool,
    /// That close is on its way: what stages flush because of it is sent before.
    pub(crate) last_words: bool,
    /// The close waits for nobody: neither for workers nor for what stages have to say to the peer.
    pub(crate) at_once: bool,
    /// A close has come through the pipeline: what is written behind it comes too late.
    pub(crate) closing: bool,
    /// Whoever reads the messages has asked for the end, or an owner of a handle: nobody waits for what is still inside.
    pub(crate) wants_no_more: bool,
    pub(crate) shut_down_output: bool,
    pub(crate) shut_down_done: Spill<WritePromise>,
}

impl Wishes {
    /// Nothing is wanted any more.
    pub(super) fn start_over(&mut self) {
        debug_assert!(self.close_done.is_empty() && self.shut_down_done.is_empty(), "the end has told them");
        (self.flush, self.close_when_flushed, self.tail_ended) = (false, false, TailEnded::Not);
        (self.last_words, self.at_once, self.closing) = (false, false, false);
        self.heard_out = false;
        (self.wants_no_more, self.shut_down_output) = (false, false);
        self.close = None;
    }

    /// Whether a transport has something to do.
    #[inline]
    pub(in crate::channel) fn are_any(&self) -> bool {
        self.flush || self.shut_down_output || self.close_when_flushed || self.close.is_some()
    }
}

impl ChannelCore {
    pub(crate) fn close_when_flushed(&mut self) {
        self.ask(|| Asked::CloseWhenFlushed);
        self.wishes.close_when_flushed = true;
        self.let_know_of_close();
    }

    /// An async tail has ended, and the channel with it; unless the tail has given way to another segment, which goes on.
    pub(crate) fn tail_ended(&mut self, how: TailEnded) {
        self.wishes.wants_no_more = true;
        self.wishes.tail_ended = if self.wishes.close_when_flushed { TailEnded::Not } else { how };
        self.wishes.heard_out = false;
        self.wishes.close_when_flushed = true;
    }

    /// Whoever reads the messages has closed the channel, or could not go on: none is delivered any more.
    pub(crate) fn wants_no_more(&mut self) {
        self.wishes.wants_no_more = true;
        self.demand.pause();
    }

    /// Whether a close is to be carried out: who writes whenever it is told of room would keep workers busy, and a close waits
    /// for these.
    pub(in crate::channel) fn is_closing(&self) -> bool {
        self.wishes.close.is_some()
    }

    /// Whether nothing more may be written, as far as the order of operations says so.
    pub(in crate::channel) fn has_output_ended(&self) -> bool {
        self.wishes.closing || self.wishes.shut_down_output
    }

    /// Why nothing more may be written, as far as the order of operations says so.
    pub(in crate::channel) fn output_ended(&self) -> Option<WriteError> {
        if self.wishes.closing {
            let cause = self.wishes.close.as_deref().cloned().unwrap_or(CloseCause::Requested);
            return Some(WriteError::Closed(cause));
        }
        self.wishes.shut_down_output.then_some(WriteError::OutputShutDown)
    }

    /// Whoever looks at the channel from outside is to see that it is about to end.
    fn let_know_of_close(&self) {
        if let Some(side) = self.side.get() {
            side.lock().unwrap_or_else(PoisonError::into_inner).closing = true;
        }
    }

    /// The first cause counts.
    pub(crate) fn request_close(&mut self, cause: CloseCause, done: WritePromise) {
        self.let_know_of_close();
        self.wishes.close.get_or_insert_with(|| cause.kept());
        if done.is_tracked() {
            self.wishes.close_done.push_back(done);
        }
    }

    /// The first stage asks for the end, behind what it has written.
    #[cold]
    pub(in crate::channel) fn ask_to_close(&mut self, cause: CloseCause, done: WritePromise) {
        self.request_close(cause, done);
        // What is under way on workers was there before it, and is written first.
        self.wishes.closing |= !self.demand.is_away();
    }

    /// The first stage asks for the end of the output, behind what it has written.
    #[cold]
    pub(in crate::channel) fn ask_to_shut_down_output(&mut self, done: WritePromise) {
        self.wishes.shut_down_output = true;
        if done.is_tracked() {
            self.wishes.shut_down_done.push_back(done);
        }
    }

    /// Has the channel end without asking its stages.
    pub(in crate::channel) fn close_at_once(&mut self, cause: CloseCause) {
        self.wants_no_more();
        self.request_close(cause, WritePromise::untracked());
        (self.wishes.closing, self.wishes.at_once) = (true, true);
    }

    /// An error that no stage took care of.
    pub(crate) fn unhandled(&mut self, fault: Fault) {
        self.wants_no_more(); // what follows the error is not to be taken for what it would be without it
        let channel = self.id;
        tell(
            || tracing::warn!(%channel, error = %fault, "no handler took care of this error, closing the channel"),
        );
        self.request_close(CloseCause::Fault(fault), WritePromise::untracked());
    }
}
