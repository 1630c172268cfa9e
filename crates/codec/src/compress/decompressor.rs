//! The state machine that decompresses: limits, ends, and engines that stand still.
//!
//! ```text
//!   input ──▶ [ engine ] ──▶ at most `room` bytes more in `out`
//!                │ counted: bytes in, bytes out ──▶ Total, Ratio
//!                │ end of stream ──▶ Done; or, chained, another one begins with the next byte
//!                └ neither takes nor makes anything, with both at hand ──▶ Corrupt
//! ```
//! Always true between calls:
//! 1. `output` is at most the total, and at most the grace or the ratio times `input`.
//! 2. The engine exists only from the first byte on: a connection that is silent keeps nothing.
//!
//! Not here: how a format works (`deflate`, …), how a stage pulls (`base::decoding`).

use super::{Broken, DecompressError, DecompressLimits, Expand, Format, Reach, State, Step};
use crate::base::{DecodeError, Decoder};
use bytes::{Buf, BytesMut};
use std::fmt;

/// What a stage makes at a time: large enough that a piece costs little beside its bytes, small enough for the cache.
pub(super) const PIECE: usize = 16 * 1024;
/// Room that is offered first: doubled while it is used up, so that short messages do not sit in long buffers.
const ROOM_MIN: usize = 512;

/// Decompresses a stream, step by step, without a pipeline.
///
/// Input goes in by slices of any length, output is appended to a buffer, no more at a time than asked for.
///
/// ```
/// # #[cfg(feature = "gzip")] {
/// use bytes::BytesMut;
/// use netwright_codec::{Flush, Gzip, State};
///
/// let mut packed = BytesMut::new();
/// let step = Gzip::compressor().compress(&[b'a'; 100], Flush::Finish, &mut packed, usize::MAX).unwrap();
/// assert_eq!(step.state, State::Done);
///
/// let mut decompressor = Gzip::decompressor();
/// let mut out = BytesMut::new();
/// let step = decompressor.decompress(&packed, &mut out, 64).unwrap();
/// assert_eq!((out.len(), step.state), (64, State::OutputFull));
/// let step = decompressor.decompress(&packed[step.taken..], &mut out, 64).unwrap();
/// assert_eq!((out.len(), step.state), (100, State::Done));
/// decompressor.finish().unwrap();
/// # }
/// ```
///
/// It is a [`Decoder`] as well, so [`decode`](crate::decode) makes a stage of it.
pub struct Decompressor {
    format: Format,
    limits: DecompressLimits,
    chained: bool,
    engine: Option<Box<dyn Expand>>,
    reach: Reach,
    failed: bool,
    /// There may be output without further input.
    more: bool,
    input: u64,
    output: u64,
}

