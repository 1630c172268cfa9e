//! LZ4's frame format, by the block functions and the frame writer of `lz4_flex`, which is written in Rust.
//!
//! ```text
//!   magic │ flags, block size, (content size), checksum │ [ length │ block │ (checksum) ] … │ 0 │ (checksum of all)
//!           Descriptor                                    Length     Block                    Sum
//! ```
//! The crate's frame reader reads from a reader and cannot stop in the middle of a block. So frames are taken apart here,
//! and only blocks are left to the crate.
//!
//! Always true between calls:
//! 1. `room` holds at most 64 KiB of history and one block, and `unit` at most one packed block: what the descriptor says, if
//!    [`DecompressLimits::window`] allows it, and only as much as blocks have needed so far.
//! 2. What is unpacked and not taken is `ready`, and no further block is looked at before it is taken.

use super::{Broken, DecompressLimits, Expand, Flush, Moved, Reach, Shrink, pending::Pending, unit::Unit};
use lz4_flex::{
    block::decompress_into_with_dict,
    frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo},
};
use std::{hash::Hasher, io::Write, ops::Range};
use twox_hash::XxHash32;

const MAGIC: u32 = 0x184d_2204;
/// Frames of these kinds are of other people, and skipped.
const SKIPPABLE: Range<u32> = 0x184d_2a50..0x184d_2a60;
/// How far back a block may refer into the blocks before it.
const HISTORY: usize = 64 * 1024;
/// No block unpacks to more than this for each of its bytes, so that much room is enough.
const EXPANSION_MAX: usize = 255;
/// The bit of a block's length that says that it is not compressed.
const PLAIN: u32 = 1 << 31;

pub(super) struct Unlz4 {
    window_max: u64,
    at: At,
    unit: Unit,
    frame: Frame,
    /// History, then what was unpacked last.
    room: Vec<u8>,
    ready: Range<usize>,
    hasher: XxHash32,
    made: u64,
}

#[derive(Debug, Clone, Copy)]
enum At {
    Magic,
    SkipLength,
    Skip(usize),
    /// The first two bytes of the descriptor: they say how long it is.
    Flags,
    /// All of the descriptor, so many bytes.
    Descriptor(usize),
    Length,
    /// A block of so many bytes, with its checksum.
    Block {
        len: usize,
        plain: bool,
    },
    Sum,
    End,
}

/// What a frame's descriptor says.
#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    linked: bool,
    block_sums: bool,
    content_sum: bool,
    content_size: Option<u64>,
    block_max: usize,
}

impl Unlz4 {
    pub(super) fn new(limits: &DecompressLimits) -> Self {
        Self {
            window_max: limits.window_max(),
            at: At::Magic,
            unit: Unit::default(),
            frame: Frame::default(),
            room: Vec::new(),
            ready: 0..0,
            hasher: XxHash32::with_seed(0),
            made: 0,
        }
    }

    /// How many bytes the next unit has.
    fn wanted(&self) -> usize {
        match self.at {
            At::Magic | At::SkipLength | At::Length | At::Sum => 4,
            At::Flags => 2,
            At::Descriptor(len) => len,
            At::Block { len, .. } => len + if self.frame.block_sums { 4 } else { 0 },
            At::Skip(_) | At::End => 0,
        }
    }

    /// What is next, behind a whole unit.
    fn unit(&mut self, unit: &[u8]) -> Result<At, Broken> {
        match self.at {
            At::Magic => match number(unit) {
                MAGIC => Ok(At::Flags),
                magic if SKIPPABLE.contains(&magic) => Ok(At::SkipLength),
                magic => Err(Broken::Corrupt(format!("no frame begins with {magic:#010x}"))),
            },
            At::SkipLength => Ok(At::Skip(number(unit) as usize)),
            At::Flags => Ok(At::Descriptor(descriptor_len(unit)?)),
            At::Descriptor(_) => self.begin(unit),
            At::Length => self.length(number(unit)),
            At::Block { len, plain } => self.block(&unit[..len], &unit[len..], plain),
            At::Sum => match self.hasher.finish() as u32 {
                sum if sum == number(unit) => Ok(At::End),
                sum => Err(Broken::Corrupt(format!(
                    "checksum {sum:#010x} of the content, {:#010x} was announced",
                    number(unit)
                ))),
            },
            at @ (At::Skip(_) | At::End) => Ok(at),
        }
    }

