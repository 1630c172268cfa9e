//! `netwright load`: many connections to an echo server, every byte compared.
//!
//! ```text
//!   connect all ──▶ Go to all ──▶ wait, show progress ──▶ Finish to all ──▶ wait for the last bytes ──▶ report
//! ```
//! | file | what |
//! | --- | --- |
//! | `client` | one connection |
//! | `pattern` | the bytes it sends |
//! | `report` | what it all came to |
//!
//! The load is closed: a connection sends when something came back. So a server that stalls gets fewer requests, and
//! percentiles say what these connections saw, not what a stream of independent users would see.

mod client;
mod pattern;
mod report;

use crate::{
    address::refuse_local,
    failure::Failure,
    serve::event_loops,
    stop::Stop,
    terminal::{LiveLine, say, short},
};
use clap::{Args, ValueEnum};
use client::{LoadClient, Order, Outcome, Problem, Shared, latencies, take_latencies};
use hdrhistogram::Histogram;
use netwright::{
    Address, Channel, Client, EventLoopGroup, descriptor_limit, pipeline, raise_descriptor_limit,
};
use report::{Errors, Report};
use std::{
    net::ToSocketAddrs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, channel},
    },
    thread::available_parallelism,
    time::{Duration, Instant},
};

/// Load a server and check every byte that it sends back
///
/// Opens connections to an echo server, keeps a number of messages on their way on each of them, and compares every byte
/// that comes back with what was sent; each connection sends different bytes. Prints requests per second and the
/// latencies that half, 99 % and 99.9 % of the requests did not exceed. Exit code 1 if a byte was wrong or a connection
/// failed.
///
/// The load is closed: a connection sends its next message when one has come back.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What the server is expected to do
    #[arg(value_enum)]
    protocol: Protocol,

    /// The server, as HOST:PORT or unix:PATH
    #[arg(value_name = "ADDR")]
    address: String,

    /// How many connections
    #[arg(short, long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,

    /// Bytes in a message
    #[arg(short, long, value_name = "B", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=16 << 20))]
    size: u32,

    /// Messages on their way on each connection at the same time
    #[arg(short, long, value_name = "D", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,

    /// For how long, in seconds; fractions are fine
    #[arg(short = 't', long, value_name = "S", default_value = "10", value_parser = seconds)]
    seconds: Duration,

    /// How many event loops the load runs on [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    loops: Option<u16>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// Allow an address that is not on this machine
    ///
    /// Load on a server of somebody else is an attack, and on a shared network it hits everybody. Only loopback
    /// addresses are taken unless you say with this option that the server and the way to it are yours.
    #[arg(long)]
    allow_remote: bool,
}

const EXAMPLES: &str = "\
Examples:
  netwright load echo 127.0.0.1:7007
  netwright load echo 127.0.0.1:7007 -c 16 --size 16384 --depth 4 --seconds 5
  netwright load echo unix:/tmp/echo.sock
  netwright load echo localhost:7007 -c 1000 --json > result.json";

#[derive(Clone, Copy, ValueEnum)]
enum Protocol {
    /// Sends every byte back
    Echo,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match parsed {
        Some(time) if (Duration::from_millis(1)..=Duration::from_secs(86_400)).contains(&time) => Ok(time),
        _ => Err("expected a number of seconds between 0.001 and 86400".to_owned()),
    }
}

/// Connections that are being opened at the same time: fewer than any listen backlog.
const CONNECTING_MAX: usize = 64;
/// For one connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// For what is on its way at the end.
const LAST_BYTES: Duration = Duration::from_secs(5);
/// Of the progress bar.
const REFRESH: Duration = Duration::from_millis(200);
/// Descriptors for everything but connections: standard streams, and a few for each loop.
const DESCRIPTORS_BESIDES: u64 = 64;

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Protocol::Echo = arguments.protocol;
    let address = address(&arguments)?;
    check_descriptors(arguments.connections)?;
    let stop = Stop::listen()?;
    let cores = available_parallelism().map_or(1, usize::from);
    let group = event_loops("load", arguments.loops.map_or(cores, usize::from))?;

    let report = Load::new(&arguments, address).run(&group, &stop, arguments.seconds)?;
    if arguments.json {
        say!("{:#}", report.json());
    } else {
        say!("{report}");
    }
    if report.errors.total() > 0 { Err(Failure::Reported) } else { Ok(()) }
}

/// Resolved here, so that what is connected to is what was checked.
fn address(arguments: &Arguments) -> Result<Address, Failure> {
    let name = &arguments.address;
    refuse_local(name)?;
    if let Some(address) = Address::parse_prefixed(name) {
        return address.map_err(|error| Failure::usage(error.to_string())); // on this machine by its kind
    }
    let unknown = |error: &dyn std::fmt::Display| Failure::Failed(format!("cannot resolve {name}: {error}"));
    let found = name.to_socket_addrs().map_err(|error| unknown(&error))?.next();
    let address = found.ok_or_else(|| unknown(&"it has no address"))?;
    if !arguments.allow_remote && !address.ip().to_canonical().is_loopback() {
        let text = "is not on this machine; load on servers of others is an attack";
        return Err(Failure::usage(format!("{address} {text}, so say --allow-remote if it is yours")));
    }
    Ok(address.into())
}

