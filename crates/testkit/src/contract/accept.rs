//! Listening and accepting, also when there is no room.

use super::{
    Behaviour, Model, Need, Setup, Variation, behaviour,
    support::{
        Echo, ForeignListener, PATIENCE, Peer, Refusing, Running, Soon, Told, assert_nobody_listens,
        break_off, child, expect, expect_end, guestbook, in_own_process, is_child, open_sockets, reset,
        round_trip, script, set_descriptor_limit, settle, wait_for_sockets, wait_until,
    },
};
use netwright_core::{Address, CloseCause, pipeline};
use netwright_transport::{BindError, ListenerOptions, Refusal, ServerFigures, StreamOptions};
use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::TcpListener,
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// Reading plays no part.
const VARIED: &[Variation] = &[Variation::Asking, Variation::OnWorkers];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(an_address_in_use_says_so_and_which).not(VARIED),
    behaviour!(if_one_of_several_addresses_is_in_use_none_is_listened_on).not(VARIED),
    behaviour!(an_address_that_is_not_ours_and_a_name_that_is_none_are_told_apart)
        .needs(&[Need::Network])
        .in_one_model(),
    behaviour!(settings_that_cannot_work_are_refused_before_anybody_connects)
        .shows(&[44])
        .needs(&[Need::Network])
        .not(VARIED),
    behaviour!(a_server_listens_on_several_addresses).not(VARIED),
    behaviour!(a_server_listens_on_ipv6).needs(&[Need::Network]).not(VARIED),
    behaviour!(the_pipeline_is_made_once_for_each_connection_and_knows_the_peer).not(VARIED),
    behaviour!(connections_that_wait_are_all_accepted_however_many).shows(&[61]).not(VARIED),
    behaviour!(a_server_that_is_full_refuses_further_connections_and_takes_some_again_when_others_end)
        .not(VARIED),
    behaviour!(a_connection_that_cannot_be_set_up_takes_no_place_of_another).not(VARIED),
    behaviour!(a_server_that_stops_listening_keeps_its_connections).not(VARIED),
    behaviour!(a_peer_that_resets_before_it_is_accepted_begins_and_ends_once_and_others_are_served)
        .needs(&[Need::Reset])
        .not(VARIED),
    behaviour!(a_factory_that_panics_costs_its_connection_and_not_the_listener).not(VARIED),
    behaviour!(without_a_descriptor_left_the_listener_refuses_survives_and_recovers)
        .shows(&[61])
        .needs(&[Need::Descriptors])
        .not(VARIED),
    behaviour!(no_descriptor_is_left_when_connections_have_ended).needs(&[Need::Descriptors]).not(VARIED),
];

fn an_address_in_use_says_so_and_which(setup: Setup) {
    let other = ForeignListener::new(setup);
    let taken = other.address();
    let (builder, loops) = setup.server();
    let error = builder.pipeline(|_| pipeline().app(Echo)).bind(taken).soon().unwrap_err();
    assert!(matches!(&error, BindError::InUse(address) if address == taken), "{error:?}");
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
    settle(&loops.all());
    for event_loop in loops.all() {
        assert_eq!(event_loop.figures().sources, 0);
    }
}

fn if_one_of_several_addresses_is_in_use_none_is_listened_on(setup: Setup) {
    let other = ForeignListener::new(setup);
    let taken = other.address();
    let (builder, loops) = setup.server();
    let bound = builder.listen(taken).pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon();
    assert!(matches!(bound, Err(BindError::InUse(address)) if address == *taken));
    settle(&loops.all());
    for event_loop in loops.all() {
        assert_eq!(event_loop.figures().sources, 0, "the listener that worked is closed again");
    }
}

fn an_address_that_is_not_ours_and_a_name_that_is_none_are_told_apart(setup: Setup) {
    let bind = |address: &str| {
        let builder = setup.bare_server().group(setup.event_loops(1));
        builder.pipeline(|_| pipeline().app(Echo)).bind(address).soon().unwrap_err()
    };
    let error = bind("192.0.2.1:0"); // reserved for documentation
    assert!(matches!(error, BindError::Io { .. }), "{error:?}");
    assert!(error.to_string().contains("192.0.2.1"), "{error}");
    let name = format!("{}.invalid:80", "a".repeat(64));
    let error = bind(&name);
    assert!(matches!(error, BindError::Resolve(_)), "{error:?}");
    assert!(error.to_string().contains(&name), "{error}");
}

