//! An end of a local connection on its loop.
//!
//! Always true:
//! 1. What the queue has lent is `current`; bytes count as taken once they are in the pipe.
//! 2. `room` is never more than the pipe has: only this end fills it.
//! 3. A message of up to half a pipe goes in whole while there is any room. A larger one is cut, but only where at least
//!    half a pipe is free: bytes that pass many pipes are not cut into ever smaller pieces.
//! 4. A writer whose peer has gone is blocked until the input is read to its end, so that nothing is lost that the peer
//!    had said before; then it fails.

use super::{
    End,
    end::Input,
    pipe::{Ending, Piece, Room},
};
use crate::stream::{Received, Stream, Wrote, open_envelope, read_file};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    LocalLoop, Outbound, SourceCaller,
    driver::{Ready, Token},
};
use std::{io, mem};

/// How often a flush fills the pipe before other channels of the loop get their turn.
const FILLS_PER_TURN: usize = 16;

pub(super) struct LocalStream {
    end: End,
    caller: SourceCaller,
    current: Current,
    room: usize,
    /// The channel was told that no more is taken.
    blocked: bool,
    /// The channel was told of the end of its input.
    input_ended: bool,
    /// Nobody reads for now, maybe until there is room.
    paused: bool,
}

impl LocalStream {
    /// Takes an end into the loop under the token.
    pub(super) fn open(local: &LocalLoop, token: Token, end: End) -> Self {
        let caller = local.caller(token);
        end.attach(&caller);
        local.call(token); // for what came before
        Self {
            end,
            caller,
            current: Current::Nothing,
            room: 0,
            blocked: false,
            input_ended: false,
            paused: false,
        }
    }

    /// Finds out how much room there is. `Some`: less than wanted.
    fn make_room(&mut self, wanted: usize) -> Option<io::Result<Wrote>> {
        match self.end.outgoing.room(wanted) {
            Room::Bytes(room) => {
                self.room = room;
                if room >= wanted {
                    return None;
                }
            }
            Room::Deserted if self.input_ended || self.paused => {
                let text = "the other end of this local connection was closed";
                return Some(Err(io::Error::new(io::ErrorKind::BrokenPipe, text)));
            }
            Room::Deserted => {}
        }
        self.blocked = true;
        Some(Ok(Wrote::Blocked))
    }

    fn ended(&mut self, ending: Ending) -> io::Result<()> {
        self.input_ended = true;
        if self.blocked || self.end.outgoing.deserted() == Some(Ending::Reset) {
            self.caller.call(); // what waited for this end, see `look`
        }
        match ending {
            Ending::InOrder => Ok(()),
            Ending::Reset => Err(reset()),
        }
    }
}

impl Stream for LocalStream {
    fn receive(&mut self) -> io::Result<Received> {
        if let Input::Ended(ending) = self.end.look() {
            self.ended(ending)?;
            return Ok(Received { bytes: BytesMut::new(), more: false });
        }
        let piece = self.end.next().ok_or(io::ErrorKind::WouldBlock)?;
        let more = self.end.look() != Input::Nothing;
        Ok(Received { bytes: piece.into_mut(), more })
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        match self.end.ended() {
            Some(ending) => self.ended(ending).map(|()| true),
            None => Ok(false),
        }
    }

    fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
        let mut fills = 0;
        loop {
            if self.current.is_empty() {
                if outbound.first_envelope().is_some() {
                    open_envelope(outbound, "a local channel");
                    continue;
                }
                match outbound.lend_first() {
                    Some(bytes) => self.current = Current::Whole(bytes),
                    None if outbound.first_file().is_some() => {}
                    None => return Ok(Wrote::All),
                }
            }
            let half = self.end.outgoing.half();
            let file = outbound.first_file().map(|region| region.remaining());
            let len = file.unwrap_or(self.current.len() as u64);
            let wanted = if len <= half as u64 { 1 } else { half };
            if self.room < wanted {
                if fills == FILLS_PER_TURN {
                    return Ok(Wrote::Enough);
                }
                fills += 1;
                if let Some(full) = self.make_room(wanted) {
                    return full;
                }
            }
            let room = self.room.max(half);
            let piece = if file.is_some() {
                match read_file(outbound, room)? {
                    Some(bytes) => Piece::Whole(bytes),
                    None => continue,
                }
            } else {
                self.current.cut(room)
            };
            let len = piece.len();
            self.room = match self.end.outgoing.push(piece) {
                Room::Bytes(room) => room,
                Room::Deserted => 0, // the next one finds out
            };
            outbound.advance(len);
        }
    }

    fn shut_down_output(&mut self) -> io::Result<()> {
        self.end.outgoing.end(Ending::InOrder);
        Ok(())
    }

    fn take_error(&mut self) -> Option<io::Error> {
        (self.end.outgoing.deserted() == Some(Ending::Reset)).then(reset)
    }

    fn reset_on_close(&mut self) {
        self.end.reset_on_close();
    }

    fn look(&mut self) -> Ready {
        let mut ready = match self.end.look() {
            // Also while something is left to be read: a channel that is paused looks for the end then.
            Input::Bytes if self.end.incoming.is_ending() => Ready::READ | Ready::READ_CLOSED,
            Input::Bytes => Ready::READ,
            Input::Nothing => Ready::NONE,
            Input::Ended(_) => Ready::READ | Ready::READ_CLOSED,
        };
        if self.input_ended && self.end.outgoing.deserted() == Some(Ending::Reset) {
            ready |= Ready::ERROR;
        }
        if self.blocked {
            // Whoever waits for room and finds nobody there fails once everything is read, or if nobody reads: see `make_room`.
            let half = self.end.outgoing.half();
            let news = match self.end.outgoing.room(half) {
                Room::Bytes(room) => room >= half,
                Room::Deserted => self.input_ended || self.paused,
            };
            if news {
                self.blocked = false;
                ready |= Ready::WRITE;
            }
        }
        ready
    }

    fn settle(&mut self, wants_read: bool, waits_for_room: bool) {
        self.paused = !wants_read;
        if self.paused && waits_for_room && self.end.outgoing.deserted().is_some() {
            self.caller.call(); // there will be no room, and nobody reads up to the end
        }
    }
}

fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "reset by the other end of this local connection")
}

/// What is left of the message under way.
enum Current {
    Nothing,
    /// All of it, or what others hold as well.
    Whole(Bytes),
    /// The rest of a message that nobody else held.
    Part(BytesMut),
}

impl Current {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Whole(bytes) => bytes.len(),
            Self::Part(bytes) => bytes.len(),
        }
    }

    /// Takes off what there is room for.
    fn cut(&mut self, room: usize) -> Piece {
        match mem::replace(self, Self::Nothing) {
            Self::Nothing => Piece::Part(BytesMut::new()),
            Self::Whole(bytes) if bytes.len() <= room => Piece::Whole(bytes),
            Self::Part(bytes) if bytes.len() <= room => Piece::Part(bytes),
            Self::Whole(bytes) => match bytes.try_into_mut() {
                Ok(bytes) => self.split(bytes, room),
                Err(mut held) => {
                    let part = held.split_to(room);
                    *self = Self::Whole(held);
                    Piece::Whole(part)
                }
            },
            Self::Part(bytes) => self.split(bytes, room),
        }
    }

    fn split(&mut self, mut bytes: BytesMut, room: usize) -> Piece {
        let part = bytes.split_to(room);
        *self = Self::Part(bytes);
        Piece::Part(part)
    }
}
