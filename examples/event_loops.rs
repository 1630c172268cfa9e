//! Event loops without any network: tasks, timers, futures, panics, and the figures that a loop keeps about itself.
//!
//! Run it with `cargo run --release --example event_loops`.

use netwright::{EventLoop, EventLoopGroup, Workers, event_loop::TaskError};
use std::{error::Error, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_target(false).without_time().init();

    let group = EventLoopGroup::builder().loops(2).name("demo").build()?;
    let (one, two) = (group.next(), group.next());
    say(&format!("two loops: {} and {}. Their threads start with their first task.", one.name(), two.name()));

    // A task runs on its loop, after all that was submitted before it.
    for n in 1..=3 {
        one.execute(move || say(&format!("task {n}")))?;
    }

    // A timer is a future of its result, and can be cancelled.
    let mut tea = one.schedule(Duration::from_millis(50), || "tea is ready")?;
    let never = one.schedule(Duration::from_secs(3600), || "nobody waits for this")?;
    assert!(never.cancel());
    say(tea.wait()?);

    // A fixed rate: three ticks, then it is cancelled.
    let ticks = two.schedule_at_fixed_rate(Duration::ZERO, Duration::from_millis(20), || say("tick"))?;
    two.schedule(Duration::from_millis(50), move || ticks.cancel())?.wait()?;

    // A future is polled on its loop; what it awaits may come from anywhere, here from a pool for blocking work.
    let workers = Workers::new(2)?;
    let sum = workers.submit(|| (1..=1_000_000u64).sum::<u64>())?;
    one.spawn(async move { say(&format!("the workers' sum is {}", sum.await.unwrap_or(0))) })?.wait()?;

    // A panic costs its own task only.
    let mut broken = one.spawn(async { "not a number".parse::<u32>().expect("on purpose") })?;
    if let Err(TaskError::Panicked(message)) = broken.wait() {
        say(&format!("its handle learned: {message}"));
    }

    // The end: what was accepted is run, then the threads leave.
    group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.wait()?;
    for event_loop in &group {
        let figures = event_loop.figures();
        println!(
            "{}: {} turns, {} tasks, {} wake-ups sent and {} saved, {} panics, longest task {:?}",
            event_loop.name(),
            figures.iterations,
            figures.tasks_run,
            figures.wakeups_sent,
            figures.wakeups_saved,
            figures.panics,
            figures.longest_task.map(|longest| longest.time),
        );
    }
    Ok(())
}

fn say(what: &str) {
    let place = EventLoop::current().map_or("main".to_owned(), |event_loop| event_loop.name().to_owned());
    println!("{place:>8}: {what}");
}
