//! What a completion means to its slot: something has arrived, was taken, was accepted, or has ended.
//!
//! Always true: a completion finds its slot by index, generation and kind; one that finds none is a stray, and gives its
//! buffer back (rule 3 of `uring`).

use super::{BROKEN, SOMETHING, State, turn::ACCEPTED_MAX};
use crate::uring::{
    memory::Sending,
    slot::{End, Inbox, Key, Kind, Role},
};
use io_uring::cqueue;
use netwright_core::driver::Ready;
use socket2::Socket;
use std::os::fd::{FromRawFd, OwnedFd};

/// With so much in one turn, a system call costs nothing beside the copy, and a buffer that is still in the cache is worth
/// more than a saved call: the source receives by itself. Measured with 16 connections of 16 KiB: 1.2 of the readiness
/// backend's time by receives into the ring's buffers, 1.0 like this.
const BULK_FROM: usize = 8 * 1024;
/// Lists for gathering that are kept for the next send.
const GATHERED_KEPT: usize = 64;

impl State {
    #[inline]
    pub(super) fn complete(&mut self, name: u64, result: i32, flags: u32) {
        let (key, kind) = Key::of(name);
        let kind = match kind {
            Some(Kind::Cancel) => return,
            Some(Kind::Wake) => return self.wake(flags),
            Some(Kind::ZeroCopy) => return self.zero_copy(key.index, result, flags),
            Some(Kind::File) => return self.file_moved(key, result, flags),
            Some(kind) => kind,
            None => return self.stray(flags),
        };
        let last = !cqueue::more(flags);
        let Some(slot) = self.slots.get_mut(key.index as usize) else { return self.stray(flags) };
        if slot.generation != key.generation || !slot.flying.has(kind) {
            return self.stray(flags);
        }
        if last {
            slot.flying.remove(kind);
            slot.cancelled.remove(kind);
            self.in_flight -= 1;
        }
        match kind {
            Kind::Receive => self.received(key.index, result, flags, last),
            Kind::Send => self.sent(key.index, result),
            Kind::Watch => self.watched(key.index, result, last),
            Kind::Readable => self.readable(key.index, result, last),
            Kind::Room => self.room(key.index, result, last),
            Kind::Accept => self.accepted(key.index, result, last),
            Kind::Connect => self.connected(key.index, result),
            Kind::Close | Kind::Cancel | Kind::Wake | Kind::ZeroCopy | Kind::File => {}
        }
        let slot = &self.slots[key.index as usize];
        if slot.is_ending() && slot.flying.is_empty() {
            self.release(key.index);
        }
    }

    /// Nobody knows what completed.
    #[cold]
    pub(super) fn stray(&mut self, flags: u32) {
        self.figures.strays += 1;
        tracing::error!("a completion came that nothing was waiting for");
        if let Some(number) = cqueue::buffer_select(flags) {
            self.buffers.come_back(number);
        }
    }

    fn wake(&mut self, flags: u32) {
        self.woken = true;
        if !cqueue::more(flags) {
            self.wake_armed = false;
            self.in_flight -= 1;
        }
    }

    #[inline]
    fn received(&mut self, index: u32, result: i32, flags: u32, last: bool) {
        let number = cqueue::buffer_select(flags);
        if let (Ok(filled @ 1..), Some(number)) = (usize::try_from(result), number) {
            let bytes = self.buffers.take(number, filled);
            let slot = &mut self.slots[index as usize];
            if slot.is_ending() {
                return;
            }
            if let Role::Stream(stream) = &mut slot.role {
                if stream.inbox.is_nowhere() {
                    stream.inbox = self.inboxes.put(Inbox::default());
                }
                let (mut bulk, mut full) = (false, false);
                if let Some(inbox) = self.inboxes.get(stream.inbox) {
                    inbox.push(bytes);
                    bulk = !stream.bulk && inbox.bytes() >= BULK_FROM;
                    full = inbox.is_full();
                }
                stream.bulk |= bulk;
                if last || bulk || full {
                    self.mark(index);
                }
            }
            return self.touch(index, Ready::READ);
        }
        if let Some(number) = number {
            self.buffers.come_back(number);
        }
        let (end, ready) = match -result {
            0 => (End::Closed, Ready::READ | Ready::READ_CLOSED),
            libc::ECANCELED | libc::EINTR | libc::EAGAIN => return self.mark(index),
            libc::ENOBUFS => {
                self.buffers.note_exhausted();
                return self.mark(index);
            }
            _ => (End::Failed(-result), Ready::READ | Ready::READ_CLOSED | Ready::ERROR),
        };
        if let Role::Stream(stream) = &mut self.slots[index as usize].role {
            stream.end = Some(end);
            stream.end_told = matches!(end, End::Failed(_));
        }
        self.touch(index, ready);
        self.mark(index);
    }

    #[inline]
    fn sent(&mut self, index: u32, result: i32) {
        let slot = &mut self.slots[index as usize];
        let ending = slot.is_ending();
        let Role::Stream(stream) = &mut slot.role else { return };
        let no_room = result == -libc::EAGAIN && !ending && !stream.closing;
        if !no_room {
            stream.sent = Some(result);
        }
        let memory = self.sends.take(&mut stream.sending);
        self.let_go(memory, ending);
        if no_room {
            return self.found_no_room(index);
        }
        self.touch(index, Ready::WRITE);
    }

