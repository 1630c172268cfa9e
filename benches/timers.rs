//! Question: does a timer cost more when many others are pending?
//!
//! ```text
//!   pending:    1,000  ─┐
//!                       ├─ arm one, cancel it │ arm one, cancel an old one │ let all fire
//!           1,000,000  ─┘
//! ```
//! Answer in nanoseconds per timer, all on the loop's own thread, with delays spread evenly over four hours. Target: arm
//! and cancel among a million cost at most 1.5 of what they cost among a thousand.
//!
//! The second kind is for information. It visits old timers in random order, and a million of them do not fit into any
//! cache: beside it stands the bare cost of such visits, a box taken from a table in random order and replaced.

use netwright_benches::{Dice, Rounds, Scale, Table, Target, interleave};
use netwright_core::{LocalLoop, ManualLoop, Scheduled};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

const FEW: usize = 1_000;
const MANY: usize = 1_000_000;
const OPERATIONS: usize = 100_000;
const DELAY_MS_MAX: u64 = 4 * 3_600_000;

fn main() {
    let Some(scale) = Scale::from_args() else { return };
    let (rounds, operations) = (scale.rounds(), scale.amount(OPERATIONS));
    let mut table =
        Table::new("timers: nanoseconds per timer, by how many are pending", ["", "1,000", "1,000,000"]);
    let mut row = |case: &str, (few, many): (Rounds, Rounds), target| table.row(case, &few, &many, target);

    let (mut few, mut many) = (Pending::new(FEW), Pending::new(MANY));
    let both = interleave(rounds, || few.arm_and_cancel(operations), || many.arm_and_cancel(operations));
    row("arm, cancel the same", both, Target::AtMost(1.5));
    let both = interleave(rounds, || few.replace(operations), || many.replace(operations));
    row("cancel an old one, arm", both, Target::None);
    drop((few, many));

    let (mut few, mut many) = (boxes(FEW), boxes(MANY));
    let both =
        interleave(rounds, || replace_box(&mut few, operations), || replace_box(&mut many, operations));
    row("  (a box in a table)", both, Target::None);
    drop((few, many));

    // Of the few, as many loops as it takes to fire as many timers.
    let loops = scale.amount(OPERATIONS) / FEW;
    let both = interleave(rounds.min(7), || fire(FEW, loops), || fire(MANY, 1));
    row("fire, all due at once", both, Target::None);
    println!("{table}");
}

/// A loop with timers pending, and their handles.
struct Pending {
    manual: ManualLoop,
    timers: Vec<Scheduled<()>>,
    dice: Dice,
}

impl Pending {
    fn new(timers: usize) -> Self {
        let mut new =
            Self { manual: ManualLoop::new(), timers: Vec::with_capacity(timers), dice: Dice::new(7) };
        new.on_loop(|here, pending, dice| pending.extend((0..timers).map(|_| arm(here, dice))));
        new
    }

    fn on_loop(&mut self, run: impl FnOnce(&LocalLoop, &mut Vec<Scheduled<()>>, &mut Dice)) {
        let Self { manual, timers, dice } = self;
        manual.enter(|| run(&LocalLoop::current().expect("entered"), timers, dice));
    }

    fn arm_and_cancel(&mut self, operations: usize) -> f64 {
        let start = Instant::now();
        self.on_loop(|here, _, dice| {
            for _ in 0..operations {
                let timer = arm(here, dice);
                black_box(timer.cancel());
            }
        });
        nanoseconds_each(start, operations)
    }

    fn replace(&mut self, operations: usize) -> f64 {
        let start = Instant::now();
        self.on_loop(|here, pending, dice| {
            for _ in 0..operations {
                let at = dice.below(pending.len() as u64) as usize;
                black_box(pending[at].cancel());
                pending[at] = arm(here, dice);
            }
        });
        nanoseconds_each(start, operations)
    }
}

fn arm(here: &LocalLoop, dice: &mut Dice) -> Scheduled<()> {
    let delay = Duration::from_millis(1 + dice.below(DELAY_MS_MAX));
    here.schedule(delay, || ()).expect("open")
}

/// As large as what a timer keeps outside of the table.
type Payload = Box<[u64; 12]>;

fn boxes(len: usize) -> Vec<Payload> {
    (0..len).map(|_| Box::new([0; 12])).collect()
}

fn replace_box(table: &mut [Payload], operations: usize) -> f64 {
    let mut dice = Dice::new(7);
    let start = Instant::now();
    for number in 0..operations {
        let at = dice.below(table.len() as u64) as usize;
        table[at] = black_box(Box::new([number as u64; 12]));
    }
    nanoseconds_each(start, operations)
}

/// Arms, then moves the clock behind the last deadline; only the firing is timed.
fn fire(timers: usize, loops: usize) -> f64 {
    let mut pending: Vec<Pending> = (0..loops.max(1)).map(|_| Pending::new(timers)).collect();
    let start = Instant::now();
    for one in &mut pending {
        one.manual.clock().expect("moved by hand").advance(Duration::from_millis(DELAY_MS_MAX + 1));
        one.manual.run_until_idle();
        debug_assert!(one.timers.iter().all(Scheduled::is_done));
    }
    nanoseconds_each(start, timers * pending.len())
}

fn nanoseconds_each(start: Instant, operations: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / operations as f64
}
