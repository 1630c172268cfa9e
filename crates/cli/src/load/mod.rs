//! `netwright load`: many connections to a server, every answer compared.
//!
//! ```text
//!   connect all ──▶ Go to all ──▶ wait, show progress ──▶ Finish to all ──▶ wait for the last bytes ──▶ report
//! ```
//! | file | what |
//! | --- | --- |
//! | `target` | what it is aimed at, and how connections to it are made |
//! | `stage` | one connection |
//! | `echo`, `http`, `http2`, `websocket` | what it says and makes of the answers |
//! | `course` | what it has under way, and how it ended |
//! | `pattern` | the bytes they send |
//! | `report` | what it all came to |
//!
//! The load is closed: a connection sends when something came back. So a server that stalls gets fewer requests, and
//! percentiles say what these connections saw, not what a stream of independent users would see.

mod course;
mod echo;
mod http;
mod http2;
mod pattern;
mod report;
mod stage;
mod target;
mod websocket;

use crate::{
    failure::Failure,
    serve::event_loops,
    stop::Stop,
    terminal::{LiveLine, say, short},
    through::ProxyArguments,
};
use clap::{Args, ValueEnum};
use course::{Order, Outcome, Problem, Shared, latencies, take_latencies};
use hdrhistogram::Histogram;
use netwright::{
    Channel, Client, EventLoopGroup,
    server::{descriptor_limit, raise_descriptor_limit},
};
use report::{Errors, Report};
use std::{
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, channel},
    },
    thread::available_parallelism,
    time::{Duration, Instant},
};
use target::{Speaks, Target};

/// Load a server and check every byte that it sends back
///
/// Opens connections to a server, keeps a number of messages on their way on each of them, and compares every byte that comes
/// back with what it should be. Of an echo server, by TCP or WebSocket, that is what was sent; each connection sends
/// different bytes. An HTTP server is asked with GET, and always has to answer what it answered first; with --size it is asked
/// with POST, and has to answer what it was sent. Prints requests per second and the latencies that half, 99 % and 99.9 % of
/// the requests did not exceed. Exit code 1 if an answer was wrong or a connection failed.
///
/// The load is closed: a connection sends its next message when one has come back.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What the server is expected to do
    #[arg(value_enum)]
    protocol: Protocol,

    /// The server: of echo as HOST:PORT or unix:PATH, of http and ws as a URL
    #[arg(value_name = "ADDR|URL")]
    address: String,

    /// How many connections
    #[arg(short, long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,

    /// Bytes in a message [default: 64; of http: none, and GET instead of POST]
    #[arg(short, long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..=16 << 20))]
    size: Option<u32>,

    /// Messages on their way on each connection at the same time
    #[arg(short, long, value_name = "D", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,

    /// Ask by HTTP/2 (http): in the clear as to a server of which that is known, with https by ALPN
    #[arg(long)]
    http2: bool,

    /// Requests on their way on each connection at the same time, each on a stream of its own; what the server does not take
    /// at once waits, and the latencies have that in them
    #[arg(long, value_name = "N", requires = "http2", conflicts_with = "depth", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    streams: u32,

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

    /// Take any certificate (https, wss)
    ///
    /// Without this option the certificate has to be signed by somebody whom this machine trusts.
    #[arg(long)]
    insecure: bool,

    #[command(flatten)]
    proxy: ProxyArguments,
}

const EXAMPLES: &str = "\
Examples:
  netwright load echo 127.0.0.1:7007
  netwright load echo 127.0.0.1:7007 -c 16 --size 16384 --depth 4 --seconds 5
  netwright load echo unix:/tmp/echo.sock
  netwright load echo localhost:7007 -c 1000 --json > result.json
  netwright load http http://127.0.0.1:7007/json --depth 16
  netwright load http https://localhost:7007/echo --size 4096 --insecure
  netwright load http http://127.0.0.1:7007/ --http2 --streams 32 -c 8
  netwright load ws ws://127.0.0.1:7007/ -c 16 --size 1000";

#[derive(Clone, Copy, ValueEnum)]
enum Protocol {
    /// Sends every byte back
    Echo,
    /// Answers the same to every GET; or, with --size, what was sent to every POST
    Http,
    /// Sends every WebSocket message back
    Ws,
}

/// Bytes in a message, unless told otherwise.
const SIZE: usize = 64;

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
    let target = target(&arguments)?;
    check_descriptors(arguments.connections)?;
    let stop = Stop::listen()?;
    let cores = available_parallelism().map_or(1, usize::from);
    let group = event_loops("load", arguments.loops.map_or(cores, usize::from))?;

    let report = Load::new(&arguments, target).run(&group, &stop, arguments.seconds)?;
    if arguments.json {
        say!("{:#}", report.json());
    } else {
        say!("{report}");
    }
    if report.errors.total() > 0 { Err(Failure::Reported) } else { Ok(()) }
}

