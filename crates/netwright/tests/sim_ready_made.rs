//! Ready-made stages together in a simulated network: nothing is lost before an end, every end has its cause, and nobody is cut by a limit that was not reached.
//!
//! ```text
//!   client ── Reconnect ──┬───────────────────────────────────────▶ Admission ── ProxyProtocol ── ReadTimeout ── WriteTimeout ── Idle ── Lifetime ── echo
//!                         └──▶ front: Relay ── SendProxyHeader ────▶    └ per address        each of them is there in some runs ┘
//! ```
//! `NETWRIGHT_SIM_SEEDS=100000` takes more seeds, `NETWRIGHT_SIM_SEED=17` takes one.

use bytes::BytesMut;
use netwright::{
    Client, CloseCause, Observer, Outgoing, Server, WriteError,
    codec::{LineFrames, Utf8},
    event_loops,
    handler::{
        Backoff, Idle, IdleKind, Lifetime, LifetimeOver, ProxyHeader, ProxyProtocol, ProxyProtocolError,
        ReadTimeout, Reconnect, ReconnectError, ReconnectEvent, Relay, SendProxyHeader, TrustedNetworks,
        WriteTimeout,
    },
    pipeline,
    pipeline::observe,
    server::{Accepted, Admission, BindError},
    testing::world,
    time,
};
use netwright_testkit::sim::{FaultPlan, Host, Link, Sim, for_seeds};
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long clients write.
const WRITES: u64 = 6_000;
/// A kept time may differ from a seen one by so much: times are kept in milliseconds.
const GRAIN: Duration = Duration::from_millis(2);
/// Lines of one client.
const LINES_MAX: usize = 300;
/// A line, its number and its padding.
const LINE_MAX: usize = 4_000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn one_in(sim: &Sim, many: u64) -> bool {
    sim.below(many) == 0
}

/// What the server's stages keep to. No two limits are equal, so an end names its limit.
#[derive(Clone, Debug)]
struct Terms {
    read: Option<Duration>,
    write: Option<Duration>,
    idle: [Option<Duration>; 3],
    lifetime: Option<[Duration; 2]>,
    per_address: Option<usize>,
}

fn draw_terms(sim: &Sim) -> Terms {
    // One of ten numbers at the end says whose limit it is.
    let limit = |whose: u64| one_in(sim, 3).then(|| millis((30 + sim.below(300)) * 10 + whose));
    Terms {
        read: limit(1),
        write: limit(2),
        idle: [3, 4, 5].map(limit),
        lifetime: one_in(sim, 3).then(|| [millis(500 + sim.below(4_000)), millis(sim.below(800))]),
        per_address: one_in(sim, 3).then(|| 1 + sim.below(3) as usize),
    }
}

/// A connection, as the server sees it next to the wire.
#[derive(Debug)]
struct Seen {
    wire: IpAddr,
    began: Instant,
    read: Instant,
    wrote: Instant,
    /// A stage has closed it. What was held back is answered then, but that is not sent any more (seed 90).
    closed: Option<Instant>,
    ended: Option<(CloseCause, Instant)>,
    /// The server's host was killed, and is there again.
    gone: bool,
    lines: Vec<u64>,
}

/// All that is known, outside of the hosts.
#[derive(Default)]
struct Known {
    seen: Vec<Seen>,
    /// Of each client and each of its connections: which one of the server's it is, and what came back.
    heard: BTreeMap<(u64, u64), (Option<usize>, Vec<u64>)>,
    /// Of each client's connections that have ended.
    lost: Vec<(u64, CloseCause, Instant)>,
    refused: Vec<u64>,
    sent: Vec<u64>,
    /// Clients whose messages have all got an answer.
    told: u64,
    wrong: Vec<String>,
}

impl Known {
    /// Nothing has ended, and something is still on its way.
    fn waits(&self) -> bool {
        let came: usize = self.seen.iter().map(|seen| seen.lines.len()).sum();
        let back: usize = self.heard.values().map(|(_, lines)| lines.len()).sum();
        self.seen.iter().all(|seen| seen.ended.is_none()) && (came < self.sent.len() || back < came)
    }
}

#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Known>>);

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sees a connection of the server, in front of all stages.
struct Watch {
    number: usize,
    ledger: Ledger,
}

