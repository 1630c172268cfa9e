//! Bugs that are planted on purpose are found by the simulation; and without them the same scenarios pass.
//!
//! Each is behind a switch of its own (`netwright_core::planted`), and shows in some timings only. How many seeds each took is printed:
//! `cargo test -p netwright --features _planted,http-client --test planted -- --nocapture`.

use bytes::{Buf, Bytes, BytesMut};
use netwright::{
    EventLoop, Server,
    http::{Body, HttpServer, client::WebClient, serve},
    pipeline, time,
};
use netwright_core::{
    AppContext, Application,
    planted::{Bug, plant},
};
use netwright_testkit::sim::{Fault, Link, Sim, for_seeds};
use netwright_transport::{BindError, Client};
use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// So many seeds have to do.
const SEEDS_MAX: u64 = 10_000;

/// So many are to pass without the bug. All of this file takes seconds in a debug build.
const SEEDS_WITHOUT: u64 = 300;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Runs a scenario with a bug until it fails, and says how many seeds that took; and then without it.
fn finds(bug: Bug, scenario: fn(&Sim)) {
    for_seeds(0..SEEDS_WITHOUT, scenario);
    let search = || {
        for_seeds(0..SEEDS_MAX, |sim| {
            mem::forget(plant(bug)); // also at the end of the run, with which its thread ends
            scenario(sim);
        })
    };
    let failure = catch_unwind(AssertUnwindSafe(search)).expect_err("the bug is not found");
    let text = failure.downcast_ref::<String>().expect("a report");
    let seed: u64 = text.split(' ').nth(1).and_then(|seed| seed.parse().ok()).expect("a seed");
    let how = text.lines().next().unwrap_or_default();
    println!("{bug:?} was found after {} seeds: {how}", seed + 1);
}

fn counter() -> Arc<AtomicU64> {
    Arc::default()
}

/// A loop is given tasks by others, few of them so that it may sleep on.
fn tasks(sim: &Sim) {
    let host = sim.host("a");
    let (run, mut eager) = (counter(), 0);
    host.enter(|| {
        let keeper = EventLoop::new();
        let givers: Vec<EventLoop> = (0..3).map(|_| EventLoop::new()).collect();
        for giver in &givers {
            for _ in 0..10 {
                let (keeper, run) = (keeper.clone(), run.clone());
                let lazy = sim.below(500) == 0;
                eager += u64::from(!lazy);
                let give = move || {
                    let count = move || _ = run.fetch_add(1, Ordering::Relaxed);
                    if lazy {
                        keeper.execute_lazy(|| ()).unwrap();
                    } else {
                        keeper.execute(count).unwrap();
                    }
                };
                drop(giver.schedule(Duration::from_micros(sim.below(1_000_000)), give).unwrap());
            }
        }
        assert!(sim.run_until(secs(60), || run.load(Ordering::Relaxed) == eager), "tasks have not run");
    });
}

#[test]
fn a_lost_wake_up_is_found() {
    finds(Bug::LostWakeUp, tasks);
}

/// Takes what comes.
fn sink() -> Result<Server, BindError> {
    Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("0.0.0.0:7").wait()
}

/// Clients that write, mostly little, and close.
fn closes(sim: &Sim) {
    let server = sim.host("server");
    server.limit(|limits| limits.receive_buffer = 16_384);
    server.start(sink).unwrap();
    sim.link(Link::default().latency(millis(1 + sim.below(20))).rate(1_000_000));
    let host = sim.host("client");
    host.limit(|limits| limits.send_buffer = 16_384);
    host.enter(|| {
        let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {})).unwrap();
        for _ in 0..5 {
            let channel = client.connect("server:7").wait().unwrap();
            for _ in 0..sim.below(10) {
                let len = if sim.below(1_000) == 0 { 20_000 } else { sim.below(1_000) };
                channel.write_and_flush(Bytes::from(vec![1; len as usize]));
                sim.run_for(millis(sim.below(30)));
            }
            drop(channel.close());
            let ended = || channel.close_cause().is_some();
            assert!(sim.run_until(secs(60), ended), "it was closed, and is open");
        }
    });
}

#[test]
fn a_dropped_close_is_found() {
    finds(Bug::DroppedClose, closes);
}

