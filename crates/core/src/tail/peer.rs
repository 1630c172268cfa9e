//! The channel as an async tail sees it.
//!
//! What is waited for is a future made by hand where messages are in it: an `async fn` inside of another one holds what it was
//! given twice, and a tail that waits holds it for hours.

use super::{
    state::{Out, SharedState, State},
    watch::{Ended, Warned, Watcher},
};
use crate::{
    channel::{
        Carries, Channel, ChannelHold, CloseCause, Outgoing, Weight, WriteError, WritePromise, Written,
    },
    event_loop::EventLoop,
};
use bytes::BytesMut;
use std::{
    fmt,
    future::poll_fn,
    task::{Context, Poll, ready},
};

/// Both directions of a channel, for straight-line code: reads messages of type `R`, writes messages of type `W`.
///
/// Given to the function of [`serve`](crate::PipelineBuilder::serve). Lives on the channel's loop. The verbs mean the same here, on a
/// [`Channel`] and on a [`Context`](crate::Context), but that here they wait for room first: `docs/verbs.md` has them in a table. Every wait can be given
/// up (`select`, `timeout`) without losing a message.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, Peer, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// async fn greet(mut peer: Peer) -> Result<(), CloseCause> {
///     peer.write(Bytes::from("who is there? ")).await?;
///     let Some(name) = peer.read().await? else { return Ok(()) }; // sends no more
///     peer.send(Bytes::from([b"hello, ", &name[..]].concat())).await?; // taken by the system
///     Ok(())
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().serve(greet));
/// channel.write_inbound("Ada");
/// assert_eq!(channel.outbound_bytes(), b"who is there? hello, Ada");
/// ```
pub struct Peer<R = BytesMut, W = Outgoing> {
    reader: PeerReader<R, W>,
    writer: PeerWriter<R, W>,
}

/// The reading half of a [`Peer`].
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, Peer, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// let mut channel = EmbeddedChannel::new(pipeline().serve(|peer: Peer| async move {
///     let (mut reader, mut writer) = peer.split();
///     while let Some(bytes) = reader.read().await? {
///         writer.write(bytes.freeze()).await?;
///     }
///     Ok::<(), CloseCause>(())
/// }));
/// channel.write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// ```
pub struct PeerReader<R = BytesMut, W = Outgoing> {
    pub(super) state: SharedState<R, W>,
}

/// The writing half of a [`Peer`].
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, EventLoop, Peer, pipeline, time};
/// use bytes::{Bytes, BytesMut};
/// use std::time::Duration;
///
/// // Ticks beside whatever is read.
/// let mut channel = EmbeddedChannel::new(pipeline().serve(|peer: Peer| async move {
///     let (mut reader, mut writer) = peer.split();
///     let ticks = async move {
///         loop {
///             time::sleep(Duration::from_secs(1)).await;
///             if writer.write(Bytes::from("tick ")).await.is_err() {
///                 break;
///             }
///         }
///     };
///     let _ticking = EventLoop::current().expect("on a loop").spawn_local(ticks);
///     while reader.read().await?.is_some() {}
///     Ok::<(), CloseCause>(())
/// }));
/// channel.advance(Duration::from_secs(1)).advance(Duration::from_secs(1));
/// assert_eq!(channel.outbound_bytes(), b"tick tick ");
/// ```
pub struct PeerWriter<R = BytesMut, W = Outgoing> {
    pub(super) state: SharedState<R, W>,
    /// Where this half itself watches for the end, when it is polled for it.
    watching: Option<Box<Watcher<R, W>>>,
}

/// Runs on the state; the stage is told afterwards if it has to be.
fn with<R, W, T>(state: &SharedState<R, W>, f: impl FnOnce(&mut State<R, W>) -> T) -> T {
    let (result, poke) = {
        let mut state = state.borrow_mut();
        let result = f(&mut state);
        (result, state.poke())
    };
    if let Some(stage) = poke {
        stage.wake();
    }
    result
}

fn channel_of<R, W>(state: &SharedState<R, W>) -> Channel<W> {
    let channel = state.borrow().channel.clone();
    channel.expect("a tail begins when its channel is connected")
}

