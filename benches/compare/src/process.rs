//! A server that runs: started on its cores, asked for its figures, ended with its value.
//!
//! ```text
//!   this thread: on the server's cores ─▶ spawn (a child inherits them) ─▶ back on the load's core
//!   server ── 127.0.0.1:PORT, on a line ──▶ here
//!   its process clock, /proc/PID/smaps_rollup
//! ```
//! A process's clock counts all its threads, those that ended and those of io_uring as well, to the nanosecond, while it runs.

use crate::machine::Cores;
use nix::{
    time::{ClockId, clock_getcpuclockid, clock_gettime},
    unistd::Pid,
};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// A server that takes longer to start never will.
const START_MAX: Duration = Duration::from_secs(20);
/// A server that uses next to no CPU time for so long is at rest.
const REST: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(3);
/// Of what a server says before it ends, that much is kept.
const SAID_MAX: u64 = 2000;

pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    clock: ClockId,
}

impl Server {
    /// Starts it on these cores, and waits until it says where it listens.
    pub(crate) fn start(mut command: Command, cores: &Cores, threads: usize) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        cores.stand_on_servers(threads)?;
        let child = command.spawn();
        cores.stand_on_load()?;
        let mut child = child.map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let (tell, told) = mpsc::channel();
        let says = child.stdout.take().expect("piped");
        thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(says).read_line(&mut line);
            let _ = tell.send(line);
        });
        let line = told.recv_timeout(START_MAX).unwrap_or_default();
        let clock = clock_getcpuclockid(Pid::from_raw(child.id() as i32));
        match (line.trim().parse(), clock) {
            (Ok(address), Ok(clock)) => Ok(Self { child, address, clock }),
            (_, clock) => {
                let clock = clock.err().map_or(String::new(), |error| format!(" (its clock: {error})"));
                Err(format!("said {line:?} instead of an address{clock}{}", last_words(&mut child)))
            }
        }
    }

    /// Ends it, and returns what it has said about that.
    pub(crate) fn end(mut self) -> String {
        last_words(&mut self.child)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// CPU time of all its threads so far.
    pub(crate) fn cpu(&self) -> Duration {
        clock_gettime(self.clock).map_or(Duration::ZERO, Into::into)
    }

    /// Its memory that is in RAM, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
        let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// The same when it has nothing left to do: what it has answered it may still be tidying up.
    pub(crate) fn resident_at_rest(&self) -> u64 {
        let (start, mut before) = (Instant::now(), self.cpu());
        while start.elapsed() < REST_MAX {
            thread::sleep(REST);
            let now = self.cpu();
            if now.saturating_sub(before) < REST / 50 {
                break;
            }
            before = now;
        }
        self.resident()
    }
}

fn last_words(child: &mut Child) -> String {
    let _ = child.kill();
    let mut said = String::new();
    if let Some(errors) = child.stderr.take() {
        let _ = errors.take(SAID_MAX).read_to_string(&mut said);
    }
    let _ = child.wait();
    match said.trim().replace('\n', " ") {
        said if said.is_empty() => said,
        said => format!("; the server says: {said}"),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
