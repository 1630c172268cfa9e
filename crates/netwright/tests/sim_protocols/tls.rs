//! TLS: `https`, and connections that begin in clear.

use super::{
    common::{
        Ledger, acceptor, both, connector, content, draw_faults, draw_len, draw_network, millis, one_in, secs,
    },
    http::clients_and_a_server,
};
use bytes::{Bytes, BytesMut};
use netwright::{
    AppContext, Application, Client, CloseCause, Observer, Outgoing, Peer, Server,
    codec::LineFrames,
    pipeline,
    pipeline::{Switch, observe},
    promise::{Promise, PromiseError, promise},
    server::BindError,
    time,
    tls::{Acceptor, Connector, Tls},
};
use netwright_testkit::sim::{Host, Sim, for_seeds};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

/// What one client does.
#[derive(Clone, Debug)]
struct Session {
    id: u64,
    /// Lines that it says in clear before.
    lines: usize,
    /// It waits for no answer before it begins with TLS.
    hurries: bool,
    secret: usize,
    piece: usize,
    pause: Duration,
}

fn draw_session(sim: &Sim, id: u64) -> Session {
    let hurries = one_in(sim, 2);
    Session {
        id,
        lines: if hurries { 0 } else { sim.below(4) as usize },
        hurries,
        secret: 1 + draw_len(sim),
        piece: [1, 100, 5_000, 50_000][sim.below(4) as usize],
        pause: if one_in(sim, 2) { Duration::ZERO } else { millis(sim.below(5)) },
    }
}

/// Everything that a side has written.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<BytesMut>>);

impl Observer for Wire {
    type Read = BytesMut;
    type Write = Outgoing;

    fn sees_write(&mut self, message: &Outgoing) {
        match message {
            Outgoing::Bytes(bytes) => self.0.lock().unwrap().extend_from_slice(bytes),
            other => panic!("{other:?} on the wire"),
        }
    }
}

impl Wire {
    /// Whether records of TLS are all that was said behind `clear`, of which the end may be missing.
    fn check(&self, clear: &[u8]) -> Result<(), String> {
        let written = self.0.lock().unwrap().clone();
        let Some(mut left) = written.strip_prefix(clear) else {
            return if clear.starts_with(&written) { Ok(()) } else { Err(format!("in clear: {written:?}")) };
        };
        while let [kind, major, _, high, low, rest @ ..] = left {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            if !(20..=23).contains(kind) || *major != 3 || rest.len() < len {
                return Err(format!("no record of TLS: {:?}", &left[..left.len().min(40)]));
            }
            left = &rest[len..];
        }
        if left.is_empty() { Ok(()) } else { Err(format!("no record of TLS: {left:?}")) }
    }
}

/// The server before TLS: sends lines back, until it is asked for TLS.
struct InClear {
    switch: Switch<Infallible>,
    acceptor: Acceptor,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Application for InClear {
    type Read = Bytes;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: Bytes) {
        let mut said = self.said.lock().unwrap();
        said.extend_from_slice(&line);
        said.push(b'\n');
        let tls = Tls::server(&self.acceptor);
        match &line[..] {
            b"STARTTLS" => {
                self.switch.to(pipeline().add(tls.start_tls()).app(Echo { greets: true }).sealed())
            }
            b"HURRY" => self.switch.to(pipeline().add(tls).app(Echo { greets: false }).sealed()),
            _ => cx.write_and_flush(line),
        }
    }
}

/// The server in TLS.
struct Echo {
    /// Answers in clear, first of all.
    greets: bool,
}

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        if self.greets {
            cx.write_and_flush(Bytes::from_static(b"GO AHEAD\n"));
        }
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

/// What the server says in clear, by what it has heard.
fn answers(said: &[u8]) -> Vec<u8> {
    let mut answers = Vec::new();
    for line in said.split_inclusive(|byte| *byte == b'\n') {
        match line {
            b"HURRY\n" => {}
            b"STARTTLS\n" => answers.extend_from_slice(b"GO AHEAD\n"),
            line => answers.extend_from_slice(line),
        }
    }
    answers
}

/// Looks at everything that was said on a connection when it is over.
struct Looks {
    wire: Wire,
    said: Arc<Mutex<Vec<u8>>>,
    ledger: Ledger<Session>,
}

impl Drop for Looks {
    fn drop(&mut self) {
        if let Err(wrong) = self.wire.check(&answers(&self.said.lock().unwrap())) {
            self.ledger.wrong(format!("the server said {wrong}"));
        }
    }
}

impl Observer for Looks {
    type Read = BytesMut;
    type Write = Outgoing;
}

fn server(ledger: Ledger<Session>) -> Result<Server, BindError> {
    let acceptor = acceptor();
    Server::builder()
        .pipeline(move |_| {
            let (wire, said) = (Wire::default(), Arc::default());
            let looks = Looks { wire: wire.clone(), said: Arc::clone(&said), ledger: ledger.clone() };
            let acceptor = acceptor.clone();
            pipeline().add(observe(looks)).add(observe(wire)).joint(move |switch| {
                pipeline().add(LineFrames::max(1_000)).app(InClear { switch, acceptor, said }).sealed()
            })
        })
        .bind("0.0.0.0:25")
        .wait()
}

type Done = Promise<Result<(), String>, PromiseError>;

/// The client before TLS.
struct Begins {
    switch: Switch<Outgoing>,
    connector: Connector,
    session: Session,
    heard: BytesMut,
    done: Option<Done>,
}

