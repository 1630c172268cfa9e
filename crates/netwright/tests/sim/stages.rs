//! Every kind of last stage against every kind of end of its connection, at every moment.
//!
//! ```text
//!   a kind of last stage     one function in `last/`, one test here
//!     ×  a moment            how far a connection is: `moments`
//!     ×  an end              who ends it and how: `ends`
//!     ×  what is in between  who panics, pauses from outside, is told or closed with others: `slips`, `outside`
//!     ×  links and systems   how far, how slow, how bad; how small the buffers: `draw`
//!     =  a run               several connections at once, all drawn by its seed
//! ```
//! | what must hold | where it is looked at |
//! | --- | --- |
//! | each stage hears `active`, then messages, then `inactive` and `removed`, once each | `record` |
//! | the channel ends by itself if it has to, and the cause fits how it ended | `line`, `ends` |
//! | every tracked write is told what became of it | `line` |
//! | a panic ends its channel and nothing else, and nobody is called behind it but to be told | `record`, `line` |
//! | a group loses its members with their ends, and tells of each what became of a message | `outside` |
//! | a server whose host has crashed serves again when that is back | `visit` |
//! | what was told to be sent before an orderly end has come; each answer once, in order, byte by byte | `record`, `line` |
//! | nothing is left, nothing is lost, nothing spins | the simulation |

mod draw;
mod ends;
mod last;
mod line;
mod moments;
mod outside;
mod peer;
mod record;
mod slips;
mod visit;
mod wire;

use draw::Draw;
use ends::ServerEnd;
use last::{Bye, Last, Set};
use line::{Line, Script};
use moments::Moment;
use netwright::{
    Server, Workers,
    channel::{LeastRate, WaterMarks},
    options::StreamOptions,
    server::ServerBuilder,
};
use netwright_testkit::sim::{Host, Sim, SimBuilder, for_seeds_with};
use outside::Room;
use record::Record;
use slips::ON_PURPOSE;
use std::{net::IpAddr, num::NonZeroUsize, time::Duration};

/// So many seeds take some two seconds of one core for each test, in a debug build.
const SEEDS: u64 = 300;

/// How much of a run that fails is shown.
const LINES: usize = 150;

/// How long what has lost its channel takes to end.
const SETTLING: Duration = Duration::from_secs(10);

macro_rules! tests {
    ($($name:ident: $last:ident;)+) => { $(
        #[test]
        fn $name() {
            let settings = |builder: SimBuilder| builder.trace_lines(LINES).allow_panics_with(ON_PURPOSE);
            for_seeds_with(0..SEEDS, settings, |sim| connections(sim, &last::$last));
        }
    )+ };
}

tests! {
    an_application_meets_every_end_at_every_moment: APPLICATION;
    a_closure_meets_every_end_at_every_moment: CLOSURE;
    an_async_function_meets_every_end_at_every_moment: ASYNC_FUNCTION;
    the_halves_of_an_async_function_meet_every_end_at_every_moment: HALVES;
    a_service_meets_every_end_at_every_moment: SERVICE;
    a_stage_on_workers_meets_every_end_at_every_moment: STAGE_ON_WORKERS;
    an_application_on_workers_meets_every_end_at_every_moment: APPLICATION_ON_WORKERS;
    a_segment_that_is_exchanged_meets_every_end_at_every_moment: JOINT;
    a_sealed_segment_meets_every_end_at_every_moment: SEALED;
    children_meet_every_end_at_every_moment: CHILDREN;
}

