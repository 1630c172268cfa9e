//! Netwright is for servers and clients of network protocols, yours or common ones: TCP, UDP, Unix sockets, TLS, HTTP/1.1 and WebSocket,
//! with Netty's architecture. Event loops own channels, channels own pipelines of handlers, codecs are handlers.
//!
//! ```text
//!  other threads ──tasks──▶ ┌────────── event loop (one thread, one driver) ──────────┐
//!                           │ 1 poll   2 deliver I/O   3 run tasks   4 tail tasks  5 … │
//!                           └──────────────────────────────────────────────────────────┘
//!   socket ──▶ loop's buffer ──▶ [ stage ] ── call ─▶ [ stage ] ── call ─▶ [ stage ]    (active, read, …, inactive)
//!   socket ◀── outbound queue ◀─ [ stage ] ◀─ ops ── [ stage ] ◀─ ops ── [ stage ]      (write, flush, close)
//!                                wire side                          application side
//! ```
//!
//! ```
//! use netwright::{AppContext, Application, Client, Server, codec::{LineFrames, Utf8}, event_loops, pipeline};
//! use std::sync::mpsc;
//!
//! struct Greeter;
//!
//! impl Application for Greeter {
//!     type Read = String;
//!     type Write = String;
//!
//!     fn read(&mut self, cx: &mut AppContext<'_, Self>, name: String) {
//!         cx.write_and_flush(format!("hello, {name}"));
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder()
//!     .group(event_loops(1)?)
//!     .pipeline(|_| pipeline().add(LineFrames::max(1024)).add(Utf8::strict()).app(Greeter))
//!     .bind("127.0.0.1:0")
//!     .wait()?;
//!
//! let (send, greetings) = mpsc::channel();
//! let client = Client::builder().pipeline(move || {
//!     let send = send.clone();
//!     pipeline()
//!         .add(LineFrames::max(1024))
//!         .add(Utf8::strict())
//!         .handle(move |_, greeting| send.send(greeting).unwrap())
//! })?;
//! let channel = client.connect(server.address()).wait()?;
//! channel.send("world".to_owned()).wait()?;
//! assert_eq!(greetings.recv()?, "hello, world");
//! # Ok(())
//! # }
//! ```
//!
//! # Where to find what
//!
//! What nearly every program uses is here, and in the [`prelude`]; all the rest is in modules by area.
//!
//! The examples on the pages of items import from the crates that this one is made of, because they are tested there:
//! `use netwright_core::{EmbeddedChannel, pipeline};`. In your program the same names are in `netwright` and its modules; the search on this page
//! says in which.
//!
//! | what you look for | where |
//! | --- | --- |
//! | servers: addresses, a limit on connections (max connections), who may come in (networks, rates), pausing, graceful shutdown, figures | [`Server`], [`server`] |
//! | clients, connection pools, reconnecting | [`Client`], [`client`] |
//! | UDP and Unix datagrams, multicast | [`Datagrams`], [`datagram`] |
//! | what you write: handlers, applications, middleware (a stage between others), async functions | [`Handler`], [`Application`], [`Peer`], [`pipeline`](mod@pipeline) |
//! | what you hold, from any thread: writing, backpressure (water marks), groups and broadcasts, the cause of an end | [`Channel`], [`ChannelGroup`], [`channel`] |
//! | frames, text, serialisation, compression | [`codec`] |
//! | loops, timers, tasks, futures, how threads are made and how they wait; which backend | [`EventLoop`], [`EventLoopGroup`], [`Backend`], [`event_loop`]; [`time`] |
//! | work that blocks | [`Workers`], [`workers`]; a thread for each channel: `event_loop::ThreadPerChannel` |
//! | one result that is waited for or awaited | [`Promised`], [`promise`](mod@promise) |
//! | what async code shares: a semaphore, a value that is watched | [`sync`] |
//! | socket options: keep-alive, no delay, buffers, backlog | [`options`]; names to addresses: [`resolve`] |
//! | files that no loop waits for, and files as what channels send | [`files`], [`channel::FileRegion`], [`channel::ByteSource`] |
//! | what is written while there is room: readers, iterators, streams | [`source`] |
//! | several protocols on one port | [`detect`] |
//! | TLS, HTTP/1.1, WebSocket | `tls`, `http`, `websocket`, behind features of these names; their clients behind further ones |
//! | between us and tokio, `futures-io`, hyper | `bridge`, behind features of these names |
//! | what passed on a channel before something went wrong (flight recorder, capture), and its replay | `record`, behind a feature of this name |
//! | tests without sockets and sleeps | [`EmbeddedChannel`], [`testing`] |
//! | transports and drivers of one's own | [`transport`] |
//!
//! # Features
//! Those of the first line are on by default; all others are off. The pages of items name features as the crate that has the item names them. Where the feature has
//! another name here, both are named.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `uring`, `blocking`, `local`, `handler` | io_uring on Linux; a thread for each channel; channels within the process; ready-made stages |
//! | `signals` | Ctrl-C and `SIGTERM`, and servers that end in order because of them |
//! | `tls`, `self-signed` | TLS as a stage; certificates for development |
//! | `http`, `tower`, `http-compress` | HTTP/1.1; `tower` services behind it; content coding |
//! | `http-client`, `https` | the pooled HTTP client; with `https://` |
//! | `websocket`, `websocket-client`, `wss` | WebSocket; clients by address; with `wss://` |
//! | `protobuf`, `messagepack`, `json`, `cbor`, `postcard`, `thrift` | messages in these formats |
//! | `gzip`, `zlib`, `deflate`, `zstd`, `brotli`, `lz4`, `snappy`, `compress` | compression by these formats; by all |
//! | `base64`, `charsets` | text as bytes, and in other charsets than UTF-8 |
//! | `tokio`, `futures`, `hyper`, `tokio-util` | bridges to these |
//! | `record` | a flight recorder for channels, and their replay in tests |
//!
//! Types of other crates in our signatures are re-exported with them: [`bytes`]; `http` as `http::http`; `prost` as `codec::prost`;
//! `rustls` as `tls::rustls`.
//!
//! This crate gathers what the others offer; it has no logic of its own.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(inline)]
pub use netwright_core::{
    Address, AppContext, Application, Channel, ChannelGroup, CloseCause, Context, EmbeddedChannel, Event,
    EventLoop, EventLoopGroup, Fault, Handler, Observer, Outgoing, Peer, PipelineBuilder, Promised, Workers,
    WriteError, WritePromise, pipeline,
};
#[doc(inline)]
pub use netwright_transport::{Backend, Client, Datagrams, Server, event_loops};

