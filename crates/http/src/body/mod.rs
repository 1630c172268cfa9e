//! Bodies of requests and replies for straight-line code: read piece by piece, or made of anything.
//!
//! ```text
//!   stage ── push ──▶ [ Pipe: at most one piece, then it waits ] ── read().await ──▶ service
//!   service ── send().await ──▶ [ Pipe ] ── the stage, when there is room to write ──▶ wire
//! ```
//! Always true:
//! 1. A piece is asked of whoever produces it when somebody waits for it: what is not read is not received.
//! 2. A body that was not completed ends in an error, never in what looks like its end.

mod pipe;
mod sending;

pub use pipe::BodySender;
pub(crate) use pipe::{Pipe, broken_off};
#[cfg(feature = "client")]
pub(crate) use sending::Later;
pub(crate) use sending::{Next, Sending};

use crate::error::HttpError;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use netwright_core::{ByteSource, FileRegion};
use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// The body of a request or a reply.
///
/// ```
/// use netwright_http::Body;
///
/// let body = Body::from("hello");
/// assert_eq!(body.len(), Some(5));
/// let (sender, streamed) = Body::channel();
/// assert_eq!(streamed.len(), None);
/// # drop(sender);
/// ```
#[derive(Default)]
pub struct Body {
    kind: Kind,
    trailers: Option<Box<HeaderMap>>,
}

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Full(Bytes),
    Pipe(Arc<Pipe>, Option<u64>),
    File(FileRegion),
    Made(Pin<Box<dyn Make>>, Option<u64>),
}

/// Something that makes pieces.
pub(crate) trait Make: Send {
    fn poll_piece(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Piece, HttpError>>;
}

/// A source of bytes as one who makes pieces.
struct Sourced<S>(S);

/// A source is asked by reference: it need not stay where it is.
impl<S> Unpin for Sourced<S> {}

impl<S: ByteSource + Send> Make for Sourced<S> {
    fn poll_piece(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Piece, HttpError>> {
        Poll::Ready(match ready!(self.0.poll_piece(cx)) {
            Ok(Some(bytes)) => Ok(Piece::Data(bytes)),
            Ok(None) => Ok(Piece::End(None)),
            Err(fault) => Err(HttpError::Aborted(fault.to_string())),
        })
    }
}

/// What a body gives.
pub(crate) enum Piece {
    Data(Bytes),
    End(Option<Box<HeaderMap>>),
}

/// How much of a file is read at a time by who cannot send it as a file.
const FILE_PIECE: usize = 64 * 1024;

impl Body {
    /// No bytes.
    pub const fn empty() -> Self {
        Self { kind: Kind::Empty, trailers: None }
    }

    /// A body that is written piece by piece, by somebody who may live on another thread.
    ///
    /// ```
    /// use http::Response;
    /// use netwright_core::{EmbeddedChannel, pipeline, time};
    /// use netwright_http::{Body, HttpServer, serve};
    /// use std::time::Duration;
    ///
    /// let count = pipeline().add(HttpServer::new()).app(serve(async |_| {
    ///     let (mut sender, body) = Body::channel();
    ///     std::thread::spawn(move || drop(sender.try_send("one, two".into()).map(|()| sender.end())));
    ///     Response::new(body)
    /// }));
    /// # drop(count);
    /// ```
    pub fn channel() -> (BodySender, Self) {
        let pipe = Arc::new(Pipe::default());
        (BodySender::into_pipe(pipe.clone()), Self { kind: Kind::Pipe(pipe, None), trailers: None })
    }

    /// A part of a file; sent without passing through our memory where that can be.
    pub fn file(region: FileRegion) -> Self {
        Self { kind: Kind::File(region), trailers: None }
    }

    /// A body that comes from a source, piece by piece as there is room for it: a file that no loop waits for, for one
    /// (`netwright::files`). A source that fails breaks the body off, and the connection is closed.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use netwright_core::{ByteSource, Fault};
    /// use netwright_http::Body;
    /// use std::task::{Context, Poll};
    ///
    /// /// Says the same again and again.
    /// struct Parrot { left: u64 }
    ///
    /// impl ByteSource for Parrot {
    ///     fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
    ///         let Some(left) = self.left.checked_sub(5) else { return Poll::Ready(Ok(None)) };
    ///         self.left = left;
    ///         Poll::Ready(Ok(Some(Bytes::from("polly"))))
    ///     }
    ///     fn bytes_left(&self) -> Option<u64> {
    ///         Some(self.left)
    ///     }
    /// }
    ///
    /// let body = Body::from_source(Parrot { left: 15 });
    /// assert_eq!(body.len(), Some(15));
    /// # drop(body);
    /// ```
    pub fn from_source(source: impl ByteSource + Send + 'static) -> Self {
        let len = source.bytes_left();
        if len == Some(0) {
            return Self::empty();
        }
        Self::made(Sourced(source), len)
    }

