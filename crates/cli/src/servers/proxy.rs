//! Passes bytes on between whoever connects and another address, both ways: a relay for each connection.

use crate::{record::Tape, serve::Homes};
use netwright::{
    Client, Promised, Server,
    handler::Relay,
    pipeline,
    resolve::Resolver,
    server::{BindError, ServerBuilder},
};
use std::time::Duration;

/// The front waits meanwhile.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn bind(
    server: ServerBuilder,
    address: &str,
    target: String,
    hosts: Homes,
    tape: Tape,
) -> Promised<Server, BindError> {
    let resolver = Resolver::new();
    server
        .auto_read(false) // what comes early stays with the system
        .pipeline(move |accepted| {
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
            pipeline().add(tape.stage()).app(relay)
        })
        .bind(address)
}
