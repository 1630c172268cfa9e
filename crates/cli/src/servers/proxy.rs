//! Passes bytes on between whoever connects and another address, both ways: a relay for each connection.

use super::front::Front;
use crate::serve::Homes;
use netwright::{
    Client, Promised, Server,
    handler::{Chaos, Relay},
    pipeline,
    resolve::Resolver,
    server::{BindError, ServerBuilder},
};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The front waits meanwhile.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn bind(
    server: ServerBuilder,
    address: &str,
    target: String,
    hosts: Homes,
    chaos: Option<Chaos>,
    front: Front,
) -> Promised<Server, BindError> {
    let resolver = Resolver::new();
    let numbers = AtomicU64::new(0);
    let server = server.auto_read(false); // what comes early stays with the system
    front.bind(server, address, move |accepted, tape| {
        let (client, peer) = (hosts.of_client(Client::builder()), accepted.peer.clone());
        let client = client.resolver(resolver.clone()).connect_timeout(CONNECT_LIMIT);
        let target = target.clone();
        let relay = Relay::connecting(move |back| {
            let connecting = client.pipeline(move || pipeline().app(back.stage()))?.connect(target);
            connecting.listen(move |connected| {
                if let Err(error) = connected {
                    tracing::warn!(%peer, %error, "no way on, closing");
                }
            });
            Ok(connecting)
        });
        let chaos = chaos.map(|chaos| chaos.stage(numbers.fetch_add(1, Ordering::Relaxed)));
        pipeline().add(tape.stage()).filter_if(chaos).app(relay)
    })
}
