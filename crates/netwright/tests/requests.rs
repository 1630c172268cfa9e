//! Requests over a connection that comes again, in a simulated network: whatever is cut, reset, killed or late, every request is answered once, by a
//! reply to itself or by an error that says truly whether the server may have got it.
//!
//! ```text
//!   seed ──▶ link, faults, how replies are matched, requests ──▶ RpcClient ──▶ network ──▶ server, which notes what it has done
//!                                                                     └──────── ledger ────────┘ what must hold
//! ```
//! `NETWRIGHT_SIM_SEEDS=100000` takes more seeds, `NETWRIGHT_SIM_SEED=17` takes one.

use netwright::{
    Client, CloseCause, Peer, Server, WriteError,
    codec::{LineFrames, Utf8},
    handler::{
        Backoff, Heartbeat, Reconnect, ReconnectError, RequestError, Requests, RetryBudget, RpcClient,
    },
    pipeline,
    server::BindError,
    time,
};
use netwright_testkit::sim::{FaultPlan, Host, Link, Sim, for_seeds};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Retries of one request at the most.
const RETRIES: u32 = 2;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn one_in(sim: &Sim, many: u64) -> bool {
    sim.below(many) == 0
}

/// How replies are matched to requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Matched {
    InOrder,
    ById,
    Numbered,
}

#[derive(Clone, Debug)]
struct Errand {
    id: u64,
    /// The server takes so long for the reply.
    takes: u64,
    /// So long nothing is asked before.
    before: Duration,
    idempotent: bool,
    deadline: Duration,
    /// The reply is given up after that.
    gives_up: Option<Duration>,
}

/// What has happened, seen from outside of the hosts. Clones are the same.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// How often the server has got each request.
    done: BTreeMap<u64, u32>,
    /// What each request was told.
    told: BTreeMap<u64, Result<(), (String, bool)>>,
    given_up: u64,
    under_way: usize,
    wrong: Vec<String>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `7 35` or `#1 7 35`: number 7 takes 35 ms.
fn parse(line: &str) -> (u64, u64) {
    let mut words = line.split(' ').filter(|word| !word.starts_with('#')).map(|word| word.parse().unwrap());
    (words.next().unwrap(), words.next().unwrap())
}

/// Replies with the request itself, after the time that it says. In order one after the other, else whichever is done first.
fn server(in_order: bool, pushes: bool, ledger: Ledger) -> Result<Server, BindError> {
    let builder = Server::builder();
    let lines = || pipeline().add(LineFrames::max(100)).add(Utf8::strict());
    let bound = if in_order {
        builder
            .pipeline(move |_| {
                let ledger = ledger.clone();
                lines().serve(move |mut peer: Peer<String, String>| async move {
                    while let Some(line) = peer.read().await? {
                        if line == "PING" {
                            peer.write("PONG".to_owned()).await?;
                            continue;
                        }
                        let (id, takes) = parse(&line);
                        *ledger.lock().done.entry(id).or_default() += 1;
                        if pushes && id % 3 == 0 {
                            peer.write(format!("> {id}")).await?;
                        }
                        time::sleep(millis(takes)).await;
                        peer.write(line).await?;
                    }
                    Ok::<_, CloseCause>(())
                })
            })
            .bind("0.0.0.0:7")
    } else {
        builder
            .pipeline(move |_| {
                let ledger = ledger.clone();
                lines().handle(move |cx, line: String| {
                    if line == "PING" {
                        return cx.write_and_flush("PONG".to_owned());
                    }
                    let (id, takes) = parse(&line);
                    *ledger.lock().done.entry(id).or_default() += 1;
                    if pushes && id % 3 == 0 {
                        cx.write(format!("> {id}"));
                    }
                    cx.schedule(millis(takes), move |_, cx| cx.write_and_flush(line));
                })
            })
            .bind("0.0.0.0:7")
    };
    let mut bound = bound;
    bound.wait()
}

