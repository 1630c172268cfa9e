//! Where a stage runs, as a type: on its channel's loop, or on a worker.
//!
//! ```text
//!   impl Handler for X                    on its channel's loop           .add(x), .app(x), …
//!   impl Handler<OnWorker> for X          on workers                      .add_on(&workers, x), .app_on(&workers, x)
//!   impl<P: Place> Handler<P> for X       wherever it is put
//! ```
//!
//! The context of a hook knows the place: what belongs to a loop (futures, children) is not there for a stage on workers, so
//! asking for it is an error of the compiler. Nothing of this is left when the program runs.

use super::{Context, Handler, task::Running};
use crate::task_error::catch;
use std::{any::Any, future::poll_fn, panic::resume_unwind, task::Poll};

/// Where a stage runs: [`OnLoop`], as nearly all do, or [`OnWorker`].
///
/// A handler that is to run wherever it is put is one for every place. Its context then has what works everywhere: messages,
/// events, writes, demand, timers, the way back. Futures and children belong to a loop, and are only in a context [`OnLoop`].
///
/// ```
/// use netwright_core::{Context, EmbeddedChannel, Handler, Place, Workers, WritePromise, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// /// Hides what is sent.
/// struct Veil;
///
/// impl<P: Place> Handler<P> for Veil {
///     type Read = BytesMut;
///     type ReadOut = BytesMut;
///     type Write = Bytes;
///     type WriteOut = Bytes;
///
///     fn read(&mut self, cx: &mut Context<'_, Self, P>, mut bytes: BytesMut) {
///         bytes.iter_mut().for_each(|byte| *byte ^= 0x20);
///         cx.fire_read(bytes);
///     }
///     fn write(&mut self, cx: &mut Context<'_, Self, P>, bytes: Bytes, done: WritePromise) {
///         let bytes: Vec<u8> = bytes.iter().map(|byte| byte ^ 0x20).collect();
///         cx.write_with(bytes, done);
///     }
/// }
///
/// let mut here = EmbeddedChannel::new(pipeline().add(Veil));
/// here.write_outbound("hello");
/// assert_eq!(here.outbound_bytes(), b"HELLO");
///
/// let workers = Workers::new(1)?;
/// let mut there = EmbeddedChannel::new(pipeline().add_on(&workers, Veil));
/// there.write_outbound("hello");
/// while there.run().is_busy() {
///     std::thread::yield_now();
/// }
/// assert_eq!(there.outbound_bytes(), b"HELLO");
/// # Ok::<(), netwright_core::WorkersError>(())
/// ```
pub trait Place: private::Closed + Sized + 'static {
    /// Whether that is a worker.
    #[doc(hidden)]
    const IS_WORKER: bool;

    /// A future of the handler has to be polled.
    #[doc(hidden)]
    fn polled<H: Handler<Self>>(handler: &mut H, cx: &mut Context<'_, H, Self>, task: Box<dyn Any>);

    /// Has a future made and run on the channel's loop, wherever the stage runs, and its output brought to the handler: for stages of
    /// this project that run everywhere and now and then wait for somebody else's future. A panic in it is one of the handler. When
    /// the stage has left, or the channel ended, the output is dropped.
    #[doc(hidden)]
    fn spawn_with<H, F>(
        cx: &mut Context<'_, H, Self>,
        make: impl FnOnce() -> F + Send + 'static,
        then: impl FnOnce(&mut H, &mut Context<'_, H, Self>, F::Output) + Send + 'static,
    ) where
        H: Handler<Self>,
        F: Future<Output: Send> + 'static;
}

/// On the channel's loop: where a stage runs unless something else is said.
///
/// ```
/// use netwright_core::{AppContext, Application, OnLoop};
///
/// struct Counts(u64);
///
/// impl Application<OnLoop> for Counts { // the same as `Application`
///     type Read = u64;
///     type Write = u64;
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, number: u64) {
///         cx.spawn(async move { number }, |counts, _, number| counts.0 += number);
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLoop {}

/// On a worker: where [`add_on`](crate::PipelineBuilder::add_on) and [`app_on`](crate::PipelineBuilder::app_on) put a stage. It may block
/// there, and has neither futures nor children.
///
/// ```
/// use netwright_core::{AppContext, Application, OnWorker};
///
/// struct Archive;
///
/// impl Application<OnWorker> for Archive {
///     type Read = String;
///     type Write = String;
///     fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, name: String) {
///         match std::fs::read_to_string(name) { // may take its time
///             Ok(text) => cx.write_and_flush(text),
///             Err(error) => cx.fire_error(error),
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnWorker {}

impl Place for OnLoop {
    const IS_WORKER: bool = false;

    fn polled<H: Handler>(handler: &mut H, cx: &mut Context<'_, H>, task: Box<dyn Any>) {
        if let Ok(task) = task.downcast::<Running<H>>() {
            task.poll(handler, cx);
        }
    }

    fn spawn_with<H, F>(
        cx: &mut Context<'_, H>,
        make: impl FnOnce() -> F + Send + 'static,
        then: impl FnOnce(&mut H, &mut Context<'_, H>, F::Output) + Send + 'static,
    ) where
        H: Handler,
        F: Future<Output: Send> + 'static,
    {
        cx.spawn(make(), then);
    }
}

impl Place for OnWorker {
    const IS_WORKER: bool = true;

    /// There are none.
    fn polled<H: Handler<Self>>(_: &mut H, _: &mut Context<'_, H, Self>, _: Box<dyn Any>) {}

    fn spawn_with<H, F>(
        cx: &mut Context<'_, H, Self>,
        make: impl FnOnce() -> F + Send + 'static,
        then: impl FnOnce(&mut H, &mut Context<'_, H, Self>, F::Output) + Send + 'static,
    ) where
        H: Handler<Self>,
        F: Future<Output: Send> + 'static,
    {
        let (back, event_loop) = (cx.caller(), cx.view().event_loop());
        let there = event_loop.clone();
        let begin = move || {
            let answered = there.spawn_local(async move {
                let output = caught(make).await;
                back.call(move |handler, cx| match output {
                    Ok(output) => then(handler, cx, output),
                    Err(message) => resume_unwind(Box::new(message)),
                });
            });
            drop(answered);
        };
        drop(event_loop.execute(begin)); // refused by a loop that ends, and its channels with it
    }
}

/// The output of the future that is made, or the message of a panic.
async fn caught<F: Future>(make: impl FnOnce() -> F) -> Result<F::Output, String> {
    let mut future = Box::pin(catch(make)?);
    poll_fn(|cx| match catch(|| future.as_mut().poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(message) => Poll::Ready(Err(message)),
    })
    .await
}

/// Places are those that there are.
mod private {
    pub trait Closed {}
    impl Closed for super::OnLoop {}
    impl Closed for super::OnWorker {}
}
