//! Straight-line code at the end of a pipeline: an async function instead of a handler.
//!
//! ```text
//!   … ──▶ [ last stage: Serve ] ── inbox ──▶ Peer ── read().await ──▶ ┌ the user's future ┐
//!   … ◀── writes, flushes ──────── outbox ◀── Peer ── write(m).await ─ └───────────────────┘
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `peer` | [`Peer`] and its halves: the channel as the future sees it |
//! | `state`, `watch` | what stage and peer share; whoever waits for the end |
//! | `serve` | the stage that polls the future |
//! | `service` | request in, reply out, several at a time, in order or as they are ready |
//! | `outcome` | what the future's output says about the channel's end |
//!
//! Always true:
//! 1. The future runs on the channel's loop. Its end closes the channel, unless it has given way to another segment, and
//!    the channel's end drops it. What the peer sent before it went can be read before that; what is written fails at once.
//! 2. Demand is strict: a message is asked of the pipeline when somebody waits for it, one at a time.
//! 3. What was written is flushed at the latest when the future waits again: with the end of the read that it came from, or
//!    at once if it was woken by something else.
//! 4. No borrow of the shared state is held while anybody else's code runs, wakers included.

mod outcome;
mod peer;
mod serve;
mod service;
mod state;
#[cfg(feature = "futures")]
mod stream;
mod watch;

pub use outcome::Outcome;
pub use peer::{Peer, PeerReader, PeerWriter};
pub use serve::Serve;
pub use service::Service;

use crate::{
    channel::{CarriedBy, Outgoing},
    pipeline::{Complete, Element, PipelineBuilder},
};
use bytes::BytesMut;
use std::num::NonZeroUsize;

#[allow(clippy::type_complexity)] // the type is the list of stages: it grows with them
impl<S, H: Element> PipelineBuilder<(S, H)> {
    /// Adds the last stage: an async function that reads and writes messages. It runs on the channel's loop and need not
    /// be `Send`.
    ///
    /// ```
    /// use netwright_core::{CloseCause, EmbeddedChannel, Peer, pipeline};
    ///
    /// async fn shout(mut peer: Peer) -> Result<(), CloseCause> {
    ///     while let Some(mut text) = peer.read().await? {
    ///         text.make_ascii_uppercase();
    ///         peer.write(text).await?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().serve(shout));
    /// channel.write_inbound(b"hello");
    /// assert_eq!(channel.read_outbound().unwrap(), "HELLO");
    /// ```
    pub fn serve<F, T>(
        self,
        serve: F,
    ) -> PipelineBuilder<((S, H), Serve<H::ReadOut, H::Write, F, T>), Complete>
    where
        F: FnOnce(Peer<H::ReadOut, H::Write>) -> T + 'static,
        T: Future<Output: Outcome> + 'static,
    {
        self.add(Serve::new(serve)).complete()
    }

    /// Adds the last stage: a function from a request to the future of its reply. Up to `concurrency` requests are worked
    /// on at a time; replies leave in the order of their requests.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use bytes::BytesMut;
    /// use std::num::NonZeroUsize;
    ///
    /// let four = NonZeroUsize::new(4).unwrap();
    /// let echo = pipeline().service(four, |request: BytesMut| async move { request });
    /// let mut channel = EmbeddedChannel::new(echo);
    /// channel.write_inbound(b"hello");
    /// assert_eq!(channel.read_outbound().unwrap(), "hello");
    /// ```
    pub fn service<F, T>(
        self,
        concurrency: NonZeroUsize,
        service: F,
    ) -> PipelineBuilder<((S, H), Service<H::ReadOut, H::Write, F, T>), Complete>
    where
        F: FnMut(H::ReadOut) -> T + 'static,
        T: Future<Output: CarriedBy<H::Write>> + 'static,
    {
        self.add(Service::new(concurrency, true, service)).complete()
    }

