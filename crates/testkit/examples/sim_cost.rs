//! Question: what does a simulation cost? 1000 seeds of a small scenario on all cores, and one of a hundred hosts.
//!
//! `cargo run --release -p netwright-testkit --features sim --example sim_cost`

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, pipeline};
use netwright_testkit::sim::{Sim, for_seeds};
use netwright_transport::{BindError, Client, Server};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

fn echo_server() -> Result<Server, BindError> {
    Server::builder()
        .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
        .bind("0.0.0.0:7")
        .wait()
}

/// Says one thing after the other, and waits for each to come back.
struct Talks {
    left: u32,
    done: Arc<AtomicUsize>,
}

impl Application for Talks {
    type Read = BytesMut;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush("hello");
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
        self.left -= 1;
        if self.left == 0 {
            self.done.fetch_add(1, Ordering::Relaxed);
            return cx.close();
        }
        cx.write_and_flush("hello");
    }
}

/// So many hosts, each with so many connections to one server, each of which says so many things.
fn conversations(sim: &Sim, hosts: usize, connections: usize, messages: u32) {
    sim.host("server").start(echo_server).unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    for host in 0..hosts {
        let told = done.clone();
        let host = sim.host(&format!("client{host}"));
        host.cores(1);
        let program = move || {
            let told = told.clone();
            let client = Client::builder()
                .pipeline(move || pipeline().app(Talks { left: messages, done: told.clone() }))?;
            (0..connections).for_each(|_| drop(client.connect("server:7")));
            Ok::<_, netwright_transport::ConnectError>(client)
        };
        host.start(program).unwrap();
    }
    assert!(sim.run_until(Duration::from_secs(600), || done.load(Ordering::Relaxed) == hosts * connections));
}

fn measure(what: &str, run: impl FnOnce() -> u64) {
    let begun = Instant::now();
    let entries = run();
    let took = begun.elapsed();
    println!("{what}: {took:.2?}, {entries} entries, {:.0} ns each", took.as_nanos() as f64 / entries as f64);
}

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    measure(&format!("1000 seeds of 10 connections with 100 messages, {cores} cores"), || {
        for_seeds(0..1_000, |sim| conversations(sim, 1, 10, 100)).iter().map(|trace| trace.entries()).sum()
    });
    for hosts in [1, 10, 100, 1_000] {
        measure(&format!("{} messages from {hosts} hosts", 1_000_000 / 10), || {
            Sim::seed(1).run(|sim| conversations(sim, hosts, 1, 100_000 / hosts as u32)).trace.entries()
        });
    }
}