fn requests(matched: Matched, in_flight: usize) -> Requests<String, String, String> {
    let first = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    let number = |line: &String| line.strip_prefix('#')?.split(' ').next()?.parse().ok();
    let requests = match matched {
        Matched::InOrder => Requests::in_order(),
        Matched::ById => Requests::by_id(first, move |line| Some(first(line))),
        Matched::Numbered => Requests::numbered(
            1..=1_000,
            |line: &mut String, id| line.insert_str(0, &format!("#{id} ")),
            number,
        ),
    };
    requests.max_in_flight(in_flight).stuck_after(millis(2_000)).pushes(|line| line.starts_with('>'))
}

async fn run(server: &RpcClient<String, String>, errand: &Errand, ledger: &Ledger) {
    time::sleep(errand.before).await;
    let begun = time::now();
    let request = format!("{} {}", errand.id, errand.takes);
    let asked = server.request(request.clone()).within(errand.deadline);
    let mut reply = if errand.idempotent { asked.idempotent().send() } else { asked.send() };
    let result = match errand.gives_up {
        None => reply.await,
        Some(limit) => match time::timeout(limit, &mut reply).await {
            Ok(result) => result,
            Err(_) => {
                reply.cancel();
                ledger.lock().given_up += 1;
                return;
            }
        },
    };
    let took = time::now() - begun;
    let mut seen = ledger.lock();
    if took > errand.deadline + millis(100) {
        seen.wrong.push(format!("{errand:?} was answered after {took:?}: {result:?}"));
    }
    let told = match result {
        Ok(line) if line == request || line.starts_with('#') && line.ends_with(&format!(" {request}")) => {
            Ok(())
        }
        Ok(line) => {
            seen.wrong.push(format!("{errand:?} was answered {line:?}"));
            Ok(())
        }
        Err(error @ RequestError::IdInUse) => {
            seen.wrong.push(format!("{errand:?}: {error}"));
            Err((error.to_string(), false))
        }
        Err(error) => Err((error.to_string(), error.may_have_been_written())),
    };
    if seen.told.insert(errand.id, told).is_some() {
        seen.wrong.push(format!("{errand:?} was told twice"));
    }
}

fn client(
    host: &Host,
    matched: Matched,
    in_flight: usize,
    errands: &[Errand],
    ledger: &Ledger,
) -> Result<RpcClient<String, String>, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let heartbeat = || {
        Heartbeat::new(millis(1_500), || "PING".to_owned())
            .pongs(|line: &String| line == "PONG")
            .answer_within(millis(1_500))
    };
    let client = Client::builder()
        .connect_timeout(millis(2_000))
        .pipeline(move || {
            let lines = pipeline().add(LineFrames::max(100)).add(Utf8::strict());
            lines.filter(heartbeat()).add(requests(matched, in_flight)).handle(|_, push: String| {
                assert!(push.starts_with('>'));
            })
        })
        .map_err(|error| told(&error))?;
    // Nobody listens at the second address.
    let connection = Reconnect::to(&client, "server:7")
        .or_to("server:8")
        .backoff(Backoff::new(millis(20), millis(500)))
        .stable_after(millis(1_000));
    let budget = RetryBudget::default().reserve(20).per_request(RETRIES);
    let server = RpcClient::over(connection).retries(budget).start().map_err(|error| told(&error))?;
    for errand in errands {
        let (server, ledger, errand) = (server.clone(), ledger.clone(), errand.clone());
        ledger.lock().under_way += 1;
        let working = async move {
            run(&server, &errand, &ledger).await;
            ledger.lock().under_way -= 1;
        };
        let _ = host.spawn(working).map_err(|error| error.to_string())?;
    }
    Ok(server)
}

