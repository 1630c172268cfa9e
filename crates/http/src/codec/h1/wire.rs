//! The end of a codec that lies towards the wire: what came and is in no message yet, what is written and not flushed yet, and
//! what servers and clients do in the same way with both when a channel flushes, ends, or gets another codec.

use crate::codec::{input::Input, out::Out};
use crate::error::{HttpError, Limit};
use bytes::BytesMut;
use netwright_core::{CloseCause, Context, Handler, Leftover, Outgoing, WritePromise};

#[derive(Debug, Default)]
pub(crate) struct Wire {
    pub(crate) input: Input,
    pub(crate) out: Out,
}

impl Wire {
    /// To be asked before a part is appended. False: it was taken back in time. From here on it cannot be, because it is a part of
    /// what its message says of itself.
    #[inline]
    pub(crate) fn claim<H>(&mut self, cx: &mut Context<'_, H>, done: &mut WritePromise) -> bool
    where
        H: Handler<WriteOut = Outgoing>,
    {
        if done.is_tracked() {
            if !done.claim() {
                return false;
            }
            self.out.pass_on(cx); // what somebody waits for is a piece of its own
        }
        true
    }

    /// Sends everything that was written.
    #[inline]
    pub(crate) fn flush<H: Handler<WriteOut = Outgoing>>(&mut self, cx: &mut Context<'_, H>) {
        self.out.flush(cx);
        cx.flush();
    }

    /// Closes the channel behind what was written.
    pub(crate) fn close<H>(&mut self, cx: &mut Context<'_, H>, cause: CloseCause, done: WritePromise)
    where
        H: Handler<WriteOut = Outgoing>,
    {
        self.out.flush(cx);
        cx.close_with(cause, done);
    }

    /// Ends our side behind what was written.
    pub(crate) fn shut_down_output<H>(&mut self, cx: &mut Context<'_, H>, done: WritePromise)
    where
        H: Handler<WriteOut = Outgoing>,
    {
        self.out.flush(cx);
        cx.shut_down_output_with(done);
    }

    /// HTTP is over on this connection, and nobody has taken over: the error, if too much has come since. A hold could not be
    /// released by whoever does, so it ends there.
    pub(crate) fn unclaimed(&self, max: u64) -> Option<HttpError> {
        let got = self.input.len() as u64;
        (got > max).then_some(HttpError::TooMuch { limit: Limit::Unclaimed, max, got })
    }

    /// What came behind the last message, for who takes over.
    pub(crate) fn leftover(&mut self) -> Leftover<BytesMut> {
        let rest = self.input.take();
        if rest.is_empty() { Leftover::nothing() } else { Leftover::one(rest) }
    }
}