impl Decompressor {
    /// A decompressor with default limits.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            limits: DecompressLimits::default(),
            chained: format.is_chained(),
            engine: None,
            reach: Reach::Inside,
            failed: false,
            more: false,
            input: 0,
            output: 0,
        }
    }

    /// Sets what is put up with.
    pub fn limits(mut self, limits: DecompressLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether a stream may follow another as if they were one. Default: yes for gzip, zstd and LZ4, whose own tools do
    /// that, and no for the others. Snappy has no end, so it is always yes there. Limits are over all of them.
    pub fn chained(mut self, chained: bool) -> Self {
        self.chained = chained;
        self
    }

    /// Decompresses some input and appends at most `room` bytes to `out`.
    ///
    /// `Done` comes with the end of a stream. Input that is given after that is an error, unless streams may be
    /// [`chained`](Self::chained): then it begins the next one.
    pub fn decompress(
        &mut self,
        input: &[u8],
        out: &mut BytesMut,
        room: usize,
    ) -> Result<Step, DecompressError> {
        if self.failed {
            return Err(DecompressError::AfterError { format: self.format });
        }
        let start = out.len();
        let result = self.run(input, out, room);
        match &result {
            Ok(step) => self.more = step.state == State::OutputFull,
            Err(_) => {
                out.truncate(start); // what is made of a broken or hostile stream helps nobody
                self.failed = true;
                self.more = false;
                self.engine = None;
            }
        }
        result
    }

    /// The input has ended: an error if the stream has not. No input at all is no stream, and none that is missing.
    pub fn finish(&self) -> Result<(), DecompressError> {
        if self.failed || self.input == 0 || self.reach != Reach::Inside {
            return Ok(());
        }
        Err(DecompressError::Truncated { format: self.format, input: self.input })
    }

    /// How many bytes went in so far.
    pub fn total_in(&self) -> u64 {
        self.input
    }

    /// How many bytes came out so far.
    pub fn total_out(&self) -> u64 {
        self.output
    }

    fn run(&mut self, input: &[u8], out: &mut BytesMut, room: usize) -> Result<Step, DecompressError> {
        let (mut taken, mut made) = (0, 0);
        let mut offer = input.len().saturating_mul(4).clamp(ROOM_MIN, PIECE);
        loop {
            let rest = &input[taken..];
            if self.reach == Reach::End {
                if rest.is_empty() || (taken > 0 && !self.chained) {
                    return Ok(Step { taken, state: State::Done });
                }
                self.begin_next()?;
            }
            if rest.is_empty() && self.engine.is_none() {
                return Ok(Step { taken, state: State::NeedInput });
            }
            if made >= room {
                return Ok(Step { taken, state: State::OutputFull });
            }
            // One more than the total, so that a byte too many shows.
            let left = self.limits.total_max().saturating_sub(self.output).saturating_add(1);
            let len = offer.min(room - made).min(usize::try_from(left).unwrap_or(usize::MAX));
            let (used, came) = self.expand(rest, out, len)?;
            taken += used;
            made += came;
            if came == len {
                offer = offer.saturating_mul(2).min(PIECE);
            }
            if used == 0 && came == 0 && self.reach != Reach::End {
                if rest.is_empty() {
                    return Ok(Step { taken, state: State::NeedInput });
                }
                return Err(self.broken(Broken::corrupt("no way on from here")));
            }
        }
    }

    /// One call to the engine, counted.
    fn expand(
        &mut self,
        input: &[u8],
        out: &mut BytesMut,
        len: usize,
    ) -> Result<(usize, usize), DecompressError> {
        if self.engine.is_none() {
            self.engine = Some(self.format.expander(&self.limits).map_err(|broken| self.broken(broken))?);
        }
        let Some(engine) = &mut self.engine else { return Ok((0, 0)) };
        let at = out.len();
        out.resize(at + len, 0);
        let moved = engine.expand(input, &mut out[at..]);
        let moved = moved.map_err(|broken| self.broken(broken))?;
        out.truncate(at + moved.made);
        self.reach = moved.reach;
        self.input += moved.taken as u64;
        self.output += moved.made as u64;
        self.check()?;
        Ok((moved.taken, moved.made))
    }

    fn check(&self) -> Result<(), DecompressError> {
        let Self { format, limits, input, output, .. } = *self;
        if output > limits.total_max() {
            return Err(DecompressError::Total { format, limit: limits.total_max(), got: output });
        }
        let limit = limits.ratio_max();
        if output > limits.grace_max() && output > limit.saturating_mul(input) {
            return Err(DecompressError::Ratio { format, limit, output, input });
        }
        Ok(())
    }

    fn begin_next(&mut self) -> Result<(), DecompressError> {
        if !self.chained {
            return Err(DecompressError::Trailing { format: self.format, at: self.input });
        }
        self.reach = Reach::Inside;
        let restarted = self.engine.as_mut().map_or(Ok(()), |engine| engine.restart());
        restarted.map_err(|broken| self.broken(broken))
    }

    #[cold]
    fn broken(&self, broken: Broken) -> DecompressError {
        let format = self.format;
        match broken {
            Broken::Corrupt(what) => DecompressError::Corrupt { format, at: self.input, what },
            #[cfg(any(feature = "brotli", feature = "lz4", feature = "zstd"))]
            Broken::Window { got, limit } => DecompressError::Window { format, limit, got },
            Broken::Dictionary => DecompressError::Dictionary { format },
        }
    }
}

impl Decoder for Decompressor {
    type Item = BytesMut;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<BytesMut>, DecodeError> {
        let mut out = BytesMut::new();
        loop {
            let step = self.decompress(bytes, &mut out, PIECE)?;
            bytes.advance(step.taken);
            if !out.is_empty() {
                return Ok(Some(out));
            }
            if bytes.is_empty() {
                return Ok(None);
            }
        }
    }

    fn decode_last(&mut self, bytes: &mut BytesMut) -> Result<Option<BytesMut>, DecodeError> {
        if let Some(piece) = self.decode(bytes)? {
            return Ok(Some(piece));
        }
        self.finish()?;
        Ok(None)
    }

    fn has_more(&self) -> bool {
        self.more
    }

    fn name(&self) -> &'static str {
        self.format.name()
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor")
            .field("format", &self.format)
            .field("total_in", &self.input)
            .field("total_out", &self.output)
            .finish_non_exhaustive()
    }
}
