//! Question: what does it cost to cut a read into frames?
//!
//! ```text
//!   read ── 16 lines of 26 bytes ──────────▶ LineDecoder │ tokio-util's LinesCodec │ a memchr loop that only counts
//!   read ── 16 frames of 64 bytes ─────────▶ LengthDecoder │ tokio-util's LengthDelimitedCodec
//! ```
//! Every side gets the same read: bytes are copied into one scratch buffer, which is split off and taken back when all
//! frames are gone, as the loop does it. Every frame is looked at (its length) and dropped. Our sides are the stage's own way
//! of asking: `Decoder::decode` until it wants more.
//!
//! Targets: lines at most 1.0 of `LinesCodec` and 1.5 of the counting loop, length frames at most 1.0 of
//! `LengthDelimitedCodec`. A line as a message of its own is a `Bytes`, and to make one and to drop it are two atomic
//! operations, which alone cost more than a `memchr` over 26 bytes: `LineBatches` is for those who count such things.
//!
//! Times are ratios of interleaved rounds. Instructions, which no neighbour disturbs, are counted by
//! `cargo bench -p netwright-benches --bench frames -- --callgrind`, which runs each side twice under
//! `valgrind --tool=callgrind` (`--only SIDE --reads N` is what it runs), and takes the difference.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;
use netwright::codec::{Decoder, LengthDecoder, LengthField, LineBatches, LineDecoder};
use netwright_benches::{Scale, Table, Target, interleave_all};
use std::{env, hint::black_box, process::Command, time::Instant};
use tokio_util::codec::{Decoder as _, LengthDelimitedCodec, LinesCodec};

const READS: usize = 200_000;
const FRAMES: usize = 16;
const LINE: &[u8] = b"abcdefghijklmnopqrstuvwxyz\n";
const SIDES: [&str; 7] = [
    "lines",
    "lines-in-batches",
    "lines-tokio-util",
    "lines-counted",
    "lengths",
    "lengths-tokio-util",
    "read-alone",
];

fn main() {
    let (mut only, mut reads, mut callgrind) = (None, None, false);
    let known = ", --callgrind, --only SIDE, --reads N";
    let scale = Scale::from_args_with(known, |arg, rest| {
        match arg {
            "--only" => only = rest.next(),
            "--reads" => reads = rest.next().and_then(|reads| reads.parse().ok()),
            "--callgrind" => callgrind = true,
            _ => return false,
        }
        true
    });
    let Some(scale) = scale else { return };
    let reads = reads.unwrap_or_else(|| scale.amount(READS));
    if let Some(only) = only {
        let side = SIDES.iter().position(|side| *side == only).expect("a side of that name");
        black_box(Sides::new().time(side, reads));
        return;
    }
    if callgrind {
        return count_instructions();
    }
    let mut sides = Sides::new();
    let [lines, batches, lines_tokio, counted, lengths, lengths_tokio, read] =
        interleave_all::<7>(scale.rounds(), |side| sides.time(side, reads));
    let title = "frames: nanoseconds per read of 16 frames";
    let mut table = Table::new(title, ["frames", "reference", "netwright"]);
    table.row("lines / LinesCodec", &lines_tokio, &lines, Target::AtMost(1.0));
    table.row("lines / counting loop", &counted, &lines, Target::AtMost(1.5));
    table.row("lines in batches / counting loop", &counted, &batches, Target::AtMost(1.5));
    table.row("lengths / LengthDelimitedCodec", &lengths_tokio, &lengths, Target::AtMost(1.0));
    table.row("lines / the read alone", &read, &lines, Target::None);
    println!("{table}");
}

/// Runs every side under callgrind, with two numbers of reads.
fn count_instructions() {
    let program = env::current_exe().expect("the path of this program");
    let run = |side: &str, reads: u64| -> u64 {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&program)
            .args(["--bench", "--only", side, "--reads", &reads.to_string()])
            .output()
            .expect("valgrind is installed");
        let text = String::from_utf8_lossy(&output.stderr);
        let line = text.lines().find_map(|line| line.split_once("Collected :")).expect("a count");
        line.1.trim().parse().expect("a number")
    };
    println!("\nframes: instructions per read of 16 frames\n");
    for side in SIDES {
        let (few, many) = (run(side, 1_000), run(side, 3_000));
        println!("{side:<20} {:>8.1}", (many - few) as f64 / 2_000.0);
    }
}

