//! Question: what does it cost to hand a task to a pool of workers?
//!
//! ```text
//!   1 or 4 producers ── the same boxed closures ──┬─▶ crossbeam_channel::unbounded, drained by 2 threads
//!                                                 ├─▶ Workers::execute, 2 threads
//!                                                 └─▶ Lane::execute, a lane per producer, 2 threads
//! ```
//! Answer in million tasks per second, until the last task has run. For information: workers are for tasks that block,
//! next to which all of this is nothing, and a lane keeps an order that the channel does not.

use crossbeam_channel::unbounded;
use netwright_benches::{Producers, Scale, Table, Tally, Target, interleave, millions_per_second};
use netwright_core::Workers;
use std::{hint::black_box, sync::mpsc, thread, time::Instant};

const TASKS: usize = 500_000;
const THREADS: usize = 2;

fn main() {
    let Some(scale) = Scale::from_args() else { return };
    let mut table = Table::new(
        format!("workers: tasks to {THREADS} threads, million per second"),
        ["producers", "channel", "workers"],
    );
    for threads in [1, 4] {
        let bench =
            Bench { producers: Producers::new(threads), threads, each: scale.amount(TASKS) / threads };
        let (send, receive) = unbounded::<Box<dyn FnOnce() + Send>>();
        for _ in 0..THREADS {
            let receive = receive.clone();
            thread::spawn(move || receive.iter().for_each(|task| task()));
        }
        let workers = Workers::builder().threads(THREADS).max_pending(usize::MAX).build().expect("valid");

        let channel = || {
            let send = send.clone();
            bench.round(move |tally, number, _| {
                send.send(Box::new(task(tally, number))).expect("open");
            })
        };
        let execute = || {
            let workers = workers.clone();
            bench.round(move |tally, number, _| {
                workers.execute(task(tally, number)).expect("open and not limited");
            })
        };
        let (reference, own) = interleave(scale.rounds(), channel, execute);
        table.row(format!("{threads}, execute"), &reference, &own, Target::None);

        let in_lanes = || {
            let lanes: Vec<_> = (0..threads).map(|_| workers.lane()).collect();
            bench.round(move |tally, number, producer| {
                lanes[producer].execute(task(tally, number)).expect("open and not limited");
            })
        };
        let (reference, own) = interleave(scale.rounds(), channel, in_lanes);
        table.row(format!("{threads}, a lane each"), &reference, &own, Target::None);
    }
    println!("{table}");
}

fn task(tally: &'static Tally, number: usize) -> impl FnOnce() + Send + 'static {
    move || {
        black_box(number);
        tally.ran();
    }
}

struct Bench {
    producers: Producers,
    threads: usize,
    each: usize,
}

impl Bench {
    /// Lets every producer hand over its share of the tasks: `hand` gets the tally, the task's and the producer's number.
    fn round(&self, hand: impl Fn(&'static Tally, usize, usize) + Send + Sync + 'static) -> f64 {
        let &Self { ref producers, threads, each } = self;
        let (tally, done): (_, mpsc::Receiver<Instant>) = Tally::leak(threads * each);
        let time = producers.time(&done, move |producer| {
            for number in 0..each {
                hand(tally, number, producer);
            }
        });
        millions_per_second(threads * each, time)
    }
}
