//! Snappy's framing format, by the `snap` crate, which is written in Rust.
//!
//! ```text
//!   ff 06 00 00 "sNaPpY"   [ type, length of 3 bytes │ checksum, data ]   [ … ]   …
//!   identifier             a chunk of at most 64 KiB when it is unpacked; no end mark
//! ```
//! The crate reads from a reader and cannot stop in the middle of a chunk. So chunks are put together here, up to the
//! length that a chunk of 64 KiB can have, and handed over whole.

use super::{Broken, Expand, Flush, Moved, Reach, Shrink, pending::Pending, unit::Unit};
use snap::{read::FrameDecoder, write::FrameEncoder};
use std::io::{self, Read, Write};

const HEADER: usize = 4;
/// The longest data that the crate makes of 64 KiB, and a checksum: what it also takes at most.
const CHUNK_MAX: usize = 76_490;
const COMPRESSED: u8 = 0x00;
const PLAIN: u8 = 0x01;
const IDENTIFIER: u8 = 0xff;
/// From here on chunks can be skipped, up to padding (0xfe).
const SKIPPABLE: u8 = 0x80;

pub(super) struct Unsnappy {
    reader: FrameDecoder<Feed>,
    unit: Unit,
    at: At,
    identified: bool,
}

#[derive(Debug, Clone, Copy)]
enum At {
    Header,
    /// A chunk of so many bytes, its header included.
    Chunk(usize),
    Skip(usize),
    /// The reader may have more of the last chunk.
    Unpacked,
}

impl Unsnappy {
    pub(super) fn new() -> Self {
        Self {
            reader: FrameDecoder::new(Feed::default()),
            unit: Unit::default(),
            at: At::Header,
            identified: false,
        }
    }

    /// What a header says: what to do, with a chunk of so many bytes.
    fn header(&self, header: &[u8]) -> Result<At, Broken> {
        let &[kind, a, b, c] = header else { return Err(Broken::corrupt("no header")) };
        let len = u32::from_le_bytes([a, b, c, 0]) as usize;
        if !self.identified && kind != IDENTIFIER {
            return Err(Broken::Corrupt(format!("a chunk of type {kind:#04x} before the identifier")));
        }
        match kind {
            COMPRESSED | PLAIN | IDENTIFIER if len > CHUNK_MAX => {
                Err(Broken::Corrupt(format!("a chunk of {len} bytes, the limit is {CHUNK_MAX}")))
            }
            COMPRESSED | PLAIN | IDENTIFIER => Ok(At::Chunk(HEADER + len)),
            SKIPPABLE.. => Ok(At::Skip(len)),
            _ => Err(Broken::Corrupt(format!("a chunk of the reserved type {kind:#04x}"))),
        }
    }
}

impl Expand for Unsnappy {
    fn expand(&mut self, input: &[u8], output: &mut [u8]) -> Result<Moved, Broken> {
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            match self.at {
                At::Unpacked => {
                    let made = self.reader.read(output).map_err(Broken::corrupt)?;
                    if made > 0 {
                        return Ok(Moved { taken, made, reach: Reach::Inside });
                    }
                    self.at = At::Header;
                }
                At::Header => {
                    if rest.is_empty() && self.unit.is_empty() {
                        let reach = if self.identified { Reach::MayEnd } else { Reach::Inside };
                        return Ok(Moved { taken, made: 0, reach });
                    }
                    let (used, whole) = self.unit.fill(rest, HEADER);
                    taken += used;
                    if !whole {
                        return Ok(Moved { taken, made: 0, reach: Reach::Inside });
                    }
                    let header = self.unit.get(&rest[..used]);
                    self.at = self.header(header)?;
                    if let At::Chunk(_) = self.at {
                        self.reader.get_mut().0.extend(header);
                    }
                    self.unit.clear();
                }
                At::Skip(len) => {
                    let used = rest.len().min(len);
                    taken += used;
                    self.at = if used == len { At::Header } else { At::Skip(len - used) };
                    if used < len {
                        return Ok(Moved { taken, made: 0, reach: Reach::Inside });
                    }
                }
                At::Chunk(len) => {
                    let feed = &mut self.reader.get_mut().0;
                    let used = rest.len().min(len - feed.len());
                    feed.extend_from_slice(&rest[..used]);
                    taken += used;
                    if feed.len() < len {
                        return Ok(Moved { taken, made: 0, reach: Reach::Inside });
                    }
                    self.identified = true;
                    self.at = At::Unpacked;
                }
            }
        }
    }

    fn restart(&mut self) -> Result<(), Broken> {
        Ok(()) // an identifier may come at any time
    }
}

/// A whole chunk, read to its end and then forgotten.
#[derive(Debug, Default)]
struct Feed(Vec<u8>, usize);

impl Read for Feed {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        let len = (&self.0[self.1..]).read(output)?;
        self.1 += len;
        if self.1 == self.0.len() {
            self.0.clear();
            self.1 = 0;
        }
        Ok(len)
    }
}

/// What is given to the crate at a time, so that it has not more to say than a chunk or two.
const WRITE_MAX: usize = 64 * 1024;

pub(super) struct Snappy(FrameEncoder<Pending>);

impl Snappy {
    pub(super) fn new() -> Self {
        Self(FrameEncoder::new(Pending::default()))
    }
}

impl Shrink for Snappy {
    fn shrink(&mut self, input: &[u8], output: &mut [u8], flush: Flush) -> Result<Moved, String> {
        let mut made = self.0.get_mut().drain(output);
        let mut taken = 0;
        if self.0.get_ref().is_empty() {
            taken = input.len().min(WRITE_MAX);
            let mut went = self.0.write_all(&input[..taken]);
            if taken == input.len() && flush != Flush::None {
                went = went.and_then(|()| self.0.flush());
            }
            went.map_err(|error| error.to_string())?;
            made += self.0.get_mut().drain(&mut output[made..]);
        }
        let over = taken == input.len() && self.0.get_ref().is_empty();
        Ok(Moved { taken, made, reach: if over { Reach::End } else { Reach::Inside } })
    }
}
