//! Everything that bounds what a peer can make us hold, do, or wait for, in one place.

use std::time::Duration;

/// The limits of one connection. The defaults are for servers on the open internet. What means the same in HTTP/1.1 and HTTP/2 is said
/// once; what only HTTP/2 has is in [`http2`](Self::http2).
///
/// ```
/// use netwright_http::{HttpServer, HttpLimits};
///
/// let mut limits = HttpLimits::default();
/// limits.body = 64 << 20;
/// let stage = HttpServer::with(limits);
/// # drop(stage);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Bytes of a head: the first line and all header lines, with their ends. Above: 431. Default: 16 KiB.
    pub head: usize,
    /// Header lines of a head. Above: 431. Default: 100.
    pub headers: usize,
    /// Bytes of a request's target. Above: 414. Default: 8,000, what RFC 9112 asks everybody to take.
    pub target: usize,
    /// Bytes of a body. Above: 413. Default: 16 MiB.
    pub body: u64,
    /// Bytes of one chunk's size line, extensions included, and at most as many extensions as a body has bytes and
    /// 16 KiB. Above: 400. Default: 256.
    pub chunk_line: usize,
    /// Bytes of the trailer lines together. Above: 431. Default: 8 KiB.
    pub trailers: usize,
    /// Requests of one connection. The reply to the last one closes it. Default: 1,000,000.
    pub requests: u64,
    /// Requests that may wait for their replies. The next one is not looked at before one of them is answered, and bytes are
    /// read only as far as `head` goes. Default: 32.
    pub in_flight: usize,
    /// A message up to this long, whose bytes are all there, comes in one piece. Default: 16 KiB.
    pub whole: usize,
    /// How long a head may take from its first byte on; see [`head_rate`](Self::head_rate). Above: 408. Default: 10 s.
    pub head_time: Duration,
    /// Bytes that earn a head one more second, at most three times `head_time` in all. Default: 500.
    pub head_rate: usize,
    /// Bytes per second that a body has to come with while we wait for it, over [`body_time`](Self::body_time), those of chunk
    /// heads and trailers included. Below: 408, or the connection ends if a reply has begun. So a body takes at most
    /// [`body`](Self::body) by this rate, however it is cut. Zero: no such limit. Default: 240.
    pub body_rate: usize,
    /// Over how long the rate of a body is measured. Time in which nobody here wants the body does not count. Default: 10 s.
    pub body_time: Duration,
    /// How long a connection may be without a request, and without taking anything of a last reply, before it is closed; at
    /// most twice that. The same for one on which HTTP has ended (101, CONNECT) and that nobody takes over. It counts from when a
    /// reply is handed to the system, which may take longer to send it; the end of the connection comes behind it. Clients should
    /// give up idle connections sooner, because a request on its way to one that is closed is lost. Default: 60 s.
    pub idle_time: Duration,
    /// How long what a refused peer still sends is read and thrown away, from when its reply is handed to the system, so that it
    /// can read why. Whoever needs longer than that to receive the reply, and still sends, loses the rest of it. Default: 2 s.
    pub linger_time: Duration,
    /// How many bytes of that. Default: 1 MiB.
    pub linger: u64,
    /// What only HTTP/2 has.
    pub http2: Http2Limits,
}

/// What HTTP/2 has beside [`HttpLimits`]: several streams, windows, compressed heads, and frames that cost us work.
///
/// ```
/// use netwright_http::HttpLimits;
///
/// let mut limits = HttpLimits::default();
/// limits.http2.streams = 250;
/// assert_eq!(limits.http2.stream_window, 64 * 1024);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Http2Limits {
    /// Streams that a peer may have at a time. One counts until its handler has ended, also if the peer has reset it before. Above:
    /// REFUSED_STREAM. Default: 100.
    pub streams: usize,
    /// Bytes that may be sent on a stream before any of them is read. Default: 64 KiB.
    pub stream_window: u32,
    /// What that may grow to while a body is read as fast as it comes. Default: 1 MiB.
    pub stream_window_max: u32,
    /// Bytes that may be sent on all streams together before any of them is granted again. Default: 1 MiB.
    pub connection_window: u32,
    /// Bytes of all streams that nobody has read. Up to here the connection's window is granted again as bytes come; above it, as
    /// they are read. Default: 2 MiB.
    pub unread: u64,
    /// Bytes of the tables by which heads are compressed, in each direction. Default: 4 KiB.
    pub table: u32,
    /// CONTINUATION frames of one head, of which none may be empty. Above: the connection ends. Default: 4.
    pub continuations: u32,
    /// Points that a connection has. Resets and empty frames cost 10, pings, settings, priorities, credit and what we do not know 1;
    /// a request that is answered to its end earns 10. Without points the connection ends. Default: 1,000.
    pub points: u32,
    /// Points that come back each second. Default: 100.
    pub points_per_second: u32,
    /// Bytes per second that a peer has to take of a reply, over [`take_time`](Self::take_time), or its stream is reset: for peers that
    /// grant their window drop by drop. Zero: no such limit. Default: 240.
    pub take_rate: u32,
    /// Over how long that is measured. Default: 10 s.
    pub take_time: Duration,
    /// How long the first bytes of a peer may take, and its acknowledgement of our settings. Default: 10 s.
    pub setup_time: Duration,
    /// How long a connection may be used before it is ended in order: after what was asked is answered. A tenth more or less, so that not
    /// all of them end together. Zero: for ever, which is the default.
    pub age: Duration,
    /// How long a connection that is to end waits for its streams. Default: 30 s.
    pub grace: Duration,
    /// How often a connection that hears nothing asks whether the peer is there; one that does not answer within
    /// [`setup_time`](Self::setup_time) is closed. Zero: never, which is the default.
    pub ping_time: Duration,
}

impl Default for Http2Limits {
    fn default() -> Self {
        Self {
            streams: 100,
            stream_window: 64 * 1024,
            stream_window_max: 1 << 20,
            connection_window: 1 << 20,
            unread: 2 << 20,
            table: 4096,
            continuations: 4,
            points: 1000,
            points_per_second: 100,
            take_rate: 240,
            take_time: Duration::from_secs(10),
            setup_time: Duration::from_secs(10),
            age: Duration::ZERO,
            grace: Duration::from_secs(30),
            ping_time: Duration::ZERO,
        }
    }
}

impl HttpLimits {
    /// For clients: as the default, but for bodies up to 1 TiB, which are streamed to whoever reads them, and heads of
    /// 64 KiB.
    pub fn client() -> Self {
        Self { body: 1 << 40, head: 64 * 1024, ..Self::default() }
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            head: 16 * 1024,
            headers: 100,
            target: 8000,
            body: 16 << 20,
            chunk_line: 256,
            trailers: 8 * 1024,
            requests: 1_000_000,
            in_flight: 32,
            whole: 16 * 1024,
            head_time: Duration::from_secs(10),
            head_rate: 500,
            body_rate: 240,
            body_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(60),
            linger_time: Duration::from_secs(2),
            linger: 1 << 20,
            http2: Http2Limits::default(),
        }
    }
}