fn loop_of<R, W: 'static>(state: &SharedState<R, W>) -> EventLoop {
    channel_of(state).event_loop()
}

impl<R: 'static, W: 'static> Peer<R, W> {
    pub(super) fn new(state: SharedState<R, W>) -> Self {
        Self { reader: PeerReader { state: state.clone() }, writer: PeerWriter { state, watching: None } }
    }

    /// The next message. `None`: the peer sends no more. Until this is called, nothing is read.
    ///
    /// # Errors
    /// The channel has ended otherwise: why.
    pub fn read(&mut self) -> impl Future<Output = Result<Option<R>, CloseCause>> {
        self.reader.read()
    }

    /// Writes a message as soon as there is room; at once, most of the time. It is sent when the tail waits next, or with
    /// [`flush`](Self::flush).
    ///
    /// # Errors
    /// The channel has ended: why.
    pub fn write<M>(&mut self, msg: M) -> impl Future<Output = Result<(), CloseCause>>
    where
        W: Carries<M>,
    {
        self.writer.write(msg)
    }

    /// [`write`](Self::write), and sends it at once instead of when the tail waits next.
    ///
    /// # Errors
    /// The channel has ended: why.
    pub fn write_and_flush<M>(&mut self, msg: M) -> impl Future<Output = Result<(), CloseCause>>
    where
        W: Carries<M>,
    {
        self.writer.write_and_flush(msg)
    }

    /// [`write`](Self::write), and resolves to a future of the message's fate.
    ///
    /// # Errors
    /// The channel has ended: why.
    pub fn write_tracked<M>(&mut self, msg: M) -> impl Future<Output = Result<Written, CloseCause>>
    where
        W: Carries<M>,
    {
        self.writer.write_tracked(msg)
    }

    /// Writes a message as soon as there is room, sends it, and resolves when the system has taken its last byte.
    ///
    /// # Errors
    /// It was not sent: why.
    pub fn send<M>(&mut self, msg: M) -> impl Future<Output = Result<(), WriteError>>
    where
        W: Carries<M>,
    {
        self.writer.send(msg)
    }

    /// Sends what was written so far, without waiting for anything.
    pub fn flush(&mut self) {
        self.writer.flush();
    }

    /// Closes the channel. What was written and not sent is lost, and so is what is written later.
    pub fn close(&mut self) {
        self.writer.close();
    }

    /// Closes the channel once everything that was written is sent.
    pub fn close_when_flushed(&mut self) {
        self.writer.close_when_flushed();
    }

    /// Closes the channel for a reason that everybody will be told. What was written and not sent is lost, and so is what is
    /// written later.
    pub fn close_because(&mut self, cause: CloseCause) {
        self.writer.close_because(cause);
    }

    /// Tells the peer that no more will come, once everything that was written is sent. Reading goes on.
    pub fn shut_down_output(&mut self) {
        self.writer.shut_down_output();
    }

    /// [`shut_down_output`](Self::shut_down_output), and tells when that is done.
    pub fn shut_down_output_tracked(&mut self) -> Written {
        self.writer.shut_down_output_tracked()
    }

    /// Resolves with the end of the channel. The future does not borrow the peer.
    pub fn closed(&self) -> impl Future<Output = CloseCause> + use<R, W> {
        self.writer.closed()
    }

