//! One end of a local connection.

use super::pipe::{Ending, Piece, Pipe};
use netwright_core::{Address, SourceCaller};
use std::{collections::VecDeque, mem, sync::Arc};

/// One end of a local connection. Dropping it closes: in order if everything was read, else with a reset.
pub(super) struct End {
    pub(super) incoming: Arc<Pipe>,
    pub(super) outgoing: Arc<Pipe>,
    /// Taken out of the incoming pipe and not read yet.
    arrived: VecDeque<Piece>,
    /// What was read counts for this much and was not given back yet.
    read: usize,
    address: Address,
    peer: Address,
    resets: bool,
}

/// How large the pipes of a connection are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) to_client: usize,
    pub(super) to_server: usize,
}

impl End {
    /// A connection: the client's end and the server's.
    pub(super) fn pair(client: Address, server: Address, limits: Limits) -> (Self, Self) {
        let to_client = Arc::new(Pipe::new(limits.to_client));
        let to_server = Arc::new(Pipe::new(limits.to_server));
        let end = |incoming: &Arc<Pipe>, outgoing: &Arc<Pipe>, address: &Address, peer: &Address| Self {
            incoming: incoming.clone(),
            outgoing: outgoing.clone(),
            arrived: VecDeque::new(),
            read: 0,
            address: address.clone(),
            peer: peer.clone(),
            resets: false,
        };
        (end(&to_client, &to_server, &client, &server), end(&to_server, &to_client, &server, &client))
    }

    /// Its own address.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// The address of the other end.
    pub(super) fn peer_address(&self) -> &Address {
        &self.peer
    }

    /// It will be closed with a reset, whatever was read.
    pub(super) fn reset_on_close(&mut self) {
        self.resets = true;
    }

    /// From now on whoever changes something at the other end calls.
    pub(super) fn attach(&self, caller: &SourceCaller) {
        self.incoming.set_reader(caller.clone());
        self.outgoing.set_writer(caller.clone());
    }

    /// The next bytes.
    pub(super) fn next(&mut self) -> Option<Piece> {
        let piece = self.arrived.pop_front()?;
        self.read += piece.charge();
        // The writer need not wait until everything is read; half of it is worth a call.
        if self.read >= self.incoming.half() && !self.arrived.is_empty() {
            self.incoming.give_back(mem::take(&mut self.read));
        }
        Some(piece)
    }

    /// Looks for more if there is nothing.
    pub(super) fn look(&mut self) -> Input {
        if !self.arrived.is_empty() {
            return Input::Bytes;
        }
        match self.incoming.fetch(&mut self.arrived, mem::take(&mut self.read)) {
            Some(ending) => Input::Ended(ending),
            None if self.arrived.is_empty() => Input::Nothing,
            None => Input::Bytes,
        }
    }

    /// How the other end has ended, if it has and everything is read.
    pub(super) fn ended(&self) -> Option<Ending> {
        if self.arrived.is_empty() { self.incoming.ended() } else { None }
    }
}

/// What there is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    Bytes,
    /// Nothing, and the end is called when that changes.
    Nothing,
    /// Nothing, and nothing will come.
    Ended(Ending),
}

impl Drop for End {
    fn drop(&mut self) {
        let unread = !self.arrived.is_empty() || self.incoming.has_pieces();
        let ending = if unread || self.resets { Ending::Reset } else { Ending::InOrder };
        // In this order: a writer that finds nobody there finds the end of its input as well.
        self.outgoing.end(ending);
        self.incoming.desert(ending);
    }
}
