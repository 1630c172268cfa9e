//! Many clients who ask one after the other as fast as they can: what a simulated second costs is measured with this, by a profiler, in release.
//!
//! ```text
//! cargo test --release -p netwright --features https,self-signed,websocket-client --test sim_protocols load
//! ```

use super::common::{millis, secs};
use http::{Request, Response};
use netwright::{
    EventLoop, Server, event_loops,
    http::{Body, HttpServer, client::WebClient, serve},
    pipeline, time,
};
use netwright_testkit::sim::{Link, Sim};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// So many tasks ask for so long. Returns how many replies came.
fn closed_loop(sim: &Sim, clients: u64, time: Duration) -> u64 {
    sim.link(Link::default().latency(millis(1)).jitter(Duration::ZERO));
    sim.host("server")
        .start(|| {
            Server::builder()
                .group(event_loops(4).unwrap())
                .pipeline(|_| {
                    let hello = serve(async |_: Request<Body>| Response::new("hello"));
                    pipeline().add(HttpServer::new()).app(hello)
                })
                .bind("0.0.0.0:80")
                .wait()
        })
        .unwrap();
    let replies = Arc::new(AtomicU64::new(0));
    let host = sim.host("client");
    host.enter(|| {
        let client = WebClient::builder().connections(clients as usize).build().unwrap();
        let event_loop = EventLoop::new();
        for _ in 0..clients {
            let (client, replies) = (client.clone(), replies.clone());
            let asking = async move {
                let begun = time::now();
                while time::now() - begun < time {
                    let reply = client.get("http://server/").await.unwrap();
                    assert_eq!(reply.into_body().collect(100).await.unwrap(), "hello");
                    replies.fetch_add(1, Ordering::Relaxed);
                }
            };
            let _ = event_loop.spawn(asking).unwrap();
        }
        sim.run_for(time + secs(1));
    });
    replies.load(Ordering::Relaxed)
}

#[test]
fn a_hundred_clients_ask_for_a_simulated_second() {
    Sim::seed(1).run(|sim| {
        let replies = closed_loop(sim, 100, secs(1));
        assert!(replies > 10_000, "{replies}");
        sim.note(format_args!("{replies} replies, {} turns", sim.turns()));
    });
}
