//! One datagram by one system call, for platforms without calls for many. The same contract as `batch`.
//!
//! Neither descriptors nor joined datagrams come along here, and the length of a datagram that was cut is not known: it is
//! told as one byte more than the limit.

use super::{Ask, Extra, SendRules, Whereto};
use bytes::BytesMut;
use netwright_core::{Address, Outbound};
use rustix::net::{RecvFlags, SocketAddrAny, recvfrom};
use socket2::Socket;
use std::{io, net::SocketAddr};

pub(super) const BATCH_MAX: usize = 1;

/// No control messages here.
pub(super) const fn control_len(_: usize) -> usize {
    0
}

/// Windows does not say who sent a datagram that did not fit, so there every one does.
const ROOM_MIN: usize = if cfg!(windows) { 65_536 } else { 1 };

pub(super) struct ReceiveBatch {
    /// One byte longer than the limit, so that what does not fit is noticed.
    room: Vec<u8>,
    from: Option<Address>,
    length: usize,
}

impl ReceiveBatch {
    pub(super) fn new() -> Self {
        Self { room: Vec::new(), from: None, length: 0 }
    }

    pub(super) fn receive(
        &mut self,
        socket: &Socket,
        slots: &mut [BytesMut],
        ask: &Ask,
    ) -> io::Result<usize> {
        let Some(slot) = slots.first_mut() else { return Ok(0) };
        let room = (ask.limit + 1).max(ROOM_MIN);
        if self.room.len() < room {
            self.room.resize(room, 0);
        }
        let (len, _, from) = recvfrom(socket, &mut self.room[..room], RecvFlags::empty())?;
        slot.extend_from_slice(&self.room[..len.min(ask.limit)]);
        self.length = len;
        self.from = from.filter(|_| ask.names).and_then(address);
        Ok(1)
    }

    pub(super) fn length(&self, _: usize) -> usize {
        self.length
    }

    pub(super) fn extra(&mut self, _: usize) -> Extra {
        Extra::default()
    }

    pub(super) fn from(&self, _: usize) -> Option<Address> {
        self.from.clone()
    }
}

fn address(from: SocketAddrAny) -> Option<Address> {
    if let Ok(ip) = SocketAddr::try_from(from.clone()) {
        return Some(Address::Ip(ip));
    }
    #[cfg(unix)]
    return unix_address(from);
    #[cfg(not(unix))]
    None
}

#[cfg(unix)]
fn unix_address(from: SocketAddrAny) -> Option<Address> {
    use netwright_core::UnixName;
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};
    let name = rustix::net::SocketAddrUnix::try_from(from).ok()?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(name) = name.abstract_name() {
        return Some(Address::Unix(UnixName::Abstract(name.into())));
    }
    let path = |name: &std::ffi::CStr| Path::new(OsStr::from_bytes(name.to_bytes())).into();
    Some(Address::Unix(name.path().map_or(UnixName::Unnamed, |name| UnixName::Path(path(&name)))))
}

pub(super) struct SendBatch;

impl SendBatch {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn send(
        &mut self,
        socket: &Socket,
        outbound: &Outbound,
        rules: &SendRules,
    ) -> io::Result<usize> {
        let Some(whereto) = outbound.messages().next().and_then(|message| rules.whereto(message)) else {
            return Ok(0);
        };
        let Whereto { bytes, to, .. } = whereto;
        #[cfg(unix)]
        if !whereto.descriptors.is_empty() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        match to {
            None => socket.send(bytes)?,
            Some(to) => match crate::socket::sock_addr(to) {
                Ok(to) => socket.send_to(bytes, &to)?,
                Err(_) => return Ok(0),
            },
        };
        Ok(1)
    }

    /// Whether the last call offered several messages as one.
    pub(super) fn joined_first(&self) -> bool {
        false
    }
}

pub(super) fn join_received(_: &Socket) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) const CREDENTIALS_LEN: usize = 0;

pub(super) fn tell_credentials(_: &Socket) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn cuts_sent(_: &Socket) -> bool {
    false
}

pub(super) fn keep_errors(_: &Socket, _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn next_error(_: &Socket) -> io::Result<(Option<Address>, io::Error)> {
    Err(io::ErrorKind::WouldBlock.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright_core::{Envelope, OutboundQueue, WaterMarks, WritePromise};
    use std::net::UdpSocket;

    #[test]
    fn one_by_one_works_like_many_at_once() {
        let (ours, peer) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let (here, there) = (ours.local_addr().unwrap(), peer.local_addr().unwrap());
        let socket = Socket::from(ours);
        socket.set_nonblocking(true).unwrap();
        let (mut receive, mut slots) = (ReceiveBatch::new(), [BytesMut::with_capacity(64)]);
        let ask = Ask { limit: 10, names: true, control: 0 };
        for size in [0, 3, 10, 11] {
            slots[0].clear();
            peer.send_to(&vec![9; size], here).unwrap();
            assert_eq!(receive.receive(&socket, &mut slots, &ask).unwrap(), 1);
            assert_eq!((receive.length(0), slots[0].len()), (size, size.min(10)));
            assert_eq!(receive.from(0).unwrap(), there);
        }
        slots[0].clear();
        let error = receive.receive(&socket, &mut slots, &ask).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);

        let mut queue = OutboundQueue::new(WaterMarks::default());
        let mut outbound = queue.outbound();
        for bytes in ["a", ""] {
            outbound.push(Envelope::to(there, bytes).into(), WritePromise::untracked());
        }
        outbound.push(b"no target".as_slice().into(), WritePromise::untracked());
        outbound.flush();
        let rules = SendRules { connected: false, unix: false, segments: false };
        let mut room = [0; 10];
        for bytes in ["a", ""] {
            assert_eq!(SendBatch::new().send(&socket, &outbound, &rules).unwrap(), 1);
            outbound.first_sent();
            let (len, _) = peer.recv_from(&mut room).unwrap();
            assert_eq!(&room[..len], bytes.as_bytes());
        }
        assert_eq!(SendBatch::new().send(&socket, &outbound, &rules).unwrap(), 0);
    }
}
