//! What a channel is set up with.

use super::super::{LeastRate, WaterMarks};
use std::time::Duration;

/// What a channel is set up with.
///
/// ```
/// use netwright_core::{EmbeddedChannel, HostSettings, pipeline};
///
/// let mut settings = HostSettings::default();
/// settings.auto_read = false;
/// let mut channel = EmbeddedChannel::with_settings(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())), settings);
/// channel.write_inbound("hello");
/// assert_eq!(channel.outbound_bytes(), b""); // nobody has asked for it
/// channel.channel().request();
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HostSettings {
    /// When to tell writers that there is too much, and when that there is room again.
    pub water_marks: WaterMarks,
    /// Whether reading starts by itself. If not, nothing is read before it is asked for.
    pub auto_read: bool,
    /// Whether reading pauses while more waits to be sent than the high water mark, if that was written in answer to what
    /// was read. On unless said otherwise: a peer that sends and does not read can then not make us keep its answers. It
    /// concerns messages that flow by themselves; who asks for them one by one, as async functions do, decides itself.
    pub hold_back: bool,
    /// How long messages that nobody asks for are kept after the peer has gone. Each message that is asked for counts anew.
    pub forsaken_after: Duration,
    /// How fast the peer has to take what waits for it; who does not is cut. `None`: it may take for ever. The transports of
    /// byte streams see to it.
    pub least_rate: Option<LeastRate>,
    /// Whether a channel lives on when its peer sends no more, whatever its stages say. `None`: as they
    /// [say](crate::Handler::half_closure). Transports act on it when the connection's input ends, and stages whose own protocol has
    /// such an end, as that of TLS.
    pub half_closure: Option<bool>,
    /// Whether each message arrives at the peer as one, so that an empty one has to be sent too. Byte streams: no.
    pub whole_messages: bool,
}

/// How long an application may take for a message before those behind it are dropped, when their peer has gone.
const FORSAKEN_AFTER: Duration = Duration::from_secs(60);

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            water_marks: WaterMarks::default(),
            auto_read: true,
            hold_back: true,
            forsaken_after: FORSAKEN_AFTER,
            least_rate: Some(LeastRate::default()),
            half_closure: None,
            whole_messages: false,
        }
    }
}

/// [`HostSettings::forsaken_after`] in the little room that every idle channel has for it: whole milliseconds.
#[derive(Clone, Copy)]
pub(super) struct ForsakenAfter(u32);

impl From<Duration> for ForsakenAfter {
    fn from(time: Duration) -> Self {
        let millis = time.as_nanos().div_ceil(1_000_000); // never early
        Self(u32::try_from(millis).unwrap_or(u32::MAX))
    }
}

impl ForsakenAfter {
    /// `None` for what is longer than seven weeks: nobody waits for that.
    pub(super) fn time(self) -> Option<Duration> {
        (self.0 != u32::MAX).then(|| Duration::from_millis(self.0.into()))
    }
}
