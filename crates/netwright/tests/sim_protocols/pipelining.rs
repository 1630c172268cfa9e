//! Requests one behind the other, from clients that do not wait for replies, in pieces of any size.

use super::common::{
    Ledger, assert_determined, both, content, draw_faults, draw_len, draw_network, millis, one_in, secs,
};
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use netwright::{
    Client, CloseCause, Peer, Server,
    http::{Body, HttpLimits, HttpServer, Received, respond, serve},
    pipeline,
    server::BindError,
    time,
};
use netwright_testkit::sim::{Host, Sim, for_seeds};
use std::time::Duration;

/// What one client says on one connection.
#[derive(Clone, Debug)]
struct Session {
    id: u64,
    asks: Vec<Ask>,
    /// Into how many what is said is cut.
    pieces: usize,
    pause: Duration,
    /// How it ends.
    end: End,
    /// The client reads nothing for so long.
    reads_after: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    upload: Option<usize>,
    chunked: bool,
    download: usize,
    takes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The last request says that it is the last one.
    LastSaysClose,
    /// The client sends no more.
    HalfClose,
    /// The client leaves when it has everything.
    Leaves,
}

fn draw_session(sim: &Sim, id: u64) -> Session {
    let ask = |_| {
        let upload = one_in(sim, 3).then(|| draw_len(sim));
        let takes = if one_in(sim, 2) { 0 } else { sim.below(100) };
        Ask { upload, chunked: one_in(sim, 2), download: draw_len(sim), takes }
    };
    Session {
        id,
        asks: (0..1 + sim.below(12)).map(ask).collect(),
        pieces: [200, 50, 10, 1][sim.below(4) as usize],
        pause: if one_in(sim, 2) { Duration::ZERO } else { Duration::from_micros(sim.below(3_000)) },
        end: [End::LastSaysClose, End::HalfClose, End::Leaves][sim.below(3) as usize],
        reads_after: if one_in(sim, 3) { millis(sim.below(2_000)) } else { Duration::ZERO },
    }
}

impl Session {
    fn number(&self, ask: usize) -> u64 {
        self.id * 1_000 + ask as u64
    }

    /// All that is said.
    fn said(&self) -> Bytes {
        let mut said = Vec::new();
        for (at, ask) in self.asks.iter().enumerate() {
            let method = if ask.upload.is_some() { "POST" } else { "GET" };
            let number = self.number(at);
            said.extend(
                format!("{method} /{number}/{}/{} HTTP/1.1\r\nHost: a\r\n", ask.takes, ask.download).bytes(),
            );
            if self.end == End::LastSaysClose && at + 1 == self.asks.len() {
                said.extend(b"Connection: close\r\n");
            }
            let body = content(!number, ask.upload.unwrap_or_default());
            if ask.upload.is_none() {
                said.extend(b"\r\n");
            } else if ask.chunked {
                said.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in body.chunks(1_000) {
                    said.extend(format!("{:x}\r\n", chunk.len()).bytes());
                    said.extend_from_slice(chunk);
                    said.extend(b"\r\n");
                }
                said.extend(b"0\r\n\r\n");
            } else {
                said.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                said.extend_from_slice(&body);
            }
        }
        said.into()
    }

    /// How many replies have come as a whole, each in its turn.
    fn replies(&self, heard: &[u8]) -> Result<usize, String> {
        let mut left = heard;
        for (at, ask) in self.asks.iter().enumerate() {
            let Some(end) = left.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return Ok(at) };
            let head = String::from_utf8_lossy(&left[..end]).to_lowercase();
            let number = format!("x-number: {}", self.number(at));
            if !head.starts_with("http/1.1 200 ") || head.lines().all(|line| line != number) {
                return Err(format!("reply {at} is {head:?}"));
            }
            let body = content(self.number(at), ask.download);
            let Some(got) = left.get(end + 4..end + 4 + body.len()) else { return Ok(at) };
            if got != body {
                return Err(format!("the body of reply {at} is another one"));
            }
            left = &left[end + 4 + body.len()..];
        }
        if left.is_empty() {
            Ok(self.asks.len())
        } else {
            Err(format!("{} bytes behind the last reply", left.len()))
        }
    }
}

fn numbers(path: &str) -> [u64; 3] {
    let mut parts = path.split('/').skip(1).map(|part| part.parse().unwrap());
    std::array::from_fn(|_| parts.next().unwrap())
}

fn answering(path: &str) -> Response<Bytes> {
    let [number, _, download] = numbers(path);
    let mut reply = Response::new(content(number, download as usize));
    reply.headers_mut().insert("x-number", number.into());
    reply
}

/// Nothing is too slow: what is lost again and again comes in the end.
fn codec() -> HttpServer {
    let mut limits = HttpLimits::default();
    (limits.body_rate, limits.head_time) = (0, secs(600));
    HttpServer::with(limits)
}

