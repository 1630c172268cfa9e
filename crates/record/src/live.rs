//! What is being recorded of one channel: written by its recorder, looked at by any thread.

use crate::{
    flight::Shared,
    format::{
        CauseKind, Raw, Recording, Why, kind,
        varint::{self, LEN_MAX},
        writer::{self, Kept},
    },
    recorder::End,
    redact::Direction,
    ring::Ring,
};
use netwright_core::{Address, ChannelId};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant, SystemTime},
};

/// One recording under way.
pub(crate) struct Live {
    /// Different from that of every other recording of the same recorder.
    number: u64,
    shared: Arc<Shared>,
    state: Mutex<State>,
}

struct State {
    ring: Ring,
    /// The moment of the last record, and how long after the beginning it was.
    last: (Option<Instant>, u64),
    /// What has passed since the last file was written.
    news: bool,
    begun: Option<Begun>,
    /// The recorder was there when the channel began.
    from_the_start: bool,
    over: bool,
}

#[derive(Clone)]
struct Begun {
    at: Instant,
    time_of_day: SystemTime,
    channel: ChannelId,
    local: Option<Address>,
    peer: Option<Address>,
}

impl Live {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        let ring = Ring::new(shared.settings.bytes, shared.settings.records);
        let state =
            State { ring, last: (None, 0), news: true, begun: None, from_the_start: false, over: false };
        Arc::new(Self { number: shared.next_number(), shared, state: Mutex::new(state) })
    }

    /// Never held while foreign code runs.
    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel is known.
    pub(crate) fn meet(
        self: &Arc<Self>,
        now: Instant,
        channel: ChannelId,
        local: Option<Address>,
        peer: Option<Address>,
    ) {
        let mut state = self.lock();
        let first = state.begun.is_none();
        state.begun.get_or_insert(Begun { at: now, time_of_day: SystemTime::now(), channel, local, peer });
        drop(state);
        if first {
            self.shared.enter(self.number, channel, Arc::downgrade(self));
        }
    }

    pub(crate) fn is_new(&self) {
        self.lock().from_the_start = true;
    }

    #[inline]
    pub(crate) fn note(&self, flushed: Option<Instant>, kind: u8, now: Instant, front: &[u8], body: &[u8]) {
        let mut state = self.lock();
        state.flushed(flushed);
        state.push(kind, now, front, body);
    }

    #[inline]
    pub(crate) fn read(&self, flushed: Option<Instant>, now: Instant, bytes: &[u8]) {
        let mut state = self.lock();
        state.flushed(flushed);
        state.news = true;
        state.ring.totals.reads += 1;
        state.ring.totals.read += bytes.len() as u64;
        let most = state.ring.body_max();
        state.piece([kind::READ, kind::READ_CUT], now, bytes, most);
    }

    #[inline]
    pub(crate) fn written(&self, flushed: Option<Instant>, now: Instant, bytes: &[u8]) {
        let most = self.shared.settings.written_max;
        let mut state = self.lock();
        state.flushed(flushed);
        state.news = true;
        state.ring.totals.writes += 1;
        state.ring.totals.written += bytes.len() as u64;
        let most = most.min(state.ring.body_max());
        state.piece([kind::WRITTEN, kind::WRITTEN_CUT], now, bytes, most);
    }

    pub(crate) fn file(&self, flushed: Option<Instant>, now: Instant, len: u64, number: &[u8]) {
        let mut state = self.lock();
        state.flushed(flushed);
        state.news = true;
        state.ring.totals.writes += 1;
        state.ring.totals.written += len;
        state.push(kind::FILE, now, &[], number);
    }

    /// An error has passed.
    pub(crate) fn error(&self) {
        if self.shared.settings.when.error {
            self.write(Why::Error);
        }
    }

    /// Nothing more will come.
    pub(crate) fn end(&self, end: End) {
        let when = self.shared.settings.when;
        let why = match end {
            End::Channel(CauseKind::Fault | CauseKind::Code) => Why::Error,
            End::Channel(CauseKind::Io | CauseKind::Reset) => Why::Io,
            End::Channel(CauseKind::TimedOut | CauseKind::TooSlow) => Why::Limit,
            End::Channel(CauseKind::Panicked) | End::Panic => Why::Panic,
            End::Channel(_) => Why::End,
            End::Removed => Why::Removed,
        };
        let mut state = self.lock();
        state.over = true;
        let Some(begun) = state.begun.clone() else { return }; // it never was in a channel
        // What was written because of an error need not be written again because of the same error's end.
        let file = (when.wants(why) && state.news).then(|| (self.about(&state, &begun), state.ring.take()));
        drop(state);
        self.shared.leave(self.number);
        if let Some((about, kept)) = file {
            self.shared.write(about, kept, why);
        }
    }

    /// Writes what there is by now.
    pub(crate) fn write(&self, why: Why) {
        let mut state = self.lock();
        let Some(begun) = state.begun.clone().filter(|_| !state.over) else { return };
        state.news = false;
        let (about, kept) = (self.about(&state, &begun), state.ring.kept());
        drop(state);
        self.shared.write(about, kept, why);
    }

    /// What there is by now, also behind the end if that was not written.
    pub(crate) fn recording(&self) -> Recording {
        let state = self.lock();
        let about = state.begun.as_ref().map(|begun| self.about(&state, begun)).unwrap_or_default();
        let kept = state.ring.kept();
        drop(state);
        parsed(self.shared.file(&about, kept, Why::ByHand))
    }

    /// How many bytes have gone out.
    pub(crate) fn written_len(&self) -> u64 {
        self.lock().ring.totals.written
    }

    /// What is said about the recording in its file.
    fn about(&self, state: &State, begun: &Begun) -> Vec<(&'static str, String)> {
        let mut about = vec![
            ("by", concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_owned()),
            ("began", writer::time_of_day(begun.time_of_day)),
            ("channel", begun.channel.to_string()),
            ("start", if state.from_the_start { "channel" } else { "later" }.to_owned()),
        ];
        let settings = &self.shared.settings;
        about.extend(settings.label.clone().map(|label| ("label", label)));
        if settings.addresses {
            about.extend(begun.local.as_ref().map(|address| ("local", address.to_string())));
            about.extend(begun.peer.as_ref().map(|address| ("peer", address.to_string())));
        }
        if !settings.redaction.is_none() {
            about.push(("redacted", settings.redaction.headers().join(",")));
        }
        about
    }
}

