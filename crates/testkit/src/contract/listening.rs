//! The listening side of a server: who looks on, what ends it, and what becomes of it when its loops die.

use super::{
    Behaviour, Need, ON_PURPOSE, Setup, Variation, behaviour,
    support::{
        Echo, Guestbook, Hold, Loops, Mortals, PATIENCE, Peer, Running, Seen, Soon, Told,
        assert_nobody_listens, guestbook, round_trip, script, settle, wait_until,
    },
};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    Address, CloseCause, Context, EventLoop, Handler, LoopError, Outgoing, RefusedWhy, WritePromise, pipeline,
};
use netwright_transport::{
    BindError, Client, ConnectError, ListenEnd, Refusal, Server, ServerObserver, ThreadPerChannel,
};
use std::{
    io::Read,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Channels play no part.
const VARIED: &[Variation] = &[Variation::Asking, Variation::OnWorkers, Variation::OurPeers];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_server_that_is_asked_to_stop_says_so_when_nobody_can_connect_any_more).not(VARIED),
    behaviour!(a_server_that_nobody_holds_any_more_says_that_it_listens_no_more).not(VARIED),
    behaviour!(a_server_whose_accepting_loops_are_shut_down_says_so).not(VARIED),
    behaviour!(a_listener_whose_loop_dies_is_opened_again_at_the_same_address_on_its_successor).not(VARIED),
    behaviour!(listeners_whose_loops_die_together_are_all_opened_again).not(VARIED),
    behaviour!(a_listener_whose_loop_has_no_successor_moves_to_another_loop_of_the_group).in_one_model(),
    behaviour!(a_server_whose_accepting_loops_died_without_successors_says_so_and_nobody_listens).not(VARIED),
    behaviour!(a_server_whose_loops_die_again_and_again_gives_up_and_says_so).not(VARIED),
    behaviour!(a_server_that_was_stopped_is_not_opened_again_when_its_loop_dies).not(VARIED),
    behaviour!(a_socket_that_somebody_shuts_down_is_closed_and_told_as_failed)
        .needs(&[Need::Network]) // whoever waits for a Unix socket hears nothing of it
        .in_one_model(),
    behaviour!(shut_down_now_closes_every_connection_with_its_cause_and_waits_for_the_last).not(VARIED),
    behaviour!(shut_down_now_asks_no_stage).not(VARIED),
    behaviour!(shut_down_now_closes_connections_that_are_on_their_way_to_their_loops).not(VARIED),
    behaviour!(shut_down_now_of_an_idle_or_a_stopped_server_is_over_at_once).not(VARIED),
    behaviour!(a_server_whose_loop_has_a_full_queue_stops_pauses_and_ends_all_the_same).in_one_model(),
    behaviour!(a_loop_with_a_full_queue_says_so_to_who_wants_to_listen_or_connect).in_one_model(),
    behaviour!(an_observer_hears_what_is_bound_who_is_accepted_and_what_is_closed_on_the_loop_that_accepts)
        .not(VARIED),
    behaviour!(an_observer_hears_who_is_refused_and_why_on_the_loop_that_accepts).in_one_model(),
    behaviour!(an_observer_hears_for_whom_there_was_no_thread).needs(&[Need::Threads]).in_one_model(),
    behaviour!(an_observer_that_panics_costs_nobody_anything).not(VARIED),
];

/// A server whose accepting loops can be killed, and that has an observer.
struct Doomed {
    running: Running,
    mortals: Mortals,
    book: Guestbook,
}

fn doomed(setup: Setup, replaced: bool) -> Doomed {
    let mortals = Mortals::new();
    let (builder, loops) = setup.server_accepting_on(|loops| mortals.group(setup, loops, replaced));
    let (observer, book) = guestbook();
    let bound = builder.observer(observer).pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon();
    let doomed = Doomed { running: Running { setup, server: bound.unwrap(), loops }, mortals, book };
    for _ in 0..setup.model.listeners() {
        doomed.next_bound();
    }
    doomed
}

impl Doomed {
    /// The loop on which the next listener is opened.
    #[track_caller]
    fn next_bound(&self) -> Option<EventLoop> {
        loop {
            let (told, on) = self.book.next();
            match told {
                Told::Bound(at) => {
                    assert_eq!(&at, self.running.address());
                    return on;
                }
                Told::Accepted(..) => {}
                other => panic!("{other:?} instead of a listener"),
            }
        }
    }

