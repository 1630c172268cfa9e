//! Connecting: what can go wrong has a name of its own, and the address is in the text.

use crate::support::{
    ANY_PORT, Echo, Model, PATIENCE, Refusing, Soon, Unanswering, assert_quiet, client, client_with, dial,
    for_each_model, round_trip, script, settle, wait_until,
};
use bytes::{Bytes, BytesMut};
use netwright_core::{Channel, Promised, Segment, pipeline};
use netwright_transport::{Client, ConnectError, ResolveError, Server, StreamOptions};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

fn error<W: 'static>(mut connecting: Promised<Channel<W>, ConnectError>) -> ConnectError {
    connecting.wait_timeout(PATIENCE).expect("the connect has an end").expect_err("nobody is there")
}

/// Nothing of an attempt is left on the client's loops.
fn assert_clean<P: Segment<BytesMut, W, Tail: Send>, W: Into<netwright_core::Outgoing> + 'static>(
    client: &Client<P, W>,
) {
    settle(client.group().iter());
    for event_loop in client.group() {
        let figures = event_loop.figures();
        assert_eq!((figures.sources, figures.timers_pending), (0, 0), "{figures:?}");
    }
    assert_quiet(client.group().iter());
}

#[test]
fn a_refused_connect_says_so_and_by_whom_and_no_channel_begins() {
    let nobody = Refusing::new();
    let (script, events) = script();
    let client = client(script);
    let error = error(client.connect(nobody.addr()));
    assert!(matches!(&error, ConnectError::Refused(address) if *address == nobody.addr()), "{error:?}");
    assert!(error.to_string().contains(&nobody.addr().to_string()), "{error}");
    assert_clean(&client);
    events.nothing();
}

#[test]
fn a_connect_that_is_not_answered_ends_at_its_limit_and_not_before() {
    const LIMIT: Duration = Duration::from_millis(60);
    let silent = Unanswering::new();
    let (script, events) = script();
    let client = client_with(script, |builder| builder.connect_timeout(LIMIT));
    let begun = Instant::now();
    let error = error(client.connect(silent.addr()));
    assert!(begun.elapsed() >= LIMIT);
    let ConnectError::TimedOut { address, limit } = &error else { panic!("{error:?}") };
    assert_eq!((address, *limit), (&silent.addr().into(), LIMIT));
    let text = error.to_string();
    assert!(text.contains(&silent.addr().to_string()) && text.contains("60ms"), "{text}");
    assert_clean(&client);
    events.nothing();
}

/// A label of 64 bytes is no name, so that no name server has to be asked.
const NO_NAME: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid:80";

#[test]
fn a_name_that_cannot_be_resolved_says_so_and_which() {
    let (script, events) = script();
    let client = client(script);
    let error = error(client.connect(NO_NAME));
    assert!(matches!(error, ConnectError::Resolve(_)), "{error:?}");
    assert!(error.to_string().contains(NO_NAME), "{error}");
    assert_clean(&client);
    events.nothing();
}

#[test]
fn an_address_without_a_port_is_told_what_is_expected() {
    let client = client(script().0);
    let error = error(client.connect("localhost"));
    assert!(matches!(error, ConnectError::Resolve(_)), "{error:?}");
    assert!(error.to_string().contains("localhost") && error.to_string().contains("host:port"), "{error}");
}

#[test]
fn a_resolver_that_fails_fails_the_connect_and_one_that_finds_nothing_as_well() {
    let fails = |name: &str| Promised::ready(Err(ResolveError::malformed(name, "something else")));
    let client = client_with(script().0, |builder| builder.resolver(fails));
    let failed = error(client.connect("anything:1"));
    assert!(failed.to_string().contains("anything:1"), "{failed}");

    let finds_nothing = |_: &str| Promised::ready(Ok(Vec::new()));
    let client = client_with(script().0, |builder| builder.resolver(finds_nothing));
    let failed = error(client.connect("nowhere:1"));
    assert!(failed.to_string().contains("nowhere:1"), "{failed:?}: {failed}");
}

