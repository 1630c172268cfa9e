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
use netwright_benches::{Scale, Table, Tally, Target, interleave, millions_per_second, time_producers};
use netwright_core::Workers;
use std::{hint::black_box, thread, time::Duration};

const TASKS: usize = 500_000;
const THREADS: usize = 2;

fn main() {
    let Some(scale) = Scale::from_args() else { return };
    let mut table = Table::new(
        format!("workers: tasks to {THREADS} threads, million per second"),
        ["producers", "channel", "workers"],
    );
    for producers in [1, 4] {
        let each = scale.amount(TASKS) / producers;
        let (reference, own) =
            interleave(scale.rounds(), || channel(producers, each), || execute(producers, each));
        table.row(format!("{producers}, execute"), &reference, &own, Target::None);
        let (reference, own) =
            interleave(scale.rounds(), || channel(producers, each), || lanes(producers, each));
        table.row(format!("{producers}, a lane each"), &reference, &own, Target::None);
    }
    println!("{table}");
}

fn task(tally: &'static Tally, number: usize) -> impl FnOnce() + Send + 'static {
    move || {
        black_box(number);
        tally.ran();
    }
}

fn channel(producers: usize, each: usize) -> f64 {
    let (send, receive) = unbounded::<Box<dyn FnOnce() + Send>>();
    let (tally, done) = Tally::leak(producers * each);
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let receive = receive.clone();
            thread::spawn(move || {
                while let Ok(task) = receive.recv() {
                    task();
                }
            })
        })
        .collect();
    let time = time_producers(producers, &done, |_| {
        for number in 0..each {
            send.send(Box::new(task(tally, number))).expect("open");
        }
    });
    drop(send);
    for thread in threads {
        thread.join().expect("no task panics");
    }
    millions_per_second(producers * each, time)
}

fn execute(producers: usize, each: usize) -> f64 {
    with_workers(producers, each, |workers, tally, _| {
        for number in 0..each {
            workers.execute(task(tally, number)).expect("open and not limited");
        }
    })
}

fn lanes(producers: usize, each: usize) -> f64 {
    with_workers(producers, each, |workers, tally, _| {
        let lane = workers.lane();
        for number in 0..each {
            lane.execute(task(tally, number)).expect("open and not limited");
        }
    })
}

fn with_workers(
    producers: usize,
    each: usize,
    produce: impl Fn(&Workers, &'static Tally, usize) + Sync,
) -> f64 {
    let workers = Workers::builder().threads(THREADS).max_pending(usize::MAX).build().expect("valid");
    let (tally, done) = Tally::leak(producers * each);
    let time = time_producers(producers, &done, |number| produce(&workers, tally, number));
    workers.shutdown_gracefully(Duration::from_secs(5)).wait().expect("the workers end");
    millions_per_second(producers * each, time)
}
