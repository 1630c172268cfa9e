//! What do the time servers cost under 1,000 connections? `cargo run --release --example time_compare`; behind `--`, another number.
//!
//! Starts each server as a process of its own, opens the connections, asks on each once, and looks at the process while
//! all of them are open. Linux only: the figures come from `/proc`.

use netwright::Backend;
use netwright_examples::QUERY;
use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Unless told otherwise.
const CONNECTIONS: usize = 1000;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let connections = std::env::args().nth(1).map_or(Ok(CONNECTIONS), |number| number.parse())?;
    println!(
        "| server | threads | resident memory | CPU time | all {connections} answered after |\n\
         | --- | --- | --- | --- | --- |"
    );
    for (name, program, how) in [
        ("a thread per connection", "time_thread_per_connection", None),
        ("a pool of 50 threads", "time_thread_pool", None),
        ("two event loops", "time_event_loop", None),
        ("the same on io_uring", "time_event_loop", Some("uring")),
        ("the same, a thread per connection", "time_event_loop", Some("blocking")),
    ] {
        match Backend::Uring.event_loops(2) {
            Err(error) if how == Some("uring") => println!("| {name} | not on this machine: {error} |"),
            _ => println!("{}", measure(name, program, how, connections)?),
        }
    }
    Ok(())
}

fn measure(
    name: &str,
    program: &str,
    how: Option<&str>,
    connections: usize,
) -> Result<String, Box<dyn Error>> {
    let path = sibling(program)?;
    let mut command = Command::new(&path);
    let command = command.arg("127.0.0.1:0").args(how).stdout(Stdio::piped());
    let mut child = Running(command.spawn().map_err(|error| {
        format!("{} is not there ({error}): build it with `cargo build --release --examples`", path.display())
    })?);
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let address = line.trim().rsplit(' ').next().ok_or("no address")?.to_owned();

    let start = Instant::now();
    let mut peers = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut peer = TcpStream::connect(&address)?;
        writeln!(peer, "{QUERY}")?;
        peers.push(BufReader::new(peer));
    }
    let mut answered = 0;
    let mut answer = String::new();
    for peer in &mut peers {
        // A pool frees a thread only when a silent peer is given up, so this can take a while.
        peer.get_ref().set_read_timeout(Some(Duration::from_secs(60)))?;
        answer.clear();
        answered += usize::from(peer.read_line(&mut answer)? > 0);
    }
    let took = start.elapsed();
    let status = fs::read_to_string(format!("/proc/{}/status", child.0.id()))?;
    let figure = |key: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|value| value.parse().ok()).unwrap_or_default()
    };
    if answered < connections {
        return Err(format!("{name}: only {answered} of {connections} were answered").into());
    }
    let (threads, memory, cpu) = (figure("Threads:"), figure("VmRSS:"), cpu_time(child.0.id())?);
    Ok(format!("| {name} | {threads} | {memory} KiB | {cpu:.0?} | {took:.2?} |"))
}

/// For how long all threads of a process have had a core. Those that have ended do not count; here none has.
fn cpu_time(process: u32) -> Result<Duration, Box<dyn Error>> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let figures = fs::read_to_string(thread?.path().join("schedstat"))?;
        nanoseconds += figures.split_whitespace().next().ok_or("no figures")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Another example, built beside this one.
fn sibling(program: &str) -> Result<PathBuf, Box<dyn Error>> {
    let mut path = std::env::current_exe()?;
    path.set_file_name(program);
    Ok(path)
}
