//! Starts operations, reaps what completed, and sees to it that the end waits for the kernel.
//!
//! ```text
//!   sources ── start, cancel, close ─▶ submission queue        dirty: slots to look at before the kernel is entered
//!   turn:  steer the dirty ─▶ provide buffers ─▶ enter ─▶ reap ─▶ tell the touched
//! ```
//! Always true between turns:
//! 1. `in_flight` is the number of slots' operations, wake-ups and zero-copy sends whose last completion is not reaped.
//! 2. An operation that the submission queue had no room for waits in `backlog`, and all later ones behind it.
//! 3. A slot without a token and with nothing flying is free.

use super::{
    UringFigures, UringSettings,
    buffers::Buffers,
    extension::Arrival,
    memory::{Gathered, Sending},
    ring::{Entered, GROUP, Ring, Wait},
    slot::{
        Connecting, Descriptor, End, GENERATIONS, Inbox, Key, Kind, Kinds, Listener, Place, Pool, Role, Slot,
        gone,
    },
};
use io_uring::{cqueue, opcode, squeue, types};
use netwright_core::driver::{Event, Ready, Token};
use socket2::Socket;
use std::{
    collections::VecDeque,
    io,
    os::fd::{FromRawFd, IntoRawFd, OwnedFd},
    time::{Duration, Instant},
};

/// Ends the list of free slots.
const NONE: u32 = u32::MAX;
/// Connections that may wait for one listener before its accept rests.
const ACCEPTED_MAX: usize = 1024;
/// With so much in one turn, a system call costs nothing beside the copy, and a buffer that is still in the cache is worth
/// more than a saved call: the source receives by itself. Measured with 16 connections of 16 KiB: 1.2 of the readiness
/// backend's time by receives into the ring's buffers, 1.0 like this.
const BULK_FROM: usize = 8 * 1024;
/// How long the kernel has to give everything back. Cancelling takes microseconds.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Lists for gathering that are kept for the next send.
const GATHERED_KEPT: usize = 64;

