//! A pool of connections on which one question at a time may be asked.

use super::common::{Ledger, assert_determined, draw_faults, draw_network, millis, one_in, secs};
use netwright::{
    Client, CloseCause, Context, Handler, Server, WritePromise,
    client::{Pool, PoolError},
    codec::{LineFrames, Utf8},
    pipeline,
    promise::{Promise, PromiseError, promise},
    server::BindError,
    time,
};
use netwright_testkit::sim::{Host, Sim, for_seeds};
use std::{convert::Infallible, num::NonZeroUsize, time::Duration};

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

struct Question {
    id: u64,
    takes: u64,
    answer: Promise<String, PromiseError>,
    ledger: Ledger<Errand>,
}

/// One question at a time.
#[derive(Default)]
struct Asks {
    asked: Option<Question>,
}

impl Handler for Asks {
    type Read = String;
    type ReadOut = Infallible;
    type Write = Question;
    type WriteOut = String;

    fn read(&mut self, _: &mut Context<'_, Self>, line: String) {
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

async fn run(pool: &Pool<Question>, errand: &Errand, ledger: &Ledger<Errand>) -> Result<(), String> {
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
        Err(PoolError::TimedOut { .. }) => return Ok(()), // the others take their time
        Err(error) => return Err(format!("{errand:?}: {error}")),
    };
    if connection.is_fresh() && connection.close_cause().is_some() {
        return Ok(());
    }
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
            connection.discard(); // the server has closed what waited
            Ok(())
        }
        Err(_) => {
            connection.discard();
            Ok(())
        }
    }
}

fn client(host: &Host, most: usize, tasks: u64, ledger: &Ledger<Errand>) -> Result<Pool<Question>, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let client = Client::builder()
        .pipeline(|| pipeline().add(LineFrames::max(100)).add(Utf8::strict()).last(Asks::default()))
        .map_err(|error| told(&error))?;
    let pool = Pool::to(&client, "server:7").max_connections(most).acquire_timeout(ACQUIRE_MAX).build();
    let pool = pool.map_err(|error| told(&error))?;
    for _ in 0..tasks {
        let (pool, ledger) = (pool.clone(), ledger.clone());
        let working = async move {
            while let Some((errand, taken)) = ledger.take() {
                let result = run(&pool, &errand, &ledger).await;
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
    draw_network(sim, &hosts);
    let errands = (0..20 + sim.below(60)).map(|id| Errand {
        id,
        takes: if one_in(sim, 2) { 0 } else { sim.below(300) },
        patience: if one_in(sim, 4) { millis(sim.below(200)) } else { secs(20) },
        leaves_line: one_in(sim, 4).then(|| millis(sim.below(300))),
        before: if one_in(sim, 3) { millis(sim.below(1_000)) } else { Duration::ZERO },
    });
    let ledger = Ledger::new(errands.collect::<Vec<_>>());
    let idle_closes = 50 + sim.below(2_000);
    hosts[0].start(move || server(idle_closes)).unwrap();
    let faults = draw_faults(sim, secs(4));
    let (most, tasks) = (NonZeroUsize::MIN.get() + sim.below(5) as usize, 1 + sim.below(12));
    let (here, work) = (hosts[1].clone(), ledger.clone());
    hosts[1].start(move || client(&here, most, tasks, &work)).unwrap();
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
