//! What a WebSocket stage is set up with.

use crate::Deflate;
use std::time::Duration;

/// The longest message, and the longest frame, unless told otherwise: 1 MiB.
pub const MESSAGE_MAX: usize = 1024 * 1024;
/// How long a peer may take to answer a close frame, and to take what is to be sent before.
pub const CLOSE_DEADLINE: Duration = Duration::from_secs(10);
/// How long a peer that broke the protocol may take to read why.
pub const LINGER: Duration = Duration::from_secs(1);
/// How long a peer may be silent before it is asked whether it is there.
pub const PING_AFTER: Duration = Duration::from_secs(30);
/// How long it may take to answer.
pub const PONG_DEADLINE: Duration = Duration::from_secs(10);

/// Limits, deadlines and compression of a connection. Every limit is finite unless told otherwise.
///
/// | setting | default |
/// | --- | --- |
/// | [`max_message`](Self::max_message), [`max_frame`](Self::max_frame) | 1 MiB ([`MESSAGE_MAX`]) |
/// | [`close_deadline`](Self::close_deadline) | 10 s |
/// | [`linger`](Self::linger) | 1 s |
/// | [`ping_after`](Self::ping_after) | 30 s of silence, answered within 10 s |
/// | [`show_control`](Self::show_control) | no |
/// | [`deflate`](Self::deflate) | no |
///
/// ```
/// use netwright_websocket::Config;
/// use std::time::Duration;
///
/// let config = Config::default().max_message(64 * 1024).ping_after(Some(Duration::from_secs(20)));
/// # drop(config);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub(crate) message_max: usize,
    pub(crate) frame_max: u64,
    pub(crate) close_deadline: Duration,
    pub(crate) linger: Duration,
    pub(crate) ping_after: Option<Duration>,
    pub(crate) pong_deadline: Duration,
    pub(crate) show_control: bool,
    pub(crate) deflate: Option<Deflate>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            message_max: MESSAGE_MAX,
            frame_max: MESSAGE_MAX as u64,
            close_deadline: CLOSE_DEADLINE,
            linger: LINGER,
            ping_after: Some(PING_AFTER),
            pong_deadline: PONG_DEADLINE,
            show_control: false,
            deflate: None,
        }
    }
}

impl Config {
    /// The longest message, decompressed, and the longest frame. A longer one ends the connection with 1009. A frame that is
    /// compressed may be as long as a frame of that length can become by it.
    pub fn max_message(mut self, bytes: usize) -> Self {
        (self.message_max, self.frame_max) = (bytes, bytes as u64);
        self
    }

    /// The longest frame alone, for peers that should send long messages in fragments.
    pub fn max_frame(mut self, bytes: u64) -> Self {
        self.frame_max = bytes;
        self
    }

    /// How long the peer may take to answer our close frame before the connection is closed without its answer.
    pub fn close_deadline(mut self, deadline: Duration) -> Self {
        self.close_deadline = deadline;
        self
    }

    /// How long a connection stays open for a peer that broke the protocol. It is told why, and nothing of it is looked at any
    /// more; a socket that were closed at once could take the close frame away from under it.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// A peer that is silent for so long gets a ping, at most a quarter of that time later, and is given up if it stays silent.
    /// One that takes nothing of what waits for it is given up after as long a time, whatever it sends. `None`: for ever.
    pub fn ping_after(mut self, silence: Option<Duration>) -> Self {
        self.ping_after = silence;
        self
    }

    /// How long a peer may take to answer such a ping.
    pub fn pong_deadline(mut self, deadline: Duration) -> Self {
        self.pong_deadline = deadline;
        self
    }

    /// Whether the application sees pings, pongs and closes. They are answered in any case.
    pub fn show_control(mut self, show: bool) -> Self {
        self.show_control = show;
        self
    }

    /// Offers, or accepts, compression.
    pub fn deflate(mut self, deflate: Deflate) -> Self {
        self.deflate = Some(deflate);
        self
    }
}