/// Events of a stream that nobody reads: its peer's end.
const PEER_GONE: u32 = (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as u32;
/// Events of a stream whose source receives by itself.
const SOMETHING: u32 = (libc::POLLIN | libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as u32;
/// Events of a stream whose end was read.
const BROKEN: u32 = (libc::POLLHUP | libc::POLLERR) as u32;

/// The ring of one loop and all that belongs to it. The ring is declared, and so dropped, before what it refers to.
pub(super) struct Engine {
    ring: Ring,
    state: State,
}

/// All but the ring, so that completions can be reaped into it.
struct State {
    slots: Vec<Slot>,
    free: u32,
    registered: usize,
    buffers: Buffers,
    inboxes: Pool<Inbox>,
    sends: Pool<Sending>,
    zero_copies: Vec<Option<ZeroCopy>>,
    backlog: VecDeque<squeue::Entry>,
    dirty: Vec<u32>,
    touched: Vec<u32>,
    /// What sources wrote and nobody waits for any more: dropped while nothing is borrowed, because that may call them.
    left_behind: Vec<Sending>,
    #[allow(clippy::vec_box)] // moved from here to a slot as they are, header and all
    gathered: Vec<Box<Gathered>>,
    waker: Descriptor,
    wake_armed: bool,
    woken: bool,
    /// Cancels and closes since the last enter: their completions are nobody's events.
    own_affairs: bool,
    zero_copy_from: usize,
    in_flight: usize,
    figures: UringFigures,
}

/// A send whose memory the kernel refers to until the peer has it.
struct ZeroCopy {
    memory: Sending,
    owner: Key,
}

impl Engine {
    /// For a ring that was enabled by this thread.
    pub(super) fn new(ring: Ring, buffers: Buffers, waker: Descriptor, settings: &UringSettings) -> Self {
        let state = State {
            slots: Vec::new(),
            free: NONE,
            registered: 0,
            buffers,
            inboxes: Pool::new(),
            sends: Pool::new(),
            zero_copies: Vec::new(),
            backlog: VecDeque::new(),
            dirty: Vec::new(),
            touched: Vec::new(),
            left_behind: Vec::new(),
            gathered: Vec::new(),
            waker,
            wake_armed: false,
            woken: false,
            own_affairs: false,
            zero_copy_from: settings.zero_copy_from,
            in_flight: 0,
            figures: UringFigures::default(),
        };
        Self { ring, state }
    }

    pub(super) fn registered(&self) -> usize {
        self.state.registered
    }

    pub(super) fn zero_copy_from(&self) -> usize {
        self.state.zero_copy_from
    }

    pub(super) fn mode(&self) -> &'static str {
        self.ring.mode()
    }

    pub(super) fn figures(&mut self) -> UringFigures {
        let state = &mut self.state;
        UringFigures {
            registered: state.registered,
            in_flight: state.in_flight,
            buffers: state.buffers.count(),
            buffers_provided: state.buffers.provided(),
            buffers_lent: state.buffers.lent(),
            exhausted: state.buffers.exhausted(),
            ..state.figures
        }
    }

    /// To be dropped by whoever holds no borrow.
    #[must_use]
    pub(super) fn take_left_behind(&mut self) -> Option<Vec<Sending>> {
        (!self.state.left_behind.is_empty()).then(|| std::mem::take(&mut self.state.left_behind))
    }

    // ---- registrations ----

    pub(super) fn insert(&mut self, token: Token, socket: Option<Socket>, role: Role) -> Key {
        let state = &mut self.state;
        let fresh = |generation| Slot {
            generation,
            flying: Kinds::default(),
            cancelled: Kinds::default(),
            told: Ready::NONE,
            dirty: false,
            touched: false,
            lingers: false,
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

    pub(super) fn take_gathered(&mut self) -> Box<Gathered> {
        self.state.gathered.pop().unwrap_or_else(Gathered::new)
    }

    pub(super) fn slot(&mut self, key: Key) -> Option<&mut Slot> {
        let slot = self.state.slots.get_mut(key.index as usize)?;
        (slot.generation == key.generation && !slot.is_ending()).then_some(slot)
    }

    /// Has the slot looked at before the kernel is entered next.
    pub(super) fn mark(&mut self, key: Key) {
        self.state.mark(key.index);
    }

    /// The source leaves. What flies is cancelled, what was queued before goes out as far as the socket takes it at once, and
    /// the descriptor is closed behind all that.
    pub(super) fn close(&mut self, key: Key, lingers: bool) {
        let Some(slot) = self.slot(key) else { return };
        slot.token = None;
        slot.lingers = lingers;
        slot.told = Ready::NONE;
        let mut inbox = Place::default();
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
        if owns && !lingers {
            self.start(key, Kind::Close);
            let socket = self.state.slots[key.index as usize].socket.take();
            socket.map(IntoRawFd::into_raw_fd); // the kernel's to close: soon the number may be another's
        }
    }

    /// Gives the descriptor out of a slot for which nothing flies, and ends the slot.
    pub(super) fn take_socket(&mut self, key: Key) -> Option<Socket> {
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
    pub(super) fn receive(&mut self, key: Key) -> io::Result<Arrival> {
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

    // ---- operations ----

    /// Queues an operation of a slot, described by what the slot holds.
    pub(super) fn start(&mut self, key: Key, kind: Kind) {
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
    pub(super) fn send(&mut self, key: Key, memory: Sending) {
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
    pub(super) fn cancel(&mut self, key: Key, kind: Kind) {
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

    fn push_cancel(&mut self, name: u64) {
        self.state.own_affairs = true;
        let entry = opcode::AsyncCancel::new(name).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push(entry.user_data(Key { index: 0, generation: 0 }.name(Kind::Cancel)));
    }

    #[allow(unsafe_code)]
    fn push(&mut self, entry: squeue::Entry) {
        if self.state.backlog.is_empty() {
            // SAFETY: `start`, `send`, `arm_waker` and `push_cancel` alone call this. The addresses in their entries are those of memory that
            // the slot or a table of sends holds, and lets go only when the operation's last completion is reaped (rule 1).
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
    fn push_backlog(&mut self) {
        while let Some(entry) = self.state.backlog.front() {
            // SAFETY: as in `push`, which put it here: its operation counts as flying since then.
            if !unsafe { self.ring.push(entry) } {
                break;
            }
            self.state.backlog.pop_front();
        }
    }

    // ---- the turn ----

    /// One turn: returns after `timeout` at the latest, or when there is an event, or a wake-up.
    #[inline]
    pub(super) fn turn(&mut self, timeout: Option<Duration>, mut each: impl FnMut(Event)) -> io::Result<()> {
        let clock = self.state.own_affairs || !self.state.dirty.is_empty();
        let begun = (clock && timeout.is_some_and(|limit| !limit.is_zero())).then(Instant::now);
        let mut left = timeout;
        loop {
            self.prepare();
            let at_once = left == Some(Duration::ZERO) || !self.state.touched.is_empty();
            let reaped = self.enter(if at_once { Wait::Not } else { Wait::AtMost(left) })?;
            let told = self.state.tell(&mut each);
            let woken = std::mem::take(&mut self.state.woken);
            if told || woken || reaped == 0 || at_once {
                return Ok(());
            }
            // Only our own affairs: the loop need not know.
            left = match (timeout, begun) {
                (None, _) => None,
                (Some(limit), Some(begun)) => match limit.checked_sub(begun.elapsed()) {
                    Some(left) if !left.is_zero() => Some(left),
                    _ => return Ok(()),
                },
                (Some(_), None) => return Ok(()),
            };
        }
    }

    #[inline]
    fn prepare(&mut self) {
        if !self.state.backlog.is_empty() {
            self.push_backlog();
        }
        if !self.state.wake_armed {
            self.arm_waker();
        }
        while let Some(index) = self.state.dirty.pop() {
            self.steer(index);
        }
        self.state.buffers.provide();
    }

    fn arm_waker(&mut self) {
        self.state.wake_armed = true;
        self.state.in_flight += 1;
        // Never read, so always readable: what counts is that every write to it completes the operation once more.
        let entry =
            opcode::PollAdd::new(types::Fd(self.state.waker), libc::POLLIN as u32).multi(true).build();
        self.push(entry.user_data(Key { index: 0, generation: 0 }.name(Kind::Wake)));
    }

    #[inline]
    fn enter(&mut self, wait: Wait) -> io::Result<usize> {
        let queued = self.ring.queued();
        if self.ring.enter(wait)? == Entered::Done {
            self.state.figures.enters += 1;
            self.state.figures.submissions += (queued - self.ring.queued()) as u64;
        }
        self.state.own_affairs = false;
        Ok(self.reap())
    }

    #[inline]
    fn reap(&mut self) -> usize {
        let mut reaped = 0;
        for completion in self.ring.completions() {
            reaped += 1;
            self.state.complete(completion.user_data(), completion.result(), completion.flags());
        }
        self.state.figures.completions += reaped as u64;
        if self.ring.overflown() {
            self.state.figures.overflows += 1;
        }
        reaped
    }

    /// Brings what flies for a slot in line with what its source wants.
    fn steer(&mut self, index: u32) {
        let Some(slot) = self.state.slots.get_mut(index as usize) else { return };
        slot.dirty = false;
        if slot.is_ending() {
            return;
        }
        let key = Key { index, generation: slot.generation };
        let (kind, wants) = match &slot.role {
            Role::Stream(stream) => {
                let (kind, other) = match stream.bulk {
                    true => (Kind::Readable, Kind::Receive),
                    false => (Kind::Receive, Kind::Readable),
                };
                let full = self.state.inboxes.get(stream.inbox).is_some_and(|inbox| inbox.is_full());
                let wants = stream.wants_read && stream.end.is_none() && !full;
                if slot.flying.has(other) {
                    return self.cancel(key, other); // when it has ended, this slot is looked at again
                }
                (kind, wants)
            }
            Role::Listener(listener) => (
                Kind::Accept,
                listener.wants && listener.error.is_none() && listener.accepted.len() < ACCEPTED_MAX,
            ),
            Role::Watched(..) => (Kind::Watch, true),
            Role::Connecting(_) | Role::Free(_) => return,
        };
        let flies = slot.flying.has(kind);
        // While nobody reads, somebody has to notice that the peer has gone.
        let watch = matches!(&slot.role, Role::Stream(stream) if !wants && !stream.end_told)
            && !flies
            && !slot.flying.has(Kind::Watch);
        match (wants, flies) {
            (true, false) => self.start(key, kind),
            (false, true) => self.cancel(key, kind),
            _ if watch => self.start(key, Kind::Watch),
            _ => {}
        }
    }

    // ---- the end ----

    /// Goes on with another ring, which was enabled by this thread and has `buffers` registered. Everything that flies is
    /// taken back from the old ring first; what had completed stays, what had not is started again.
    pub(super) fn move_to(&mut self, ring: Ring, buffers: Buffers) -> io::Result<usize> {
        if !self.drain() {
            let text = format!("the kernel keeps {} operations of the old ring", self.state.in_flight);
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        self.ring = ring; // the old one is dropped here, and refers to nothing any more
        self.state.buffers.move_to(buffers);
        self.state.backlog.clear(); // cancels of operations that are over
        let keys: Vec<Key> = self.state.keys().collect();
        keys.into_iter().for_each(|key| self.start_again(key));
        self.arm_waker();
        self.state.woken = true; // a wake-up may have gone to the old ring
        Ok(self.state.registered)
    }

    /// What was received, accepted or sent is told as if it were new. A send that was cancelled has taken nothing, as far as
    /// its source is concerned, who sends the rest anew.
    fn start_again(&mut self, key: Key) {
        let Some(slot) = self.slot(key) else { return };
        let (mut ready, mut connect) = (Ready::NONE, false);
        match &mut slot.role {
            Role::Stream(stream) => {
                if !stream.inbox.is_nowhere() || stream.end.is_some() {
                    ready |= Ready::READ;
                }
                if stream.sent.is_some() {
                    ready |= Ready::WRITE;
                }
            }
            Role::Listener(listener) if !listener.accepted.is_empty() => ready |= Ready::READ,
            Role::Connecting(connecting) if connecting.result == Some(-libc::ECANCELED) => {
                (connecting.begun, connecting.result) = (true, None);
                slot.told = Ready::NONE;
                connect = true;
            }
            _ => {}
        }
        self.state.touch(key.index, ready);
        if connect {
            self.start(key, Kind::Connect);
        }
        self.mark(key);
    }

    /// Takes everything back from the kernel. False if it does not give everything back in time.
    pub(super) fn drain(&mut self) -> bool {
        let begun = Instant::now();
        let keys: Vec<Key> = self.state.slots_with_something_flying().collect();
        for key in keys {
            Kind::OF_SLOTS.into_iter().for_each(|kind| self.cancel(key, kind));
        }
        if self.state.wake_armed {
            self.push_cancel(Key { index: 0, generation: 0 }.name(Kind::Wake));
        }
        while self.state.in_flight > 0 {
            let Some(left) = DRAIN_MAX.checked_sub(begun.elapsed()) else { return false };
            self.push_backlog();
            if self.enter(Wait::AtMost(Some(left.min(Duration::from_millis(100))))).is_err() {
                return false;
            }
        }
        true
    }

    /// The end. What the kernel does not give back is leaked, on purpose (rule 4).
    pub(super) fn end(mut self) {
        if !self.drain() {
            let operations = self.state.in_flight;
            tracing::error!(
                operations,
                "the kernel did not give operations back in time; their memory is leaked"
            );
            std::mem::forget(self);
        }
    }
}

impl State {
    fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let live = (0..).zip(&self.slots).filter(|(_, slot)| !slot.is_ending());
        live.map(|(index, slot)| Key { index, generation: slot.generation })
    }

    fn slots_with_something_flying(&self) -> impl Iterator<Item = Key> + '_ {
        let flying = (0..).zip(&self.slots).filter(|(_, slot)| !slot.flying.is_empty());
        flying.map(|(index, slot)| Key { index, generation: slot.generation })
    }

    fn mark(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        if !std::mem::replace(&mut slot.dirty, true) {
            self.dirty.push(index);
        }
    }

    #[inline]
    fn touch(&mut self, index: u32, ready: Ready) {
        let slot = &mut self.slots[index as usize];
        slot.told |= ready;
        if !std::mem::replace(&mut slot.touched, true) {
            self.touched.push(index);
        }
    }

    /// Passes on what sources have to know, in the order in which it began. True if there was anything.
    #[inline]
    fn tell(&mut self, each: &mut impl FnMut(Event)) -> bool {
        let mut told = false;
        for index in self.touched.drain(..) {
            let slot = &mut self.slots[index as usize];
            slot.touched = false;
            let ready = std::mem::take(&mut slot.told);
            if let Some(token) = slot.token
                && ready != Ready::NONE
            {
                each(Event { token, ready });
                told = true;
            }
        }
        told
    }

    /// A slot that nobody has and for which nothing flies is free for another.
    fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.is_ending() && slot.flying.is_empty());
        if let Some(socket) = slot.socket.take() {
            if slot.lingers { close_elsewhere(socket) } else { drop(socket) }
        }
        slot.generation = (slot.generation + 1) % GENERATIONS;
        slot.role = Role::Free(self.free);
        self.free = index;
        self.registered -= 1;
    }

    // ---- completions ----

    #[inline]
    fn complete(&mut self, name: u64, result: i32, flags: u32) {
        let (key, kind) = Key::of(name);
        let kind = match kind {
            Some(Kind::Cancel) => return,
            Some(Kind::Wake) => return self.wake(flags),
            Some(Kind::ZeroCopy) => return self.zero_copy(key.index, result, flags),
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
            Kind::Room => self.room(key.index, result),
            Kind::Accept => self.accepted(key.index, result, last),
            Kind::Connect => self.connected(key.index, result),
            Kind::Close | Kind::Cancel | Kind::Wake | Kind::ZeroCopy => {}
        }
        let slot = &self.slots[key.index as usize];
        if slot.is_ending() && slot.flying.is_empty() {
            self.release(key.index);
        }
    }

    /// Nobody knows what completed.
    #[cold]
    fn stray(&mut self, flags: u32) {
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
        stream.sent = Some(result);
        let memory = self.sends.take(&mut stream.sending);
        self.let_go(memory, ending);
        self.touch(index, Ready::WRITE);
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
            self.touch(index, ready(mask & SOMETHING));
        }
    }

    fn room(&mut self, index: u32, result: i32) {
        // An end of the peer's output comes along uncalled for, and is no room.
        let ended = result < 0 || result as u32 & (libc::POLLOUT | libc::POLLHUP | libc::POLLERR) as u32 != 0;
        if let Role::Stream(stream) = &mut self.slots[index as usize].role
            && ended
            && std::mem::take(&mut stream.waits_for_room)
        {
            stream.sent = Some(0);
            self.touch(index, Ready::WRITE);
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
            if let Role::Listener(listener) = &mut slot.role {
                listener.accepted.push_back(socket);
            }
            return self.touch(index, Ready::READ);
        }
        match -result {
            libc::ECANCELED | libc::EINTR | libc::EAGAIN | libc::ECONNABORTED => {}
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
    let has = |event: libc::c_short| mask & event as u32 != 0;
    let mut ready = Ready::NONE;
    if has(libc::POLLIN) {
        ready |= Ready::READ;
    }
    if has(libc::POLLOUT) {
        ready |= Ready::WRITE;
    }
    if has(libc::POLLRDHUP) || has(libc::POLLHUP) {
        ready |= Ready::READ | Ready::READ_CLOSED;
    }
    if has(libc::POLLERR) {
        ready |= Ready::READ | Ready::WRITE | Ready::ERROR;
    }
    ready
}

/// Closing a socket that lingers may block until the peer has everything: not on a loop.
fn close_elsewhere(socket: Socket) {
    let closer = std::thread::Builder::new().name("netwright-linger".to_owned());
    // Without a thread it is closed here after all: late is better than never.
    let _ = closer.spawn(move || drop(socket));
}