fn everybody_is_answered_once(sim: &Sim) {
    let (server_host, client_host) = (sim.host("server"), sim.host("client"));
    let mut link = Link::default().latency(millis(1 + sim.below(40))).jitter(millis(sim.below(20)));
    let loses = one_in(sim, 3);
    if loses {
        link = link.loss(sim.below(15) as f64 / 100.0);
    }
    sim.link(link);
    for host in [&server_host, &client_host] {
        let (send, receive) = (500 + sim.below(8_000) as usize, 500 + sim.below(8_000) as usize);
        let (short, reset) = (sim.below(50) as f64 / 100.0, one_in(sim, 2));
        host.limit(|limits| {
            (limits.send_buffer, limits.receive_buffer) = (send, receive);
            (limits.short_sends, limits.short_receives) = (short, short);
            limits.reset_discards = if reset { 0.5 } else { 0.0 };
        });
    }
    let matched = [Matched::InOrder, Matched::ById, Matched::Numbered][sim.below(3) as usize];
    let in_flight = [1, 3, 50][sim.below(3) as usize];
    let errands: Vec<_> = (0..30 + sim.below(60))
        .map(|id| Errand {
            id,
            takes: if one_in(sim, 2) { 0 } else { sim.below(150) },
            before: millis(sim.below(5_000)),
            idempotent: one_in(sim, 2),
            deadline: if one_in(sim, 4) { millis(20 + sim.below(400)) } else { millis(60_000) },
            gives_up: one_in(sim, 6).then(|| millis(sim.below(300))),
        })
        .collect();
    let ledger = Ledger::default();
    let (books, pushes) = (ledger.clone(), one_in(sim, 2));
    server_host.start(move || server(matched == Matched::InOrder, pushes, books.clone())).unwrap();
    let faults = !one_in(sim, 3);
    if faults {
        let plan = FaultPlan::new(millis(5_000)).lasting(millis(5)..=millis(3_000)).only(&["server"]);
        sim.draw_faults(&plan.resets(4).crashes(sim.below(2) as u32).kills(2));
    }
    let (here, work, books) = (client_host.clone(), errands.clone(), ledger.clone());
    client_host.start(move || client(&here, matched, in_flight, &work, &books)).unwrap();
    let done = sim.run_until(millis(600_000), || ledger.lock().under_way == 0);

    let seen = ledger.lock();
    seen.wrong.iter().for_each(|wrong| sim.violation(wrong.clone()));
    if !done {
        sim.violation(format!("{} requests were told nothing", seen.under_way));
    }
    for errand in &errands {
        let times = seen.done.get(&errand.id).copied().unwrap_or_default();
        let most = if errand.idempotent { 1 + RETRIES } else { 1 };
        let wrong = match seen.told.get(&errand.id) {
            _ if times > most => format!("was done {times} times"),
            Some(Ok(())) if times == 0 => "was answered, and nobody had got it".to_owned(),
            Some(Err((error, false))) if times > 0 => {
                format!("was told that nobody got it, but was done: {error}")
            }
            Some(Err((error, _))) if !faults && !loses && errand.deadline > millis(1_000) => {
                format!("failed without a fault: {error}")
            }
            _ => continue,
        };
        sim.violation(format!("{errand:?} {wrong}"));
    }
    let succeeded = seen.told.values().filter(|told| told.is_ok()).count();
    sim.note(format_args!(
        "{succeeded} of {} succeeded, {} given up, {matched:?}",
        errands.len(),
        seen.given_up
    ));
}

