//! The recorder on one channel: an observer that notes what passes.
//!
//! What a short message costs: a copy of its bytes into room that is there already, without a lock. The time is that of the loop's turn, so that all recorders of a loop look at the clock once for all that came in a turn.
//!
//! Bytes that come in cannot be shared: they lie in the loop's read buffer, and stages behind may change them where they are. Bytes that go
//! out could be, but a few of them would keep alive the buffer that they are a piece of, which the loop or a codec wants to use again. So both are copied, and
//! of what goes out in large pieces only the beginning is kept.

use crate::{
    format::{Cause, kind, kind_of, varint},
    live::Live,
    pen::Pen,
};
use bytes::{Bytes, BytesMut};
use netwright_core::{ChannelView, CloseCause, Fault, LocalLoop, Observer, Outgoing};
use std::{
    marker::PhantomData,
    sync::Arc,
    time::{Duration, Instant},
};

/// More of a text than anybody reads.
const TEXT_MAX: usize = 4096;

/// Records what passes on one channel. Made by [`FlightRecorder::recorder`](crate::FlightRecorder::recorder), to be put into a
/// [slot](netwright_core::slot) of a channel that lives already; as a stage from the beginning it is made by
/// [`FlightRecorder::stage`](crate::FlightRecorder::stage).
///
/// ```
/// use bytes::BytesMut;
/// use netwright_core::{EmbeddedChannel, Outgoing, pipeline, slot};
/// use netwright_record::FlightRecorder;
///
/// let echo = pipeline().add(slot::<BytesMut, Outgoing>("recorder")).handle(|cx, bytes| cx.write_and_flush(bytes));
/// let mut channel = EmbeddedChannel::new(echo);
/// channel.write_inbound("nobody looks");
///
/// let flight = FlightRecorder::builder().build();
/// let slot = channel.channel().slot("recorder").unwrap();
/// slot.put(flight.recorder());
/// channel.write_inbound("hello");
/// let recording = flight.live()[0].recording();
/// assert_eq!((recording.read_len(), recording.is_from_the_start()), (5, false));
///
/// slot.clear();
/// channel.write_inbound("nobody looks");
/// assert!(flight.live().is_empty());
/// ```
pub struct Recorder<W = Outgoing> {
    live: Arc<Live>,
    pen: Pen,
    clock: TurnClock,
    /// The channel's end, or that of what is to be recorded of it, has been noted.
    over: bool,
    writes: PhantomData<fn(W)>,
}

/// The time of the loop's turn, as what has passed since the recording began.
#[derive(Default)]
struct TurnClock {
    began: Option<Instant>,
    /// The last moment, and how long after the beginning it was.
    last: Option<(Instant, u64)>,
}

impl TurnClock {
    /// On a loop, the moment of its turn; on a worker, the present one. Never goes back.
    #[inline]
    fn now_ns(&mut self) -> u64 {
        let now = turn_time();
        match self.last {
            Some((last, since)) if last == now => since,
            _ => self.later(now),
        }
    }

    fn later(&mut self, now: Instant) -> u64 {
        let before = self.last.map_or(0, |(_, since)| since);
        let since = nanos(now.saturating_duration_since(*self.began.get_or_insert(now))).max(before);
        self.last = Some((now, since));
        since
    }
}

impl<W> Recorder<W> {
    pub(crate) fn new(live: Arc<Live>) -> Self {
        Self { live, pen: Pen::new(), clock: TurnClock::default(), over: false, writes: PhantomData }
    }

    fn note(&mut self, kind: u8, body: &[u8]) {
        if !self.over {
            let now = self.clock.now_ns();
            if !self.pen.push(&self.live.end, kind, now, body) {
                self.live.push(&mut self.pen, kind, now, body);
            }
        }
    }

    fn note_text(&mut self, kind: u8, text: &str) {
        self.note(kind, cut(text).as_bytes());
    }

    fn note_cause(&mut self, kind: u8, cause: &CloseCause) {
        let Cause { kind: which, text } = Cause::from(cause);
        self.note(kind, &[&[which as u8], cut(&text).as_bytes()].concat());
    }

    /// A piece of bytes, or the beginning of it.
    #[inline]
    fn note_piece(&mut self, kinds: [u8; 2], bytes: &[u8], most: usize) {
        let now = self.clock.now_ns();
        if bytes.len() > most || !self.pen.push(&self.live.end, kinds[0], now, bytes) {
            self.live.push_piece(&mut self.pen, kinds, now, bytes, most);
        }
    }