/// Refuses what cannot be asked, and what is not ours to ask.
fn target(arguments: &Arguments) -> Result<Target, Failure> {
    let Arguments { address: name, insecure, allow_remote, http2, .. } = arguments;
    if *http2 && arguments.depth != 1 {
        return Err(Failure::usage("--depth is for HTTP/1.1, which pipelines; of HTTP/2 say --streams"));
    }
    let (address, speaks) = match arguments.protocol {
        Protocol::Echo | Protocol::Ws if *http2 => return Err(Failure::usage("--http2 is for http only")),
        Protocol::Echo if *insecure => return Err(Failure::usage("--insecure is for http and ws only")),
        Protocol::Echo => (target::resolve(name, *allow_remote)?, Speaks::Echo),
        Protocol::Http => {
            let (address, url) = Target::url(name, ["http", "https"], *http2, *insecure, *allow_remote)?;
            (address, Speaks::Http(url))
        }
        Protocol::Ws => {
            let (address, url) = Target::url(name, ["ws", "wss"], false, *insecure, *allow_remote)?;
            (address, Speaks::WebSocket(url))
        }
    };
    for proxy in arguments.proxy.hops() {
        if address.ip().is_none() {
            return Err(Failure::usage(format!("--proxy does not go with {address}, which is no HOST:PORT")));
        }
        let place = proxy.address();
        target::resolve(place.strip_prefix("tcp:").unwrap_or(place), *allow_remote)?;
    }
    Ok(Target { address, speaks, through: arguments.proxy.through()? })
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
    target: Target,
    name: String,
    connections: usize,
    size: Option<usize>,
    depth: usize,
    errors: Errors,
}

impl Load {
    fn new(arguments: &Arguments, target: Target) -> Self {
        Self {
            target,
            name: arguments.address.clone(),
            connections: arguments.connections as usize,
            size: arguments.size.map(|size| size as usize),
            depth: if arguments.http2 { arguments.streams } else { arguments.depth } as usize,
            errors: Errors::default(),
        }
    }

    fn run(mut self, group: &EventLoopGroup, stop: &Stop, time: Duration) -> Result<Report, Failure> {
        let mut line = LiveLine::on(std::io::stderr());
        let (outcome, outcomes) = channel();
        let depth = self.depth;
        let shared = |size| Arc::new(Shared { size, depth, ..Shared::default() });
        let (connect, shared) = self.target.connect(group, shared, self.size, outcome)?;
        let channels = self.connect(&connect, &mut line)?;

        let start = Instant::now();
        channels.iter().for_each(|channel| channel.write_and_flush(Order::Go));
        wait(&shared, start, time, stop, &mut line);
        let (elapsed, requests) = (start.elapsed(), shared.requests.load(Ordering::Relaxed));
        channels.iter().for_each(|channel| channel.write_and_flush(Order::Finish));
        self.collect(channels.len(), &outcomes);
        line.clear();

        let latencies = measured(group)?;
        let (protocol, one_way) = match &self.target.speaks {
            Speaks::Echo => ("echo", false),
            Speaks::Http(url) if url.is_http2() => ("http2", self.size.is_none()),
            Speaks::Http(_) => ("http", self.size.is_none()),
            Speaks::WebSocket(_) => ("ws", false),
        };
        let Self { name, connections, errors, target, .. } = self;
        let name = if protocol == "echo" { target.address.to_string() } else { name };
        let size = shared.size;
        Ok(Report {
            protocol,
            one_way,
            name,
            connections,
            size,
            depth,
            time: elapsed,
            requests,
            latencies,
            errors,
        })
    }

    fn connect(
        &mut self,
        client: &Client<Order>,
        line: &mut LiveLine<std::io::Stderr>,
    ) -> Result<Vec<Channel<Order>>, Failure> {
        let mut channels = Vec::with_capacity(self.connections);
        let mut started = 0;
        while started < self.connections {
            let batch = CONNECTING_MAX.min(self.connections - started);
            let connecting: Vec<_> = (0..batch).map(|_| client.connect(&self.target.address)).collect();
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
                Problem::Refused(_) => &mut self.errors.refused,
                Problem::WrongByte { .. } | Problem::Unasked { .. } | Problem::Answer { .. } => {
                    &mut self.errors.wrong_bytes
                }
                Problem::Ended { .. } => &mut self.errors.ended_early,
            };
            *count += 1;
            if *count == 1 {
                self.errors.examples.push(problem.to_string());
            }
        }
    }
}

/// Until the time is over or somebody wants the end.
fn wait(shared: &Shared, start: Instant, time: Duration, stop: &Stop, line: &mut LiveLine<std::io::Stderr>) {
    let mut before = (start, 0);
    loop {
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() || stop.within(left.min(REFRESH)) {
            return;
        }
        let (now, requests) = (Instant::now(), shared.requests.load(Ordering::Relaxed));
        let rate = (requests - before.1) as f64 / (now - before.0).as_secs_f64().max(1e-9);
        before = (now, requests);
        if line.is_shown() {
            line.show(&progress(start.elapsed(), time, rate, shared.problems.load(Ordering::Relaxed)));
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
