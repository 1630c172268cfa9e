//! Connecting: what can go wrong has a name of its own, and the address is in the text.

use super::{
    Behaviour, Need, ON_PURPOSE, Setup, Variation, behaviour,
    support::{
        Echo, ForeignListener, Hold, PATIENCE, Refusing, Soon, Unanswering, assert_quiet, expect,
        in_own_process, loops_of, round_trip, script, settle, wait_until,
    },
};
use netwright_core::{Channel, Promised, pipeline};
use netwright_transport::{Client, ConnectError, ResolveError, StreamOptions};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// They are about clients, and look at no more of a server than that it is there.
const VARIED: &[Variation] = &[Variation::OurPeers, Variation::Asking, Variation::OnWorkers];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_refused_connect_says_so_and_by_whom_and_no_channel_begins).shows(&[54]).in_one_model(),
    behaviour!(a_connect_that_is_not_answered_ends_at_its_limit_and_not_before)
        .shows(&[54])
        .needs(&[Need::Network])
        .in_one_model(),
    behaviour!(a_name_that_cannot_be_resolved_says_so_and_which).needs(&[Need::Network]).in_one_model(),
    behaviour!(an_address_without_a_port_is_told_what_is_expected).needs(&[Need::Network]).in_one_model(),
    behaviour!(a_resolver_that_fails_fails_the_connect_and_one_that_finds_nothing_as_well)
        .shows(&[44])
        .needs(&[Need::Network])
        .in_one_model(),
    behaviour!(a_factory_that_panics_is_what_the_connect_reports_and_the_next_one_succeeds).in_one_model(),
    behaviour!(a_resolver_that_panics_is_what_the_connect_reports).needs(&[Need::Network]).in_one_model(),
    behaviour!(a_cancelled_connect_is_given_up_at_once).shows(&[54]).needs(&[Need::Network]).in_one_model(),
    behaviour!(a_connect_cancelled_before_it_begins_never_begins).in_one_model(),
    behaviour!(a_connect_cannot_be_cancelled_once_it_has_succeeded).in_one_model(),
    behaviour!(settings_that_cannot_work_are_refused_with_their_name).needs(&[Need::Network]).in_one_model(),
    behaviour!(a_client_connects_from_the_address_it_is_told).needs(&[Need::Network]).not(VARIED),
    behaviour!(a_name_is_resolved_and_connected).needs(&[Need::Network]).not(VARIED),
    behaviour!(of_several_addresses_the_first_that_answers_wins).needs(&[Need::Network]).not(VARIED),
    behaviour!(if_no_address_answers_the_error_is_that_of_the_first).needs(&[Need::Network]).in_one_model(),
    behaviour!(thousands_of_addresses_that_fail_at_once_are_tried_one_after_the_other)
        .needs(&[Need::Network])
        .in_one_model(),
    behaviour!(many_connects_at_once_all_succeed).not(VARIED),
    behaviour!(a_client_connects_to_a_server_of_the_standard_library)
        .needs(&[Need::ForeignPeers])
        .in_one_model(),
    behaviour!(the_last_handle_of_a_client_may_go_while_it_connects).in_one_model(),
    behaviour!(a_loop_without_a_driver_for_sockets_is_refused_with_advice)
        .needs(&[Need::Descriptors])
        .in_one_model(),
    behaviour!(options_are_set_before_the_handshake).shows(&[44]).needs(&[Need::Network]).in_one_model(),
];

fn error<W: 'static>(mut connecting: Promised<Channel<W>, ConnectError>) -> ConnectError {
    connecting.wait_timeout(PATIENCE).expect("the connect has an end").expect_err("nobody is there")
}

/// Nothing of an attempt is left on the client's loops.
pub(super) fn assert_clean<W: Send + 'static>(client: &Client<W>) {
    if let Some(threads) = client.threads() {
        wait_until(|| threads.figures().busy == 0, || format!("all given back: {:?}", threads.figures()));
    }
    settle(client.group());
    for event_loop in client.group() {
        let figures = event_loop.figures();
        assert_eq!((figures.sources, figures.timers_pending), (0, 0), "{figures:?}");
    }
    assert_quiet(client.group());
}

