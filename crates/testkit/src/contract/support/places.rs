//! Addresses where somebody else listens, where nobody does, and where nobody answers.

use super::{
    Peer, Running,
    unix::{UnixListener, unix_address},
};
use crate::contract::{Setup, setup::Carrier};
use netwright_core::Address;
use socket2::{Domain, Socket, Type};
use std::net::{SocketAddr, TcpListener};

/// A listener of the standard library; within the process, one of another server of ours.
pub(crate) struct ForeignListener {
    listener: Listener,
    address: Address,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
    Local(#[allow(dead_code, reason = "listens as long as it lives")] Running),
}

impl ForeignListener {
    pub(crate) fn new(setup: Setup) -> Self {
        match setup.transport.carrier() {
            Carrier::Tcp => {
                let listener = TcpListener::bind(setup.listen_at()).unwrap();
                let address = listener.local_addr().unwrap().into();
                Self { listener: Listener::Tcp(listener), address }
            }
            Carrier::Unix => {
                let address = setup.nobodys_address();
                let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
                socket.bind(&unix_address(&address).unwrap()).unwrap();
                socket.listen(16).unwrap();
                Self { listener: Listener::Unix(socket.into()), address }
            }
            Carrier::Local | Carrier::Other(_) => {
                let running = setup.echo();
                let address = running.address().clone();
                Self { listener: Listener::Local(running), address }
            }
        }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn accept(&self) -> Peer {
        match &self.listener {
            Listener::Tcp(listener) => Peer::tcp(listener.accept().unwrap().0),
            Listener::Unix(listener) => Peer::unix(listener.accept().unwrap().0),
            Listener::Local(_) => panic!("this behaviour needs foreign peers, and its entry does not say so"),
        }
    }
}

/// An address that refuses. A port is bound, so that nobody else takes it, and not listened on; other names are nobody's.
pub(crate) struct Refusing {
    _port: Option<Socket>,
    address: Address,
}

impl Refusing {
    pub(crate) fn new(setup: Setup) -> Self {
        match setup.transport.carrier() {
            Carrier::Tcp => {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
                socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
                let address = socket.local_addr().unwrap().as_socket().unwrap().into();
                Self { _port: Some(socket), address }
            }
            Carrier::Unix | Carrier::Local | Carrier::Other(_) => {
                Self { _port: None, address: setup.nobodys_address() }
            }
        }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Host and port, for behaviours that need a network.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.address.ip().unwrap()
    }
}
