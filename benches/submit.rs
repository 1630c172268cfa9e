//! Question: what does it cost to hand a task to a loop?
//!
//! ```text
//!   1 or 4 producers ── the same boxed closures ──┬─▶ crossbeam_channel::unbounded, a thread that receives and runs
//!                                                 └─▶ EventLoop::execute
//! ```
//! Answer in million tasks per second, from the moment when the producers may start until the last task has run. The
//! tasks count themselves and do nothing else, so all that is measured is the way from one thread to the other.
//! Target: at least 0.9 of the channel's throughput.

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
    for threads in [1, 4] {
        let each = scale.amount(TASKS) / threads;
        let producers = Producers::new(threads);
        // Both consumers live through all rounds, and whose turn it is not sleeps.
        let (send, receive) = unbounded::<Box<dyn FnOnce() + Send>>();
        thread::spawn(move || receive.iter().for_each(|task| task()));
        let event_loop = EventLoop::new();
        event_loop.spawn(async {}).expect("open").wait().expect("the loop runs");
        let channel = || {
            let ((tally, done), send) = (Tally::leak(threads * each), send.clone());
            let time = producers.time(&done, move |_| {
                for number in 0..each {
                    send.send(Box::new(task(tally, number))).expect("open");
                }
            });
            millions_per_second(threads * each, time)
        };
        let own = || {
            let ((tally, done), event_loop) = (Tally::leak(threads * each), event_loop.clone());
            let time = producers.time(&done, move |_| {
                for number in 0..each {
                    event_loop.execute(task(tally, number)).expect("open and not limited");
                }
            });
            millions_per_second(threads * each, time)
        };
        let (reference, own) = interleave(scale.rounds(), channel, own);
        table.row(threads.to_string(), &reference, &own, Target::AtLeast(0.9));
    }
    println!("{table}");
}

/// What a task captures: a reference, and a number so that no two tasks are the same.
fn task(tally: &'static Tally, number: usize) -> impl FnOnce() + Send + 'static {
    move || {
        black_box(number);
        tally.ran_on_one_thread();
    }
}
