//! Blocking peers, foreign ones and our own.

use super::{
    PATIENCE,
    own_peer::OwnPeer,
    unix::{UnixStream, unix_address},
};
use crate::contract::{Setup, setup::Carrier};
use netwright_core::{Address, UnixName};
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

/// The other end of a connection, as a plain blocking program has it. It does not wait for ever.
pub(crate) enum Peer {
    Tcp(TcpStream),
    Unix(UnixStream),
    Own(OwnPeer),
}

/// What the system is asked to hold for a peer that is to be full soon.
pub(crate) const NARROW: usize = 8 * 1024;

impl Setup {
    #[track_caller]
    pub(crate) fn dial(self, address: &Address) -> Peer {
        self.try_dial(address).unwrap()
    }

    pub(crate) fn try_dial(self, address: &Address) -> io::Result<Peer> {
        if self.dials_with_channels() {
            return OwnPeer::dial(self, address, false).map(Peer::Own);
        }
        match self.transport.carrier() {
            Carrier::Tcp => TcpStream::connect(ip(address)).map(Peer::tcp),
            Carrier::Unix => unix_connect(address, None).map(Peer::unix),
            Carrier::Local | Carrier::Other(_) => unreachable!("all peers are channels"),
        }
    }

    /// A peer for which the system holds little, so that it does not take long to fill.
    #[track_caller]
    pub(crate) fn dial_narrow(self, address: &Address) -> Peer {
        if self.dials_with_channels() {
            return Peer::Own(OwnPeer::dial(self, address, true).unwrap());
        }
        match self.transport.carrier() {
            Carrier::Unix => Peer::unix(unix_connect(address, Some(NARROW)).unwrap()),
            Carrier::Local | Carrier::Other(_) => unreachable!("all peers are channels"),
            Carrier::Tcp => {
                let addr = ip(address);
                let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).unwrap();
                socket.set_recv_buffer_size(NARROW).unwrap();
                socket.connect(&addr.into()).unwrap();
                Peer::tcp(socket.into())
            }
        }
    }
}

fn ip(address: &Address) -> SocketAddr {
    address.ip().expect("a host and a port")
}

fn unix_connect(address: &Address, holds: Option<usize>) -> io::Result<UnixStream> {
    let address = unix_address(address)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    if let Some(holds) = holds {
        socket.set_recv_buffer_size(holds)?;
    }
    socket.connect(&address)?;
    Ok(socket.into())
}

impl Peer {
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::Tcp(stream)
    }

    pub(super) fn unix(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self::Unix(stream)
    }

    /// A second handle of the same connection, for another thread.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Own(peer) => Ok(Self::Own(peer.clone())),
        }
    }

    /// Sends no more.
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Own(peer) => {
                peer.shut_down();
                Ok(())
            }
        }
    }

    /// Whether reading and writing fail rather than wait.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(nonblocking).unwrap(),
            Self::Unix(stream) => stream.set_nonblocking(nonblocking).unwrap(),
            Self::Own(peer) => peer.set_nonblocking(nonblocking),
        }
    }

    /// Where the other end is.
    pub(crate) fn peer_address(&self) -> Address {
        match self {
            Self::Tcp(stream) => stream.peer_addr().unwrap().into(),
            Self::Unix(_) => Address::Unix(UnixName::Unnamed),
            Self::Own(_) => panic!("only foreign peers are asked"),
        }
    }

    /// What the other end knows it by.
    pub(crate) fn own_address(&self) -> Address {
        match self {
            Self::Tcp(stream) => stream.local_addr().unwrap().into(),
            Self::Unix(_) => Address::Unix(UnixName::Unnamed),
            Self::Own(peer) => peer.address(),
        }
    }
}

impl Read for Peer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Own(peer) => peer.read(buffer),
        }
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Own(peer) => peer.write(bytes),
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
        Peer::Unix(_) => panic!("this behaviour needs a reset, and its entry does not say so"),
        Peer::Own(peer) => peer.reset(),
    }
}

/// Ends a connection as rudely as its kind can.
pub(crate) fn break_off(peer: Peer) {
    match peer {
        Peer::Tcp(_) => reset(peer),
        Peer::Unix(_) => drop(peer),
        Peer::Own(peer) => peer.break_off(),
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
