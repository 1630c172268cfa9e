//! What the loops are doing, as one line: differences between two looks at their counters.

use crate::terminal::short;
use netwright::{Backend, EventLoop, Server, event_loop::LoopFigures};
use std::{fmt::Write, time::Duration};

/// Turns the counters of loops and servers into a line.
pub(crate) struct Figures {
    loops: Vec<(EventLoop, LoopFigures)>,
    servers: Vec<Server>,
    /// What waits for I/O.
    backend: Backend,
}

impl Figures {
    pub(crate) fn of(
        loops: impl IntoIterator<Item = EventLoop>,
        servers: &[Server],
        backend: Backend,
    ) -> Self {
        let before = |event_loop: EventLoop| {
            let figures = event_loop.figures();
            (event_loop, figures)
        };
        let loops = loops.into_iter().map(before);
        let backend = if backend == Backend::Auto { Backend::choose().backend } else { backend };
        Self { loops: loops.collect(), servers: servers.to_vec(), backend }
    }

    /// What happened since the line before, `passed` ago.
    pub(crate) fn line(&mut self, passed: Duration) -> String {
        let (mut open, mut accepted, mut paused) = (0, 0, false);
        for server in &self.servers {
            let figures = server.figures();
            open += figures.open;
            accepted += figures.accepted;
            paused |= figures.paused;
        }
        let mut line = format!("{}: {open} open, {accepted} accepted", self.backend);
        if paused {
            line.push_str(", accepting pauses: no descriptors left");
        }
        for threads in self.servers.iter().filter_map(Server::threads) {
            let figures = threads.figures();
            let _ = write!(line, " · {} threads, {} idle", figures.threads, figures.idle);
        }
        for (event_loop, before) in &mut self.loops {
            let now = event_loop.figures();
            let _ = write!(line, " · {} {}", event_loop.name(), describe(before, &now, passed));
            *before = now;
        }
        line
    }
}

/// How busy a loop was, and with how much.
fn describe(before: &LoopFigures, now: &LoopFigures, passed: Duration) -> String {
    let seconds = passed.as_secs_f64().max(1e-9);
    let events = now.events.saturating_sub(before.events) as f64 / seconds;
    let busy = |figures: &LoopFigures| figures.time_io + figures.time_tasks;
    let share = busy(now).saturating_sub(busy(before)).as_secs_f64() / seconds * 100.0;
    format!("{:.0} %, {} events/s", share.min(100.0), short(events))
}
