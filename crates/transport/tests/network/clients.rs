//! Attempts to connect by a network: in turn, within their time, and given up.

use crate::{
    support::{Echo, PATIENCE, Soon, script, settle, wait_until},
    toy::Toy,
};
use bytes::Bytes;
use netwright_core::{Channel, EventLoopGroup, ManualClock, Outgoing, pipeline};
use netwright_transport::{Client, ClientBuilder, ConnectError, Pool, Server, StreamOptions};
use std::{net::SocketAddr, sync::mpsc, time::Duration};

fn server(toy: &Toy, at: &str) -> Server {
    Server::builder().group(toy.loops(1)).pipeline(|_| pipeline().app(Echo)).bind(at).soon().unwrap()
}

fn client(builder: ClientBuilder) -> Client {
    builder.pipeline(|| pipeline().handle(|_, _| ())).unwrap()
}

/// Time passes for the loops of a group, once they have nothing else to do.
fn pass(group: &EventLoopGroup, clock: &ManualClock, time: Duration) {
    settle(group);
    clock.advance(time);
    group.iter().for_each(|event_loop| event_loop.wake());
}

const QUARTER: Duration = Duration::from_millis(250);

#[test]
fn where_the_first_address_is_silent_the_second_answers_and_the_first_is_given_up() {
    let toy = Toy::new().name("both", &[[10, 0, 0, 1], [10, 0, 0, 2]]).silent([10, 0, 0, 1]);
    let _server = server(&toy, "10.0.0.2:80");
    let (group, clock) = toy.slow_loop();
    let client = client(Client::builder().group(group.clone()));
    let mut connecting = client.connect("both:80");
    pass(&group, &clock, QUARTER - Duration::from_millis(1));
    settle(&group);
    assert!(connecting.try_take().is_none());
    assert_eq!(toy.asked(), ["name both", "connect 10.0.0.1:80"]);
    pass(&group, &clock, Duration::from_millis(1));
    let channel: Channel<Outgoing> = connecting.soon().unwrap();
    assert_eq!(channel.peer().unwrap().to_string(), "10.0.0.2:80");
    settle(&group);
    assert_eq!(toy.given_up(), 1);
}

#[test]
fn attempts_that_are_refused_follow_each_other_at_once_and_the_first_error_is_told() {
    let toy = Toy::new().name("none", &[[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 1], [10, 0, 0, 3]]);
    let (group, _clock) = toy.slow_loop();
    let error = client(Client::builder().group(group)).connect("none:80").soon().unwrap_err();
    assert!(matches!(&error, ConnectError::Refused(by) if by.to_string() == "10.0.0.1:80"), "{error}");
    let asked = toy.asked();
    assert_eq!(asked[1..], ["connect 10.0.0.1:80", "connect 10.0.0.2:80", "connect 10.0.0.3:80"]);
}

#[test]
fn an_address_that_does_not_answer_in_time_has_timed_out() {
    let toy = Toy::new().silent([10, 0, 0, 1]);
    let (group, clock) = toy.slow_loop();
    let limit = Duration::from_secs(5);
    let client = client(Client::builder().group(group.clone()).connect_timeout(limit));
    let mut connecting = client.connect("10.0.0.1:80");
    pass(&group, &clock, limit - Duration::from_millis(1));
    settle(&group);
    assert!(connecting.try_take().is_none());
    pass(&group, &clock, Duration::from_millis(1));
    let error = connecting.soon().unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { limit: told, .. } if told == limit), "{error}");
    assert_eq!(toy.given_up(), 1);
}

#[test]
fn a_connect_that_is_cancelled_leaves_nothing_of_its_attempts() {
    let toy = Toy::new().name("both", &[[10, 0, 0, 1], [10, 0, 0, 2]]);
    let toy = toy.silent([10, 0, 0, 1]).silent([10, 0, 0, 2]);
    let (group, clock) = toy.slow_loop();
    let client = client(Client::builder().group(group.clone()));
    let connecting = client.connect("both:80");
    pass(&group, &clock, QUARTER);
    wait_until(|| toy.asked().len() == 3, || "the second attempt".to_owned());
    assert!(connecting.cancel());
    wait_until(|| toy.given_up() == 2, || "both attempts to be dropped".to_owned());
    settle(&group);
    let figures = group.next().figures();
    assert_eq!((figures.futures, figures.sources), (0, 0), "{figures:?}");
}