    #[track_caller]
    fn next_death(&self) {
        loop {
            match self.book.next().0 {
                Told::Closed(at, ListenEnd::LoopDied(LoopError::Panicked(why))) => {
                    assert_eq!(&at, self.running.address());
                    return assert!(why.contains(ON_PURPOSE), "{why}");
                }
                Told::Accepted(..) => {}
                other => panic!("{other:?} instead of a death"),
            }
        }
    }

    fn serves(&self) {
        for _ in 0..8 {
            round_trip(&mut self.running.dial(), b"anybody there?");
        }
    }
}

fn a_server_that_is_asked_to_stop_says_so_when_nobody_can_connect_any_more(setup: Setup) {
    let running = setup.echo();
    let mut stream = running.dial();
    round_trip(&mut stream, b"hello");
    let mut closed = running.server.closed();
    assert!(!closed.is_done());
    running.server.stop_listening();
    assert!(matches!(closed.soon(), Ok(ListenEnd::Asked)));
    assert_nobody_listens(setup, running.address());
    round_trip(&mut stream, b"connections go on");
    assert!(matches!(running.server.closed().wait(), Ok(ListenEnd::Asked)), "also for who asks later");
    let mut ended = setup.echo().server;
    for shut_down in [Server::shutdown_now, |server: &Server| server.drain(PATIENCE)] {
        let mut closed = ended.closed();
        shut_down(&ended).soon().unwrap();
        assert!(matches!(closed.soon(), Ok(ListenEnd::Asked)));
        ended = setup.echo().server;
    }
}

fn a_server_that_nobody_holds_any_more_says_that_it_listens_no_more(setup: Setup) {
    let Running { server, loops, .. } = setup.echo();
    let (mut closed, address) = (server.closed(), server.address().clone());
    drop(server);
    assert!(matches!(closed.soon(), Ok(ListenEnd::Asked)));
    assert_nobody_listens(setup, &address);
    drop(loops);
}

fn a_server_whose_accepting_loops_are_shut_down_says_so(setup: Setup) {
    let running = setup.echo();
    let mut closed = running.server.closed();
    // However long they take to end.
    let quiet = PATIENCE;
    let end = running.loops.acceptors.shutdown_gracefully(quiet, 2 * quiet).unwrap();
    assert!(matches!(closed.soon(), Ok(ListenEnd::LoopsEnded)));
    assert_nobody_listens(setup, running.address());
    assert!(!end.is_done());
}

fn a_listener_whose_loop_dies_is_opened_again_at_the_same_address_on_its_successor(setup: Setup) {
    let doomed = doomed(setup, true);
    let acceptors = &doomed.running.loops.acceptors;
    doomed.serves();
    for round in 0..2 {
        for place in 0..setup.model.listeners() {
            doomed.mortals.kill(acceptors, place);
            doomed.next_death();
            let on = doomed.next_bound();
            assert_eq!(on, acceptors.iter().nth(place), "round {round}");
            doomed.serves();
        }
    }
    let mut closed = doomed.running.server.closed();
    assert!(!closed.is_done());
    doomed.running.server.stop_listening();
    assert!(matches!(closed.soon(), Ok(ListenEnd::Asked)));
    assert_nobody_listens(setup, doomed.running.address());
}

fn listeners_whose_loops_die_together_are_all_opened_again(setup: Setup) {
    let doomed = doomed(setup, true);
    let (acceptors, places) = (&doomed.running.loops.acceptors, setup.model.listeners());
    let holds: Vec<_> = acceptors.iter().map(|acceptor| Hold::new(&acceptor)).collect();
    let victims: Vec<_> = (0..places).map(|place| doomed.mortals.condemn(acceptors, place)).collect();
    drop(holds);
    for victim in victims {
        assert!(victim.termination().wait_timeout(PATIENCE).expect("it dies").is_err());
    }
    let (mut deaths, mut bound) = (0, Vec::new());
    while bound.len() < places {
        match doomed.book.next() {
            (Told::Closed(_, ListenEnd::LoopDied(_)), _) => deaths += 1,
            (Told::Bound(_), on) => bound.extend(on),
            (other, _) => panic!("{other:?}"),
        }
    }
    assert_eq!(deaths, places);
    assert!(acceptors.iter().take(places).all(|acceptor| bound.contains(&acceptor)));
    doomed.serves();
    assert!(!doomed.running.server.closed().is_done());
}