#[doc(no_inline)]
pub use bytes;

/// What nearly every program uses: `use netwright::prelude::*;`
///
/// ```
/// use netwright::prelude::*;
///
/// let mut channel = EmbeddedChannel::new(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
/// channel.write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// ```
pub mod prelude {
    #[doc(no_inline)]
    pub use crate::{
        AppContext, Application, Backend, Channel, ChannelGroup, Client, CloseCause, Context,
        EmbeddedChannel, EventLoop, EventLoopGroup, Handler, Peer, Promised, Server, event_loops, pipeline,
    };
}

/// Channels as other code holds them: handles for any thread, groups, what can be sent, what waits to be sent (backpressure), and why they end.
pub mod channel {
    #[doc(inline)]
    pub use netwright_core::{
        Address, AddressError, ByteSource, Carries, Channel, ChannelGroup, ChannelHold, ChannelId,
        ChannelState, Child, ChildError, ChildKey, ChildSettings, Children, CloseCause, Closed,
        ConflationKey, Envelope, Fault, FileProgress, FileRegion, GroupResult, GroupWritten, LeastRate,
        OtherAddress, Outgoing, ParentChannel, ShuttingDown, SlowFigures, SlowMember, SlowMembers, Special,
        UnixName, WaterMarks, Weight, WriteError, WritePromise, Written,
    };
    #[doc(inline)]
    pub use netwright_transport::EnvelopeError;
    #[cfg(unix)]
    #[doc(inline)]
    pub use netwright_transport::{DescriptorError, PeerCredentials, ReceivedDescriptors};
}

