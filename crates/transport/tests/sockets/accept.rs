//! Listening and accepting, also when there is no room.

use crate::support::{
    ANY_PORT, Echo, Model, PATIENCE, Soon, child, dial, expect_end, for_each_model, in_own_process, is_child,
    reset, round_trip, script, wait_for_sockets,
};
use netwright_core::{CloseCause, pipeline};
use netwright_transport::{BindError, ListenerOptions, Server, StreamOptions, event_loops};
use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

for_each_model!(a_port_in_use_says_so_and_which);

fn a_port_in_use_says_so_and_which(model: Model) {
    let other = TcpListener::bind(ANY_PORT).unwrap();
    let taken = other.local_addr().unwrap();
    let (builder, loops) = model.builder();
    let error = builder.pipeline(|_| pipeline().app(Echo)).bind(taken).soon().unwrap_err();
    assert!(matches!(&error, BindError::InUse(address) if *address == taken), "{error:?}");
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
    crate::support::settle(loops.all());
    for event_loop in loops.all() {
        assert_eq!(event_loop.figures().sources, 0);
    }
}

for_each_model!(if_one_of_several_addresses_is_in_use_none_is_listened_on);

fn if_one_of_several_addresses_is_in_use_none_is_listened_on(model: Model) {
    let other = TcpListener::bind(ANY_PORT).unwrap();
    let taken = other.local_addr().unwrap();
    let (builder, loops) = model.builder();
    let bound = builder.listen(taken).pipeline(|_| pipeline().app(Echo)).bind(ANY_PORT).soon();
    assert!(matches!(bound, Err(BindError::InUse(address)) if address == taken));
    crate::support::settle(loops.all());
    for event_loop in loops.all() {
        assert_eq!(event_loop.figures().sources, 0, "the listener that worked is closed again");
    }
}

