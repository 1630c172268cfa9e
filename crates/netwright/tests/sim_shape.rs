//! Rates and faults in a simulated network: what is said comes back whole and in order, or as much of it as came before a fault, and every promise ends.
//!
//! ```text
//!   client ── Chaos ── Shape ══ link, faults ══ Chaos ── Shape (own, per address, together) ── echo
//! ```
//! `NETWRIGHT_SIM_SEEDS=100000` takes more seeds, `NETWRIGHT_SIM_SEED=17` takes one.

use bytes::{Bytes, BytesMut};
use netwright::{
    Client, CloseCause, Outgoing, Peer, Server,
    handler::{
        Chaos, Shape,
        chaos::{Chance, Faults},
        shape::{Bucket, Buckets, Rate},
    },
    pipeline,
    server::BindError,
    time,
};
use netwright_testkit::sim::{FaultPlan, Host, Link, Sim, for_seeds};
use std::{
    collections::VecDeque,
    future::poll_fn,
    net::IpAddr,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

fn one_in(sim: &Sim, many: u64) -> bool {
    sim.below(many) == 0
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Bytes that belong to a number, and to no other.
fn content(id: u64, len: usize) -> Bytes {
    (0..len as u64).map(|at| (at.wrapping_mul(id * 2 + 1) >> 3) as u8).collect::<Vec<_>>().into()
}

/// One conversation.
#[derive(Clone, Debug)]
struct Talk {
    id: u64,
    len: usize,
    piece: usize,
    pause: Duration,
    reads_after: Duration,
    chaos: Chaos,
    rates: [Option<u64>; 2],
}

/// A fast network with slow parts.
fn draw_rate(sim: &Sim) -> u64 {
    [2_000, 20_000, 200_000, 5_000_000][sim.below(4) as usize] + sim.below(1_000)
}

fn draw_chaos(sim: &Sim, breaks: bool) -> Chaos {
    let faults = || {
        let mut faults = Faults::default();
        faults.latency = micros(sim.below(2) * sim.below(50_000));
        faults.jitter = micros(sim.below(2) * sim.below(30_000));
        if one_in(sim, 3) {
            faults.rate = Rate::try_from(draw_rate(sim)).unwrap();
        }
        if one_in(sim, 2) {
            faults.split = Some(1 + sim.below(3_000) as u32);
        }
        if one_in(sim, 3) {
            faults.buffer = 1 + sim.below(20_000);
        }
        if breaks && one_in(sim, 3) {
            faults.cut = Chance::per_million(sim.below(20_000) as u32).unwrap();
            faults.reset = Chance::per_million(sim.below(20_000) as u32).unwrap();
        }
        faults
    };
    Chaos::seed(sim.below(1 << 40)).read(faults()).write(faults())
}

/// What is common to all connections of the server.
#[derive(Clone)]
struct Limits {
    chaos: Chaos,
    together: Bucket,
    clients: Buckets<IpAddr>,
    own: Option<u64>,
    number: Arc<AtomicU64>,
}

impl Limits {
    fn shape(&self) -> Shape<BytesMut, Outgoing> {
        let shape = Shape::bytes()
            .read(&self.together)
            .write(&self.together)
            .read_per_address(&self.clients)
            .write_per_address(&self.clients);
        match self.own {
            Some(rate) => shape.write(Rate::try_from(rate).unwrap()),
            None => shape,
        }
    }
}

fn server(limits: Limits) -> Result<Server, BindError> {
    Server::builder()
        .forsaken_after(secs(100_000)) // an answer may take longer than a minute
        .pipeline(move |_| {
            let number = limits.number.fetch_add(1, Ordering::Relaxed);
            let stages = pipeline().filter(limits.chaos.stage(number)).filter(limits.shape());
            stages.handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze()))
        })
        .bind("0.0.0.0:80")
        .wait()
}

/// What has become of the talks.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    left: VecDeque<Talk>,
    under_way: u32,
    whole: u32,
    broken: Vec<String>,
    wrong: Vec<String>,
    gone: u32,
}

/// A talk that somebody has begun.
struct Begun(Ledger, Option<Result<(), String>>);

