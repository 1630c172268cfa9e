//! The way back to a handler: closures from anywhere that run on one stage, with the handler in hand and no lock.
//!
//! ```text
//!   handler ── cx.caller() ──▶ StageCaller ── any thread ── call(|handler, cx| …) ──▶ the channel's loop ──▶ the stage
//! ```
//!
//! A call finds its stage by a number that is never used again. If the stage has left, or the channel has ended, the
//! closure is dropped, not run.

use super::{Context, Handler, OnLoop, Place};
use crate::{
    channel::SideTable,
    event_loop::SourceCaller,
    promise::{PromiseError, Promised, promise},
};
use std::{any::Any, fmt, marker::PhantomData, sync::PoisonError};

/// What a stage is told beside messages and events.
#[doc(hidden)]
pub enum Signal {
    Timer(super::StageTimer),
    Call(Box<dyn Any + Send>),
    /// A call for a pipeline that has broken down: only for a stage that waits for it.
    Return(Box<dyn Any + Send>),
    /// A future of the stage wants to be polled.
    Poll(Box<dyn Any>),
    /// For a sealed segment: a message waits in its inlet.
    Inlet,
    /// Children of the stage have something to say.
    Children,
}

/// A closure for the handler `H`.
#[allow(clippy::type_complexity)] // a closure and its two arguments
pub(crate) struct Call<H: Handler<P>, P: Place>(Box<dyn FnOnce(&mut H, &mut Context<'_, H, P>) + Send>);

impl<H: Handler<P>, P: Place> Call<H, P> {
    pub(crate) fn run(self, handler: &mut H, cx: &mut Context<'_, H, P>) {
        (self.0)(handler, cx);
    }
}

/// Calls one handler back, from any thread. Cheap to clone; keeps neither the channel nor its loop alive.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// /// Answers each request from another thread, and counts the answers without a lock.
/// struct Slow { answers: usize }
///
/// impl Application for Slow {
///     type Read = BytesMut;
///     type Write = Bytes;
///
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, request: BytesMut) {
///         let back = cx.caller();
///         std::thread::spawn(move || {
///             let answer = Bytes::from(request.to_ascii_uppercase());
///             back.call(move |handler, cx| {
///                 handler.answers += 1;
///                 cx.write_and_flush(answer);
///             });
///         }).join().unwrap();
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().app(Slow { answers: 0 }));
/// channel.write_inbound(b"hello");
/// assert_eq!(channel.read_outbound().unwrap(), "HELLO");
/// ```
pub struct StageCaller<H: Handler<P>, P: Place = OnLoop> {
    pub(crate) table: SideTable,
    pub(crate) channel: Option<SourceCaller>,
    pub(crate) stage: u32,
    pub(crate) handler: PhantomData<fn(H, P)>,
}

impl<H: Handler<P>, P: Place> StageCaller<H, P> {
    /// Has the closure run on the channel's loop with the handler and its context, after the calls before it.
    pub fn call(&self, call: impl FnOnce(&mut H, &mut Context<'_, H, P>) + Send + 'static) {
        let Some(channel) = &self.channel else { return }; // the channel had ended when this caller was made
        send(&self.table, channel, self.stage, Box::new(Call::<H, P>(Box::new(call))));
    }
}

fn send(table: &SideTable, channel: &SourceCaller, stage: u32, call: Box<dyn Any + Send>) {
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    let left = table.call((stage, call), |rare, call| rare.calls.push(call));
    drop(table);
    match left {
        Ok(true) => channel.call(),
        Ok(false) => {}
        Err(call) => drop(call), // outside of the lock: what it holds is a user's
    }
}

impl<H: Handler<P>, P: Place> StageCaller<H, P> {
    /// [`call`](Self::call) with an answer. If the stage or the channel has gone, or goes before its turn comes, the answer is
    /// [`Abandoned`](PromiseError::Abandoned).
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, PromiseError, pipeline};
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().handle(|cx, _| {
    ///     let mut answer = cx.caller().ask(|_, cx| cx.is_writable());
    ///     assert!(answer.try_take().is_none()); // its turn comes when this call has returned
    ///     answer.listen(|writable| assert_eq!(writable, &Ok(true)));
    /// }));
    /// channel.write_inbound("hello");
    /// ```
    pub fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut H, &mut Context<'_, H, P>) -> T + Send + 'static,
    ) -> Promised<T, PromiseError> {
        let (promise, answer) = promise();
        self.call(move |handler, cx| promise.succeed(call(handler, cx)));
        answer
    }
}

impl<H: Handler<P>, P: Place> Clone for StageCaller<H, P> {
    fn clone(&self) -> Self {
        let Self { table, channel, stage, .. } = self;
        Self { table: table.clone(), channel: channel.clone(), stage: *stage, handler: PhantomData }
    }
}

impl<H: Handler<P>, P: Place> fmt::Debug for StageCaller<H, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageCaller").field("stage", &self.stage).finish_non_exhaustive()
    }
}
