//! The capture of one channel: an observer that makes packets of what passes.

use super::{
    Shared,
    block::Way,
    conversation::{Conversation, Packets},
    packet::{made_up, same_version},
};
use bytes::{Bytes, BytesMut};
use netwright_core::{Address, ChannelView, CloseCause, LocalLoop, Observer, Outgoing};
use std::{
    marker::PhantomData,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Captures what passes on one channel. Made by [`Capture::observer`](super::Capture::observer), to be put into a [slot](netwright_core::slot) of a
/// channel that lives already; as a stage from the beginning it is made by [`Capture::stage`](super::Capture::stage).
///
/// ```
/// use bytes::BytesMut;
/// use netwright_core::{EmbeddedChannel, Outgoing, pipeline, slot};
/// use netwright_handler::Capture;
///
/// let echo = pipeline().add(slot::<BytesMut, Outgoing>("capture")).handle(|cx, bytes| cx.write_and_flush(bytes));
/// let mut channel = EmbeddedChannel::new(echo);
/// channel.write_inbound("nobody looks");
///
/// let capture = Capture::ring(64 * 1024)?;
/// let slot = channel.channel().slot("capture").unwrap();
/// slot.put(capture.observer());
/// channel.write_inbound("hello");
/// assert_eq!(capture.figures().packets, 2);
///
/// slot.clear();
/// channel.write_inbound("nobody looks");
/// assert_eq!(capture.figures().packets, 2);
/// # Ok::<(), netwright_handler::CaptureError>(())
/// ```
pub struct CaptureObserver<W = Outgoing> {
    shared: Arc<Shared>,
    /// Who began the connection.
    first: Way,
    began: Option<Began>,
    writes: PhantomData<fn(W)>,
}

struct Began {
    conversation: Conversation,
    /// The same moment by the loop's clock, and by that of the world.
    at: (Instant, Duration),
}

impl<W> CaptureObserver<W> {
    pub(super) fn new(shared: Arc<Shared>, first: Way) -> Self {
        Self { shared, first, began: None, writes: PhantomData }
    }

    #[inline]
    fn with(&mut self, act: impl FnOnce(&mut Conversation, Duration, &mut ToShared<'_>)) {
        if let Some(Began { conversation, at: (then, time) }) = &mut self.began {
            let at = *time + turn_time().saturating_duration_since(*then);
            act(conversation, at, &mut ToShared(&self.shared));
        }
    }
}

/// The moment of the loop's turn; on a worker, the present one.
fn turn_time() -> Instant {
    LocalLoop::turn_time_here().unwrap_or_else(Instant::now)
}

struct ToShared<'a>(&'a Shared);

impl Packets for ToShared<'_> {
    fn packet(&mut self, block: &[u8]) {
        self.0.packet(block);
    }
}

/// What can be captured on its way to the wire: bytes, or bytes and files.
pub trait Captured: private::Closed + 'static {
    /// The bytes, or how many of a file.
    #[doc(hidden)]
    fn content(&self) -> Result<&[u8], u64>;
}

impl Captured for Outgoing {
    fn content(&self) -> Result<&[u8], u64> {
        self.as_bytes().map(|bytes| &bytes[..]).ok_or_else(|| self.len())
    }
}

impl Captured for Bytes {
    fn content(&self) -> Result<&[u8], u64> {
        Ok(self)
    }
}

mod private {
    pub trait Closed {}
    impl Closed for netwright_core::Outgoing {}
    impl Closed for bytes::Bytes {}
}

impl<W: Captured> Observer for CaptureObserver<W> {
    type Read = BytesMut;
    type Write = W;

    fn sees_channel(&mut self, channel: &ChannelView<'_, BytesMut>) {
        if self.began.is_some() {
            return;
        }
        let number = self.shared.channel() as u32;
        let (local, peer) = (channel.local(), channel.peer());
        let (ours, theirs, said) = match (&local, &peer) {
            (Some(Address::Ip(local)), Some(Address::Ip(peer))) => {
                let (ours, theirs) = same_version(*local, *peer);
                (ours, theirs, None)
            }
            _ => {
                let text = |address: Option<Address>| address.map_or("none".to_owned(), |at| at.to_string());
                let (ours, theirs) = made_up(number);
                let said = format!(
                    "channel {}, whose addresses are made up here: {} is ours, {} the peer's",
                    channel.id(),
                    text(local),
                    text(peer)
                );
                (ours, theirs, Some(said))
            }
        };
        let conversation = Conversation::new(ours, theirs, number, said);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.began = Some(Began { conversation, at: (turn_time(), time) });
    }
    fn sees_active(&mut self) {
        let first = self.first;
        self.with(|conversation, at, to| conversation.begin(at, first, to));
    }
    #[inline]
    fn sees_read(&mut self, bytes: &BytesMut) {
        self.with(|conversation, at, to| conversation.bytes(at, Way::In, bytes, to));
    }
    #[inline]
    fn sees_write(&mut self, out: &W) {
        self.with(|conversation, at, to| match out.content() {
            Ok(bytes) => conversation.bytes(at, Way::Out, bytes, to),
            Err(len) => conversation.unseen(at, Way::Out, len, to),
        });
    }
    fn sees_input_closed(&mut self) {
        self.with(|conversation, at, to| conversation.end_of(at, Way::In, to));
    }
    fn sees_shut_down_output(&mut self) {
        self.with(|conversation, at, to| conversation.end_of(at, Way::Out, to));
    }
    fn sees_panicked(&mut self, message: Option<&str>) {
        let why = format!("a handler panicked: {}", message.unwrap_or("its message is not known"));
        self.with(|conversation, at, to| conversation.close(at, Way::Out, false, &why, to));
    }
    fn sees_inactive(&mut self, cause: &CloseCause) {
        let why = cause.to_string();
        self.with(|conversation, at, to| match cause {
            CloseCause::PeerClosed => conversation.close(at, Way::In, true, &why, to),
            // What the system reports came from outside, or is as good as that: nobody answers any more.
            CloseCause::Io(_) => conversation.reset(at, Way::In, &why, to),
            CloseCause::Reset(_) => conversation.reset(at, Way::Out, &why, to),
            _ => conversation.close(at, Way::Out, false, &why, to),
        });
    }
}