fn a_listener_whose_loop_has_no_successor_moves_to_another_loop_of_the_group(setup: Setup) {
    let (mortals, (observer, book)) = (Mortals::new(), guestbook());
    let group = mortals.group(setup, 2, false);
    let server = setup
        .bare_server()
        .group(group.clone())
        .observer(observer)
        .pipeline(|_| pipeline().app(Echo))
        .bind(setup.listen_at())
        .soon()
        .unwrap();
    assert_eq!(book.next().1, group.iter().next());
    mortals.kill(&group, 0);
    assert!(matches!(book.next(), (Told::Closed(..), _)));
    let (told, on) = book.next();
    assert!(matches!(told, Told::Bound(at) if at == *server.address()));
    assert_eq!(on, group.iter().nth(1));
    round_trip(&mut setup.dial(server.address()), b"moved");
    mortals.kill(&group, 1);
    let end = server.closed().soon();
    assert!(matches!(end, Ok(ListenEnd::LoopDied(LoopError::Panicked(_)))), "{end:?}");
}

fn a_server_whose_accepting_loops_died_without_successors_says_so_and_nobody_listens(setup: Setup) {
    let doomed = doomed(setup, false);
    let mut closed = doomed.running.server.closed();
    for place in 0..setup.model.listeners() {
        assert!(!closed.is_done(), "there is another one");
        doomed.serves();
        doomed.mortals.kill(&doomed.running.loops.acceptors, place);
        doomed.next_death();
    }
    let end = closed.soon().unwrap();
    assert!(matches!(&end, ListenEnd::LoopDied(LoopError::Panicked(_))), "{end}");
    assert!(end.to_string().contains(ON_PURPOSE), "{end}");
    assert_nobody_listens(setup, doomed.running.address());
}

fn a_server_whose_loops_die_again_and_again_gives_up_and_says_so(setup: Setup) {
    let doomed = doomed(setup, true);
    doomed.mortals.condemn_all();
    for acceptor in &doomed.running.loops.acceptors {
        let _ = acceptor.execute(|| ());
    }
    let end = doomed.running.server.closed().soon().unwrap();
    assert!(matches!(&end, ListenEnd::LoopDied(LoopError::Panicked(_))), "{end}");
    let deaths = doomed.mortals.deaths();
    assert!(deaths > setup.model.listeners(), "it was tried");
    assert!(deaths <= 20, "and not for ever: {deaths} deaths");
}

fn a_server_that_was_stopped_is_not_opened_again_when_its_loop_dies(setup: Setup) {
    let doomed = doomed(setup, true);
    let (server, acceptors) = (&doomed.running.server, &doomed.running.loops.acceptors);
    let holds: Vec<_> = acceptors.iter().map(|acceptor| Hold::new(&acceptor)).collect();
    for place in 0..setup.model.listeners() {
        doomed.mortals.condemn(acceptors, place);
    }
    server.stop_listening();
    drop(holds);
    assert!(matches!(server.closed().soon(), Ok(ListenEnd::Asked)));
    assert_nobody_listens(setup, server.address());
    let opened = |told: &Told| matches!(told, Told::Bound(_));
    assert!(!doomed.book.rest().iter().any(opened));
}

fn a_socket_that_somebody_shuts_down_is_closed_and_told_as_failed(setup: Setup) {
    let (observer, book) = guestbook();
    let (builder, _loops) = setup.server();
    let server =
        builder.observer(observer).pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon().unwrap();
    let mut stream = setup.dial(server.address());
    round_trip(&mut stream, b"hello");
    if let Err(why) = shut_down_from_behind(server.address()) {
        return println!("skipped: no duplicate of a descriptor can be had here: {why}");
    }
    let end = server.closed().soon().unwrap();
    assert!(matches!(&end, ListenEnd::Failed { address, .. } if address == server.address()), "{end}");
    assert!(end.to_string().contains(&server.address().to_string()), "{end}");
    round_trip(&mut stream, b"connections go on");
    let told = book.rest();
    assert!(matches!(told.last(), Some(Told::Closed(_, ListenEnd::Failed { .. }))), "{told:?}");
    assert!(told.iter().any(|told| matches!(told, Told::AcceptFailed(None))), "{told:?}");
    assert_eq!(server.figures().accept_failures, 1);
}