/// Messages that wait for a connection, or go out at once.
fn messages_stay_in_order(sim: &Sim) {
    let (server_host, client_host) = (sim.host("server"), sim.host("client"));
    sim.link(Link::default().latency(millis(1 + sim.below(40))).jitter(millis(sim.below(20))));
    let (count, max_waiting) = (20 + sim.below(100), [0, 5, 1_000][sim.below(3) as usize]);
    // Of each connection, what came.
    let came: Arc<Mutex<Vec<Vec<u64>>>> = Arc::default();
    let books = came.clone();
    let listen = move || {
        let books = books.clone();
        let lines = || pipeline().add(LineFrames::max(100)).add(Utf8::strict());
        Server::builder()
            .pipeline(move |_| {
                let (books, mut at) = (books.clone(), None);
                lines().handle(move |_, line: String| {
                    let mut came = books.lock().unwrap();
                    let at = *at.get_or_insert_with(|| {
                        came.push(Vec::new());
                        came.len() - 1
                    });
                    came[at].push(line.parse().unwrap());
                })
            })
            .bind("0.0.0.0:7")
            .wait()
    };
    server_host.start(listen).unwrap();
    let plan = FaultPlan::new(millis(3_000)).lasting(millis(5)..=millis(1_000)).only(&["server"]);
    sim.draw_faults(&plan.resets(4).crashes(0).kills(2));
    // What was refused, because there was no connection.
    let refused: Arc<Mutex<Vec<u64>>> = Arc::default();
    let (here, books, done) = (client_host.clone(), refused.clone(), Arc::new(Mutex::new(false)));
    let told = done.clone();
    let pauses: Vec<_> = (0..count).map(|_| sim.below(80)).collect();
    let send = move || {
        let lines = || pipeline().add(LineFrames::max(100)).add(Utf8::strict());
        let client = Client::builder().pipeline(move || lines().handle(|_, _: String| {}));
        let reconnect = Reconnect::to(&client.map_err(|error| error.to_string())?, "server:7")
            .backoff(Backoff::new(millis(20), millis(200)))
            .max_waiting(max_waiting)
            .start()
            .map_err(|error| error.to_string())?;
        let (books, told, pauses, handle) = (books.clone(), told.clone(), pauses.clone(), reconnect.clone());
        let sending = async move {
            let mut sent = Vec::new();
            for (number, pause) in pauses.into_iter().enumerate() {
                sent.push((number as u64, handle.send(number.to_string())));
                time::sleep(millis(pause)).await;
            }
            for (number, sent) in sent {
                match sent.await {
                    Err(WriteError::Fault(fault)) if fault.downcast_ref::<ReconnectError>().is_some() => {
                        books.lock().unwrap().push(number);
                    }
                    _ => {}
                }
            }
            *told.lock().unwrap() = true;
        };
        let _ = here.spawn(sending).map_err(|error| error.to_string())?;
        Ok::<_, String>(reconnect)
    };
    client_host.start(send).unwrap();
    if !sim.run_until(millis(600_000), || *done.lock().unwrap()) {
        sim.violation("somebody still waits");
    }
    sim.run_for(millis(1_000));
    let (came, refused) = (came.lock().unwrap(), refused.lock().unwrap());
    let all: Vec<u64> = came.iter().flatten().copied().collect();
    for connection in came.iter().filter(|numbers| !numbers.is_sorted()) {
        sim.violation(format!("not in order: {connection:?}"));
    }
    for number in 0..count {
        let times = all.iter().filter(|came| **came == number).count();
        if times > 1 || times == 1 && refused.contains(&number) {
            sim.violation(format!("{number} came {times} times, refused: {}", refused.contains(&number)));
        }
    }
    sim.note(format_args!("{} of {count} came, {} were refused", all.len(), refused.len()));
}

#[test]
fn messages_come_once_and_in_order_or_are_refused_however_often_the_connection_ends() {
    for_seeds(0..200, messages_stay_in_order);
}

#[test]
fn every_request_is_answered_once_by_its_own_reply_or_by_a_true_error() {
    // Some 5 s of one core in a debug build.
    for_seeds(0..300, everybody_is_answered_once);
}

#[test]
fn requests_and_reconnects_are_determined_by_the_seed() {
    let first = for_seeds(0..50, everybody_is_answered_once);
    let second = for_seeds(0..50, everybody_is_answered_once);
    assert!(first == second, "a seed does not say everything");
}
