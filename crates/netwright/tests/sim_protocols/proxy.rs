//! Proxies that are written on Netwright: one that passes bytes from channel to channel, and one that web clients ask to `CONNECT` them.
//!
//! ```text
//!   client ◀──▶ [ Side ] ══ pair ══ [ Side ] ◀──▶ server       each reads only while the other has room
//! ```

use super::common::{
    Ledger, acceptor, assert_determined, both, connector, content, draw_faults, draw_len, draw_network,
    millis, one_in, secs,
};
use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode};
use netwright::{
    AppContext, Application, Channel, Client, CloseCause, EventLoopGroup, Outgoing, Peer, Server,
    channel::WaterMarks,
    event_loops,
    http::{
        Body, HttpLimits, HttpPart, HttpServer, ReplyHead, ReplyPart, RequestPart, client::WebClient, serve,
    },
    pipeline,
    pipeline::{HalfClosure, Switch},
    server::BindError,
    time,
    tls::Tls,
};
use netwright_testkit::sim::{Host, Sim, for_seeds};
use std::{
    convert::Infallible,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// What one read brings at most, several times: as much may come to a channel that has just run out of room.
const BEYOND: i64 = 256 << 10;

/// What a proxy has of others. Clones are the same.
#[derive(Clone)]
struct Books {
    inner: Arc<Counts>,
    /// The loops of a proxy that runs.
    group: Option<EventLoopGroup>,
    marks: WaterMarks,
    ledger: Arc<dyn Fn(String) + Send + Sync>,
}

#[derive(Default)]
struct Counts {
    sides: AtomicI64,
}

impl Books {
    fn new<T: Send + 'static>(sim: &Sim, ledger: &Ledger<T>) -> Self {
        let high = 1_000 + sim.below(60_000) as usize;
        let ledger = ledger.clone();
        Self {
            inner: Arc::default(),
            group: None,
            marks: WaterMarks::new(high / 2, high).unwrap(),
            ledger: Arc::new(move |wrong| ledger.wrong(wrong)),
        }
    }

    /// For a proxy that begins to run.
    fn begin(self) -> Self {
        Self { group: event_loops(2).ok(), ..self }
    }

    /// For a channel, which must not keep the loop that it lives on.
    fn apart(&self) -> Self {
        Self { group: None, ..self.clone() }
    }

    fn sides(&self) -> i64 {
        self.inner.sides.load(Ordering::Relaxed)
    }
}

/// One side of a pair. Does not read before it knows the other one.
struct Side {
    /// Where the other one finds it.
    own: Arc<OnceLock<Channel>>,
    other: Arc<OnceLock<Channel>>,
    /// What the other one was given and has not sent.
    given: Arc<AtomicI64>,
    books: Books,
}

