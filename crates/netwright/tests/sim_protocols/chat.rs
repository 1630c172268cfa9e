//! Members of a chat, who come, talk, and leave, by WebSocket.

use super::common::{
    Ledger, assert_determined, both, content, draw_faults, draw_network, millis, one_in, secs,
};
use http::{Request, Response};
use netwright::{
    AppContext, Application, ChannelGroup, CloseCause, Peer, Server, event_loops,
    http::{Body, HttpServer, serve},
    pipeline,
    server::BindError,
    time,
    websocket::{
        Accept, Close, CloseCode, Config, Deflate, Message, Opened, Request as Opening, WebSocketClient,
    },
};
use netwright_testkit::sim::{Host, Sim, for_seeds};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Everybody hears everybody, themselves too.
struct Member {
    room: ChannelGroup<Message>,
}

impl Application for Member {
    type Read = Message;
    type Write = Message;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.room.add(cx.channel());
        self.room.write_and_flush(Message::from(format!("here {}", self.room.len())));
    }

    fn read(&mut self, _: &mut AppContext<'_, Self>, message: Message) {
        if message.is_data() {
            self.room.write_and_flush(message);
        }
    }
}

fn server(config: Config) -> Result<Server, BindError> {
    let accept = Arc::new(Accept::new(config).path("/chat"));
    let room = ChannelGroup::new();
    Server::builder()
        .pipeline(move |_| {
            let (accept, room) = (accept.clone(), room.clone());
            pipeline().joint(|switch| {
                let upgrade = netwright::websocket::Upgrade::new(switch, accept, move |socket, _, _| {
                    pipeline().add(socket).app(Member { room: room.clone() })
                });
                let page = serve(async |_: Request<Body>| Response::new("no page"));
                pipeline().add(HttpServer::new()).add(upgrade).app(page).sealed()
            })
        })
        .bind("0.0.0.0:80")
        .wait()
}

/// What a member does.
#[derive(Clone, Debug)]
struct Visit {
    id: u64,
    /// How long everything is that it says.
    says: Vec<usize>,
    pause: Duration,
    /// It reads nothing for so long.
    reads_after: Duration,
    /// How many have to be there before it talks.
    members: usize,
    /// All that is said by all of them.
    said: usize,
}

/// What one has heard of the others, each with how much by now.
#[derive(Default)]
struct Heard {
    next: BTreeMap<u64, usize>,
    messages: usize,
    wrong: Option<String>,
}

impl Heard {
    /// `11 7 …`: number 7 of what 11 says.
    fn message(&mut self, payload: &[u8]) {
        let mut parts = payload.splitn(3, |byte| *byte == b' ');
        let mut number = || String::from_utf8_lossy(parts.next().unwrap_or_default()).parse::<usize>().ok();
        let (Some(from), Some(at)) = (number(), number()) else {
            self.wrong = Some(format!("{payload:?}"));
            return;
        };
        let body = parts.next().unwrap_or_default();
        let expected = self.next.entry(from as u64).or_insert(at);
        if *expected != at || body != content((from * 1_000 + at) as u64, body.len()) {
            self.wrong =
                Some(format!("number {at} of {from} instead of {expected}, with {} bytes", body.len()));
        }
        *expected = at + 1;
        self.messages += 1;
    }
}

/// Says and hears everything. Returns how many messages came, and why no more.
async fn talk(mut peer: Peer<Message, Message>, visit: &Visit) -> (Heard, Option<CloseCause>) {
    let (all_here, are_here) = netwright::promise::promise::<(), netwright::promise::PromiseError>();
    let (reader, writer) = peer.halves();
    let talking = async {
        let _ = time::timeout(secs(60), are_here).await; // some may never come
        for (at, len) in visit.says.iter().enumerate() {
            let mut message = format!("{} {at} ", visit.id).into_bytes();
            message.extend_from_slice(&content(visit.id * 1_000 + at as u64, *len));
            if writer.write_and_flush(Message::Binary(message.into())).await.is_err() {
                return;
            }
            time::sleep(visit.pause).await;
        }
    };
    let hearing = async {
        let (mut heard, mut all_here) = (Heard::default(), Some(all_here));
        time::sleep(visit.reads_after).await;
        while heard.messages < visit.said {
            match time::timeout(secs(300), reader.read()).await {
                Ok(Ok(Some(Message::Text(text)))) => {
                    if text.strip_prefix("here ").and_then(|here| here.parse().ok()) == Some(visit.members) {
                        all_here.take().into_iter().for_each(|all_here| all_here.succeed(()));
                    }
                }
                Ok(Ok(Some(message))) => heard.message(message.payload()),
                Ok(Ok(None)) => return (heard, None),
                Ok(Err(cause)) => return (heard, Some(cause)),
                Err(_) => return (heard, Some(CloseCause::Requested)),
            }
        }
        (heard, None)
    };
    both(talking, hearing).await.1
}

