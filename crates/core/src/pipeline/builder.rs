//! Building a pipeline from the wire towards the application, one stage after the other.

use super::{
    Application, ApplicationStage, ClosureStage, Context, Handler,
    segment::{End, Segment, Stage},
};
use bytes::{Bytes, BytesMut};
use std::marker::PhantomData;

/// Starts a pipeline. Stages are added in the order in which bytes from the wire meet them.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// /// Sends everything back.
/// struct Echo;
///
/// impl Application for Echo {
///     type Read = BytesMut;
///     type Write = Bytes;
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
///         cx.write_and_flush(bytes.freeze());
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().app(Echo));
/// channel.write_inbound(b"hello");
/// assert_eq!(channel.read_outbound().unwrap(), "hello");
/// ```
pub fn pipeline() -> PipelineBuilder<()> {
    PipelineBuilder { stages: () }
}

/// A pipeline under construction. Finished by whoever takes it: a server, a client, an embedded channel.
#[must_use = "a pipeline does nothing until a channel runs it"]
pub struct PipelineBuilder<S> {
    stages: S,
}

impl PipelineBuilder<()> {
    /// Adds the stage next to the wire.
    pub fn add<H: Handler>(self, handler: H) -> PipelineBuilder<((), H)> {
        PipelineBuilder { stages: ((), handler) }
    }

    /// Adds the last stage: an application handler.
    pub fn app<A: Application>(self, application: A) -> PipelineBuilder<((), ApplicationStage<A>)> {
        self.add(ApplicationStage(application))
    }

    /// Adds a closure as the only stage: it gets the bytes as they come.
    pub fn handle<F>(self, call: F) -> PipelineBuilder<((), ClosureStage<BytesMut, Bytes>)>
    where
        F: FnMut(&mut Context<'_, ClosureStage<BytesMut, Bytes>>, BytesMut) + 'static,
    {
        self.add(ClosureStage { call: Box::new(call), writes: PhantomData })
    }
}

impl<S, H: Handler> PipelineBuilder<(S, H)> {
    /// Adds a stage behind the last one. It has to read what that one passes on, and to write what that one takes.
    pub fn add<K>(self, handler: K) -> PipelineBuilder<((S, H), K)>
    where
        K: Handler<Read = H::ReadOut, WriteOut = H::Write>,
    {
        PipelineBuilder { stages: (self.stages, handler) }
    }

    /// Adds the last stage: an application handler.
    pub fn app<A>(self, application: A) -> PipelineBuilder<((S, H), ApplicationStage<A>)>
    where
        A: Application<Read = H::ReadOut, Write = H::Write>,
    {
        self.add(ApplicationStage(application))
    }

    /// Adds the last stage: a closure that is called with every message.
    pub fn handle<F>(self, call: F) -> PipelineBuilder<((S, H), ClosureStage<H::ReadOut, H::Write>)>
    where
        F: FnMut(&mut Context<'_, ClosureStage<H::ReadOut, H::Write>>, H::ReadOut) + 'static,
    {
        self.add(ClosureStage { call: Box::new(call), writes: PhantomData })
    }
}

impl<S: Link<End>> PipelineBuilder<S> {
    /// Turns the stages round into the nested form that runs.
    pub fn into_segment(self) -> S::Linked {
        self.stages.link(End)
    }
}

/// Turns `((((), A), B), C)` round into `Stage<A, Stage<B, Stage<C, End>>>`.
pub trait Link<N> {
    /// The nested form.
    type Linked;
    #[doc(hidden)]
    fn link(self, next: N) -> Self::Linked;
}

impl<N> Link<N> for () {
    type Linked = N;
    fn link(self, next: N) -> N {
        next
    }
}

impl<S, H, N> Link<N> for (S, H)
where
    H: Handler,
    N: Segment<H::ReadOut, H::Write>,
    S: Link<Stage<H, N>>,
{
    type Linked = S::Linked;
    fn link(self, next: N) -> Self::Linked {
        self.0.link(Stage::new(self.1, next))
    }
}
