//! gzip, zlib and raw deflate, by `flate2` on zlib-rs.

use super::{Broken, Expand, Flush, Moved, Reach, Shrink, pending::Pending};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// The largest window that the format has: 32 KiB.
const WINDOW_BITS: u8 = 15;
/// What zlib itself takes when nothing is said.
const LEVEL: i32 = 6;

/// What is around the deflated bytes. A program with one of the features does not use the others.
#[allow(dead_code)]
#[derive(Debug, Clone, Copy)]
pub(super) enum Wrap {
    Gzip,
    Zlib,
    Raw,
}

pub(super) struct Inflate {
    wrap: Wrap,
    state: Decompress,
}

impl Inflate {
    pub(super) fn new(wrap: Wrap) -> Self {
        let state = match wrap {
            Wrap::Gzip => Decompress::new_gzip(WINDOW_BITS),
            Wrap::Zlib => Decompress::new(true),
            Wrap::Raw => Decompress::new(false),
        };
        Self { wrap, state }
    }
}

impl Expand for Inflate {
    fn expand(&mut self, input: &[u8], output: &mut [u8]) -> Result<Moved, Broken> {
        let (before_in, before_out) = (self.state.total_in(), self.state.total_out());
        let status =
            self.state.decompress(input, output, FlushDecompress::None).map_err(|error| {
                match error.needs_dictionary() {
                    Some(_) => Broken::Dictionary,
                    None => Broken::corrupt(error.message().unwrap_or("not deflate")),
                }
            })?;
        Ok(Moved {
            taken: (self.state.total_in() - before_in) as usize,
            made: (self.state.total_out() - before_out) as usize,
            reach: if status == Status::StreamEnd { Reach::End } else { Reach::Inside },
        })
    }

    fn restart(&mut self) -> Result<(), Broken> {
        match self.wrap {
            Wrap::Gzip => self.state = Decompress::new_gzip(WINDOW_BITS), // a reset would forget the wrap
            Wrap::Zlib => self.state.reset(true),
            Wrap::Raw => self.state.reset(false),
        }
        Ok(())
    }
}

/// A flush that finds less room than its marker of 5 bytes needs begins anew with each call, for ever. So it always gets
/// this much.
const ROOM_MIN: usize = 64;

pub(super) struct Deflate {
    state: Compress,
    pending: Pending,
    /// What was reached when `pending` was made.
    reached: Reach,
}

impl Deflate {
    pub(super) fn new(wrap: Wrap, level: Option<i32>) -> Self {
        let level = Compression::new(level.unwrap_or(LEVEL) as u32); // checked where it was set
        let state = match wrap {
            Wrap::Gzip => Compress::new_gzip(level, WINDOW_BITS),
            Wrap::Zlib => Compress::new(level, true),
            Wrap::Raw => Compress::new(level, false),
        };
        Self { state, pending: Pending::default(), reached: Reach::Inside }
    }

    fn run(&mut self, input: &[u8], output: &mut [u8], flush: Flush) -> Result<Moved, String> {
        let (before_in, before_out) = (self.state.total_in(), self.state.total_out());
        let how = match flush {
            Flush::None => FlushCompress::None,
            Flush::Sync => FlushCompress::Sync,
            Flush::Finish => FlushCompress::Finish,
        };
        let status = self.state.compress(input, output, how).map_err(|error| error.to_string())?;
        let taken = (self.state.total_in() - before_in) as usize;
        let made = (self.state.total_out() - before_out) as usize;
        let over = match flush {
            Flush::Finish => status == Status::StreamEnd,
            // Room left over says that there is nothing more to come; so does a call that finds nothing to do.
            _ => taken == input.len() && (made < output.len() || status == Status::BufError),
        };
        Ok(Moved { taken, made, reach: if over { Reach::End } else { Reach::Inside } })
    }
}

impl Shrink for Deflate {
    fn shrink(&mut self, input: &[u8], output: &mut [u8], flush: Flush) -> Result<Moved, String> {
        if self.pending.is_empty() && output.len() >= ROOM_MIN {
            return self.run(input, output, flush);
        }
        let mut moved = Moved { taken: 0, made: 0, reach: self.reached };
        if self.pending.is_empty() {
            let mut room = [0; ROOM_MIN];
            moved = self.run(input, &mut room, flush)?;
            self.reached = moved.reach;
            self.pending.put(&room[..moved.made]);
        }
        moved.made = self.pending.drain(output);
        if !self.pending.is_empty() || moved.taken < input.len() {
            moved.reach = Reach::Inside;
        }
        Ok(moved)
    }
}