fn settings_that_cannot_work_are_refused_before_anybody_connects(setup: Setup) {
    let (builder, _loops) = setup.server();
    let options = StreamOptions::new().cork(true).nodelay(true);
    let error = builder
        .options(options)
        .pipeline(|_| pipeline().app(Echo))
        .bind(setup.listen_at())
        .soon()
        .unwrap_err();
    assert!(error.to_string().contains("cork"), "{error}");

    let (builder, _loops) = setup.server();
    let options = ListenerOptions::new().only_v6(true);
    let bound =
        builder.listener_options(options).pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon();
    let error = bound.unwrap_err();
    assert!(error.to_string().contains("only_v6"), "{error}");
}

fn a_server_listens_on_several_addresses(setup: Setup) {
    let (builder, _loops) = setup.server();
    let server = builder
        .listen(setup.listen_at())
        .pipeline(|_| pipeline().app(Echo))
        .listen(setup.listen_at())
        .bind(setup.listen_at())
        .soon()
        .unwrap();
    assert_eq!(server.addresses().len(), 3);
    assert_eq!(server.address(), &server.addresses()[0]);
    for address in server.addresses() {
        assert_ne!(address.ip().map(|address| address.port()), Some(0));
        round_trip(&mut setup.dial(address), b"hello");
    }
    assert_eq!(server.figures().accepted, 3);
    server.stop_listening();
}

fn a_server_listens_on_ipv6(setup: Setup) {
    if TcpListener::bind("[::1]:0").is_err() {
        return; // this machine has none
    }
    let (script, events) = script();
    let (builder, _loops) = setup.server();
    let server = builder.pipeline(|_| pipeline().app(Echo)).bind("[::1]:0").soon().unwrap();
    assert!(server.local_addr().unwrap().is_ipv6());
    round_trip(&mut setup.dial(server.address()), b"sixth");
    let client = setup.client(script);
    let channel = client.connect(server.address()).soon().unwrap();
    assert_eq!(channel.peer_addr(), server.local_addr());
    events.active();
    channel.write_and_flush("sixth");
    events.read(b"sixth");
}

fn the_pipeline_is_made_once_for_each_connection_and_knows_the_peer(setup: Setup) {
    let (told, peers) = std::sync::mpsc::channel();
    let (builder, _loops) = setup.server();
    let server = builder
        .pipeline(move |accepted| {
            told.send(accepted.peer.clone()).unwrap();
            pipeline().app(Echo)
        })
        .bind(setup.listen_at())
        .soon()
        .unwrap();
    for _ in 0..3 {
        let mut stream = setup.dial(server.address());
        round_trip(&mut stream, b"hello");
        assert_eq!(peers.recv_timeout(PATIENCE).unwrap(), stream.own_address());
    }
    assert!(peers.try_recv().is_err());
}

/// More than one turn accepts.
fn connections_that_wait_are_all_accepted_however_many(setup: Setup) {
    let running = setup.echo();
    let hold = running.hold();
    let mut streams: Vec<_> = (0..100).map(|_| running.dial()).collect();
    for stream in &mut streams {
        stream.write_all(b"waiting").unwrap();
    }
    drop(hold);
    for stream in &mut streams {
        expect(stream, b"waiting");
    }
    assert_eq!(running.server.figures().accepted, 100);
}

