//! What servers and clients do differently.

use super::{Block, Core, Http2, Http2Error, sending::Writer, stream::Stream};
use crate::{codec::h2::code::ErrorCode, error::HttpError, message::HttpPart};
use bytes::Bytes;
use http::StatusCode;
use netwright_core::{Context, Segment, WritePromise};

/// One of the two sides of a connection.
pub trait Side: Sized + 'static {
    /// The heads that it reads.
    type In: 'static;
    /// The heads that it writes.
    type Out: 'static;
    /// What may be written to the connection itself, whose streams' pipelines take `T` at their far ends.
    type Ask<T: 'static>: 'static;
    #[doc(hidden)]
    const IS_SERVER: bool;
    #[doc(hidden)]
    const NAME: &'static str;
}

/// What a head that was written leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// Nothing follows it.
    Nothing,
    /// A body follows.
    Follows,
}

/// What it does with what.
pub(super) trait Role: Side {
    /// The connection is there, and we have said what comes first.
    fn begin<P, F>(stage: &mut Http2<Self, P, F>, cx: &mut Context<'_, Http2<Self, P, F>>)
    where
        P: Segment<HttpPart<Self::In>, HttpPart<Self::Out>>,
        F: FnMut() -> P + 'static;

    /// A message was written to the connection.
    fn asked<P, F>(
        stage: &mut Http2<Self, P, F>,
        cx: &mut Context<'_, Http2<Self, P, F>>,
        ask: Self::Ask<P::Tail>,
        done: WritePromise,
    ) where
        P: Segment<HttpPart<Self::In>, HttpPart<Self::Out>>,
        F: FnMut() -> P + 'static;

    /// A whole block of fields has come.
    fn fields<P, F>(
        stage: &mut Http2<Self, P, F>,
        cx: &mut Context<'_, Http2<Self, P, F>>,
        block: Block<Bytes>,
    ) -> Result<(), Http2Error>
    where
        P: Segment<HttpPart<Self::In>, HttpPart<Self::Out>>,
        F: FnMut() -> P + 'static;

    /// Whether nobody has opened a stream of this number yet.
    fn is_idle(core: &Core<Self>, id: u32) -> bool;

    /// Appends the head of a message whose body is so long, if that is known.
    fn head(
        side: &mut Self,
        writer: &mut Writer,
        stream: &mut Stream,
        head: Self::Out,
        whole: Option<u64>,
    ) -> Result<Body, HttpError>;

    /// Appends an answer before the answer.
    fn interim(
        side: &mut Self,
        writer: &mut Writer,
        stream: &mut Stream,
        head: Self::Out,
    ) -> Result<(), HttpError>;

    /// Tells the peer, which waits for that, to send its body.
    fn go_on(side: &mut Self, writer: &mut Writer, stream: &mut Stream);

    /// Appends a whole message that says why there is no other. False: nothing can be said.
    fn refusal(
        side: &mut Self,
        writer: &mut Writer,
        stream: &mut Stream,
        status: StatusCode,
        why: &str,
    ) -> bool;

    /// The peer does not take more streams behind this one, and has said why.
    fn goes_away<P, F>(
        stage: &mut Http2<Self, P, F>,
        cx: &mut Context<'_, Http2<Self, P, F>>,
        last: u32,
        code: ErrorCode,
        said: &str,
    ) where
        P: Segment<HttpPart<Self::In>, HttpPart<Self::Out>>,
        F: FnMut() -> P + 'static;

    /// Why the peer has gone away, if it has said that it was because of a mistake.
    fn gone(core: &Core<Self>) -> Option<HttpError>;

    /// The peer has said what it takes.
    fn has_settings<P, F>(stage: &mut Http2<Self, P, F>, cx: &mut Context<'_, Http2<Self, P, F>>)
    where
        P: Segment<HttpPart<Self::In>, HttpPart<Self::Out>>,
        F: FnMut() -> P + 'static;

    /// Streams have ended, or more of them may be opened.
    fn has_room<P, F>(stage: &mut Http2<Self, P, F>, cx: &mut Context<'_, Http2<Self, P, F>>)
    where
        P: Segment<HttpPart<Self::In>, HttpPart<Self::Out>>,
        F: FnMut() -> P + 'static;
}
