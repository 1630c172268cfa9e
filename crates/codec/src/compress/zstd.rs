//! Zstandard, by the reference library.
//!
//! The C library, because what is written in Rust today decodes at a fraction of its speed and compresses at one level.

use super::{Broken, Expand, Flush, Limits, Moved, Reach, Shrink};
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};
use zstd_safe::zstd_sys::ZSTD_EndDirective;

/// What zstd itself takes when nothing is said.
const LEVEL: i32 = 3;
/// Windows that the library can be told to refuse above, as binary logarithms.
const WINDOW_LOGS: (u32, u32) = (10, 27);
/// The library's codes for the two errors that have a name of their own here.
const WINDOW_TOO_LARGE: usize = 16;
const WRONG_DICTIONARY: usize = 32;

pub(super) struct Unzstd {
    state: DCtx<'static>,
    head: Head,
}

impl Unzstd {
    pub(super) fn new(limits: &Limits) -> Result<Self, Broken> {
        let mut state = DCtx::try_create().ok_or_else(|| Broken::corrupt("no memory"))?;
        let log = limits.window_max().max(1).ilog2().clamp(WINDOW_LOGS.0, WINDOW_LOGS.1);
        state.set_parameter(DParameter::WindowLogMax(log)).map_err(|code| Broken::corrupt(name(code)))?;
        Ok(Self { state, head: Head::default() })
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.state.sizeof()
    }
}

impl Expand for Unzstd {
    fn expand(&mut self, input: &[u8], output: &mut [u8]) -> Result<Moved, Broken> {
        self.head.note(input);
        let mut from = InBuffer::around(input);
        let mut to = OutBuffer::around(output);
        let hint =
            self.state.decompress_stream(&mut to, &mut from).map_err(|code| match code.wrapping_neg() {
                WINDOW_TOO_LARGE => Broken::Window(self.head.window()),
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

/// The first bytes of a frame, looked at only when the library has refused its window: it does not say how large that was.
#[derive(Default)]
struct Head {
    bytes: [u8; 14],
    len: usize,
    noted: usize,
}

impl Head {
    fn note(&mut self, input: &[u8]) {
        self.noted = input.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + self.noted].copy_from_slice(&input[..self.noted]);
    }

    /// So many bytes of what was noted were used.
    fn keep(&mut self, taken: usize) {
        self.len += taken.min(self.noted);
        self.noted = 0;
    }

    /// The window that the frame asks for (RFC 8878, section 3.1.1.1).
    fn window(&self) -> u64 {
        let [_, _, _, _, descriptor, window, ..] = self.bytes;
        if descriptor & 0x20 == 0 {
            let base = 1u64 << (10 + (window >> 3));
            return base + base / 8 * u64::from(window & 7);
        }
        // A single segment: the window is the content, whose size follows the dictionary's number.
        let at = 5 + [0, 1, 2, 4][usize::from(descriptor & 3)];
        let size = |len: usize| {
            self.bytes.iter().skip(at).take(len).rev().fold(0, |all, &byte| all << 8 | u64::from(byte))
        };
        match descriptor >> 6 {
            0 => size(1),
            1 => size(2) + 256,
            2 => size(4),
            _ => size(8),
        }
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
        let limits = Limits::default();
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
    fn the_window_of_a_frame_is_read_off_its_head() {
        let window = |bytes: &[u8]| {
            let mut head = Head::default();
            for byte in bytes {
                head.note(&[*byte]);
                head.keep(1);
            }
            head.window()
        };
        let magic = [0x28, 0xb5, 0x2f, 0xfd];
        assert_eq!(window(&[&magic[..], &[0x00, 0x00]].concat()), 1 << 10);
        assert_eq!(window(&[&magic[..], &[0x00, 0xff]].concat()), (1 << 41) + 7 * (1 << 38));
        assert_eq!(window(&[&magic[..], &[0x20, 200]].concat()), 200);
        assert_eq!(
            window(&[&magic[..], &[0x61, 9, 1, 1]].concat()),
            256 + 257,
            "behind a dictionary's number"
        );
        assert_eq!(window(&[&magic[..], &[0xe0, 0, 0, 0, 0, 1, 0, 0, 0]].concat()), 1 << 32);
    }
}