fn server(at_once: usize, ledger: Ledger<Session>) -> Result<Server, BindError> {
    Server::builder()
        .pipeline(move |_| {
            let ledger = ledger.clone();
            let answer = move |request: Request<Body>| {
                let ledger = ledger.clone();
                async move {
                    let path = request.uri().path().to_owned();
                    let [number, takes, _] = numbers(&path);
                    if ledger.count(number) > 1 {
                        ledger.wrong(format!("request {number} came twice"));
                    }
                    if let Ok(body) = request.into_body().collect(1 << 20).await
                        && body != content(!number, body.len())
                    {
                        ledger.wrong(format!("request {number} came with another body"));
                    }
                    time::sleep(millis(takes)).await;
                    answering(&path)
                }
            };
            pipeline().add(codec()).app(serve(answer).concurrency(at_once))
        })
        .bind("0.0.0.0:80")
        .wait()
}

/// Answers at once, with whole requests.
fn quick_server() -> Result<Server, BindError> {
    let answer = |request: &Received| answering(request.uri().path());
    Server::builder()
        .pipeline(move |_| pipeline().add(codec()).app(respond(answer)))
        .bind("0.0.0.0:80")
        .wait()
}

async fn say(mut peer: Peer, session: Session, ledger: Ledger<Session>) -> Result<(), String> {
    let (reader, writer) = peer.halves();
    let saying = async {
        let mut left = session.said();
        let len = left.len().div_ceil(session.pieces);
        while !left.is_empty() {
            let piece = left.split_to(len.min(left.len()));
            if writer.write_and_flush(piece).await.is_err() {
                return;
            }
            if !session.pause.is_zero() {
                time::sleep(session.pause).await;
            }
        }
        if session.end == End::HalfClose {
            writer.shut_down_output();
        }
    };
    let hearing = async {
        let mut heard = BytesMut::new();
        time::sleep(session.reads_after).await;
        let expected = session.asks.len();
        let cause = loop {
            // A server that was gone when its last segment was lost says nothing any more.
            match time::timeout(secs(600), reader.read()).await {
                Ok(Ok(Some(bytes))) => heard.extend_from_slice(&bytes),
                Ok(Ok(None)) | Err(_) => break None,
                Ok(Err(cause)) => break Some(cause),
            }
            if session.end == End::Leaves && session.replies(&heard) == Ok(expected) {
                break None;
            }
        };
        (heard, cause)
    };
    let ((), (heard, cause)) = both(saying, hearing).await;
    match session.replies(&heard) {
        Ok(replies) if replies == session.asks.len() => Ok(()),
        Ok(replies) => {
            let begin = String::from_utf8_lossy(&heard[..heard.len().min(300)]);
            Err(format!("{replies} of {} replies, then {cause:?}: {session:?}, {begin}", session.asks.len()))
        }
        Err(wrong) => {
            ledger.wrong(format!("{wrong}: {session:?}"));
            Ok(())
        }
    }
}

fn client(host: &Host, ledger: &Ledger<Session>) -> Result<(), String> {
    for _ in 0..3 {
        let ledger = ledger.clone();
        let working = async move {
            while let Some((session, taken)) = ledger.take() {
                let (tell, told) = netwright::promise::promise::<_, netwright::promise::PromiseError>();
                let tell = std::sync::Mutex::new(Some((tell, session, ledger.clone())));
                let client = Client::builder().pipeline(move || {
                    let work = tell.lock().unwrap().take();
                    pipeline().serve(move |peer: Peer| async move {
                        let Some((tell, session, ledger)) = work else { return Ok(()) };
                        tell.succeed(say(peer, session, ledger).await);
                        Ok::<_, CloseCause>(())
                    })
                });
                let client = client.unwrap();
                let result = match client.connect("server:80").await {
                    Ok(_) => told.await.unwrap_or_else(|error| Err(error.to_string())),
                    Err(error) => Err(error.to_string()),
                };
                taken.tell(result);
            }
        };
        let _ = host.spawn(working).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn sessions(sim: &Sim) {
    let hosts = ["server", "client"].map(|name| sim.host(name));
    draw_network(sim, &hosts);
    let ledger = Ledger::new((0..3 + sim.below(6)).map(|id| draw_session(sim, id)).collect::<Vec<_>>());
    let (quick, at_once) = (one_in(sim, 4), 1 + sim.below(5) as usize);
    let served = ledger.clone();
    let program = move || if quick { quick_server() } else { server(at_once, served.clone()) };
    hosts[0].start(program).unwrap();
    let faults = draw_faults(sim, secs(4));
    let (here, work) = (hosts[1].clone(), ledger.clone());
    hosts[1].start(move || client(&here, &work)).unwrap();
    ledger.finish(sim, secs(3_600), faults);
}

#[test]
fn replies_come_whole_and_in_the_order_of_their_requests() {
    // Some 8 s of one core in a debug build.
    for_seeds(0..200, sessions);
}

#[test]
fn pipelining_is_determined_by_the_seed() {
    assert_determined(sessions);
}
