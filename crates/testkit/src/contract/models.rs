//! Which loop does what: the reactor models differ in nothing else.

use super::{
    Behaviour, Model, Setup, Variation, behaviour,
    support::{Echo, PATIENCE, Soon, round_trip, script, settle},
};
use bytes::BytesMut;
use netwright_core::{AppContext, Application, EventLoop, Outgoing, pipeline};
use netwright_transport::BindError;
use std::sync::mpsc;

/// Who connects, and when it is read, plays no part.
const VARIED: &[Variation] = &[Variation::OurPeers, Variation::Asking, Variation::OnWorkers];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(every_worker_gets_connections_and_loops_that_only_accept_get_none).not(VARIED),
    behaviour!(a_shared_port_and_loops_that_only_accept_exclude_each_other).in_one_model(),
    behaviour!(without_a_group_a_server_brings_its_own_loops).in_one_model(),
    behaviour!(one_group_serves_several_servers_and_clients).in_one_model(),
];

/// Tells on which loop it lives.
struct WhereAmI(mpsc::Sender<EventLoop>);

impl Application for WhereAmI {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        assert!(cx.view().event_loop().in_event_loop());
        self.0.send(cx.view().event_loop()).unwrap();
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        assert!(cx.view().event_loop().in_event_loop());
        cx.write_and_flush(bytes.freeze());
    }
}

fn every_worker_gets_connections_and_loops_that_only_accept_get_none(setup: Setup) {
    const CONNECTIONS: usize = 64; // with a shared port the system spreads them, by a hash
    let (told, places) = mpsc::channel();
    let (builder, loops) = setup.server();
    let server = builder
        .pipeline(move |_| pipeline().app(WhereAmI(told.clone())))
        .bind(setup.listen_at())
        .soon()
        .unwrap();
    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| setup.dial(server.address())).collect();
    let places: Vec<_> = streams.iter().map(|_| places.recv_timeout(PATIENCE).unwrap()).collect();
    streams.iter_mut().for_each(|stream| round_trip(stream, b"hello"));
    let workers = loops.hosts.loops();
    for worker in &workers {
        let here = places.iter().filter(|place| *place == worker).count();
        assert!(here > 0, "a worker got no connection");
        if matches!(setup.model, Model::OneAcceptor) {
            assert_eq!(here, CONNECTIONS / workers.len(), "taken in turns");
        }
        if matches!(setup.model, Model::ThreadPerChannel) {
            assert_eq!(here, 1, "one for each");
        }
    }
    let hosted = |place: &EventLoop| workers.contains(place);
    assert!(places.iter().all(hosted), "a connection lives on a loop that only accepts");
    settle(&loops.all());
    let sources: u64 = loops.all().iter().map(|event_loop| event_loop.figures().sources).sum();
    let listeners = sources - CONNECTIONS as u64;
    assert_eq!(listeners, setup.model.listeners() as u64, "sockets that listen");
}

fn a_shared_port_and_loops_that_only_accept_exclude_each_other(setup: Setup) {
    let builder = setup.bare_server().group(setup.event_loops(1)).acceptors(setup.event_loops(1));
    let error = builder
        .shared_port(true)
        .pipeline(|_| pipeline().app(Echo))
        .bind(setup.listen_at())
        .soon()
        .unwrap_err();
    assert!(matches!(error, BindError::Setup(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("shared_port") && text.contains("acceptors"), "{text}");
}

fn without_a_group_a_server_brings_its_own_loops(setup: Setup) {
    let server =
        setup.bare_server().pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon().unwrap();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let expected = if server.threads().is_some() { 1 } else { cores };
    assert_eq!(server.group().len(), expected, "one that accepts beside threads, or one for each core");
    round_trip(&mut setup.dial(server.address()), b"hello");
}

fn one_group_serves_several_servers_and_clients(setup: Setup) {
    let group = setup.event_loops(2);
    let servers: Vec<_> = (0..3)
        .map(|_| {
            let builder = setup.bare_server().group(group.clone());
            builder.pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon().unwrap()
        })
        .collect();
    let (script, events) = script();
    let client = setup.client_with(script, |builder| builder.group(group.clone()));
    for server in &servers {
        let channel = client.connect(server.address()).soon().unwrap();
        events.active();
        channel.write_and_flush("on the same loops");
        events.read(b"on the same loops");
    }
}