#[test]
fn an_address_that_is_not_ours_and_a_name_that_is_none_are_told_apart() {
    let bind = |address: &str| {
        let builder = Server::builder().group(event_loops(1).unwrap());
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

for_each_model!(settings_that_cannot_work_are_refused_before_anybody_connects);

fn settings_that_cannot_work_are_refused_before_anybody_connects(model: Model) {
    let (builder, _loops) = model.builder();
    let options = StreamOptions::new().cork(true).nodelay(true);
    let error =
        builder.options(options).pipeline(|_| pipeline().app(Echo)).bind(ANY_PORT).soon().unwrap_err();
    assert!(error.to_string().contains("cork"), "{error}");

    let (builder, _loops) = model.builder();
    let options = ListenerOptions::new().only_v6(true);
    let bound = builder.listener_options(options).pipeline(|_| pipeline().app(Echo)).bind(ANY_PORT).soon();
    let error = bound.unwrap_err();
    assert!(error.to_string().contains("only_v6"), "{error}");
}

for_each_model!(a_server_listens_on_several_addresses);

fn a_server_listens_on_several_addresses(model: Model) {
    let (builder, _loops) = model.builder();
    let server = builder
        .listen(ANY_PORT)
        .pipeline(|_| pipeline().app(Echo))
        .listen("127.0.0.1:0")
        .bind(ANY_PORT)
        .soon()
        .unwrap();
    assert_eq!(server.addresses().len(), 3);
    assert_eq!(server.address(), &server.addresses()[0]);
    for address in server.addresses() {
        assert_ne!(address.ip().unwrap().port(), 0);
        round_trip(&mut dial(address.ip().unwrap()), b"hello");
    }
    assert_eq!(server.figures().accepted, 3);
    server.stop_listening();
}

for_each_model!(a_server_listens_on_ipv6);

fn a_server_listens_on_ipv6(model: Model) {
    if TcpListener::bind("[::1]:0").is_err() {
        return; // this machine has none
    }
    let (script, events) = script();
    let (builder, _loops) = model.builder();
    let server = builder.pipeline(|_| pipeline().app(Echo)).bind("[::1]:0").soon().unwrap();
    assert!(server.local_addr().unwrap().is_ipv6());
    round_trip(&mut dial(server.local_addr().unwrap()), b"sixth");
    let client = crate::support::client(script);
    let channel = client.connect(server.address()).soon().unwrap();
    assert_eq!(channel.peer_addr(), server.local_addr());
    events.active();
    channel.send("sixth".into());
    events.read(b"sixth");
}

for_each_model!(the_pipeline_is_made_once_for_each_connection_and_knows_the_peer);

fn the_pipeline_is_made_once_for_each_connection_and_knows_the_peer(model: Model) {
    let (told, peers) = std::sync::mpsc::channel();
    let (builder, _loops) = model.builder();
    let server = builder
        .pipeline(move |accepted| {
            told.send(accepted.peer.ip().unwrap()).unwrap();
            pipeline().app(Echo)
        })
        .bind(ANY_PORT)
        .soon()
        .unwrap();
    for _ in 0..3 {
        let mut stream = dial(server.local_addr().unwrap());
        round_trip(&mut stream, b"hello");
        assert_eq!(peers.recv_timeout(PATIENCE).unwrap(), stream.local_addr().unwrap());
    }
    assert!(peers.try_recv().is_err());
}

for_each_model!(connections_that_wait_are_all_accepted_however_many);

/// More than one turn accepts.
fn connections_that_wait_are_all_accepted_however_many(model: Model) {
    let running = model.echo();
    let hold = running.hold();
    let mut streams: Vec<_> = (0..100).map(|_| running.dial()).collect();
    for stream in &mut streams {
        stream.write_all(b"waiting").unwrap();
    }
    drop(hold);
    for stream in &mut streams {
        crate::support::expect(stream, b"waiting");
    }
    assert_eq!(running.server.figures().accepted, 100);
}

for_each_model!(a_server_that_stops_listening_keeps_its_connections);

fn a_server_that_stops_listening_keeps_its_connections(model: Model) {
    let running = model.echo();
    let mut stream = running.dial();
    round_trip(&mut stream, b"before");
    running.server.stop_listening();
    running.settle();
    assert_eq!(TcpStream::connect(running.addr()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    round_trip(&mut stream, b"after");
    assert_eq!(running.server.figures().open, 1);
}

for_each_model!(a_peer_that_resets_before_it_is_accepted_begins_and_ends_once_and_others_are_served);

fn a_peer_that_resets_before_it_is_accepted_begins_and_ends_once_and_others_are_served(model: Model) {
    let (script, events) = script();
    let running = model.serve(script);
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

for_each_model!(a_factory_that_panics_costs_its_connection_and_not_the_listener);

fn a_factory_that_panics_costs_its_connection_and_not_the_listener(model: Model) {
    let calls = AtomicUsize::new(0);
    let (builder, _loops) = model.builder();
    let server = builder
        .pipeline(move |_| {
            assert!(calls.fetch_add(1, Ordering::SeqCst) % 2 == 1, "on purpose");
            pipeline().app(Echo)
        })
        .bind(ANY_PORT)
        .soon()
        .unwrap();
    for _ in 0..4 {
        expect_end(&mut dial(server.local_addr().unwrap()));
        round_trip(&mut dial(server.local_addr().unwrap()), b"still served");
    }
}

for_each_model!(without_a_descriptor_left_the_listener_refuses_survives_and_recovers);

/// The server runs in a process that may open only a few descriptors; the peers live here.
fn without_a_descriptor_left_the_listener_refuses_survives_and_recovers(model: Model) {
    const ROOM: usize = 6;
    let name = format!(
        "accept::without_a_descriptor_left_the_listener_refuses_survives_and_recovers::{}",
        model.test_name()
    );
    if is_child() {
        return limited_server(model, ROOM);
    }
    let mut server = child(&name).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ask = server.stdin.take().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut answer = |prefix: &str| loop {
        let line = answers.next().expect("the server lives").unwrap();
        if let Some((_, answer)) = line.split_once(prefix) {
            return answer.to_owned();
        }
    };
    let addr: SocketAddr = answer("listening on ").parse().unwrap();

    for _ in 0..2 {
        let mut served = Vec::new();
        let refused = loop {
            let mut stream = dial(addr);
            match ask_for_echo(&mut stream) {
                Ok(()) => served.push(stream),
                Err(error) => break error,
            }
            assert!(served.len() <= ROOM, "more connections than descriptors");
        };
        let reset = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(
            reset.contains(&refused.kind()),
            "a refused connection is reset, not closed as if served: {refused}"
        );
        assert!(!served.is_empty());
        served.iter_mut().for_each(|stream| round_trip(stream, b"unharmed"));
        writeln!(ask, "figures").unwrap();
        let figures = answer("figures ");
        assert!(!figures.contains("refused: 0") && !figures.contains("accept_failures: 0"), "{figures}");

        // Nothing has to be done but to give descriptors back.
        drop(served);
        crate::support::wait_until(
            || ask_for_echo(&mut dial(addr)).is_ok(),
            || "the listener to recover".to_owned(),
        );
    }
    writeln!(ask, "quiet").unwrap();
    assert_eq!(answer("quiet "), "yes");
    drop(ask);
    assert!(server.wait().unwrap().success());
}

/// As `round_trip`, for a connection that may be refused.
fn ask_for_echo(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"x")?;
    stream.read_exact(&mut [0])
}

fn limited_server(model: Model, room: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let running = model.echo();
    round_trip(&mut running.dial(), b"warm"); // every loop has what it needs
    running.wait_for_open(0);
    // The limit is on the number itself: as many as are wanted have to be free below it.
    let is_free = |number: &u64| !std::fs::exists(format!("/proc/self/fd/{number}")).unwrap();
    let limit = (0..).filter(is_free).nth(room).unwrap();
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum }).unwrap();
    println!("\nlistening on {}", running.addr());
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "figures" => println!("\nfigures {:?}", running.server.figures()),
            "quiet" => {
                running.wait_for_open(0);
                running.assert_quiet();
                println!("\nquiet yes");
            }
            other => panic!("{other}"),
        }
    }
}

for_each_model!(no_descriptor_is_left_when_connections_have_ended);

fn no_descriptor_is_left_when_connections_have_ended(model: Model) {
    let name = format!("accept::no_descriptor_is_left_when_connections_have_ended::{}", model.test_name());
    in_own_process(&name, || {
        let running = model.echo();
        let (script, events) = script();
        let client = crate::support::client(script);
        let before = crate::support::open_sockets();
        for round in 0..30 {
            let mut stream = running.dial();
            round_trip(&mut stream, b"hello");
            if round % 2 == 0 {
                drop(stream)
            } else {
                reset(stream)
            }
            let channel = client.connect(running.addr()).soon().unwrap();
            channel.close().soon();
            events.active();
            events.end();
            let _ = client.connect(crate::support::Refusing::new().addr()).soon().unwrap_err();
        }
        running.wait_for_open(0);
        // The last connection may still wait to be accepted when none is open.
        wait_for_sockets(before);
        running.server.shutdown_gracefully(Duration::ZERO).soon().unwrap();
        let listeners = if model == Model::TwoAcceptors || model == Model::SharedPort { 2 } else { 1 };
        wait_for_sockets(before - listeners);
    });
}