impl Side {
    fn new(own: &Arc<OnceLock<Channel>>, other: &Arc<OnceLock<Channel>>, books: &Books) -> Self {
        books.inner.sides.fetch_add(1, Ordering::Relaxed);
        Self { own: own.clone(), other: other.clone(), given: Arc::default(), books: books.apart() }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.books.inner.sides.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Application for Side {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        let _ = self.own.set(cx.channel());
        if let Some(other) = self.other.get() {
            // This is the later one of the two.
            if let Some(cause) = other.close_cause() {
                return end(&cx.channel(), &cause);
            }
            other.resume();
            cx.resume();
        }
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        let Some(other) = self.other.get() else {
            return (self.books.ledger)(format!("{} bytes are read for nobody", bytes.len()));
        };
        let (len, given) = (bytes.len() as i64, self.given.clone());
        let now = given.fetch_add(len, Ordering::Relaxed) + len;
        if now > self.books.marks.high() as i64 + BEYOND {
            (self.books.ledger)(format!("{now} bytes wait for the other side"));
        }
        other.send(bytes.freeze()).listen(move |_| _ = given.fetch_sub(len, Ordering::Relaxed));
        if !other.is_writable() {
            cx.pause(); // the other side resumes us when it has room
        }
    }

    fn writability(&mut self, _: &mut AppContext<'_, Self>, writable: bool) {
        if let (true, Some(other)) = (writable, self.other.get()) {
            other.resume();
        }
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {
        if let Some(other) = self.other.get() {
            other.shut_down_output();
        }
    }

    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        if let Some(other) = self.other.get() {
            end(other, &cause);
        }
    }
}

/// One side is over, and so is the other: behind what it was sent, unless nobody is left to read what comes back.
fn end(other: &Channel, cause: &CloseCause) {
    match cause {
        CloseCause::Io(_) => drop(other.close()),
        _ => drop(other.close_when_flushed()),
    }
}

/// Connects to `target`; the new channel waits for its other side.
async fn reach(
    target: &str,
    own: &Arc<OnceLock<Channel>>,
    other: &Arc<OnceLock<Channel>>,
    books: &Books,
) -> Option<Channel> {
    let (kept, there, entries) = (own.clone(), other.clone(), books.apart());
    let client = Client::builder()
        .group(books.group.clone()?)
        .auto_read(false)
        .water_marks(books.marks)
        .pipeline(move || pipeline().app(Side::new(&kept, &there, &entries)));
    client.ok()?.connect(target).await.ok()
}

// ---- bytes ----

/// What is said first on a connection, and what both sides say then.
#[derive(Clone, Debug)]
struct Talk {
    id: u64,
    up: usize,
    down: usize,
    piece: usize,
    pause: Duration,
}

impl Talk {
    fn draw(sim: &Sim, id: u64) -> Self {
        Self {
            id,
            up: draw_len(sim),
            down: draw_len(sim),
            piece: [100, 5_000, 50_000][sim.below(3) as usize],
            pause: if one_in(sim, 2) { Duration::ZERO } else { millis(sim.below(5)) },
        }
    }
}

/// Says one thing while it hears another. What was heard, and how that ended.
async fn talk(peer: &mut Peer, says: Bytes, piece: usize, pause: Duration) -> (BytesMut, String) {
    let (reader, writer) = peer.halves();
    let saying = async {
        let (mut left, piece) = (says.clone(), piece.max(says.len() / 50));
        while !left.is_empty() {
            if writer.write_and_flush(left.split_to(piece.min(left.len()))).await.is_err() {
                return;
            }
            time::sleep(pause).await;
        }
        writer.shut_down_output();
    };
    let hearing = async {
        let mut heard = BytesMut::new();
        loop {
            match time::timeout(secs(600), reader.read()).await {
                Ok(Ok(Some(bytes))) => heard.extend_from_slice(&bytes),
                Ok(Ok(None)) => return (heard, String::new()),
                Ok(Err(cause)) => return (heard, cause.to_string()),
                Err(_) => return (heard, "nothing".to_owned()),
            }
        }
    };
    both(saying, hearing).await.1
}

/// Is told by the first eight bytes who asks.
fn talks(talks: Vec<Talk>, ledger: Ledger<Talk>) -> Result<Server, BindError> {
    Server::builder()
        .pipeline(move |_| {
            let (talks, ledger) = (talks.clone(), ledger.clone());
            pipeline().serve(move |mut peer: Peer| async move {
                let mut first = BytesMut::new();
                while first.len() < 8 {
                    let Some(bytes) = peer.read().await? else { return Ok(()) };
                    first.extend_from_slice(&bytes);
                }
                let id = u64::from_be_bytes(first.split_to(8)[..].try_into().unwrap());
                let Some(asked) = talks.get(id as usize) else {
                    ledger.wrong(format!("talk {id} is none"));
                    return Ok::<(), CloseCause>(());
                };
                let (rest, cause) = talk(&mut peer, content(!id, asked.down), asked.piece, asked.pause).await;
                first.extend_from_slice(&rest);
                if !content(id, asked.up).starts_with(&first) {
                    ledger.wrong(format!(
                        "{asked:?}: other bytes came than were said, {} of them, {cause}",
                        first.len()
                    ));
                }
                if first.len() == asked.up {
                    ledger.count(id);
                }
                Ok(())
            })
        })
        .bind("0.0.0.0:7")
        .wait()
}

fn passes(books: Books) -> Result<Server, BindError> {
    let (marks, books) = (books.marks, books.begin());
    Server::builder()
        .group(books.group.clone().unwrap())
        .auto_read(false)
        .water_marks(marks)
        .pipeline(move |_| {
            let books = books.clone();
            pipeline().joint(move |switch: Switch<Outgoing>| {
                // Nothing is read before the other side is there.
                pipeline().app(Arrives { switch: Some(switch), books, gone: Arc::default() })
            })
        })
        .bind("0.0.0.0:9")
        .wait()
}

/// A connection on its way to a pair.
struct Arrives {
    switch: Option<Switch<Outgoing>>,
    books: Books,
    /// The client has left before.
    gone: Arc<OnceLock<()>>,
}

impl Application for Arrives {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        let (front, back) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
        let (books, entries, gone) = (self.books.clone(), self.books.clone(), self.gone.clone());
        let Some(switch) = self.switch.take() else { return };
        cx.spawn(
            {
                let (front, back) = (front.clone(), back.clone());
                async move {
                    let reached = reach("server:7", &back, &front, &books).await;
                    if let (Some(channel), Some(())) = (&reached, gone.get()) {
                        drop(channel.close());
                    }
                    reached.map(|_| ())
                }
            },
            move |_, cx, reached: Option<()>| match reached {
                Some(()) => switch.to(pipeline().app(Side::new(&front, &back, &entries))),
                None => cx.close(),
            },
        );
    }

    fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
        (self.books.ledger)(format!("{} bytes are read before they are wanted", bytes.len()));
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn owes(&self) -> bool {
        true
    }

    fn inactive(&mut self, _: &mut AppContext<'_, Self>, _: CloseCause) {
        let _ = self.gone.set(());
    }
}

async fn run(asked: &Talk, ledger: &Ledger<Talk>) -> Result<(), String> {
    let (promise, told) = netwright::promise::promise::<_, netwright::promise::PromiseError>();
    let work = std::sync::Mutex::new(Some((promise, asked.clone())));
    let client = Client::builder().pipeline(move || {
        let (promise, asked) = work.lock().unwrap().take().unwrap();
        pipeline().serve(move |mut peer: Peer| async move {
            let mut says = BytesMut::from(&asked.id.to_be_bytes()[..]);
            says.extend_from_slice(&content(asked.id, asked.up));
            promise.succeed(talk(&mut peer, says.freeze(), asked.piece, asked.pause).await);
            Ok::<_, CloseCause>(())
        })
    });
    let client = client.unwrap();
    let channel = client.connect("proxy:9").await.map_err(|error| error.to_string())?;
    let (heard, cause) = told.await.map_err(|error| error.to_string())?;
    // The end of its function closes it, behind what it has still to send.
    if time::timeout(secs(900), channel.closed()).await.is_err() {
        ledger.wrong(format!("never closed: {asked:?}"));
    }
    let wanted = content(!asked.id, asked.down);
    if !wanted.starts_with(&heard) {
        ledger.wrong(format!("{asked:?} was told other bytes than were said"));
    }
    if heard.len() < wanted.len() {
        return Err(format!("{asked:?}: {} of {} bytes, then {cause}", heard.len(), wanted.len()));
    }
    Ok(())
}

