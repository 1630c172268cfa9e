//! Many exchanges at a time on connections of HTTP/2: bodies both ways, some left in the middle, connections that are drained.

use super::common::{
    Ledger, assert_determined, content, draw_faults, draw_len, draw_network, in_pieces, millis, one_in, secs,
};
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use netwright::{
    Client, CloseCause, Server,
    channel::{Channel, WritePromise},
    http::{
        Body, HttpLimits, HttpPart, ReplyPart, RequestPart,
        http2::{http2_client, http2_server},
        serve,
    },
    pipeline,
    pipeline::{Context, Handler},
    promise::{Promise, PromiseError, promise},
    time,
};
use netwright_testkit::sim::{FaultPlan, Host, Sim, for_seeds};
use std::{convert::Infallible, time::Duration};

#[derive(Clone, Debug)]
struct Errand {
    id: u64,
    takes: Duration,
    upload: usize,
    /// The request's body is written in pieces of this length, if it is not written as a whole.
    pieces: Option<usize>,
    download: usize,
    streamed: bool,
    /// The server does not read the request's body.
    unread: bool,
    /// The client has enough of the reply after so many pieces.
    leaves_after: Option<u64>,
}

fn draw_errand(sim: &Sim, id: u64) -> Errand {
    Errand {
        id,
        takes: if one_in(sim, 2) { Duration::ZERO } else { millis(sim.below(500)) },
        upload: if one_in(sim, 2) { draw_len(sim) } else { 0 },
        pieces: one_in(sim, 2).then(|| 1 + sim.below(5_000) as usize),
        download: draw_len(sim),
        streamed: one_in(sim, 3),
        unread: one_in(sim, 8),
        leaves_after: one_in(sim, 10).then(|| sim.below(4)),
    }
}

/// What is written to a connection: a request, and whom to tell what came of it.
struct Asking {
    errand: Errand,
    told: Promise<Result<Bytes, String>, PromiseError>,
}

/// One stream of the client's.
#[derive(Default)]
struct Exchange {
    asking: Option<Asking>,
    body: BytesMut,
    pieces: u64,
}

impl Exchange {
    fn tell(&mut self, result: Result<Bytes, String>) {
        if let Some(asking) = self.asking.take() {
            asking.told.succeed(result);
        }
    }
}

impl Handler for Exchange {
    type Read = ReplyPart;
    type ReadOut = Infallible;
    type Write = Asking;
    type WriteOut = RequestPart;

    fn write(&mut self, cx: &mut Context<'_, Self>, asking: Asking, done: WritePromise) {
        let errand = &asking.errand;
        let method = if errand.upload > 0 { "POST" } else { "GET" };
        let request = Request::builder().method(method).uri(format!("http://server/{}", errand.id)).body(());
        let (head, ()) = request.unwrap().into_parts();
        let mut body = content(!errand.id, errand.upload);
        match errand.pieces {
            None => cx.write_with(HttpPart::Whole(head.into(), body), done),
            Some(len) => {
                cx.write(HttpPart::Head(head.into()));
                while !body.is_empty() {
                    let piece = body.split_to(len.min(body.len()));
                    cx.write(HttpPart::Data(piece));
                }
                cx.write_with(HttpPart::End(None), done);
            }
        }
        self.asking = Some(asking);
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart) {
        match part {
            HttpPart::Head(_) => {}
            HttpPart::Data(bytes) => self.body.extend_from_slice(&bytes),
            HttpPart::Whole(_, bytes) => {
                self.body.extend_from_slice(&bytes);
                let body = self.body.split().freeze();
                self.tell(Ok(body));
            }
            HttpPart::End(_) => {
                let body = self.body.split().freeze();
                self.tell(Ok(body));
            }
            _ => {}
        }
        self.pieces += 1;
        let leaves = self.asking.as_ref().and_then(|asking| asking.errand.leaves_after);
        if leaves.is_some_and(|after| self.pieces > after) {
            self.tell(Err("left".to_owned()));
            cx.close();
        }
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.tell(Err(cause.to_string()));
        cx.fire_inactive(cause);
    }
}

/// Nothing is too slow: what is lost again and again comes in the end.
fn limits(client: bool) -> HttpLimits {
    let mut limits = if client { HttpLimits::client() } else { HttpLimits::default() };
    (limits.body_rate, limits.http2.take_rate, limits.head_time) = (0, 0, secs(600));
    limits.http2.setup_time = secs(600);
    // A server that has crashed says nothing, and nobody else asks whether it is there.
    limits.http2.ping_time = secs(60);
    limits
}