    fn begin(&mut self, descriptor: &[u8]) -> Result<At, Broken> {
        let [body @ .., sum] = descriptor else { return Err(Broken::corrupt("no descriptor")) };
        if *sum != (XxHash32::oneshot(0, body) >> 8) as u8 {
            return Err(Broken::corrupt("wrong checksum of the descriptor"));
        }
        let &[flags, size, ref rest @ ..] = body else { return Err(Broken::corrupt("no descriptor")) };
        let block_max = match size >> 4 & 7 {
            code @ 4..=7 => 1usize << (8 + 2 * code),
            code => return Err(Broken::Corrupt(format!("no blocks have the size {code}"))),
        };
        if block_max as u64 > self.window_max {
            return Err(Broken::Window { got: block_max as u64, limit: self.window_max });
        }
        self.frame = Frame {
            linked: flags & 0x20 == 0,
            block_sums: flags & 0x10 != 0,
            content_sum: flags & 0x04 != 0,
            content_size: rest.first_chunk().map(|&size| u64::from_le_bytes(size)),
            block_max,
        };
        self.hasher = XxHash32::with_seed(0);
        self.made = 0;
        self.ready = 0..0;
        Ok(At::Length)
    }

    fn length(&self, length: u32) -> Result<At, Broken> {
        if length == 0 {
            return match self.frame.content_size {
                Some(size) if size != self.made => {
                    Err(Broken::Corrupt(format!("{} bytes of content, {size} were announced", self.made)))
                }
                _ => Ok(if self.frame.content_sum { At::Sum } else { At::End }),
            };
        }
        let (len, plain) = ((length & !PLAIN) as usize, length & PLAIN != 0);
        let max = self.frame.block_max;
        if len > max {
            return Err(Broken::Corrupt(format!("a block of {len} bytes, the frame allows {max}")));
        }
        Ok(At::Block { len, plain })
    }

    fn block(&mut self, block: &[u8], sum: &[u8], plain: bool) -> Result<At, Broken> {
        if !sum.is_empty() && number(sum) != XxHash32::oneshot(0, block) {
            return Err(Broken::corrupt("wrong checksum of a block"));
        }
        let most = if plain {
            block.len()
        } else {
            self.frame.block_max.min(block.len().saturating_mul(EXPANSION_MAX))
        };
        let start = self.make_room(most);
        let (history, room) = self.room.split_at_mut(start);
        let room = &mut room[..most];
        let made = if plain {
            room.copy_from_slice(block);
            most
        } else {
            let history = if self.frame.linked { &history[start.saturating_sub(HISTORY)..] } else { &[] };
            decompress_into_with_dict(block, room, history).map_err(Broken::corrupt)?
        };
        self.ready = start..start + made;
        self.made += made as u64;
        if self.frame.content_sum {
            self.hasher.write(&self.room[self.ready.clone()]);
        }
        Ok(At::Length)
    }

    /// Room for so many bytes behind the history, and where it begins. History moves to the front once for each 64 KiB.
    fn make_room(&mut self, len: usize) -> usize {
        let end = if self.frame.linked { self.ready.end } else { 0 };
        if end + len <= self.room.len() {
            return end;
        }
        let keep = end.min(HISTORY);
        self.room.copy_within(end - keep..end, 0);
        let wanted = (keep + len).max(2 * keep);
        if self.room.len() < wanted {
            // Twice as much, so that growing stays linear, but never more than a frame can need.
            let wanted = wanted.max((2 * self.room.len()).min(HISTORY + self.frame.block_max));
            self.room.reserve_exact(wanted - self.room.len());
            self.room.resize(wanted, 0);
        }
        keep
    }
}

