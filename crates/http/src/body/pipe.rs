//! A body that one writes and another reads, perhaps on another thread.

use super::Piece;
use crate::error::{HttpError, Within};
use bytes::Bytes;
use http::HeaderMap;
use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// Writes a [`Body`](crate::Body) piece by piece; made by [`Body::channel`](crate::Body::channel). Dropped before
/// [`end`](Self::end), it breaks the body off.
///
/// ```
/// use http::{Request, Response};
/// use netwright_core::{EmbeddedChannel, EventLoop, pipeline};
/// use netwright_http::{Body, HttpServer, serve};
///
/// async fn count(_: Request<Body>) -> Response<Body> {
///     let (mut sender, body) = Body::channel();
///     let counting = async move {
///         for number in 1..=3 {
///             if sender.send(format!("{number} ")).await.is_err() {
///                 return; // nobody reads any more
///             }
///         }
///         sender.end();
///     };
///     drop(EventLoop::current().expect("services run on loops").spawn_local(counting));
///     Response::new(body)
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(serve(count)));
/// channel.write_inbound("GET / HTTP/1.1\r\nHost: example\r\n\r\n");
/// let reply = String::from_utf8(channel.outbound_bytes()).unwrap();
/// assert!(reply.contains("1 ") && reply.ends_with("0\r\n\r\n"), "{reply}");
/// ```
#[derive(Debug)]
pub struct BodySender {
    pipe: Arc<Pipe>,
    over: bool,
}

impl BodySender {
    pub(super) fn into_pipe(pipe: Arc<Pipe>) -> Self {
        Self { pipe, over: false }
    }

    /// Writes a piece, as soon as somebody wants it.
    ///
    /// # Errors
    /// Nobody reads any more: the piece again.
    pub async fn send(&mut self, bytes: impl Into<Bytes>) -> Result<(), Bytes> {
        let mut bytes = Some(bytes.into());
        poll_fn(|cx| match bytes.take() {
            Some(piece) => self.pipe.poll_put(cx, piece, &mut bytes),
            None => Poll::Ready(Ok(())),
        })
        .await
    }

    /// Writes a piece without waiting for somebody to want it. Who does that often piles pieces up.
    ///
    /// # Errors
    /// Nobody reads any more: the piece again.
    pub fn try_send(&mut self, bytes: Bytes) -> Result<(), Bytes> {
        self.pipe.put(bytes)
    }

    /// The body is complete.
    pub fn end(mut self) {
        self.over = true;
        self.pipe.end(Ok(None));
    }

    /// The body is complete, with trailers.
    pub fn end_with(mut self, trailers: HeaderMap) {
        self.over = true;
        self.pipe.end(Ok(Some(Box::new(trailers))));
    }

    /// The body will not be completed.
    pub fn abort(mut self, why: impl Into<String>) {
        self.over = true;
        self.pipe.end(Err(HttpError::Aborted(why.into())));
    }
}

impl Drop for BodySender {
    fn drop(&mut self) {
        if !self.over {
            self.pipe.end(Err(HttpError::Aborted("its sender was dropped".into())));
        }
    }
}

/// What a producer and a consumer of a body share.
#[derive(Default)]
pub(crate) struct Pipe {
    state: Mutex<PipeState>,
}

type End = Result<Option<Box<HeaderMap>>, HttpError>;

#[derive(Default)]
struct PipeState {
    pieces: VecDeque<Bytes>,
    end: Option<End>,
    /// Somebody waits for a piece.
    wanted: bool,
    reader_left: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Tells a stage that a piece is wanted, or that nobody wants any.
    poke: Option<Box<dyn Fn() + Send>>,
}

impl Pipe {
    /// A pipe whose producer is told when something is wanted of it.
    pub(crate) fn poking(poke: impl Fn() + Send + 'static) -> Arc<Self> {
        let state = PipeState { poke: Some(Box::new(poke)), ..PipeState::default() };
        Arc::new(Self { state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- the producer's side ----

    pub(crate) fn put(&self, bytes: Bytes) -> Result<(), Bytes> {
        let mut state = self.state();
        if state.reader_left {
            return Err(bytes);
        }
        state.pieces.push_back(bytes);
        state.wanted = false;
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        Ok(())
    }

    fn poll_put(
        &self,
        cx: &mut Context<'_>,
        bytes: Bytes,
        back: &mut Option<Bytes>,
    ) -> Poll<Result<(), Bytes>> {
        let mut state = self.state();
        if !state.reader_left && !state.wanted {
            state.writer = Some(cx.waker().clone());
            *back = Some(bytes);
            return Poll::Pending;
        }
        drop(state);
        Poll::Ready(self.put(bytes))
    }

    pub(crate) fn end(&self, end: End) {
        let mut state = self.state();
        state.end.get_or_insert(end);
        let reader = state.reader.take();
        drop(state);
        wake(reader);
    }

    /// Whether a piece is wanted now.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state().wanted
    }

    /// Whether nobody will read any more.
    pub(crate) fn is_left(&self) -> bool {
        self.state().reader_left
    }

    // ---- the consumer's side ----

    pub(super) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Result<Piece, HttpError>> {
        let mut state = self.state();
        if let Some(bytes) = state.pieces.pop_front() {
            return Poll::Ready(Ok(Piece::Data(bytes)));
        }
        if let Some(end) = &mut state.end {
            return Poll::Ready(match end {
                Ok(trailers) => Ok(Piece::End(trailers.take())),
                Err(error) => Err(error.clone()),
            });
        }
        state.reader = Some(cx.waker().clone());
        let first = !std::mem::replace(&mut state.wanted, true);
        let writer = state.writer.take();
        if first && let Some(poke) = &state.poke {
            poke();
        }
        drop(state);
        wake(writer);
        Poll::Pending
    }

    pub(super) fn reader_left(&self) {
        let mut state = self.state();
        state.reader_left = true;
        let pieces = std::mem::take(&mut state.pieces);
        let writer = state.writer.take();
        if let Some(poke) = &state.poke {
            poke();
        }
        drop(state);
        drop(pieces);
        wake(writer);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").finish_non_exhaustive()
    }
}

/// The body of a request whose connection has ended.
pub(crate) fn broken_off() -> HttpError {
    HttpError::Premature { within: Within::Body }
}