fn server(errands: Vec<Errand>, ledger: Ledger<Errand>) -> Server {
    let server = Server::builder().pipeline(move |_| {
        let (errands, ledger) = (errands.clone(), ledger.clone());
        let build = move || {
            let (errands, ledger) = (errands.clone(), ledger.clone());
            let answer = move |request: Request<Body>| {
                let id: usize = request.uri().path().trim_start_matches('/').parse().unwrap();
                let (errand, ledger) = (errands[id].clone(), ledger.clone());
                if ledger.count(errand.id) > 1 {
                    ledger.wrong(format!("{errand:?} came twice"));
                }
                async move {
                    if !errand.unread
                        && let Ok(body) = request.into_body().collect(1 << 20).await
                        && body != content(!errand.id, errand.upload)
                    {
                        ledger.wrong(format!("{errand:?} came with another body"));
                    }
                    time::sleep(errand.takes).await;
                    let body = content(errand.id, errand.download);
                    Response::new(if errand.streamed {
                        in_pieces(body, 3_000, millis(1))
                    } else {
                        body.into()
                    })
                }
            };
            pipeline().app(serve(answer))
        };
        pipeline().last(http2_server(build).limits(limits(false)))
    });
    server.bind("0.0.0.0:80").wait().unwrap()
}

/// Asks on this connection. What goes wrong; an error that may be is none.
async fn ask(
    connection: &Channel<Asking>,
    errand: &Errand,
    drains: bool,
    ledger: &Ledger<Errand>,
) -> Result<(), String> {
    let (told, answer) = promise();
    connection.write_and_flush(Asking { errand: errand.clone(), told });
    let got = answer.await.unwrap_or_else(|error| Err(error.to_string()));
    match got {
        Ok(bytes) if bytes == content(errand.id, errand.download) => Ok(()),
        Ok(bytes) => {
            ledger.wrong(format!("{errand:?} got {} bytes, and not those", bytes.len()));
            Ok(())
        }
        Err(left) if left == "left" => Ok(()),
        // The server had not begun it, so that it can be asked elsewhere.
        Err(_) if drains && ledger.counted(errand.id) == 0 => Ok(()),
        Err(error) => Err(format!("{errand:?}: {error}")),
    }
}

/// Clients on one host, each with a connection, and with so many exchanges on it at a time.
fn work(host: &Host, at_once: u64, drains: bool, ledger: &Ledger<Errand>) -> Result<(), String> {
    let ledger = ledger.clone();
    let here = host.clone();
    let working = async move {
        let stream = || pipeline().last(Exchange::default());
        let client = Client::builder()
            .pipeline(move || pipeline().last(http2_client(stream).limits(limits(true))))
            .unwrap();
        while let Some(mut first) = ledger.take().map(Some) {
            let connection = match client.connect("server:80").await {
                Ok(connection) => connection,
                Err(error) => {
                    let Some((errand, taken)) = first.take() else { return };
                    let begun = ledger.counted(errand.id) > 0;
                    taken.tell(if drains && !begun { Ok(()) } else { Err(error.to_string()) });
                    continue;
                }
            };
            let mut tasks = Vec::new();
            for _ in 0..at_once {
                let (ledger, connection, mut next) = (ledger.clone(), connection.clone(), first.take());
                tasks.extend(here.spawn(async move {
                    while let Some((errand, taken)) = next.take().or_else(|| ledger.take()) {
                        let result = ask(&connection, &errand, drains, &ledger).await;
                        taken.tell(result);
                        if connection.close_cause().is_some() {
                            return;
                        }
                    }
                }));
            }
            for task in tasks {
                let _ = task.await;
            }
            drop(connection.close());
        }
    };
    host.spawn(working).map(drop).map_err(|error| error.to_string())
}

fn exchanges(sim: &Sim) {
    let hosts = ["server", "one", "other"].map(|name| sim.host(name));
    draw_network(sim, &hosts);
    let errands: Vec<Errand> = (0..3 + sim.below(25)).map(|id| draw_errand(sim, id)).collect();
    let ledger = Ledger::new(errands.clone());
    let served = ledger.clone();
    hosts[0].start(move || Ok::<_, String>(server(errands.clone(), served.clone()))).unwrap();
    let faults = draw_faults(sim, secs(4));
    for host in &hosts[1..] {
        let (at_once, here, ledger) = (1 + sim.below(12), host.clone(), ledger.clone());
        host.start(move || work(&here, at_once, false, &ledger)).unwrap();
    }
    ledger.finish(sim, secs(3_600), faults);
}

fn draining(sim: &Sim) {
    let hosts = ["server", "one", "other"].map(|name| sim.host(name));
    draw_network(sim, &hosts);
    let errands: Vec<Errand> = (0..20 + sim.below(60)).map(|id| draw_errand(sim, id)).collect();
    let ledger = Ledger::new(errands.clone());
    let server = hosts[0].enter(|| server(errands, ledger.clone()));
    for host in &hosts[1..] {
        let (at_once, here, ledger) = (1 + sim.below(12), host.clone(), ledger.clone());
        host.start(move || work(&here, at_once, true, &ledger)).unwrap();
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
    sim.run_for(secs(100));
    assert_eq!(server.figures().open, 0, "cut: {}", drained.cut);
    ledger.finish(sim, secs(3_600), faults || short);
    hosts[0].enter(|| drop(server));
}

// Each some 8 s of one core in a debug build.

#[test]
fn streams_are_answered_whole_and_once_whatever_becomes_of_their_neighbours() {
    for_seeds(0..200, exchanges);
}

#[test]
fn streams_are_determined_by_the_seed() {
    assert_determined(exchanges);
}

#[test]
fn a_drained_connection_answers_what_it_has_begun() {
    for_seeds(0..200, draining);
}
