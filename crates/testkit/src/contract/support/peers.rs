//! Blocking peers, which no code of ours serves, and addresses that do not answer.

use super::PATIENCE;
use crate::contract::{Setup, setup::Carrier};
use netwright_core::Address;
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

/// The other end of a connection, as a plain blocking program has it. It does not wait for ever.
pub(crate) enum Peer {
    Tcp(TcpStream),
}

impl Setup {
    #[track_caller]
    pub(crate) fn dial(self, address: &Address) -> Peer {
        self.try_dial(address).unwrap()
    }

    pub(crate) fn try_dial(self, address: &Address) -> io::Result<Peer> {
        match self.transport.carrier() {
            Carrier::Tcp => TcpStream::connect(ip(address)).map(Peer::tcp),
        }
    }

    /// A peer for which the system holds little, so that it does not take long to fill.
    #[track_caller]
    pub(crate) fn dial_narrow(self, address: &Address) -> Peer {
        match self.transport.carrier() {
            Carrier::Tcp => {
                let addr = ip(address);
                let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).unwrap();
                socket.set_recv_buffer_size(8 * 1024).unwrap();
                socket.connect(&addr.into()).unwrap();
                Peer::tcp(socket.into())
            }
        }
    }
}

fn ip(address: &Address) -> SocketAddr {
    address.ip().expect("a host and a port")
}

impl Peer {
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::Tcp(stream)
    }

    /// A second handle of the same connection, for another thread.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    /// Sends no more.
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Whether reading and writing fail rather than wait.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(nonblocking).unwrap(),
        }
    }

    /// What the other end knows it by.
    pub(crate) fn own_address(&self) -> Address {
        match self {
            Self::Tcp(stream) => stream.local_addr().unwrap().into(),
        }
    }
}

impl Read for Peer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ends a connection with a reset.
pub(crate) fn reset(peer: Peer) {
    match peer {
        Peer::Tcp(stream) => SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap(),
    }
}

/// Sends a message to an echo and expects it back.
#[track_caller]
pub(crate) fn round_trip(peer: &mut Peer, message: &[u8]) {
    peer.write_all(message).unwrap();
    expect(peer, message);
}

#[track_caller]
pub(crate) fn expect(peer: &mut Peer, expected: &[u8]) {
    let mut got = vec![0; expected.len()];
    peer.read_exact(&mut got).unwrap();
    assert!(got == expected, "{} bytes came, as many as expected, but others", got.len());
}

/// The other end has closed in order, with nothing left to read.
#[track_caller]
pub(crate) fn expect_end(peer: &mut Peer) {
    assert_eq!(peer.read(&mut [0; 16]).unwrap(), 0, "expected the end of the stream");
}

/// A connect is refused at once.
#[track_caller]
pub(crate) fn assert_nobody_listens(setup: Setup, address: &Address) {
    match setup.try_dial(address) {
        Ok(_) => panic!("somebody listens on {address}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}"),
    }
}

/// An address where a connect is neither answered nor refused: the queue of a listener that nobody serves is full, and
/// the system lets further attempts wait.
pub(crate) struct Unanswering {
    listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl Unanswering {
    pub(crate) fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(1).unwrap();
        let listener = TcpListener::from(socket);
        let addr = listener.local_addr().unwrap();
        // Linux lets one more wait than asked for.
        let waiting = (0..2).map(|_| TcpStream::connect(addr).unwrap()).collect();
        Self { listener, _waiting: waiting }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }
}

/// An address that refuses: bound, so that nobody else takes it, and not listening.
pub(crate) struct Refusing(Socket);

impl Refusing {
    pub(crate) fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }
}
