//! What the benches share: two sides measured in turns, the figures of many rounds, a table.
//!
//! ```text
//!   interleave:  A B │ B A │ A B │ B A │ …      each round both sides, the first one by turns
//!                ───   ───   ───   ───
//!                b/a   b/a   b/a   b/a          one ratio per round ─▶ median, and the middle half as the spread
//! ```
//!
//! Machines are shared and change their speed from second to second, so a time means little and the ratio of two times
//! taken next to each other means much. A ratio is taken within each round and the median over the rounds, so a
//! disturbance has to hit more than half of all rounds, always on the same side, to be seen.
//!
//! No benchmark is a test: targets are printed beside the figures, and nothing fails.

use std::{
    env, fmt, process,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

mod budget;
#[cfg(target_os = "linux")]
pub mod load;
#[cfg(target_os = "linux")]
pub mod reference;
#[cfg(target_os = "linux")]
pub mod server;
pub mod stages;
pub mod svg;
pub mod text;
#[cfg(target_os = "linux")]
pub mod udp_load;

pub use budget::{Budget, Difference, Verdict};
use text::figure;

/// How much to measure, from the command line.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    quick: bool,
}

impl Scale {
    /// Reads the arguments. `None`: this is not `cargo bench` (but `cargo test --all-targets`, say), so measure nothing.
    pub fn from_args() -> Option<Self> {
        Self::from_args_with("", |_, _| false)
    }

    /// The same for a benchmark with arguments of its own: `own` gets an argument and those behind it, and says whether
    /// it knows it; `known` names them all.
    pub fn from_args_with(
        known: &str,
        mut own: impl FnMut(&str, &mut dyn Iterator<Item = String>) -> bool,
    ) -> Option<Self> {
        let (mut bench, mut quick) = (false, false);
        let mut args = env::args().skip(1);
        while let Some(arg) = args.next() {
            match &*arg {
                "--bench" => bench = true,
                "--quick" => quick = true,
                _ if own(&arg, &mut args) => {}
                _ => {
                    eprintln!("unknown argument {arg:?}: known is --quick, for a first impression{known}");
                    process::exit(2);
                }
            }
        }
        bench.then_some(Self { quick })
    }

    /// `full`, or a tenth of it for a first impression.
    pub fn amount(self, full: usize) -> usize {
        if self.quick { full.div_ceil(10) } else { full }
    }

    /// How often to measure each side: enough for a median that a disturbed round does not move.
    pub fn rounds(self) -> usize {
        if self.quick { 5 } else { 21 }
    }
}

/// What all rounds of one side gave, in their order.
#[derive(Debug, Clone, Default)]
pub struct Rounds(Vec<f64>);

impl Rounds {
    /// The middle value.
    pub fn median(&self) -> f64 {
        quantile(&self.0, 0.5)
    }

    /// Between which values half of the rounds lie.
    pub fn middle_half(&self) -> (f64, f64) {
        (quantile(&self.0, 0.25), quantile(&self.0, 0.75))
    }

    /// Round by round what one of `steps` costs that this side has more than the other.
    pub fn per_step(&self, fewer: &Self, steps: usize) -> Self {
        Self(self.0.iter().zip(&fewer.0).map(|(own, other)| (own - other) / steps as f64).collect())
    }

    /// Adds a round.
    pub fn push(&mut self, figure: f64) {
        self.0.push(figure);
    }

    /// Adds the rounds of another time.
    pub fn append(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Round by round this side through the other.
    pub fn over(&self, reference: &Self) -> Ratio {
        let ratios: Vec<f64> = self.0.iter().zip(&reference.0).map(|(own, other)| own / other).collect();
        Ratio { median: quantile(&ratios, 0.5), low: quantile(&ratios, 0.25), high: quantile(&ratios, 0.75) }
    }
}

/// A ratio over many rounds: the median, and between which values half of the rounds lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The middle value.
    pub median: f64,
    /// A quarter of the rounds gave less.
    pub low: f64,
    /// A quarter of the rounds gave more.
    pub high: f64,
}

/// The value below which that share of all values lies, between two values in proportion.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// Measures two sides in turns, after one round of each that does not count. Each call of a side is one round and gives
/// its figure.
pub fn interleave(rounds: usize, mut a: impl FnMut() -> f64, mut b: impl FnMut() -> f64) -> (Rounds, Rounds) {
    let (mut of_a, mut of_b) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    for round in 0..=rounds {
        // Who comes second finds what the first one left behind, so they take turns.
        let (figure_a, figure_b) = if round % 2 == 0 {
            let first = a();
            (first, b())
        } else {
            let first = b();
            (a(), first)
        };
        if round > 0 {
            of_a.push(figure_a);
            of_b.push(figure_b);
        }
    }
    (Rounds(of_a), Rounds(of_b))
}

/// Measures several sides in turns; `measure` gets the number of a side, and gives its figure. Each round starts with
/// another side, and the first round does not count.
pub fn interleave_all<const N: usize>(rounds: usize, mut measure: impl FnMut(usize) -> f64) -> [Rounds; N] {
    let mut all = [(); N].map(|()| Rounds::default());
    for round in 0..=rounds {
        for turn in 0..N {
            let side = (round + turn) % N;
            let figure = measure(side);
            if round > 0 {
                all[side].0.push(figure);
            }
        }
    }
    all
}

/// What a ratio should be.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Whatever it is: for information.
    None,
}

impl Target {
    fn judge(self, ratio: f64) -> String {
        let (sign, limit, met) = match self {
            Self::AtLeast(limit) => (">=", limit, ratio >= limit),
            Self::AtMost(limit) => ("<=", limit, ratio <= limit),
            Self::None => return "for information".to_owned(),
        };
        format!("{sign} {limit:.2} {}", if met { "met" } else { "MISSED" })
    }
}

