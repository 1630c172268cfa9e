//! Pipelines as parameters and results: types that one can write down.

use super::{Link, PipelineBuilder, Sealed, Segment, Whole, segment::Writes};
use crate::channel::{CarriedBy, Outgoing};
use bytes::BytesMut;

/// A complete pipeline: its stages fit one another, and it has a last one. Servers, clients, joints and hosts run one. In a function's
/// signature, write `impl IntoPipeline<T>` for a pipeline that it takes or returns.
///
/// `T` is what can be written to its channel from outside, at its far end: what the last stage takes. The other two are the wire's
/// side, and need no mention where that is a transport of bytes: what the pipeline reads, and what takes what it writes.
///
/// ```
/// use netwright_core::{EmbeddedChannel, IntoPipeline, Outgoing, pipeline};
///
/// /// The list of its stages is nobody else's business.
/// fn echo() -> impl IntoPipeline<Outgoing> {
///     pipeline().handle(|cx, bytes| cx.write_and_flush(bytes))
/// }
///
/// /// Takes any pipeline of bytes.
/// fn embedded<T: 'static>(pipeline: impl IntoPipeline<T>) -> EmbeddedChannel<(), T> {
///     EmbeddedChannel::of(pipeline)
/// }
///
/// let mut channel = embedded(echo());
/// channel.write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no whole pipeline that reads `{R}`, writes what `{W}` carries, and takes `{T}` at its far end",
    label = "not such a pipeline"
)]
pub trait IntoPipeline<T, R = BytesMut, W = Outgoing> {
    /// What it writes.
    #[doc(hidden)]
    type Written: CarriedBy<W>;
    /// The nested form that runs.
    type Segment: Segment<R, Self::Written, Tail = T> + Writes<Message = Self::Written>;

    /// Turns the stages round into the nested form that runs.
    fn into_pipeline(self) -> Self::Segment;

    /// Closes its far end to the outside; see [`PipelineBuilder::sealed`].
    fn sealed(self) -> PipelineBuilder<(), Sealed<Self::Segment, T>>
    where
        Self: Sized,
    {
        PipelineBuilder::closed(self.into_pipeline())
    }
}

impl<S, E, P, T, R, W> IntoPipeline<T, R, W> for PipelineBuilder<S, E>
where
    E: Whole,
    S: Link<E, Linked = P>,
    P: Writes + Segment<R, <P as Writes>::Message, Tail = T>,
    P::Message: CarriedBy<W>,
{
    type Written = P::Message;
    type Segment = P;

    fn into_pipeline(self) -> P {
        self.into_segment()
    }
}