/// Pipelines: handlers and their relatives, how they are put together (middleware is a stage between others), exchanged and found; async functions
/// as the last stage.
pub mod pipeline {
    #[doc(inline)]
    pub use netwright_core::{
        AppContext, Application, ApplicationStage, ChannelView, ClosureStage, Complete, Context, Either,
        Ending, Event, Filter, FilterContext, FilterStage, Filtered, Glance, HalfClosure, Handler, Hold,
        InboundOnly, InboundStage, IntoPipeline, Joint, Kept, Leftover, Link, Moment, Observer,
        ObserverStage, OffloadError, OnLoop, OnWorker, OnWorkers, Open, OutboundOnly, OutboundStage, Outcome,
        Peer, PeerReader, PeerWriter, PipelineBuilder, Place, Rest, Sealed, Segment, SendApplication,
        SendHandler, Serve, Service, Slot, SlotStage, StageCaller, StageError, StageInfo, StageTask,
        StageTimer, Switch, Whole, filter, inbound, observe, on_workers, outbound, pipeline, slot,
    };
}

/// Event loops and groups of them: tasks, timers, futures, which loop gets the next channel (load balancing), backends, and how their threads are
/// made and wait.
pub mod event_loop {
    #[doc(inline)]
    pub use netwright_core::{
        AutoScale, AutoScaleBuilder, AutoScaleFigures, BuildError, Chooser, EventLoop, EventLoopBuilder,
        EventLoopGroup, EventLoopGroupBuilder, GroupFigures, InvalidArgument, JoinHandle, LeastLoaded,
        LongestTask, LoopError, LoopFigures, QUIET_PERIOD, Refused, RefusedWhy, Rejection, RoundRobin,
        SHUTDOWN_TIMEOUT, Scheduled, TailTask, TaskError, TaskKind, Termination, ThreadBody, ThreadFactory,
        WaitStrategy, WeakEventLoop,
    };
    #[doc(inline)]
    pub use netwright_transport::{Backend, Choice, Probe, ProbeStep, ThreadError, event_loops};
    #[cfg(feature = "blocking")]
    #[doc(inline)]
    pub use netwright_transport::{ThreadFigures, ThreadPerChannel, ThreadPerChannelBuilder};
}

/// Work that blocks or computes for long, on threads of its own, in the order of a lane if that matters.
pub mod workers {
    #[doc(inline)]
    pub use netwright_core::{
        Lane, ShutdownError, Workers, WorkersBuilder, WorkersError, WorkersFigures, WorkersTermination,
    };
}

/// One result from one writer to whoever waits, blocks or awaits; the first of two futures.
pub mod promise {
    #[doc(inline)]
    pub use netwright_core::{
        Promise, PromiseError, Promised, Select, Selected, SharedPromised, promise, select,
    };
}

/// What async code on loops shares: permits that are limited, and a value whose changes are waited for.
pub mod sync {
    #[doc(inline)]
    pub use netwright_core::{Acquire, AcquireError, Changed, Permit, Semaphore, Watch, WatchEnded, Watcher};
}

/// Servers: addresses, observers, refused connections, figures, and graceful shutdown.
pub mod server {
    #[cfg(feature = "signals")]
    #[doc(inline)]
    pub use netwright_transport::signals;
    #[doc(inline)]
    pub use netwright_transport::{
        AcceptRate, AccessDenied, AccessList, Admission, AdmissionControl, Incoming, LiveAccessList, Network,
        NetworkError, Networks, Verdict,
    };
    #[doc(inline)]
    pub use netwright_transport::{
        Accepted, BindError, BoundPipeline, ListenEnd, Refusal, Refusals, Server, ServerBuilder,
        ServerFigures, ServerObserver, ServerShutdown,
    };
    #[doc(inline)]
    pub use netwright_transport::{DescriptorLimit, Raised, descriptor_limit, raise_descriptor_limit};
}

