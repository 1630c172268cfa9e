//! Who wants to hear about which descriptor, for a thread that waits in `poll(2)`.
//!
//! ```text
//!   source ── register, set_interest ──▶ table ── ask ──▶ what poll(2) is asked about each descriptor
//!                                          ▲ └──── tell ◀── what it says
//!                                          └ told: ends and errors that the source knows of
//! ```
//! `poll(2)` keeps saying what stands, so a descriptor is asked about only what its source can use now:
//!
//! | the source | is asked | and told |
//! | --- | --- | --- |
//! | wants to read | bytes, the peer's end | as long as they stand: reading uses them up, or ends the source |
//! | waits for room | room | as long as it stands, likewise |
//! | wants neither | the peer's end | an end, a hang-up and an error once each |
//!
//! Always true between calls:
//! 1. A descriptor whose source wants nothing and knows of a hang-up or an error is left out: the system says those
//!    unasked, and a poll that they end at once would be a spin.
//! 2. The table is sorted by descriptor. It has one or two entries with a thread for each channel, and may have many in
//!    a loop of a group.
//!
//! Why `unsafe`, once: `poll(2)` takes descriptors and sources register theirs by reference, as with the other driver.
//! Owning a duplicate of each would cost every connection a third descriptor. So the table keeps numbers, under the rule
//! that [`Readiness::register`](crate::Readiness::register) has for every driver:
//! - a source deregisters its descriptor before closing it.
//!
//! A source that breaks the rule harms itself: a number that is free is reported by the system and forgotten here, and
//! one that names another descriptor by now is only asked whether it is ready, which changes nothing about it.
//!
//! Loop thread only.

use crate::readiness::{Interest, moved_away, not_registered, registered_already};
use netwright_core::driver::{Event, Ready, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    cell::{Cell, RefCell},
    io,
    os::fd::{BorrowedFd, RawFd},
};

/// The peer sends no more. Only some systems tell; elsewhere a source that does not read learns of it when it does.
#[cfg(any(target_os = "linux", target_os = "android"))]
const READ_END: PollFlags = PollFlags::RDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const READ_END: PollFlags = PollFlags::empty();

/// What the system says unasked.
const UNASKED: PollFlags = PollFlags::HUP.union(PollFlags::ERR);

/// Descriptors, the bell among them, for which a poll needs no allocation.
const FEW: usize = 8;

/// How a poll ended.
pub(super) struct Polled {
    pub(super) events: usize,
    /// What is to be said of the bell.
    pub(super) rang: PollFlags,
}

struct Entry {
    fd: RawFd,
    token: Token,
    reads: bool,
    writes: bool,
    /// Of the end, the hang-up and the error: what the source has heard and, as far as was seen, still stands.
    told: Cell<PollFlags>,
}

/// The table of one loop.
#[derive(Default)]
pub(crate) struct Levels {
    table: RefCell<Vec<Entry>>,
    /// The driver has left this thread.
    left: Cell<bool>,
}

// ---- sources ----

impl Levels {
    pub(crate) fn register(&self, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        if self.left.get() {
            return Err(moved_away());
        }
        let mut table = self.table.borrow_mut();
        match place(&table, fd) {
            Ok(_) => Err(registered_already(fd)),
            Err(at) => {
                table.insert(at, Entry::new(fd, token, interest));
                Ok(())
            }
        }
    }

    pub(crate) fn reregister(&self, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        self.with(fd, |entry| *entry = Entry::new(fd, token, interest))
    }

    pub(crate) fn deregister(&self, fd: RawFd) -> io::Result<()> {
        let mut table = self.table.borrow_mut();
        let at = place(&table, fd).map_err(|_| not_registered(fd))?;
        table.remove(at);
        Ok(())
    }

    pub(crate) fn set_interest(&self, fd: RawFd, reads: bool, writes: bool) -> io::Result<()> {
        self.with(fd, |entry| (entry.reads, entry.writes) = (reads, writes))
    }

