//! Starts operations, reaps what completed, and sees to it that the end waits for the kernel.
//!
//! ```text
//!   sources ── start, cancel, close ─▶ submission queue        dirty: slots to look at before the kernel is entered
//!   turn:  steer the dirty ─▶ provide buffers ─▶ enter ─▶ reap ─▶ tell the touched
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `slots.rs` | registrations: they come, are looked at, touched, and go |
//! | `operations.rs` | what is queued for the kernel: started, sent, cancelled |
//! | `turn.rs` | one turn: wants become operations, completions become events |
//! | `completions.rs` | what a completion means to its slot |
//! | `files.rs` | operations on files: those that wait, those under way |
//! | `end.rs` | taking everything back: for another ring, and for good |
//!
//! Always true between turns:
//! 1. `in_flight` is the number of slots' operations, wake-ups, zero-copy sends and file operations whose last completion is not reaped.
//! 2. An operation that the submission queue had no room for waits in `backlog`, and all later ones behind it.
//! 3. A slot without a token and with nothing flying is free.

mod completions;
mod end;
mod files;
mod operations;
mod slots;
mod turn;

use super::{
    UringFigures, UringSettings,
    buffers::Buffers,
    memory::{Gathered, Sending},
    ring::Ring,
    slot::{Descriptor, Inbox, Key, Pool, Slot},
};
use files::FileTable;
use io_uring::squeue;
use std::collections::VecDeque;

/// Ends the list of free slots.
const NONE: u32 = u32::MAX;

/// Events of a stream that nobody reads: its peer's end.
const PEER_GONE: u32 = (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as u32;
/// Events of a stream whose source receives by itself.
const SOMETHING: u32 =
    (libc::POLLIN | libc::POLLPRI | libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as u32;
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
    files: FileTable,
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
            files: FileTable::new(settings),
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
            files_in_flight: state.files.in_flight(),
            files_waiting: state.files.waiting(),
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
}