/// Clients with pooled connections whose requests must not be repeated, and connections that break.
fn posts(sim: &Sim) {
    let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
    let noted = seen.clone();
    let program = move || {
        let seen = noted.clone();
        let answer = move || {
            let seen = seen.clone();
            serve(move |request: http::Request<Body>| {
                let seen = seen.clone();
                async move {
                    let id = request.uri().path()[1..].parse().unwrap();
                    seen.lock().unwrap().push(id);
                    time::sleep(millis(id % 7)).await;
                    http::Response::new(Body::from("done"))
                }
            })
        };
        Server::builder()
            .pipeline(move |_| pipeline().add(HttpServer::new()).app(answer()))
            .bind("0.0.0.0:80")
            .wait()
    };
    sim.host("server").start(program).unwrap();
    sim.link(Link::default().latency(millis(1 + sim.below(5))));
    if sim.below(10) == 0 {
        let (a, b) = ("server".to_owned(), "client".to_owned());
        sim.at(millis(sim.below(500)), Fault::Reset { a, b });
    }
    let host = sim.host("client");
    host.enter(|| {
        let client = WebClient::builder().connections(2).build().unwrap();
        let mut asking: Vec<_> = (0..2)
            .map(|task| {
                let (client, pause) = (client.clone(), sim.below(20));
                let work = async move {
                    for number in 0..15 {
                        let uri = format!("http://server/{}", task * 100 + number);
                        let request = http::Request::post(uri).body(Body::from("take it")).unwrap();
                        if let Ok(reply) = client.request(request).await {
                            let _ = reply.into_body().collect(100).await;
                        }
                        time::sleep(millis(pause)).await;
                    }
                };
                host.spawn(work).unwrap()
            })
            .collect();
        asking.iter_mut().for_each(|asking| asking.wait().unwrap());
    });
    let mut seen = seen.lock().unwrap().clone();
    let many = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(many, seen.len(), "a request was sent twice that must not be repeated");
}

#[test]
fn a_retry_that_is_not_safe_is_found() {
    finds(Bug::UnsafeRetry, posts);
}

/// Numbers, each the one behind the last.
struct InOrder {
    rest: BytesMut,
    next: u32,
    last: Arc<AtomicU64>,
}

impl Application for InOrder {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.rest.unsplit(bytes);
        while self.rest.len() >= 4 {
            let number = self.rest.get_u32();
            assert_eq!(number, self.next, "numbers are out of order");
            self.next += 1;
        }
        self.last.store(self.next.into(), Ordering::Relaxed);
    }
}

/// A client that writes numbers, some of them before the last ones are sent.
fn numbers(sim: &Sim) {
    let (last, server) = (counter(), sim.host("server"));
    let told = last.clone();
    server.limit(|limits| limits.receive_buffer = 8_192);
    let program = move || {
        let told = told.clone();
        Server::builder()
            .pipeline(move |_| pipeline().app(InOrder { rest: BytesMut::new(), next: 0, last: told.clone() }))
            .bind("0.0.0.0:7")
            .wait()
    };
    server.start(program).unwrap();
    sim.link(Link::default().latency(millis(1 + sim.below(10))).rate(1_000_000));
    let host = sim.host("client");
    host.limit(|limits| limits.send_buffer = 8_192);
    host.enter(|| {
        let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {})).unwrap();
        let channel = client.connect("server:7").wait().unwrap();
        let mut next = 0_u32;
        for _ in 0..20 {
            for _ in 0..1 + sim.below(3) {
                let many = if sim.below(1_000) == 0 { 5_000 } else { 1 + sim.below(200) as u32 };
                let message: Vec<u8> = (next..next + many).flat_map(u32::to_be_bytes).collect();
                next += many;
                channel.write(Bytes::from(message));
            }
            channel.flush();
            sim.run_for(millis(sim.below(20)));
        }
        let all = u64::from(next);
        assert!(sim.run_until(secs(60), || last.load(Ordering::Relaxed) == all), "numbers are missing");
    });
}

#[test]
fn a_reordered_write_is_found() {
    finds(Bug::ReorderedWrite, numbers);
}

/// Says a lot, to whoever comes.
struct Talks(usize);

impl Application for Talks {
    type Read = BytesMut;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush(vec![7; self.0]);
    }

    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

/// Connections that are reset, some of them while something waits to be sent.
fn resets(sim: &Sim) {
    let (server, len) = (sim.host("server"), sim.below(40_000) as usize);
    server.limit(|limits| limits.send_buffer = 16_384);
    let program =
        move || Server::builder().pipeline(move |_| pipeline().app(Talks(len))).bind("0.0.0.0:7").wait();
    server.start(program).unwrap();
    sim.link(Link::default().latency(millis(1 + sim.below(10))).rate(1_000_000));
    let host = sim.host("client");
    host.limit(|limits| limits.receive_buffer = 8_192);
    if sim.below(4) == 0 {
        let (a, b) = ("server".to_owned(), "client".to_owned());
        sim.at(millis(sim.below(1_000)), Fault::Reset { a, b });
    }
    host.enter(|| {
        let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {})).unwrap();
        for _ in 0..5 {
            let channel = client.connect("server:7").wait();
            sim.run_for(millis(sim.below(300)));
            drop(channel.map(|channel| channel.close()));
        }
        sim.run_for(secs(10));
    });
}

#[test]
fn a_leak_on_reset_is_found() {
    finds(Bug::LeakOnReset, resets);
}