impl Watch {
    fn begin(ledger: &Ledger, accepted: &Accepted, terms: &Terms) -> Self {
        let (wire, now) = (accepted.peer.ip().unwrap().ip(), time::now());
        let mut known = ledger.lock();
        let is_open = |seen: &&Seen| seen.wire == wire && seen.ended.is_none() && !seen.gone;
        let open = known.seen.iter().filter(is_open).count();
        if terms.per_address.is_some_and(|most| open >= most) {
            known.wrong.push(format!("{wire} has {open} connections, and one more is let in: {terms:?}"));
        }
        known.seen.push(Seen {
            wire,
            began: now,
            read: now,
            wrote: now,
            closed: None,
            ended: None,
            gone: false,
            lines: Vec::new(),
        });
        Self { number: known.seen.len() - 1, ledger: ledger.clone() }
    }

    fn with(&self, f: impl FnOnce(&mut Seen)) {
        f(&mut self.ledger.lock().seen[self.number]);
    }
}

impl Observer for Watch {
    type Read = BytesMut;
    type Write = Outgoing;

    fn sees_read(&mut self, _: &BytesMut) {
        self.with(|seen| seen.read = time::now());
    }
    fn sees_write(&mut self, _: &Outgoing) {
        self.with(|seen| {
            if seen.closed.is_none() {
                seen.wrote = time::now();
            }
        });
    }
    fn sees_close(&mut self, _: &CloseCause) {
        self.with(|seen| seen.closed = seen.closed.or_else(|| Some(time::now())));
    }
    fn sees_inactive(&mut self, cause: &CloseCause) {
        self.with(|seen| seen.ended = Some((cause.clone(), time::now())));
    }
}

/// Says each line again, and in front of it whose it is and on which connection it came.
fn server(terms: &Terms, ledger: &Ledger) -> Result<Server, BindError> {
    let (terms, ledger) = (terms.clone(), ledger.clone());
    ledger.lock().seen.iter_mut().for_each(|seen| seen.gone = true);
    let mut admission = Admission::new();
    if let Some(most) = terms.per_address {
        admission = admission.per_address(most);
    }
    Server::builder()
        .admission(admission)
        .pipeline(move |accepted| {
            let watch = Watch::begin(&ledger, accepted, &terms);
            let (number, ledger) = (watch.number, ledger.clone());
            let limit = |limit: Option<Duration>| limit.unwrap_or_default();
            let idle = Idle::read(limit(terms.idle[0]))
                .and(IdleKind::Write, limit(terms.idle[1]))
                .and(IdleKind::All, limit(terms.idle[2]));
            let [age, grace] = terms.lifetime.unwrap_or_default();
            pipeline()
                .add(observe(watch))
                .filter(ProxyProtocol::from(TrustedNetworks::everyone()))
                .filter(ReadTimeout::after(limit(terms.read)))
                .filter(WriteTimeout::after(limit(terms.write)))
                .filter(idle.closing())
                .filter(Lifetime::of(age).grace(grace))
                .add(LineFrames::max(LINE_MAX))
                .add(Utf8::strict())
                .handle(move |cx, line: String| {
                    let id = line.split(' ').next().unwrap().parse().unwrap();
                    ledger.lock().seen[number].lines.push(id);
                    let client = cx.view().peer_addr().unwrap().ip();
                    cx.write_and_flush(format!("{client} {number} {line}"));
                })
        })
        .bind("0.0.0.0:7")
        .wait()
}

/// Passes on to the server, and says for whom.
fn front() -> Result<Server, BindError> {
    let loops = event_loops(1).unwrap();
    let group = loops.clone();
    let stages = move |accepted: &Accepted| {
        let (client, loops) = (accepted.peer.clone(), loops.clone());
        let relay = Relay::connecting(move |other| {
            let header = ProxyHeader::new(client.clone(), "10.9.9.9:7".parse().unwrap());
            let stages = move || {
                let first = SendProxyHeader::v2(&header).unwrap();
                pipeline().filter(first).app(other.stage())
            };
            Ok(Client::builder().group(loops).pipeline(stages)?.connect("server:7"))
        });
        pipeline().app(relay)
    };
    Server::builder().group(group).pipeline(stages).bind("0.0.0.0:8").wait()
}

/// What one client does.
#[derive(Clone, Debug)]
struct Plan {
    number: u64,
    through_front: bool,
    max_waiting: usize,
    /// Before each line, and how long it is.
    lines: Vec<(Duration, usize)>,
    /// It reads nothing for so long when it has read so many lines of a connection.
    stalls: Option<(u64, Duration)>,
    /// It gives a silent server up.
    patience: Option<Duration>,
}

