//! From started servers to their end: figures while they run, then an orderly shutdown within a second.
//!
//! ```text
//!   asked to stop ──▶ listeners close ──▶ connections finish ──▶ loops end ──▶ exit code 0
//!                     at once             within CONNECTIONS     within LOOPS
//! ```

use crate::{
    failure::Failure,
    figures::Figures,
    stop::Stop,
    terminal::{LiveLine, say},
};
use netwright::{Backend, EventLoopGroup, Server};
use std::time::{Duration, Instant};

/// What connections may take to finish what they are at.
const CONNECTIONS: Duration = Duration::from_millis(500);
/// What loops may take after that. Together with the time above: less than a second, which is what a person waits.
const LOOPS: Duration = Duration::from_millis(300);
/// Between two looks at the figures: often enough to live, seldom enough to be read.
const REFRESH: Duration = Duration::from_millis(500);

/// Runs until somebody asks for the end, then ends everything.
pub(crate) fn until_stopped(
    stop: &Stop,
    servers: &[Server],
    groups: &[EventLoopGroup],
    backend: Backend,
) -> Result<(), Failure> {
    let mut line = LiveLine::on(std::io::stdout());
    let mut figures = Figures::of(groups.iter().flatten(), servers, backend);
    let mut last = Instant::now();
    while !stop.within(REFRESH) {
        if line.is_shown() {
            let now = Instant::now();
            line.show(&figures.line(now - last));
            last = now;
        }
    }
    line.clear();
    end(servers, groups)
}

fn end(servers: &[Server], groups: &[EventLoopGroup]) -> Result<(), Failure> {
    let ending: Vec<_> = servers.iter().map(|server| server.drain(CONNECTIONS)).collect();
    let mut cut = 0;
    for mut ending in ending {
        cut += ending.wait()?.cut;
    }
    match cut {
        0 => say!("stopped"),
        1 => say!("stopped; one connection was still open and has been closed"),
        _ => say!("stopped; {cut} connections were still open and have been closed"),
    }
    let threads: Vec<_> = servers.iter().filter_map(Server::threads).collect();
    for threads in &threads {
        threads.shutdown_gracefully(Duration::ZERO, LOOPS)?;
    }
    for group in groups {
        group.shutdown_gracefully(Duration::ZERO, LOOPS)?;
    }
    for threads in threads {
        threads.termination().wait()?;
    }
    for group in groups {
        group.termination().wait()?;
    }
    Ok(())
}