/// A server with this last stage, several clients, and the ends of them all.
fn connections(sim: &Sim, last: &Last) {
    let draw = Draw(sim);
    let server_host = sim.host("server");
    server_host.limit(|limits| draw.limits(limits));
    server_host.cores(1 + draw.below(3) as usize);
    let clients = 1 + draw.below(4);
    let hosts: Vec<Host> = (0..clients).map(|number| sim.host(&format!("client{number}"))).collect();
    let mut losses = Vec::new();
    for host in &hosts {
        host.limit(|limits| draw.limits(limits));
        let (there, back) = (draw.link(), draw.link());
        losses.push(there.loss > 0.0);
        sim.link_one_way(host, &server_host, there);
        sim.link_one_way(&server_host, host, back);
    }
    let records: Vec<Record> = hosts.iter().map(|_| Record::default()).collect();
    let by_address =
        |(host, record): (&Host, &Record)| -> (IpAddr, Record) { (host.address(), record.clone()) };
    let records_by_address = hosts.iter().zip(&records).map(by_address).collect();
    let workers = server_host.enter(|| Workers::new(1 + draw.below(3) as usize)).unwrap();
    let set = Set {
        records: records_by_address,
        workers,
        pause: draw.millis(300),
        work: draw.one_in(3).then(|| draw.millis(5)),
        bye: draw.one_of(&[Bye::WhenFlushed, Bye::WhenFlushed, Bye::AtOnce, Bye::OutputFirst]),
        half_closure: draw.one_in(2),
        concurrency: NonZeroUsize::new(1 + draw.below(4) as usize).unwrap(),
        hold: draw.one_in(4).then(|| draw.millis(3)),
        exchange_at: draw.below(6) as u32,
    };
    let hears_of_half_closure = set.half_closure;
    sim.note(format_args!(
        "half closure: {}, exchange at {}, hold: {:?}, {:?}",
        set.half_closure, set.exchange_at, set.hold, set.bye
    ));
    let (builder, resets) = builder(&draw);
    let again = set.clone();
    let mut server: Option<Server> = Some(server_host.enter(|| (last.serve)(builder, set).wait()).unwrap());

    let moments: Vec<Moment> =
        Moment::ALL.into_iter().filter(|moment| last.closes || *moment != Moment::BehindAClose).collect();
    let mut lines: Vec<Line<'_>> = hosts
        .iter()
        .zip(&records)
        .zip(losses)
        .map(|((host, record), loses)| {
            let script = Script::draw(&draw, &moments);
            let mut line = Line::begin(sim, &draw, &server_host, host.clone(), script, record.clone());
            line.hears_of_half_closure = hears_of_half_closure;
            line.loses = loses;
            line
        })
        .collect();
    let mut room = Room::draw(sim, &draw);
    let mut server_end = draw.one_in(3).then(|| ServerEnd::draw(sim, &draw));
    let mut back: Option<Duration> = None;
    loop {
        let due = lines.iter().filter(|line| !line.is_over()).map(Line::due).min();
        let Some(due) = due.into_iter().chain(back).min() else { break };
        let others = [server_end.as_ref().map(|end| end.at), room.due()];
        let due = others.into_iter().flatten().fold(due, Duration::min);
        sim.run_until(due.saturating_sub(sim.now()), || lines.iter().any(Line::has_news));
        lines.iter_mut().for_each(|line| line.step(sim));
        room.go_on(sim, &mut lines);
        if let Some(end) = server_end.take_if(|end| end.at <= sim.now()) {
            back = end.happen(&server_host, &mut server);
            lines.iter_mut().for_each(|line| line.server_ends = true);
            lines.iter_mut().for_each(|line| line.host_ends = back.is_some());
        }
        if back.take_if(|at| *at <= sim.now()).is_some() {
            server_host.restart().unwrap();
            server = Some(visit::returns(sim, &draw, &server_host, last, &again));
        }
    }
    if let Some(server) = &server {
        server_host.enter(|| server.shutdown_now().wait()).unwrap();
    }
    sim.run_for(SETTLING); // what children and workers have under way
    lines.iter_mut().for_each(Line::let_go);
    server_host.enter(|| drop((server, again)));
    room.check(sim, &lines);
    for line in &lines {
        line.check(last, resets);
        tell_faults(sim, line);
    }
}

fn tell_faults(sim: &Sim, line: &Line<'_>) {
    let faults = line.record.take_faults();
    if !faults.is_empty() {
        sim.violation(format!("{}: {}\n  {:?}", line.host.name(), faults.join("\n  "), line.script));
    }
}

/// A server's settings; true if it resets what it closes.
fn builder(draw: &Draw<'_>) -> (ServerBuilder, bool) {
    let high = draw.one_of(&[200, 4_000, 64 * 1024]);
    let mut builder = Server::builder()
        .water_marks(WaterMarks::new(high / 2, high).unwrap())
        .hold_back(!draw.one_in(4))
        .forsaken_after(Duration::from_secs(30)); // an answer of 30 kB through a window of 500 bytes that loses some (seed 5322)
    if draw.one_in(4) {
        builder = builder.least_rate(LeastRate::new(1_000, Duration::from_secs(5)).unwrap());
    }
    let mut resets = false;
    if draw.one_in(4) {
        let time = Duration::from_secs(draw.below(4));
        builder = builder.options(StreamOptions::new().linger(time));
        resets = true; // at once, or when that time is over
    }
    (builder, resets)
}
