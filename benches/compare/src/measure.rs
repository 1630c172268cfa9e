//! Rounds: every server in turn, round after round.
//!
//! ```text
//!   round 1   A B C │ round 2   B C A │ round 3   C A B │ …      a machine that changes its speed changes it for all
//!             └ started anew on its core, warmed up, measured, ended
//! ```
//! A run during which other processes used the machine, or the two cores were far apart, is `disturbed`: it is tried once more, and
//! left out where the same server has others. While the cores are far apart, no run is begun for some seconds. Both only as long as
//! it does not take more than a tenth of the whole time.

use crate::{
    args::Options,
    load::{Load, Run, Shape, Slice, Talk, churn, h2load, hold},
    machine::{self, Cores},
    making::Built,
    process::Server,
    roster::Peer,
    scenario::{self, Kind, Scenario},
    stats::{Spread, median},
    system,
};
use std::{
    collections::HashMap,
    io::{IsTerminal, Write, stderr},
    thread,
    time::{Duration, Instant},
};

/// What one run came to.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) round: usize,
    /// Microseconds of the server's CPU time for a request.
    pub(crate) cpu_us: f64,
    /// Requests a second.
    pub(crate) rate: f64,
    /// Cores that the server used.
    pub(crate) busy: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    /// Bytes.
    pub(crate) resident: f64,
    /// Bytes that each connection added; only for idle ones.
    pub(crate) per_connection: Option<f64>,
    /// Cores that neither server nor load used.
    pub(crate) other: f64,
    /// Nanoseconds between the cores and back.
    pub(crate) distance: f64,
    pub(crate) disturbed: bool,
}

/// One server in one scenario.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) peer: &'static str,
    pub(crate) samples: Vec<Sample>,
    pub(crate) failures: Vec<String>,
}

impl Entry {
    /// The runs that count: those that nothing disturbed, or all if there is none.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &Sample> {
        let only_good = self.samples.iter().any(|sample| !sample.disturbed);
        self.samples.iter().filter(move |sample| !only_good || !sample.disturbed)
    }

    pub(crate) fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.counted().map(figure))
    }

    pub(crate) fn median(&self, figure: impl Fn(&Sample) -> f64) -> f64 {
        median(self.counted().map(figure))
    }
}

/// One scenario.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) scenario: &'static Scenario,
    /// At which rate requests came, if at a fixed one.
    pub(crate) rate: Option<f64>,
    pub(crate) entries: Vec<Entry>,
}

/// The share of a core that others may use.
const OTHER_MAX: f64 = 0.08;
/// Cores are far apart when a line takes so many times the shortest time that was seen.
const FAR: f64 = 1.8;
/// Hosts move cores every few seconds: how long to wait for it at most, and how often to look.
const APART_MAX: Duration = Duration::from_secs(4);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// After so many failures a server is not tried again in a scenario.
const FAILURES_MAX: usize = 2;
/// A median over fewer slices says less than the whole run.
const SLICES_MIN: usize = 3;
/// Connections that an idle scenario opens first, so that what a server makes once is there.
const FIRST: usize = 64;

