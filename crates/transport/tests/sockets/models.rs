//! Which loop does what: the reactor models differ in nothing else.

use crate::support::{ANY_PORT, Echo, Model, PATIENCE, Soon, dial, for_each_model, round_trip};
use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, EventLoop, pipeline};
use netwright_transport::{BindError, Server, event_loops};
use std::sync::mpsc;

/// Tells on which loop it lives.
struct WhereAmI(mpsc::Sender<EventLoop>);

impl Application for WhereAmI {
    type Read = BytesMut;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        assert!(cx.event_loop().in_event_loop());
        self.0.send(cx.event_loop()).unwrap();
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        assert!(cx.event_loop().in_event_loop());
        cx.write_and_flush(bytes.freeze());
    }
}

for_each_model!(every_worker_gets_connections_and_loops_that_only_accept_get_none);

fn every_worker_gets_connections_and_loops_that_only_accept_get_none(model: Model) {
    const CONNECTIONS: usize = 64; // with a shared port the system spreads them, by a hash
    let (told, places) = mpsc::channel();
    let (builder, loops) = model.builder();
    let server =
        builder.pipeline(move |_| pipeline().app(WhereAmI(told.clone()))).bind(ANY_PORT).soon().unwrap();
    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| dial(server.local_addr().unwrap())).collect();
    let places: Vec<_> = streams.iter().map(|_| places.recv_timeout(PATIENCE).unwrap()).collect();
    streams.iter_mut().for_each(|stream| round_trip(stream, b"hello"));
    for worker in &loops.workers {
        let here = places.iter().filter(|place| *place == worker).count();
        assert!(here > 0, "a worker got no connection");
        if matches!(model, Model::OneAcceptor) {
            assert_eq!(here, CONNECTIONS / loops.workers.len(), "taken in turns");
        }
    }
    let hosted = |place: &EventLoop| loops.workers.iter().any(|worker| worker == place);
    assert!(places.iter().all(hosted), "a connection lives on a loop that only accepts");
    crate::support::settle(loops.all());
    let listeners: u64 =
        loops.all().map(|event_loop| event_loop.figures().sources).sum::<u64>() - CONNECTIONS as u64;
    let expected = match model {
        Model::OneLoop | Model::OneAcceptor => 1,
        Model::TwoAcceptors | Model::SharedPort => 2,
    };
    assert_eq!(listeners, expected, "sockets that listen");
}

#[test]
fn a_shared_port_and_loops_that_only_accept_exclude_each_other() {
    let builder = Server::builder().group(event_loops(1).unwrap()).acceptors(event_loops(1).unwrap());
    let error =
        builder.shared_port(true).pipeline(|_| pipeline().app(Echo)).bind(ANY_PORT).soon().unwrap_err();
    assert!(matches!(error, BindError::Setup(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("shared_port") && text.contains("acceptors"), "{text}");
}

#[test]
fn without_a_group_a_server_brings_its_own_loops() {
    let server = Server::builder().pipeline(|_| pipeline().app(Echo)).bind(ANY_PORT).soon().unwrap();
    assert_eq!(server.group().len(), std::thread::available_parallelism().map_or(1, usize::from));
    round_trip(&mut dial(server.local_addr().unwrap()), b"hello");
}

#[test]
fn one_group_serves_several_servers_and_clients() {
    let group = event_loops(2).unwrap();
    let servers: Vec<_> = (0..3)
        .map(|_| {
            let builder = Server::builder().group(group.clone());
            builder.pipeline(|_| pipeline().app(Echo)).bind(ANY_PORT).soon().unwrap()
        })
        .collect();
    let (script, events) = crate::support::script();
    let client = crate::support::client_with(script, |builder| builder.group(group.clone()));
    for server in &servers {
        let channel = client.connect(server.address()).soon().unwrap();
        events.active();
        channel.send("on the same loops".into());
        events.read(b"on the same loops");
    }
}
