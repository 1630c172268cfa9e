//! Whose names are asked for: those of the network, unless a builder was given a resolver.

use crate::{
    support::{Echo, Soon},
    toy::Toy,
};
use netwright_core::{EventLoopGroup, Promised, pipeline};
use netwright_transport::{Client, ClientBuilder, ConnectError, ResolveError, Resolver, Server};
use std::net::SocketAddr;

fn connect(builder: ClientBuilder, to: &str) -> Result<String, ConnectError> {
    let client = builder.pipeline(|| pipeline().handle(|_, _| ())).unwrap();
    client.connect(to).soon().map(|channel| channel.peer().unwrap().to_string())
}

fn resolve_error(toy: &Toy, to: &str) -> ResolveError {
    match connect(Client::builder().group(toy.loops(1)), to) {
        Err(ConnectError::Resolve(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_of_the_networks_names_are_those_of_any_resolver() {
    let toy = Toy::new().name("nowhere", &[]);
    let error = resolve_error(&toy, "stranger:80");
    assert_eq!(error.to_string(), "unresolvable name \"stranger:80\": nobody of that name");
    let error = resolve_error(&toy, "nowhere:80");
    assert_eq!(error.to_string(), "unresolvable name \"nowhere:80\": it has no address");
    assert!(
        matches!(resolve_error(&toy, "panics:80"), ResolveError::Panicked { panic, .. } if panic.contains("on purpose"))
    );
    let asked = toy.asked();
    assert!(matches!(resolve_error(&toy, "tcp:no port"), ResolveError::Malformed { .. }));
    assert_eq!(toy.asked(), asked, "what is no name is not asked for");
}

#[test]
fn servers_listen_at_the_networks_names_and_literal_addresses_are_not_asked_for() {
    let toy = Toy::new().name("me", &[[10, 0, 0, 5]]);
    let listen =
        |at: &str| Server::builder().group(toy.loops(1)).pipeline(|_| pipeline().app(Echo)).bind(at).soon();
    let server = listen("me:80").unwrap();
    assert_eq!((server.address().to_string(), toy.asked().len()), ("10.0.0.5:80".to_owned(), 1));
    listen("10.0.0.6:80").unwrap();
    assert_eq!(toy.asked().len(), 1);
}

#[test]
fn a_resolver_that_a_builder_was_given_wins_over_the_networks_names() {
    let toy = Toy::new().name("server", &[[10, 0, 0, 1]]);
    let server = Server::builder().group(toy.loops(1)).pipeline(|_| pipeline().app(Echo));
    let _server = server.listen("10.0.0.2:80").bind("10.0.0.1:80").soon().unwrap();
    let mine = |_: &str| Promised::ready(Ok(vec![SocketAddr::from(([10, 0, 0, 2], 80))]));
    let builder = || Client::builder().group(toy.loops(1));
    assert_eq!(connect(builder().resolver(mine), "server:80").unwrap(), "10.0.0.2:80");
    // The system's is none of one's own: on these loops the network is the system.
    assert_eq!(connect(builder().resolver(Resolver::new()), "server:80").unwrap(), "10.0.0.1:80");
}

#[cfg(feature = "local")]
#[test]
fn names_within_the_process_are_those_of_a_networks_scope() {
    let networks = [Toy::new().scope(1), Toy::new().scope(2)];
    let outside = EventLoopGroup::builder().loops(1).build().unwrap();
    let groups = || networks.iter().map(|toy| toy.loops(1)).chain([outside.clone()]);
    let listen = |group| {
        let server = Server::builder().group(group).pipeline(|_| pipeline().app(Echo));
        server.bind("local:network-scopes").soon()
    };
    let connect = |group| connect(Client::builder().group(group), "local:network-scopes");
    for listens in 0..3 {
        let server = listen(groups().nth(listens).unwrap()).unwrap();
        listen(groups().nth(listens).unwrap()).unwrap_err();
        for (connects, group) in groups().enumerate() {
            let connected = connect(group);
            assert_eq!(connected.is_ok(), connects == listens, "{connected:?}");
        }
        server.drain(std::time::Duration::ZERO).soon().unwrap();
    }
    let servers: Vec<_> = groups().map(|group| listen(group).unwrap()).collect();
    assert_eq!(servers.len(), 3, "all at the same time");
}
