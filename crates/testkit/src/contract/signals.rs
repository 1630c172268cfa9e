//! Signals interrupt the wait of a loop, and nothing else.

use super::{
    Behaviour, Setup, behaviour,
    support::{in_own_process, round_trip},
};
use std::process::Command;

pub(super) const BEHAVIOURS: &[Behaviour] =
    &[behaviour!(a_wait_that_a_signal_ends_is_no_premature_wake_up).in_one_model()];

/// A process that is stopped and goes on has its waits interrupted, also without a handler for any signal.
const STOP_AND_GO: &str = "i=0; while [ $i -lt 200 ]; do kill -STOP $0; sleep 0.002; kill -CONT $0; sleep 0.002; \
                           i=$((i+1)); done";

fn a_wait_that_a_signal_ends_is_no_premature_wake_up(setup: Setup) {
    in_own_process(setup, || {
        let running = setup.echo();
        let mut stream = running.dial();
        round_trip(&mut stream, b"before");
        running.settle();
        let premature = || running.loops.all().iter().map(|it| it.figures().premature_wakeups).sum::<u64>();
        let before = premature();
        let pid = std::process::id().to_string();
        assert!(Command::new("sh").args(["-c", STOP_AND_GO, &pid]).status().unwrap().success());
        // A wake-up by another thread that finds the loop awake is one of them, now and then.
        let counted = premature() - before;
        assert!(counted < 20, "{counted} premature wake-ups by 200 signals");
        round_trip(&mut stream, b"after");
    });
}