fn a_server_that_is_full_refuses_further_connections_and_takes_some_again_when_others_end(setup: Setup) {
    let (builder, _loops) = setup.server();
    let mut running = builder.connections_max(3).pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at());
    let server = running.soon().unwrap();
    let served = || {
        let mut peer = setup.dial(server.address());
        round_trip(&mut peer, b"hello");
        peer
    };
    let mut peers: Vec<Peer> = (0..3).map(|_| served()).collect();
    for refused in 1..=2 {
        // A peer that connects by a channel may hear of the reset before it is connected.
        let read = setup.try_dial(server.address()).and_then(|mut peer| peer.read(&mut [0; 1]));
        assert!(!matches!(read, Ok(1..)), "it was served");
        wait_until(|| server.figures().refused_full == refused, || format!("{:?}", server.figures()));
    }
    peers.iter_mut().for_each(|peer| round_trip(peer, b"still here"));
    assert_eq!(server.figures().open, 3);

    drop(peers.pop());
    wait_until(|| server.figures().open == 2, || "one of them has left".to_owned());
    peers.push(served());
    assert_eq!((server.figures().open, server.figures().refused_full), (3, 2));
}

fn a_connection_that_cannot_be_set_up_takes_no_place_of_another(setup: Setup) {
    let (builder, _loops) = setup.server();
    let made = AtomicUsize::new(0);
    let mut bound = builder
        .connections_max(1)
        .pipeline(move |_| {
            assert!(made.fetch_add(1, Ordering::Relaxed) > 0, "the first one is not to be");
            pipeline().app(Echo)
        })
        .bind(setup.listen_at());
    let server = bound.soon().unwrap();
    expect_end(&mut setup.dial(server.address()));
    let mut peer = setup.dial(server.address());
    round_trip(&mut peer, b"hello");
    assert_eq!((server.figures().open, server.figures().refused_full), (1, 0));
}

fn a_server_that_stops_listening_keeps_its_connections(setup: Setup) {
    let running = setup.echo();
    let mut stream = running.dial();
    round_trip(&mut stream, b"before");
    running.server.stop_listening();
    running.settle();
    assert_nobody_listens(setup, running.address());
    round_trip(&mut stream, b"after");
    assert_eq!(running.server.figures().open, 1);
}

fn a_peer_that_resets_before_it_is_accepted_begins_and_ends_once_and_others_are_served(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let hold = running.hold();
    reset(running.dial());
    drop(hold);
    events.active(); // Linux hands over connections that are gone already
    let cause = events.end();
    assert!(matches!(&cause, CloseCause::Io(error) if error.kind() == ErrorKind::ConnectionReset), "{cause}");
    let mut stream = running.dial();
    stream.write_all(b"next").unwrap();
    events.active();
    events.read(b"next");
    running.settle();
    events.nothing();
    running.assert_quiet();
}

fn a_factory_that_panics_costs_its_connection_and_not_the_listener(setup: Setup) {
    let calls = AtomicUsize::new(0);
    let (builder, _loops) = setup.server();
    let server = builder
        .pipeline(move |_| {
            assert!(calls.fetch_add(1, Ordering::SeqCst) % 2 == 1, "on purpose");
            pipeline().app(Echo)
        })
        .bind(setup.listen_at())
        .soon()
        .unwrap();
    for _ in 0..4 {
        expect_end(&mut setup.dial(server.address()));
        round_trip(&mut setup.dial(server.address()), b"still served");
    }
}

