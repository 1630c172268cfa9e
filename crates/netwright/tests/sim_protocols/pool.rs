//! A pool of connections on which one question at a time may be asked.

use super::common::{
    ACCEPT_MAX, Ledger, Network, TURNS_MAX, assert_determined, draw_faults, draw_network, millis, one_in,
    secs,
};
use netwright::{
    Client, CloseCause, Context, Handler, Server, WritePromise,
    channel::ChannelId,
    client::{Pool, PoolError},
    codec::{LineFrames, Utf8},
    pipeline,
    promise::{Promise, PromiseError, promise},
    server::BindError,
    time,
};
use netwright_testkit::sim::{Host, Sim, for_seeds};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    num::NonZeroUsize,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// What an acquire may take.
const ACQUIRE_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
struct Errand {
    id: u64,
    /// The server takes so long for the answer.
    takes: u64,
    /// The answer is waited for so long, and then the connection is thrown away.
    patience: Duration,
    /// The acquire is given up after that.
    leaves_line: Option<Duration>,
    /// So long nothing is asked before.
    before: Duration,
}

/// What may fail without a fault, because it was drawn so.
#[derive(Clone, Debug)]
struct Terms {
    /// The server closes a connection on which nothing was asked for so long.
    idle_closes: Duration,
    /// How long a question may be on its way, both ways together, in a network that loses nothing.
    round_trip: Option<Duration>,
    /// How long all who are before somebody need at most, in a network that loses nothing.
    line: Option<Duration>,
}

impl Terms {
    fn new(network: &Network, idle_closes: Duration, errands: &[Errand], most: usize, tasks: u64) -> Self {
        let takes = errands.iter().map(|errand| errand.takes).max().unwrap_or_default();
        let one = network.connect_max() + network.round_trip() + millis(takes) + TURNS_MAX;
        // Each of the others has a connection for that long, and `most` of them at a time.
        let line = one * (tasks as usize).div_ceil(most) as u32;
        let known = |time| (!network.loses()).then_some(time);
        Self { idle_closes, round_trip: known(network.round_trip() + TURNS_MAX), line: known(line) }
    }

    /// Nobody promised a connection that soon.
    fn may_wait(&self, limit: Duration) -> bool {
        self.line.is_none_or(|line| line >= limit)
    }

    /// Nobody promised an answer that soon.
    fn may_be_late(&self, errand: &Errand) -> bool {
        self.round_trip.is_none_or(|trip| trip + ACCEPT_MAX + millis(errand.takes) >= errand.patience)
    }

    /// The server closed a connection that was quiet for so long while the question was on its way. Before, the question would have
    /// come in time; later, the client would have known.
    fn may_be_closed(&self, quiet: Duration) -> bool {
        let crosses =
            |trip| quiet + trip >= self.idle_closes && quiet <= self.idle_closes + trip + ACCEPT_MAX;
        self.round_trip.is_none_or(crosses)
    }
}

/// Since when nothing was asked on the connections. Clones are the same.
type Quiet = Arc<Mutex<BTreeMap<ChannelId, Instant>>>;

struct Question {
    id: u64,
    takes: u64,
    answer: Promise<String, PromiseError>,
    ledger: Ledger<Errand>,
}

/// One question at a time.
struct Asks {
    asked: Option<Question>,
    quiet: Quiet,
}

impl Handler for Asks {
    type Read = String;
    type ReadOut = Infallible;
    type Write = Question;
    type WriteOut = String;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.quiet.lock().unwrap().insert(cx.view().id(), time::now());
        cx.fire_active();
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, line: String) {
        self.quiet.lock().unwrap().insert(cx.view().id(), time::now());
        if let Some(question) = self.asked.take() {
            question.answer.succeed(line);
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, question: Question, done: WritePromise) {
        if self.asked.is_some() {
            question.ledger.wrong(format!("question {} on a connection that somebody else has", question.id));
        }
        cx.write_with(format!("{} {}", question.id, question.takes), done);
        self.asked = Some(question);
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.asked = None; // its promise is broken
        cx.fire_inactive(cause);
    }
}

/// Answers with the question, after the time that it says. At times it ends instead.
fn server(idle_closes: u64) -> Result<Server, BindError> {
    async fn answer(line: String) -> String {
        let takes = line.split(' ').nth(1).unwrap().parse().unwrap();
        time::sleep(millis(takes)).await;
        line
    }
    Server::builder()
        .pipeline(move |_| {
            let lines = pipeline().add(LineFrames::max(100)).add(Utf8::strict());
            lines.serve(move |mut peer: netwright::Peer<String, String>| async move {
                // Connections that nobody uses are closed by the server, at the worst of all moments.
                while let Ok(Ok(Some(line))) = time::timeout(millis(idle_closes), peer.read()).await {
                    peer.write(answer(line).await).await?;
                }
                Ok::<_, CloseCause>(())
            })
        })
        .bind("0.0.0.0:7")
        .wait()
}