impl Drop for Begun {
    fn drop(&mut self) {
        let mut told = self.0.0.lock().unwrap();
        told.under_way -= 1;
        match self.1.take() {
            Some(Ok(())) => told.whole += 1,
            Some(Err(why)) => told.broken.push(why),
            None => told.gone += 1,
        }
    }
}

async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut of_a, mut of_b) = (None, None);
    poll_fn(move |cx| {
        if of_a.is_none()
            && let Poll::Ready(done) = a.as_mut().poll(cx)
        {
            of_a = Some(done);
        }
        if of_b.is_none()
            && let Poll::Ready(done) = b.as_mut().poll(cx)
        {
            of_b = Some(done);
        }
        if of_a.is_none() || of_b.is_none() {
            return Poll::Pending;
        }
        of_a.take().zip(of_b.take()).map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

async fn talk(mut peer: Peer, talk: Talk, ledger: Ledger) -> Result<(), String> {
    let said = content(talk.id, talk.len);
    let (reader, writer) = peer.halves();
    let saying = async {
        let (mut left, mut promises) = (said.clone(), Vec::new());
        while !left.is_empty() {
            let piece = left.split_to(talk.piece.min(left.len()));
            match writer.write_tracked(piece).await {
                Ok(written) => promises.push(written),
                Err(_) => break,
            }
            writer.flush();
            if !talk.pause.is_zero() {
                time::sleep(talk.pause).await;
            }
        }
        writer.shut_down_output();
        promises
    };
    let hearing = async {
        let mut heard = BytesMut::new();
        time::sleep(talk.reads_after).await;
        let cause = loop {
            match time::timeout(secs(1_000), reader.read()).await {
                Ok(Ok(Some(bytes))) => heard.extend_from_slice(&bytes),
                Ok(Ok(None)) => break "the end".to_owned(),
                Ok(Err(cause)) => break cause.to_string(),
                Err(_) => break "silence".to_owned(),
            }
        };
        (heard, cause)
    };
    let (promises, (heard, cause)) = both(saying, hearing).await;
    drop(peer);
    if !said.starts_with(&heard) {
        ledger
            .0
            .lock()
            .unwrap()
            .wrong
            .push(format!("{talk:?} heard something else in {} bytes", heard.len()));
    }
    if heard.len() == said.len() {
        // What came back was sent: nobody is left to wait.
        for written in promises {
            if !matches!(time::timeout(secs(1), written).await, Ok(Ok(()))) {
                ledger.0.lock().unwrap().wrong.push(format!("{talk:?} a promise is not fulfilled"));
            }
        }
        return Ok(());
    }
    Err(format!("{} of {} bytes, then {cause}: {talk:?}", heard.len(), said.len()))
}

fn client(host: &Host, ledger: &Ledger) -> Result<(), String> {
    for _ in 0..4 {
        let ledger = ledger.clone();
        let working = async move {
            loop {
                let next = {
                    let mut told = ledger.0.lock().unwrap();
                    let next = told.left.pop_front();
                    told.under_way += u32::from(next.is_some());
                    next
                };
                let Some(next) = next else { return };
                let mut begun = Begun(ledger.clone(), None);
                let (tell, told) = netwright::promise::promise::<_, netwright::promise::PromiseError>();
                let tell = Mutex::new(Some((tell, next.clone(), ledger.clone())));
                let stages = next.clone();
                let client = Client::builder().pipeline(move || {
                    let work = tell.lock().unwrap().take();
                    let mut shape = Shape::bytes();
                    if let Some(rate) = stages.rates[0] {
                        shape = shape.read(Rate::try_from(rate).unwrap());
                    }
                    if let Some(rate) = stages.rates[1] {
                        shape = shape.write(Rate::try_from(rate).unwrap());
                    }
                    pipeline().filter(stages.chaos.stage(stages.id)).filter(shape).serve(
                        move |peer: Peer| async move {
                            let Some((tell, next, ledger)) = work else { return Ok(()) };
                            tell.succeed(talk(peer, next, ledger).await);
                            Ok::<_, CloseCause>(())
                        },
                    )
                });
                begun.1 = Some(match client.unwrap().connect("server:80").await {
                    Ok(_) => told.await.unwrap_or_else(|error| Err(error.to_string())),
                    Err(error) => Err(error.to_string()),
                });
            }
        };
        let _ = host.spawn(working).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn talks(sim: &Sim) {
    let mut link = Link::default().latency(micros(50 + sim.below(20_000))).jitter(micros(sim.below(10_000)));
    if one_in(sim, 3) {
        link = link.loss(sim.below(10) as f64 / 100.0);
    }
    sim.link(link);
    let hosts = ["server", "client"].map(|name| sim.host(name));
    for host in &hosts {
        let (send, receive) = (500 + sim.below(60_000) as usize, 500 + sim.below(60_000) as usize);
        host.limit(|limits| (limits.send_buffer, limits.receive_buffer) = (send, receive));
        host.cores(1 + sim.below(3) as usize);
    }
    let breaks = one_in(sim, 3);
    let draw_talk = |id| Talk {
        id,
        len: [0, 100, 5_000, 40_000][sim.below(4) as usize] + sim.below(3_000) as usize,
        piece: 1 + [10, 1_000, 50_000][sim.below(3) as usize],
        pause: micros(sim.below(2) * sim.below(3_000)),
        reads_after: micros(sim.below(2) * sim.below(2_000_000)),
        chaos: draw_chaos(sim, breaks),
        rates: [one_in(sim, 2).then(|| draw_rate(sim)), one_in(sim, 2).then(|| draw_rate(sim))],
    };
    let ledger = Ledger::default();
    ledger.0.lock().unwrap().left = (0..2 + sim.below(8)).map(draw_talk).collect();
    let limits = Limits {
        chaos: draw_chaos(sim, breaks),
        together: Bucket::new(Rate::try_from(draw_rate(sim)).unwrap()),
        clients: Buckets::with_keys_max(Rate::try_from(draw_rate(sim)).unwrap(), sim.below(3) as usize),
        own: one_in(sim, 2).then(|| draw_rate(sim)),
        number: Arc::default(),
    };
    let served = limits.clone();
    hosts[0].start(move || server(served.clone())).unwrap();
    let faults = !one_in(sim, 3);
    if faults {
        let gone = sim.below(4) as u32;
        let plan = FaultPlan::new(secs(4)).lasting(micros(5_000)..=secs(3));
        sim.draw_faults(&plan.crashes(gone / 2).kills(gone % 2));
    }
    let (here, work) = (hosts[1].clone(), ledger.clone());
    hosts[1].start(move || client(&here, &work)).unwrap();

    // Rates change while channels wait.
    let is_done = || {
        let told = ledger.0.lock().unwrap();
        told.left.is_empty() && told.under_way == 0
    };
    let mut done = false;
    for _ in 0..sim.below(10) {
        done = sim.run_until(micros(sim.below(3_000_000)), is_done);
        let rate = if one_in(sim, 5) { Rate::unlimited() } else { Rate::try_from(draw_rate(sim)).unwrap() };
        if one_in(sim, 2) { limits.together.set(rate) } else { limits.clients.set(rate) }
    }
    if !done && !sim.run_until(secs(100_000), is_done) {
        let told = ledger.0.lock().unwrap();
        sim.violation(format!("{} are still under way, {} not begun", told.under_way, told.left.len()));
    }
    sim.run_for(secs(200)); // until the server has given everybody up
    let told = ledger.0.lock().unwrap();
    told.wrong.iter().for_each(|wrong| sim.violation(wrong.clone()));
    if !faults && !breaks {
        told.broken.iter().for_each(|broken| sim.violation(format!("without a fault: {broken}")));
        let figures = [limits.together.figures(), limits.clients.others()];
        if figures.iter().any(|figures| figures.waiting + figures.channels_waiting > 0) {
            sim.violation(format!("something still counts as waiting: {figures:?}"));
        }
    }
    sim.note(format_args!("{} whole, {} broken, {} gone", told.whole, told.broken.len(), told.gone));
}

#[test]
fn what_is_said_comes_back_in_order_whatever_rates_and_faults_there_are() {
    // Some 7 s of one core in a debug build.
    for_seeds(0..100, talks);
}

#[test]
fn rates_and_faults_are_determined_by_the_seed() {
    let (first, second) = (for_seeds(0..20, talks), for_seeds(0..20, talks));
    let differ: Vec<usize> = (0..first.len()).filter(|seed| first[*seed] != second[*seed]).collect();
    assert!(differ.is_empty(), "these seeds do not say everything: {differ:?}");
}