    fn with(&self, fd: RawFd, change: impl FnOnce(&mut Entry)) -> io::Result<()> {
        let mut table = self.table.borrow_mut();
        let at = place(&table, fd).map_err(|_| not_registered(fd))?;
        change(&mut table[at]);
        Ok(())
    }
}

fn place(table: &[Entry], fd: RawFd) -> Result<usize, usize> {
    table.binary_search_by_key(&fd, |entry| entry.fd)
}

// ---- the driver ----

impl Levels {
    pub(crate) fn len(&self) -> usize {
        self.table.borrow().len()
    }

    /// Blocks until the bell rings, something is to be told, or the time is over.
    pub(super) fn wait(
        &self,
        bell: BorrowedFd<'_>,
        timeout: Option<&Timespec>,
        mut each: impl FnMut(Event),
    ) -> io::Result<Polled> {
        let table = self.table.borrow();
        let first = PollFd::from_borrowed_fd(bell, PollFlags::IN);
        let mut few: [PollFd<'_>; FEW] = std::array::from_fn(|_| first.clone());
        let mut many = if table.len() < FEW { Vec::new() } else { vec![first; table.len() + 1] };
        let questions = if many.is_empty() { &mut few[..] } else { &mut many[..] };
        let mut asked = 1;
        for entry in &*table {
            if let Some(flags) = entry.question() {
                questions[asked] = PollFd::from_borrowed_fd(entry.borrow_fd(), flags);
                asked += 1;
            }
        }
        let questions = &mut questions[..asked];
        poll(questions, timeout)?;

        let mut polled = Polled { events: 0, rang: questions[0].revents() };
        let (mut answers, mut closed) = (questions[1..].iter(), false);
        // As above: whether an entry was asked about depends on nothing but itself.
        for entry in table.iter().filter(|entry| entry.question().is_some()) {
            let flags = answers.next().map_or(PollFlags::empty(), PollFd::revents);
            if !flags.is_empty()
                && let Some(ready) = entry.answer(flags)
            {
                polled.events += 1;
                closed |= flags.contains(PollFlags::NVAL);
                each(Event { token: entry.token, ready });
            }
        }
        drop(table);
        if closed {
            self.forget_closed();
        }
        Ok(polled)
    }

    #[cold]
    fn forget_closed(&self) {
        let closed = |entry: &Entry| entry.told.get().contains(PollFlags::NVAL);
        for entry in self.table.borrow().iter().filter(|entry| closed(entry)) {
            tracing::warn!(fd = entry.fd, "a source closed its descriptor without deregistering it");
        }
        self.table.borrow_mut().retain(|entry| !closed(entry));
    }

    /// What stands is news again. Returns how many descriptors are registered.
    pub(super) fn forget(&self) -> usize {
        let table = self.table.borrow();
        table.iter().for_each(|entry| entry.told.set(PollFlags::empty()));
        table.len()
    }

    /// From now on every registration is refused.
    pub(super) fn leave(&self) {
        self.left.set(true);
    }
}

impl Entry {
    fn new(fd: RawFd, token: Token, interest: Interest) -> Self {
        let (reads, writes) = (interest.is_readable(), interest.is_writable());
        Self { fd, token, reads, writes, told: Cell::new(PollFlags::empty()) }
    }

    /// What to ask about it; `None`: leave it out.
    fn question(&self) -> Option<PollFlags> {
        let mut flags = PollFlags::empty();
        if self.reads {
            flags |= PollFlags::IN | READ_END;
        }
        if self.writes {
            flags |= PollFlags::OUT;
        }
        let told = self.told.get();
        if flags.is_empty() && told.intersects(UNASKED) {
            return None;
        }
        Some(flags | (READ_END - told))
    }

