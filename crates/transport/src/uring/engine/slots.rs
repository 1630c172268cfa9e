//! Registrations: they come, are looked at, touched, and go.

use super::{Engine, State};
use crate::uring::{
    extension::Arrival,
    memory::Gathered,
    slot::{End, GENERATIONS, Key, Kind, Kinds, Listener, Role, Seat, Slot, gone},
};
use netwright_core::driver::{Ready, Token};
use socket2::Socket;
use std::{io, os::fd::IntoRawFd};

impl Engine {
    pub(in crate::uring) fn insert(&mut self, token: Token, socket: Option<Socket>, role: Role) -> Key {
        let state = &mut self.state;
        let fresh = |generation| Slot {
            generation,
            flying: Kinds::default(),
            cancelled: Kinds::default(),
            told: Ready::NONE,
            dirty: false,
            touched: false,
            token: Some(token),
            socket,
            role,
        };
        state.registered += 1;
        let index = state.free;
        if let Some(slot) = state.slots.get_mut(index as usize) {
            if let Role::Free(next) = slot.role {
                state.free = next;
            }
            *slot = fresh(slot.generation);
            return Key { index, generation: slot.generation };
        }
        let index = u32::try_from(state.slots.len()).expect("descriptors run out long before");
        state.slots.push(fresh(0));
        Key { index, generation: 0 }
    }

    pub(in crate::uring) fn take_gathered(&mut self) -> Box<Gathered> {
        self.state.gathered.pop().unwrap_or_else(Gathered::new)
    }

    pub(in crate::uring) fn slot(&mut self, key: Key) -> Option<&mut Slot> {
        let slot = self.state.slots.get_mut(key.index as usize)?;
        (slot.generation == key.generation && !slot.is_ending()).then_some(slot)
    }

    /// Has the slot looked at before the kernel is entered next.
    pub(in crate::uring) fn mark(&mut self, key: Key) {
        self.state.mark(key.index);
    }

    /// The source leaves. What flies is cancelled, what was queued before goes out as far as the socket takes it at once, and
    /// the descriptor is closed behind all that.
    pub(in crate::uring) fn close(&mut self, key: Key) {
        let Some(slot) = self.slot(key) else { return };
        slot.token = None;
        slot.told = Ready::NONE;
        let mut inbox = Seat::default();
        match &mut slot.role {
            Role::Stream(stream) => inbox = std::mem::take(&mut stream.inbox),
            Role::Listener(listener) => **listener = Listener::default(),
            _ => {}
        }
        let owns = slot.socket.is_some();
        let flying = slot.flying;
        drop(self.state.inboxes.take(&mut inbox));
        if flying.is_empty() {
            return self.state.release(key.index);
        }
        for kind in Kind::OF_SLOTS {
            if flying.has(kind) {
                self.cancel(key, kind);
            }
        }
        if owns {
            self.start(key, Kind::Close);
            let socket = self.state.slots[key.index as usize].socket.take();
            socket.map(IntoRawFd::into_raw_fd); // the kernel's to close: soon the number may be another's
        }
    }

    /// Gives the descriptor out of a slot for which nothing flies, and ends the slot.
    pub(in crate::uring) fn take_socket(&mut self, key: Key) -> Option<Socket> {
        let slot = self.slot(key)?;
        if !slot.flying.is_empty() {
            return None;
        }
        let socket = slot.socket.take();
        slot.token = None;
        self.state.release(key.index);
        socket
    }

    /// The next piece that has arrived, and whether there may be more, or the end.
    #[inline]
    pub(in crate::uring) fn receive(&mut self, key: Key) -> io::Result<Arrival> {
        let slot = self.slot(key).ok_or_else(gone)?;
        let receiving = slot.flying.has(Kind::Receive);
        let stream = slot.stream()?;
        let (end, bulk, mut place) = (stream.end, stream.bulk, stream.inbox);
        let Some(inbox) = self.state.inboxes.get(place) else {
            return match end {
                Some(End::Closed) => Ok(Arrival::End),
                Some(End::Failed(code)) => Err(io::Error::from_raw_os_error(code)),
                None if bulk && !receiving => Ok(Arrival::Look),
                None => Err(io::ErrorKind::WouldBlock.into()),
            };
        };
        let was_full = inbox.is_full();
        let piece = inbox.pop().unwrap_or_default();
        if was_full && !inbox.is_full() {
            self.state.mark(key.index);
        } else if inbox.bytes() == 0 {
            drop(self.state.inboxes.take(&mut place));
            if let Some(Ok(stream)) = self.slot(key).map(Slot::stream) {
                stream.inbox = place;
            }
        }
        Ok(Arrival::Piece(piece, !place.is_nowhere() || end.is_some() || bulk))
    }
}

impl State {
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let live = (0..).zip(&self.slots).filter(|(_, slot)| !slot.is_ending());
        live.map(|(index, slot)| Key { index, generation: slot.generation })
    }

    pub(super) fn slots_with_something_flying(&self) -> impl Iterator<Item = Key> + '_ {
        let flying = (0..).zip(&self.slots).filter(|(_, slot)| !slot.flying.is_empty());
        flying.map(|(index, slot)| Key { index, generation: slot.generation })
    }

    pub(super) fn mark(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        if !std::mem::replace(&mut slot.dirty, true) {
            self.dirty.push(index);
        }
    }

    #[inline]
    pub(super) fn touch(&mut self, index: u32, ready: Ready) {
        let slot = &mut self.slots[index as usize];
        slot.told |= ready;
        if !std::mem::replace(&mut slot.touched, true) {
            self.touched.push(index);
        }
    }

    /// A slot that nobody has and for which nothing flies is free for another.
    pub(super) fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.is_ending() && slot.flying.is_empty());
        drop(slot.socket.take());
        slot.generation = (slot.generation + 1) % GENERATIONS;
        slot.role = Role::Free(self.free);
        self.free = index;
        self.registered -= 1;
    }
}
