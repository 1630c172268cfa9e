//! The flight recorder of a server: its settings, the recordings under way, and what becomes of them.

use crate::{
    Directory, LiveRecording, NewRecording, Recorder, Redaction, Sink, Why,
    format::writer::{self, Kept},
    live::Live,
    redact::redact,
};
use bytes::Bytes;
use netwright_core::{ChannelId, ObserverStage, Workers, observe};
use std::{
    collections::HashMap,
    fmt, mem,
    sync::{
        Arc, Condvar, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Files that wait to be written: a flood of errors is not to fill the memory with recordings.
const WAITING_MAX: u64 = 64;
/// Enough for the beginning of a reply, and of most replies for all of it.
const WRITTEN_MAX: usize = 4096;
/// A conversation of several requests; a thousand channels have 64 MiB.
const BYTES: usize = 64 * 1024;
/// What a file can still be read with.
const BYTES_MAX: usize = 128 << 20;
const RECORDS: usize = 4096;

/// When recordings are written. Those of other channels are forgotten when they end.
///
/// ```
/// use netwright_record::When;
///
/// let mut when = When::TROUBLE;
/// when.io = false; // peers that reset their connections are everyday life here
/// assert!(when.panic && !when.end);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct When {
    /// An error passes the recorder, at once; or an error ends the channel.
    pub error: bool,
    /// The connection fails: a reset, most often.
    pub io: bool,
    /// A handler panics.
    pub panic: bool,
    /// A limit ends the channel: too long silent, or too slow in taking what waits for it.
    pub limit: bool,
    /// The channel ends in any other way, or the recorder is taken out of it.
    pub end: bool,
}

impl When {
    /// Only when somebody [asks](LiveRecording::write).
    pub const BY_HAND: Self = Self { error: false, io: false, panic: false, limit: false, end: false };
    /// When something goes wrong: an error, a failed connection, a panic, a limit.
    pub const TROUBLE: Self = Self { error: true, io: true, panic: true, limit: true, end: false };
    /// All of them, at their end.
    pub const ALWAYS: Self = Self { end: true, ..Self::TROUBLE };

    pub(crate) fn wants(self, why: Why) -> bool {
        match why {
            Why::Error => self.error,
            Why::Io => self.io,
            Why::Panic => self.panic,
            Why::Limit => self.limit,
            Why::End | Why::Removed => self.end,
            Why::ByHand => true,
        }
    }
}

pub(crate) struct Settings {
    pub(crate) bytes: usize,
    pub(crate) records: usize,
    pub(crate) written_max: usize,
    /// Of more than there is room for, the beginning is kept and not the end.
    pub(crate) beginning: bool,
    pub(crate) when: When,
    pub(crate) redaction: Redaction,
    pub(crate) addresses: bool,
    pub(crate) label: Option<String>,
    sink: Option<Box<dyn Sink>>,
    workers: Option<Workers>,
}

/// What all recorders of a [`FlightRecorder`] share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    /// By their numbers: a channel may have several.
    live: Mutex<HashMap<u64, (ChannelId, Weak<Live>)>>,
    waiting: Mutex<u64>,
    all_written: Condvar,
    written: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    number: AtomicU64,
}

/// Records what passes on channels, each in a bounded ring, and writes what is worth to be kept.
///
/// A handle: clones are the same recorder. Put [`stage`](Self::stage) where the bytes of the protocol are to be seen: as the first stage, or
/// behind TLS. What is recorded is what passes there.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_record::{FlightRecorder, NewRecording, When};
/// use std::{sync::mpsc, time::Duration};
///
/// let (send, files) = mpsc::channel();
/// let flight = FlightRecorder::builder()
///     .bytes(16 * 1024)
///     .when(When::TROUBLE)
///     .label("numbers")
///     .to(move |file: &NewRecording| { let _ = send.send(file.recording()?); Ok(()) })
///     .build();
///
/// let numbers = || pipeline().handle(|cx, bytes: bytes::BytesMut| {
///     let number: u32 = std::str::from_utf8(&bytes).unwrap().parse().unwrap(); // here is the bug
///     cx.write_and_flush((number + 1).to_string());
/// });
/// let mut channel = EmbeddedChannel::of(pipeline().add(flight.stage()).joint(|_| numbers()));
/// channel.write_inbound("41").write_inbound("-1");
///
/// let recording = files.recv_timeout(Duration::from_secs(30))?; // because of the panic
/// let again = recording.replay().run(numbers());
/// assert_eq!(again.sent_bytes(), b"42");
/// assert!(again.cause().unwrap().to_string().contains("panicked"));
/// # Ok::<(), mpsc::RecvTimeoutError>(())
/// ```
#[derive(Clone)]
pub struct FlightRecorder {
    shared: Arc<Shared>,
}