    /// What the system said, as far as it is of use to the source.
    fn answer(&self, flags: PollFlags) -> Option<Ready> {
        if flags.contains(PollFlags::NVAL) {
            self.told.set(PollFlags::NVAL);
            return Some(Ready::READ | Ready::WRITE | Ready::ERROR);
        }
        let (stands, told) = (flags & (READ_END | UNASKED), self.told.get());
        let news = stands - told;
        // An end that was not asked about stands all the same: the peer does not begin to send again.
        self.told.set((told & READ_END) | stands);
        let of_use = (self.reads && flags.intersects(PollFlags::IN | READ_END | UNASKED))
            || (self.writes && flags.intersects(PollFlags::OUT | UNASKED))
            || !news.is_empty();
        of_use.then(|| ready(flags))
    }

    #[allow(unsafe_code)]
    fn borrow_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as its entry exists, by the rule of the module's header: its source
        // deregisters before it closes. Whoever holds the result holds a borrow of the table, so the entry stays.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

/// An end always counts as something to try: reading finds the end of the stream, writing finds the broken pipe or the
/// refused connect.
fn ready(flags: PollFlags) -> Ready {
    let mut ready = Ready::NONE;
    for (some_of, mean) in [
        (PollFlags::IN | READ_END | PollFlags::HUP, Ready::READ),
        (PollFlags::OUT | UNASKED, Ready::WRITE),
        (READ_END | PollFlags::HUP, Ready::READ_CLOSED),
        (PollFlags::ERR, Ready::ERROR),
    ] {
        if flags.intersects(some_of) {
            ready |= mean;
        }
    }
    ready
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

    fn entry(reads: bool, writes: bool) -> Entry {
        Entry { reads, writes, ..Entry::new(3, Token::from_u64(1 << 32), BOTH) }
    }

    #[test]
    fn a_source_is_asked_about_what_it_can_use_and_always_about_the_end() {
        let (input, output) = (PollFlags::IN, PollFlags::OUT);
        assert_eq!(entry(true, false).question(), Some(input | READ_END));
        assert_eq!(entry(false, true).question(), Some(output | READ_END));
        assert_eq!(entry(true, true).question(), Some(input | output | READ_END));
        assert_eq!(entry(false, false).question(), Some(READ_END));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_source_that_wants_nothing_hears_of_each_end_once_and_is_left_out_when_one_cannot_be_masked() {
        let mut entry = entry(false, false);
        let end = Ready::READ | Ready::READ_CLOSED;
        assert_eq!(entry.answer(PollFlags::RDHUP), Some(end));
        assert_eq!(entry.question(), Some(PollFlags::empty()), "still asked about hang-up and error");
        let reset = PollFlags::HUP | PollFlags::ERR;
        assert_eq!(entry.answer(reset), Some(end | Ready::WRITE | Ready::ERROR));
        assert_eq!(entry.question(), None);
        entry.reads = true;
        assert_eq!(entry.question(), Some(PollFlags::IN | PollFlags::RDHUP), "whoever reads is told again");
        assert!(entry.answer(reset).is_some() && entry.answer(reset).is_some());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_end_that_is_known_does_not_wake_a_source_that_waits_for_room() {
        let entry = entry(false, true);
        assert!(entry.answer(PollFlags::RDHUP).is_some());
        assert_eq!(entry.question(), Some(PollFlags::OUT));
        assert_eq!(entry.answer(PollFlags::OUT), Some(Ready::WRITE));
        assert_eq!(entry.question(), Some(PollFlags::OUT), "and stays known");
    }

    #[test]
    fn an_error_that_went_and_came_again_is_news_again() {
        let mut entry = entry(true, false);
        assert!(entry.answer(PollFlags::ERR).is_some());
        assert!(entry.answer(PollFlags::IN).is_some());
        entry.reads = false;
        assert_eq!(entry.answer(PollFlags::ERR), Some(Ready::WRITE | Ready::ERROR));
        assert_eq!(entry.question(), None);
    }
}
