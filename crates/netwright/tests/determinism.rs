//! A simulated run is determined by its seed: the same traces again, in another process, with another number of cores.
//!
//! `scripts/check-determinism` does it with more seeds, and on one core.

use netwright::{
    Server,
    http::{Body, HttpServer, client::WebClient, serve},
    pipeline, time,
    workers::Workers,
};
use netwright_testkit::sim::{FaultPlan, Link, Sim, for_seeds};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

/// So many take a few seconds in a debug build, on two cores.
const SEEDS: u64 = 200;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Answers after a while, with what workers have computed.
async fn answer(request: http::Request<Body>) -> http::Response<Body> {
    let number: u64 = request.uri().path()[1..].parse().unwrap_or_default();
    time::sleep(millis(number % 20)).await;
    let computed =
        match Workers::common().map(|workers| workers.submit(move || vec![7; number as usize % 5_000])) {
            Ok(Ok(computed)) => computed.await.unwrap_or_default(),
            _ => Vec::new(),
        };
    http::Response::new(Body::from(computed))
}

/// A server with four loops, clients with pooled connections, links that lose, hosts that crash.
fn conversation(sim: &Sim) {
    let server = sim.host("server");
    server.cores(4);
    let program = || {
        Server::builder()
            .pipeline(|_| pipeline().add(HttpServer::new()).app(serve(answer)))
            .bind("0.0.0.0:80")
            .wait()
    };
    server.start(program).unwrap();
    sim.link(Link::default().latency(millis(1 + sim.below(20))).jitter(millis(sim.below(5))).loss(0.01));
    let clients = ["first", "second"].map(|name| sim.host(name));
    sim.draw_faults(&FaultPlan::new(secs(3)).only(&["server"]));
    for host in &clients {
        host.enter(|| {
            let client = WebClient::builder().connections(3).total_timeout(secs(2)).build().unwrap();
            for task in 0..3 {
                let (client, first) = (client.clone(), sim.below(1_000));
                let work = async move {
                    for number in first..first + 5 {
                        let uri = format!("http://server/{}", number * (task + 1));
                        let request = http::Request::get(uri).body(Body::empty()).unwrap();
                        if let Ok(reply) = client.request(request).await {
                            drop(reply.into_body().collect(10_000).await);
                        }
                    }
                };
                drop(host.spawn(work).unwrap());
            }
        });
    }
    sim.run_for(secs(20));
}

#[test]
fn the_same_seeds_give_the_same_traces_again() {
    let (first, second) = (for_seeds(0..SEEDS, conversation), for_seeds(0..SEEDS, conversation));
    let differ = first.iter().zip(&second).filter(|(first, second)| first != second).count();
    assert_eq!(differ, 0, "of {} traces so many differ", first.len());
    let mut all = DefaultHasher::new(); // the same in every process
    first.iter().for_each(|trace| trace.to_string().hash(&mut all));
    let entries: u64 = first.iter().map(|trace| trace.entries()).sum();
    println!("{} traces of {entries} entries, twice: {:016x}", first.len(), all.finish());
}
