//! Connections in memory: a queue of pieces for each direction, and at each end the caller of its channel.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    Address, LocalLoop, Outbound, SourceCaller,
    driver::{Ready, Token},
};
use netwright_transport::open::{Connection, Received, Stream, Wrote, next_bytes};
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard},
};

/// How many pieces wait for who reads.
const ROOM: usize = 16;

/// One direction.
#[derive(Clone, Default)]
struct Line(Arc<Mutex<Pieces>>);

#[derive(Default)]
struct Pieces {
    waiting: VecDeque<Bytes>,
    ended: bool,
    reader: Option<SourceCaller>,
    writer: Option<SourceCaller>,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Pieces> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    /// Changes it, and calls both ends: a call too many harms nobody here.
    fn change<T>(&self, change: impl FnOnce(&mut Pieces) -> T) -> T {
        let mut pieces = self.lock();
        let changed = change(&mut pieces);
        let bells = [pieces.reader.clone(), pieces.writer.clone()];
        drop(pieces);
        bells.into_iter().flatten().for_each(|bell| bell.call());
        changed
    }
}

/// One end of a connection.
pub(crate) struct End {
    reads: Line,
    writes: Line,
    at: Address,
    peer: Address,
    blocked: bool,
}

impl End {
    /// The client's and the server's.
    pub(super) fn pair(client: Address, server: Address) -> (Self, Self) {
        let (there, back) = (Line::default(), Line::default());
        let end = |reads: &Line, writes: &Line, at: &Address, peer: &Address| Self {
            reads: reads.clone(),
            writes: writes.clone(),
            at: at.clone(),
            peer: peer.clone(),
            blocked: false,
        };
        (end(&back, &there, &client, &server), end(&there, &back, &server, &client))
    }
}

impl Connection for End {
    fn peer(&self) -> Address {
        self.peer.clone()
    }

    fn local(&self) -> Option<Address> {
        Some(self.at.clone())
    }

    fn open(self: Box<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Stream>> {
        self.reads.lock().reader = Some(local.caller(token));
        self.writes.lock().writer = Some(local.caller(token));
        local.call(token);
        Ok(self)
    }
}

impl Stream for End {
    fn look(&mut self) -> Ready {
        let pieces = self.reads.lock();
        let mut ready = if pieces.waiting.is_empty() && !pieces.ended { Ready::NONE } else { Ready::READ };
        if pieces.ended {
            ready |= Ready::READ_CLOSED;
        }
        drop(pieces);
        if self.blocked && self.writes.lock().waiting.len() < ROOM {
            self.blocked = false;
            ready |= Ready::WRITE;
        }
        ready
    }

    fn receive(&mut self) -> io::Result<Received> {
        let mut pieces = self.reads.lock();
        let piece = pieces.waiting.pop_front();
        let bell = piece.as_ref().and_then(|_| pieces.writer.clone());
        let piece = piece.or_else(|| pieces.ended.then(Bytes::new));
        drop(pieces);
        bell.inspect(|bell| bell.call());
        let bytes = BytesMut::from(piece.ok_or(io::ErrorKind::WouldBlock)?);
        Ok(Received { bytes, more: true })
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        let pieces = self.reads.lock();
        Ok(pieces.waiting.is_empty() && pieces.ended)
    }

    fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
        while let Some(bytes) = next_bytes(outbound, "a toy", 4096)? {
            let mut pieces = self.writes.lock();
            if pieces.ended {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if pieces.waiting.len() >= ROOM {
                self.blocked = true;
                return Ok(Wrote::Blocked);
            }
            let len = bytes.len();
            pieces.waiting.push_back(bytes);
            let bell = pieces.reader.clone();
            drop(pieces);
            bell.inspect(|bell| bell.call());
            outbound.advance(len);
        }
        Ok(Wrote::All)
    }

    fn shut_down_output(&mut self) -> io::Result<()> {
        self.writes.change(|pieces| pieces.ended = true);
        Ok(())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.writes.change(|pieces| pieces.ended = true);
        self.reads.change(|pieces| pieces.ended = true);
    }
}