/// The read that every side gets, and what each side keeps between reads.
struct Sides {
    scratch: BytesMut,
    lines: Vec<u8>,
    lengths: Vec<u8>,
    line: LineDecoder,
    batch: LineBatches,
    line_tokio: LinesCodec,
    length: LengthDecoder,
    length_tokio: LengthDelimitedCodec,
}

impl Sides {
    fn new() -> Self {
        let frame = [&64u32.to_be_bytes()[..], &[7; 64]].concat();
        Self {
            scratch: BytesMut::with_capacity(64 * 1024),
            lines: LINE.repeat(FRAMES),
            lengths: frame.repeat(FRAMES),
            line: LineDecoder::max(1024),
            batch: LineBatches::max(1024),
            line_tokio: LinesCodec::new_with_max_length(1024),
            length: LengthField::new(4).strip(4).max(1024).decoder().expect("a field that can be"),
            length_tokio: LengthDelimitedCodec::builder().max_frame_length(1024).new_codec(),
        }
    }

    /// Nanoseconds per read.
    fn time(&mut self, side: usize, reads: usize) -> f64 {
        let start = Instant::now();
        let bytes: usize = (0..reads)
            .map(|_| match side {
                0 => self.lines(|sides, read| cut(&mut sides.line, read)),
                1 => self.lines(|sides, read| batched(&mut sides.batch, read)),
                2 => self.lines(|sides, read| tokio_lines(&mut sides.line_tokio, read)),
                3 => self.lines(|_, read| count(read)),
                4 => self.lengths(|sides, read| cut(&mut sides.length, read)),
                5 => self.lengths(|sides, read| tokio_lengths(&mut sides.length_tokio, read)),
                _ => self.lines(|_, read| read.len()),
            })
            .sum();
        assert!(black_box(bytes) >= reads * FRAMES);
        start.elapsed().as_secs_f64() * 1e9 / reads as f64
    }

    fn lines(&mut self, cut: impl FnOnce(&mut Self, &mut BytesMut) -> usize) -> usize {
        let mut read = read(&mut self.scratch, &self.lines);
        cut(self, &mut read)
    }

    fn lengths(&mut self, cut: impl FnOnce(&mut Self, &mut BytesMut) -> usize) -> usize {
        let mut read = read(&mut self.scratch, &self.lengths);
        cut(self, &mut read)
    }
}

fn read(scratch: &mut BytesMut, bytes: &[u8]) -> BytesMut {
    assert!(scratch.try_reclaim(2048), "nobody keeps anything");
    scratch.extend_from_slice(bytes);
    scratch.split()
}

#[inline(never)]
fn cut(decoder: &mut impl Decoder<Item = Bytes>, read: &mut BytesMut) -> usize {
    let mut bytes = 0;
    while let Ok(Some(frame)) = decoder.decode(read) {
        bytes += frame.len();
        if read.is_empty() {
            break;
        }
    }
    bytes
}

#[inline(never)]
fn batched(decoder: &mut LineBatches, read: &mut BytesMut) -> usize {
    match decoder.decode(read) {
        Ok(Some(lines)) => lines.iter().map(<[u8]>::len).sum(),
        _ => 0,
    }
}

#[inline(never)]
fn tokio_lines(decoder: &mut LinesCodec, read: &mut BytesMut) -> usize {
    let mut bytes = 0;
    while let Ok(Some(line)) = decoder.decode(read) {
        bytes += line.len();
    }
    bytes
}

#[inline(never)]
fn tokio_lengths(decoder: &mut LengthDelimitedCodec, read: &mut BytesMut) -> usize {
    let mut bytes = 0;
    while let Ok(Some(frame)) = decoder.decode(read) {
        bytes += frame.len();
    }
    bytes
}

#[inline(never)]
fn count(read: &mut BytesMut) -> usize {
    let mut lines = 0;
    let mut left = &read[..];
    while let Some(lf) = memchr(b'\n', left) {
        left.advance(lf + 1);
        lines += 1;
    }
    lines
}