#[test]
fn a_cancelled_connect_is_given_up_at_once() {
    let silent = Unanswering::new();
    let (script, events) = script();
    let client = client(script);
    let mut connecting = client.connect(silent.addr());
    let event_loop = client.group().next();
    wait_until(|| event_loop.figures().sources == 1, || "the attempt".to_owned());
    assert!(connecting.cancel());
    assert!(matches!(connecting.soon(), Err(ConnectError::Cancelled)));
    assert_clean(&client);
    events.nothing();
}

#[test]
fn a_connect_cancelled_before_it_begins_never_begins() {
    let server = Model::OneLoop.echo();
    let (script, events) = script();
    let client = client(script);
    let hold = crate::support::Hold::new(&client.group().next());
    let mut connecting = client.connect(server.addr());
    assert!(connecting.cancel());
    drop(hold);
    assert!(matches!(connecting.soon(), Err(ConnectError::Cancelled)));
    assert_clean(&client);
    events.nothing();
    server.settle();
    assert_eq!(server.server.figures().accepted, 0);
}

#[test]
fn a_connect_cannot_be_cancelled_once_it_has_succeeded() {
    let server = Model::OneLoop.echo();
    let (script, events) = script();
    let client = client(script);
    let mut connecting = client.connect(server.addr());
    events.active();
    settle(client.group().iter());
    assert!(!connecting.cancel());
    connecting.soon().unwrap();
}

#[test]
fn settings_that_cannot_work_are_refused_with_their_name() {
    let server = Model::OneLoop.echo();
    let options = StreamOptions::new().cork(true).nodelay(true);
    let made = Client::builder().options(options).pipeline(|| pipeline().app(Echo));
    let error = match made {
        Err(error) => error,
        Ok(client) => error(client.connect(server.addr())),
    };
    assert!(matches!(error, ConnectError::Setup(_)), "{error:?}");
    assert!(error.to_string().contains("cork"), "{error}");
}

for_each_model!(a_client_connects_from_the_address_it_is_told);

/// All of 127.0.0.0/8 is loopback.
fn a_client_connects_from_the_address_it_is_told(model: Model) {
    let (server_script, at_server) = script();
    let running = model.serve(server_script);
    let from: SocketAddr = "127.0.0.2:0".parse().unwrap();
    let client = client_with(script().0, |builder| builder.local_addr(from));
    let channel = client.connect(running.addr()).soon().unwrap();
    let seen = at_server.active().peer_addr().unwrap();
    assert_eq!(seen.ip(), from.ip());
    assert_eq!(channel.local_addr(), Some(seen));
}

for_each_model!(a_name_is_resolved_and_connected);

fn a_name_is_resolved_and_connected(model: Model) {
    let running = model.echo();
    let (script, events) = script();
    let client = client(script);
    // `localhost` may be ::1 first, where nobody listens: then the next address is tried.
    let channel = client.connect(format!("localhost:{}", running.addr().port())).soon().unwrap();
    assert_eq!(channel.peer_addr(), Some(running.addr()));
    events.active();
    channel.send("hello".into());
    events.read(b"hello");
}

for_each_model!(of_several_addresses_the_first_that_answers_wins);

fn of_several_addresses_the_first_that_answers_wins(model: Model) {
    let running = model.echo();
    let (nobody, silent) = (Refusing::new(), Unanswering::new());
    let addresses = vec![nobody.addr(), silent.addr(), running.addr()];
    let resolver = move |_: &str| Promised::ready(Ok(addresses.clone()));
    let (script, events) = script();
    let client = client_with(script, |builder| builder.resolver(resolver));
    let channel = client.connect("many:1").soon().unwrap();
    assert_eq!(channel.peer_addr(), Some(running.addr()));
    events.active();
    channel.close().soon();
    events.end();
    assert_clean(&client); // the attempt that was not answered is given up
    events.nothing();
}

