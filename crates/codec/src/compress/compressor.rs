//! The state machine that compresses.

use super::{CompressError, Format, Reach, Shrink, State, Step, decompressor::PIECE};
use bytes::BytesMut;
use netwright_core::InvalidArgument;
use std::fmt;

/// How far compressed output should follow the input.
///
/// ```
/// # #[cfg(feature = "gzip")] {
/// use bytes::BytesMut;
/// use netwright_codec::{Flush, Gzip, State};
///
/// let (mut gzip, mut out) = (Gzip::compressor(), BytesMut::new());
/// gzip.compress(b"hello", Flush::Sync, &mut out, 1024).unwrap(); // so far it can be read
/// let end = gzip.compress(b", world", Flush::Finish, &mut out, 1024).unwrap();
/// assert_eq!(end.state, State::Done);
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// As it comes: what compresses best.
    None,
    /// Everything that was put in so far can be read by the peer. Costs some bytes each time.
    Sync,
    /// The stream ends.
    Finish,
}

/// How far back a compressor refers by default: what zstd's usual level does, and any peer allows.
const WINDOW_LOG: u32 = 21;

/// Compresses a stream, step by step, without a pipeline. See [`Decompressor`](super::Decompressor) for an example.
///
/// [`compress`](super::compress()) makes a stage of it.
///
/// ```
/// # #[cfg(feature = "gzip")] {
/// use bytes::BytesMut;
/// use netwright_codec::{Flush, Gzip};
///
/// let (mut gzip, mut packed) = (Gzip::compressor().level(9).unwrap(), BytesMut::new());
/// gzip.compress(&[b'x'; 10_000], Flush::Finish, &mut packed, 16 * 1024).unwrap();
/// assert!(packed.len() < 100);
/// # }
/// ```
pub struct Compressor {
    format: Format,
    level: Option<i32>,
    window_log: u32,
    engine: Option<Box<dyn Shrink>>,
    /// A flush that was begun and is not over for lack of room.
    owed: Flush,
    ended: bool,
}

impl Compressor {
    /// A compressor with default settings.
    pub fn new(format: Format) -> Self {
        Self { format, level: None, window_log: WINDOW_LOG, engine: None, owed: Flush::None, ended: false }
    }

    /// Trades time for size. What it means, and what is allowed, is the format's own affair: 0 to 9 for gzip, zlib and
    /// deflate (default 6), -7 to 22 for zstd (3), 0 to 11 for Brotli (5); LZ4 and Snappy have no levels.
    ///
    /// ```
    /// # #[cfg(feature = "gzip")] {
    /// use netwright_codec::Gzip;
    ///
    /// let error = Gzip::compressor().level(10).unwrap_err();
    /// assert_eq!(error.to_string(), "the level of gzip is 10, but must be between 0 and 9");
    /// # }
    /// ```
    pub fn level(mut self, level: i32) -> Result<Self, InvalidArgument> {
        let expected = match self.format.levels() {
            Some((least, most)) if (least..=most).contains(&level) => {
                self.level = Some(level);
                return Ok(self);
            }
            Some((least, most)) => format!("between {least} and {most}"),
            None => "left out: the format has none".to_owned(),
        };
        Err(InvalidArgument { argument: self.level_name(), value: level.to_string(), expected })
    }

    /// How many bytes back the stream may refer, a power of two, for zstd and Brotli. Default: 2 MiB. A peer has to keep as
    /// much, and so do we, twice or more; a small window is cheap where connections are many.
    pub fn window(mut self, bytes: u64) -> Result<Self, InvalidArgument> {
        let expected = match self.format.windows() {
            Some((least, most)) => {
                if bytes.is_power_of_two() && (least..=most).contains(&bytes.ilog2()) {
                    self.window_log = bytes.ilog2();
                    return Ok(self);
                }
                format!("a power of two between {} and {}", 1u64 << least, 1u64 << most)
            }
            None => "left out: the format has a fixed one".to_owned(),
        };
        Err(InvalidArgument { argument: self.window_name(), value: bytes.to_string(), expected })
    }

    /// Compresses some input and appends at most `room` bytes to `out`.
    ///
    /// `OutputFull` asks to be called again, with the rest of the input and the same flush. `NeedInput` says that all
    /// input is taken and the flush, if one was asked for, is complete; `Done` the same of the stream's end.
    pub fn compress(
        &mut self,
        input: &[u8],
        flush: Flush,
        out: &mut BytesMut,
        room: usize,
    ) -> Result<Step, CompressError> {
        if self.ended {
            return Err(CompressError::Ended { format: self.format });
        }
        let start = out.len();
        self.run(input, flush, out, room).map_err(|what| {
            out.truncate(start);
            self.ended = true;
            self.engine = None;
            CompressError::Library { format: self.format, what }
        })
    }

    /// Whether anything was put in so far.
    pub fn has_begun(&self) -> bool {
        self.engine.is_some()
    }

    /// The format that is written.
    pub fn format(&self) -> Format {
        self.format
    }

    fn run(&mut self, input: &[u8], flush: Flush, out: &mut BytesMut, room: usize) -> Result<Step, String> {
        if input.is_empty() && flush != Flush::Finish && self.engine.is_none() {
            return Ok(Step { taken: 0, state: State::NeedInput });
        }
        let engine = match &mut self.engine {
            Some(engine) => engine,
            none => none.insert(self.format.shrinker(self.level, self.window_log)?),
        };
        let (mut taken, mut made) = (0, 0);
        loop {
            if made >= room {
                return Ok(Step { taken, state: State::OutputFull });
            }
            // A flush that was begun has to be over before there is more input.
            let (rest, now) =
                if self.owed == Flush::None { (&input[taken..], flush) } else { (&[][..], self.owed) };
            let (at, len) = (out.len(), PIECE.min(room - made));
            out.resize(at + len, 0);
            let moved = engine.shrink(rest, &mut out[at..], now)?;
            out.truncate(at + moved.made);
            taken += moved.taken;
            made += moved.made;
            let complete = moved.reach == Reach::End;
            if taken == input.len() || self.owed != Flush::None {
                self.owed = if complete { Flush::None } else { now };
            }
            if complete && now == Flush::Finish {
                self.ended = true;
                self.engine = None;
                return Ok(Step { taken, state: State::Done });
            }
            if complete && now == flush && taken == input.len() {
                return Ok(Step { taken, state: State::NeedInput });
            }
            if moved.taken == 0 && moved.made == 0 && !complete {
                return Err("no way on from here".to_owned());
            }
        }
    }

    fn level_name(&self) -> &'static str {
        names(self.format).0
    }

    fn window_name(&self) -> &'static str {
        names(self.format).1
    }
}

/// What to call a format's level and window in errors.
fn names(format: Format) -> (&'static str, &'static str) {
    match format.name() {
        "gzip" => ("the level of gzip", "the window of gzip"),
        "zlib" => ("the level of zlib", "the window of zlib"),
        "deflate" => ("the level of deflate", "the window of deflate"),
        "zstd" => ("the level of zstd", "the window of zstd"),
        "brotli" => ("the level of brotli", "the window of brotli"),
        "lz4" => ("the level of lz4", "the window of lz4"),
        _ => ("the level of snappy", "the window of snappy"),
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor")
            .field("format", &self.format)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