impl FlightRecorder {
    /// A recorder with settings of one's own. Without any it keeps 64 KiB for each channel and writes nothing: there is no sink.
    pub fn builder() -> FlightRecorderBuilder {
        FlightRecorderBuilder {
            settings: Settings {
                bytes: BYTES,
                records: RECORDS,
                written_max: WRITTEN_MAX,
                beginning: false,
                when: When::TROUBLE,
                redaction: Redaction::http(),
                addresses: true,
                label: None,
                sink: None,
                workers: None,
            },
        }
    }

    /// A recorder that writes channels in trouble to a directory, with at most so many files in it.
    ///
    /// ```no_run
    /// let flight = netwright_record::FlightRecorder::in_directory("/var/lib/shop/recordings", 100)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The directory cannot be made or read.
    pub fn in_directory(path: impl AsRef<std::path::Path>, files_max: usize) -> std::io::Result<Self> {
        Ok(Self::builder().to(Directory::new(path, files_max)?).build())
    }

    /// A stage that records its channel from the beginning.
    pub fn stage(&self) -> ObserverStage<Recorder> {
        observe(self.recorder())
    }

    /// A recorder for one channel, to be put into a slot of it.
    pub fn recorder(&self) -> Recorder {
        Recorder::new(Live::new(self.shared.clone()))
    }

    /// A recorder, and what it records, also when it is over.
    pub(crate) fn watched(&self) -> (Recorder, Arc<Live>) {
        let live = Live::new(self.shared.clone());
        (Recorder::new(live.clone()), live)
    }

    /// The same for a slot through which `Bytes` pass and no files.
    ///
    /// ```
    /// use bytes::{Bytes, BytesMut};
    /// use netwright_core::{EmbeddedChannel, pipeline, slot};
    /// use netwright_record::FlightRecorder;
    ///
    /// let flight = FlightRecorder::builder().build();
    /// let channel = EmbeddedChannel::new(pipeline().add(slot::<BytesMut, Bytes>("recorder")).handle(|_, _| {}));
    /// channel.channel().slot("recorder").unwrap().put(flight.recorder_of_bytes());
    /// ```
    pub fn recorder_of_bytes(&self) -> Recorder<Bytes> {
        Recorder::new(Live::new(self.shared.clone()))
    }

    /// The recordings under way.
    pub fn live(&self) -> Vec<LiveRecording> {
        let live = self.shared.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.values().map(|(channel, live)| LiveRecording::new(live.clone(), *channel)).collect()
    }

    /// The recording of this channel, if there is one.
    pub fn find(&self, channel: ChannelId) -> Option<LiveRecording> {
        let live = self.shared.live.lock().unwrap_or_else(PoisonError::into_inner);
        let found = live.values().find(|(known, _)| *known == channel);
        found.map(|(channel, live)| LiveRecording::new(live.clone(), *channel))
    }

    /// What it has done so far.
    pub fn figures(&self) -> RecorderFigures {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let live = self.shared.live.lock().unwrap_or_else(PoisonError::into_inner).len();
        let Shared { written, failed, dropped, .. } = &*self.shared;
        RecorderFigures { live, written: of(written), failed: of(failed), dropped: of(dropped) }
    }

    /// Waits until everything is written that is to be written by now, for at most so long: before a program ends. False if that was not enough.
    pub fn wait_until_written(&self, most: Duration) -> bool {
        let waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.shared.all_written.wait_timeout_while(waiting, most, |waiting| *waiting > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
    }
}

impl fmt::Debug for FlightRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightRecorder").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

/// What a flight recorder has done.
///
/// ```
/// use netwright_record::FlightRecorder;
///
/// let figures = FlightRecorder::builder().build().figures();
/// assert_eq!((figures.live, figures.written), (0, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecorderFigures {
    /// Channels that are recorded now.
    pub live: usize,
    /// Recordings that were written.
    pub written: u64,
    /// Recordings that could not be written: the disk was full, say, or a function that was to cover or keep them panicked.
    pub failed: u64,
    /// Recordings that were not even tried, because too many were waiting to be written.
    pub dropped: u64,
}

/// The settings of a [`FlightRecorder`], which has an example.
pub struct FlightRecorderBuilder {
    settings: Settings,
}

impl FlightRecorderBuilder {
    /// How many bytes are kept for each channel: 64 KiB unless said otherwise, 256 at least, 128 MiB at most. What there is of them grows as it is needed.
    pub fn bytes(mut self, most: usize) -> Self {
        self.settings.bytes = most.min(BYTES_MAX);
        self
    }