async fn run(
    pool: &Pool<Question>,
    errand: &Errand,
    ledger: &Ledger<Errand>,
    terms: &Terms,
    quiet: &Quiet,
) -> Result<(), String> {
    time::sleep(errand.before).await;
    let begun = time::now();
    let acquired = match errand.leaves_line {
        Some(limit) => match time::timeout(limit, pool.acquire()).await {
            Ok(acquired) => acquired,
            Err(_) => return Ok(()),
        },
        None => pool.acquire().await,
    };
    let waited = time::now() - begun;
    if waited > ACQUIRE_MAX + millis(50) {
        ledger.wrong(format!("{errand:?} waited {waited:?} for {acquired:?}"));
    }
    let connection = match acquired {
        Ok(connection) => connection,
        Err(PoolError::TimedOut { .. }) if terms.may_wait(ACQUIRE_MAX) => return Ok(()),
        Err(error) => return Err(format!("{errand:?}: {error}, {terms:?}")),
    };
    let since = quiet.lock().unwrap().get(&connection.id()).copied();
    let unused = time::now() - since.unwrap();
    let (answer, answered) = promise();
    let question = Question { id: errand.id, takes: errand.takes, answer, ledger: ledger.clone() };
    connection.write_and_flush(question);
    match time::timeout(errand.patience, answered).await {
        Ok(Ok(line)) if line == format!("{} {}", errand.id, errand.takes) => Ok(()),
        Ok(Ok(line)) => {
            ledger.wrong(format!("{errand:?} was answered {line:?}"));
            Ok(())
        }
        Ok(Err(_)) => {
            let cause = connection.close_cause();
            connection.discard();
            let told = || format!("{errand:?}, after {unused:?}: no answer, {cause:?}, {terms:?}");
            if terms.may_be_closed(unused) { Ok(()) } else { Err(told()) }
        }
        Err(_) => {
            connection.discard();
            if terms.may_be_late(errand) {
                Ok(())
            } else {
                Err(format!("{errand:?}: no answer in time, {terms:?}"))
            }
        }
    }
}

fn client(
    host: &Host,
    most: usize,
    tasks: u64,
    ledger: &Ledger<Errand>,
    terms: &Terms,
) -> Result<Pool<Question>, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let quiet = Quiet::default();
    let seen = quiet.clone();
    let asks = move || Asks { asked: None, quiet: seen.clone() };
    let client = Client::builder()
        .pipeline(move || pipeline().add(LineFrames::max(100)).add(Utf8::strict()).last(asks()))
        .map_err(|error| told(&error))?;
    let pool = Pool::to(&client, "server:7").max_connections(most).acquire_timeout(ACQUIRE_MAX).build();
    let pool = pool.map_err(|error| told(&error))?;
    for _ in 0..tasks {
        let (pool, ledger, terms, quiet) = (pool.clone(), ledger.clone(), terms.clone(), quiet.clone());
        let working = async move {
            while let Some((errand, taken)) = ledger.take() {
                let result = run(&pool, &errand, &ledger, &terms, &quiet).await;
                let figures = pool.figures();
                if figures.idle + figures.in_use + figures.connecting > most {
                    ledger.wrong(format!("more than {most}: {figures:?}"));
                }
                taken.tell(result);
            }
        };
        let _ = host.spawn(working).map_err(|error| error.to_string())?;
    }
    Ok(pool)
}

fn one_pool_for_many(sim: &Sim) {
    let hosts = ["server", "client"].map(|name| sim.host(name));
    let network = draw_network(sim, &hosts);
    let errands: Vec<Errand> = (0..20 + sim.below(60))
        .map(|id| Errand {
            id,
            takes: if one_in(sim, 2) { 0 } else { sim.below(300) },
            patience: if one_in(sim, 4) { millis(sim.below(200)) } else { secs(20) },
            leaves_line: one_in(sim, 4).then(|| millis(sim.below(300))),
            before: if one_in(sim, 3) { millis(sim.below(1_000)) } else { Duration::ZERO },
        })
        .collect();
    let ledger = Ledger::new(errands.clone());
    let idle_closes = 50 + sim.below(2_000);
    hosts[0].start(move || server(idle_closes)).unwrap();
    let faults = draw_faults(sim, secs(4));
    let (most, tasks) = (NonZeroUsize::MIN.get() + sim.below(5) as usize, 1 + sim.below(12));
    let (here, work) = (hosts[1].clone(), ledger.clone());
    let terms = Terms::new(&network, millis(idle_closes), &errands, most, tasks);
    hosts[1].start(move || client(&here, most, tasks, &work, &terms)).unwrap();
    ledger.finish(sim, secs(600), faults);
}

#[test]
fn whoever_acquires_gets_a_connection_in_time_that_nobody_else_uses() {
    // Some 3 s of one core in a debug build.
    for_seeds(0..300, one_pool_for_many);
}

#[test]
fn pools_are_determined_by_the_seed() {
    assert_determined(one_pool_for_many);
}
