//! Zstandard, by the reference library.
//!
//! The C library, because what is written in Rust today decodes at a fraction of its speed and compresses at one level.

use super::{Broken, DecompressLimits, Expand, Flush, Moved, Reach, Shrink};
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};
use zstd_safe::zstd_sys::ZSTD_EndDirective;

/// What zstd itself takes when nothing is said.
const LEVEL: i32 = 3;
/// The largest window that the library keeps on this machine, as a binary logarithm. It knows powers of two alone, so it is
/// told this one, and what a frame asks for is compared here.
const WINDOW_LOG_MAX: u32 = if usize::BITS < 64 { 30 } else { 31 };
/// The library's code for the error that has a name of its own here.
const WRONG_DICTIONARY: usize = 32;

pub(super) struct Unzstd {
    state: DCtx<'static>,
    head: Head,
    window_max: u64,
}

impl Unzstd {
    pub(super) fn new(limits: &DecompressLimits) -> Result<Self, Broken> {
        let mut state = DCtx::try_create().ok_or_else(|| Broken::corrupt("no memory"))?;
        state
            .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
            .map_err(|code| Broken::corrupt(name(code)))?;
        Ok(Self { state, head: Head::default(), window_max: limits.window_max().min(1 << WINDOW_LOG_MAX) })
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.state.sizeof()
    }
}

impl Expand for Unzstd {
    fn expand(&mut self, input: &[u8], output: &mut [u8]) -> Result<Moved, Broken> {
        if !self.head.checked {
            // Before the library sees the last byte of the head: with that it makes room for the window.
            self.head.note(input);
            if let Some(got) = self.head.window().filter(|&got| got > self.window_max) {
                return Err(Broken::Window { got, limit: self.window_max });
            }
        }
        let mut from = InBuffer::around(input);
        let mut to = OutBuffer::around(output);
        let hint =
            self.state.decompress_stream(&mut to, &mut from).map_err(|code| match code.wrapping_neg() {
                WRONG_DICTIONARY => Broken::Dictionary,
                _ => Broken::corrupt(name(code)),
            })?;
        let (taken, made) = (from.pos(), to.pos());
        self.head.keep(taken);
        Ok(Moved { taken, made, reach: if hint == 0 { Reach::End } else { Reach::Inside } })
    }

    fn restart(&mut self) -> Result<(), Broken> {
        self.head = Head::default(); // the library itself goes on with the next frame
        Ok(())
    }
}

/// What a frame begins with. Others are to be skipped, and have no window.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Magic, descriptor, a dictionary's number of up to four bytes and a size of up to eight. A window's byte comes instead.
const HEAD_MAX: usize = 4 + 1 + 4 + 8;

/// The first bytes of a frame, up to those that tell its window.
#[derive(Default)]
struct Head {
    bytes: [u8; HEAD_MAX],
    /// So many were used by the library.
    kept: usize,
    /// And so many are at hand.
    len: usize,
    /// The window is known, or there is none.
    checked: bool,
}

impl Head {
    /// Looks at input that the library has not used yet.
    fn note(&mut self, input: &[u8]) {
        let more = input.len().min(HEAD_MAX - self.kept);
        self.len = self.kept + more;
        self.bytes[self.kept..self.len].copy_from_slice(&input[..more]);
    }

    /// So many bytes of what was noted were used.
    fn keep(&mut self, taken: usize) {
        self.kept = self.len.min(self.kept + taken);
    }

    /// The window that the frame asks for (RFC 8878, section 3.1.1.1). `None`: not known yet, or there is none.
    fn window(&mut self) -> Option<u64> {
        let known = &self.bytes[..self.len];
        let magic = self.len.min(MAGIC.len());
        if known[..magic] != MAGIC[..magic] {
            self.checked = true; // to be skipped, or for the library to refuse
            return None;
        }
        let &descriptor = known.get(MAGIC.len())?;
        let behind = &known[MAGIC.len() + 1..];
        let window = if descriptor & 0x20 == 0 {
            let &window = behind.first()?;
            let base = 1u64 << (10 + (window >> 3));
            base + base / 8 * u64::from(window & 7)
        } else {
            // A single segment: the window is the content, whose size follows the dictionary's number.
            let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
            let width = [1, 2, 4, 8][usize::from(descriptor >> 6)];
            let size = behind.get(dictionary..dictionary + width)?;
            let size = size.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
            if width == 2 { size + 256 } else { size }
        };
        self.checked = true;
        Some(window)
    }
}