fn draw_plan(sim: &Sim, number: u64) -> Plan {
    let stalls = one_in(sim, 3).then(|| (1 + sim.below(20), millis(sim.below(8_000))));
    // Who is to be stuck is told much.
    let (pause, len) = if stalls.is_some() || one_in(sim, 6) { (60, 3_500) } else { (600, 100) };
    let pause = 1 + sim.below(pause);
    let mut left = WRITES;
    let mut lines = Vec::new();
    while lines.len() < LINES_MAX {
        let pause = if one_in(sim, 20) { sim.below(4_000) } else { sim.below(pause) };
        let Some(rest) = left.checked_sub(pause + 1) else { break };
        left = rest;
        lines.push((millis(pause), sim.below(len) as usize));
    }
    Plan {
        number,
        through_front: one_in(sim, 2),
        max_waiting: [0, 3, 1_000][sim.below(3) as usize],
        lines,
        stalls,
        patience: one_in(sim, 5).then(|| millis((40 + sim.below(400)) * 10 + 9)),
    }
}

/// Numbers of all clients' messages.
fn id(client: u64, message: usize) -> u64 {
    client * 1_000 + message as u64
}

/// What comes back on one connection of a client.
fn heard(ledger: &Ledger, plan: &Plan, connection: u64, me: IpAddr, line: &str) {
    let mut words = line.split(' ');
    let (from, number, id) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let (number, id) = (number.parse::<usize>().unwrap(), id.parse().unwrap());
    let mut known = ledger.lock();
    if from != me.to_string() {
        known.wrong.push(format!("{me} is taken for {from}"));
    }
    let (server, lines) = known.heard.entry((plan.number, connection)).or_default();
    let differs = *server.get_or_insert(number) != number;
    lines.push(id);
    if differs {
        known.wrong.push(format!("a connection of {me} hears of another one: {line:.40}"));
    }
}

fn client(host: &Host, plan: &Plan, ledger: &Ledger) -> Result<Reconnect<String>, String> {
    let (me, counter) = (host.address(), Mutex::new(0));
    let (books, work) = (ledger.clone(), plan.clone());
    let stages = move || {
        let connection = {
            let mut counter = counter.lock().unwrap();
            *counter += 1;
            *counter
        };
        let (ledger, plan, mut lines) = (books.clone(), work.clone(), 0);
        let first = if plan.through_front { None } else { Some(SendProxyHeader::itself_v1()) };
        pipeline()
            .filter_if(first)
            .filter(ReadTimeout::after(plan.patience.unwrap_or_default()))
            .add(LineFrames::max(LINE_MAX + 100))
            .add(Utf8::strict())
            .handle(move |cx, line: String| {
                heard(&ledger, &plan, connection, me, &line);
                lines += 1;
                if let Some((after, time)) = plan.stalls
                    && lines == after
                {
                    cx.pause();
                    cx.schedule(time, |_, cx| cx.resume());
                }
            })
    };
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let client = Client::builder().pipeline(stages).map_err(|error| told(&error))?;
    let (books, number) = (ledger.clone(), plan.number);
    let reconnect = Reconnect::to(&client, if plan.through_front { "front:8" } else { "server:7" })
        .backoff(Backoff::new(millis(20), millis(300)))
        .max_waiting(plan.max_waiting)
        .observe(move |event| {
            if let ReconnectEvent::Lost { cause, .. } = event {
                books.lock().lost.push((number, cause.clone(), time::now()));
            }
        })
        .start()
        .map_err(|error| told(&error))?;
    let (plan, ledger, handle) = (plan.clone(), ledger.clone(), reconnect.clone());
    let writing = async move {
        let mut sent = Vec::new();
        for (message, (pause, len)) in plan.lines.iter().enumerate() {
            time::sleep(*pause).await;
            let id = id(plan.number, message);
            sent.push((id, handle.send(format!("{id} {}", "x".repeat(*len)))));
        }
        for (id, sent) in sent {
            match sent.await {
                Ok(()) => ledger.lock().sent.push(id),
                Err(WriteError::Fault(fault)) if fault.downcast_ref::<ReconnectError>().is_some() => {
                    ledger.lock().refused.push(id);
                }
                Err(_) => {}
            }
        }
        ledger.lock().told += 1;
    };
    let _ = host.spawn(writing).map_err(|error| told(&error))?;
    Ok(reconnect)
}

/// What may be, besides what stages do by themselves.
struct Weather {
    faults: bool,
    /// Something may come late.
    late: bool,
    stalls: bool,
    /// Clients leave by themselves.
    leaves: bool,
}

