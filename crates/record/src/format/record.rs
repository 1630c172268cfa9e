//! One record: when something happened, and what.

use super::{
    Cause, CauseKind, kind,
    varint::{self, NoNumber},
};
use bytes::Bytes;
use std::time::Duration;

/// Something that happened on a recorded channel.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_record::{FlightRecorder, Seen};
///
/// let flight = FlightRecorder::builder().build();
/// let mut channel = EmbeddedChannel::new(pipeline().add(flight.stage()).handle(|cx, bytes| cx.write_and_flush(bytes)));
/// channel.write_inbound("hello");
/// let recording = flight.live()[0].recording();
/// let read = recording.records().find_map(|record| match record.what {
///     Seen::Read(piece) => Some(piece.bytes),
///     _ => None,
/// });
/// assert_eq!(read.unwrap(), "hello");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// How long after the recording began, by the loop's clock.
    pub at: Duration,
    /// What it was.
    pub what: Seen,
}

/// What a recorder has seen.
///
/// ```
/// use netwright_record::Seen;
///
/// assert!(Seen::InputClosed.is_incoming() && !Seen::Flush.is_incoming());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seen {
    /// The channel is connected.
    Active,
    /// This came in, in one piece.
    Read(Piece),
    /// This went out, in one piece.
    Written(Piece),
    /// So many bytes of a file went out; the recorder does not read files.
    File(u64),
    /// What was written before is to be sent.
    Flush,
    /// The peer sends no more.
    InputClosed,
    /// Too much waits to be sent (`false`), or there is room again (`true`).
    Writable(bool),
    /// An error passed, of a stage between the wire and the recorder.
    Error(String),
    /// A stage behind the recorder asked for the end.
    Close(Cause),
    /// A stage behind the recorder told the peer that no more will come.
    OutputShutDown,
    /// The channel ended.
    Inactive(Cause),
    /// A handler panicked. The message may be unknown, and is empty then.
    Panicked(String),
}

impl Seen {
    /// Whether it came from outside, so that a [`Replay`](crate::Replay) does it again. All else is what the pipeline made of that.
    pub fn is_incoming(&self) -> bool {
        match self {
            Self::Read(_) | Self::InputClosed | Self::Writable(true) => true,
            Self::Inactive(cause) => cause.kind.is_of_the_outside(),
            _ => false,
        }
    }
}

/// Bytes that came in or went out in one piece.
///
/// ```
/// use netwright_record::Piece;
///
/// let piece = Piece { bytes: "the beginn".into(), len: 4096 };
/// assert!(!piece.is_whole());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// What was kept of it: all, or the beginning.
    pub bytes: Bytes,
    /// How long it was.
    pub len: u64,
}

impl Piece {
    /// Whether all of it was kept.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.len
    }
}

/// Where a record lies: its kind, its time after the record before it, and its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) kind: u8,
    pub(crate) after_ns: u64,
    pub(crate) body: usize,
    pub(crate) end: usize,
}

/// Why a record cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRecord {
    /// The bytes end within it.
    Cut,
    /// It is none.
    Damaged,
}

impl From<NoNumber> for NoRecord {
    fn from(why: NoNumber) -> Self {
        match why {
            NoNumber::Cut => Self::Cut,
            NoNumber::TooLarge => Self::Damaged,
        }
    }
}

impl Raw {
    /// The record that begins at `at`.
    pub(crate) fn at(bytes: &[u8], at: usize) -> Result<Self, NoRecord> {
        let (&kind, rest) = bytes.get(at..).and_then(<[u8]>::split_first).ok_or(NoRecord::Cut)?;
        let (after_ns, first) = varint::take(rest.iter().copied())?;
        let (len, second) = varint::take(rest[first..].iter().copied())?;
        let body = at + 1 + first + second;
        let end = usize::try_from(len).ok().and_then(|len| body.checked_add(len)).ok_or(NoRecord::Cut)?;
        if end > bytes.len() {
            return Err(NoRecord::Cut);
        }
        Ok(Self { kind, after_ns, body, end })
    }

    /// What the record says. `None` for kinds that are not known here, or that are about the file.
    pub(crate) fn seen(&self, file: &Bytes) -> Result<Option<Seen>, NoRecord> {
        let body = file.slice(self.body..self.end);
        let kind = if kind::is_flushed(self.kind) { self.kind & !kind::FLUSHED_BIT } else { self.kind };
        Ok(Some(match kind {
            kind::ACTIVE => Seen::Active,
            kind::READ => Seen::Read(whole(body)),
            kind::READ_CUT => Seen::Read(cut(&body)?),
            kind::WRITTEN => Seen::Written(whole(body)),
            kind::WRITTEN_CUT => Seen::Written(cut(&body)?),
            kind::FILE => Seen::File(number(&body)?.0),
            kind::FLUSH => Seen::Flush,
            kind::INPUT_CLOSED => Seen::InputClosed,
            kind::WRITABLE => Seen::Writable(*body.first().ok_or(NoRecord::Damaged)? != 0),
            kind::ERROR => Seen::Error(text(&body)),
            kind::CLOSE => Seen::Close(cause(&body)?),
            kind::OUTPUT_SHUT_DOWN => Seen::OutputShutDown,
            kind::INACTIVE => Seen::Inactive(cause(&body)?),
            kind::PANICKED => Seen::Panicked(text(&body)),
            _ => return Ok(None),
        }))
    }
}

fn whole(bytes: Bytes) -> Piece {
    Piece { len: bytes.len() as u64, bytes }
}

/// How long it was, then what was kept.
fn cut(body: &Bytes) -> Result<Piece, NoRecord> {
    let (len, first) = number(body)?;
    let bytes = body.slice(first..);
    if (bytes.len() as u64) > len {
        return Err(NoRecord::Damaged);
    }
    Ok(Piece { bytes, len })
}

/// A number that is in a body as a whole, or the body is none.
pub(crate) fn number(body: &[u8]) -> Result<(u64, usize), NoRecord> {
    varint::take(body.iter().copied()).map_err(|_| NoRecord::Damaged)
}

pub(crate) fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

fn cause(body: &[u8]) -> Result<Cause, NoRecord> {
    let (&number, rest) = body.split_first().ok_or(NoRecord::Damaged)?;
    Ok(Cause { kind: CauseKind::of_number(number), text: text(rest) })
}
