//! Question: how long does a task take from one loop to another and back?
//!
//! ```text
//!   side 0 ──task──▶ side 1          each task hands the next one to the other side,
//!     ▲                │             which sleeps by then: the cost is that of being woken
//!     └──────task──────┘
//! ```
//! Answer in microseconds per throw. The reference is a thread on each side that receives boxed closures from a
//! channel and runs them, and the same closures. Target: at most 1.25 of its time, with threads that the system may
//! move and with threads bound to a core each.

use crossbeam_channel::{Sender, unbounded};
use netwright_benches::{Scale, Table, Target, interleave};
use netwright_core::EventLoop;
use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

const THROWS: usize = 20_000;

fn main() {
    let Some(scale) = Scale::from_args() else { return };
    let throws = scale.amount(THROWS);
    let mut table =
        Table::new("ping_pong: microseconds per throw", ["threads", "two channels", "two event loops"]);
    let cores: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
    let mut cases = vec![("free", None)];
    match cores[..] {
        [first, second, ..] => cases.push(("each on its core", Some([first, second]))),
        _ => println!("ping_pong: only {} core here, so no threads on two", cores.len()),
    }
    for (case, cores) in cases {
        let (reference, own) =
            interleave(scale.rounds(), || channels(throws, cores), || event_loops(throws, cores));
        table.row(case, &reference, &own, Target::AtMost(1.25));
    }
    println!("{table}");
}

/// Two sides of either kind, and whom to tell when the last throw was caught.
struct Court<S> {
    sides: [S; 2],
    done: mpsc::Sender<Instant>,
}

trait Side: Send + Sync + 'static {
    fn hand(&self, task: impl FnOnce() + Send + 'static);
}

impl Side for EventLoop {
    fn hand(&self, task: impl FnOnce() + Send + 'static) {
        self.execute(task).expect("open and not limited");
    }
}

impl Side for Sender<Box<dyn FnOnce() + Send>> {
    fn hand(&self, task: impl FnOnce() + Send + 'static) {
        self.send(Box::new(task)).expect("open");
    }
}

fn throw<S: Side>(court: Arc<Court<S>>, to: usize, left: usize) {
    if left == 0 {
        let _ = court.done.send(Instant::now());
        return;
    }
    let next = court.clone();
    court.sides[to].hand(move || throw(next, 1 - to, left - 1));
}

/// Starts both sides, then plays. Returns microseconds per throw.
fn play<S: Side>(sides: [S; 2], throws: usize) -> f64 {
    // From here and not from each other: a thread inherits the core of the one that starts it.
    for side in &sides {
        let (ready, is_ready) = mpsc::channel();
        side.hand(move || ready.send(()).expect("is waited for"));
        is_ready.recv().expect("the side runs");
    }
    let (done, is_done) = mpsc::channel();
    let court = Arc::new(Court { sides, done });
    let start = Instant::now();
    throw(court.clone(), 0, throws);
    let end = is_done.recv().expect("the court has the sender");
    (end - start).as_secs_f64() * 1e6 / throws as f64
}

fn channels(throws: usize, cores: Option<[usize; 2]>) -> f64 {
    let (threads, sides): (Vec<_>, Vec<_>) = (0..2)
        .map(|side| {
            let (send, receive) = unbounded::<Box<dyn FnOnce() + Send>>();
            let core = cores.map(|cores| cores[side]);
            let thread = thread::spawn(move || {
                if let Some(id) = core {
                    core_affinity::set_for_current(core_affinity::CoreId { id });
                }
                while let Ok(task) = receive.recv() {
                    task();
                }
            });
            (thread, send)
        })
        .unzip();
    let time = play([sides[0].clone(), sides[1].clone()], throws);
    drop(sides);
    for thread in threads {
        thread.join().expect("no task panics");
    }
    time
}

fn event_loops(throws: usize, cores: Option<[usize; 2]>) -> f64 {
    let [first, second] = [0, 1].map(|side| {
        let builder = EventLoop::builder();
        match cores {
            Some(cores) => builder.pin_to_core(cores[side]),
            None => builder,
        }
        .build()
        .expect("the core is there")
    });
    let time = play([first.clone(), second.clone()], throws);
    for event_loop in [first, second] {
        let end = event_loop.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5));
        end.expect("valid").wait().expect("the loop ends well");
    }
    time
}
