//! Drives a pipeline with a recording: the same pieces at the same times, on a clock that is moved by hand.
//!
//! ```text
//!   recording ── what came in ──▶ EmbeddedChannel: [ a recorder ] ◀──▶ [ the pipeline ]
//!        │                                              │
//!        └───────────── what went out ── compare ───────┘
//! ```
//! What a recorder saw go out is compared with what another recorder sees in the same place: same pieces, same times, same blind spots.
//!
//! What others do at their own time is waited for: workers, threads, files. A record of something that went out is a point at which
//! the replay waits for it before it goes on, within its [patience](Replay::patience).

mod compare;
mod difference;

pub use compare::Comparison;
pub use difference::{Context, Difference};

use crate::{Cause, FlightRecorder, Recording, Redaction, Seen, When, format::varint, live::Live};
use bytes::Bytes;
use netwright_core::{CloseCause, EmbeddedChannel, IntoPipeline, observe, pipeline};
use std::{
    fmt,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// What a replay keeps of what it sees, and of what is sent: the beginning. More than any recording has.
const KEPT_MAX: usize = 128 << 20;
/// For what others do at their own time, such as workers that open files.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks whether they have done it.
const LOOK_AGAIN: Duration = Duration::from_micros(200);
/// Timers are due at whole ticks of their loop.
const TICK: Duration = Duration::from_millis(1);
/// The ticks of the recorded loop lay elsewhere, so a timer may be due up to a tick later here, and another one behind a
/// clock that has waited for a worker. Not more: timers that were not due yet must not become so.
const LATE_MAX: Duration = Duration::from_millis(2);

/// No loop reads more pieces of one channel in a turn; what they are answered with is kept until the turn ends.
const READS_MAX: usize = 256;

/// A recording that is about to be played to a pipeline. Made by [`Recording::replay`].
///
/// ```
/// use netwright_core::{EmbeddedChannel, IntoPipeline, Outgoing, pipeline};
/// use netwright_record::FlightRecorder;
///
/// fn shouts() -> impl IntoPipeline<Outgoing> {
///     pipeline().handle(|cx, bytes: bytes::BytesMut| cx.write_and_flush(bytes.to_ascii_uppercase()))
/// }
///
/// let flight = FlightRecorder::builder().build();
/// let mut channel = EmbeddedChannel::of(pipeline().add(flight.stage()).joint(|_| shouts()));
/// channel.write_inbound("hel").write_inbound("lo");
/// let recording = flight.live()[0].recording();
///
/// let again = recording.replay().run(shouts());
/// again.compare(&recording).check()?;
/// assert_eq!(again.sent_bytes(), b"HELLO");
/// # Ok::<(), netwright_record::Difference>(())
/// ```
pub struct Replay<'a> {
    recording: &'a Recording,
    patience: Duration,
    pace: Box<dyn FnMut(Duration) + 'a>,
}

impl Recording {
    /// Of long pieces that went out the recorder has kept so much, and all of others: what a replay keeps has the same gaps.
    fn kept_of_each(&self) -> usize {
        let pieces = self.records().filter_map(|record| match record.what {
            Seen::Written(piece) if !piece.is_whole() => Some(piece.bytes.len()),
            _ => None,
        });
        pieces.max().unwrap_or(usize::MAX)
    }

    /// Plays it to a pipeline.
    pub fn replay(&self) -> Replay<'_> {
        Replay { recording: self, patience: PATIENCE, pace: Box::new(|_| {}) }
    }

    /// Compares what went out with what goes out here; `self` is what is expected.
    pub fn compare<'a>(&'a self, again: &'a Recording) -> Comparison<'a> {
        Comparison::new(self, again)
    }
}

impl<'a> Replay<'a> {
    /// How long the whole replay waits for what others do at their own time: workers, threads. Five seconds, unless said otherwise. Only what
    /// went out in the recording is waited for, so replies that are the same take no longer than they take.
    pub fn patience(mut self, most: Duration) -> Self {
        self.patience = most;
        self
    }

    /// Calls this whenever the clock is about to be moved, with how far: to sleep for as long, say.
    ///
    /// ```no_run
    /// # let recording = netwright_record::Recording::open("recording.nwr")?;
    /// # let server = || netwright_core::pipeline().handle(|_, _: bytes::BytesMut| {});
    /// recording.replay().pace(std::thread::sleep).run(server()); // as long as it took
    /// # Ok::<(), netwright_record::FormatError>(())
    /// ```
    pub fn pace(mut self, pace: impl FnMut(Duration) + 'a) -> Self {
        self.pace = Box::new(pace);
        self
    }

