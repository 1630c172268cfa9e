//! A recording that was read: from a file, or from the memory of a live recorder.
//!
//! Hostile-safe: nothing is believed that is not there. A file is read as far as it goes, and [`Ending`] says how far that was. Records
//! are looked at one by one where they lie; what they hold are pieces of the file.

use super::{
    Record, Seen,
    kind::{self, MAGIC, VERSION},
    record::{NoRecord, Raw, number, text},
};
use bytes::Bytes;
use netwright_core::Address;
use std::{
    error::Error,
    fmt, fs,
    io::{self, Read},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// More than any recorder is set to keep, unless somebody wants to look at memory run out.
const FILE_MAX: u64 = 256 << 20;
/// Entries about a recording that are looked at.
const META_MAX: usize = 64;

/// What a [flight recorder](crate::FlightRecorder) has kept of one channel.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_record::{FlightRecorder, Recording};
///
/// let flight = FlightRecorder::builder().label("echo").build();
/// let mut channel = EmbeddedChannel::new(pipeline().add(flight.stage()).handle(|cx, bytes| cx.write_and_flush(bytes)));
/// channel.write_inbound("hello");
///
/// let bytes = flight.live()[0].recording().to_bytes(); // as they are in a file
/// let recording = Recording::parse(bytes)?;
/// assert_eq!((recording.label(), recording.is_from_the_start()), (Some("echo"), true));
/// assert_eq!((recording.read_len(), recording.written_len()), (5, 5));
/// # Ok::<(), netwright_record::FormatError>(())
/// ```
#[derive(Clone)]
pub struct Recording {
    bytes: Bytes,
    meta: Vec<(String, String)>,
    lost: Option<(u64, u64)>,
    why: Option<Why>,
    ending: Ending,
    /// Where the last record that can be read ends.
    readable: usize,
    sums: Sums,
}

/// What there is of pieces.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    read: u64,
    written: u64,
}

/// How far a file could be read.
///
/// ```
/// use netwright_record::{Ending, Recording};
///
/// let cut = Recording::parse(&b"\x89NWR\r\n\x1a\n\x01"[..])?; // nothing behind the head
/// assert_eq!(cut.ending(), Ending::Cut);
/// # Ok::<(), netwright_record::FormatError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// To its end.
    Complete,
    /// The file is shorter than it should be: whoever wrote it was interrupted.
    Cut,
    /// At this byte is something that cannot be.
    Damaged {
        /// How many bytes into the file.
        at: usize,
    },
}

/// Why a recording was written.
///
/// ```
/// use netwright_record::{FlightRecorder, Why};
///
/// assert_eq!(Why::Panic.to_string(), "panic");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Why {
    /// Somebody asked for it.
    ByHand = 0,
    /// An error passed, or ended the channel.
    Error = 1,
    /// The connection failed: a reset, most often.
    Io = 2,
    /// A handler panicked.
    Panic = 3,
    /// A limit ended the channel: too long silent, or too slow in taking what waited.
    Limit = 4,
    /// The channel ended in order.
    End = 5,
    /// The recorder was taken out of a channel that lives on, or its loop went.
    Removed = 6,
}

impl Why {
    const ALL: [Self; 7] =
        [Self::ByHand, Self::Error, Self::Io, Self::Panic, Self::Limit, Self::End, Self::Removed];