async fn visit(visit: Visit, config: Config, ledger: &Ledger<Visit>) -> Result<(), String> {
    let group = event_loops(1).map_err(|error| error.to_string())?;
    let opening = Opening::new("ws://server/chat").unwrap().config(config);
    let (tell, told) = netwright::promise::promise::<_, netwright::promise::PromiseError>();
    let (visitor, id) = (visit.clone(), visit.id);
    let client = WebSocketClient::new(group.clone());
    let connecting = client.connect(opening, move |peer: Peer<Message, Message>, _: Opened| async move {
        let told = talk(peer, &visitor).await;
        tell.succeed(told);
        Ok::<_, CloseCause>(())
    });
    let socket = connecting.await.map_err(|error| format!("{id} could not come: {error}"))?;
    let (heard, cause) = told.await.map_err(|error| format!("{id} was not heard of: {error}"))?;
    if let Some(wrong) = heard.wrong {
        ledger.wrong(format!("{id} heard {wrong}"));
    }
    socket.channel().write_and_flush(Message::from(Close::new(CloseCode::NORMAL, "")));
    let ended = time::timeout(secs(120), socket.closed()).await;
    drop(group.shutdown_gracefully(Duration::ZERO, secs(10)));
    match ended {
        Err(_) => Err(format!("{id} could not leave")),
        Ok(_) if heard.messages == visit.said => Ok(()),
        Ok(ended) => Err(format!("{id} heard {} of {}: {cause:?}, {ended}", heard.messages, visit.said)),
    }
}

fn members(host: &Host, config: &Config, members: usize, ledger: &Ledger<Visit>) -> Result<(), String> {
    for _ in 0..members {
        let (ledger, config) = (ledger.clone(), config.clone());
        let working = async move {
            if let Some((next, taken)) = ledger.take() {
                let result = visit(next, config, &ledger).await;
                taken.tell(result);
            }
        };
        let _ = host.spawn(working).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn chat(sim: &Sim) {
    let hosts = ["server", "client"].map(|name| sim.host(name));
    draw_network(sim, &hosts);
    let config = Config::default();
    let config = if one_in(sim, 3) { config.deflate(Deflate::default()) } else { config };
    let count = 1 + sim.below(6) as usize;
    let mut visits: Vec<Visit> = (0..count as u64)
        .map(|id| Visit {
            id,
            says: (0..sim.below(20))
                .map(|_| sim.below(if one_in(sim, 8) { 20_000 } else { 300 }) as usize)
                .collect(),
            pause: if one_in(sim, 3) { Duration::ZERO } else { millis(sim.below(100)) },
            reads_after: if one_in(sim, 4) { millis(sim.below(2_000)) } else { Duration::ZERO },
            members: count,
            said: 0,
        })
        .collect();
    let said = visits.iter().map(|visit| visit.says.len()).sum();
    visits.iter_mut().for_each(|visit| visit.said = said);
    let ledger = Ledger::new(visits);
    let served = config.clone();
    hosts[0].start(move || server(served.clone())).unwrap();
    let faults = draw_faults(sim, secs(5));
    let (here, work) = (hosts[1].clone(), ledger.clone());
    hosts[1].start(move || members(&here, &config, count, &work)).unwrap();
    ledger.finish(sim, secs(3_600), faults);
}

#[test]
fn members_who_stay_hear_everything_once_and_in_order() {
    // Some 5 s of one core in a debug build.
    for_seeds(0..300, chat);
}

#[test]
fn chats_are_determined_by_the_seed() {
    assert_determined(chat);
}
