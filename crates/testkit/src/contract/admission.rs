//! Who may come in: refused before a loop hears of them, told why, and others served meanwhile.

use super::{
    Behaviour, Need, Setup, Variation, behaviour,
    support::{
        Echo, PATIENCE, Peer, Running, Soon, Told, expect, expect_end, guestbook, in_own_process, round_trip,
        set_descriptor_limit, wait_until,
    },
};
use netwright_core::{PromiseError, pipeline, promise};
use netwright_transport::{
    AcceptRate, AccessDenied, Admission, Incoming, Refusal, ServerBuilder, ServerFigures, Verdict,
};
use std::{
    io::{Read, Write},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Nothing of it happens in a channel.
const VARIED: &[Variation] = &[Variation::Asking, Variation::OnWorkers];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(who_is_judged_out_is_counted_and_told_of_and_no_pipeline_is_made).not(VARIED),
    behaviour!(an_address_has_so_many_connections_and_room_again_when_one_ends)
        .needs(&[Need::Network])
        .not(VARIED),
    behaviour!(a_network_that_is_denied_while_the_server_runs_is_refused_from_then_on)
        .needs(&[Need::Network])
        .not(VARIED),
    behaviour!(who_comes_too_fast_is_refused_until_the_rate_is_another).not(VARIED),
    behaviour!(with_a_pace_connections_wait_and_are_served_when_they_may).not(VARIED),
    behaviour!(the_last_descriptors_are_left_to_the_rest_of_the_process)
        .needs(&[Need::Descriptors])
        .in_one_model()
        .not(VARIED),
    behaviour!(a_refusal_in_words_reaches_a_peer_that_has_sent_something_and_ends_in_order).not(VARIED),
    behaviour!(a_peer_that_never_leaves_has_a_second_to_read_why_it_was_refused).in_one_model().not(VARIED),
    behaviour!(a_connection_that_waits_for_a_decision_is_handed_over_when_it_is_admitted).not(VARIED),
    behaviour!(nobody_waits_for_a_decision_past_the_deadline_or_behind_a_panic).not(VARIED),
    behaviour!(as_many_wait_for_a_decision_as_may_and_a_server_that_stops_listening_refuses_them).not(VARIED),
];

fn echo(setup: Setup, set_up: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Running {
    let (builder, loops) = setup.server();
    let bound = set_up(builder).pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon();
    Running { setup, server: bound.unwrap(), loops }
}

impl Running {
    fn served(&self) -> Peer {
        let mut peer = self.dial();
        round_trip(&mut peer, b"hello");
        peer
    }

    /// Connects, and is not served. Whoever connects by a channel may hear of it before it is connected.
    #[track_caller]
    fn refused(&self, count: impl Fn(&ServerFigures) -> u64, expected: u64) {
        let read = self.setup.try_dial(self.address()).and_then(|mut peer| peer.read(&mut [0; 1]));
        assert!(!matches!(read, Ok(1..)), "it was served");
        wait_until(|| count(&self.server.figures()) == expected, || format!("{:?}", self.server.figures()));
    }
}

fn who_is_judged_out_is_counted_and_told_of_and_no_pipeline_is_made(setup: Setup) {
    let (observer, book) = guestbook();
    let (came, made) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let judge = move |incoming: &Incoming| {
        assert_eq!(incoming.at.ip().is_some(), incoming.peer.ip().is_some());
        match came.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => Verdict::Admit,
            1 => Verdict::refuse("every second one"),
            _ => panic!("on purpose"),
        }
    };
    let (builder, _loops) = setup.server();
    let makes = made.clone();
    let server = builder
        .observer(observer)
        .admission(Admission::new().judge(judge))
        .pipeline(move |_| {
            makes.fetch_add(1, Ordering::Relaxed);
            pipeline().app(Echo)
        })
        .bind(setup.listen_at())
        .soon()
        .unwrap();
    let running = Running { setup, server, loops: _loops };
    for round in 1..=2 {
        drop(running.served());
        running.refused(|figures| figures.refused_judged, 2 * round - 1);
        running.refused(|figures| figures.refused_judged, 2 * round);
    }
    running.wait_for_open(0);
    assert_eq!((made.load(Ordering::Relaxed), running.server.figures().accepted), (2, 6));
    let mut reasons = Vec::new();
    while reasons.len() < 4 {
        if let (Told::Refused(_, _, why), _) = book.next() {
            reasons.push(why.to_string());
        }
    }
    let count = |text: &str| reasons.iter().filter(|reason| reason.contains(text)).count();
    assert_eq!((count("every second one"), count("on purpose")), (2, 2), "{reasons:?}");
}

