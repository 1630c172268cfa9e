//! Channels over Unix sockets: with peers of the standard library, and with both ends ours.
#![cfg(unix)]

#[allow(unused)]
mod support;

use bytes::{Bytes, BytesMut};
use netwright_core::{
    Address, AppContext, Application, Channel, CloseCause, Envelope, EventLoopGroup, FileRegion, Outgoing,
    UnixName, WriteError, pipeline,
};
use netwright_transport::{
    Accepted, Backend, BindError, Client, ClientBuilder, ConnectError, DescriptorError, EnvelopeError,
    ListenEnd, ListenerOptions, PeerCredentials, ReceivedDescriptors, Server, ServerBuilder, StreamOptions,
    event_loops,
};
use std::{
    fs,
    io::{self, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{MetadataExt, PermissionsExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};
use support::{Echo, Events, PATIENCE, Script, Seen, Soon, pattern, script, settle, wait_until};

/// A directory of a test's own, removed with it.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NUMBERS: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("netwright-unix-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn at(path: &Path) -> String {
    format!("unix:{}", path.display())
}

fn server_on(group: &EventLoopGroup) -> ServerBuilder {
    Server::builder().group(group.clone())
}

fn echo(builder: ServerBuilder, address: &str) -> Result<Server, BindError> {
    builder.pipeline(|_| pipeline().app(Echo)).bind(address).soon()
}

fn dial(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn a_socket_that_several_loops_accept_from_goes_on_when_one_of_them_ends_and_is_gone_with_the_last() {
    for backend in [Backend::Readiness, Backend::Uring, Backend::Blocking] {
        let Ok(acceptors) = backend.event_loops(2) else {
            println!("{backend}: skipped, it does not work here");
            continue;
        };
        let directory = Directory::new();
        let path = directory.socket();
        let builder = server_on(&backend.event_loops(1).unwrap()).acceptors(acceptors.clone());
        let server = echo(builder, &at(&path)).unwrap();
        let end = |place| {
            let acceptor = acceptors.iter().nth(place).unwrap();
            acceptor.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().soon().unwrap();
        };
        end(0);
        for _ in 0..3 {
            round_trip(&mut dial(&path), b"one is left");
        }
        assert!(!server.closed().is_done());
        end(1);
        assert!(matches!(server.closed().soon(), Ok(ListenEnd::LoopsEnded)));
        assert!(!path.exists());
    }
}

#[track_caller]
fn round_trip(stream: &mut UnixStream, message: &[u8]) {
    stream.write_all(message).unwrap();
    let mut got = vec![0; message.len()];
    stream.read_exact(&mut got).unwrap();
    assert!(got == message);
}

fn client_on(
    group: &EventLoopGroup,
    script: Script,
    set_up: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Client {
    let builder = set_up(Client::builder().group(group.clone()));
    builder.pipeline(move || pipeline().app(script.probe())).unwrap()
}

/// A client whose channel takes anything.
fn raw_client(group: &EventLoopGroup) -> Client {
    struct Mute;
    impl Application for Mute {
        type Read = BytesMut;
        type Write = Outgoing;
        fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
    }
    Client::builder().group(group.clone()).pipeline(|| pipeline().app(Mute)).unwrap()
}

// ---- addresses and files ----

#[test]
fn an_echo_answers_at_a_path_in_every_reactor_model_and_its_file_goes_with_it() {
    let directory = Directory::new();
    let path = directory.socket();
    let (one, two, acceptors) = (event_loops(1).unwrap(), event_loops(2).unwrap(), event_loops(2).unwrap());
    for builder in [
        server_on(&one),
        server_on(&two),
        server_on(&two).acceptors(acceptors),
        server_on(&two).shared_port(true),
    ] {
        let server = echo(builder, &at(&path)).unwrap();
        assert_eq!(*server.address(), Address::Unix(UnixName::Path(path.as_path().into())));
        assert_eq!(server.local_addr(), None);
        let mut peers: Vec<_> = (0..8).map(|_| dial(&path)).collect();
        for peer in &mut peers {
            round_trip(peer, b"hello");
            round_trip(peer, &pattern(100_000));
        }
        assert_eq!(server.figures().accepted, 8);
        drop(peers);
        wait_until(|| server.figures().open == 0, || "the end of all".to_owned());
        assert_eq!(server.drain(Duration::ZERO).soon().unwrap().cut, 0);
        settle(one.iter().chain(two.iter()));
        assert!(!path.exists(), "the file is removed");
    }
}

#[test]
fn every_worker_gets_connections_though_they_share_one_socket() {
    let directory = Directory::new();
    let (path, loops) = (directory.socket(), event_loops(2).unwrap());
    let (tell, threads) = mpsc::channel();
    let make = move |_: &Accepted| {
        tell.send(std::thread::current().id()).unwrap();
        pipeline().app(Echo)
    };
    let builder = server_on(&loops).shared_port(true).pipeline(make).listen("local:every-worker");
    let server = builder.bind(at(&path)).soon().unwrap();
    // On other loops, because who asks a group for a loop takes turns with all others.
    let client = client_on(&event_loops(1).unwrap(), script().0, |client| client);
    for address in server.addresses() {
        for _ in 0..8 {
            client.connect(address).soon().unwrap();
        }
        let mut counts = std::collections::HashMap::new();
        for _ in 0..8 {
            *counts.entry(threads.recv_timeout(PATIENCE).unwrap()).or_insert(0) += 1;
        }
        assert_eq!(counts.into_values().collect::<Vec<_>>(), [4, 4], "{address}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_abstract_name_needs_no_file_and_is_free_again_when_the_server_stops() {
    use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
    let loops = event_loops(1).unwrap();
    let name = format!("netwright-test-{}", std::process::id());
    for _ in 0..2 {
        let server = echo(server_on(&loops), &format!("unix:@{name}")).unwrap();
        assert_eq!(server.address().to_string(), format!("unix:@{name}"));
        let error = echo(server_on(&loops), &format!("unix:@{name}")).unwrap_err();
        assert!(matches!(error, BindError::InUse(_)), "{error}");
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        round_trip(&mut UnixStream::connect_addr(&address).unwrap(), b"hello");
        let (script, events) = script();
        let channel = client_on(&loops, script, |client| client).connect(server.address()).soon().unwrap();
        events.active();
        channel.write_and_flush(Bytes::from_static(b"ours"));
        events.read(b"ours");
        server.drain(Duration::ZERO).soon().unwrap();
    }
}

#[test]
fn a_stale_file_is_replaced_and_one_that_somebody_listens_to_is_not() {
    let directory = Directory::new();
    let (path, loops) = (directory.socket(), event_loops(1).unwrap());
    let stale = UnixListener::bind(&path).unwrap();
    let before = fs::metadata(&path).unwrap().ino();
    let error = echo(server_on(&loops), &at(&path)).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {}: the address is in use", at(&path)));
    assert_eq!(fs::metadata(&path).unwrap().ino(), before);

    drop(stale);
    assert!(path.exists());
    let server = echo(server_on(&loops), &at(&path)).unwrap();
    round_trip(&mut dial(&path), b"hello");
    assert!(matches!(echo(server_on(&loops), &at(&path)), Err(BindError::InUse(_))));
    drop(server);
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let directory = Directory::new();
    let loops = event_loops(1).unwrap();
    let file = directory.0.join("file");
    fs::write(&file, "precious").unwrap();
    let link = directory.0.join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&file, &link, &directory.0] {
        let error = echo(server_on(&loops), &at(path)).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "cannot listen on {}: there is a file of this name that is no socket, and it is left alone",
                at(path)
            )
        );
    }
    assert_eq!(fs::read_to_string(&link).unwrap(), "precious");
}

#[test]
fn a_file_that_is_no_longer_ours_stays_when_the_listener_closes() {
    let directory = Directory::new();
    let (path, loops) = (directory.socket(), event_loops(1).unwrap());
    let server = echo(server_on(&loops), &at(&path)).unwrap();
    fs::remove_file(&path).unwrap();
    let another = UnixListener::bind(&path).unwrap();
    server.drain(Duration::ZERO).soon().unwrap();
    assert!(path.exists());
    drop(another);
}

#[test]
fn permissions_of_the_file_are_as_asked_for() {
    let directory = Directory::new();
    let (path, loops) = (directory.socket(), event_loops(1).unwrap());
    for mode in [0o600, 0o666, 0o660] {
        let options = ListenerOptions::new().unix_mode(mode);
        let server = echo(server_on(&loops).listener_options(options), &at(&path)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        server.drain(Duration::ZERO).soon().unwrap();
    }
    let refused = server_on(&loops).listener_options(ListenerOptions::new().unix_mode(0o600));
    let error = echo(refused, "unix:@netwright-mode").unwrap_err();
    assert!(error.to_string().ends_with("only a socket with a path has permissions"), "{error}");
}

#[test]
fn a_name_that_does_not_fit_is_refused_with_its_length() {
    let loops = event_loops(1).unwrap();
    let client = client_on(&loops, script().0, |client| client);
    for address in [format!("unix:/tmp/{}", "x".repeat(200)), format!("unix:@{}", "x".repeat(205))] {
        let expected = "its name has 205 bytes, but the address of a Unix socket has room for 107";
        let error = echo(server_on(&loops), &address).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot listen on {address}: {expected}"));
        let error = client.connect(&address).soon().unwrap_err();
        assert_eq!(error.to_string(), format!("cannot connect to {address}: {expected}"));
    }
    let longest = format!("unix:@{}", "x".repeat(107));
    let server = echo(server_on(&loops), &longest).unwrap();
    client.connect(server.address()).soon().unwrap();
}

#[test]
fn options_of_the_network_are_refused_if_asked_for_and_their_defaults_are_not_in_the_way() {
    let directory = Directory::new();
    let (path, loops) = (directory.socket(), event_loops(1).unwrap());
    let error = echo(server_on(&loops).options(StreamOptions::new().nodelay(true)), &at(&path)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on {}: socket option nodelay = true: a Unix socket does not have it",
            at(&path)
        )
    );
    assert!(!path.exists());
    let _server = echo(server_on(&loops), &at(&path)).unwrap();
    let connect = |set_up: fn(ClientBuilder) -> ClientBuilder| {
        client_on(&loops, script().0, set_up).connect(at(&path)).soon().unwrap_err().to_string()
    };
    let error = connect(|client| client.options(StreamOptions::new().nodelay(true)));
    assert!(error.ends_with("socket option nodelay = true: a Unix socket does not have it"), "{error}");
    let error = connect(|client| client.local_addr("127.0.0.1:1".parse().unwrap()));
    assert!(error.ends_with("local_addr is 127.0.0.1:1, but a Unix socket has no host and port"), "{error}");
}

#[test]
fn a_file_that_nobody_listens_to_refuses_and_one_that_is_not_there_is_named() {
    let directory = Directory::new();
    let (path, loops) = (directory.socket(), event_loops(1).unwrap());
    let client = client_on(&loops, script().0, |client| client);
    let error = client.connect(at(&path)).soon().unwrap_err();
    assert!(matches!(&error, ConnectError::Io { error, .. } if error.kind() == io::ErrorKind::NotFound));
    assert!(error.to_string().starts_with(&format!("cannot connect to {}: ", at(&path))), "{error}");
    drop(UnixListener::bind(&path).unwrap());
    assert!(matches!(client.connect(at(&path)).soon(), Err(ConnectError::Refused(_))));
}

#[test]
#[cfg(target_os = "linux")]
fn a_client_waits_while_the_queue_of_a_listener_is_full_but_not_longer_than_it_may() {
    let directory = Directory::new();
    let (path, loops) = (directory.socket(), event_loops(2).unwrap());
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    socket.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    socket.listen(0).unwrap();
    let waiting = UnixStream::connect(&path).unwrap();
    let limit = Duration::from_millis(30);
    let hasty = client_on(&loops, script().0, |client| client.connect_timeout(limit));
    let error = hasty.connect(at(&path)).soon().unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");

    let patient = client_on(&loops, script().0, |client| client);
    let mut connecting = patient.connect(at(&path));
    settle(loops.iter());
    assert!(connecting.try_take().is_none());
    let given_up = patient.connect(at(&path));
    assert!(given_up.cancel());
    let listener = UnixListener::from(OwnedFd::from(socket));
    let _first = listener.accept().unwrap();
    connecting.soon().unwrap();
    drop((waiting, listener.accept().unwrap()));
}

// ---- bytes ----

#[test]
fn ends_are_told_as_on_tcp() {
    let directory = Directory::new();
    let (path, loops) = (directory.socket(), event_loops(1).unwrap());
    let (script, events) = script();
    let builder = server_on(&loops).half_closure(true);
    let _server = builder.pipeline(move |_| pipeline().app(script.probe())).bind(at(&path)).soon().unwrap();
    let mut peer = dial(&path);
    let channel = events.active();
    peer.write_all(b"question").unwrap();
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    events.read(b"question");
    events.input_closed();
    channel.write_and_flush(Bytes::from(pattern(300_000)));
    drop(channel.close_when_flushed());
    let mut answer = Vec::new();
    peer.read_to_end(&mut answer).unwrap();
    assert!(answer == pattern(300_000));
    assert!(matches!(events.skip_to_end(), CloseCause::Requested));

    let peer = dial(&path);
    let channel = events.active();
    channel.send(Bytes::from_static(b"never read")).soon().unwrap();
    drop(peer);
    let cause = events.skip_to_end();
    assert!(
        matches!(&cause, CloseCause::Io(error) if error.kind() == io::ErrorKind::ConnectionReset),
        "{cause}"
    );
}

#[test]
fn a_writer_whose_peer_does_not_read_is_told_and_goes_on_when_it_does() {
    let directory = Directory::new();
    let (path, loops) = (directory.socket(), event_loops(2).unwrap());
    let (server_script, theirs) = script();
    let builder = server_on(&loops).auto_read(false);
    let builder = builder.pipeline(move |_| pipeline().app(server_script.probe()));
    let server = builder.bind(at(&path)).soon().unwrap();
    let (script, ours) = script();
    let channel = client_on(&loops, script, |client| client).connect(server.address()).soon().unwrap();
    ours.active();
    let there = theirs.active();
    let message = Bytes::from(pattern(2_000_000));
    let mut written = channel.send(message.clone());
    assert!(matches!(ours.next(), Seen::Writability(false)));
    settle(loops.iter());
    assert!(written.try_take().is_none());
    there.resume();
    theirs.read(&message);
    written.soon().unwrap();
}

#[test]
fn a_file_is_sent_over_a_unix_socket() {
    let directory = Directory::new();
    let (path, loops) = (directory.socket(), event_loops(1).unwrap());
    let listener = UnixListener::bind(&path).unwrap();
    let file = directory.0.join("file");
    fs::write(&file, pattern(500_000)).unwrap();
    let channel = raw_client(&loops).connect(at(&path)).soon().unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    drop(channel.send(FileRegion::whole(fs::File::open(&file).unwrap()).unwrap()));
    drop(channel.close_when_flushed());
    let mut got = Vec::new();
    peer.read_to_end(&mut got).unwrap();
    assert!(got == pattern(500_000));
}

// ---- credentials ----

#[test]
#[cfg(target_os = "linux")]
fn both_ends_know_who_the_other_is() {
    let directory = Directory::new();
    let (path, loops) = (directory.socket(), event_loops(1).unwrap());
    let (tell, told) = mpsc::channel();
    let (server_script, theirs) = script();
    let make = move |accepted: &Accepted| {
        tell.send((accepted.credentials, accepted.peer.clone())).unwrap();
        pipeline().app(server_script.probe())
    };
    let builder = server_on(&loops).pipeline(make).listen("127.0.0.1:0").listen("local:credentials");
    let server = builder.bind(at(&path)).soon().unwrap();
    let client = client_on(&loops, script().0, |client| client);
    let channel = client.connect(server.address()).soon().unwrap();
    let (credentials, peer) = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(peer, Address::Unix(UnixName::Unnamed));
    let credentials = credentials.unwrap();
    assert_eq!(credentials.pid, Some(std::process::id()));
    let me = fs::metadata("/proc/self").unwrap();
    assert_eq!((credentials.uid, credentials.gid), (me.uid(), me.gid()));
    assert_eq!(theirs.active().attribute::<PeerCredentials>().as_deref(), Some(&credentials));
    assert_eq!(channel.attribute::<PeerCredentials>().as_deref(), Some(&credentials));

    for address in &server.addresses()[1..] {
        let channel = client.connect(address).soon().unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap().0, None);
        assert!(channel.attribute::<PeerCredentials>().is_none());
    }
}

// ---- descriptors ----

/// A server that takes descriptors, and a client that sends them.
struct Passing {
    _directory: Directory,
    loops: EventLoopGroup,
    _server: Server,
    events: Events,
    there: Channel,
    here: Channel<Outgoing>,
}

impl Passing {
    fn new(max: usize) -> Self {
        let directory = Directory::new();
        let loops = event_loops(2).unwrap();
        let (script, events) = script();
        let builder = server_on(&loops).receive_descriptors(max);
        let builder = builder.pipeline(move |_| pipeline().app(script.probe()));
        let server = builder.bind(at(&directory.socket())).soon().unwrap();
        let here = raw_client(&loops).connect(server.address()).soon().unwrap();
        let there = events.active();
        Self { _directory: directory, loops, _server: server, events, there, here }
    }

    fn received(&self) -> std::sync::Arc<ReceivedDescriptors> {
        self.there.attribute().expect("the channel receives descriptors")
    }
}

/// The end that is passed, and the one that tells what becomes of it.
fn pipe() -> (OwnedFd, io::PipeReader) {
    let (reader, writer) = io::pipe().unwrap();
    (writer.into(), reader)
}

/// All ends that could be written to are closed.
#[track_caller]
fn assert_closed(mut reader: io::PipeReader) {
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

fn refusal(result: Result<(), WriteError>) -> EnvelopeError {
    match result {
        Err(WriteError::Fault(fault)) => fault.downcast_ref::<EnvelopeError>().unwrap().clone(),
        other => panic!("expected a fault, got {other:?}"),
    }
}

#[test]
fn descriptors_arrive_in_order_with_the_bytes_that_they_were_sent_with() {
    let passing = Passing::new(8);
    let mut readers = Vec::new();
    for round in 0..3u8 {
        passing.here.write(Outgoing::from(b"before ".as_slice()));
        let mut envelope = Envelope::new(format!("with {round} "));
        for _ in 0..=round {
            let (descriptor, reader) = pipe();
            envelope = envelope.with_descriptor(descriptor);
            readers.push(reader);
        }
        passing.here.write(envelope);
        passing.here.send(Outgoing::from(b"after".as_slice())).soon().unwrap();
        passing.events.read(format!("before with {round} after").as_bytes());
        let received = passing.received();
        assert_eq!(received.len(), usize::from(round) + 1);
        let first = received.take_first().unwrap();
        for (number, descriptor) in [first].into_iter().chain(received.take()).enumerate() {
            assert!(rustix::io::fcntl_getfd(&descriptor).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
            fs::File::from(descriptor).write_all(&[number as u8]).unwrap();
        }
        assert!(received.is_empty());
        for (number, mut reader) in readers.drain(..).enumerate() {
            let mut got = Vec::new();
            reader.read_to_end(&mut got).unwrap();
            assert_eq!(got, [number as u8], "sent, taken, written to and closed");
        }
    }
}

#[test]
fn descriptors_of_a_message_that_is_sent_in_parts_arrive_once() {
    let passing = Passing::new(8);
    let (descriptor, reader) = pipe();
    let message = pattern(3_000_000);
    let envelope = Envelope::new(message.clone()).with_descriptor(descriptor);
    drop(passing.here.send(envelope));
    passing.events.read(&message);
    assert_eq!(passing.received().take().len(), 1);
    assert_closed(reader);
}

#[test]
fn a_channel_that_did_not_ask_for_descriptors_gets_the_bytes_and_the_system_closes_them() {
    let passing = Passing::new(0);
    assert!(passing.there.attribute::<ReceivedDescriptors>().is_none());
    let (descriptor, reader) = pipe();
    passing.here.write(Envelope::new("one ").with_descriptor(descriptor));
    passing.here.write(Envelope::new("two "));
    passing.here.write(Envelope::new("three").with_descriptor(pipe().0));
    passing.here.send(Outgoing::from(b" four".as_slice())).soon().unwrap();
    passing.events.read(b"one two three four");
    assert_closed(reader);
}

#[test]
fn more_descriptors_than_may_wait_end_the_connection_and_are_closed() {
    let passing = Passing::new(2);
    let (kept, kept_reader) = pipe();
    passing.here.send(Envelope::new("one").with_descriptor(kept)).soon().unwrap();
    passing.events.read(b"one");
    let (first, first_reader) = pipe();
    let (second, second_reader) = pipe();
    let envelope = Envelope::new("two").with_descriptor(first).with_descriptor(second);
    drop(passing.here.send(envelope));
    let CloseCause::Io(error) = passing.events.skip_to_end() else { panic!("expected an error") };
    let error = error.get_ref().and_then(|error| error.downcast_ref::<DescriptorError>()).unwrap();
    assert_eq!(*error, DescriptorError::TooMany { waiting: 1, got: 2, limit: 2 });
    assert_closed(first_reader);
    assert_closed(second_reader);
    drop(passing.received().take());
    assert_closed(kept_reader);
}

#[test]
fn an_envelope_that_a_stream_cannot_send_fails_alone() {
    let passing = Passing::new(8);
    let (descriptor, reader) = pipe();
    let mut empty = passing.here.write_tracked(Envelope::new("").with_descriptor(descriptor));
    let address: Address = "unix:/tmp/x".parse().unwrap();
    let mut addressed = passing.here.write_tracked(Envelope::to(address, "x"));
    let mut many = Envelope::new("x");
    for _ in 0..254 {
        many = many.with_descriptor(fs::File::open("/dev/null").unwrap());
    }
    let mut many = passing.here.write_tracked(many);
    passing.here.send(Envelope::new("still here")).soon().unwrap();
    passing.events.read(b"still here");
    assert_eq!(refusal(empty.soon()), EnvelopeError::NoBytes { count: 1 });
    assert!(matches!(refusal(addressed.soon()), EnvelopeError::Target { .. }));
    assert_eq!(refusal(many.soon()), EnvelopeError::TooManyDescriptors { count: 254, limit: 253 });
    assert_closed(reader);
    settle(passing.loops.iter());
    assert!(passing.received().is_empty());
}

#[test]
fn on_tcp_an_envelope_is_its_bytes_and_one_with_descriptors_fails_alone() {
    let loops = event_loops(1).unwrap();
    let (script, events) = script();
    let builder = server_on(&loops).receive_descriptors(8);
    let builder = builder.pipeline(move |_| pipeline().app(script.probe()));
    let server = builder.bind("127.0.0.1:0").soon().unwrap();
    let channel = raw_client(&loops).connect(server.address()).soon().unwrap();
    let there = events.active();
    assert!(there.attribute::<ReceivedDescriptors>().is_none());
    let (descriptor, reader) = pipe();
    channel.write(Envelope::new("plain "));
    let mut refused = channel.write_tracked(Envelope::new("x").with_descriptor(descriptor));
    channel.send(Envelope::new("bytes")).soon().unwrap();
    events.read(b"plain bytes");
    assert_eq!(
        refusal(refused.soon()).to_string(),
        "the envelope has 1 descriptors, but a TCP channel cannot pass them: only Unix sockets can"
    );
    assert_closed(reader);
}