/// Clients, proxies that they go through, and pools of their connections.
pub mod client {
    #[doc(inline)]
    pub use netwright_transport::{
        BadProxy, Client, ClientBuilder, ConnectError, Direct, NoTls, Pool, PoolBuilder, PoolError,
        PoolFigures, Pooled, Proxies, Proxy, ProxyChain, ProxyError, ProxyWhy, Purpose, ThroughProxies,
    };
}

/// UDP and Unix datagrams, in batches, and multicast.
pub mod datagram {
    #[doc(inline)]
    pub use netwright_transport::{
        Datagram, DatagramError, DatagramFigures, DatagramSocket, Datagrams, DatagramsBuilder, Multicast,
        MulticastError, PortUnreachable, Truncated, Undelivered,
    };
}

/// Tests without sockets and sleeps: channels in memory, loops and clocks that are driven by hand, and what stands in for the machine in a
/// simulation.
pub mod testing {
    #[doc(inline)]
    pub use netwright_core::{Clock, EmbeddedChannel, Finished, ManualClock, ManualLoop, SystemClock, world};
}

/// For those who bring transports, drivers or sources of events of their own: the contract of each.
pub mod transport {
    #[doc(inline)]
    pub use netwright_core::{
        AnyHost, ENTRY_OVERHEAD, GATHER_BYTES_MAX, GATHER_PIECES_MAX, GatherCap, Gathered, Host, HostOf,
        HostSettings, LocalLoop, Outbound, OutboundQueue, Pace, Pack, Parcel, ReservedPlace, SourceCaller,
        SourceTimer, Weighed, driver,
    };
    #[cfg(all(target_os = "linux", feature = "uring"))]
    #[doc(inline)]
    pub use netwright_transport::uring;
    #[cfg(feature = "blocking")]
    #[doc(inline)]
    pub use netwright_transport::{BlockingSeed, blocking};
    #[doc(inline)]
    pub use netwright_transport::{Interest, Readiness, ReadinessSeed, open, readiness};
    #[cfg(unix)]
    #[doc(inline)]
    pub use netwright_transport::{Pipes, PipesError};
}

#[doc(inline)]
pub use netwright_core::{detect, source, time};
#[doc(inline)]
pub use netwright_transport::{files, options, proxy, resolve};

/// Frames, text, serialisation and compression as stages.
pub mod codec {
    #[doc(inline)]
    pub use netwright_codec::*;
}

/// Channels as the I/O of tokio, futures and hyper; loops as hyper's executor and timer.
#[cfg(any(feature = "tokio", feature = "futures", feature = "hyper"))]
pub mod bridge {
    #[doc(inline)]
    pub use netwright_bridge::*;
}

/// Ready-made stages: time, limits, logs, shaping, proxies, requests.
#[cfg(feature = "handler")]
pub mod handler {
    #[doc(inline)]
    pub use netwright_handler::*;
}

/// HTTP/1.1: codec, services, router, files, forms, client.
#[cfg(feature = "http")]
pub mod http {
    #[doc(inline)]
    pub use netwright_http::*;
}

/// A flight recorder for channels: what passes, kept in a bounded ring, written when something goes wrong, and played again in a test.
#[cfg(feature = "record")]
pub mod record {
    #[doc(inline)]
    pub use netwright_record::*;
}

/// TLS as a stage.
#[cfg(feature = "tls")]
pub mod tls {
    #[doc(inline)]
    pub use netwright_tls::*;
}

/// WebSocket: handshake, frames, messages.
#[cfg(feature = "websocket")]
pub mod websocket {
    #[doc(inline)]
    pub use netwright_websocket::*;
}