    /// Plays the recording to this pipeline, which is what stood behind the recorder.
    pub fn run<T: 'static>(self, behind: impl IntoPipeline<T>) -> Replayed {
        let flight = FlightRecorder::builder()
            .bytes(KEPT_MAX)
            .records(usize::MAX)
            .written_max(self.recording.kept_of_each())
            .keep_the_beginning()
            .redact(Redaction::none())
            .when(When::BY_HAND)
            .build();
        let (recorder, live) = flight.watched();
        let whole = pipeline().add(observe(recorder)).joint(|_| behind);
        let channel = EmbeddedChannel::between(whole, self.recording.local(), self.recording.peer());
        let mut run = Run {
            channel,
            live,
            now: Duration::ZERO,
            expected: 0,
            reads: 0,
            sent: SentBytes::default(),
            patience: self.patience,
            pace: self.pace,
            missing: None,
        };
        run.play(self.recording);
        run.end()
    }
}

impl fmt::Debug for Replay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("recording", self.recording)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

struct Run<'a, T> {
    channel: EmbeddedChannel<(), T>,
    live: Arc<Live>,
    now: Duration,
    /// How many bytes had gone out in the recording.
    expected: u64,
    /// How many pieces came in this turn.
    reads: usize,
    sent: SentBytes,
    patience: Duration,
    pace: Box<dyn FnMut(Duration) + 'a>,
    missing: Option<u64>,
}

impl<T: 'static> Run<'_, T> {
    fn play(&mut self, recording: &Recording) {
        let mut records = recording.records();
        while let Some(record) = records.next() {
            self.advance_to(record.at);
            match record.what {
                Seen::Read(piece) if !piece.is_whole() => {
                    self.missing = Some(piece.len - piece.bytes.len() as u64);
                    return;
                }
                Seen::Read(piece) => {
                    if self.reads == READS_MAX {
                        self.end_turn();
                    }
                    self.reads += 1;
                    // A peer that did not take what was written because of this does not take it now.
                    self.channel.one_turn(true).block_output(is_blocked_before_more_comes(records.clone()));
                    self.channel.write_inbound(&piece.bytes);
                }
                Seen::InputClosed => {
                    self.channel.one_turn(true).close_input();
                }
                Seen::Writable(true) => {
                    self.channel.one_turn(false).block_output(false);
                }
                Seen::Written(piece) => self.expect(record.at, piece.len),
                Seen::File(len) => self.expect(record.at, len),
                Seen::Inactive(cause) => {
                    self.end_turn();
                    match cause.again() {
                        Some(cause) => _ = self.channel.end_because(cause),
                        None => self.advance_until(record.at, |_| false),
                    }
                }
                Seen::Panicked(_) => {
                    self.end_turn();
                    self.advance_until(record.at, |_| false);
                }
                _ => {}
            }
        }
        self.end_turn();
    }

    /// What came at one time came in one turn of the loop, unless the answer of somebody else came in between.
    fn end_turn(&mut self) {
        self.channel.one_turn(false);
        self.reads = 0;
        self.collect();
    }

    /// Moves the clock, and notes what is sent on the way.
    fn advance_to(&mut self, at: Duration) {
        let by = at.saturating_sub(self.now);
        if !by.is_zero() {
            self.end_turn();
            (self.pace)(by);
            self.channel.advance(by);
            self.now = at;
            self.collect();
        }
    }

    /// Moves the clock on, tick by tick, until this is so or the channel ends: at most [`LATE_MAX`] behind the recording.
    fn advance_until(&mut self, at: Duration, done: impl Fn(&Self) -> bool) {
        while self.channel.is_open() && !done(self) {
            let over = Duration::from_nanos(u64::from(self.now.subsec_nanos()) % TICK.as_nanos() as u64);
            let next = self.now.saturating_sub(over).saturating_add(TICK);
            if next > at.saturating_add(LATE_MAX) {
                break;
            }
            self.advance_to(next);
        }
    }

    /// Waits until as much has gone out as had in the recording by then: for timers that are due a little later here, then for
    /// somebody else who is still at it.
    fn expect(&mut self, at: Duration, len: u64) {
        self.expected = self.expected.saturating_add(len);
        if self.live.written_len() >= self.expected {
            return;
        }
        self.end_turn();
        self.advance_until(at, |run| run.live.written_len() >= run.expected);
        let begun = Instant::now();
        while self.live.written_len() < self.expected && self.channel.is_open() {
            let left = self.patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            thread::sleep(LOOK_AGAIN.min(left));
            self.channel.run();
        }
        self.patience = self.patience.saturating_sub(begun.elapsed());
    }