/// Shuts down the socket that listens on this address, by a duplicate of its descriptor.
#[cfg(target_os = "linux")]
fn shut_down_from_behind(address: &Address) -> std::io::Result<()> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_string_lossy().parse();
        let Ok(descriptor) = number.map(|number| pidfd_getfd(&own, number, PidfdGetfdFlags::empty())) else {
            continue;
        };
        let socket = match descriptor {
            Ok(descriptor) => socket2::Socket::from(descriptor),
            Err(rustix::io::Errno::BADF) => continue, // closed meanwhile
            Err(error) => return Err(error.into()),
        };
        let listens = rustix::net::sockopt::socket_acceptconn(&socket).unwrap_or(false);
        let is_it = socket.local_addr().ok().and_then(|bound| bound.as_socket()) == address.ip();
        if listens && is_it {
            return socket.shutdown(std::net::Shutdown::Both);
        }
    }
    panic!("nobody listens on {address}");
}

#[cfg(not(target_os = "linux"))]
fn shut_down_from_behind(_: &Address) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

fn shut_down_now_closes_every_connection_with_its_cause_and_waits_for_the_last(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.half_closure(true).least_rate(None));
    // One that idles, one that does not read what waits for it, one that is not read.
    let peers: [Peer; 3] = [running.dial(), running.dial_narrow(), running.dial()];
    let channels: Vec<_> = (0..3).map(|_| events.active()).collect();
    for channel in &channels[1..] {
        channel.pause();
        for _ in 0..2048 {
            channel.write_and_flush(Bytes::from_static(&[7; 8000]));
        }
    }
    running.settle();
    let end = running.server.shutdown_now().soon().unwrap();
    assert_eq!(end.cut, 3);
    assert_eq!(running.server.figures().open, 0);
    for channel in &channels {
        let cause = channel.close_cause();
        assert!(matches!(cause, Some(CloseCause::ShutDown)), "{cause:?}");
    }
    let mut ends = 0;
    while ends < 3 {
        ends += usize::from(matches!(events.next_of_all(), Seen::Removed));
    }
    assert_nobody_listens(setup, running.address());
    assert_eq!(running.server.shutdown_now().soon().unwrap().cut, 3, "once more changes nothing");
    drop(peers);
}

/// Never lets a channel close.
struct Clings;