/// Whether this end may be, of what was seen of the connection.
fn explain(seen: &Seen, terms: &Terms, weather: &Weather, stopped: Option<Instant>) -> Result<(), String> {
    let Some((cause, at)) = &seen.ended else {
        return if weather.faults { Ok(()) } else { Err("it has no end".to_owned()) };
    };
    let by_others = weather.faults || weather.leaves || stopped.is_some_and(|stopped| *at >= stopped);
    let since = |then: Instant| seen.closed.unwrap_or(*at).duration_since(then) + GRAIN;
    let reached = |time: Duration, limit: Duration| {
        if time >= limit { Ok(()) } else { Err(format!("{limit:?} are not over after {time:?}: {cause}")) }
    };
    match cause {
        CloseCause::TimedOut(limit) => {
            let is = |one: Option<Duration>| one == Some(*limit);
            if is(terms.read) || is(terms.idle[0]) {
                reached(since(seen.read), *limit)
            } else if is(terms.idle[1]) {
                reached(since(seen.wrote), *limit)
            } else if is(terms.idle[2]) {
                reached(since(seen.wrote.max(seen.read)), *limit)
            } else if is(terms.write) && (weather.faults || weather.late || weather.stalls) {
                reached(since(seen.began), *limit)
            } else {
                Err(format!("nobody has this limit, or nobody was stuck: {cause}"))
            }
        }
        CloseCause::Fault(fault) if fault.downcast_ref::<LifetimeOver>().is_some() => {
            let [age, grace] = terms.lifetime.ok_or("nobody has a lifetime")?;
            reached(since(seen.began), age.mul_f64(0.9) + grace)
        }
        CloseCause::Fault(fault) => match fault.downcast_ref() {
            Some(ProxyProtocolError::TooLate { .. }) if weather.faults || weather.late => Ok(()),
            Some(ProxyProtocolError::Cut { .. }) if by_others => Ok(()),
            _ => Err(format!("not expected: {cause}")),
        },
        CloseCause::PeerClosed | CloseCause::Io(_) | CloseCause::Requested if by_others => Ok(()),
        CloseCause::ShutDown if weather.faults => Ok(()),
        _ => Err(format!("not expected: {cause}")),
    }
}

/// Looks at all that is known.
fn judge(sim: &Sim, known: &Known, plans: &[Plan], terms: &Terms, weather: &Weather, stopped: Instant) {
    known.wrong.iter().for_each(|wrong| sim.violation(wrong.clone()));
    for seen in &known.seen {
        if let Err(why) = explain(seen, terms, weather, Some(stopped)) {
            sim.violation(format!("{why}: {seen:?} {terms:?}"));
        }
        if !seen.lines.is_sorted() {
            sim.violation(format!("not in order: {:?}", seen.lines));
        }
    }
    for (client, cause, at) in known.lost.iter().filter(|(_, _, at)| !weather.faults && *at < stopped) {
        let ended = |seen: &Seen| seen.closed.or(seen.ended.as_ref().map(|(_, then)| *then));
        let explained = match cause {
            CloseCause::TimedOut(limit) => plans[*client as usize].patience == Some(*limit),
            CloseCause::PeerClosed | CloseCause::Io(_) => {
                terms.per_address.is_some() || known.seen.iter().filter_map(ended).any(|then| then <= *at)
            }
            _ => false,
        };
        if !explained {
            sim.violation(format!("client {client} has lost its connection: {cause}"));
        }
    }
    let mut times = BTreeMap::<u64, u32>::new();
    for id in known.seen.iter().flat_map(|seen| &seen.lines) {
        *times.entry(*id).or_default() += 1;
    }
    for (id, times) in &times {
        if *times > 1 || known.refused.contains(id) {
            sim.violation(format!("{id} came {times} times, refused: {}", known.refused.contains(id)));
        }
    }
    for ((client, _), (server, lines)) in &known.heard {
        let Some(seen) = server.map(|server| &known.seen[server]) else { continue };
        if !seen.lines.starts_with(lines) {
            sim.violation(format!("client {client} was told {lines:?} of {:?}", seen.lines));
        }
        // Who was not cut before the stop has heard all.
        let stands = seen.ended.as_ref().is_none_or(|(_, at)| *at >= stopped);
        let calm = !weather.faults && !weather.late && !weather.stalls && !weather.leaves;
        if stands && calm && lines.len() != seen.lines.len() {
            sim.violation(format!("client {client} was told {} of {} lines", lines.len(), seen.lines.len()));
        }
    }
    if known.told != plans.len() as u64 {
        sim.violation(format!("{} of {} clients have got an answer", known.told, plans.len()));
    }
    // Nobody was cut, let down or refused: everything has come.
    let nothing_ends = known.seen.iter().all(|seen| seen.ended.as_ref().is_none_or(|(_, at)| *at >= stopped))
        && terms.per_address.is_none();
    if !weather.faults && !weather.leaves && nothing_ends {
        for id in known.sent.iter().filter(|id| !times.contains_key(id)) {
            sim.violation(format!("{id} was sent and has not come"));
        }
    }
    let ended = known.seen.iter().filter(|seen| seen.ended.as_ref().is_some_and(|(_, at)| *at < stopped));
    sim.note(format_args!(
        "{} lines came of {}, on {} connections, {} ended before, {} refused",
        times.len(),
        plans.iter().map(|plan| plan.lines.len()).sum::<usize>(),
        known.seen.len(),
        ended.count(),
        known.refused.len()
    ));
}

