//! A simulated connection, on its way to its loop and there.

use super::{
    net::StreamId,
    universe::{Owner, Subject, Tag, Universe},
};
use bytes::BytesMut;
use netwright_core::{
    Address, LocalLoop, Outbound,
    driver::{Ready, Token},
};
use netwright_transport::open::{Connection, Received, Stream, Wrote, next_bytes};
use std::{io, sync::Arc};

/// What one receive takes at the most, as from a loop's buffer.
const RECEIVE_MAX: usize = 64 * 1024;

/// How often a flush fills the buffers before other channels of the loop get their turn.
const SENDS_PER_TURN: usize = 16;

/// An end that has no loop yet. Dropped, it is closed in order.
pub(super) struct SimConnection {
    open: Open,
    peer: Address,
    local: Option<Address>,
}

impl SimConnection {
    pub(super) fn new(universe: Arc<Universe>, id: StreamId, peer: Address, local: Option<Address>) -> Self {
        Self { open: Open { universe, id, abortive: false }, peer, local }
    }
}

impl Connection for SimConnection {
    fn peer(&self) -> Address {
        self.peer.clone()
    }

    fn local(&self) -> Option<Address> {
        self.local.clone()
    }

    fn open(self: Box<Self>, _: &LocalLoop, token: Token) -> io::Result<Box<dyn Stream>> {
        let tag = tag_of(&self.open.universe)?;
        let mut state = self.open.universe.lock();
        state.own(Subject::Stream(self.open.id), Owner::Source(tag, token));
        let ready = state.look(Subject::Stream(self.open.id));
        state.tell(tag, token, ready);
        drop(state);
        Ok(Box::new(SimStream { open: self.open }))
    }

    fn refuse(mut self: Box<Self>) {
        self.open.abortive = true;
    }
}

/// The loop that runs.
pub(super) fn tag_of(universe: &Universe) -> io::Result<Tag> {
    universe.lock().running.ok_or_else(|| {
        let text = "a simulated connection lives on loops of its simulation only";
        io::Error::new(io::ErrorKind::Unsupported, text)
    })
}

/// An end that is open; its drop closes it.
struct Open {
    universe: Arc<Universe>,
    id: StreamId,
    abortive: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        let (id, abortive) = (self.id, self.abortive);
        self.universe.lock().disown(Subject::Stream(id));
        // One whose host is gone is gone.
        self.universe.with_net(|net, now| _ = net.close(now, id, abortive));
    }
}

struct SimStream {
    open: Open,
}

impl Stream for SimStream {
    fn receive(&mut self) -> io::Result<Received> {
        let id = self.open.id;
        let received = self.open.universe.with_net(|net, now| net.receive(now, id, RECEIVE_MAX))?;
        Ok(Received { bytes: BytesMut::from(received.bytes), more: received.more })
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        let id = self.open.id;
        let state = self.open.universe.lock();
        let ready = state.net.look(id);
        if !ready.read_closed || state.net.unread(id) > 0 {
            return Ok(false);
        }
        match ready.error {
            Some(failure) => Err(failure.into()),
            None => Ok(true),
        }
    }

    fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
        let id = self.open.id;
        for _ in 0..SENDS_PER_TURN {
            let Some(bytes) = next_bytes(outbound, "a simulated connection", RECEIVE_MAX)? else {
                return Ok(Wrote::All);
            };
            let sent = self.open.universe.with_net(|net, now| net.send(now, id, &mut bytes.clone()));
            match sent {
                Ok(sent) => {
                    outbound.advance(sent);
                    if sent < bytes.len() {
                        return Ok(Wrote::Blocked);
                    }
                }
                Err(super::net::Failure::WouldBlock) => return Ok(Wrote::Blocked),
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(Wrote::Enough)
    }

    fn shut_down_output(&mut self) -> io::Result<()> {
        let id = self.open.id;
        Ok(self.open.universe.with_net(|net, now| net.shut_down_output(now, id))?)
    }

    fn take_error(&mut self) -> Option<io::Error> {
        self.open.universe.lock().net.take_error(self.open.id).map(io::Error::from)
    }

    fn unacknowledged(&mut self) -> io::Result<usize> {
        Ok(self.open.universe.lock().net.unacknowledged(self.open.id))
    }

    fn on_its_way(&mut self) -> Option<usize> {
        Some(self.open.universe.lock().net.unacknowledged(self.open.id))
    }

    fn reset_on_close(&mut self) {
        self.open.abortive = true;
    }

    fn look(&mut self) -> Ready {
        Ready::NONE // the driver tells
    }
}