fn a_refused_connect_says_so_and_by_whom_and_no_channel_begins(setup: Setup) {
    let nobody = Refusing::new(setup);
    let (script, events) = script();
    let client = setup.client(script);
    let error = error(client.connect(nobody.address()));
    assert!(matches!(&error, ConnectError::Refused(address) if address == nobody.address()), "{error:?}");
    assert!(error.to_string().contains(&nobody.address().to_string()), "{error}");
    assert_clean(&client);
    events.nothing();
}

fn a_connect_that_is_not_answered_ends_at_its_limit_and_not_before(setup: Setup) {
    const LIMIT: Duration = Duration::from_millis(60);
    let silent = Unanswering::new().unwrap();
    let (script, events) = script();
    let client = setup.client_with(script, |builder| builder.connect_timeout(LIMIT));
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

fn a_name_that_cannot_be_resolved_says_so_and_which(setup: Setup) {
    let (script, events) = script();
    let client = setup.client(script);
    let error = error(client.connect(NO_NAME));
    assert!(matches!(error, ConnectError::Resolve(_)), "{error:?}");
    assert!(error.to_string().contains(NO_NAME), "{error}");
    assert_clean(&client);
    events.nothing();
}

fn an_address_without_a_port_is_told_what_is_expected(setup: Setup) {
    let client = setup.client(script().0);
    let error = error(client.connect("localhost"));
    assert!(matches!(error, ConnectError::Resolve(_)), "{error:?}");
    assert!(error.to_string().contains("localhost") && error.to_string().contains("host:port"), "{error}");
}

fn a_resolver_that_fails_fails_the_connect_and_one_that_finds_nothing_as_well(setup: Setup) {
    let fails = |name: &str| Promised::ready(Err(ResolveError::malformed(name, "something else")));
    let client = setup.client_with(script().0, |builder| builder.resolver(fails));
    let failed = error(client.connect("anything:1"));
    assert!(failed.to_string().contains("anything:1"), "{failed}");

    let finds_nothing = |_: &str| Promised::ready(Ok(Vec::new()));
    let client = setup.client_with(script().0, |builder| builder.resolver(finds_nothing));
    let failed = error(client.connect("nowhere:1"));
    assert!(failed.to_string().contains("nowhere:1"), "{failed:?}: {failed}");
}

fn a_factory_that_panics_is_what_the_connect_reports_and_the_next_one_succeeds(setup: Setup) {
    let server = setup.echo();
    let (calls, (script, events)) = (AtomicUsize::new(0), script());
    let builder = setup.client_builder();
    let client = builder
        .pipeline(move || {
            assert!(calls.fetch_add(1, Ordering::SeqCst) % 2 == 1, "broken {ON_PURPOSE}");
            pipeline().app(script.probe())
        })
        .unwrap();
    for _ in 0..2 {
        let error = error(client.connect(server.address()));
        assert!(error.to_string().contains(&format!("panicked: broken {ON_PURPOSE}")), "{error}");
        assert!(matches!(error, ConnectError::Panicked(_)), "{error:?}");
        let channel = client.connect(server.address()).soon().unwrap();
        events.active();
        channel.close();
        events.end();
    }
    assert_clean(&client);
}

fn a_resolver_that_panics_is_what_the_connect_reports(setup: Setup) {
    let panics = |name: &str| -> Promised<Vec<SocketAddr>, ResolveError> { panic!("no {name} {ON_PURPOSE}") };
    let (script, events) = script();
    let client = setup.client_with(script, |builder| builder.resolver(panics));
    let error = error(client.connect("somebody:1"));
    assert!(error.to_string().contains(&format!("panicked: no somebody:1 {ON_PURPOSE}")), "{error}");
    assert!(matches!(error, ConnectError::Resolve(ResolveError::Panicked { .. })), "{error:?}");
    assert_clean(&client);
    events.nothing();
}

fn a_cancelled_connect_is_given_up_at_once(setup: Setup) {
    let silent = Unanswering::new().unwrap();
    let (script, events) = script();
    let client = setup.client(script);
    let mut connecting = client.connect(silent.addr());
    let begun = || loops_of(&client).iter().any(|event_loop| event_loop.figures().sources == 1);
    wait_until(begun, || "the attempt".to_owned());
    assert!(connecting.cancel());
    assert!(matches!(connecting.soon(), Err(ConnectError::Cancelled)));
    assert_clean(&client);
    events.nothing();
}

fn a_connect_cancelled_before_it_begins_never_begins(setup: Setup) {
    let server = setup.echo();
    let (script, events) = script();
    let client = setup.client(script);
    let hold = match client.threads() {
        None => Hold::new(&client.group().next()),
        Some(threads) => {
            // The thread that has served a connection serves the next one.
            let channel = client.connect(server.address()).soon().unwrap();
            let thread = threads.busy_loops().pop().unwrap();
            channel.close();
            events.active();
            events.end();
            wait_until(|| threads.figures().busy == 0, || format!("{:?}", threads.figures()));
            server.wait_for_open(0);
            Hold::new(&thread)
        }
    };
    let before = server.server.figures().accepted;
    let mut connecting = client.connect(server.address());
    assert!(connecting.cancel());
    drop(hold);
    assert!(matches!(connecting.soon(), Err(ConnectError::Cancelled)));
    assert_clean(&client);
    events.nothing();
    server.settle();
    assert_eq!(server.server.figures().accepted, before);
}

fn a_connect_cannot_be_cancelled_once_it_has_succeeded(setup: Setup) {
    let server = setup.echo();
    let (script, events) = script();
    let client = setup.client(script);
    let mut connecting = client.connect(server.address());
    events.active();
    settle(&loops_of(&client));
    assert!(!connecting.cancel());
    connecting.soon().unwrap();
}

fn settings_that_cannot_work_are_refused_with_their_name(setup: Setup) {
    let server = setup.echo();
    let options = StreamOptions::new().cork(true).nodelay(true);
    let made = setup.client_builder().options(options).pipeline(|| pipeline().app(Echo));
    let error = match made {
        Err(error) => error,
        Ok(client) => error(client.connect(server.address())),
    };
    assert!(matches!(error, ConnectError::Setup(_)), "{error:?}");
    assert!(error.to_string().contains("cork"), "{error}");
}

/// All of 127.0.0.0/8 is loopback.
fn a_client_connects_from_the_address_it_is_told(setup: Setup) {
    let (server_script, at_server) = script();
    let running = setup.serve(server_script);
    let from: SocketAddr = "127.0.0.2:0".parse().unwrap();
    let client = setup.client_with(script().0, |builder| builder.local_addr(from));
    let channel = client.connect(running.address()).soon().unwrap();
    let seen = at_server.active().peer_addr().unwrap();
    assert_eq!(seen.ip(), from.ip());
    assert_eq!(channel.local_addr(), Some(seen));
}

fn a_name_is_resolved_and_connected(setup: Setup) {
    let running = setup.echo();
    let (script, events) = script();
    let client = setup.client(script);
    // `localhost` may be ::1 first, where nobody listens: then the next address is tried.
    let channel = client.connect(format!("localhost:{}", running.addr().port())).soon().unwrap();
    assert_eq!(channel.peer_addr(), Some(running.addr()));
    events.active();
    channel.write_and_flush("hello");
    events.read(b"hello");
}

fn of_several_addresses_the_first_that_answers_wins(setup: Setup) {
    let running = setup.echo();
    let (nobody, silent) = (Refusing::new(setup), Unanswering::new().unwrap());
    let addresses = vec![nobody.addr(), silent.addr(), running.addr()];
    let resolver = move |_: &str| Promised::ready(Ok(addresses.clone()));
    let (script, events) = script();
    let client = setup.client_with(script, |builder| builder.resolver(resolver));
    let channel = client.connect("many:1").soon().unwrap();
    assert_eq!(channel.peer_addr(), Some(running.addr()));
    events.active();
    channel.close().soon();
    events.end();
    assert_clean(&client); // the attempt that was not answered is given up
    events.nothing();
}

fn if_no_address_answers_the_error_is_that_of_the_first(setup: Setup) {
    let (first, second) = (Refusing::new(setup), Refusing::new(setup));
    let addresses = vec![first.addr(), second.addr()];
    let resolver = move |_: &str| Promised::ready(Ok(addresses.clone()));
    let client = setup.client_with(script().0, |builder| builder.resolver(resolver));
    let error = error(client.connect("many:1"));
    assert!(matches!(&error, ConnectError::Refused(address) if *address == first.addr()), "{error:?}");
    assert_clean(&client);
}

/// More than a stack has room for, if each is tried inside of the failure of the one before.
fn thousands_of_addresses_that_fail_at_once_are_tried_one_after_the_other(setup: Setup) {
    in_own_process(setup, || {
        let addresses: Vec<_> =
            (1..20_000).map(|port| SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port))).collect();
        let first = addresses[0];
        let resolver = move |_: &str| Promised::ready(Ok(addresses.clone()));
        // No socket of one family is bound to an address of the other.
        let from: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let client = setup.client_with(script().0, |builder| builder.resolver(resolver).local_addr(from));
        let error = error(client.connect("many:1"));
        assert!(error.to_string().contains(&first.to_string()), "{error}");
        assert_clean(&client);
    });
}