impl Handler for Clings {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
    fn close(&mut self, _: &mut Context<'_, Self>, _: CloseCause, _: WritePromise) {}
}

fn shut_down_now_asks_no_stage(setup: Setup) {
    let (builder, _loops) = setup.server();
    let server =
        builder.pipeline(|_| pipeline().add(Clings).app(Echo)).bind(setup.listen_at()).soon().unwrap();
    let mut peers = [setup.dial(server.address()), setup.dial(server.address())];
    peers.iter_mut().for_each(|peer| round_trip(peer, b"hello"));
    // A graceful shutdown asks the stages when its time is over, and says how many were left. That one still clings.
    assert_eq!(server.drain(Duration::ZERO).soon().unwrap().cut, 2);
    assert_eq!(server.figures().open, 2);
    assert_eq!(server.shutdown_now().soon().unwrap().cut, 2);
    assert_eq!(server.figures().open, 0);
}

fn shut_down_now_closes_connections_that_are_on_their_way_to_their_loops(setup: Setup) {
    let running = setup.echo();
    let holds = running.hold();
    let mut peers: Vec<_> = (0..4).map(|_| running.dial()).collect();
    let mut end = running.server.shutdown_now();
    assert!(end.wait_timeout(Duration::from_millis(20)).is_none(), "nobody knows yet who is on the way");
    drop(holds);
    end.soon().unwrap();
    assert_eq!(running.server.figures().open, 0);
    for peer in &mut peers {
        assert!(!matches!(peer.read(&mut [0; 1]), Ok(1..)), "it was served");
    }
}

fn shut_down_now_of_an_idle_or_a_stopped_server_is_over_at_once(setup: Setup) {
    let running = setup.echo();
    running.server.stop_listening();
    for _ in 0..2 {
        assert_eq!(running.server.shutdown_now().soon().unwrap().cut, 0);
    }
    let running = setup.echo();
    running.loops.hosts.shut_down().soon().unwrap();
    running.loops.acceptors.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().soon().unwrap();
    assert_eq!(running.server.shutdown_now().soon().unwrap().cut, 0);
}

fn an_observer_hears_what_is_bound_who_is_accepted_and_what_is_closed_on_the_loop_that_accepts(setup: Setup) {
    let (builder, loops) = setup.server();
    let (observer, book) = guestbook();
    let server =
        builder.observer(observer).pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon().unwrap();
    let next = || {
        let (told, on) = book.next();
        assert!(loops.acceptors.iter().any(|acceptor| Some(&acceptor) == on.as_ref()), "{told:?} on {on:?}");
        told
    };
    let listeners = setup.model.listeners();
    for _ in 0..listeners {
        assert!(matches!(next(), Told::Bound(at) if at == *server.address()));
    }
    for _ in 0..5 {
        let mut stream = setup.dial(server.address());
        let told = next();
        assert!(
            matches!(&told, Told::Accepted(at, peer) if at == server.address() && *peer == stream.own_address()),
            "{told:?}"
        );
        round_trip(&mut stream, b"hello");
    }
    server.stop_listening();
    for _ in 0..listeners {
        assert!(matches!(next(), Told::Closed(at, ListenEnd::Asked) if at == *server.address()));
    }
    server.closed().soon().unwrap();
    assert!(book.rest().is_empty());
}

fn an_observer_hears_who_is_refused_and_why_on_the_loop_that_accepts(setup: Setup) {
    let (acceptor, workers) = (setup.event_loops(1), setup.event_loops(2));
    let ((observer, book), broken) = (guestbook(), std::sync::Arc::new(AtomicBool::new(false)));
    let breaks = broken.clone();
    let factory = move |_: &netwright_transport::Accepted| {
        assert!(!breaks.load(Ordering::Relaxed), "no pipeline {ON_PURPOSE}");
        pipeline().app(Echo)
    };
    let builder = setup.bare_server().acceptors(acceptor.clone()).group(workers.clone()).waiting_max(1);
    let server = builder.observer(observer).pipeline(factory).bind(setup.listen_at()).soon().unwrap();
    let accepts = acceptor.iter().next();
    let next = || {
        let (told, on) = book.next();
        assert_eq!(on, accepts, "{told:?}");
        told
    };
    assert!(matches!(next(), Told::Bound(_)));
    let dial = || {
        let stream = setup.dial(server.address());
        assert!(matches!(next(), Told::Accepted(..)));
        stream
    };
    let refused = || match next() {
        Told::Refused(at, peer, why) => {
            assert_eq!(at, *server.address());
            (peer, why)
        }
        other => panic!("{other:?}"),
    };

    broken.store(true, Ordering::Relaxed);
    let stream = dial();
    let (peer, why) = refused();
    assert_eq!(peer, stream.own_address());
    assert!(matches!(&why, Refusal::Panicked(panic) if panic.contains(ON_PURPOSE)), "{why}");
    broken.store(false, Ordering::Relaxed);

    let mut holds: Vec<_> = workers.iter().map(|worker| Hold::new(&worker)).collect();
    let waiting = [dial(), dial()];
    let stream = setup.dial(server.address());
    assert!(matches!(next(), Told::Accepted(..)));
    let (peer, why) = refused();
    assert_eq!(peer, stream.own_address());
    assert!(matches!(why, Refusal::Stalled { waiting_max: 1 }), "{why}");

    // Those who wait for loops that end are lost there, and told of here.
    let ends: Vec<_> =
        workers.iter().map(|worker| worker.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap()).collect();
    holds.clear();
    ends.into_iter().for_each(|mut end| end.soon().unwrap());
    let mut lost = [refused(), refused()];
    lost.sort_by_key(|(peer, _)| peer.to_string());
    let mut waited = waiting.map(|stream| stream.own_address().to_string());
    waited.sort();
    for ((peer, why), waited) in lost.iter().zip(&waited) {
        assert_eq!(peer.to_string(), *waited);
        assert!(matches!(why, Refusal::LoopsEnded), "{why}");
    }
    let _stream = dial();
    assert!(matches!(refused().1, Refusal::LoopsEnded), "there is no loop left");
    settle(&acceptor);
    assert!(book.rest().is_empty());
    let figures = server.figures();
    assert_eq!((figures.refused, figures.refused_ended, figures.refused_stalled), (0, 3, 1));
}

fn an_observer_hears_for_whom_there_was_no_thread(setup: Setup) {
    let (observer, book) = guestbook();
    let server = setup
        .bare_server()
        .thread_per_channel(ThreadPerChannel::builder().limit(1).build().unwrap())
        .observer(observer)
        .pipeline(|_| pipeline().app(Echo))
        .bind(setup.listen_at())
        .soon()
        .unwrap();
    let mut first = setup.dial(server.address());
    round_trip(&mut first, b"hello");
    let _second = setup.dial(server.address());
    let why = loop {
        if let (Told::Refused(_, _, why), _) = book.next() {
            break why;
        }
    };
    assert!(matches!(why, Refusal::NoThread(_)) && why.to_string().contains("the limit is 1"), "{why}");
    assert_eq!(server.figures().refused, 1);
}

fn an_observer_that_panics_costs_nobody_anything(setup: Setup) {
    struct Broken;
    impl ServerObserver for Broken {
        fn bound(&self, _: &Address) {
            panic!("bound {ON_PURPOSE}");
        }
        fn accepted(&self, _: &Address, _: &Address) {
            panic!("accepted {ON_PURPOSE}");
        }
        fn closed(&self, _: &Address, _: &ListenEnd) {
            panic!("closed {ON_PURPOSE}");
        }
    }
    let (builder, loops): (_, Loops) = setup.server();
    let server =
        builder.observer(Broken).pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon().unwrap();
    for _ in 0..3 {
        round_trip(&mut setup.dial(server.address()), b"hello");
    }
    wait_until(|| server.figures().open == 0, || "connections to end".to_owned());
    server.stop_listening();
    assert!(matches!(server.closed().soon(), Ok(ListenEnd::Asked)));
    for event_loop in loops.all() {
        assert!(!event_loop.is_terminated());
    }
}

/// How many tasks may wait for the loop of [`narrow`].
const NARROW: usize = 4;

/// A server whose only loop takes few tasks.
fn narrow(setup: Setup) -> (Server, EventLoop) {
    let group = setup.transport.backend().group().loops(1).max_pending_tasks(NARROW).build().unwrap();
    let event_loop = group.next();
    let builder = setup.bare_server().group(group);
    let server = builder.pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon().unwrap();
    (server, event_loop)
}

/// Holds a loop, with as many tasks behind it as it takes.
fn fill(event_loop: &EventLoop) -> Hold {
    let hold = Hold::new(event_loop);
    while event_loop.execute(|| ()).is_ok() {}
    hold
}

fn a_server_whose_loop_has_a_full_queue_stops_pauses_and_ends_all_the_same(setup: Setup) {
    type Act = fn(Server) -> Option<Server>;
    let acts: [Act; 4] = [
        |server| {
            server.stop_listening();
            Some(server)
        },
        |server| {
            drop(server);
            None
        },
        |server| {
            drop(server.shutdown_now());
            Some(server)
        },
        |server| {
            drop(server.drain(PATIENCE));
            Some(server)
        },
    ];
    for act in acts {
        let (server, event_loop) = narrow(setup);
        let (address, closed) = (server.address().clone(), server.closed());
        let hold = fill(&event_loop);
        let server = act(server);
        drop(hold);
        let end = closed.wait_timeout(PATIENCE).expect("it is told");
        assert!(matches!(end, Ok(ListenEnd::Asked)), "{end:?}");
        assert_nobody_listens(setup, &address);
        drop(server);
    }
    // A connection has its time, however much there was to do when it was told.
    let (server, event_loop) = narrow(setup);
    let mut stream = setup.dial(server.address());
    round_trip(&mut stream, b"before");
    let hold = fill(&event_loop);
    let mut ending = server.drain(PATIENCE);
    drop(hold);
    server.closed().wait_timeout(PATIENCE).expect("it is told").unwrap();
    round_trip(&mut stream, b"after");
    drop(stream);
    assert_eq!(ending.soon().unwrap().cut, 0);
    // Who was kept waiting is let in.
    let (server, event_loop) = narrow(setup);
    server.pause_accepting();
    settle([&event_loop]);
    let hold = fill(&event_loop);
    server.resume_accepting();
    drop(hold);
    round_trip(&mut setup.dial(server.address()), b"let in");
}

fn a_loop_with_a_full_queue_says_so_to_who_wants_to_listen_or_connect(setup: Setup) {
    let (server, event_loop) = narrow(setup);
    let group = server.group().clone();
    let another = setup.bare_server().group(group.clone()).pipeline(|_| pipeline().app(Echo));
    let client = Client::builder().group(group).pipeline(|| pipeline().app(Echo)).unwrap();
    let hold = fill(&event_loop);
    let full = RefusedWhy::Full { limit: NARROW };
    let error = another.bind(setup.listen_at()).soon().map(drop).unwrap_err();
    assert!(matches!(&error, BindError::NotTaken(why) if *why == full), "{error}");
    let error = client.connect(server.address()).soon().map(drop).unwrap_err();
    assert!(matches!(&error, ConnectError::NotTaken(why) if *why == full), "{error}");
    drop(hold);
}