    /// Resolves when the server wants to end: whatever the tail has begun may be finished until the server's deadline. The
    /// future does not borrow the peer, so it can be waited for beside a read.
    ///
    /// ```
    /// use netwright_core::{CloseCause, EmbeddedChannel, Event, Peer, Selected, ShuttingDown, pipeline, select};
    /// use bytes::{Bytes, BytesMut};
    ///
    /// async fn echo(mut peer: Peer) -> Result<(), CloseCause> {
    ///     let mut ending = Box::pin(peer.shutting_down());
    ///     while let Selected::First(bytes) = select(peer.read(), ending.as_mut()).await {
    ///         let Some(bytes) = bytes? else { return Ok(()) };
    ///         peer.write(bytes.freeze()).await?;
    ///     }
    ///     peer.write("goodbye").await
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().serve(echo));
    /// channel.write_inbound(b"hello, ").channel().fire_event(Event::new(ShuttingDown));
    /// assert_eq!(channel.run().outbound_bytes(), b"hello, goodbye");
    /// ```
    pub fn shutting_down(&self) -> impl Future<Output = ()> + use<R, W> {
        self.reader.shutting_down()
    }

    /// Whether the server wants to end.
    pub fn is_shutting_down(&self) -> bool {
        self.reader.state.borrow().is_shutting_down()
    }

    /// The channel's handle: addresses, attributes, and for others to write.
    pub fn channel(&self) -> Channel<W> {
        self.writer.channel()
    }

    /// Keeps messages from being delivered until what is returned is dropped: [`Channel::hold`]. A tail that does not read needs none of
    /// that; stages in front of it, and those who are given the guard, may.
    pub fn hold(&self) -> ChannelHold<W> {
        self.channel().hold()
    }

    /// The loop on which the channel lives, and this future with it: [`Channel::event_loop`].
    ///
    /// ```
    /// use netwright_core::{CloseCause, EmbeddedChannel, Peer, pipeline};
    /// use bytes::{Bytes, BytesMut};
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().serve(|mut peer: Peer| async move {
    ///     assert!(peer.event_loop().in_event_loop());
    ///     peer.write(Bytes::from(peer.event_loop().name().to_owned())).await
    /// }));
    /// assert_eq!(channel.outbound_bytes(), b"netwright-loop");
    /// ```
    pub fn event_loop(&self) -> EventLoop {
        self.writer.event_loop()
    }

    /// Both directions apart, for two tasks of the same loop. The channel ends with the tail's own future, whatever
    /// becomes of the halves.
    pub fn split(self) -> (PeerReader<R, W>, PeerWriter<R, W>) {
        (self.reader, self.writer)
    }

    /// Both halves, for code that polls.
    pub fn halves(&mut self) -> (&mut PeerReader<R, W>, &mut PeerWriter<R, W>) {
        (&mut self.reader, &mut self.writer)
    }
}

impl<R: 'static, W: 'static> PeerReader<R, W> {
    /// [`Peer::read`].
    ///
    /// # Errors
    /// The channel has ended otherwise than by the peer's end: why.
    pub fn read(&mut self) -> impl Future<Output = Result<Option<R>, CloseCause>> {
        poll_fn(|cx| self.poll_read(cx))
    }

    /// [`read`](Self::read) for code that polls.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<R>, CloseCause>> {
        with(&self.state, |state| state.poll_read(cx))
    }

    /// [`Peer::event_loop`].
    pub fn event_loop(&self) -> EventLoop {
        loop_of(&self.state)
    }

    /// [`Peer::shutting_down`].
    pub fn shutting_down(&self) -> impl Future<Output = ()> + use<R, W> {
        Warned(Watcher::new(self.state.clone()))
    }
}

impl<R: 'static, W: 'static> PeerWriter<R, W> {
    /// [`Peer::write`].
    ///
    /// # Errors
    /// The channel has ended: why.
    pub fn write<M>(&mut self, msg: M) -> impl Future<Output = Result<(), CloseCause>>
    where
        W: Carries<M>,
    {
        self.when_room(W::carry(msg), |writer, msg| writer.write_now::<W>(msg))
    }

    /// [`Peer::write_and_flush`].
    ///
    /// # Errors
    /// The channel has ended: why.
    pub fn write_and_flush<M>(&mut self, msg: M) -> impl Future<Output = Result<(), CloseCause>>
    where
        W: Carries<M>,
    {
        self.when_room(W::carry(msg), |writer, msg| {
            writer.write_now::<W>(msg);
            writer.flush();
        })
    }

    /// [`Peer::write_tracked`].
    ///
    /// # Errors
    /// The channel has ended: why.
    pub fn write_tracked<M>(&mut self, msg: M) -> impl Future<Output = Result<Written, CloseCause>>
    where
        W: Carries<M>,
    {
        self.when_room(W::carry(msg), Self::write_now_tracked::<W>)
    }

