//! Everything that bounds what a peer can make us hold, do, or wait for, in one place.

use std::time::Duration;

/// The limits of one HTTP/1.1 connection. The defaults are for servers on the open internet.
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
        }
    }
}