fn an_address_has_so_many_connections_and_room_again_when_one_ends(setup: Setup) {
    let running = echo(setup, |builder| builder.admission(Admission::new().per_address(2)));
    let mut peers = vec![running.served(), running.served()];
    running.refused(|figures| figures.refused_per_address, 1);
    peers.iter_mut().for_each(|peer| round_trip(peer, b"still here"));
    drop(peers.pop());
    running.wait_for_open(1);
    peers.push(running.served());
    running.refused(|figures| figures.refused_per_address, 2);
    running.server.admission().set_per_address(Some(3));
    peers.push(running.served());
    drop(peers);
    running.wait_for_open(0);
    running.assert_quiet();
}

fn a_network_that_is_denied_while_the_server_runs_is_refused_from_then_on(setup: Setup) {
    let (observer, book) = guestbook();
    let admission = Admission::new().allow("127.0.0.0/8").unwrap().allow("::1").unwrap();
    let running = echo(setup, |builder| builder.admission(admission).observer(observer));
    let mut first = running.served();
    let control = running.server.admission();
    let open = control.access().current();
    control.set_access(open.as_ref().clone().deny("127.0.0.1").unwrap().deny("::1").unwrap());
    running.refused(|figures| figures.refused_denied, 1);
    let denied = |told: &Told| matches!(told, Told::Refused(_, _, Refusal::Denied(AccessDenied::Denied)));
    wait_until(|| book.rest().iter().any(denied), || "the observer is told".to_owned());
    round_trip(&mut first, b"who is there stays");
    control.set_access(open.as_ref().clone());
    drop(running.served());
}

fn who_comes_too_fast_is_refused_until_the_rate_is_another(setup: Setup) {
    let slow = AcceptRate::new(2, Duration::from_secs(3600));
    let running = echo(setup, |builder| builder.admission(Admission::new().rate(slow)));
    let _served = [running.served(), running.served()];
    running.refused(|figures| figures.refused_too_fast, 1);
    running.refused(|figures| figures.refused_too_fast, 2);
    running.server.admission().set_rate(Some(AcceptRate::new(1, Duration::from_secs(3600))));
    let _served = running.served();
    running.refused(|figures| figures.refused_too_fast, 3);
    running.server.admission().set_rate(None);
    drop(running.served());
}

fn with_a_pace_connections_wait_and_are_served_when_they_may(setup: Setup) {
    let slow = AcceptRate::new(1, Duration::from_secs(3600));
    let running = echo(setup, |builder| builder.admission(Admission::new().pace(slow)));
    let _served = running.served();
    // A transport may have its own idea of when a peer is connected: nobody waits for that here.
    let setup_of_peer = setup;
    let address = running.address().clone();
    let waits = std::thread::spawn(move || {
        let mut peer = setup_of_peer.dial(&address);
        round_trip(&mut peer, b"later");
    });
    running.settle();
    running.assert_quiet();
    assert_eq!(running.server.figures().open, 1);
    running.server.admission().set_pace(None);
    waits.join().unwrap();
    let few = AcceptRate::new(1, Duration::from_millis(20));
    running.server.admission().set_pace(Some(few));
    for _ in 0..3 {
        drop(running.served());
    }
    assert_eq!((running.server.figures().accepted, running.server.figures().refused_too_fast), (5, 0));
}

/// Every connection has two descriptors here, because its peer is here too.
fn the_last_descriptors_are_left_to_the_rest_of_the_process(setup: Setup) {
    const RESERVE: usize = 30;
    in_own_process(setup, || {
        let is_free = |number: &u64| !std::fs::exists(format!("/proc/self/fd/{number}")).unwrap();
        set_descriptor_limit((0..).filter(is_free).nth(RESERVE + 50).unwrap());
        let admission = Admission::new().descriptor_reserve(RESERVE as u64);
        let running = echo(setup, |builder| builder.admission(admission));
        let served = || {
            let mut peer = setup.try_dial(running.address())?;
            peer.write_all(b"x")?;
            peer.read_exact(&mut [0]).map(|()| peer)
        };
        let peers: Vec<Peer> = std::iter::from_fn(|| served().ok()).collect();
        assert!((10..25).contains(&peers.len()), "{}", peers.len());
        let figures = running.server.figures();
        assert_eq!((figures.refused, figures.accept_failures), (1, 0), "{figures:?}");
        let files: Vec<_> = (0..RESERVE - 4).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        drop((files, peers));
        running.wait_for_open(0);
        drop(served().unwrap());
    });
}

