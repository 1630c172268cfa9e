//! Which handlers and applications can run on workers: those for that place, if they may be sent there.

use crate::pipeline::{Application, Handler, OnWorker};

/// A handler that can run on workers: it is [one for that place](OnWorker), it may be sent to another thread, and so may everything that
/// crosses.
///
/// ```
/// use netwright_core::{Handler, SendHandler, Workers, on_workers};
/// use bytes::{Bytes, BytesMut};
///
/// /// Puts any handler of bytes that may go to another thread on workers.
/// fn heavy<H>(workers: &Workers, handler: H) -> impl Handler<Read = BytesMut, Write = Bytes>
/// where
///     H: SendHandler<Read = BytesMut, Write = Bytes>,
/// {
///     on_workers(workers, handler)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no handler for workers",
    label = "does not run on workers",
    note = "`impl Handler for …` is one for loops: write `impl Handler<OnWorker> for …`, or `impl<P: Place> Handler<P> for …` for both"
)]
pub trait SendHandler:
    Handler<OnWorker, Read: Send, ReadOut: Send, Write: Send, WriteOut: Send> + Send
{
}

impl<H: Handler<OnWorker, Read: Send, ReadOut: Send, Write: Send, WriteOut: Send> + Send> SendHandler for H {}

/// An application that can run on workers, likewise: what [`app_on`](crate::PipelineBuilder::app_on) takes.
///
/// ```
/// use netwright_core::{AppContext, Application, OnWorker, SendApplication};
///
/// struct Archive;
/// impl Application<OnWorker> for Archive {
///     type Read = String;
///     type Write = String;
///     fn read(&mut self, _: &mut AppContext<'_, Self, OnWorker>, _: String) {}
/// }
///
/// fn can_run_on_workers(_: impl SendApplication) {}
/// can_run_on_workers(Archive);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no application for workers",
    label = "does not run on workers",
    note = "`impl Application for …` is one for loops: write `impl Application<OnWorker> for …`, or `impl<P: Place> Application<P> for …` for both"
)]
pub trait SendApplication: Application<OnWorker, Read: Send, Write: Send> + Send {}

impl<A: Application<OnWorker, Read: Send, Write: Send> + Send> SendApplication for A {}
