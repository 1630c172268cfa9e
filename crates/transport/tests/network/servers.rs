//! Where servers listen in a network, and on which loops.

use crate::{
    support::{Echo, PATIENCE, Soon, script, wait_until},
    toy::Toy,
};
use bytes::Bytes;
use netwright_core::{Address, EventLoop, EventLoopGroup, pipeline};
use netwright_transport::{
    BindError, Client, ListenEnd, ListenerOptions, Server, ServerBuilder, StreamOptions,
};
use std::sync::mpsc;

/// Sends something to `to` by a loop of the network, and waits for its echo.
#[track_caller]
fn greet(toy: &Toy, to: impl ToString) -> Address {
    let (script, events) = script();
    let client =
        Client::builder().group(toy.loops(1)).pipeline(move || pipeline().app(script.probe())).unwrap();
    let channel = client.connect(to).soon().unwrap();
    events.active();
    channel.write_and_flush(Bytes::from("hello"));
    events.read(b"hello");
    let peer = channel.peer().unwrap();
    channel.close().soon();
    events.end();
    peer
}

fn echo(builder: ServerBuilder, at: &str) -> Result<Server, BindError> {
    builder.pipeline(|_| pipeline().app(Echo)).bind(at).soon()
}

/// A server that tells on which loops its connections live.
fn telling(builder: ServerBuilder, at: &str) -> (Server, mpsc::Receiver<String>) {
    let (tell, told) = mpsc::channel();
    let pipeline = builder.pipeline(move |_| {
        tell.send(EventLoop::current().unwrap().name().to_owned()).unwrap();
        pipeline().app(Echo)
    });
    (pipeline.bind(at).soon().unwrap(), told)
}

#[test]
fn a_server_and_its_clients_meet_in_the_network_of_their_loops() {
    let toy = Toy::new().name("server", &[[10, 0, 0, 1]]);
    let server = echo(Server::builder().group(toy.loops(2)), "0.0.0.0:80").unwrap();
    assert_eq!(server.address().to_string(), "0.0.0.0:80", "no socket of the system was asked for that port");
    assert_eq!(greet(&toy, "server:80").to_string(), "10.0.0.1:80");
    assert_eq!(server.figures().accepted, 1);
    let address = server.address().clone();
    server.drain(PATIENCE).soon().unwrap();
    assert_eq!(toy.listeners(&address), 0);
}

#[test]
fn a_port_of_0_becomes_a_real_one_and_one_that_is_taken_is_in_use() {
    let toy = Toy::new();
    let server = echo(Server::builder().group(toy.loops(1)), "10.0.0.1:0").unwrap();
    let at = server.address().clone();
    assert_ne!(server.local_addr().unwrap().port(), 0);
    greet(&toy, &at);
    let second = echo(Server::builder().group(toy.loops(1)), &at.to_string());
    assert!(matches!(&second, Err(BindError::InUse(taken)) if taken == server.address()), "{second:?}");
    drop(server);
    wait_until(|| toy.listeners(&at) == 0, || "the port to be free".to_owned());
    echo(Server::builder().group(toy.loops(1)), &at.to_string()).unwrap();
}

#[test]
fn each_of_several_acceptors_has_a_listener_of_its_own_at_a_port() {
    let toy = Toy::new();
    let (acceptors, workers) = (toy.loops(3), toy.loops(2));
    let builder = Server::builder().acceptors(acceptors.clone()).group(workers.clone());
    let (server, told) = telling(builder, "10.0.0.1:0");
    assert_eq!(toy.listeners(server.address()), 3);
    for _ in 0..6 {
        greet(&toy, server.address());
        let host = told.recv_timeout(PATIENCE).unwrap();
        assert!(workers.iter().any(|worker| worker.name() == host), "{host} accepts");
    }
}

#[test]
fn with_a_shared_port_a_connection_stays_where_it_was_accepted() {
    let toy = Toy::new().favouring();
    let builder = Server::builder().group(toy.loops(2)).shared_port(true);
    let (server, told) = telling(builder, "10.0.0.1:0");
    assert_eq!(toy.listeners(server.address()), 2);
    let hosts: Vec<String> = (0..4)
        .map(|_| {
            greet(&toy, server.address());
            told.recv_timeout(PATIENCE).unwrap()
        })
        .collect();
    assert!(hosts.iter().all(|host| *host == hosts[0]), "the network favoured one loop: {hosts:?}");
}

#[test]
fn a_unix_name_has_one_listener_for_all_acceptors() {
    let toy = Toy::new();
    let server =
        echo(Server::builder().acceptors(toy.loops(2)).group(toy.loops(1)), "unix:/run/toy").unwrap();
    assert_eq!(toy.listeners(server.address()), 1);
    for _ in 0..3 {
        assert_eq!(greet(&toy, "unix:/run/toy").to_string(), "unix:/run/toy");
    }
    assert!(!std::path::Path::new("/run/toy").exists());
}

#[test]
fn a_listener_whose_loop_died_is_opened_again_by_the_one_in_its_place() {
    for at in ["10.0.0.1:0", "unix:toy"] {
        let toy = Toy::new();
        let loops: EventLoopGroup = toy.mortals(2).replace_dead(true).build().unwrap();
        let server = echo(Server::builder().group(loops.clone()).shared_port(true), at).unwrap();
        let before = toy.listeners(server.address());
        for index in [1, 0] {
            let victim = loops.iter().nth(index).unwrap();
            toy.condemn(index);
            victim.wake();
            victim.termination().wait_timeout(PATIENCE).expect("the loop dies").unwrap_err();
            wait_until(|| toy.listeners(server.address()) == before, || "the listener to be back".to_owned());
            for _ in 0..2 {
                greet(&toy, server.address());
            }
        }
        assert!(!server.closed().is_done());
    }
}

#[test]
fn options_that_no_socket_has_are_refused_and_others_are_for_the_network_to_heed() {
    let toy = Toy::new();
    let options = |options| echo(Server::builder().group(toy.loops(1)).options(options), "10.0.0.1:0");
    let refused = options(StreamOptions::new().nodelay(true).cork(true)).unwrap_err().to_string();
    assert!(refused.contains("cork"), "{refused}");
    options(StreamOptions::new().nodelay(true)).unwrap();
    let listener = ListenerOptions::new().only_v6(true);
    let refused = echo(Server::builder().group(toy.loops(1)).listener_options(listener), "10.0.0.1:0");
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("only_v6 = true: an IPv4 socket does not have it"), "{refused}");
}

#[test]
fn a_server_is_told_when_nobody_accepts_for_it_any_more() {
    let toy = Toy::new();
    let server =
        echo(Server::builder().group(toy.mortals(1).replace_dead(false).build().unwrap()), "10.0.0.1:0")
            .unwrap();
    toy.condemn(0);
    server.group().next().wake();
    let end = server.closed().wait_timeout(PATIENCE).expect("it ends").unwrap();
    assert!(matches!(end, ListenEnd::LoopDied(_)), "{end}");
}