#[test]
fn if_no_address_answers_the_error_is_that_of_the_first() {
    let (first, second) = (Refusing::new(), Refusing::new());
    let addresses = vec![first.addr(), second.addr()];
    let resolver = move |_: &str| Promised::ready(Ok(addresses.clone()));
    let client = client_with(script().0, |builder| builder.resolver(resolver));
    let error = error(client.connect("many:1"));
    assert!(matches!(&error, ConnectError::Refused(address) if *address == first.addr()), "{error:?}");
    assert_clean(&client);
}

for_each_model!(many_connects_at_once_all_succeed);

fn many_connects_at_once_all_succeed(model: Model) {
    const CONNECTIONS: usize = 100;
    let running = model.echo();
    let (script, events) = script();
    let client = client(script);
    let connecting: Vec<_> = (0..CONNECTIONS).map(|_| client.connect(running.addr())).collect();
    let channels: Vec<Channel<Bytes>> =
        connecting.into_iter().map(|mut connecting| connecting.soon().unwrap()).collect();
    for _ in 0..CONNECTIONS {
        events.active();
    }
    for (number, channel) in channels.iter().enumerate() {
        let message = format!("number {number}");
        channel.send(message.clone().into());
        events.read(message.as_bytes());
    }
    running.wait_for_open(CONNECTIONS);
}

#[test]
fn a_client_connects_to_a_server_of_the_standard_library() {
    let listener = std::net::TcpListener::bind(ANY_PORT).unwrap();
    let (script, events) = script();
    let client = client(script);
    let channel = client.connect(listener.local_addr().unwrap()).soon().unwrap();
    let (stream, peer) = listener.accept().unwrap();
    let mut stream = crate::support::patient(stream);
    assert_eq!(channel.local_addr(), Some(peer));
    events.active();
    channel.send("hello".into());
    crate::support::expect(&mut stream, b"hello");
    std::io::Write::write_all(&mut stream, b"and back").unwrap();
    events.read(b"and back");
    drop(stream);
    events.end();
}

#[test]
fn the_last_handle_of_a_client_may_go_while_it_connects() {
    let server = Model::OneLoop.echo();
    let (script, events) = script();
    let mut connecting = client(script).connect(server.addr());
    // The loop goes with its last handle: either the connect was faster, or it is told that the loop has ended.
    match connecting.wait_timeout(PATIENCE).expect("the connect has an end") {
        Ok(channel) => {
            channel.closed().soon();
            events.active();
            events.end();
        }
        Err(error) => {
            assert!(matches!(error, ConnectError::LoopEnded | ConnectError::Io { .. }), "{error:?}")
        }
    }
}

#[test]
fn a_loop_without_a_driver_for_sockets_is_refused_with_advice() {
    let group = netwright_core::EventLoopGroup::new(1).unwrap();
    let server = Model::OneLoop.echo();
    let client = client_with(script().0, |builder| builder.group(group.clone()));
    let error = error(client.connect(server.addr()));
    assert!(error.to_string().contains("event_loops"), "{error}");
    let error =
        Server::builder().group(group).pipeline(|_| pipeline().app(Echo)).bind(ANY_PORT).soon().unwrap_err();
    assert!(error.to_string().contains("event_loops"), "{error}");
    round_trip(&mut dial(server.addr()), b"unharmed");
}

/// The largest segment is announced in the handshake, so it has to be set before.
#[test]
fn options_are_set_before_the_handshake() {
    let listener = std::net::TcpListener::bind(ANY_PORT).unwrap();
    let options = StreamOptions::new().mss(600);
    let client = client_with(script().0, |builder| builder.options(options));
    let _channel = client.connect(listener.local_addr().unwrap()).soon().unwrap();
    let (stream, _) = listener.accept().unwrap();
    let announced = socket2::SockRef::from(&stream).tcp_mss().unwrap();
    assert!(announced <= 600, "the peer sends segments of up to {announced} bytes");
}
