//! Where two recordings differ, in words.

use crate::show::Escaped;
use std::{error::Error, fmt};

/// Bytes before and behind the first one that differs.
const BEFORE: usize = 24;
const BEHIND: usize = 24;

/// Where what went out differs.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_record::{Difference, FlightRecorder};
///
/// let record = |text: &'static str| {
///     let flight = FlightRecorder::builder().build();
///     let mut channel = EmbeddedChannel::new(pipeline().add(flight.stage()).handle(move |cx, _: bytes::BytesMut| cx.write(text)));
///     channel.write_inbound("?");
///     flight.live()[0].recording()
/// };
/// let difference = record("all is well").compare(&record("all is lost")).check().unwrap_err();
/// assert!(matches!(difference, Difference::Byte { at: 7, .. }));
/// assert_eq!(
///     difference.to_string(),
///     "what went out differs from byte 7 on:\n  recorded: all is ▸well\n  now:      all is ▸lost"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// A byte differs.
    Byte {
        /// How many bytes went out before it in the recording.
        at: u64,
        /// How many went out before it now.
        now_at: u64,
        /// What surrounds it.
        context: Context,
    },
    /// Less went out than in the recording.
    Missing {
        /// What was there in the recording.
        recorded: u64,
        /// What is there now.
        now: u64,
        /// What surrounds the end.
        context: Context,
    },
    /// More went out than in the recording.
    More {
        /// What was there in the recording.
        recorded: u64,
        /// What is there now.
        now: u64,
        /// What surrounds the recording's end.
        context: Context,
    },
    /// The same bytes went out in other pieces.
    Pieces {
        /// The first piece that differs, from 0.
        index: usize,
        /// How long it was in the recording.
        recorded: Option<u64>,
        /// How long it is now.
        now: Option<u64>,
    },
    /// The channel ended for another reason, or did not end.
    End {
        /// How it ended in the recording.
        recorded: Option<String>,
        /// How it ended now.
        now: Option<String>,
    },
}

/// What surrounds a difference, on both sides.
///
/// ```
/// use netwright_record::Context;
///
/// assert_eq!(Context::default().to_string(), "  recorded: ▸\n  now:      ▸");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// The same on both sides, up to the difference.
    pub before: Vec<u8>,
    /// What comes then in the recording.
    pub recorded: Vec<u8>,
    /// What comes then now.
    pub now: Vec<u8>,
}

impl Context {
    pub(crate) fn around(recorded: &[u8], at: usize, now: &[u8], now_at: usize) -> Self {
        let behind = |bytes: &[u8], at: usize| bytes[at..bytes.len().min(at + BEHIND)].to_vec();
        Self {
            before: recorded[at.saturating_sub(BEFORE)..at].to_vec(),
            recorded: behind(recorded, at),
            now: behind(now, now_at),
        }
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = Escaped(&self.before);
        writeln!(f, "  recorded: {before}▸{}", Escaped(&self.recorded))?;
        write!(f, "  now:      {before}▸{}", Escaped(&self.now))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let piece = |len: &Option<u64>| len.map_or("none".to_owned(), |len| format!("{len} bytes"));
        let end = |cause: &Option<String>| match cause {
            Some(text) => Escaped(text.as_bytes()).to_string(),
            None => "it did not end".to_owned(),
        };
        match self {
            Self::Byte { at, now_at, context } if at == now_at => {
                write!(f, "what went out differs from byte {at} on:\n{context}")
            }
            Self::Byte { at, now_at, context } => {
                write!(f, "what went out differs from byte {at} on, which is byte {now_at} now:\n{context}")
            }
            Self::Missing { recorded, now, context } => {
                write!(f, "{now} bytes went out, in the recording {recorded}:\n{context}")
            }
            Self::More { recorded, now, context } => {
                write!(f, "{now} bytes went out, in the recording only {recorded}:\n{context}")
            }
            Self::Pieces { index, recorded, now } => {
                let (recorded, now) = (piece(recorded), piece(now));
                write!(f, "the same bytes in other pieces: number {index} was of {recorded}, and is of {now}")
            }
            Self::End { recorded, now } => {
                write!(f, "another end\n  recorded: {}\n  now:      {}", end(recorded), end(now))
            }
        }
    }
}

impl Error for Difference {}