impl Session {
    /// What is said in clear.
    fn clear(&self) -> Vec<u8> {
        let mut clear = Vec::new();
        for line in 0..self.lines {
            clear.extend(format!("line {line} of {}\n", self.id).bytes());
        }
        clear.extend_from_slice(if self.hurries { b"HURRY\n" } else { b"STARTTLS\n" });
        clear
    }
}

impl Begins {
    fn go_on(&mut self) {
        let tls = Tls::client(&self.connector, "server").unwrap();
        let (session, Some(done)) = (self.session.clone(), self.done.take()) else { return };
        self.switch.to(pipeline().add(tls).serve(move |peer: Peer| async move {
            done.succeed(tell_secrets(peer, &session).await);
            Ok::<_, CloseCause>(())
        }));
    }
}

impl Application for Begins {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush(Bytes::from(self.session.clear()));
        if self.session.hurries {
            self.go_on();
        }
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.heard.extend_from_slice(&bytes);
        let expected = answers(&self.session.clear());
        if self.heard.len() < expected.len() {
            return;
        }
        if self.heard != expected {
            let heard = std::mem::take(&mut self.heard);
            self.done.take().into_iter().for_each(|done| done.succeed(Err(format!("heard {heard:?}"))));
            return cx.close();
        }
        self.go_on();
    }
}

/// Says a secret, and hears it.
async fn tell_secrets(mut peer: Peer, session: &Session) -> Result<(), String> {
    let secret = content(session.id, session.secret);
    let (reader, writer) = peer.halves();
    let saying = async {
        let mut left = secret.clone();
        let len = session.piece.max(left.len() / 100);
        while !left.is_empty() {
            if writer.write_and_flush(left.split_to(len.min(left.len()))).await.is_err() {
                return;
            }
            time::sleep(session.pause).await;
        }
    };
    let hearing = async {
        let mut heard = BytesMut::new();
        while heard.len() < secret.len() {
            match time::timeout(secs(600), reader.read()).await {
                Ok(Ok(Some(bytes))) => heard.extend_from_slice(&bytes),
                Ok(ended) => return (heard, format!("{ended:?}")),
                Err(_) => return (heard, "nothing".to_owned()),
            }
        }
        (heard, String::new())
    };
    let ((), (heard, cause)) = both(saying, hearing).await;
    if !secret.starts_with(&heard) {
        return Err(format!("other bytes than were said: {session:?}"));
    }
    match heard.len() == secret.len() {
        true => Ok(()),
        false => Err(format!("{} of {} bytes, then {cause}: {session:?}", heard.len(), secret.len())),
    }
}

async fn run(session: &Session, connector: Connector, ledger: &Ledger<Session>) -> Result<(), String> {
    let wire = Wire::default();
    let (done, told) = promise();
    let work = Mutex::new(Some((done, session.clone(), wire.clone())));
    let client = Client::builder().pipeline(move || {
        let (done, session, wire) = work.lock().unwrap().take().unwrap();
        let connector = connector.clone();
        pipeline().add(observe(wire)).joint(move |switch| {
            let heard = BytesMut::new();
            pipeline().app(Begins { switch, connector, session, heard, done: Some(done) })
        })
    });
    let client = client.unwrap();
    let channel = client.connect("server:25").await.map_err(|error| error.to_string())?;
    let result = match time::timeout(secs(600), told).await {
        Ok(told) => told.unwrap_or_else(|error| Err(error.to_string())),
        // Whoever has nothing to send does not learn that a server has crashed, unless by its own clock (seed 12075).
        Err(_) => {
            drop(channel.close());
            Err("nothing".to_owned())
        }
    };
    if time::timeout(secs(600), channel.closed()).await.is_err() {
        ledger.wrong(format!("never closed: {session:?}"));
    }
    if let Err(wrong) = wire.check(&session.clear()) {
        ledger.wrong(format!("{session:?} said {wrong}"));
    }
    result
}

fn client(host: &Host, ledger: &Ledger<Session>) -> Result<(), String> {
    let connector = connector();
    for _ in 0..3 {
        let (ledger, connector) = (ledger.clone(), connector.clone());
        let working = async move {
            while let Some((session, taken)) = ledger.take() {
                let result = run(&session, connector.clone(), &ledger).await;
                if result.as_ref().is_err_and(|error| error.starts_with("other")) {
                    ledger.wrong(format!("{result:?}"));
                }
                taken.tell(result);
            }
        };
        let _ = host.spawn(working).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn starting_in_clear(sim: &Sim) {
    let hosts = ["server", "client"].map(|name| sim.host(name));
    draw_network(sim, &hosts);
    let ledger = Ledger::new((0..2 + sim.below(5)).map(|id| draw_session(sim, id)).collect::<Vec<_>>());
    let served = ledger.clone();
    hosts[0].start(move || server(served.clone())).unwrap();
    let faults = draw_faults(sim, secs(4));
    let (here, work) = (hosts[1].clone(), ledger.clone());
    hosts[1].start(move || client(&here, &work)).unwrap();
    ledger.finish(sim, secs(3_600), faults);
}

#[test]
fn behind_starttls_no_byte_is_lost_and_none_is_in_clear() {
    // Some 5 s of one core in a debug build.
    for_seeds(0..150, starting_in_clear);
}

#[test]
fn requests_through_tls_have_their_own_replies_or_errors() {
    // Some 5 s of one core in a debug build.
    for_seeds(0..100, |sim| clients_and_a_server(sim, true));
}