    /// A word for names of files.
    pub fn word(self) -> &'static str {
        match self {
            Self::ByHand => "by-hand",
            Self::Error => "error",
            Self::Io => "io",
            Self::Panic => "panic",
            Self::Limit => "limit",
            Self::End => "end",
            Self::Removed => "removed",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Why something is no recording.
///
/// ```
/// use netwright_record::{FormatError, Recording};
///
/// assert!(matches!(Recording::parse(&b"GET / HTTP/1.1"[..]), Err(FormatError::NoRecording)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum FormatError {
    /// It does not begin as a recording does.
    NoRecording,
    /// It is a recording of a version that cannot be read here.
    Version(u8),
    /// It is longer than any recorder writes.
    TooLong {
        /// How long it may be.
        limit: u64,
    },
    /// It could not be read at all.
    Io(io::Error),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecording => f.write_str("this is no recording: it does not begin as one does"),
            Self::Version(version) => {
                write!(f, "a recording of version {version}; this program reads version {VERSION}")
            }
            Self::TooLong { limit } => write!(f, "longer than {limit} bytes, which is the most that is read"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl Error for FormatError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for FormatError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Recording {
    /// Reads a file as far as it goes.
    ///
    /// # Errors
    /// The file cannot be read, is no recording, or one of another version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FormatError> {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
        Self::parse(bytes)
    }

    /// Reads the bytes of a file as far as they go.
    ///
    /// # Errors
    /// The bytes are no recording, or one of another version.
    pub fn parse(bytes: impl Into<Bytes>) -> Result<Self, FormatError> {
        let bytes = bytes.into();
        if bytes.len() as u64 > FILE_MAX {
            return Err(FormatError::TooLong { limit: FILE_MAX });
        }
        let rest = bytes.strip_prefix(&MAGIC).ok_or(FormatError::NoRecording)?;
        match rest.first() {
            Some(&VERSION) => {}
            Some(&other) => return Err(FormatError::Version(other)),
            None => return Err(FormatError::NoRecording),
        }
        let mut recording = Self {
            bytes,
            meta: Vec::new(),
            lost: None,
            why: None,
            ending: Ending::Cut,
            readable: MAGIC.len() + 1,
            sums: Sums::default(),
        };
        recording.read_through();
        Ok(recording)
    }

    fn read_through(&mut self) {
        while let Some(step) = self.step() {
            if let Err(why) = step {
                self.ending = match why {
                    NoRecord::Cut => Ending::Cut,
                    NoRecord::Damaged => Ending::Damaged { at: self.readable },
                };
                return;
            }
        }
    }

    /// Looks at one more record. `None`: that was the end.
    fn step(&mut self) -> Option<Result<(), NoRecord>> {
        let raw = match Raw::at(&self.bytes, self.readable) {
            Ok(raw) => raw,
            Err(why) => return Some(Err(why)),
        };
        let body = &self.bytes[raw.body..raw.end];
        match raw.kind {
            kind::META if self.meta.len() < META_MAX => {
                if let Some((name, value)) = text(body).split_once('=') {
                    self.meta.push((name.to_owned(), value.to_owned()));
                }
            }
            kind::LOST => match number(body)
                .and_then(|(records, first)| number(&body[first..]).map(|(bytes, _)| (records, bytes)))
            {
                Ok(lost) => self.lost = Some(lost),
                Err(why) => return Some(Err(why)),
            },
            kind::END => {
                self.why =
                    body.first().map(|&why| Why::ALL.get(usize::from(why)).copied().unwrap_or(Why::ByHand));
                self.readable = raw.end;
                self.ending = match raw.end == self.bytes.len() {
                    true => Ending::Complete,
                    false => Ending::Damaged { at: raw.end },
                };
                return None;
            }
            _ => match raw.seen(&self.bytes) {
                Ok(Some(Seen::Read(piece))) => self.sums.read = self.sums.read.saturating_add(piece.len),
                Ok(Some(Seen::Written(piece))) => {
                    self.sums.written = self.sums.written.saturating_add(piece.len);
                }
                Ok(Some(Seen::File(len))) => self.sums.written = self.sums.written.saturating_add(len),
                Ok(_) => {}
                Err(why) => return Some(Err(why)),
            },
        }
        self.readable = raw.end;
        Some(Ok(()))
    }

    /// What happened, in order.
    pub fn records(&self) -> Records<'_> {
        Records { recording: self, at: MAGIC.len() + 1, time: 0, flushed: false }
    }

    /// The bytes of its file.
    pub fn to_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// How far the file could be read.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Why it was written, if the file is complete.
    pub fn why(&self) -> Option<Why> {
        self.why
    }

    /// Whether it begins where its channel began: the recorder was there from the start, and its ring has lost nothing.
    pub fn is_from_the_start(&self) -> bool {
        self.lost.is_none() && self.meta("start") == Some("channel")
    }

    /// What the ring has lost of the beginning: how many records, and how many bytes of them.
    pub fn lost(&self) -> Option<(u64, u64)> {
        self.lost
    }

    /// How many bytes came in, of those records that there are.
    pub fn read_len(&self) -> u64 {
        self.sums.read
    }

    /// How many bytes went out, of those records that there are, files included.
    pub fn written_len(&self) -> u64 {
        self.sums.written
    }

    // ---- what is said about it ----

    /// What the file says about the recording under this name.
    pub fn meta(&self, name: &str) -> Option<&str> {
        self.meta.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All that the file says about the recording.
    pub fn metas(&self) -> impl Iterator<Item = (&str, &str)> {
        self.meta.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// What its recorder was told to call it: the protocol, most often.
    pub fn label(&self) -> Option<&str> {
        self.meta("label")
    }

    /// The time of day at which it began.
    pub fn began(&self) -> Option<SystemTime> {
        let (seconds, nanos) = self.meta("began")?.split_once('.')?;
        let since =
            Duration::new(seconds.parse().ok()?, nanos.parse().ok().filter(|&ns| ns < 1_000_000_000)?);
        UNIX_EPOCH.checked_add(since)
    }

    /// The peer's address, if it was kept.
    pub fn peer(&self) -> Option<Address> {
        self.meta("peer")?.parse().ok()
    }

    /// Our address, if it was kept.
    pub fn local(&self) -> Option<Address> {
        self.meta("local")?.parse().ok()
    }

    /// Names of headers whose values were replaced by `*`.
    pub fn redacted(&self) -> impl Iterator<Item = &str> {
        self.meta("redacted").unwrap_or_default().split(',').filter(|name| !name.is_empty())
    }

    /// Whether anything may have been replaced by `*`.
    pub fn is_redacted(&self) -> bool {
        self.meta("redacted").is_some()
    }
}

/// Tells lengths, not contents: what peers have sent does not belong in a log by accident.
impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("meta", &self.meta)
            .field("read", &self.sums.read)
            .field("written", &self.sums.written)
            .field("lost", &self.lost)
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}

/// The records of a [`Recording`], in order.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_record::FlightRecorder;
///
/// let flight = FlightRecorder::builder().build();
/// let channel = EmbeddedChannel::new(pipeline().add(flight.stage()).handle(|_, _: bytes::BytesMut| {}));
/// assert_eq!(flight.live()[0].recording().records().count(), 1); // it is connected
/// # drop(channel);
/// ```
#[derive(Debug, Clone)]
pub struct Records<'a> {
    recording: &'a Recording,
    at: usize,
    time: u64,
    /// A flush came with the last record.
    flushed: bool,
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if std::mem::take(&mut self.flushed) {
            return Some(Record { at: Duration::from_nanos(self.time), what: Seen::Flush });
        }
        while self.at < self.recording.readable {
            let raw = Raw::at(&self.recording.bytes, self.at).ok()?;
            self.at = raw.end;
            self.time = self.time.saturating_add(raw.after_ns);
            self.flushed = kind::is_flushed(raw.kind);
            if let Ok(Some(what)) = raw.seen(&self.recording.bytes) {
                return Some(Record { at: Duration::from_nanos(self.time), what });
            }
        }
        None
    }
}