fn check_descriptors(connections: u32) -> Result<(), Failure> {
    if let Err(error) = raise_descriptor_limit() {
        tracing::debug!(%error, "the descriptor limit could not be raised");
    }
    let needed = u64::from(connections) + DESCRIPTORS_BESIDES;
    match descriptor_limit() {
        Ok(limit) if limit.soft < needed => Err(Failure::Failed(format!(
            "{connections} connections need {needed} descriptors, but the limit is {}",
            limit.soft
        ))),
        _ => Ok(()),
    }
}

struct Load {
    address: Address,
    connections: usize,
    shared: Arc<Shared>,
    errors: Errors,
}

impl Load {
    fn new(arguments: &Arguments, address: Address) -> Self {
        let shared = Arc::new(Shared {
            size: arguments.size as usize,
            depth: arguments.depth as usize,
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            problems: AtomicU64::new(0),
        });
        Self { address, connections: arguments.connections as usize, shared, errors: Errors::default() }
    }

    fn run(mut self, group: &EventLoopGroup, stop: &Stop, time: Duration) -> Result<Report, Failure> {
        let mut line = LiveLine::on(std::io::stderr());
        let (outcome, outcomes) = channel();
        let channels = self.connect(group, outcome, &mut line)?;

        let start = Instant::now();
        channels.iter().for_each(|channel| channel.send(Order::Go));
        self.wait(start, time, stop, &mut line);
        let (elapsed, requests) = (start.elapsed(), self.shared.requests.load(Ordering::Relaxed));
        channels.iter().for_each(|channel| channel.send(Order::Finish));
        self.collect(channels.len(), &outcomes);
        line.clear();

        let latencies = measured(group)?;
        let Self { address, connections, shared, errors } = self;
        let Shared { size, depth, .. } = *shared;
        Ok(Report { address, connections, size, depth, time: elapsed, requests, latencies, errors })
    }

    fn connect(
        &mut self,
        group: &EventLoopGroup,
        outcome: std::sync::mpsc::Sender<Outcome>,
        line: &mut LiveLine<std::io::Stderr>,
    ) -> Result<Vec<Channel<Order>>, Failure> {
        let shared = self.shared.clone();
        let client = Client::builder()
            .group(group.clone())
            .connect_timeout(CONNECT_LIMIT)
            .pipeline(move || pipeline().add(LoadClient::new(shared.clone(), outcome.clone())))?;
        let mut channels = Vec::with_capacity(self.connections);
        let mut started = 0;
        while started < self.connections {
            let batch = CONNECTING_MAX.min(self.connections - started);
            let connecting: Vec<_> = (0..batch).map(|_| client.connect(&self.address)).collect();
            started += batch;
            for mut connecting in connecting {
                match connecting.wait() {
                    Ok(channel) => channels.push(channel),
                    Err(error) => {
                        self.errors.not_connected += 1;
                        if self.errors.not_connected == 1 {
                            self.errors.examples.push(error.to_string());
                        }
                    }
                }
            }
            line.show(&format!("{} of {} connected", channels.len(), self.connections));
            if channels.is_empty() {
                // Nobody is there: more of the same would only take time.
                let text = self.errors.examples.pop().unwrap_or_default();
                return Err(Failure::Failed(text));
            }
        }
        Ok(channels)
    }

    fn wait(&self, start: Instant, time: Duration, stop: &Stop, line: &mut LiveLine<std::io::Stderr>) {
        let mut before = (start, 0);
        loop {
            let left = time.saturating_sub(start.elapsed());
            if left.is_zero() || stop.within(left.min(REFRESH)) {
                return;
            }
            let (now, requests) = (Instant::now(), self.shared.requests.load(Ordering::Relaxed));
            let rate = (requests - before.1) as f64 / (now - before.0).as_secs_f64().max(1e-9);
            before = (now, requests);
            if line.is_shown() {
                line.show(&progress(
                    start.elapsed(),
                    time,
                    rate,
                    self.shared.problems.load(Ordering::Relaxed),
                ));
            }
        }
    }

    /// Every connection says how it ended, unless its last bytes do not come.
    fn collect(&mut self, connections: usize, outcomes: &Receiver<Outcome>) {
        let deadline = Instant::now() + LAST_BYTES;
        for ended in 0..connections {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(outcome) = outcomes.recv_timeout(left) else {
                self.errors.unanswered = (connections - ended) as u64;
                let text = format!("no answer to the last messages within {LAST_BYTES:?}");
                return self.errors.examples.push(text);
            };
            let Some(problem) = outcome else { continue };
            let count = match problem {
                Problem::WrongByte { .. } | Problem::Unasked { .. } => &mut self.errors.wrong_bytes,
                Problem::Ended { .. } => &mut self.errors.ended_early,
            };
            *count += 1;
            if *count == 1 {
                self.errors.examples.push(problem.to_string());
            }
        }
    }
}

/// The histograms of all loops together.
fn measured(group: &EventLoopGroup) -> Result<Histogram<u64>, Failure> {
    let mut all = latencies();
    for event_loop in group {
        let mut part = event_loop.schedule(Duration::ZERO, take_latencies)?;
        all.add(part.wait()?)?;
    }
    Ok(all)
}

fn progress(passed: Duration, time: Duration, rate: f64, problems: u64) -> String {
    const WIDTH: usize = 24;
    let share = (passed.as_secs_f64() / time.as_secs_f64()).min(1.0);
    let full = (share * WIDTH as f64) as usize;
    let (done, left) = ("█".repeat(full), "░".repeat(WIDTH - full));
    let (passed, time, rate) = (passed.as_secs_f64(), time.as_secs_f64(), short(rate));
    format!("{done}{left} {passed:.1} of {time:.1} s, {rate} requests/s, {problems} errors")
}