    /// Nothing of a send was taken: its source is told when there is room.
    #[cold]
    fn found_no_room(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let watches = slot.flying.has(Kind::Room);
        if let Role::Stream(stream) = &mut slot.role {
            stream.waits_for_room = true;
        }
        self.touch(index, Ready::NONE); // whoever watches the peer's pace begins now
        if !watches {
            self.mark(index);
        }
    }

    #[inline]
    fn let_go(&mut self, memory: Sending, last: bool) {
        match memory {
            Sending::Many(mut gathered) if !last => {
                // Not the last holders: the outbound queue has them too.
                gathered.clear();
                if self.gathered.len() < GATHERED_KEPT {
                    self.gathered.push(gathered);
                }
            }
            memory if last => self.left_behind.push(memory),
            _ => {}
        }
    }

    fn zero_copy(&mut self, place: u32, result: i32, flags: u32) {
        let Some(Some(send)) = self.zero_copies.get(place as usize) else { return self.stray(flags) };
        let owner = send.owner;
        if !cqueue::more(flags) {
            // The notification, or a send that failed: the kernel has no more to do with the memory.
            let memory = self.zero_copies[place as usize].take().map(|send| send.memory);
            self.left_behind.extend(memory);
            self.in_flight -= 1;
        }
        if cqueue::notif(flags) {
            return;
        }
        let Some(slot) = self.slots.get_mut(owner.index as usize) else { return };
        if slot.generation != owner.generation || !slot.flying.has(Kind::Send) {
            return self.stray(0);
        }
        slot.flying.remove(Kind::Send);
        slot.cancelled.remove(Kind::Send);
        self.sent(owner.index, result);
        let slot = &self.slots[owner.index as usize];
        if slot.is_ending() && slot.flying.is_empty() {
            self.release(owner.index);
        }
    }

    fn readable(&mut self, index: u32, result: i32, last: bool) {
        if last {
            self.mark(index);
        }
        if let Ok(mask) = u32::try_from(result) {
            self.touch(index, incoming(mask & SOMETHING));
        }
    }

    fn room(&mut self, index: u32, result: i32, last: bool) {
        // An end of the peer's output comes along uncalled for, and is no room.
        let ended = result < 0 || result as u32 & (libc::POLLOUT | libc::POLLHUP | libc::POLLERR) as u32 != 0;
        if let Role::Stream(stream) = &mut self.slots[index as usize].role
            && ended
            && std::mem::take(&mut stream.waits_for_room)
        {
            stream.sent = Some(0);
            self.touch(index, Ready::WRITE);
        } else if last {
            self.mark(index); // it was to last, but completions had no room: whoever still waits gets another
        }
    }

    fn watched(&mut self, index: u32, result: i32, last: bool) {
        if last {
            self.mark(index);
        }
        let Ok(mask) = u32::try_from(result) else { return };
        let slot = &mut self.slots[index as usize];
        let receiving = slot.flying.has(Kind::Receive);
        if let Role::Stream(stream) = &mut slot.role {
            if receiving || mask & BROKEN == 0 && stream.end.is_some() {
                return; // the receive tells, or has told
            }
            stream.end_told = true;
            return self.touch(index, incoming(mask));
        }
        self.touch(index, ready(mask));
    }

    #[allow(unsafe_code)]
    fn accepted(&mut self, index: u32, result: i32, last: bool) {
        if last {
            self.mark(index);
        }
        let slot = &mut self.slots[index as usize];
        if result >= 0 {
            // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
            let socket = Socket::from(unsafe { OwnedFd::from_raw_fd(result) });
            if slot.is_ending() {
                return;
            }
            let mut full = false;
            if let Role::Listener(listener) = &mut slot.role {
                listener.accepted.push_back(socket);
                full = listener.accepted.len() == ACCEPTED_MAX;
            }
            if full {
                self.mark(index); // so that the operation is ended until these are taken
            }
            return self.touch(index, Ready::READ);
        }
        match -result {
            libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
            _ => {
                if let Role::Listener(listener) = &mut slot.role {
                    listener.error = Some(-result);
                }
                self.touch(index, Ready::READ);
            }
        }
    }

    fn connected(&mut self, index: u32, result: i32) {
        if let Role::Connecting(connecting) = &mut self.slots[index as usize].role {
            connecting.result = Some(result.min(0)); // a mask of events means that it has ended
        }
        self.touch(index, Ready::WRITE);
    }
}

/// What a mask of events means to a source.
fn ready(mask: u32) -> Ready {
    let mut ready = incoming(mask);
    if mask & (libc::POLLOUT | libc::POLLERR) as u32 != 0 {
        ready |= Ready::WRITE;
    }
    ready
}

/// The same to a stream, to which [`Ready::WRITE`] means that a send, or a wait for room, has ended: what breaks a
/// connection ends these too, and then they say so themselves. Told before that, it would be taken for their end, and
/// nobody would wait for them any more.
fn incoming(mask: u32) -> Ready {
    let has = |event: libc::c_short| mask & event as u32 != 0;
    let mut ready = Ready::NONE;
    if has(libc::POLLIN) {
        ready |= Ready::READ;
    }
    if has(libc::POLLPRI) {
        ready |= Ready::READ | Ready::URGENT;
    }
    if has(libc::POLLRDHUP) || has(libc::POLLHUP) {
        ready |= Ready::READ | Ready::READ_CLOSED;
    }
    if has(libc::POLLERR) {
        ready |= Ready::READ | Ready::ERROR;
    }
    ready
}
