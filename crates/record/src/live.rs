//! What is being recorded of one channel: written by its recorder, looked at by any thread.

use crate::{
    flight::Shared,
    format::{
        CauseKind, Recording, Why,
        writer::{self, Kept, Totals},
    },
    pen::Pen,
    recorder::Ends,
    ring::{End, LIMIT_MIN, Ring, WORD},
};
use netwright_core::{Address, ChannelId};
use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

/// One recording under way.
pub(crate) struct Live {
    /// Different from that of every other recording of the same recorder.
    number: u64,
    shared: Arc<Shared>,
    /// Where the records end that are in the state's ring.
    pub(crate) end: End,
    read: Count,
    written: Count,
    state: Mutex<State>,
}

struct State {
    ring: Ring,
    /// How many pieces had passed when the last file because of an error was written.
    error_known: Option<u64>,
    begun: Option<Begun>,
    /// The recorder was there when the channel began.
    from_the_start: bool,
    over: bool,
}

#[derive(Clone)]
struct Begun {
    time_of_day: SystemTime,
    channel: ChannelId,
    local: Option<Address>,
    peer: Option<Address>,
}

/// What has gone one way in all, whatever of it is still there. Only the recorder adds to it.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pieces: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    #[inline]
    fn add(&self, len: u64) {
        self.pieces.store(self.pieces.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed).saturating_add(len), Ordering::Relaxed);
    }

    fn pieces(&self) -> u64 {
        self.pieces.load(Ordering::Relaxed)
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Live {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        let mut ring = Ring::new(shared.settings.bytes.max(LIMIT_MIN), shared.settings.records);
        if shared.settings.beginning {
            ring = ring.keeping_the_beginning();
        }
        let state = State { ring, error_known: None, begun: None, from_the_start: false, over: false };
        Arc::new(Self {
            number: shared.next_number(),
            shared,
            end: End::new(),
            read: Count::default(),
            written: Count::default(),
            state: Mutex::new(state),
        })
    }

    /// Never held while foreign code runs.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel is known. False if it was before.
    pub(crate) fn meet(
        self: &Arc<Self>,
        channel: ChannelId,
        local: Option<Address>,
        peer: Option<Address>,
    ) -> bool {
        let mut state = self.lock();
        let first = state.begun.is_none();
        state.begun.get_or_insert(Begun { time_of_day: SystemTime::now(), channel, local, peer });
        drop(state);
        if first {
            self.shared.enter(self.number, channel, Arc::downgrade(self));
        }
        first
    }

    pub(crate) fn is_new(&self) {
        self.lock().from_the_start = true;
    }

    /// How much of a piece that goes out is kept.
    #[inline]
    pub(crate) fn written_max(&self) -> usize {
        self.shared.settings.written_max
    }

    #[inline]
    pub(crate) fn count_read(&self, len: usize) {
        self.read.add(len as u64);
    }

    #[inline]
    pub(crate) fn count_written(&self, len: u64) {
        self.written.add(len);
    }

    /// Adds a record for which there was no room.
    #[cold]
    pub(crate) fn push(&self, pen: &mut Pen, kind: u8, now_ns: u64, body: &[u8]) {
        let mut state = self.lock();
        let body = &body[..body.len().min(state.ring.body_max())]; // of a long text
        if state.ring.make_room(pen, body.len()) {
            let is_there = pen.push(&self.end, kind, now_ns, body);
            debug_assert!(is_there, "there is room for it now");
        }
    }

    /// Adds a piece for which there was no room, or the beginning of one that is too long.
    #[inline(never)]
    pub(crate) fn push_piece(
        &self,
        pen: &mut Pen,
        [whole, cut]: [u8; 2],
        now_ns: u64,
        bytes: &[u8],
        most: usize,
    ) {
        let cut_at =
            |pen: &mut Pen, most| pen.push_cut(&self.end, cut, now_ns, bytes.len() as u64, &bytes[..most]);
        if bytes.len() > most && cut_at(pen, most) {
            return;
        }
        let mut state = self.lock();
        let most = most.min(state.ring.body_max());
        if state.ring.make_room(pen, most.min(bytes.len())) {
            let is_there = match bytes.len() <= most {
                true => pen.push(&self.end, whole, now_ns, bytes),
                false => cut_at(pen, most),
            };
            debug_assert!(is_there, "there is room for it now");
        }
    }

    /// An error has passed.
    pub(crate) fn error(&self) {
        if self.shared.settings.when.error {
            self.write(Why::Error);
        }
    }

    /// Nothing more will come.
    pub(crate) fn end(&self, end: Ends) {
        let when = self.shared.settings.when;
        let why = match end {
            Ends::Channel(CauseKind::Fault | CauseKind::Code) => Why::Error,
            Ends::Channel(CauseKind::Io | CauseKind::Reset) => Why::Io,
            Ends::Channel(CauseKind::TimedOut | CauseKind::TooSlow) => Why::Limit,
            Ends::Channel(CauseKind::Panicked) | Ends::Panic => Why::Panic,
            Ends::Channel(_) => Why::End,
            Ends::Removed => Why::Removed,
        };
        let mut state = self.lock();
        state.over = true;
        let Some(begun) = state.begun.clone() else { return }; // it never was in a channel
        // What was written because of an error need not be written again because of the same error's end.
        let news = why != Why::Error || state.error_known != Some(self.pieces());
        let file = (when.wants(why) && news).then(|| {
            let about = self.about(&state, &begun);
            let kept = state.ring.take(&self.end);
            (about, self.with_totals(&state, kept))
        });
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
        if why == Why::Error {
            state.error_known = Some(self.pieces());
        }
        let (about, kept) =
            (self.about(&state, &begun), self.with_totals(&state, state.ring.kept(&self.end)));
        drop(state);
        self.shared.write(about, kept, why);
    }

    /// What there is by now, also behind the end if that was not written.
    pub(crate) fn recording(&self) -> Recording {
        let state = self.lock();
        let about = state.begun.as_ref().map(|begun| self.about(&state, begun)).unwrap_or_default();
        let kept = self.with_totals(&state, state.ring.kept(&self.end));
        drop(state);
        parsed(self.shared.file(&about, kept, Why::ByHand))
    }

    /// What there is at the end, of which nothing is kept.
    pub(crate) fn take_recording(&self) -> Recording {
        let mut state = self.lock();
        let about = state.begun.as_ref().map(|begun| self.about(&state, begun)).unwrap_or_default();
        let kept = state.ring.take(&self.end);
        let kept = self.with_totals(&state, kept);
        drop(state);
        parsed(self.shared.file(&about, kept, Why::ByHand))
    }

    /// What is in the ring, and what has passed in all.
    fn with_totals(&self, state: &State, mut kept: Kept) -> Kept {
        let Self { read, written, .. } = self;
        kept.totals = Totals {
            read: read.bytes(),
            written: written.bytes(),
            reads: read.pieces(),
            writes: written.pieces(),
        };
        kept.from_the_start = state.from_the_start;
        kept
    }

    fn pieces(&self) -> u64 {
        self.read.pieces() + self.written.pieces()
    }

    fn len(&self) -> usize {
        let state = self.lock();
        state.ring.len(&self.end) * WORD
    }

    /// How many bytes have gone out.
    pub(crate) fn written_len(&self) -> u64 {
        self.written.bytes()
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
        self.live.upgrade().map_or(0, |live| live.len())
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
