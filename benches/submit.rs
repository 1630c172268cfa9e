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
use netwright_benches::{Scale, Table, Tally, Target, interleave, millions_per_second, time_producers};
use netwright_core::EventLoop;
use std::{hint::black_box, sync::mpsc, thread, time::Duration};

const TASKS: usize = 1_000_000;

fn main() {
    let Some(scale) = Scale::from_args() else { return };
    let mut table = Table::new(
        "submit: tasks from other threads, million per second",
        ["producers", "channel", "event loop"],
    );
    for producers in [1, 4] {
        let each = scale.amount(TASKS) / producers;
        let (reference, own) =
            interleave(scale.rounds(), || channel(producers, each), || event_loop(producers, each));
        table.row(producers.to_string(), &reference, &own, Target::AtLeast(0.9));
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

fn channel(producers: usize, each: usize) -> f64 {
    let (send, receive) = unbounded::<Box<dyn FnOnce() + Send>>();
    let (tally, done) = Tally::leak(producers * each);
    let consumer = thread::spawn(move || {
        while let Ok(task) = receive.recv() {
            task();
        }
    });
    // It runs already when the clock starts, as the loop does.
    let (ready, is_ready) = mpsc::channel();
    send.send(Box::new(move || ready.send(()).expect("is waited for"))).expect("open");
    is_ready.recv().expect("the consumer runs");

    let time = time_producers(producers, &done, |_| {
        for number in 0..each {
            send.send(Box::new(task(tally, number))).expect("open");
        }
    });
    drop(send);
    consumer.join().expect("no task panics");
    millions_per_second(producers * each, time)
}

fn event_loop(producers: usize, each: usize) -> f64 {
    let event_loop = EventLoop::new();
    let (tally, done) = Tally::leak(producers * each);
    let (ready, is_ready) = mpsc::channel();
    event_loop.execute(move || ready.send(()).expect("is waited for")).expect("open");
    is_ready.recv().expect("the loop runs");

    let time = time_producers(producers, &done, |_| {
        for number in 0..each {
            event_loop.execute(task(tally, number)).expect("open and not limited");
        }
    });
    let end = event_loop.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5));
    end.expect("valid").wait().expect("the loop ends well");
    millions_per_second(producers * each, time)
}