    /// How many bytes there will be, if that is known.
    pub fn len(&self) -> Option<u64> {
        match &self.kind {
            Kind::Empty => Some(0),
            Kind::Full(bytes) => Some(bytes.len() as u64),
            Kind::Pipe(_, len) | Kind::Made(_, len) => *len,
            Kind::File(region) => Some(region.remaining()),
        }
    }

    /// Whether it is known that there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The next piece; `None` at the end. Giving the wait up loses nothing.
    ///
    /// # Errors
    /// The body was not completed: why.
    pub async fn read(&mut self) -> Result<Option<Bytes>, HttpError> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    /// [`read`](Self::read) for code that polls.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, HttpError>> {
        Poll::Ready(match ready!(self.poll_piece(cx)) {
            Ok(Piece::Data(bytes)) => Ok(Some(bytes)),
            Ok(Piece::End(trailers)) => {
                self.trailers = trailers.or(self.trailers.take());
                Ok(None)
            }
            Err(error) => Err(error),
        })
    }

    /// The trailers, once everything is read.
    pub fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_deref()
    }

    /// All bytes, if they are not more than `max`.
    ///
    /// # Errors
    /// There are more, or the body was not completed.
    pub async fn collect(mut self, max: usize) -> Result<Bytes, HttpError> {
        let mut all = BytesMut::new();
        let Some(first) = self.read().await? else { return Ok(Bytes::new()) };
        let mut next = Some(first);
        while let Some(piece) = next {
            let got = all.len() + piece.len();
            if got > max {
                let limit = crate::error::Limit::Body;
                return Err(HttpError::TooMuch { limit, max: max as u64, got: got as u64 });
            }
            next = self.read().await?;
            if next.is_none() && all.is_empty() {
                return Ok(piece);
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, HttpError>> {
        match &mut self.kind {
            Kind::Empty => Poll::Ready(Ok(Piece::End(None))),
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.kind = Kind::Empty;
                Poll::Ready(Ok(if bytes.is_empty() { Piece::End(None) } else { Piece::Data(bytes) }))
            }
            Kind::Pipe(pipe, _) => pipe.poll_take(cx),
            Kind::File(region) => {
                if region.remaining() == 0 {
                    return Poll::Ready(Ok(Piece::End(None)));
                }
                let piece = region.read_chunk(FILE_PIECE);
                Poll::Ready(match piece {
                    Ok(bytes) => {
                        region.advance(bytes.len() as u64);
                        Ok(Piece::Data(bytes))
                    }
                    Err(error) => Err(HttpError::Aborted(error.to_string())),
                })
            }
            Kind::Made(make, _) => match make.as_mut().poll_piece(cx) {
                // It takes no room, so who is never short of them would be asked for ever: another turn.
                Poll::Ready(Ok(Piece::Data(bytes))) if bytes.is_empty() => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                made => made,
            },
        }
    }

    /// All bytes at once, if they are there; else the body again.
    pub(crate) fn into_full(mut self) -> Result<Bytes, Self> {
        match std::mem::take(&mut self.kind) {
            Kind::Empty => Ok(Bytes::new()),
            Kind::Full(bytes) => Ok(bytes),
            other => Err(Self { kind: other, trailers: self.trailers.take() }),
        }
    }

    /// The region, if it is one.
    pub(crate) fn into_file(mut self) -> Result<FileRegion, Self> {
        match std::mem::take(&mut self.kind) {
            Kind::File(region) => Ok(region),
            other => Err(Self { kind: other, trailers: self.trailers.take() }),
        }
    }

    /// Says in the headers of its message how long it is, if that is known and nothing is said.
    pub(crate) fn announce(&self, headers: &mut HeaderMap) {
        if let Some(len) = self.len()
            && !headers.contains_key(header::CONTENT_LENGTH)
        {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
        }
    }

    pub(crate) fn incoming(pipe: Arc<Pipe>, len: Option<u64>) -> Self {
        Self { kind: Kind::Pipe(pipe, len), trailers: None }
    }

    pub(crate) fn made(make: impl Make + 'static, len: Option<u64>) -> Self {
        Self { kind: Kind::Made(Box::pin(make), len), trailers: None }
    }
}

/// Nobody will read what is left.
impl Drop for Body {
    fn drop(&mut self) {
        if let Kind::Pipe(pipe, _) = &self.kind {
            pipe.reader_left();
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("len", &self.len()).finish_non_exhaustive()
    }
}

macro_rules! from_bytes {
    ($($kind:ty),+) => { $(
        impl From<$kind> for Body {
            fn from(bytes: $kind) -> Self {
                Self { kind: Kind::Full(bytes.into()), trailers: None }
            }
        }
    )+ };
}

from_bytes!(Bytes, BytesMut, Vec<u8>, String, &'static str, &'static [u8]);

impl From<()> for Body {
    fn from((): ()) -> Self {
        Self::empty()
    }
}

impl From<FileRegion> for Body {
    fn from(region: FileRegion) -> Self {
        Self::file(region)
    }
}