pub(crate) struct Bench<'a> {
    options: &'a Options,
    built: &'a [Built],
    cores: Cores,
    nearest: f64,
    /// Time for waiting, and for runs that are tried again.
    spare: Duration,
    progress: Progress,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(options: &'a Options, built: &'a [Built], cores: Cores) -> Self {
        let total = estimate(options, built);
        let spare = if options.quick { Duration::ZERO } else { total / 10 };
        let progress = Progress { began: Instant::now(), total, terminal: stderr().is_terminal() };
        Self { options, built, cores, nearest: f64::INFINITY, spare, progress }
    }

    /// All scenarios, one after the other.
    pub(crate) fn run(&mut self) -> Result<Vec<Outcome>, String> {
        self.cores.stand_on_load()?;
        let mut outcomes: Vec<Outcome> = Vec::new();
        for scenario in &self.options.scenarios {
            let rate = match scenario.kind {
                Kind::HalfOf { scenario: base } => Some(self.best_rate(base, &outcomes)? / 2.0),
                _ => None,
            };
            let outcome = self.scenario(scenario, rate, rounds(self.options, scenario), self.options.time);
            self.progress.line(&summary(&outcome));
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// The most requests a second that any server did there; measured shortly if the scenario was not asked for.
    fn best_rate(&mut self, name: &str, outcomes: &[Outcome]) -> Result<f64, String> {
        let best = |outcome: &Outcome| {
            let rates = outcome.entries.iter().map(|entry| entry.median(|sample| sample.rate));
            rates.fold(0.0, f64::max)
        };
        let known = outcomes.iter().find(|outcome| outcome.scenario.name == name).map(best);
        let rate = known.unwrap_or_else(|| {
            let base = scenario::find(name).expect("a test looks at all of them");
            best(&self.scenario(base, None, 1, Duration::from_millis(300)))
        });
        if rate > 0.0 { Ok(rate) } else { Err(format!("no server answers in {name}")) }
    }

    fn scenario(
        &mut self,
        scenario: &'static Scenario,
        rate: Option<f64>,
        rounds: usize,
        time: Duration,
    ) -> Outcome {
        let built: Vec<&Built> = self.built.iter().filter(|built| built.peer.speaks(scenario.mode)).collect();
        let entry =
            |built: &&Built| Entry { peer: built.peer.name, samples: Vec::new(), failures: Vec::new() };
        let mut entries: Vec<Entry> = built.iter().map(entry).collect();
        let mut kept: HashMap<&str, Server> = HashMap::new();
        for round in 0..rounds {
            for turn in 0..built.len() {
                let at = (round + turn) % built.len();
                let (built, entry) = (built[at], &mut entries[at]);
                if entry.failures.len() >= FAILURES_MAX {
                    continue;
                }
                self.progress.show(scenario.name, round + 1, rounds, entry.peer);
                match self.sample(built, scenario, rate, time, &mut kept) {
                    Ok(sample) => entry.samples.push(Sample { round, ..sample }),
                    Err(why) => {
                        self.progress.line(&format!("{}, {}: {why}", scenario.name, entry.peer));
                        entry.failures.push(why);
                    }
                }
            }
        }
        Outcome { scenario, rate, entries }
    }

    /// One run that counts: a disturbed one is tried again if there is time.
    fn sample(
        &mut self,
        built: &Built,
        scenario: &Scenario,
        rate: Option<f64>,
        time: Duration,
        kept: &mut HashMap<&'static str, Server>,
    ) -> Result<Sample, String> {
        self.wait_while_apart();
        let start = Instant::now();
        let first = self.once(built, scenario, rate, time, kept)?;
        let took = start.elapsed();
        if !first.disturbed || self.spare < took {
            return Ok(first);
        }
        self.spare = self.spare.saturating_sub(took);
        let second = self.once(built, scenario, rate, time, kept)?;
        // Both disturbed: the one that others took less from.
        if second.disturbed && second.other > first.other { Ok(first) } else { Ok(second) }
    }

    fn wait_while_apart(&mut self) {
        let start = Instant::now();
        let limit = APART_MAX.min(self.spare);
        while start.elapsed() < limit && self.cores.distance() > self.nearest * FAR {
            thread::sleep(LOOK_EVERY);
        }
        self.spare = self.spare.saturating_sub(start.elapsed());
    }

    fn once(
        &mut self,
        built: &Built,
        scenario: &Scenario,
        rate: Option<f64>,
        time: Duration,
        kept: &mut HashMap<&'static str, Server>,
    ) -> Result<Sample, String> {
        let peer = built.peer;
        let (server, new) = match kept.remove(peer.name) {
            Some(server) => (server, false),
            None => {
                let command = built.command(scenario.mode, scenario.threads);
                (Server::start(command, &self.cores, scenario.threads)?, true)
            }
        };
        let warm_up = warm_up(self.options, new && peer.warms_up_slowly());
        let before = Reading::take(&server);
        let run = match scenario.kind {
            Kind::Idle { talk, connections } => idle(&server, talk, connections, scenario, warm_up),
            Kind::Http2 { .. } => http2(&server, scenario, peer, self.options.quick),
            _ => drive(&server, scenario, rate, warm_up, time),
        };
        let mut sample = match run {
            Ok(sample) => sample,
            Err(why) => return Err(format!("{why}{}", server.end())),
        };
        sample.other = before.other_since(&server);
        sample.distance = self.cores.distance();
        self.nearest = self.nearest.min(sample.distance);
        sample.disturbed = sample.other > OTHER_MAX || sample.distance > self.nearest * FAR;
        if peer.warms_up_slowly() {
            kept.insert(peer.name, server);
        }
        Ok(sample)
    }
}

/// What everybody had used when a run began.
struct Reading {
    time: Instant,
    machine: Duration,
    known: Duration,
}

impl Reading {
    fn take(server: &Server) -> Self {
        Self { time: Instant::now(), machine: machine::busy(), known: server.cpu() + machine::own_cpu() }
    }

    /// Cores that nobody of ours has used since.
    fn other_since(&self, server: &Server) -> f64 {
        let now = Self::take(server);
        let (machine, known) = (now.machine - self.machine, now.known.saturating_sub(self.known));
        machine.saturating_sub(known).as_secs_f64() / (now.time - self.time).as_secs_f64()
    }
}

fn drive(
    server: &Server,
    scenario: &Scenario,
    rate: Option<f64>,
    warm_up: Duration,
    time: Duration,
) -> Result<Sample, String> {
    let run = match scenario.kind {
        Kind::Churn { talk, connections } => {
            churn(server.address(), talk, connections, warm_up, || server.cpu())?;
            churn(server.address(), talk, connections, time, || server.cpu())?
        }
        _ => {
            let mut load = Load::connect(server.address(), shape(scenario, rate))?;
            load.run(warm_up, || server.cpu())?;
            load.run(time, || server.cpu())?
        }
    };
    figures(&run, server.resident())
}

/// A run of h2load, behind a short one.
fn http2(server: &Server, scenario: &Scenario, peer: &Peer, quick: bool) -> Result<Sample, String> {
    let Kind::Http2 { connections, streams, requests, path, post } = scenario.kind else {
        unreachable!("asked only for those")
    };
    if post && !system::takes_posts(peer.name) {
        return Err("takes no bodies".to_owned());
    }
    let requests = if quick { requests / 4 } else { requests };
    let ask = |requests| h2load::run(server.address(), connections, streams, requests, path, post);
    let warm_up = if peer.warms_up_slowly() { requests * 2 } else { requests / 10 };
    ask(warm_up.max(connections * streams))?;
    let before = server.cpu();
    let run = ask(requests)?;
    let cpu = (server.cpu() - before).as_secs_f64();
    Ok(Sample {
        round: 0,
        cpu_us: cpu * 1e6 / requests as f64,
        rate: requests as f64 / run.seconds,
        busy: cpu / run.seconds,
        p50_us: run.mean_us,
        p99_us: run.max_us,
        p999_us: run.max_us,
        resident: server.resident() as f64,
        per_connection: None,
        other: 0.0,
        distance: 0.0,
        disturbed: false,
    })
}

/// How the load of a scenario looks.
fn shape(scenario: &Scenario, rate: Option<f64>) -> Shape {
    let base = match scenario.kind {
        Kind::HalfOf { scenario } => scenario::find(scenario).expect("a test looks at all of them").kind,
        kind => kind,
    };
    let Kind::Steady { talk, connections, depth } = base else {
        unreachable!("idle and churn have loads of their own")
    };
    let tls = scenario.mode == crate::roster::Mode::Https;
    Shape { talk, tls, connections, depth, rate, sleeps: scenario.threads > 1 }
}

fn figures(run: &Run, resident: u64) -> Result<Sample, String> {
    let mut slices: Vec<&Slice> = run.slices.iter().filter(|slice| slice.requests > 0).collect();
    if slices.len() < SLICES_MIN {
        slices = vec![&run.whole]; // a short run, or a server that hardly answers
    }
    if run.whole.requests == 0 {
        return Err("not one answer".to_owned());
    }
    Ok(Sample {
        round: 0,
        cpu_us: median(slices.iter().map(|slice| slice.cpu.as_secs_f64() * 1e6 / slice.requests as f64)),
        rate: median(slices.iter().map(|slice| slice.requests as f64 / slice.seconds)),
        busy: median(slices.iter().map(|slice| slice.cpu.as_secs_f64() / slice.seconds)),
        p50_us: run.latency.us_at(0.5),
        p99_us: run.latency.us_at(0.99),
        p999_us: run.latency.us_at(0.999),
        resident: resident as f64,
        per_connection: None,
        other: 0.0,
        distance: 0.0,
        disturbed: false,
    })
}

/// Resident memory before and after many connections with one exchange each.
fn idle(
    server: &Server,
    talk: Talk,
    connections: usize,
    scenario: &Scenario,
    warm_up: Duration,
) -> Result<Sample, String> {
    let shape = Shape { talk, tls: false, connections: FIRST, depth: 1, rate: None, sleeps: false };
    debug_assert!(scenario.threads == 1);
    let run = Load::connect(server.address(), shape)?
        .run(warm_up.max(Duration::from_millis(200)), || server.cpu())?;
    let before = server.resident_at_rest();
    let held = hold(server.address(), talk, connections)?;
    let after = server.resident_at_rest();
    let each = after.saturating_sub(before) as f64 / held.len() as f64;
    let sample = figures(&run, after)?;
    Ok(Sample { per_connection: Some(each), ..sample })
}

fn warm_up(options: &Options, slow: bool) -> Duration {
    Duration::from_millis(match (options.quick, slow) {
        (true, false) => 120,
        (true, true) => 2_000,
        (false, false) => 300,
        (false, true) => 6_000,
    })
}

fn rounds(options: &Options, scenario: &Scenario) -> usize {
    match scenario.kind {
        Kind::Idle { .. } => options.rounds.div_ceil(2), // memory varies little
        _ => options.rounds,
    }
}

/// How long all of it will take, but for runs that are tried again.
pub(crate) fn estimate(options: &Options, built: &[Built]) -> Duration {
    const START: Duration = Duration::from_millis(120);
    const IDLE: Duration = Duration::from_millis(2_000);
    const H2LOAD: Duration = Duration::from_millis(1_000);
    let of = |scenario: &&&Scenario| {
        let speakers = built.iter().filter(|built| built.peer.speaks(scenario.mode));
        let each = speakers.map(|built| {
            let run = match scenario.kind {
                Kind::Idle { .. } => IDLE,
                Kind::Http2 { .. } => START + H2LOAD,
                _ => START + warm_up(options, false) + options.time,
            };
            let once = if built.peer.warms_up_slowly() { warm_up(options, true) } else { Duration::ZERO };
            run * rounds(options, scenario) as u32 + once
        });
        each.sum::<Duration>()
    };
    options.scenarios.iter().map(|scenario| of(&scenario)).sum()
}

fn summary(outcome: &Outcome) -> String {
    let failed = outcome.entries.iter().filter(|entry| entry.samples.is_empty()).count();
    let samples = outcome.entries.iter().flat_map(|entry| &entry.samples);
    let disturbed = samples.clone().filter(|sample| sample.disturbed).count();
    format!(
        "{}: {} servers, {failed} failed; {} runs, {disturbed} disturbed",
        outcome.scenario.name,
        outcome.entries.len(),
        samples.count()
    )
}

/// What is being done, on one line of a terminal; in a file only what has been done.
struct Progress {
    began: Instant,
    total: Duration,
    terminal: bool,
}

impl Progress {
    fn show(&self, scenario: &str, round: usize, rounds: usize, peer: &str) {
        if self.terminal {
            eprint!("\r\x1b[K{} {scenario}, round {round} of {rounds}: {peer}", self.share());
            let _ = stderr().flush();
        }
    }

    fn line(&self, text: &str) {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        eprintln!("{clear}{} {text}", self.share());
    }

    fn share(&self) -> String {
        let share = self.began.elapsed().as_secs_f64() / self.total.as_secs_f64().max(0.001);
        format!("[{:>3.0} %]", (share * 100.0).min(99.0))
    }
}