impl Expand for Unlz4 {
    fn expand(&mut self, input: &[u8], output: &mut [u8]) -> Result<Moved, Broken> {
        let mut taken = 0;
        loop {
            if !self.ready.is_empty() {
                let made = self.ready.len().min(output.len());
                output[..made].copy_from_slice(&self.room[self.ready.start..self.ready.start + made]);
                self.ready.start += made;
                return Ok(Moved { taken, made, reach: Reach::Inside });
            }
            let rest = &input[taken..];
            match self.at {
                At::End => return Ok(Moved { taken, made: 0, reach: Reach::End }),
                At::Skip(len) => {
                    let used = rest.len().min(len);
                    taken += used;
                    if used < len {
                        self.at = At::Skip(len - used);
                        return Ok(Moved { taken, made: 0, reach: Reach::Inside });
                    }
                    self.at = At::End;
                }
                _ => {
                    let (used, whole) = self.unit.fill(rest, self.wanted());
                    taken += used;
                    if !whole {
                        return Ok(Moved { taken, made: 0, reach: Reach::Inside });
                    }
                    let mut unit = std::mem::take(&mut self.unit);
                    let next = self.unit(unit.get(&rest[..used]))?;
                    // The flags are the beginning of the descriptor, which is looked at as a whole.
                    if let At::Descriptor(_) = next {
                        unit.put_back(&rest[..used]);
                    } else {
                        unit.clear();
                    }
                    self.unit = unit;
                    self.at = next;
                }
            }
        }
    }

    fn restart(&mut self) -> Result<(), Broken> {
        self.at = At::Magic;
        Ok(())
    }
}

/// How long a descriptor is that begins with these two bytes, its checksum included.
fn descriptor_len(flags: &[u8]) -> Result<usize, Broken> {
    let &[flags, size] = flags else { return Err(Broken::corrupt("no descriptor")) };
    if flags >> 6 != 1 || flags & 0x02 != 0 || size & 0x8f != 0 {
        return Err(Broken::Corrupt(format!("flags {flags:#04x} {size:#04x} of another version")));
    }
    if flags & 0x01 != 0 {
        return Err(Broken::Dictionary);
    }
    Ok(if flags & 0x08 != 0 { 2 + 8 + 1 } else { 2 + 1 })
}

fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |&bytes| u32::from_le_bytes(bytes))
}

/// What is given to the crate at a time, so that it has not more to say than a block or two.
const WRITE_MAX: usize = 64 * 1024;

pub(super) struct Lz4 {
    writer: FrameEncoder<Pending>,
    finished: bool,
}

impl Lz4 {
    pub(super) fn new() -> Self {
        // Linked, so that a short message can refer to those before it; small blocks, so that little is kept.
        let frame = FrameInfo::new()
            .block_mode(BlockMode::Linked)
            .block_size(BlockSize::Max64KB)
            .content_checksum(true);
        Self { writer: FrameEncoder::with_frame_info(frame, Pending::default()), finished: false }
    }
}

impl Shrink for Lz4 {
    fn shrink(&mut self, input: &[u8], output: &mut [u8], flush: Flush) -> Result<Moved, String> {
        let mut made = self.writer.get_mut().drain(output);
        let mut taken = 0;
        if self.writer.get_ref().is_empty() {
            taken = input.len().min(WRITE_MAX);
            self.writer.write_all(&input[..taken]).map_err(|error| error.to_string())?;
            if taken == input.len() {
                match flush {
                    Flush::None => {}
                    Flush::Sync => self.writer.flush().map_err(|error| error.to_string())?,
                    Flush::Finish if self.finished => {}
                    Flush::Finish => {
                        self.writer.try_finish().map_err(|error| error.to_string())?;
                        self.finished = true;
                    }
                }
            }
            made += self.writer.get_mut().drain(&mut output[made..]);
        }
        let over = taken == input.len() && self.writer.get_ref().is_empty();
        Ok(Moved { taken, made, reach: if over { Reach::End } else { Reach::Inside } })
    }
}
