//! Simulated sockets for datagrams.

use super::{
    connection::tag_of,
    net::{DatagramId, DatagramSettings, Failure, HostId},
    universe::{Owner, Subject, Universe},
};
use bytes::BytesMut;
use netwright_core::Address;
use netwright_transport::{
    Datagram, Undelivered,
    open::{DatagramBatch, DatagramQueue, DatagramSocket, NetworkDatagrams, datagram_too_long},
};
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

pub(super) fn open(
    universe: &Arc<Universe>,
    host: HostId,
    how: &NetworkDatagrams<'_>,
) -> io::Result<Box<dyn DatagramSocket>> {
    let tag = tag_of(universe)?;
    let to = how.to.map(ip).transpose()?;
    let address = match (how.bind.map(ip).transpose()?, to) {
        (Some(address), _) => address,
        (None, Some(SocketAddr::V6(_))) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        (None, _) => (Ipv4Addr::UNSPECIFIED, 0).into(),
    };
    let settings = DatagramSettings { peer: to, shared: how.shared, ..DatagramSettings::at(address) };
    let (id, local) = universe.with_net(|net, now| {
        let id = net.bind(now, host, settings)?;
        Ok::<_, Failure>((id, net.bound_to(id)))
    })?;
    universe.lock().own(Subject::Datagram(id), Owner::Source(tag, how.token));
    Ok(Box::new(SimDatagrams { universe: universe.clone(), id, local: local.map(Address::Ip) }))
}

fn ip(address: &Address) -> io::Result<SocketAddr> {
    address.ip().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::Unsupported,
            format!("a simulated network has no datagrams at {address}"),
        )
    })
}

struct SimDatagrams {
    universe: Arc<Universe>,
    id: DatagramId,
    local: Option<Address>,
}

impl DatagramSocket for SimDatagrams {
    fn local(&self) -> Option<Address> {
        self.local.clone()
    }

    fn receive(&mut self, batch: &mut DatagramBatch<'_>) -> io::Result<()> {
        while batch.wanted() > 0 {
            let received = self.universe.with_net(|net, _| net.receive_from(self.id));
            match received {
                Ok(datagram) => {
                    let bytes = BytesMut::from(datagram.bytes);
                    batch.push(Datagram::new(Address::Ip(datagram.from), bytes));
                }
                Err(Failure::WouldBlock) if !batch.is_empty() => break,
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(())
    }

    fn send(&mut self, queue: &mut DatagramQueue<'_>) -> io::Result<usize> {
        let mut sent = 0;
        for datagram in queue.datagrams() {
            let to = match datagram.to.map(ip).transpose() {
                Ok(to) => to,
                Err(_) if sent > 0 => break, // it fails when it is the first
                Err(error) => return Err(error),
            };
            let bytes = datagram.bytes.clone();
            match self.universe.with_net(|net, now| net.send_to(now, self.id, bytes, to)) {
                Ok(()) => sent += 1,
                Err(_) if sent > 0 => break,
                Err(Failure::MessageTooLong) => return Err(datagram_too_long()),
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(sent)
    }

    fn take_error(&mut self) -> io::Result<Option<Undelivered>> {
        Ok(None) // what a socket is told comes with its next call
    }
}

impl Drop for SimDatagrams {
    fn drop(&mut self) {
        self.universe.lock().disown(Subject::Datagram(self.id));
        self.universe.with_net(|net, now| _ = net.unbind(now, self.id));
    }
}
