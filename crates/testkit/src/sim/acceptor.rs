//! Where simulated connections come in.

use super::{
    connection::{SimConnection, tag_of},
    net::ListenerId,
    network::{UnixNames, set_options},
    universe::{Owner, Subject, Universe},
};
use netwright_core::{Address, LocalLoop, driver::Token};
use netwright_transport::{
    StreamOptions,
    open::{Acceptor, Arrival, Listener},
};
use std::{
    io,
    sync::{Arc, PoisonError},
};

/// A listening socket: closed with its last acceptor.
pub(super) struct SimListener {
    universe: Arc<Universe>,
    id: ListenerId,
    address: Address,
    name: Option<UnixEntry>,
    /// Of its connections.
    options: StreamOptions,
}

/// The Unix name that leads to a listener, among all of its host.
pub(super) struct UnixEntry {
    pub(super) names: Arc<UnixNames>,
    pub(super) name: String,
}

impl SimListener {
    pub(super) fn new(
        universe: Arc<Universe>,
        id: ListenerId,
        address: Address,
        name: Option<UnixEntry>,
        options: StreamOptions,
    ) -> Self {
        Self { universe, id, address, name, options }
    }
}

impl Listener for SimListener {
    fn address(&self) -> Address {
        self.address.clone()
    }

    fn attend(self: Arc<Self>, _: &LocalLoop, token: Token) -> io::Result<Box<dyn Acceptor>> {
        let tag = tag_of(&self.universe)?;
        let mut state = self.universe.lock();
        state.own(Subject::Listener(self.id), Owner::Source(tag, token));
        let ready = state.look(Subject::Listener(self.id));
        state.tell(tag, token, ready);
        drop(state);
        Ok(Box::new(SimAcceptor { listener: self }))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let id = self.id;
        self.universe.lock().disown(Subject::Listener(id));
        if let Some(UnixEntry { names, name }) = &self.name {
            names.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        }
        self.universe.with_net(|net, now| _ = net.close_listener(now, id));
    }
}

struct SimAcceptor {
    listener: Arc<SimListener>,
}

impl Acceptor for SimAcceptor {
    fn accept(&mut self) -> io::Result<Arrival> {
        let SimListener { universe, id, .. } = &*self.listener;
        let (stream, peer, local) = universe.with_net(|net, now| {
            let (stream, peer) = net.accept(now, *id)?;
            set_options(net, now, stream, &self.listener.options);
            Ok::<_, super::net::Failure>((stream, peer, net.local_address(stream)))
        })?;
        let peer = match &self.listener.name {
            Some(_) => self.listener.address.clone(),
            None => Address::Ip(peer),
        };
        let connection = SimConnection::new(universe.clone(), stream, peer, local.map(Address::Ip));
        Ok(Arrival::from(connection))
    }
}