/// Lines of figures, each with the ratio of a side to its reference.
#[derive(Debug)]
pub struct Table {
    title: String,
    head: [&'static str; 3],
    rows: Vec<[String; 6]>,
}

impl Table {
    /// A table that says above its columns what it shows; `head` names the cases, the reference and the other side.
    pub fn new(title: impl Into<String>, head: [&'static str; 3]) -> Self {
        Self { title: title.into(), head, rows: Vec::new() }
    }

    /// Adds a line.
    pub fn row(&mut self, case: impl Into<String>, reference: &Rounds, own: &Rounds, target: Target) {
        let ratio = own.over(reference);
        self.rows.push([
            case.into(),
            figure(reference.median()),
            figure(own.median()),
            format!("{:.2}", ratio.median),
            format!("{:.2} … {:.2}", ratio.low, ratio.high),
            target.judge(ratio.median),
        ]);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [case, reference, own] = self.head;
        let head = [case, reference, own, "ratio", "middle half", "target"].map(str::to_owned);
        let width = |column: usize| {
            self.rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: [usize; 6] = std::array::from_fn(width);
        writeln!(f, "\n{}\n", self.title)?;
        for [case, figures @ .., target] in [&head].into_iter().chain(&self.rows) {
            write!(f, "{case:<0$}", widths[0])?;
            for (cell, width) in figures.iter().zip(&widths[1..]) {
                write!(f, "  {cell:>width$}")?;
            }
            writeln!(f, "  {target}")?;
        }
        Ok(())
    }
}

/// Counts tasks as they run, and tells when the last one has. On cache lines of its own, so that who makes tasks does
/// not slow down who counts them.
#[repr(align(128))]
#[derive(Debug)]
pub struct Tally {
    left: AtomicU64,
    done: mpsc::Sender<Instant>,
}

impl Tally {
    /// A tally for that many tasks. It is leaked, some bytes per round, so that a task captures a plain reference and
    /// the cost of a reference count does not cover the cost in question.
    pub fn leak(tasks: usize) -> (&'static Self, mpsc::Receiver<Instant>) {
        let (done, receive) = mpsc::channel();
        (Box::leak(Box::new(Self { left: AtomicU64::new(tasks as u64), done })), receive)
    }

    /// A task has run, where all tasks run on one thread: then a load and a store do.
    pub fn ran_on_one_thread(&self) {
        let left = self.left.load(Ordering::Relaxed) - 1;
        self.left.store(left, Ordering::Relaxed);
        if left == 0 {
            self.end();
        }
    }

    /// A task has run, on one of several threads.
    pub fn ran(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end();
        }
    }

    #[cold]
    fn end(&self) {
        let _ = self.done.send(Instant::now());
    }
}

/// Threads that make tasks, all at the same moment. They live as long as the benchmark, as a server's threads do: a new
/// thread would find its allocator in a state that depends on what ran before.
#[derive(Debug)]
pub struct Producers {
    threads: Vec<mpsc::Sender<Produce>>,
    started: mpsc::Receiver<Instant>,
}

type Produce = Arc<dyn Fn(usize) + Send + Sync>;

impl Producers {
    /// Starts that many threads; they end with this value.
    pub fn new(threads: usize) -> Self {
        let (tell, started) = mpsc::channel();
        let gate = Arc::new(Barrier::new(threads));
        let start = |number| {
            let (send, receive) = mpsc::channel::<Produce>();
            let (tell, gate) = (tell.clone(), gate.clone());
            thread::spawn(move || {
                for produce in receive {
                    gate.wait();
                    let start = Instant::now();
                    produce(number);
                    let _ = tell.send(start);
                }
            });
            send
        };
        Self { threads: (0..threads).map(start).collect(), started }
    }

    /// Lets every thread call `produce` with its number, and returns how long it took until the tally was complete.
    pub fn time(
        &self,
        done: &mpsc::Receiver<Instant>,
        produce: impl Fn(usize) + Send + Sync + 'static,
    ) -> Duration {
        let produce: Produce = Arc::new(produce);
        for thread in &self.threads {
            thread.send(produce.clone()).expect("producers wait for work");
        }
        let started = self.threads.iter().map(|_| self.started.recv().expect("a producer panicked"));
        let start = started.min().expect("there is a producer");
        done.recv().expect("the tally is never dropped") - start
    }
}

/// Million tasks per second.
pub fn millions_per_second(tasks: usize, time: Duration) -> f64 {
    tasks as f64 / time.as_secs_f64() / 1e6
}

/// Random numbers, the same in every run: SplitMix64.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Another seed, another sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`. Slightly uneven, which no benchmark here notices.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&[4.0, 1.0, 2.0, 3.0], 0.5), 2.5);
        assert_eq!(quantile(&[7.0], 0.25), 7.0);
    }

    #[test]
    fn several_sides_take_turns_at_being_first() {
        let mut order = String::new();
        let all = interleave_all::<3>(2, |side| {
            order.push_str(&side.to_string());
            side as f64
        });
        assert_eq!(order, "012120201");
        assert_eq!(all.map(|rounds| rounds.0), [[0.0; 2], [1.0; 2], [2.0; 2]]);
    }

    #[test]
    fn the_first_round_is_not_counted_and_the_sides_take_turns() {
        let order = std::cell::RefCell::new(String::new());
        let side = |name: char, figure: f64| {
            order.borrow_mut().push(name);
            figure
        };
        let (a, b) = interleave(3, || side('a', 2.0), || side('b', 3.0));
        assert_eq!(*order.borrow(), "abbaabba");
        assert_eq!((a.0.len(), b.0.len()), (3, 3));
        assert_eq!(b.over(&a), Ratio { median: 1.5, low: 1.5, high: 1.5 });
    }
}