#[test]
fn a_connection_comes_from_where_it_is_to_come_from() {
    let toy = Toy::new();
    let (tell, told) = mpsc::channel();
    let server = Server::builder().group(toy.loops(1)).pipeline(move |accepted| {
        tell.send(accepted.peer.clone()).unwrap();
        pipeline().app(Echo)
    });
    let server = server.bind("10.0.0.1:80").soon().unwrap();
    let from: SocketAddr = "10.0.0.7:4711".parse().unwrap();
    let client = client(Client::builder().group(toy.loops(1)).local_addr(from));
    let channel = client.connect(server.address()).soon().unwrap();
    assert_eq!(channel.local_addr(), Some(from));
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), from);
    let error = client.connect("unix:/somewhere").soon().unwrap_err().to_string();
    assert!(
        error.ends_with("local_addr is 10.0.0.7:4711, but a Unix socket has no host and port"),
        "{error}"
    );
}

#[test]
fn a_network_that_panics_costs_the_attempt() {
    let toy = Toy::new().name("both", &[[10, 6, 6, 6], [10, 0, 0, 2]]);
    let _server = server(&toy, "10.0.0.2:6");
    let client = client(Client::builder().group(toy.loops(1)));
    let error = client.connect("10.6.6.6:6").soon().unwrap_err().to_string();
    assert!(error.contains("on purpose"), "{error}");
    client.connect("both:6").soon().unwrap();
}

#[test]
fn options_that_a_socket_of_that_family_does_not_have_are_refused_by_name() {
    let toy = Toy::new();
    let _server = server(&toy, "10.0.0.1:80");
    let options = StreamOptions::new().hop_limit(7);
    let client = client(Client::builder().group(toy.loops(1)).options(options));
    client.connect("10.0.0.1:80").soon().unwrap();
    let error = client.connect("unix:/somewhere").soon().unwrap_err().to_string();
    assert!(error.contains("hop_limit = 7: a Unix socket does not have it"), "{error}");
    assert_eq!(toy.asked(), ["connect 10.0.0.1:80"]);
}

#[test]
fn a_pool_keeps_connections_of_a_network() {
    let toy = Toy::new().name("server", &[[10, 0, 0, 1]]);
    let server = server(&toy, "10.0.0.1:80");
    let (script, events) = script();
    let client = Client::builder().group(toy.loops(1));
    let client = client.pipeline(move || pipeline().app(script.probe())).unwrap();
    let pool = Pool::to(&client, "server:80").max_connections(1).build().unwrap();
    for round in 0..3 {
        let pooled = pool.acquire().soon().unwrap();
        if round == 0 {
            events.active();
        }
        pooled.write_and_flush(Bytes::from("again"));
        events.read(b"again");
    }
    assert_eq!((pool.figures().created, server.figures().accepted), (1, 1));
}

#[test]
fn more_than_there_is_room_for_arrives_in_order_and_comes_to_an_end() {
    let toy = Toy::new();
    let server = server(&toy, "10.0.0.1:80");
    let (tell, told) = mpsc::channel();
    let client = Client::builder().group(toy.loops(1)).pipeline(move || {
        let tell = tell.clone();
        pipeline().handle(move |_, bytes: bytes::BytesMut| tell.send(bytes).unwrap())
    });
    let client = client.unwrap();
    let channel = client.connect(server.address()).soon().unwrap();
    let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at / 7) as u8).collect();
    channel.write_and_flush(Bytes::from(sent.clone()));
    let mut read = Vec::new();
    while read.len() < sent.len() {
        read.extend_from_slice(&told.recv_timeout(PATIENCE).unwrap());
    }
    assert!(read == sent);
    server.drain(Duration::ZERO).soon().unwrap();
    channel.closed().soon();
}
