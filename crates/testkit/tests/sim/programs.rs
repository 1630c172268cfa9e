//! Servers and clients as they are written for real machines.

use bytes::Bytes;
use netwright_core::{AppContext, Application, Workers, pipeline, time};
use netwright_testkit::sim::{Sim, for_seeds};
use netwright_transport::{Client, Server};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Echoes, on a server with two loops.
pub(crate) fn echo_server() -> Result<Server, netwright_transport::BindError> {
    Server::builder()
        .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
        .bind("0.0.0.0:7")
        .wait()
}

#[test]
fn a_server_and_a_client_that_know_nothing_of_it_talk_in_a_simulation() {
    let outcome = Sim::seed(1).run(|sim| {
        sim.host("server").start(echo_server).unwrap();
        let got = Arc::new(AtomicUsize::new(0));
        sim.host("client").enter(|| {
            let count = got.clone();
            let client = Client::builder()
                .pipeline(move || {
                    let count = count.clone();
                    pipeline().handle(move |_, bytes| _ = count.fetch_add(bytes.len(), Ordering::Relaxed))
                })
                .unwrap();
            let channel = client.connect("server:7").wait().unwrap();
            assert_eq!(channel.peer().unwrap().to_string(), "10.0.0.1:7");
            for _ in 0..100 {
                channel.write(Bytes::from(vec![7; 10_000]));
            }
            channel.flush();
            assert!(sim.run_until(secs(60), || got.load(Ordering::Relaxed) == 1_000_000), "{got:?}");
        });
    });
    assert!(outcome.trace.entries() > 100);
}

/// Says one thing after the other, and waits for each to come back.
struct Talks {
    left: u32,
    done: Arc<AtomicUsize>,
}

impl Application for Talks {
    type Read = bytes::BytesMut;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush("hello");
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, _: bytes::BytesMut) {
        if self.left == 0 {
            self.done.fetch_add(1, Ordering::Relaxed);
            return cx.close();
        }
        self.left -= 1;
        cx.write_and_flush("hello");
    }
}

fn conversation(sim: &Sim) {
    sim.host("server").start(echo_server).unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let told = done.clone();
    sim.host("client").enter(|| {
        let client = Client::builder()
            .pipeline(move || pipeline().app(Talks { left: 20, done: told.clone() }))
            .unwrap();
        let channels: Vec<_> = (0..10).map(|_| client.connect("server:7").wait().unwrap()).collect();
        assert!(sim.run_until(secs(60), || done.load(Ordering::Relaxed) == 10));
        drop(channels);
    });
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_one_another() {
    let first = for_seeds(0..50, conversation);
    let second = for_seeds(0..50, conversation);
    assert_eq!(first, second);
    let mut different = first.clone();
    different.sort_by_key(ToString::to_string);
    different.dedup();
    assert_eq!(different.len(), first.len());
}

#[test]
fn workers_and_timers_run_in_simulated_time() {
    Sim::seed(3).run(|sim| {
        sim.host("alone").enter(|| {
            let workers = Workers::new(4).unwrap();
            let mut sum = workers.submit(|| (1..=10).sum::<u32>()).unwrap();
            assert_eq!(sum.wait().unwrap(), 55);
            let begun = sim.now();
            let mut later = workers.schedule(secs(3600), || 7).unwrap();
            assert_eq!(later.wait().unwrap(), 7);
            assert!((secs(3600)..secs(3601)).contains(&(sim.now() - begun)));
            let mut slept = sim
                .host("alone")
                .spawn(async {
                    time::sleep(secs(86_400)).await;
                    time::now()
                })
                .unwrap();
            slept.wait().unwrap();
            assert!(sim.now() - begun >= secs(90_000));
        });
    });
}