fn many_connects_at_once_all_succeed(setup: Setup) {
    const CONNECTIONS: usize = 100;
    let running = setup.echo();
    let (script, events) = script();
    let client = setup.client(script);
    let connecting: Vec<_> = (0..CONNECTIONS).map(|_| client.connect(running.address())).collect();
    let channels: Vec<Channel> =
        connecting.into_iter().map(|mut connecting| connecting.soon().unwrap()).collect();
    for _ in 0..CONNECTIONS {
        events.active();
    }
    for (number, channel) in channels.iter().enumerate() {
        let message = format!("number {number}");
        channel.write_and_flush(message.clone());
        events.read(message.as_bytes());
    }
    running.wait_for_open(CONNECTIONS);
}

fn a_client_connects_to_a_server_of_the_standard_library(setup: Setup) {
    let listener = ForeignListener::new(setup);
    let (script, events) = script();
    let client = setup.client(script);
    let channel = client.connect(listener.address()).soon().unwrap();
    let mut stream = listener.accept();
    assert_eq!(channel.peer().as_ref(), Some(listener.address()));
    assert_eq!(channel.local(), Some(stream.peer_address()));
    events.active();
    channel.write_and_flush("hello");
    expect(&mut stream, b"hello");
    std::io::Write::write_all(&mut stream, b"and back").unwrap();
    events.read(b"and back");
    drop(stream);
    events.end();
}

