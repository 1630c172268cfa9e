//! A channel as a stream of bytes that may go to other threads.
//!
//! ```text
//!   loop:  Peer ── read when asked ──▶ Carry ── one piece ──▶ [ Inbox ] ──▶ SendReader   anywhere
//!   loop:  the channel's commands ◀──────────── Channel ◀────────────────── SendWriter
//! ```
//! Always true:
//! 1. Nothing is read ahead: at most one piece waits in the inbox, and it was asked for.
//! 2. What was written is in the channel's one line of commands before the end that a dropped half asks for.
//! 3. The lock is held for a few assignments: nobody is woken, and nothing foreign is dropped, meanwhile.

use crate::{
    PeerIo, PeerRead, PeerWrite,
    ends::{Reads, Writes, sealed::Sealed},
};
use bytes::{Bytes, BytesMut};
use netwright_core::{Channel, CloseCause, Peer, PeerReader, PeerWriter, Written};
use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// A [`PeerIo`] that is `Send`: for what wants to take its I/O along, as connections do that are upgraded. Made by
/// [`PeerIo::sendable`].
pub type SendIo = PeerIo<SendReader, SendWriter>;

impl PeerIo {
    /// The peer of an async tail as a stream of bytes that may go to any thread, and what carries them while the tail awaits it.
    ///
    /// hyper and axum want such a stream for upgrades (`with_upgrades`), and so for WebSockets: whoever upgrades keeps the
    /// I/O. Each read and each write crosses to the loop, so what needs no upgrades is better off with [`new`](Self::new).
    ///
    /// A stream that is dropped ends its channel behind what it wrote; one whose tail does not await its [`Carry`] reads nothing.
    ///
    /// ```
    /// # #[cfg(feature = "hyper")] {
    /// use http_body_util::Empty;
    /// use hyper::{Request, Response, StatusCode, body::{Bytes, Incoming}, server::conn::http1, service::service_fn};
    /// use netwright_bridge::{LoopExecutor, PeerIo};
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use hyper::rt::Executor;
    ///
    /// async fn switch(mut request: Request<Incoming>) -> hyper::Result<Response<Empty<Bytes>>> {
    ///     let upgraded = hyper::upgrade::on(&mut request); // resolves to the I/O: to be spawned, anywhere
    ///     # drop(upgraded);
    ///     let mut reply = Response::new(Empty::new());
    ///     *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    ///     Ok(reply)
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().serve(|peer| async move {
    ///     let (io, carry) = PeerIo::sendable(peer);
    ///     let connection = http1::Builder::new().serve_connection(io, service_fn(switch)).with_upgrades();
    ///     LoopExecutor::new().execute(connection); // or on a runtime of other threads
    ///     carry.await;
    /// }));
    /// channel.write_inbound(b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
    /// assert!(channel.outbound_bytes().starts_with(b"HTTP/1.1 101 "));
    /// # }
    /// ```
    pub fn sendable(peer: Peer) -> (SendIo, Carry) {
        let (reader, writer) = peer.split();
        let channel = writer.channel();
        let inbox = Arc::new(Inbox::default());
        let read = SendReader { inbox: inbox.clone(), channel: channel.clone() };
        let write = SendWriter { inbox: inbox.clone(), channel, waiting: None };
        let io = PeerIo { read: PeerRead::of(read), write: PeerWrite::of(write) };
        (io, Carry { reader, writer, inbox })
    }
}

#[derive(Default)]
struct Inbox(Mutex<State>);

#[derive(Default)]
struct State {
    /// A piece that was asked for.
    came: Option<BytesMut>,
    /// Somebody waits for one.
    wanted: Option<Waker>,
    /// Who fetches it.
    carrier: Option<Waker>,
    /// Behind it nothing comes: the input has ended, or the channel has, and why.
    ended: Option<Result<(), CloseCause>>,
    reader_gone: bool,
    writer_gone: bool,
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something for whoever waits, or for who will ask next.
    fn put(&self, came: Result<Option<BytesMut>, CloseCause>) {
        let mut state = self.state();
        match came {
            Ok(Some(piece)) => state.came = Some(piece),
            Ok(None) => state.ended = Some(Ok(())),
            Err(cause) => state.ended = Some(Err(cause)),
        }
        let waker = state.wanted.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The reading half of a [`SendIo`].
pub struct SendReader {
    inbox: Arc<Inbox>,
    channel: Channel,
}

impl Sealed for SendReader {}

impl Reads for SendReader {
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<BytesMut>, CloseCause>> {
        let waker = cx.waker().clone();
        let mut state = self.inbox.state();
        if let Some(piece) = state.came.take() {
            return Poll::Ready(Ok(Some(piece)));
        }
        if let Some(ended) = &state.ended {
            return Poll::Ready(ended.clone().map(|()| None));
        }
        let before = state.wanted.replace(waker);
        let carrier = state.carrier.take();
        drop(state);
        drop(before);
        if let Some(carrier) = carrier {
            carrier.wake();
        }
        Poll::Pending
    }
}

impl Drop for SendReader {
    fn drop(&mut self) {
        let mut state = self.inbox.state();
        state.reader_gone = true;
        let ends = state.writer_gone;
        let left = (state.came.take(), state.wanted.take(), state.carrier.take());
        drop(state);
        if ends {
            drop(self.channel.close_when_flushed());
        }
        if let (_, _, Some(carrier)) = left {
            carrier.wake();
        }
    }
}

/// The writing half of a [`SendIo`].
pub struct SendWriter {
    inbox: Arc<Inbox>,
    channel: Channel,
    /// For room.
    waiting: Option<Room>,
}

type Room = Pin<Box<dyn Future<Output = Result<(), CloseCause>> + Send + Sync>>;

impl Sealed for SendWriter {}

impl Writes for SendWriter {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CloseCause>> {
        if self.waiting.is_none() {
            if let Some(cause) = self.channel.close_cause() {
                return Poll::Ready(Err(cause));
            }
            if self.channel.is_writable() {
                return Poll::Ready(Ok(()));
            }
            self.channel.flush(); // or there would never be room
        }
        let channel = &self.channel;
        let waiting = self.waiting.get_or_insert_with(|| {
            let channel = channel.clone();
            Box::pin(async move { channel.writable().await })
        });
        let ready = waiting.as_mut().poll(cx);
        if ready.is_ready() {
            self.waiting = None;
        }
        ready
    }
    fn write_now(&mut self, bytes: Bytes) {
        self.channel.write(bytes);
    }
    fn write_tracked(&mut self, bytes: Bytes) -> Written {
        self.channel.write_tracked(bytes)
    }
    fn flush(&mut self) {
        self.channel.flush();
    }
    fn flush_soon(&mut self) {
        self.channel.flush();
    }
    fn shut_down_output(&mut self) {
        self.channel.flush();
        self.channel.shut_down_output();
    }
}

impl Drop for SendWriter {
    fn drop(&mut self) {
        let mut state = self.inbox.state();
        state.writer_gone = true;
        let ends = state.reader_gone;
        drop(state);
        self.channel.flush();
        if ends {
            drop(self.channel.close_when_flushed());
        } else {
            self.channel.shut_down_output();
        }
    }
}

/// Brings a [`SendIo`] the bytes that it asks for, on the loop of its channel: awaited by the tail, until the channel has ended. Gives
/// why it has.
#[must_use = "a `SendIo` reads nothing unless its tail awaits this"]
pub struct Carry {
    reader: PeerReader,
    writer: PeerWriter,
    inbox: Arc<Inbox>,
}

impl Future for Carry {
    type Output = CloseCause;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CloseCause> {
        let Self { reader, writer, inbox } = self.get_mut();
        loop {
            let waker = cx.waker().clone();
            let mut state = inbox.state();
            let before = state.carrier.replace(waker);
            let wanted = state.wanted.is_some() && state.came.is_none();
            let ended = state.ended.is_some();
            let over = state.reader_gone || ended;
            drop(state);
            drop(before);
            if wanted
                && !ended
                && let Poll::Ready(came) = reader.poll_read(cx)
            {
                inbox.put(came);
                continue;
            }
            // What had come before the end can be read until then.
            return if over { writer.poll_closed(cx) } else { Poll::Pending };
        }
    }
}

/// A channel that has ended lets go of its tail. Whoever still reads finds what had come, and the end.
impl Drop for Carry {
    fn drop(&mut self) {
        if self.inbox.state().ended.is_some() {
            return;
        }
        let end = match self.reader.poll_read(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(None)) => Ok(None),
            Poll::Ready(Err(cause)) => Err(cause),
            // Dropped before its time.
            _ => Err(self.writer.channel().close_cause().unwrap_or(CloseCause::Requested)),
        };
        self.inbox.put(end);
    }
}

impl fmt::Debug for SendReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendReader").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl fmt::Debug for SendWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendWriter").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl fmt::Debug for Carry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carry").finish_non_exhaustive()
    }
}
