//! What is queued for the kernel: operations that are started, sends, and cancels.
//!
//! Memory whose address is in an entry is held by the slot or by a table of sends before the entry is queued (rule 1 of
//! `uring`).

use super::{BROKEN, Engine, PEER_GONE, SOMETHING, ZeroCopy};
use crate::uring::{
    memory::Sending,
    ring::{GROUP, Wait},
    slot::{Connecting, Key, Kind, Role, Slot},
};
use io_uring::{opcode, squeue, types};

impl Engine {
    /// Queues an operation of a slot, described by what the slot holds.
    pub(in crate::uring) fn start(&mut self, key: Key, kind: Kind) {
        let Some(slot) = self.state.slots.get_mut(key.index as usize) else { return };
        debug_assert!(!slot.flying.has(kind), "{kind:?} of {key:?} flies already");
        slot.flying.insert(kind);
        let descriptor = slot.descriptor();
        let fd = types::Fd(descriptor);
        let entry = match (kind, &slot.role) {
            (Kind::Receive, _) => opcode::RecvMulti::new(fd, GROUP).build(),
            (Kind::Accept, _) => {
                opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).build()
            }
            (Kind::Close, _) => {
                self.state.own_affairs = true;
                opcode::Close::new(fd).build()
            }
            (Kind::Send, Role::Stream(stream)) => match self.state.sends.get(stream.sending) {
                Some(sending) => sending.entry(descriptor),
                None => opcode::Nop::new().build(),
            },
            (Kind::Watch, Role::Stream(stream)) => match stream.end {
                None => opcode::PollAdd::new(fd, PEER_GONE).build(),
                // That the peer has ended is told whether one asks for it or not, so this one has to last.
                Some(_) => opcode::PollAdd::new(fd, BROKEN).multi(true).build(),
            },
            (Kind::Room, _) => opcode::PollAdd::new(fd, libc::POLLOUT as u32).multi(true).build(),
            (Kind::Readable, _) => opcode::PollAdd::new(fd, SOMETHING).multi(true).build(),
            (Kind::Watch, Role::Watched(_, events)) => opcode::PollAdd::new(fd, *events).multi(true).build(),
            (Kind::Connect, Role::Connecting(Connecting { begun: true, .. })) => {
                opcode::PollAdd::new(fd, libc::POLLOUT as u32).build()
            }
            (Kind::Connect, Role::Connecting(Connecting { address, .. })) => {
                opcode::Connect::new(fd, address.as_ptr().cast(), address.len()).build()
            }
            _ => opcode::Nop::new().build(), // completes, and is ignored
        };
        self.state.in_flight += 1;
        self.push(entry.user_data(key.name(kind)));
    }

    /// Sends what is given, if no send of the slot is under way.
    pub(in crate::uring) fn send(&mut self, key: Key, memory: Sending) {
        let zero_copy = memory.len() >= self.state.zero_copy_from;
        let Some(slot) = self.slot(key) else { return };
        let descriptor = slot.descriptor();
        let Ok(stream) = slot.stream() else { return };
        if !zero_copy {
            debug_assert!(stream.sending.is_nowhere());
            let place = self.state.sends.put(memory);
            if let Some(Ok(stream)) = self.slot(key).map(Slot::stream) {
                stream.sending = place;
            }
            return self.start(key, Kind::Send);
        }
        let entry = memory.zero_copy_entry(descriptor);
        let state = &mut self.state;
        let place = state.zero_copies.iter().position(Option::is_none).unwrap_or_else(|| {
            state.zero_copies.push(None);
            state.zero_copies.len() - 1
        });
        state.zero_copies[place] = Some(ZeroCopy { memory, owner: key });
        state.in_flight += 1;
        let place = place as u32; // one for each send in flight: memory runs out long before
        let slot = &mut state.slots[key.index as usize];
        slot.flying.insert(Kind::Send);
        if let Role::Stream(stream) = &mut slot.role {
            stream.sending = state.sends.put(Sending::Elsewhere(place));
        }
        let name = Key { index: place, generation: key.generation }.name(Kind::ZeroCopy);
        self.push(entry.user_data(name));
    }

    /// Asks the kernel to end an operation of a slot; its last completion will still come.
    pub(in crate::uring) fn cancel(&mut self, key: Key, kind: Kind) {
        let Some(slot) = self.state.slots.get_mut(key.index as usize) else { return };
        if !slot.flying.has(kind) || slot.cancelled.has(kind) || kind == Kind::Close {
            return;
        }
        slot.cancelled.insert(kind);
        let name = match &slot.role {
            Role::Stream(stream) => match (kind, self.state.sends.get(stream.sending)) {
                (Kind::Send, Some(Sending::Elsewhere(place))) => {
                    Key { index: *place, generation: key.generation }.name(Kind::ZeroCopy)
                }
                _ => key.name(kind),
            },
            _ => key.name(kind),
        };
        self.push_cancel(name);
    }

    pub(super) fn push_cancel(&mut self, name: u64) {
        self.state.own_affairs = true;
        let entry = opcode::AsyncCancel::new(name).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push(entry.user_data(Key { index: 0, generation: 0 }.name(Kind::Cancel)));
    }

    #[allow(unsafe_code)]
    pub(super) fn push(&mut self, entry: squeue::Entry) {
        if self.state.backlog.is_empty() {
            // SAFETY: `start`, `send`, `start_files`, `arm_waker` and `push_cancel` alone call this. The addresses in their entries are those
            // of memory that the slot, a table of sends or the one of file operations holds, and lets go, or looks at, only when the
            // operation's last completion is reaped (rules 1 and 2).
            if unsafe { self.ring.push(&entry) } {
                return;
            }
            self.submit();
            // SAFETY: as above.
            if unsafe { self.ring.push(&entry) } {
                return;
            }
        }
        self.state.backlog.push_back(entry);
    }

    /// Hands over what is queued in the middle of a turn, because the queue is full.
    #[cold]
    fn submit(&mut self) {
        self.state.figures.submissions += self.ring.queued() as u64;
        self.state.figures.enters += 1;
        if let Err(error) = self.ring.enter(Wait::Not) {
            tracing::warn!(%error, "operations could not be submitted; they wait for the next turn");
        }
        self.state.figures.submissions -= self.ring.queued() as u64;
    }

    #[allow(unsafe_code)]
    pub(super) fn push_backlog(&mut self) {
        while let Some(entry) = self.state.backlog.front() {
            // SAFETY: as in `push`, which put it here: its operation counts as flying since then.
            if !unsafe { self.ring.push(entry) } {
                break;
            }
            self.state.backlog.pop_front();
        }
    }
}