fn through_a_pair(sim: &Sim) {
    let hosts: Vec<Host> = ["server", "proxy", "one", "other"].map(|name| sim.host(name)).into();
    let network = draw_network(sim, &hosts);
    let all: Vec<Talk> = (0..4 + sim.below(12)).map(|id| Talk::draw(sim, id)).collect();
    let ledger = Ledger::new(all.clone());
    let (served, asked) = (ledger.clone(), all.clone());
    hosts[0].start(move || talks(asked.clone(), served.clone())).unwrap();
    let books = Books::new(sim, &ledger);
    let kept = books.clone();
    hosts[1].start(move || passes(kept.clone())).unwrap();
    // A connect is given up after a while, which losses may take.
    let faults = draw_faults(sim, secs(5)) || network.loses();
    for host in &hosts[2..] {
        let (here, ledger, tasks) = (host.clone(), ledger.clone(), 1 + sim.below(3));
        let work = move || {
            for _ in 0..tasks {
                let ledger = ledger.clone();
                let working = async move {
                    while let Some((asked, taken)) = ledger.take() {
                        taken.tell(run(&asked, &ledger).await);
                    }
                };
                drop(here.spawn(working).map_err(|error| error.to_string())?);
            }
            Ok::<_, String>(())
        };
        host.start(work).unwrap();
    }
    ledger.finish(sim, secs(7_200), faults);
    sim.run_for(secs(60));
    if !faults {
        for asked in &all {
            if ledger.counted(asked.id) != 1 {
                sim.violation(format!("{asked:?} came whole {} times", ledger.counted(asked.id)));
            }
        }
        if books.sides() != 0 {
            sim.violation(format!("{} sides of pairs are left", books.sides()));
        }
    }
}

#[test]
fn what_passes_a_pair_of_channels_comes_whole_and_in_order_and_little_of_it_waits() {
    // Some 3 s of one core in a debug build.
    for_seeds(0..100, through_a_pair);
}

// ---- CONNECT ----

#[derive(Clone, Debug)]
struct Errand {
    id: u64,
    upload: usize,
    download: usize,
    takes: Duration,
}

fn secure(
    errands: Vec<Errand>,
    ledger: Ledger<Errand>,
    limits: Arc<HttpLimits>,
) -> Result<Server, BindError> {
    let acceptor = acceptor();
    Server::builder()
        .pipeline(move |_| {
            let (errands, ledger) = (errands.clone(), ledger.clone());
            let answer = move |request: Request<Body>| {
                let id: usize = request.uri().path()[1..].parse().unwrap();
                let (errand, ledger) = (errands[id].clone(), ledger.clone());
                async move {
                    if ledger.count(errand.id) > 1 && errand.upload > 0 {
                        ledger.wrong(format!("{errand:?} came again"));
                    }
                    match request.into_body().collect(1 << 20).await {
                        Ok(body) if body == content(!errand.id, errand.upload) => {}
                        Ok(body) => ledger.wrong(format!("{errand:?}: {} bytes, and not those", body.len())),
                        Err(_) => {} // whoever asked is gone
                    }
                    time::sleep(errand.takes).await;
                    Response::new(Body::from(content(errand.id, errand.download)))
                }
            };
            pipeline().add(Tls::server(&acceptor)).add(HttpServer::with(limits.clone())).app(serve(answer))
        })
        .bind("0.0.0.0:443")
        .wait()
}

fn tunnels(books: Books) -> Result<Server, BindError> {
    let (marks, books) = (books.marks, books.begin());
    Server::builder()
        .group(books.group.clone().unwrap())
        .water_marks(marks)
        .pipeline(move |_| {
            let books = books.clone();
            pipeline().joint(move |switch: Switch<Infallible>| {
                let asked = move |peer: Peer<RequestPart, ReplyPart>| connect(peer, switch, books);
                pipeline().add(HttpServer::new()).serve(asked).sealed()
            })
        })
        .bind("0.0.0.0:3128")
        .wait()
}

/// Connects whoever asks for it, and gives way to the pair then.
async fn connect(
    mut peer: Peer<RequestPart, ReplyPart>,
    switch: Switch<Infallible>,
    books: Books,
) -> Result<(), CloseCause> {
    let Some(HttpPart::Whole(head, _) | HttpPart::Head(head)) = peer.read().await? else { return Ok(()) };
    if head.method != Method::CONNECT {
        (books.ledger)(format!("{} {} of a client that was to connect", head.method, head.uri));
        return Ok(());
    }
    let (front, back) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
    let status = match reach(&head.uri.to_string(), &back, &front, &books).await {
        Some(_) => StatusCode::OK,
        None => StatusCode::BAD_GATEWAY,
    };
    let mut reply = ReplyHead::new();
    reply.status = status;
    if let Err(cause) = peer.send(HttpPart::Whole(reply, Bytes::new())).await {
        if let Some(back) = back.get() {
            drop(back.close());
        }
        return Err(CloseCause::Fault(netwright::Fault::new(cause)));
    }
    if status == StatusCode::OK {
        switch.to(pipeline().app(Side::new(&front, &back, &books)).sealed());
    }
    Ok(())
}