    fn end(&mut self, end: Ends) {
        if !std::mem::replace(&mut self.over, true) {
            self.live.end(end);
        }
    }
}

/// How a recording ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Channel(crate::CauseKind),
    Panic,
    Removed,
}

#[inline]
fn turn_time() -> Instant {
    LocalLoop::turn_time_here().unwrap_or_else(Instant::now)
}

/// Five centuries fit.
fn nanos(time: Duration) -> u64 {
    time.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(time.subsec_nanos()))
}

/// The beginning of a text.
fn cut(text: &str) -> &str {
    let end = (0..=TEXT_MAX.min(text.len())).rev().find(|&index| text.is_char_boundary(index));
    &text[..end.unwrap_or(0)]
}

/// What a recorder can see pass towards the wire: bytes, or bytes and files.
pub trait Wire: private::Closed + 'static {
    /// The bytes, or how many of a file.
    #[doc(hidden)]
    fn content(&self) -> Result<&[u8], u64>;
}

impl Wire for Outgoing {
    #[inline]
    fn content(&self) -> Result<&[u8], u64> {
        self.as_bytes().map(|bytes| &bytes[..]).ok_or_else(|| self.len())
    }
}

impl Wire for Bytes {
    #[inline]
    fn content(&self) -> Result<&[u8], u64> {
        Ok(self)
    }
}

mod private {
    pub trait Closed {}
    impl Closed for super::Outgoing {}
    impl Closed for super::Bytes {}
}

impl<W: Wire> Observer for Recorder<W> {
    type Read = BytesMut;
    type Write = W;

    fn sees_channel(&mut self, channel: &ChannelView<'_, BytesMut>) {
        if self.live.meet(channel.id(), channel.local(), channel.peer()) {
            self.clock.now_ns(); // where it begins
        }
    }
    fn sees_active(&mut self) {
        self.live.is_new();
        self.note(kind::ACTIVE, &[]);
    }
    #[inline]
    fn sees_read(&mut self, bytes: &BytesMut) {
        if !self.over {
            self.live.count_read(bytes.len());
            self.note_piece([kind::READ, kind::READ_CUT], bytes, usize::MAX);
        }
    }
    #[inline]
    fn sees_write(&mut self, out: &W) {
        if self.over {
            return;
        }
        match out.content() {
            Ok(bytes) => {
                self.live.count_written(bytes.len() as u64);
                self.note_piece([kind::WRITTEN, kind::WRITTEN_CUT], bytes, self.live.written_max());
            }
            Err(len) => {
                self.live.count_written(len);
                let mut number = Vec::with_capacity(varint::LEN_MAX);
                varint::push(&mut number, len);
                self.note(kind::FILE, &number);
            }
        }
    }
    #[inline]
    fn sees_flush(&mut self) {
        if self.over {
            return;
        }
        let now = self.clock.now_ns();
        if !self.pen.flushed(&self.live.end, now) {
            self.live.push(&mut self.pen, kind::FLUSH, now, &[]);
        }
    }
    fn sees_input_closed(&mut self) {
        self.note(kind::INPUT_CLOSED, &[]);
    }
    fn sees_writability(&mut self, writable: bool) {
        self.note(kind::WRITABLE, &[u8::from(writable)]);
    }
    fn sees_error(&mut self, fault: &Fault) {
        self.note_text(kind::ERROR, &fault.to_string());
        if !self.over {
            self.live.error();
        }
    }
    fn sees_close(&mut self, cause: &CloseCause) {
        if !self.over {
            self.note_cause(kind::CLOSE, cause);
        }
    }
    fn sees_shut_down_output(&mut self) {
        self.note(kind::OUTPUT_SHUT_DOWN, &[]);
    }
    fn sees_panicked(&mut self, message: Option<&str>) {
        self.note_text(kind::PANICKED, message.unwrap_or_default());
        self.end(Ends::Panic);
    }
    fn sees_inactive(&mut self, cause: &CloseCause) {
        if !self.over {
            self.note_cause(kind::INACTIVE, cause);
        }
        self.end(Ends::Channel(kind_of(cause)));
    }
}

/// Taken out of its slot, or left by a channel whose loop has gone.
impl<W> Drop for Recorder<W> {
    fn drop(&mut self) {
        self.end(Ends::Removed);
    }
}