fn the_last_handle_of_a_client_may_go_while_it_connects(setup: Setup) {
    let server = setup.echo();
    let (script, events) = script();
    let mut connecting = setup.client(script).connect(server.address());
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

fn a_loop_without_a_driver_for_sockets_is_refused_with_advice(setup: Setup) {
    let group = netwright_core::EventLoopGroup::new(1).unwrap();
    let server = setup.echo();
    let client = setup.client_with(script().0, |builder| builder.group(group.clone()));
    let error = error(client.connect(server.address()));
    assert!(error.to_string().contains("event_loops"), "{error}");
    let error = setup
        .bare_server()
        .group(group)
        .pipeline(|_| pipeline().app(Echo))
        .bind(setup.listen_at())
        .soon()
        .unwrap_err();
    assert!(error.to_string().contains("event_loops"), "{error}");
    round_trip(&mut server.dial(), b"unharmed");
}

/// The largest segment is announced in the handshake, so it has to be set before.
fn options_are_set_before_the_handshake(setup: Setup) {
    let listener = std::net::TcpListener::bind(setup.listen_at()).unwrap();
    let options = StreamOptions::new().mss(600);
    let client = setup.client_with(script().0, |builder| builder.options(options));
    let _channel = client.connect(listener.local_addr().unwrap()).soon().unwrap();
    let (stream, _) = listener.accept().unwrap();
    let announced = segment_size(&stream);
    assert!(announced <= 600, "the peer sends segments of up to {announced} bytes");
}

#[cfg(unix)]
fn segment_size(stream: &std::net::TcpStream) -> u32 {
    socket2::SockRef::from(stream).tcp_mss().unwrap()
}

#[cfg(windows)]
fn segment_size(_: &std::net::TcpStream) -> u32 {
    unreachable!("Windows does not tell it, and its table says so");
}
