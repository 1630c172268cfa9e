//! Fuzzing with nothing but the stable toolchain.
//!
//! ```text
//!   corpus (files, a few bytes each) ──▶ pool ──▶ pick, mutate, splice ──▶ stage: whole, and in random pieces
//!                                         ▲                                  │ the same messages? no panic? no more held?
//!                                         └──── an outcome not seen before ──┘
//! ```
//! libFuzzer (cargo-fuzz) wants a nightly compiler for its coverage. Here the outcome stands for coverage: which messages and
//! errors came, in which order, up to their numbers. What gives a new one joins the pool. The oracle is stronger than "it
//! did not crash": how a stream is split must not show.
//!
//! A test replays the corpus and runs for a moment. `NETWRIGHT_FUZZ_SECONDS=600 cargo test --release --test fuzz` runs
//! longer, and `NETWRIGHT_FUZZ_SEED` sets where it begins. What fails is written beside the corpus and replayed from then on.

use super::{Numbers, Recorder, Seen, chunks, no_panic, short};
use netwright_core::EmbeddedChannel;
use std::{
    cell::RefCell,
    collections::{HashSet, hash_map::DefaultHasher},
    convert::Infallible,
    env,
    fmt::Debug,
    fs,
    hash::{Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    rc::Rc,
    time::{Duration, Instant},
};

/// Attacks a stage that reads bytes, with the seeds in `tests/corpus/NAME` of the crate that asks for it.
///
/// ```no_run
/// use netwright_codec::LineFrames;
/// use netwright_testkit::fuzz_decoder;
///
/// fuzz_decoder!("lines", LineFrames::max(16));
/// ```
#[macro_export]
macro_rules! fuzz_decoder {
    ($name:literal, $($stage:expr),+ $(,)?) => {
        $crate::verify::Fuzz::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/", $name), |recorder| {
            let pipeline = $crate::verify::pipeline();
            $(let pipeline = pipeline.add($stage);)+
            $crate::verify::recorded(pipeline, recorder)
        })
        .run()
    };
}

/// Inputs that a test tries when nobody asks for more.
const RUNS: usize = 500;
/// Longer ones say no more about how frames are cut, and cost more.
const INPUT_MAX: usize = 512;
const POOL_MAX: usize = 4096;

/// An attack on a stage: what [`fuzz_decoder!`](crate::fuzz_decoder) makes and runs.
pub struct Fuzz<'a, R, W> {
    corpus: PathBuf,
    #[allow(clippy::type_complexity)]
    make: Box<dyn Fn(Recorder<R, W>) -> EmbeddedChannel<Infallible, W> + 'a>,
}

impl<'a, R: PartialEq + Debug + 'static, W: 'static> Fuzz<'a, R, W> {
    /// An attack on the pipeline that `make` makes, with the files in `corpus` to begin with.
    pub fn new(
        corpus: impl AsRef<Path>,
        make: impl Fn(Recorder<R, W>) -> EmbeddedChannel<Infallible, W> + 'a,
    ) -> Self {
        Self { corpus: corpus.as_ref().to_owned(), make: Box::new(make) }
    }

    /// Replays the corpus, then attacks for as long as `NETWRIGHT_FUZZ_SECONDS` says, or for a moment.
    #[track_caller]
    pub fn run(&self) {
        let mut pool = self.read_corpus();
        let mut outcomes = HashSet::new();
        for (number, input) in pool.iter().enumerate() {
            outcomes.insert(self.attack(input, number as u64));
        }
        let number = |name: &str| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
        let time = number("NETWRIGHT_FUZZ_SECONDS").map(Duration::from_secs);
        let mut numbers = Numbers::new(number("NETWRIGHT_FUZZ_SEED").unwrap_or(0));
        let start = Instant::now();
        let mut runs = 0;
        while time.map_or(runs < RUNS, |time| start.elapsed() < time) {
            let input = mutated(&mut numbers, &pool);
            let seed = numbers.next_u64();
            let result = catch_unwind(AssertUnwindSafe(|| self.attack(&input, seed)));
            let outcome = result.unwrap_or_else(|panic| {
                let file = self.corpus.join(format!("found-{seed:016x}"));
                let written = fs::write(&file, &input);
                eprintln!(
                    "input {}, pieces of seed {seed}, kept: {written:?}, {}",
                    short(&input),
                    file.display()
                );
                resume_unwind(panic)
            });
            if outcomes.insert(outcome) && pool.len() < POOL_MAX {
                pool.push(input);
            }
            runs += 1;
        }
        if let Some(time) = time {
            let (name, kept) = (self.corpus.file_name().unwrap_or_default().display(), pool.len());
            println!(
                "{name}: {time:?}, {runs} inputs, {} outcomes, {kept} kept, nothing found",
                outcomes.len()
            );
        }
    }

