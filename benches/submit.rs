//! Question: what does it cost to hand a task to a loop?
//!
//! ```text
//!   1 or 4 producers ── the same boxed closures ──┬─▶ crossbeam_channel::unbounded, a thread that receives and runs
//!                                                 └─▶ EventLoop::execute
//! ```
//! Answer in million tasks per second, from the moment when the producers may start until the last task has run. The
//! tasks count themselves and do nothing else, so all that is measured is the way from one thread to the other.
//! Target: at least 0.9 of the channel's throughput.
//!
//! Where the system puts the threads decides the regime: on one core they take turns, and all that counts is the number
//! of instructions; on two, what counts is how often a cache line has to move. The system changes its mind between
//! rounds, so one case has a core for each thread.

use core_affinity::CoreId;
use crossbeam_channel::unbounded;
use netwright_benches::{Producers, Scale, Table, Tally, Target, interleave, millions_per_second};
use netwright_core::EventLoop;
use std::{hint::black_box, thread};

const TASKS: usize = 1_000_000;

fn main() {
    let Some(scale) = Scale::from_args() else { return };
    let mut table = Table::new(
        "submit: tasks from other threads, million per second",
        ["producers", "channel", "event loop"],
    );
    let mut cases = vec![("1", 1, None), ("4", 4, None)];
    match core_affinity::get_core_ids().unwrap_or_default()[..] {
        [first, second, ..] => cases.insert(1, ("1, each on its core", 1, Some([first, second]))),
        _ => println!("submit: only one core here, so no threads on two"),
    }
    for (case, threads, cores) in cases {
        let each = scale.amount(TASKS) / threads;
        let [producer_core, consumer_core] = [0, 1].map(|side| cores.map(|cores| cores[side]));
        let producers = Producers::new(threads);
        // Both consumers live through all rounds, and whose turn it is not sleeps.
        let (send, receive) = unbounded::<Box<dyn FnOnce() + Send>>();
        thread::spawn(move || {
            pin(consumer_core);
            receive.iter().for_each(|task| task());
        });
        let event_loop = start_loop(consumer_core);
        let channel = || {
            let ((tally, done), send) = (Tally::leak(threads * each), send.clone());
            let time = producers.time(&done, move |_| {
                pin(producer_core);
                for number in 0..each {
                    send.send(Box::new(task(tally, number))).expect("open");
                }
            });
            millions_per_second(threads * each, time)
        };
        let own = || {
            let ((tally, done), event_loop) = (Tally::leak(threads * each), event_loop.clone());
            let time = producers.time(&done, move |_| {
                pin(producer_core);
                for number in 0..each {
                    event_loop.execute(task(tally, number)).expect("open and not limited");
                }
            });
            millions_per_second(threads * each, time)
        };
        let (reference, own) = interleave(scale.rounds(), channel, own);
        table.row(case, &reference, &own, Target::AtLeast(0.9));
    }
    println!("{table}");
}

/// A loop whose thread runs already, as the channel's does, and was started from here: a thread inherits the core of
/// the one that starts it.
fn start_loop(core: Option<CoreId>) -> EventLoop {
    let builder = EventLoop::builder();
    let builder = match core {
        Some(core) => builder.pin_to_core(core.id),
        None => builder,
    };
    let event_loop = builder.build().expect("the core is there");
    event_loop.spawn(async {}).expect("open").wait().expect("the loop runs");
    event_loop
}

/// Once per round, some microseconds against a hundred milliseconds.
fn pin(core: Option<CoreId>) {
    if let Some(core) = core {
        core_affinity::set_for_current(core);
    }
}

/// What a task captures: a reference, and a number so that no two tasks are the same.
fn task(tally: &'static Tally, number: usize) -> impl FnOnce() + Send + 'static {
    move || {
        black_box(number);
        tally.ran_on_one_thread();
    }
}