fn a_refusal_in_words_reaches_a_peer_that_has_sent_something_and_ends_in_order(setup: Setup) {
    let words = "421 too many connections\r\n";
    let running =
        echo(setup, |builder| builder.connections_max(1).admission(Admission::new().farewell(words)));
    let first = running.served();
    for told in 1..=3 {
        let hold = running.hold();
        let mut peer = running.dial();
        // What is not read would take the words away from under the peer.
        peer.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        drop(hold);
        expect(&mut peer, words.as_bytes());
        expect_end(&mut peer);
        let figures = running.server.figures();
        assert_eq!((figures.refused_full, figures.told_politely, figures.open), (told, told, 1));
    }
    drop(first);
    running.wait_for_open(0);
    drop(running.served());
    running.wait_for_open(0);
}

fn a_peer_that_never_leaves_has_a_second_to_read_why_it_was_refused(setup: Setup) {
    let running =
        echo(setup, |builder| builder.connections_max(0).admission(Admission::new().farewell("no\n")));
    let sources = || running.loops.all().iter().map(|one| one.figures().sources).sum::<u64>();
    running.settle();
    let before = sources();
    let peers: Vec<Peer> = (0..3).map(|_| running.dial()).collect();
    wait_until(|| running.server.figures().told_politely == 3, || "all are told".to_owned());
    wait_until(|| sources() == before, || "they are let go".to_owned());
    drop(peers);
}

fn a_connection_that_waits_for_a_decision_is_handed_over_when_it_is_admitted(setup: Setup) {
    let promises = Arc::new(Mutex::new(Vec::new()));
    let asked = promises.clone();
    let decide = move |_: Incoming| {
        let (decision, decided) = promise::<Verdict, PromiseError>();
        asked.lock().unwrap().push(decision);
        async move { decided.await.unwrap_or(Verdict::refuse("nobody decided")) }
    };
    let running =
        echo(setup, |builder| builder.admission(Admission::new().decide(PATIENCE, decide).undecided_max(2)));
    let next = || {
        wait_until(|| !promises.lock().unwrap().is_empty(), || "it is asked".to_owned());
        promises.lock().unwrap().remove(0)
    };
    let mut peer = running.dial();
    peer.write_all(b"early").unwrap();
    let decision = next();
    assert_eq!((running.server.figures().undecided, running.server.figures().open), (1, 0));
    decision.succeed(Verdict::Admit);
    expect(&mut peer, b"early");
    assert_eq!(running.server.figures().undecided, 0);

    let mut peer = running.dial();
    next().succeed(Verdict::refuse("not this one"));
    assert!(!matches!(peer.read(&mut [0; 1]), Ok(1..)), "it was served");
    wait_until(|| running.server.figures().refused_judged == 1, || "it is counted".to_owned());
}

fn nobody_waits_for_a_decision_past_the_deadline_or_behind_a_panic(setup: Setup) {
    let came = AtomicUsize::new(0);
    let decide = move |_: Incoming| {
        let number = came.fetch_add(1, Ordering::Relaxed);
        assert_ne!(number, 0, "on purpose, at once");
        async move {
            assert_ne!(number, 1, "on purpose, later");
            std::future::pending::<Verdict>().await
        }
    };
    let deadline = Duration::from_millis(20);
    let running = echo(setup, |builder| builder.admission(Admission::new().decide(deadline, decide)));
    running.refused(|figures| figures.refused_judged, 1);
    running.refused(|figures| figures.refused_judged, 2);
    running.refused(|figures| figures.refused_undecided, 1);
    assert_eq!((running.server.figures().undecided, running.server.figures().open), (0, 0));
    running.assert_quiet();
}

fn as_many_wait_for_a_decision_as_may_and_a_server_that_stops_listening_refuses_them(setup: Setup) {
    let never = |_: Incoming| std::future::pending::<Verdict>();
    let admission = Admission::new().decide(Duration::from_secs(3600), never).undecided_max(2);
    let running = echo(setup, |builder| builder.admission(admission));
    let mut waiting = vec![running.dial(), running.dial()];
    wait_until(|| running.server.figures().undecided == 2, || "both wait".to_owned());
    running.refused(|figures| figures.refused_undecided, 1);
    running.server.stop_listening();
    wait_until(|| running.server.figures().refused_undecided == 3, || "they are refused".to_owned());
    for peer in &mut waiting {
        assert!(!matches!(peer.read(&mut [0; 1]), Ok(1..)), "it was served");
    }
    assert_eq!((running.server.figures().undecided, running.server.figures().open), (0, 0));
}