    /// How many records are kept for each channel: 4,096 unless said otherwise.
    pub fn records(mut self, most: usize) -> Self {
        self.settings.records = most;
        self
    }

    /// How many bytes are kept of each piece that goes out: its first 4 KiB unless said otherwise. What comes in is kept whole if it
    /// fits, because a replay needs it.
    pub fn written_max(mut self, most: usize) -> Self {
        self.settings.written_max = most;
        self
    }

    /// Of more than there is room for, the beginning is kept, not the end.
    pub(crate) fn keep_the_beginning(mut self) -> Self {
        self.settings.beginning = true;
        self
    }

    /// When recordings are written: in [trouble](When::TROUBLE), unless said otherwise.
    pub fn when(mut self, when: When) -> Self {
        self.settings.when = when;
        self
    }

    /// What must not be seen in a recording: [headers by which HTTP says who somebody is](Redaction::http), unless said otherwise.
    pub fn redact(mut self, redaction: Redaction) -> Self {
        self.settings.redaction = redaction;
        self
    }

    /// Whether the addresses of both ends are written. They are, unless said otherwise.
    pub fn addresses(mut self, written: bool) -> Self {
        self.settings.addresses = written;
        self
    }

    /// What to call what is recorded: the protocol, so that a replay knows what to run.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.settings.label = Some(label.into());
        self
    }

    /// Where recordings go: to a [`Directory`], or to a function.
    pub fn to(mut self, sink: impl Sink) -> Self {
        self.settings.sink = Some(Box::new(sink));
        self
    }

    /// Who writes: [`Workers::common`] unless said otherwise. Never a loop.
    pub fn workers(mut self, workers: Workers) -> Self {
        self.settings.workers = Some(workers);
        self
    }

    /// The recorder.
    pub fn build(self) -> FlightRecorder {
        let shared = Shared {
            settings: self.settings,
            live: Mutex::default(),
            waiting: Mutex::new(0),
            all_written: Condvar::new(),
            written: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            number: AtomicU64::new(0),
        };
        FlightRecorder { shared: Arc::new(shared) }
    }
}

type About = Vec<(&'static str, String)>;

impl Shared {
    pub(crate) fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn enter(&self, number: u64, channel: ChannelId, live: Weak<Live>) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).insert(number, (channel, live));
    }

    pub(crate) fn leave(&self, number: u64) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    /// The file of what is there, with nothing in it that is not to be seen.
    pub(crate) fn file(&self, about: &[(&str, String)], mut kept: Kept, why: Why) -> Vec<u8> {
        redact(&self.settings.redaction, &mut kept);
        writer::file(about, &kept, why)
    }

    /// Has a worker write a file.
    pub(crate) fn write(self: &Arc<Self>, about: About, kept: Kept, why: Why) {
        if self.settings.sink.is_none() {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if *waiting >= WAITING_MAX {
            drop(waiting);
            return self.drop_one("too many recordings wait to be written");
        }
        *waiting += 1;
        drop(waiting);
        let waits = Waits(self.clone());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let number = self.next_number();
        let name = format!("{now:013}-{}-{number:04}-{why}", std::process::id());
        let task = move || {
            let shared = &waits.0;
            let panics = Panics(shared); // as functions of the user's may: what covers, what keeps
            let file = NewRecording { name, why, bytes: shared.file(&about, kept, why) };
            shared.keep(&file);
            mem::forget(panics);
        };
        let refused = match &self.settings.workers {
            Some(workers) => workers.execute(task).is_err(),
            None => Workers::common().map_or(true, |workers| workers.execute(task).is_err()),
        };
        if refused {
            self.drop_one("no worker takes it");
        }
    }

    fn keep(&self, file: &NewRecording) {
        let Some(sink) = &self.settings.sink else { return };
        match sink.keep(file) {
            Ok(()) => {
                self.written.fetch_add(1, Ordering::Relaxed);
                tracing::info!(name = file.name, why = %file.why, bytes = file.bytes.len(), "a recording was written");
            }
            Err(error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(name = file.name, %error, "a recording could not be written");
            }
        }
    }

    #[cold]
    fn drop_one(&self, why: &str) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(why, "a recording was dropped");
    }
}

/// Counts a file that is not written because what should write it panics.
struct Panics<'a>(&'a Shared);

impl Drop for Panics<'_> {
    fn drop(&mut self) {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("a recording could not be written: its redaction or its sink panicked");
    }
}

/// A file that waits to be written, until it is, or will not be.
struct Waits(Arc<Shared>);

impl Drop for Waits {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting -= 1;
        if *waiting == 0 {
            self.0.all_written.notify_all();
        }
    }
}