    /// [`service`](Self::service) for protocols whose replies name their requests: a reply leaves as soon as it is ready, whichever request came
    /// first. Up to `concurrency` requests are worked on at a time; no further one is read meanwhile.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline, time};
    /// use bytes::BytesMut;
    /// use std::{num::NonZeroUsize, time::Duration};
    ///
    /// let two = NonZeroUsize::new(2).unwrap();
    /// let mut channel = EmbeddedChannel::new(pipeline().service_unordered(two, |request: BytesMut| async move {
    ///     if request.starts_with(b"#1") {
    ///         time::sleep(Duration::from_secs(1)).await;
    ///     }
    ///     format!("{}: done. ", String::from_utf8_lossy(&request))
    /// }));
    /// channel.write_inbound("#1").write_inbound("#2").write_inbound("#3");
    /// assert_eq!(channel.outbound_bytes(), b"#2: done. #3: done. ");
    /// channel.advance(Duration::from_secs(1));
    /// assert_eq!(channel.outbound_bytes(), b"#1: done. ");
    /// ```
    pub fn service_unordered<F, T>(
        self,
        concurrency: NonZeroUsize,
        service: F,
    ) -> PipelineBuilder<((S, H), Service<H::ReadOut, H::Write, F, T>), Complete>
    where
        F: FnMut(H::ReadOut) -> T + 'static,
        T: Future<Output: CarriedBy<H::Write>> + 'static,
    {
        self.add(Service::new(concurrency, false, service)).complete()
    }
}

#[allow(clippy::type_complexity)] // as above
impl PipelineBuilder<()> {
    /// Adds an async function as the only stage: it reads the bytes as they come.
    pub fn serve<F, T>(self, serve: F) -> PipelineBuilder<((), Serve<BytesMut, Outgoing, F, T>), Complete>
    where
        F: FnOnce(Peer) -> T + 'static,
        T: Future<Output: Outcome> + 'static,
    {
        self.add(Serve::new(serve)).complete()
    }

    /// The same where messages are not of bytes: a child's, for instance. What it reads and writes is said by the function.
    ///
    /// ```
    /// use netwright_core::{CloseCause, EmbeddedChannel, HostSettings, Peer, Weight, pipeline};
    ///
    /// async fn lengths(mut peer: Peer<String, usize>) -> Result<(), CloseCause> {
    ///     while let Some(word) = peer.read().await? {
    ///         peer.write(word.len()).await?;
    ///         peer.flush();
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let (stages, settings) = (pipeline().serve_between(lengths), HostSettings::default());
    /// let mut channel: EmbeddedChannel<(), _, _, _> =
    ///     EmbeddedChannel::of_messages_with_joint(stages, settings, Weight::unsaid());
    /// assert_eq!(channel.receive("hello".to_owned()).read_outbound(), Some(5));
    /// ```
    pub fn serve_between<R, W, F, T>(self, serve: F) -> PipelineBuilder<((), Serve<R, W, F, T>), Complete>
    where
        R: 'static,
        W: 'static,
        F: FnOnce(Peer<R, W>) -> T + 'static,
        T: Future<Output: Outcome> + 'static,
    {
        self.add(Serve::new(serve)).complete()
    }

    /// Adds a function from bytes to the future of a reply as the only stage.
    pub fn service<F, T>(
        self,
        concurrency: NonZeroUsize,
        service: F,
    ) -> PipelineBuilder<((), Service<BytesMut, Outgoing, F, T>), Complete>
    where
        F: FnMut(BytesMut) -> T + 'static,
        T: Future<Output: CarriedBy<Outgoing>> + 'static,
    {
        self.add(Service::new(concurrency, true, service)).complete()
    }

    /// Adds a function from bytes to the future of a reply as the only stage; replies leave as they are ready.
    pub fn service_unordered<F, T>(
        self,
        concurrency: NonZeroUsize,
        service: F,
    ) -> PipelineBuilder<((), Service<BytesMut, Outgoing, F, T>), Complete>
    where
        F: FnMut(BytesMut) -> T + 'static,
        T: Future<Output: CarriedBy<Outgoing>> + 'static,
    {
        self.add(Service::new(concurrency, false, service)).complete()
    }
}