pub(super) struct Zstd(CCtx<'static>);

impl Zstd {
    pub(super) fn new(level: Option<i32>, window_log: u32) -> Result<Self, String> {
        let mut state = CCtx::try_create().ok_or("no memory")?;
        for parameter in [
            CParameter::CompressionLevel(level.unwrap_or(LEVEL)),
            CParameter::WindowLog(window_log),
            CParameter::ChecksumFlag(true), // as the zstd tool does; a stream over a network is worth 4 bytes
        ] {
            state.set_parameter(parameter).map_err(name)?;
        }
        Ok(Self(state))
    }
}

impl Shrink for Zstd {
    fn shrink(&mut self, input: &[u8], output: &mut [u8], flush: Flush) -> Result<Moved, String> {
        let mut from = InBuffer::around(input);
        let mut to = OutBuffer::around(output);
        let how = match flush {
            Flush::None => ZSTD_EndDirective::ZSTD_e_continue,
            Flush::Sync => ZSTD_EndDirective::ZSTD_e_flush,
            Flush::Finish => ZSTD_EndDirective::ZSTD_e_end,
        };
        let left = self.0.compress_stream2(&mut to, &mut from, how).map_err(name)?;
        let (taken, made) = (from.pos(), to.pos());
        let over = taken == input.len() && (left == 0 || flush == Flush::None);
        Ok(Moved { taken, made, reach: if over { Reach::End } else { Reach::Inside } })
    }
}

fn name(code: usize) -> String {
    zstd_safe::get_error_name(code).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of nothing but zeros, with the largest window that is allowed.
    fn bomb(len: usize, window_log: u32) -> Vec<u8> {
        let (mut zstd, zeros) = (Zstd::new(None, window_log).ok().unwrap(), vec![0; 1 << 20]);
        let (mut out, mut room) = (Vec::new(), vec![0; 1 << 20]);
        for flush in std::iter::repeat_n(Flush::None, len >> 20).chain([Flush::Finish]) {
            let input = if flush == Flush::None { &zeros[..] } else { &[] };
            let moved = zstd.shrink(input, &mut room, flush).unwrap();
            assert_eq!((moved.taken, moved.reach), (input.len(), Reach::End));
            out.extend_from_slice(&room[..moved.made]);
        }
        out
    }

    #[test]
    fn a_bomb_is_unpacked_in_the_memory_of_its_window() {
        // The library's memory is not Rust's, so the counting allocator does not see it: the library is asked.
        let limits = DecompressLimits::default();
        let bomb = bomb(16 << 20, 23);
        let mut state = Unzstd::new(&limits).ok().unwrap();
        let (mut rest, mut room, mut made, mut memory) = (&bomb[..], vec![0; 16 << 10], 0, 0);
        loop {
            let moved = state.expand(rest, &mut room).ok().unwrap();
            rest = &rest[moved.taken..];
            made += moved.made;
            memory = memory.max(state.memory());
            if moved.reach == Reach::End {
                break;
            }
        }
        assert_eq!(made, 16 << 20);
        let bound = limits.window_max() as usize + (1 << 20);
        assert!(memory < bound, "{memory} bytes, {bound} would do");
    }

    #[test]
    fn the_window_of_a_frame_is_read_off_its_head_and_not_before_that_is_there() {
        let window = |behind_magic: &[u8]| {
            let bytes = [&MAGIC[..], behind_magic].concat();
            let (mut whole, mut head, mut found) = (Head::default(), Head::default(), None);
            for byte in &bytes {
                assert_eq!(found, None, "{behind_magic:?}");
                head.note(&[*byte]);
                found = head.window();
                head.keep(1);
            }
            whole.note(&bytes);
            assert_eq!(whole.window(), found, "in one piece, {behind_magic:?}");
            found
        };
        assert_eq!(window(&[0x00, 0x00]), Some(1 << 10));
        assert_eq!(window(&[0x00, 0xff]), Some((1 << 41) + 7 * (1 << 38)));
        assert_eq!(window(&[0x20, 200]), Some(200));
        assert_eq!(window(&[0x61, 9, 1, 1]), Some(256 + 257), "behind a dictionary's number");
        assert_eq!(window(&[0xe0, 0, 0, 0, 0, 1, 0, 0, 0]), Some(1 << 32));
        assert_eq!(window(&[0xe3, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 1]), Some(1 << 56), "the longest head");
    }

    #[test]
    fn a_frame_to_skip_has_no_window() {
        let mut head = Head::default();
        head.note(&[0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff]);
        assert!(head.window().is_none() && head.checked);
    }
}
