//! Channels within the process, both ends ours. Most of them on loops that cannot host sockets at all.

#[allow(unused)]
mod support;

use bytes::{Bytes, BytesMut};
use netwright_core::{
    Address, AppContext, Application, Channel, CloseCause, Envelope, EventLoopGroup, FileRegion, Outgoing,
    WriteError, pipeline,
};
use netwright_transport::{
    BindError, Client, ClientBuilder, ConnectError, EnvelopeError, ListenerOptions, Server, ServerBuilder,
    StreamOptions, event_loops,
};
use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};
use support::{
    Echo, Events, Hold, PATIENCE, Random, Script, Seen, Soon, assert_quiet, pattern, pattern_at, script,
    settle, wait_until,
};

/// A name that no other test has.
fn name() -> String {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    format!("local:test-{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

/// Loops without any driver for sockets.
fn group(loops: usize) -> EventLoopGroup {
    EventLoopGroup::builder().loops(loops).build().unwrap()
}

fn server_on(group: &EventLoopGroup) -> ServerBuilder {
    Server::builder().group(group.clone())
}

fn serve(builder: ServerBuilder, script: Script) -> Server {
    builder.pipeline(move |_| pipeline().app(script.probe())).bind(name()).soon().unwrap()
}

fn client_on(
    group: &EventLoopGroup,
    script: Script,
    set_up: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Client {
    let builder = set_up(Client::builder().group(group.clone()));
    builder.pipeline(move || pipeline().app(script.probe())).unwrap()
}

/// A connection with a script at both ends.
struct Pair {
    loops: EventLoopGroup,
    server: Server,
    /// The server's end.
    there: Channel,
    theirs: Events,
    /// The client's end.
    here: Channel,
    ours: Events,
}

impl Pair {
    fn new() -> Self {
        Self::with(|server| server, |client| client)
    }

    fn with(
        server: impl FnOnce(ServerBuilder) -> ServerBuilder,
        client: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Self {
        Self::running(script(), script(), server, client)
    }

    fn running(
        (server_script, theirs): (Script, Events),
        (client_script, ours): (Script, Events),
        set_up_server: impl FnOnce(ServerBuilder) -> ServerBuilder,
        set_up_client: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Self {
        let loops = group(2);
        let server = serve(set_up_server(server_on(&loops)), server_script);
        let client = client_on(&loops, client_script, set_up_client);
        let here = client.connect(server.address()).soon().unwrap();
        let there = theirs.active();
        ours.active();
        Self { loops, server, there, theirs, here, ours }
    }

    fn settle(&self) {
        settle(self.loops.iter());
    }
}

fn is_io(cause: &CloseCause, kind: io::ErrorKind) -> bool {
    matches!(cause, CloseCause::Io(error) if error.kind() == kind)
}

#[test]
fn an_echo_answers_in_every_reactor_model() {
    let (one, two, acceptors) = (group(1), group(2), group(2));
    for builder in [
        server_on(&one),
        server_on(&two),
        server_on(&two).acceptors(acceptors),
        server_on(&two).shared_port(true),
        server_on(&event_loops(1).unwrap()),
    ] {
        let server = builder.pipeline(|_| pipeline().app(Echo)).bind(name()).soon().unwrap();
        for group in [&one, &two] {
            let (script, events) = script();
            let client = client_on(group, script, |client| client);
            let channels: Vec<_> = (0..8).map(|_| client.connect(server.address()).soon().unwrap()).collect();
            channels.iter().for_each(|_| drop(events.active()));
            for channel in &channels {
                channel.write_and_flush(Bytes::from_static(b"hello"));
                events.read(b"hello");
            }
            for channel in channels {
                channel.close().soon();
                events.end();
            }
        }
        wait_until(|| server.figures().open == 0, || "the end of all".to_owned());
        assert_eq!(server.figures().accepted, 16);
    }
}

#[test]
fn both_ends_know_where_they_are() {
    let pair = Pair::new();
    let there = pair.server.address().to_string();
    assert_eq!(pair.server.local_addr(), None);
    let text = |address: Option<Address>| address.unwrap().to_string();
    assert_eq!((text(pair.there.local()), text(pair.here.peer())), (there.clone(), there.clone()));
    assert_eq!(text(pair.here.local()), format!("{there}#1"));
    assert_eq!(pair.there.peer(), pair.here.local());
    assert_eq!(pair.here.peer_addr(), None);

    let (seen, peers) = mpsc::channel();
    let make = move |accepted: &netwright_transport::Accepted| {
        seen.send(accepted.peer.clone()).unwrap();
        pipeline().app(Echo)
    };
    let server = server_on(&pair.loops).pipeline(make).bind(name()).soon().unwrap();
    let client = client_on(&pair.loops, script().0, |client| client);
    let channel = client.connect(server.address()).soon().unwrap();
    assert_eq!(peers.recv_timeout(PATIENCE).unwrap(), channel.local().unwrap());
}

#[test]
fn a_message_that_nobody_else_holds_is_not_copied_not_even_one_larger_than_the_pipe() {
    struct Places(mpsc::Sender<(usize, usize)>);
    impl Application for Places {
        type Read = BytesMut;
        type Write = Outgoing;
        fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
            self.0.send((bytes.as_ptr() as usize, bytes.len())).unwrap();
        }
    }
    let loops = group(2);
    let (tell, places) = mpsc::channel();
    let server = server_on(&loops);
    let server = server.pipeline(move |_| pipeline().app(Places(tell.clone()))).bind(name()).soon().unwrap();
    let client = client_on(&loops, script().0, |client| client);
    let channel = client.connect(server.address()).soon().unwrap();
    for len in [1, 100, 64 * 1024, 1_000_000] {
        let message = Bytes::from(vec![0; len]);
        let start = message.as_ptr() as usize;
        channel.write_and_flush(message);
        let mut got = 0;
        while got < len {
            let (place, len) = places.recv_timeout(PATIENCE).unwrap();
            assert_eq!(place, start + got, "a piece lies where it was written");
            got += len;
        }
    }
    // Bytes that others hold as well are copied, and theirs stay as they are.
    let held = Bytes::from(pattern(1000));
    channel.write_and_flush(held.clone());
    assert_ne!(places.recv_timeout(PATIENCE).unwrap().0, held.as_ptr() as usize);
    assert_eq!(held, pattern(1000));
}

#[test]
fn a_writer_whose_peer_does_not_read_is_told_and_goes_on_when_it_does() {
    let pair = Pair::with(|server| server.auto_read(false), |client| client);
    let message = Bytes::from(pattern(1_000_000));
    let mut written = pair.here.send(message.clone());
    loop {
        if let Seen::Writability(writable) = pair.ours.next() {
            assert!(!writable);
            break;
        }
    }
    pair.settle();
    assert!(!pair.here.is_writable() && written.try_take().is_none(), "most of it waits");
    pair.theirs.nothing();
    assert_quiet(pair.loops.iter());
    pair.there.resume();
    pair.theirs.read(&message);
    written.soon().unwrap();
    assert!(matches!(pair.ours.next(), Seen::Writability(true)));
    assert!(pair.here.is_writable());
}

#[test]
fn a_pipe_is_as_large_as_the_reader_or_else_the_writer_says() {
    for (reader, writer, taken) in [
        (StreamOptions::new().recv_buffer_size(10), StreamOptions::new().send_buffer_size(99), 10),
        (StreamOptions::new(), StreamOptions::new().send_buffer_size(20), 20),
        (StreamOptions::new(), StreamOptions::new(), 64 * 1024),
    ] {
        let pair =
            Pair::with(|server| server.auto_read(false).options(reader), |client| client.options(writer));
        let mut first = pair.here.send(vec![1; taken]);
        first.soon().unwrap();
        let mut second = pair.here.send(Bytes::from_static(b"x"));
        pair.settle();
        assert!(second.try_take().is_none(), "the pipe is full");
        pair.there.resume();
        second.soon().unwrap();
    }
}

#[test]
fn a_paused_channel_reads_one_message_for_each_request_and_loses_none() {
    let pair = Pair::with(|server| server.auto_read(false), |client| client);
    for message in [b"one", b"two"] {
        pair.here.write_and_flush(Bytes::from_static(message));
    }
    pair.settle();
    pair.theirs.nothing();
    for message in [b"one", b"two"] {
        pair.there.request();
        pair.theirs.read(message);
        pair.settle();
        pair.theirs.nothing();
    }
    pair.there.request();
    pair.here.write_and_flush(Bytes::from_static(b"three"));
    pair.theirs.read(b"three");
}

#[test]
fn a_large_transfer_in_both_directions_at_once_arrives_byte_for_byte() {
    let mut random = Random::new();
    for _ in 0..4 {
        let sizes = (1 + random.below(2000), 1 + random.below(200_000));
        let (server_script, theirs) = script();
        let pair = Pair::running(
            (
                server_script
                    .on_read(|cx, bytes| cx.write(bytes.freeze()))
                    .on_read_complete(|cx, ()| cx.flush()),
                theirs,
            ),
            script(),
            |server| server.options(StreamOptions::new().recv_buffer_size(sizes.0)),
            |client| client.options(StreamOptions::new().recv_buffer_size(sizes.1)),
        );
        let total = 2_000_000;
        let mut sent = 0;
        while sent < total {
            let longest = if random.below(4) == 0 { 300_000 } else { 3000 };
            let len = (1 + random.below(longest)).min(total - sent);
            let message: Vec<u8> = (sent..sent + len).map(pattern_at).collect();
            pair.here.write_and_flush(message);
            sent += len;
        }
        pair.ours.read(&pattern(total));
    }
}

/// Every hop could cut a message where its pipe happens to be full.
#[test]
fn bytes_that_go_round_for_long_are_not_cut_into_ever_smaller_pieces() {
    let (script, ours) = script();
    let rounds = Arc::new(AtomicUsize::new(0));
    let (count, pieces) = (rounds.clone(), Arc::new(AtomicUsize::new(0)));
    let seen = pieces.clone();
    let script = script.on_read(move |cx, bytes| {
        seen.fetch_add(1, Ordering::Relaxed);
        count.fetch_add(bytes.len(), Ordering::Relaxed);
        cx.write(bytes.freeze());
    });
    let script = script.on_read_complete(|cx, ()| cx.flush());
    let loops = group(2);
    let server = server_on(&loops).pipeline(|_| pipeline().app(Echo)).bind(name()).soon().unwrap();
    // Both answer everything: more than both marks goes round only if one of them reads on.
    let client = client_on(&loops, script, |client| client.hold_back(false));
    let here = client.connect(server.address()).soon().unwrap();
    ours.active();
    let len = 300_000;
    here.write_and_flush(vec![0; len]);
    wait_until(|| rounds.load(Ordering::Relaxed) >= 100 * len, || "100 rounds".to_owned());
    here.close().soon();
    let pieces = pieces.load(Ordering::Relaxed) * len / rounds.load(Ordering::Relaxed);
    assert!(pieces < 40, "{pieces} pieces in each round");
}

#[test]
fn what_was_written_before_a_close_is_read_before_the_end() {
    let pair = Pair::new();
    let holds: Vec<_> = pair.loops.iter().map(|event_loop| Hold::new(&event_loop)).collect();
    pair.here.write_and_flush(Bytes::from_static(b"last words"));
    drop(pair.here.close_when_flushed());
    drop(holds);
    pair.theirs.read(b"last words");
    assert!(matches!(pair.theirs.end(), CloseCause::PeerClosed));
    assert!(matches!(pair.ours.end(), CloseCause::Requested));
    wait_until(|| pair.server.figures().open == 0, || "no connection".to_owned());
}

#[test]
fn a_peer_that_closes_with_bytes_unread_resets_after_what_it_had_said() {
    let pair = Pair::with(|server| server, |client| client.auto_read(false));
    pair.there.write_and_flush(Bytes::from_static(b"never read"));
    pair.here.send(Bytes::from_static(b"said before")).soon().unwrap();
    pair.settle();
    pair.here.close().soon();
    pair.theirs.read(b"said before");
    let cause = pair.theirs.end();
    assert!(is_io(&cause, io::ErrorKind::ConnectionReset), "{cause}");
}

#[test]
fn a_linger_of_zero_resets_the_peer() {
    let pair =
        Pair::with(|server| server, |client| client.options(StreamOptions::new().linger(Duration::ZERO)));
    pair.here.close().soon();
    let cause = pair.theirs.end();
    assert!(is_io(&cause, io::ErrorKind::ConnectionReset), "{cause}");
}

#[test]
fn a_channel_that_is_paused_notices_that_its_peer_has_gone() {
    for linger in [None, Some(Duration::ZERO)] {
        let options = linger.map_or_else(StreamOptions::new, |time| StreamOptions::new().linger(time));
        let pair = Pair::with(|server| server.auto_read(false), |client| client.options(options));
        pair.here.close().soon();
        let cause = pair.theirs.end();
        match linger {
            None => assert!(matches!(cause, CloseCause::PeerClosed), "{cause}"),
            Some(_) => assert!(is_io(&cause, io::ErrorKind::ConnectionReset), "{cause}"),
        }
    }
}

#[test]
fn what_waits_unread_is_delivered_on_demand_although_the_peer_has_gone() {
    let pair = Pair::with(|server| server.auto_read(false), |client| client);
    pair.here.write_and_flush(Bytes::from_static(b"one"));
    pair.here.write_and_flush(Bytes::from_static(b"two"));
    drop(pair.here.close_when_flushed());
    pair.ours.end();
    pair.settle();
    pair.theirs.nothing();
    pair.there.request();
    pair.theirs.read(b"one");
    pair.there.request();
    pair.theirs.read(b"two");
    assert!(matches!(pair.theirs.end(), CloseCause::PeerClosed));
}

/// As on a socket: nobody reads up to the end, so the write is what finds it.
#[test]
fn a_paused_channel_that_writes_to_a_peer_that_has_gone_ends() {
    let pair = Pair::with(|server| server.auto_read(false), |client| client);
    pair.here.write_and_flush(Bytes::from_static(b"never asked for"));
    drop(pair.here.close_when_flushed());
    pair.ours.end();
    pair.settle();
    let mut answer = pair.there.send(Bytes::from_static(b"too late"));
    let cause = pair.theirs.end();
    assert!(is_io(&cause, io::ErrorKind::BrokenPipe), "{cause}");
    drop(answer.soon()); // taken before the peer went, or failed with the end
}

#[test]
fn a_blocked_writer_whose_peer_goes_fails_with_the_end_of_the_connection() {
    let pair = Pair::with(|server| server, |client| client.auto_read(false));
    let mut written = pair.there.send(vec![0; 1_000_000]);
    pair.settle();
    assert!(written.try_take().is_none());
    pair.here.close().soon();
    let cause = pair.theirs.skip_to_end();
    assert!(is_io(&cause, io::ErrorKind::ConnectionReset), "{cause}");
    assert!(matches!(written.soon(), Err(WriteError::Closed(CloseCause::Io(_)))));
}

#[test]
fn each_direction_ends_for_itself_if_half_closure_is_allowed() {
    let pair = Pair::with(|server| server.half_closure(true), |client| client.half_closure(true));
    pair.here.write_and_flush(Bytes::from_static(b"question"));
    pair.here.shut_down_output_tracked().soon().unwrap();
    pair.theirs.read(b"question");
    pair.theirs.input_closed();
    pair.there.write_and_flush(vec![7; 200_000]);
    pair.ours.read(&[7; 200_000]);
    assert!(pair.here.send(Bytes::from_static(b"more")).soon().is_err());
    pair.there.shut_down_output_tracked().soon().unwrap();
    pair.ours.input_closed();
    assert!(matches!(pair.ours.end(), CloseCause::PeerClosed | CloseCause::Requested));
    loop {
        match pair.theirs.next() {
            Seen::Writability(_) => {}
            Seen::Inactive(cause) => break assert!(matches!(cause, CloseCause::Requested), "{cause}"),
            other => panic!("expected inactive, got {other}"),
        }
    }
}

#[test]
fn a_half_closed_channel_hears_of_a_reset_and_fails_when_it_writes_to_nobody() {
    let both = |linger| {
        let pair = Pair::with(
            |server| server.half_closure(true),
            |client| match linger {
                None => client,
                Some(time) => client.options(StreamOptions::new().linger(time)),
            },
        );
        pair.here.shut_down_output_tracked().soon().unwrap();
        pair.theirs.input_closed();
        pair.here.close().soon();
        pair
    };
    let reset = both(Some(Duration::ZERO));
    let cause = reset.theirs.end();
    assert!(is_io(&cause, io::ErrorKind::ConnectionReset), "{cause}");

    let gone = both(None);
    gone.settle();
    gone.theirs.nothing();
    let mut cause = None;
    for _ in 0..3 {
        drop(gone.there.send(Bytes::from_static(b"anybody there?")).soon());
        cause = gone.there.close_cause();
    }
    assert!(is_io(&cause.unwrap(), io::ErrorKind::BrokenPipe));
}

// ---- files and envelopes ----

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

fn file_with(content: &[u8]) -> std::fs::File {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("netwright-local-{}-{number}", std::process::id()));
    let mut file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(content).unwrap();
    file
}

#[test]
fn a_file_arrives_between_other_messages_and_one_of_which_there_is_nothing_fails_alone() {
    let loops = group(2);
    let (script, events) = script();
    let server = serve(server_on(&loops), script);
    let channel = raw_client(&loops).connect(server.address()).soon().unwrap();
    events.active();
    let content = pattern(300_000);
    channel.write(Outgoing::from(b"before".as_slice()));
    channel.write(FileRegion::whole(file_with(&content)).unwrap());
    let mut short = channel.write_tracked(FileRegion::new(file_with(b"abc"), 3, 5));
    let mut after = channel.send(Outgoing::from(b"after".as_slice()));
    after.soon().unwrap();
    events.read(&[b"before", &content[..], b"after"].concat());
    assert!(matches!(short.soon(), Err(WriteError::File(_))));
}

#[test]
fn an_envelope_is_its_bytes_and_one_that_is_more_fails_alone() {
    let loops = group(2);
    let (script, events) = script();
    let server = serve(server_on(&loops), script);
    let channel = raw_client(&loops).connect(server.address()).soon().unwrap();
    events.active();
    let fault = |error| match error {
        Err(WriteError::Fault(fault)) => fault.downcast_ref::<EnvelopeError>().unwrap().clone(),
        other => panic!("expected a fault, got {other:?}"),
    };
    let mut addressed = channel.write_tracked(Envelope::to("1.2.3.4:5".parse::<Address>().unwrap(), "x"));
    channel.write(Envelope::new("plain "));
    let mut empty = channel.write_tracked(Envelope::new(""));
    channel.send(Envelope::new("bytes")).soon().unwrap();
    events.read(b"plain bytes");
    empty.soon().unwrap();
    assert!(matches!(fault(addressed.soon()), EnvelopeError::Target { .. }));
    #[cfg(unix)]
    {
        let envelope = Envelope::new("x").with_descriptor(file_with(b""));
        let error = fault(channel.send(envelope).soon());
        assert_eq!(
            error.to_string(),
            "the envelope has 1 descriptors, but a local channel cannot pass them: only Unix sockets can"
        );
    }
}

// ---- names ----

#[test]
fn a_name_that_nobody_listens_to_refuses() {
    let client = client_on(&group(1), script().0, |client| client);
    let error = client.connect("local:nobody").soon().unwrap_err();
    assert!(matches!(error, ConnectError::Refused(_)));
    assert_eq!(error.to_string(), "connection refused by local:nobody: nobody listens there");
}

#[test]
fn a_name_belongs_to_one_server_and_is_free_again_when_it_stops() {
    let loops = group(2);
    let name = name();
    let bind = || server_on(&loops).pipeline(|_| pipeline().app(Echo)).bind(&name).soon();
    let client = client_on(&loops, script().0, |client| client);
    let first = bind().unwrap();
    let error = bind().unwrap_err();
    assert!(matches!(error, BindError::InUse(_)));
    assert_eq!(error.to_string(), format!("cannot listen on {name}: the address is in use"));

    assert_eq!(first.drain(Duration::ZERO).soon().unwrap().cut, 0);
    assert!(matches!(client.connect(&name).soon(), Err(ConnectError::Refused(_))));
    let second = bind().unwrap();
    client.connect(&name).soon().unwrap();
    second.stop_listening();
    settle(loops.iter());
    let third = bind().unwrap();
    drop(third);
    settle(loops.iter());
    bind().unwrap();
}

#[test]
fn what_has_no_meaning_without_a_socket_is_refused_by_name() {
    let loops = group(1);
    let bind = |server: ServerBuilder, name: &str| {
        server.pipeline(|_| pipeline().app(Echo)).bind(name).soon().unwrap_err().to_string()
    };
    assert_eq!(
        bind(server_on(&loops).options(StreamOptions::new().nodelay(true)), "local:a"),
        "cannot listen on local:a: such a connection has no socket: of its options only recv_buffer_size, \
         send_buffer_size and a linger of zero can be set"
    );
    assert_eq!(
        bind(server_on(&loops).listener_options(ListenerOptions::new().reuse_port(true)), "local:b"),
        "cannot listen on local:b: such a listener has no socket: of its options only backlog can be set"
    );
    assert_eq!(
        bind(server_on(&loops), "local:c#1"),
        "cannot listen on local:c#1: a local name may not contain `#`, which marks the addresses of clients"
    );
    let client = client_on(&loops, script().0, |client| client.local_addr("127.0.0.1:1".parse().unwrap()));
    assert_eq!(
        client.connect("local:d").soon().unwrap_err().to_string(),
        "cannot connect to local:d: local_addr is 127.0.0.1:1, but such a connection has no host and port"
    );
}

#[test]
fn connections_wait_while_accepting_is_paused_and_too_many_are_refused() {
    let loops = group(2);
    let (script, events) = script();
    let server = serve(server_on(&loops).listener_options(ListenerOptions::new().backlog(2)), script);
    server.pause_accepting();
    let client = client_on(&loops, support::script().0, |client| client);
    let waiting: Vec<_> = (0..2).map(|_| client.connect(server.address()).soon().unwrap()).collect();
    let too_many = client.connect(server.address()).soon().unwrap_err().to_string();
    assert!(too_many.ends_with("2 connections wait there to be accepted, as many as may"), "{too_many}");
    waiting[0].write_and_flush(Bytes::from_static(b"patience"));
    settle(loops.iter());
    events.nothing();
    assert_quiet(loops.iter());
    server.resume_accepting();
    events.active();
    while let Seen::Active(_) | Seen::Read(_) = events.next() {
        if server.figures().accepted == 2 {
            break;
        }
    }
    client.connect(server.address()).soon().unwrap();
}

#[test]
fn connections_that_still_wait_when_the_server_stops_are_reset() {
    let loops = group(2);
    let server = serve(server_on(&loops), script().0);
    server.pause_accepting();
    let (script, events) = script();
    let client = client_on(&loops, script, |client| client);
    client.connect(server.address()).soon().unwrap();
    events.active();
    server.stop_listening();
    let cause = events.end();
    assert!(is_io(&cause, io::ErrorKind::ConnectionReset), "{cause}");
}

#[test]
fn a_graceful_shutdown_lets_connections_finish_and_cuts_the_rest() {
    let pair = Pair::new();
    let mut shutdown = pair.server.drain(PATIENCE);
    pair.settle();
    assert!(shutdown.try_take().is_none());
    pair.here.write_and_flush(Bytes::from_static(b"still here"));
    pair.theirs.read(b"still here");
    pair.here.close().soon();
    assert_eq!(shutdown.soon().unwrap().cut, 0);

    let pair = Pair::new();
    assert_eq!(pair.server.drain(Duration::ZERO).soon().unwrap().cut, 1);
    assert!(matches!(pair.theirs.end(), CloseCause::ShutDown));
    assert!(matches!(pair.ours.end(), CloseCause::PeerClosed));
}

#[test]
fn a_loop_that_ends_closes_its_ends() {
    let (here, there) = (group(1), group(1));
    let (server_script, theirs) = script();
    let server = serve(server_on(&there), server_script);
    let (script, ours) = script();
    let client = client_on(&here, script, |client| client);
    client.connect(server.address()).soon().unwrap();
    ours.active();
    theirs.active();
    here.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().soon().unwrap();
    assert!(matches!(ours.end(), CloseCause::ShutDown));
    assert!(matches!(theirs.end(), CloseCause::PeerClosed));
}

#[test]
fn a_flood_does_not_keep_neighbours_from_being_read() {
    let (loops, others) = (group(1), group(1));
    let (script, events) = script();
    let server = serve(server_on(&loops), script);
    let client = client_on(&others, support::script().0, |client| client);
    let flood = client.connect(server.address()).soon().unwrap();
    let neighbour = client.connect(server.address()).soon().unwrap();
    events.active();
    events.active();
    let hold = Hold::new(&loops.iter().next().unwrap());
    for _ in 0..200 {
        flood.write(Bytes::from_static(b"f"));
    }
    flood.send(Bytes::from_static(b"f")).soon().unwrap();
    neighbour.send(Bytes::from_static(b"n")).soon().unwrap();
    drop(hold);
    let (mut before, mut after, mut seen) = (0, 0, false);
    while before + after < 201 || !seen {
        match events.next() {
            Seen::Read(bytes) if bytes == b"n" => seen = true,
            Seen::Read(_) if seen => after += 1,
            Seen::Read(_) => before += 1,
            other => panic!("expected bytes, got {other}"),
        }
    }
    assert!(before <= 16, "{before} reads came before the neighbour's");
}

#[test]
fn clients_that_go_in_the_middle_of_a_transfer_leave_nothing_behind() {
    let loops = group(2);
    let server = server_on(&loops).pipeline(|_| pipeline().app(Echo)).bind(name()).soon().unwrap();
    let client = client_on(&loops, script().0, |client| client);
    let held = Bytes::from(vec![0; 10_000]);
    for round in 0..2000 {
        let channel = client.connect(server.address()).soon().unwrap();
        for _ in 0..round % 12 {
            channel.write_and_flush(held.clone());
        }
        channel.close().soon();
    }
    wait_until(|| server.figures().open == 0, || format!("{:?}", server.figures()));
    assert_eq!(server.figures().accepted, 2000);
    wait_until(|| held.is_unique(), || "all copies of the message to be dropped".to_owned());
    wait_until(
        || loops.iter().map(|event_loop| event_loop.figures().sources).sum::<u64>() == 1,
        || "only the listener to be left".to_owned(),
    );
}

#[test]
fn a_connect_that_is_cancelled_leaves_no_connection() {
    let loops = group(1);
    let server = server_on(&loops).pipeline(|_| pipeline().app(Echo)).bind(name()).soon().unwrap();
    let client = client_on(&loops, script().0, |client| client);
    let hold = Hold::new(&loops.iter().next().unwrap());
    let mut connecting = client.connect(server.address());
    assert!(connecting.cancel());
    drop(hold);
    assert!(matches!(connecting.soon(), Err(ConnectError::Cancelled)));
    settle(loops.iter());
    assert_eq!(server.figures().accepted, 0);
}

/// Random writes, pauses and ends at both sides: everything that was taken before an orderly end arrives, in order.
#[test]
fn random_traffic_arrives_in_order() {
    let mut random = Random::new();
    for _ in 0..20 {
        let loops = group(1 + random.below(2));
        let got = Arc::new(AtomicUsize::new(0));
        let (server_script, theirs) = script();
        let count = got.clone();
        let server_script = server_script.on_read(move |_, bytes| {
            let from = count.fetch_add(bytes.len(), Ordering::Relaxed);
            let fits = bytes.iter().enumerate().all(|(at, byte)| *byte == pattern_at(from + at));
            assert!(fits, "bytes {from} to {} are others", from + bytes.len());
        });
        let options = StreamOptions::new().recv_buffer_size(1 + random.below(5000));
        let server = serve(server_on(&loops).options(options), server_script);
        let (script, ours) = script();
        let client = client_on(&loops, script, |client| client);
        let here = client.connect(server.address()).soon().unwrap();
        ours.active();
        let there = theirs.active();
        let mut sent = 0;
        for _ in 0..100 {
            match random.below(6) {
                0 => there.pause(),
                1 => there.resume(),
                2 => there.request(),
                3 => here.flush(),
                _ => {
                    let len = 1 + random.below(3000);
                    here.write((sent..sent + len).map(pattern_at).collect::<Vec<_>>());
                    sent += len;
                }
            }
        }
        here.flush();
        there.resume();
        here.close_when_flushed().soon();
        assert!(matches!(theirs.skip_to_end(), CloseCause::PeerClosed));
        assert_eq!(got.load(Ordering::Relaxed), sent);
    }
}