fn ready_made(sim: &Sim) {
    let mut link =
        Link::default().latency(Duration::from_micros(50 + sim.below(30_000))).jitter(millis(sim.below(10)));
    let loses = one_in(sim, 4);
    if loses {
        link = link.loss(sim.below(8) as f64 / 100.0);
    }
    sim.link(link);
    let (terms, ledger) = (draw_terms(sim), Ledger::default());
    let plans: Vec<Plan> = (0..1 + sim.below(4)).map(|number| draw_plan(sim, number)).collect();
    let names = ["server".to_owned(), "front".to_owned()];
    let names = names.into_iter().chain(plans.iter().map(|plan| format!("client{}", plan.number)));
    let hosts: Vec<Host> = names.map(|name| sim.host(&name)).collect();
    for host in &hosts {
        let [send, receive] =
            [0, 1].map(|_| 1_000 + sim.below(if one_in(sim, 3) { 60_000 } else { 5_000 }) as usize);
        let (short_sends, short_receives) = (sim.below(50) as f64 / 100.0, sim.below(50) as f64 / 100.0);
        host.limit(|limits| {
            (limits.send_buffer, limits.receive_buffer) = (send, receive);
            (limits.short_sends, limits.short_receives) = (short_sends, short_receives);
        });
        host.cores(1 + sim.below(2) as usize);
    }
    let (served, agreed) = (ledger.clone(), terms.clone());
    hosts[0].start(move || server(&agreed, &served)).unwrap();
    hosts[1].start(front).unwrap();
    let weather = Weather {
        faults: one_in(sim, 2),
        late: loses,
        stalls: plans.iter().any(|plan| plan.stalls.is_some()),
        leaves: plans.iter().any(|plan| plan.patience.is_some()),
    };
    if weather.faults {
        let plan = FaultPlan::new(millis(WRITES)).lasting(millis(5)..=millis(2_000));
        sim.draw_faults(&plan.only(&["server", "front"]).crashes(0).kills(sim.below(2) as u32));
    }
    let mut begun = Vec::new();
    for (host, plan) in hosts[2..].iter().zip(&plans) {
        begun.push(host.enter(|| client(host, plan, &ledger)).unwrap());
    }
    sim.run_for(millis(WRITES + 10_000)); // and what was late has come
    let calm = !weather.faults && !weather.leaves && terms.per_address.is_none();
    for _ in 0..300 {
        if !calm || !ledger.lock().waits() {
            break;
        }
        sim.run_for(millis(1_000)); // much through small windows, seed 4735
    }
    let stopped = hosts[0].enter(world::now);
    for (host, reconnect) in hosts[2..].iter().zip(&begun) {
        host.enter(|| drop(reconnect.stop()));
    }
    if !sim.run_until(millis(600_000), || ledger.lock().told == plans.len() as u64) {
        sim.violation("somebody waits for what was sent");
    }
    sim.run_for(millis(300_000)); // until those are given up of whom nobody has heard
    for (host, reconnect) in hosts[2..].iter().zip(begun) {
        host.enter(|| drop(reconnect));
    }
    judge(sim, &ledger.lock(), &plans, &terms, &weather, stopped);
}

#[test]
fn ready_made_stages_end_whom_they_should_and_lose_nothing_before() {
    // Some seconds of one core in a debug build.
    for_seeds(0..150, ready_made);
}

#[test]
fn ready_made_stages_are_determined_by_the_seed() {
    let (first, second) = (for_seeds(0..30, ready_made), for_seeds(0..30, ready_made));
    assert!(first == second, "a seed does not say everything");
}
