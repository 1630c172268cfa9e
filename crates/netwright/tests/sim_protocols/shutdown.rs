//! A server that is drained while clients ask it.

use super::common::{Ledger, assert_determined, content, draw_len, draw_network, millis, one_in, secs};
use http::{Request, Response};
use netwright::{
    Client, Server,
    client::ConnectError,
    http::{Body, HttpLimits, HttpServer, client::WebClient, serve},
    pipeline, time,
};
use netwright_testkit::sim::{FaultPlan, Host, Sim, for_seeds};
use std::{sync::Arc, time::Duration};

#[derive(Clone, Debug)]
struct Errand {
    id: u64,
    takes: Duration,
    upload: usize,
    download: usize,
    /// The client does nothing for so long before.
    before: Duration,
}

fn draw_errand(sim: &Sim, id: u64) -> Errand {
    Errand {
        id,
        takes: if one_in(sim, 3) { Duration::ZERO } else { millis(sim.below(800)) },
        upload: if one_in(sim, 2) { draw_len(sim) } else { 0 },
        download: draw_len(sim),
        before: if one_in(sim, 2) { Duration::ZERO } else { millis(sim.below(400)) },
    }
}

fn server(errands: Vec<Errand>, ledger: Ledger<Errand>, limits: Arc<HttpLimits>) -> Server {
    let server = Server::builder().pipeline(move |_| {
        let (errands, ledger) = (errands.clone(), ledger.clone());
        let answer = move |request: Request<Body>| {
            let id: usize = request.uri().path().trim_start_matches('/').parse().unwrap();
            let (errand, ledger) = (errands[id].clone(), ledger.clone());
            ledger.count(errand.id);
            async move {
                drop(request.into_body().collect(1 << 20).await);
                time::sleep(errand.takes).await;
                Response::new(content(errand.id, errand.download))
            }
        };
        pipeline().add(HttpServer::with(limits.clone())).app(serve(answer))
    });
    server.bind("0.0.0.0:80").wait().unwrap()
}

/// What goes wrong; an error that may be is none.
async fn run(client: &WebClient, errand: &Errand, ledger: &Ledger<Errand>) -> Result<(), String> {
    time::sleep(errand.before).await;
    let url = format!("http://server/{}", errand.id);
    let asking = if errand.upload > 0 {
        client.post(url, content(!errand.id, errand.upload))
    } else {
        client.get(url)
    };
    let got = match asking.await {
        Ok(reply) if !reply.status().is_success() => Err(reply.status().to_string()), // what was sent was late
        Ok(reply) => reply.into_body().collect(1 << 20).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match got {
        Ok(bytes) if bytes == content(errand.id, errand.download) => Ok(()),
        Ok(bytes) => {
            ledger.wrong(format!("{errand:?} got {} bytes, and not those", bytes.len()));
            Ok(())
        }
        // The server had not begun it, so that it can be asked elsewhere.
        Err(_) if ledger.counted(errand.id) == 0 => Ok(()),
        Err(error) => Err(format!("{errand:?} was begun: {error}")),
    }
}

fn work(host: &Host, tasks: u64, ledger: &Ledger<Errand>) -> Result<WebClient, String> {
    let client =
        WebClient::builder().connections(tasks as usize).build().map_err(|error| error.to_string())?;
    for _ in 0..tasks {
        let (client, ledger) = (client.clone(), ledger.clone());
        let working = async move {
            while let Some((errand, taken)) = ledger.take() {
                let result = run(&client, &errand, &ledger).await;
                taken.tell(result);
            }
        };
        let _ = host.spawn(working).map_err(|error| error.to_string())?;
    }
    Ok(client)
}

fn draining(sim: &Sim) {
    let hosts = ["server", "one", "other"].map(|name| sim.host(name));
    let network = draw_network(sim, &hosts);
    let mut limits = HttpLimits::default();
    if network.loses() || network.link.rate.is_some() {
        // What is lost again and again comes late, and is no fault of the client (seed 10595).
        (limits.head_time, limits.body_rate) = (secs(600), 0);
    }
    let errands: Vec<Errand> = (0..20 + sim.below(60)).map(|id| draw_errand(sim, id)).collect();
    let ledger = Ledger::new(errands.clone());
    let server = hosts[0].enter(|| server(errands, ledger.clone(), limits.into()));
    for host in &hosts[1..] {
        let (tasks, here, ledger) = (1 + sim.below(6), host.clone(), ledger.clone());
        host.start(move || work(&here, tasks, &ledger)).unwrap();
    }
    let faults = one_in(sim, 3);
    if faults {
        sim.draw_faults(&FaultPlan::new(secs(5)).crashes(0).lasting(millis(5)..=secs(3)));
    }
    sim.run_for(millis(sim.below(3_000)));
    let short = one_in(sim, 3);
    let deadline = if short { millis(sim.below(1_000)) } else { secs(300) };
    let begun = sim.now();
    let drained = hosts[0].enter(|| server.drain(deadline).wait().unwrap());
    let took = sim.now() - begun;
    assert!(took <= deadline + millis(150), "{took:?} for a deadline of {deadline:?}");
    if !short && !faults {
        assert_eq!(drained.cut, 0, "after {took:?}");
    }
    sim.run_for(secs(60));
    assert_eq!(server.figures().open, 0, "cut: {}", drained.cut);
    let refused = hosts[1].enter(|| {
        let client = Client::builder().pipeline(|| pipeline().handle(|_, _| ())).unwrap();
        client.connect("server:80").wait()
    });
    // Refused, if that is not lost on its way again and again.
    assert!(matches!(refused, Err(ConnectError::Refused(_) | ConnectError::TimedOut { .. })), "{refused:?}");
    ledger.finish(sim, secs(3_600), faults || short);
    hosts[0].enter(|| drop(server));
}

#[test]
fn a_drained_server_answers_what_it_has_begun_and_takes_nothing_more() {
    // Some 8 s of one core in a debug build.
    for_seeds(0..300, draining);
}

#[test]
fn draining_is_determined_by_the_seed() {
    assert_determined(draining);
}