    fn collect(&mut self) {
        while let Some(bytes) = self.channel.read_outbound() {
            self.sent.push(self.now, &bytes);
        }
    }

    fn end(mut self) -> Replayed {
        self.channel.one_turn(false).block_output(false);
        self.collect();
        let cause = self.channel.channel().close_cause();
        drop(self.channel); // and what stages have kept: the recording is as long again
        let recording = self.live.take_recording();
        Replayed { recording, sent: self.sent, cause, missing: self.missing }
    }
}

/// Whether there was no room to write before anything else came in.
fn is_blocked_before_more_comes(records: impl Iterator<Item = crate::Record>) -> bool {
    for record in records {
        match record.what {
            Seen::Writable(false) => return true,
            what if what.is_incoming() => return false,
            _ => {}
        }
    }
    false
}

/// What a pipeline made of a recording.
///
/// ```
/// # use netwright_core::{EmbeddedChannel, pipeline};
/// # use netwright_record::FlightRecorder;
/// # let flight = FlightRecorder::builder().build();
/// # let mut channel = EmbeddedChannel::new(pipeline().add(flight.stage()).handle(|cx, bytes| cx.write_and_flush(bytes)));
/// # let recording = flight.live()[0].recording();
/// let again = recording.replay().run(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes)));
/// assert!(again.sent().is_empty() && again.cause().is_none()); // nothing came in
/// ```
#[derive(Debug)]
pub struct Replayed {
    recording: Recording,
    sent: SentBytes,
    cause: Option<CloseCause>,
    missing: Option<u64>,
}

/// Bytes that were sent in a replay.
///
/// ```
/// use netwright_record::Sent;
/// use std::time::Duration;
///
/// let sent = Sent { at: Duration::from_secs(5), bytes: "too late".into() };
/// assert_eq!(sent.bytes.len(), 8);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// When, after the beginning.
    pub at: Duration,
    /// What, as one piece.
    pub bytes: Bytes,
}

/// What was sent, in little more room than the bytes take: a recording may consist of millions of small pieces.
#[derive(Debug, Default)]
struct SentBytes {
    bytes: Vec<u8>,
    /// Of each piece the nanoseconds after the one before it, and its length, as varints.
    heads: Vec<u8>,
    last: Duration,
    /// How many bytes there were, kept or not.
    len: u64,
}

impl SentBytes {
    fn push(&mut self, at: Duration, bytes: &[u8]) {
        let is_all_there = self.len == self.bytes.len() as u64;
        self.len += bytes.len() as u64;
        if !is_all_there {
            return;
        }
        let bytes = &bytes[..bytes.len().min(KEPT_MAX - self.bytes.len())];
        let after = at.saturating_sub(self.last);
        varint::push(&mut self.heads, u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        varint::push(&mut self.heads, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self.last = at;
    }

    fn pieces(&self) -> Vec<Sent> {
        let mut bytes = Bytes::copy_from_slice(&self.bytes);
        let (mut heads, mut at, mut pieces) = (&self.heads[..], Duration::ZERO, Vec::new());
        let mut number = || {
            let (number, len) = varint::take(heads.iter().copied()).ok()?;
            heads = &heads[len..];
            Some(number)
        };
        while let (Some(after), Some(len)) = (number(), number()) {
            at = at.saturating_add(Duration::from_nanos(after));
            pieces.push(Sent { at, bytes: bytes.split_to(len as usize) });
        }
        pieces
    }
}

impl Replayed {
    /// What was sent, in order: the first 128 MiB of it.
    pub fn sent(&self) -> Vec<Sent> {
        self.sent.pieces()
    }

    /// What was sent, as one: the first 128 MiB of it.
    pub fn sent_bytes(&self) -> Vec<u8> {
        self.sent.bytes.clone()
    }

    /// How many bytes were sent in all.
    pub fn sent_len(&self) -> u64 {
        self.sent.len
    }

    /// Why the channel ended, if it did.
    pub fn cause(&self) -> Option<&CloseCause> {
        self.cause.as_ref()
    }

    /// Why the channel ended, if it did, as recordings say it.
    pub fn end(&self) -> Option<Cause> {
        self.cause.as_ref().map(Cause::from)
    }

    /// How many bytes of a piece that came in are not in the recording, so that the replay ended there.
    pub fn missing(&self) -> Option<u64> {
        self.missing
    }

    /// What a recorder saw of the replay, in the place of the first one.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Compares what went out with what had gone out in the recording that was played.
    pub fn compare<'a>(&'a self, expected: &'a Recording) -> Comparison<'a> {
        expected.compare(&self.recording)
    }
}