    fn read_corpus(&self) -> Vec<Vec<u8>> {
        let files = fs::read_dir(&self.corpus);
        let files = files.unwrap_or_else(|error| panic!("{}: {error}", self.corpus.display()));
        let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        paths.sort();
        let pool: Vec<_> = paths.iter().filter_map(|path| fs::read(path).ok()).collect();
        assert!(!pool.is_empty(), "{} has no seed", self.corpus.display());
        pool
    }

    /// Feeds an input as a whole and in pieces. What came of it, as a number: the same for what is alike.
    #[track_caller]
    fn attack(&self, input: &[u8], seed: u64) -> u64 {
        let whole = self.feed([input]);
        let most = 1 + (seed % 7) as usize * 3;
        let pieces = self.feed(chunks(seed, most, input));
        let messages = |seen: &[Seen<R>]| seen.iter().filter(|seen| matches!(seen, Seen::Message(_))).count();
        let same = {
            let only = |seen: &Seen<R>| matches!(seen, Seen::Message(_));
            whole.iter().filter(|seen| only(seen)).eq(pieces.iter().filter(|seen| only(seen)))
        };
        assert!(
            same,
            "how the stream is split shows: {} messages of the whole, {} of the pieces, or different ones",
            messages(&whole),
            messages(&pieces)
        );
        let mut hasher = DefaultHasher::new();
        for seen in whole.iter().take(32) {
            match seen {
                Seen::Message(_) => 1.hash(&mut hasher),
                Seen::Error(text) => {
                    let without_numbers: String =
                        text.chars().filter(|char| !char.is_ascii_digit()).collect();
                    without_numbers.hash(&mut hasher);
                }
            }
        }
        hasher.finish()
    }

    #[track_caller]
    fn feed<'b>(&self, pieces: impl IntoIterator<Item = &'b [u8]>) -> Vec<Seen<R>> {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let recorder = Recorder { seen: seen.clone(), writes: std::marker::PhantomData };
        let mut channel = (self.make)(recorder);
        for piece in pieces {
            channel.write_inbound(piece);
        }
        channel.close_by_peer();
        no_panic(&channel);
        drop(channel);
        seen.take()
    }
}

/// Something from the pool, changed in some places.
fn mutated(numbers: &mut Numbers, pool: &[Vec<u8>]) -> Vec<u8> {
    let mut input = pool[numbers.below(pool.len())].clone();
    for _ in 0..=numbers.below(6) {
        let at = numbers.below(input.len() + 1);
        let end = (at + 1 + numbers.below(16)).min(input.len());
        match numbers.below(9) {
            0 if at < end => drop(input.drain(at..end)),
            1 if at < end => input.extend_from_within(at..end),
            2 => {
                let other = &pool[numbers.below(pool.len())];
                let from = numbers.below(other.len());
                input.splice(at..at, other[from..].iter().copied());
            }
            3 => input.truncate(at.max(1)),
            4 | 5 => put_number(numbers, &mut input, at),
            6 if at < input.len() => input[at] ^= 1 << numbers.below(8),
            _ => input.insert(at, numbers.next_u64() as u8),
        }
    }
    input.truncate(INPUT_MAX);
    input
}

/// Writes a number at which something may change its nature over what is there.
fn put_number(numbers: &mut Numbers, input: &mut [u8], at: usize) {
    let width = [1, 2, 3, 4, 8][numbers.below(5)].min(input.len() - at);
    let value = match numbers.below(4) {
        0 => numbers.below(64) as u64,
        1 => u64::MAX - numbers.below(64) as u64,
        2 => (1u64 << numbers.below(64)).wrapping_sub(numbers.below(3) as u64),
        _ => numbers.next_u64(),
    };
    let bytes = if numbers.below(2) == 0 { value.to_le_bytes() } else { value.swap_bytes().to_le_bytes() };
    let from = if numbers.below(2) == 0 { 0 } else { 8 - width };
    input[at..at + width].copy_from_slice(&bytes[from..from + width]);
}
