//! Names with several addresses, of which some lead nowhere.

use super::common::{assert_determined, millis, one_in, secs};
use bytes::BytesMut;
use netwright::{Channel, Client, Outgoing, Server, client::ConnectError, pipeline};
use netwright_testkit::sim::{Host, Link, Sim, for_seeds};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::mpsc,
    time::Duration,
};

/// How long one address may be tried.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long one is tried before the next one is tried as well.
const HEAD_START: Duration = Duration::from_millis(250);
/// For names to be found, and for turns of loops.
const SLACK: Duration = Duration::from_millis(60);

/// What is at an address.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// A server, so far away.
    Served(Duration),
    /// A host on which nobody listens, so far away.
    Refusing(Duration),
    /// Nobody has it.
    Nobody,
    /// A host that is down.
    Down,
    /// What is said to it does not get there.
    Cut,
    /// What it says does not get back.
    Mute,
}

impl Place {
    /// How long a connect takes there, if it succeeds.
    fn answers(self) -> Option<Duration> {
        match self {
            Self::Served(latency) => Some(latency * 2),
            _ => None,
        }
    }
}

fn draw_place(sim: &Sim) -> Place {
    let far = match sim.below(4) {
        0 => millis(300 + sim.below(1_000)),
        _ => millis(1 + sim.below(100)),
    };
    match sim.below(9) {
        0..=2 => Place::Served(far),
        3..=4 => Place::Refusing(far),
        5 => Place::Nobody,
        6 => Place::Down,
        7 => Place::Cut,
        _ => Place::Mute,
    }
}

fn echo() -> Server {
    let pipeline = |_: &_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
    Server::builder().pipeline(pipeline).bind("[::]:7").wait().unwrap()
}

fn address(number: u8, v6: bool) -> IpAddr {
    match v6 {
        true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(number)).into(),
        false => Ipv4Addr::new(10, 1, 0, number).into(),
    }
}

struct Scene {
    client: Host,
    places: Vec<(IpAddr, Place)>,
    servers: Vec<(Host, Server)>,
}

fn set_up(sim: &Sim) -> Scene {
    let client = sim.host_at("client", &[address(200, false), address(200, true)]);
    let mut scene = Scene { client, places: Vec::new(), servers: Vec::new() };
    for number in 1..=1 + sim.below(6) as u8 {
        let (address, place) = (address(number, one_in(sim, 2)), draw_place(sim));
        scene.places.push((address, place));
        if place == Place::Nobody {
            continue;
        }
        let host = sim.host_at(&format!("host{number}"), &[address]);
        let link = |latency| Link::default().latency(latency).jitter(Duration::ZERO);
        match place {
            Place::Served(latency) => {
                sim.link_between(&scene.client, &host, link(latency));
                let server = host.enter(echo);
                scene.servers.push((host, server));
            }
            Place::Refusing(latency) => sim.link_between(&scene.client, &host, link(latency)),
            Place::Nobody => {}
            Place::Down => host.crash(),
            Place::Cut => sim.cut(&scene.client, &host),
            Place::Mute => sim.cut(&host, &scene.client),
        }
    }
    let addresses: Vec<IpAddr> = scene.places.iter().map(|(address, _)| *address).collect();
    sim.name("somewhere", &addresses);
    scene
}

/// When the first of them answers, if each is tried when the one before has had its start.
fn latest(places: &[(IpAddr, Place)]) -> Option<Duration> {
    let answers = |(tried, (_, place)): (usize, &(IpAddr, Place))| {
        place.answers().filter(|time| *time < CONNECT_MAX).map(|time| HEAD_START * tried as u32 + time)
    };
    // Families take turns, beginning with that of the first address.
    let family = |first: bool| {
        let first = places[0].0.is_ipv4() == first;
        places.iter().filter(move |(address, _)| address.is_ipv4() == first)
    };
    let (mut one, mut other) = (family(true), family(false));
    let mut order = Vec::new();
    while order.len() < places.len() {
        order.extend(one.next().into_iter().chain(other.next()));
    }
    order.into_iter().enumerate().filter_map(answers).min()
}

/// Says something, and hears it.
fn is_usable(sim: &Sim, channel: &Channel<Outgoing>, heard: &mpsc::Receiver<BytesMut>) {
    channel.write_and_flush("hello");
    let mut got = BytesMut::new();
    let complete = sim.run_until(secs(10), || {
        got.extend(heard.try_iter().flatten());
        got.len() >= 5
    });
    assert!(complete && got == "hello", "{got:?} from {:?}", channel.peer());
}

fn several_addresses(sim: &Sim) {
    let Scene { client: host, places, servers } = set_up(sim);
    host.enter(|| {
        let (tell, heard) = mpsc::channel();
        let builder = Client::builder().connect_timeout(CONNECT_MAX);
        let client = builder.pipeline(move || {
            let tell = tell.clone();
            pipeline().handle(move |_, bytes| drop(tell.send(bytes)))
        });
        let client = client.unwrap();
        for _ in 0..1 + sim.below(3) {
            let begun = sim.now();
            let mut connecting = client.connect("somewhere:7");
            if one_in(sim, 3) {
                sim.run_for(millis(sim.below(2_000)));
                connecting.cancel(); // it may have connected by now
                drop(connecting);
                continue;
            }
            let connected = connecting.wait();
            let took = sim.now() - begun;
            match (latest(&places), connected) {
                (Some(latest), Ok(channel)) => {
                    assert!(took <= latest + SLACK, "{took:?} instead of {latest:?}: {places:?}");
                    let peer = channel.peer().unwrap().ip().unwrap().ip();
                    let served = |(at, place): &(IpAddr, Place)| *at == peer && place.answers().is_some();
                    assert!(places.iter().any(served), "{peer} of {places:?}");
                    is_usable(sim, &channel, &heard);
                    channel.close().wait().unwrap();
                }
                (
                    None,
                    Err(ConnectError::Refused(_) | ConnectError::TimedOut { .. } | ConnectError::Io { .. }),
                ) => {
                    let most = HEAD_START * places.len() as u32 + CONNECT_MAX + SLACK;
                    assert!(took <= most, "{took:?} instead of {most:?}: {places:?}");
                }
                (_, connected) => panic!("{connected:?} after {took:?}: {places:?}"),
            }
        }
        // Who lost the race has nothing any more, however far away.
        drop(client);
    });
    sim.run_for(secs(20));
    for (host, server) in servers {
        let open = server.figures().open;
        assert_eq!(open, 0, "connections that nobody has, on {}: {places:?}", host.name());
        host.enter(|| drop(server));
    }
}

#[test]
fn a_name_is_connected_to_whenever_one_of_its_addresses_works_and_as_soon() {
    // Some 5 s of one core in a debug build.
    for_seeds(0..5_000, several_addresses);
}

#[test]
fn races_are_determined_by_the_seed() {
    assert_determined(several_addresses);
}
