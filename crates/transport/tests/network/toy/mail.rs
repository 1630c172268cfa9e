//! Datagrams in memory: a box of letters for each address.

use super::Toy;
use bytes::{Bytes, BytesMut};
use netwright_core::{Address, SourceCaller, driver::Ready};
use netwright_transport::{
    Datagram, Undelivered,
    open::{DatagramBatch, DatagramQueue, DatagramSocket, NetworkDatagrams},
};
use std::{collections::VecDeque, io, net::SocketAddr};

/// How many letters wait for who receives; with more the sender waits, as none is lost here.
pub(crate) const ROOM: usize = 8;

/// Where letters for one address wait.
pub(super) struct Letterbox {
    letters: VecDeque<(SocketAddr, Bytes)>,
    /// Only from there.
    from: Option<SocketAddr>,
    shared: bool,
    owner: SourceCaller,
    /// Senders that found it full.
    waiting: Vec<SourceCaller>,
}

struct Socket {
    toy: Toy,
    at: SocketAddr,
    to: Option<SocketAddr>,
    caller: SourceCaller,
    /// Whose box was full.
    blocked: Option<SocketAddr>,
    returned: VecDeque<SocketAddr>,
}

pub(super) fn open(toy: &Toy, how: &NetworkDatagrams<'_>) -> io::Result<Box<dyn DatagramSocket>> {
    let mut state = toy.lock();
    let anywhere = Address::from(SocketAddr::from(([10, 0, 0, 99], 0)));
    let at = state.settle(how.bind.unwrap_or(&anywhere)).ip().ok_or(io::ErrorKind::Unsupported)?;
    let to = how.to.and_then(Address::ip);
    if state.mail.get(&at).is_some_and(|taken| !(taken.shared && how.shared)) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let owner = how.local.caller(how.token);
    let (caller, shared) = (owner.clone(), how.shared);
    state.mail.entry(at).or_insert(Letterbox {
        letters: VecDeque::new(),
        from: to,
        shared,
        owner,
        waiting: Vec::new(),
    });
    drop(state);
    let (toy, blocked, returned) = (toy.clone(), None, VecDeque::new());
    Ok(Box::new(Socket { toy, at, to, caller, blocked, returned }))
}

impl DatagramSocket for Socket {
    fn local(&self) -> Option<Address> {
        Some(self.at.into())
    }

    fn receive(&mut self, batch: &mut DatagramBatch<'_>) -> io::Result<()> {
        let mut state = self.toy.lock();
        let Some(letterbox) = state.mail.get_mut(&self.at) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        while batch.wanted() > 0 {
            let Some((from, letter)) = letterbox.letters.pop_front() else { break };
            batch.push(Datagram::new(from, BytesMut::from(letter)));
        }
        let waiting = std::mem::take(&mut letterbox.waiting);
        drop(state);
        waiting.iter().for_each(SourceCaller::call);
        if batch.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }

    fn send(&mut self, queue: &mut DatagramQueue<'_>) -> io::Result<usize> {
        let (mut sent, mut bells) = (0, Vec::new());
        let mut state = self.toy.lock();
        for datagram in queue.datagrams() {
            let Some(to) = datagram.to.map_or(self.to, Address::ip) else { break };
            match state.mail.get_mut(&to) {
                Some(full) if full.letters.len() >= ROOM => {
                    full.waiting.push(self.caller.clone());
                    self.blocked = Some(to);
                    break;
                }
                Some(letterbox) if letterbox.from.is_none_or(|from| from == self.at) => {
                    letterbox.letters.push_back((self.at, datagram.bytes.clone()));
                    bells.push(letterbox.owner.clone());
                }
                Some(_) => {}
                None => {
                    self.returned.push_back(to);
                    bells.push(self.caller.clone());
                }
            }
            sent += 1;
        }
        drop(state);
        bells.iter().for_each(SourceCaller::call);
        if sent == 0 && self.blocked.is_some() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(sent) }
    }

    fn take_error(&mut self) -> io::Result<Option<Undelivered>> {
        let to = self.returned.pop_front();
        Ok(to.map(|to| Undelivered::new(Some(to.into()), io::ErrorKind::ConnectionRefused.into())))
    }

    fn look(&mut self) -> Ready {
        let state = self.toy.lock();
        let mut ready = Ready::NONE;
        if state.mail.get(&self.at).is_some_and(|own| !own.letters.is_empty()) {
            ready |= Ready::READ;
        }
        if !self.returned.is_empty() {
            ready |= Ready::ERROR;
        }
        let has_room = |to: SocketAddr| state.mail.get(&to).is_none_or(|other| other.letters.len() < ROOM);
        if self.blocked.take_if(|to| has_room(*to)).is_some() {
            ready |= Ready::WRITE;
        }
        ready
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let gone = self.toy.lock().mail.remove(&self.at);
        gone.iter().flat_map(|gone| &gone.waiting).for_each(SourceCaller::call);
    }
}