impl State {
    #[inline]
    fn flushed(&mut self, at: Option<Instant>) {
        if let Some(at) = at {
            let since = self.since(at);
            self.ring.flushed(since);
        }
    }

    /// How long after the beginning that is.
    #[inline]
    fn since(&mut self, now: Instant) -> u64 {
        let (last, since) = self.last;
        if last == Some(now) {
            return since;
        }
        let since = self.begun.as_ref().map_or(0, |begun| nanos(now.saturating_duration_since(begun.at)));
        self.last = (Some(now), since);
        since
    }

    #[inline]
    fn push(&mut self, kind: u8, now: Instant, front: &[u8], body: &[u8]) {
        let since = self.since(now);
        self.ring.push(kind, since, front, body);
    }

    /// A piece of bytes, or the beginning of it.
    #[inline]
    fn piece(&mut self, [whole, cut]: [u8; 2], now: Instant, bytes: &[u8], most: usize) {
        if bytes.len() <= most {
            return self.push(whole, now, &[], bytes);
        }
        let mut number = [0; LEN_MAX];
        let len = varint::put(&mut number, bytes.len() as u64);
        self.push(cut, now, &number[..len], &bytes[..most]);
    }
}

/// Five centuries fit.
fn nanos(time: Duration) -> u64 {
    time.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(time.subsec_nanos()))
}

/// Covers what is not to be seen.
pub(crate) fn redact(shared: &Shared, kept: &mut Kept) {
    let rules = &shared.settings.redaction;
    if rules.is_none() {
        return;
    }
    let mut redacting = rules.begin(kept.lost_records > 0);
    let (mut at, records) = (0, &mut kept.records);
    while let Ok(raw) = Raw::at(records, at) {
        at = raw.end;
        let body = &mut records[raw.body..raw.end];
        let behind_number =
            |body: &[u8]| varint::take(body.iter().copied()).map_or(0, |(_, len)| len.min(body.len()));
        match raw.kind & !kind::FLUSHED_BIT {
            kind::READ => redacting.piece(Direction::In, body, true),
            kind::WRITTEN => redacting.piece(Direction::Out, body, true),
            kind::READ_CUT => {
                let first = behind_number(body);
                redacting.piece(Direction::In, &mut body[first..], false);
            }
            kind::WRITTEN_CUT => {
                let first = behind_number(body);
                redacting.piece(Direction::Out, &mut body[first..], false);
            }
            kind::FILE => redacting.piece(Direction::Out, &mut [], false),
            _ => {}
        }
    }
}

fn parsed(file: Vec<u8>) -> Recording {
    Recording::parse(file).expect("a recorder writes recordings, none of them too long")
}

/// The handle of a recording under way, for any thread. Found by [`FlightRecorder::live`](crate::FlightRecorder::live) and
/// [`FlightRecorder::find`](crate::FlightRecorder::find).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_record::{FlightRecorder, When};
///
/// let flight = FlightRecorder::builder().when(When::BY_HAND).build();
/// let mut channel = EmbeddedChannel::new(pipeline().add(flight.stage()).handle(|cx, bytes| cx.write_and_flush(bytes)));
/// let live = flight.find(channel.channel().id()).expect("it is recorded");
/// channel.write_inbound("hello");
/// std::thread::spawn(move || assert_eq!(live.recording().written_len(), 5)).join().unwrap();
/// ```
#[derive(Clone)]
pub struct LiveRecording {
    live: Weak<Live>,
    channel: ChannelId,
}

impl LiveRecording {
    pub(crate) fn new(live: Weak<Live>, channel: ChannelId) -> Self {
        Self { live, channel }
    }

    /// The channel that is recorded.
    pub fn channel(&self) -> ChannelId {
        self.channel
    }

    /// Whether it still is.
    pub fn is_live(&self) -> bool {
        self.live.upgrade().is_some_and(|live| !live.lock().over)
    }

    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        self.live.upgrade().map_or(0, |live| live.lock().ring.len())
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What there is by now, redacted as a file would be. Also of a channel whose loop stands still.
    pub fn recording(&self) -> Recording {
        match self.live.upgrade() {
            Some(live) => live.recording(),
            None => parsed(writer::file(&[], &Kept::default(), Why::ByHand)),
        }
    }

    /// Has what there is by now written to the recorder's sink, by a worker. False if the recording is over.
    pub fn write(&self) -> bool {
        let Some(live) = self.live.upgrade().filter(|live| !live.lock().over) else { return false };
        live.write(Why::ByHand);
        true
    }
}

impl fmt::Debug for LiveRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRecording").field("channel", &self.channel).field("len", &self.len()).finish()
    }
}