    /// Waits for room, then has `put` write the message.
    fn when_room<T>(
        &mut self,
        msg: W,
        put: impl Fn(&mut Self, W) -> T,
    ) -> impl Future<Output = Result<T, CloseCause>> {
        let mut msg = Some(msg);
        poll_fn(move |cx| {
            ready!(self.poll_ready(cx))?;
            let msg = msg.take().expect("a future is not polled again when it was ready");
            Poll::Ready(Ok(put(self, msg)))
        })
    }

    /// [`Peer::send`].
    ///
    /// # Errors
    /// It was not sent: why.
    pub fn send<M>(&mut self, msg: M) -> impl Future<Output = Result<(), WriteError>>
    where
        W: Carries<M>,
    {
        let msg = W::carry(msg);
        async move {
            poll_fn(|cx| self.poll_ready(cx)).await.map_err(WriteError::Closed)?;
            let written = self.write_now_tracked::<W>(msg);
            self.flush();
            written.await
        }
    }

    /// Ready when there is room to write, for code that polls.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CloseCause>> {
        with(&self.state, |state| state.poll_writable(cx))
    }

    /// Writes a message without asking for room first. Callers who do not ask pile messages up.
    pub fn write_now<M>(&mut self, msg: M)
    where
        W: Carries<M>,
    {
        self.put_message(W::carry(msg), WritePromise::untracked());
    }

    /// [`write_now`](Self::write_now), and tells when the system has taken the message's last byte.
    pub fn write_now_tracked<M>(&mut self, msg: M) -> Written
    where
        W: Carries<M>,
    {
        let (done, written) = WritePromise::tracked();
        self.put_message(W::carry(msg), done);
        written
    }

    /// [`Peer::flush`].
    pub fn flush(&mut self) {
        self.put(Out::Flush, 0);
    }

    /// [`Peer::close`].
    pub fn close(&mut self) {
        self.close_because(CloseCause::Requested);
    }

    /// [`Peer::close_when_flushed`].
    pub fn close_when_flushed(&mut self) {
        self.put(Out::CloseWhenFlushed, 0);
    }

    /// [`Peer::close_because`].
    pub fn close_because(&mut self, cause: CloseCause) {
        self.put(Out::CloseBecause(Box::new(cause)), 0);
    }

    /// [`Peer::shut_down_output`].
    pub fn shut_down_output(&mut self) {
        self.put(Out::ShutDownOutput(WritePromise::untracked()), 0);
    }

    /// [`Peer::shut_down_output_tracked`].
    pub fn shut_down_output_tracked(&mut self) -> Written {
        let (done, written) = WritePromise::tracked();
        self.put(Out::ShutDownOutput(done), 0);
        written
    }

    /// [`Peer::closed`].
    pub fn closed(&self) -> impl Future<Output = CloseCause> + use<R, W> {
        Ended(Watcher::new(self.state.clone()))
    }

    /// [`closed`](Self::closed) for code that polls.
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<CloseCause> {
        let state = &self.state;
        self.watching.get_or_insert_with(|| Box::new(Watcher::new(state.clone()))).poll_closed(cx)
    }

    /// [`Peer::channel`].
    pub fn channel(&self) -> Channel<W> {
        channel_of(&self.state)
    }

    /// [`Peer::event_loop`].
    pub fn event_loop(&self) -> EventLoop {
        loop_of(&self.state)
    }

    fn put_message(&mut self, msg: W, done: WritePromise) {
        // Asked with the borrow over: what counts is told by somebody else's function.
        let weight = self.state.borrow().channel.as_ref().map_or_else(Weight::unsaid, Channel::weight);
        let bytes = weight.of_message(&msg);
        self.put(Out::Write(msg, done), bytes);
    }

    fn put(&mut self, out: Out<W>, bytes: usize) {
        if let Err(unwanted) = with(&self.state, |state| state.put(out, bytes)) {
            unwanted.refuse();
        }
    }
}

macro_rules! debug {
    ($($name:ident),+) => { $(
        impl<R, W> fmt::Debug for $name<R, W> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )+ };
}

debug!(Peer, PeerReader, PeerWriter);