async fn ask(client: &WebClient, errand: &Errand, ledger: &Ledger<Errand>) -> Result<(), String> {
    let url = format!("https://server/{}", errand.id);
    let asking = match errand.upload {
        0 => client.get(url),
        upload => client.post(url, content(!errand.id, upload)),
    };
    let reply = asking.await.map_err(|error| format!("{errand:?}: {error}"))?;
    if reply.status() != StatusCode::OK {
        return Err(format!("{errand:?}: {}", reply.status()));
    }
    let got = reply.into_body().collect(1 << 20).await.map_err(|error| format!("{errand:?}: {error}"))?;
    if got != content(errand.id, errand.download) {
        ledger.wrong(format!("{errand:?} got {} bytes, and not those", got.len()));
    }
    Ok(())
}

fn through_a_tunnel(sim: &Sim) {
    let hosts: Vec<Host> = ["server", "proxy", "one", "other"].map(|name| sim.host(name)).into();
    let network = draw_network(sim, &hosts);
    let errands: Vec<Errand> = (0..5 + sim.below(15))
        .map(|id| Errand {
            id,
            upload: if one_in(sim, 2) { draw_len(sim) } else { 0 },
            download: draw_len(sim),
            takes: if one_in(sim, 2) { Duration::ZERO } else { millis(sim.below(500)) },
        })
        .collect();
    let ledger = Ledger::new(errands.clone());
    let mut limits = HttpLimits::default();
    (limits.head_time, limits.body_rate) = (secs(600), 0);
    let limits = Arc::new(limits);
    let served = ledger.clone();
    hosts[0].start(move || secure(errands.clone(), served.clone(), limits.clone())).unwrap();
    let books = Books::new(sim, &ledger);
    let kept = books.clone();
    hosts[1].start(move || tunnels(kept.clone())).unwrap();
    // Handshakes and connects are given up after a while, which losses may take.
    let faults = draw_faults(sim, secs(5)) || network.loses() || network.link.rate.is_some();
    for host in &hosts[2..] {
        let (here, ledger, tasks) = (host.clone(), ledger.clone(), 1 + sim.below(4));
        let connections = 1 + sim.below(4) as usize;
        let work = move || {
            let settings = WebClient::builder().connections(connections).connector(connector());
            let client =
                settings.proxy("proxy:3128").and_then(|settings| settings.total_timeout(secs(900)).build());
            let client = client.map_err(|error| error.to_string())?;
            for _ in 0..tasks {
                let (client, ledger) = (client.clone(), ledger.clone());
                let working = async move {
                    while let Some((errand, taken)) = ledger.take() {
                        taken.tell(ask(&client, &errand, &ledger).await);
                    }
                };
                drop(here.spawn(working).map_err(|error| error.to_string())?);
            }
            Ok::<_, String>(client)
        };
        host.start(work).unwrap();
    }
    ledger.finish(sim, secs(20_000), faults);
    sim.run_for(secs(200)); // longer than connections are kept
    if !faults && books.sides() != 0 {
        sim.violation(format!("{} sides of pairs are left", books.sides()));
    }
}

#[test]
fn requests_through_a_tunnel_have_their_own_replies_or_errors_and_no_post_is_sent_twice() {
    // Some 5 s of one core in a debug build.
    for_seeds(0..100, through_a_tunnel);
}

#[test]
fn pairs_are_determined_by_the_seed() {
    assert_determined(through_a_pair);
}