/// The server runs in a process that may open only a few descriptors; the peers live here.
fn without_a_descriptor_left_the_listener_refuses_survives_and_recovers(setup: Setup) {
    const ROOM: usize = 6;
    if is_child() {
        return limited_server(setup, ROOM);
    }
    let mut server = child(setup).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ask = server.stdin.take().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut answer = |prefix: &str| loop {
        let line = answers.next().expect("the server lives").unwrap();
        if let Some((_, answer)) = line.split_once(prefix) {
            return answer.to_owned();
        }
    };
    let addr: Address = answer("listening on ").parse().unwrap();

    // A refusal may be seen while connecting already, or with the first bytes.
    let try_echo = || setup.try_dial(&addr).and_then(|mut stream| ask_for_echo(&mut stream).map(|()| stream));
    // Those who have gone may still be giving theirs back.
    let recovered = || {
        let mut stream = None;
        let served = || {
            stream = try_echo().ok();
            stream.is_some()
        };
        wait_until(served, || "the listener to recover".to_owned());
        stream
    };
    for _ in 0..2 {
        let mut served = Vec::from_iter(recovered());
        let refused = loop {
            match try_echo() {
                Ok(stream) => served.push(stream),
                Err(error) => break error,
            }
            assert!(served.len() <= ROOM, "more connections than descriptors");
        };
        let reset = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(
            reset.contains(&refused.kind()),
            "a refused connection is break_off, reset, not closed as if served: {refused}"
        );
        served.iter_mut().for_each(|stream| round_trip(stream, b"unharmed"));
        writeln!(ask, "figures").unwrap();
        let figures = answer("figures ");
        assert!(!figures.contains("refused: 0"), "{figures}");
        // Where each connection has two, it may be the second for which none is left.
        let two_each = setup.model == Model::ThreadPerChannel;
        assert!(!figures.contains("accept_failures: 0") || two_each, "{figures}");
    }
    // Nothing has to be done but to give descriptors back.
    drop(recovered());
    writeln!(ask, "quiet").unwrap();
    assert_eq!(answer("quiet "), "yes");
    drop(ask);
    assert!(server.wait().unwrap().success());
}

/// As `round_trip`, for a connection that may be refused.
fn ask_for_echo(stream: &mut Peer) -> std::io::Result<()> {
    stream.write_all(b"x")?;
    stream.read_exact(&mut [0])
}

fn limited_server(setup: Setup, room: usize) {
    let (observer, book) = guestbook();
    let (builder, loops) = setup.server();
    let bound = builder.observer(observer).pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon();
    let running = Running { setup, server: bound.unwrap(), loops };
    round_trip(&mut running.dial(), b"warm"); // every loop has what it needs
    running.wait_for_open(0);
    // The limit is on the number itself: as many as are wanted have to be free below it.
    let is_free = |number: &u64| !std::fs::exists(format!("/proc/self/fd/{number}")).unwrap();
    let limit = (0..).filter(is_free).nth(room).unwrap();
    set_descriptor_limit(limit);
    // An operation that lasts, as io_uring's, keeps to the limit that was in force when it began.
    running.server.pause_accepting();
    running.assert_quiet(); // so every loop has polled since
    running.server.resume_accepting();
    running.assert_quiet();
    println!("\nlistening on {}", running.address());
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "figures" => println!("\nfigures {:?}", running.server.figures()),
            "quiet" => {
                running.wait_for_open(0);
                running.assert_quiet();
                assert_told_of(&running.server.figures(), &book.rest());
                println!("\nquiet yes");
            }
            other => panic!("{other}"),
        }
    }
}

/// The observer has heard of every connection that there was no descriptor for.
fn assert_told_of(figures: &ServerFigures, told: &[Told]) {
    let count = |is: fn(&Told) -> bool| told.iter().filter(|told| is(told)).count() as u64;
    let refused =
        |told: &Told| matches!(told, Told::Refused(_, _, Refusal::NoDescriptor | Refusal::NoThread(_)));
    let failed = |told: &Told| matches!(told, Told::AcceptFailed(Some(pause)) if !pause.is_zero());
    assert_eq!((count(refused), count(failed)), (figures.refused, figures.accept_failures), "{told:?}");
}

fn no_descriptor_is_left_when_connections_have_ended(setup: Setup) {
    in_own_process(setup, || {
        let running = setup.echo();
        let (script, events) = script();
        let client = setup.client(script);
        let before = open_sockets();
        for round in 0..30 {
            let mut stream = running.dial();
            round_trip(&mut stream, b"hello");
            if round % 2 == 0 {
                drop(stream)
            } else {
                break_off(stream)
            }
            let channel = client.connect(running.address()).soon().unwrap();
            channel.close().soon();
            events.active();
            events.end();
            let _ = client.connect(Refusing::new(setup).address()).soon().unwrap_err();
        }
        running.wait_for_open(0);
        // The last connection may still wait to be accepted when none is open.
        wait_for_sockets(before);
        running.server.drain(Duration::ZERO).soon().unwrap();
        wait_for_sockets(before.saturating_sub(setup.model.listeners()));
    });
}
