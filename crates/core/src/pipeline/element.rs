//! What a list of stages consists of, and which place each gets when the list is turned into the nested form that runs.

use super::{
    Handler,
    segment::{Filtering, Segment, Stage, Writes},
};
use crate::channel::CarriedBy;

/// A part of a pipeline under construction: a handler, or a filter, which gets a place of its own.
#[doc(hidden)]
pub trait Element: Sized {
    /// What it passes on.
    type ReadOut: 'static;
    /// What it takes.
    type Write: 'static;
    /// Its place in front of `N`.
    type Placed<N>
    where
        N: Writes<Message: CarriedBy<Self::Write>> + Segment<Self::ReadOut, <N as Writes>::Message>;

    fn place<N>(self, name: Option<&'static str>, forgets: bool, next: N) -> Self::Placed<N>
    where
        N: Writes<Message: CarriedBy<Self::Write>> + Segment<Self::ReadOut, <N as Writes>::Message>;
}

#[diagnostic::do_not_recommend]
impl<H: Handler> Element for H {
    type ReadOut = H::ReadOut;
    type Write = H::Write;
    type Placed<N>
        = Stage<H, N>
    where
        N: Writes<Message: CarriedBy<H::Write>> + Segment<H::ReadOut, <N as Writes>::Message>;

    fn place<N>(self, name: Option<&'static str>, forgets: bool, next: N) -> Stage<H, N>
    where
        N: Writes<Message: CarriedBy<H::Write>> + Segment<H::ReadOut, <N as Writes>::Message>,
    {
        Stage::new(self, name, forgets, next)
    }
}

/// A filter in a list of stages.
///
/// ```
/// use netwright_core::{Filter, FilterStage, Filtered, Open, Outgoing, PipelineBuilder, pipeline};
/// use bytes::BytesMut;
///
/// struct Passes;
/// impl<R: 'static, W: 'static> Filter<R, W> for Passes {}
///
/// type OfBytes<F> = Filtered<FilterStage<F, BytesMut, Outgoing>>;
/// let stages: PipelineBuilder<((), OfBytes<Passes>), Open> = pipeline().filter(Passes);
/// # let _ = stages;
/// ```
pub struct Filtered<H>(pub(super) H);

#[diagnostic::do_not_recommend]
impl<H, R: 'static, W: 'static> Element for Filtered<H>
where
    H: Handler<Read = R, ReadOut = R, Write = W, WriteOut = W>,
{
    type ReadOut = R;
    type Write = W;
    type Placed<N>
        = Filtering<H, N>
    where
        N: Writes<Message: CarriedBy<W>> + Segment<R, <N as Writes>::Message>;

    fn place<N>(self, name: Option<&'static str>, forgets: bool, next: N) -> Filtering<H, N>
    where
        N: Writes<Message: CarriedBy<W>> + Segment<R, <N as Writes>::Message>,
    {
        Filtering::new(self.0, name, forgets, next)
    }
}
