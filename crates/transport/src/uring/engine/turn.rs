//! One turn: wants become operations, the kernel is entered, and completions become events.

use super::{Engine, State};
use crate::{
    return_stack::refill,
    uring::{
        ring::{Entered, Wait},
        slot::{Key, Kind, Role},
    },
};
use io_uring::{opcode, types};
use netwright_core::driver::{Event, Ready};
use std::{
    io,
    time::{Duration, Instant},
};

/// Connections that may wait for one listener before its accept rests: a few turns of it. Each is a descriptor that nobody has judged yet, and the
/// system's queue holds them for nothing.
pub(super) const ACCEPTED_MAX: usize = 64;

impl Engine {
    /// One turn: returns after `timeout` at the latest, or when there is an event, or a wake-up.
    #[inline]
    pub(in crate::uring) fn turn(
        &mut self,
        timeout: Option<Duration>,
        each: impl FnMut(Event),
    ) -> io::Result<()> {
        let result = self.turn_again(timeout, each);
        refill(); // once, however often the kernel was entered
        result
    }

    #[inline(always)] // down to the system call: see `return_stack`
    fn turn_again(&mut self, timeout: Option<Duration>, mut each: impl FnMut(Event)) -> io::Result<()> {
        let clock = self.state.own_affairs || !self.state.dirty.is_empty();
        let begun = (clock && timeout.is_some_and(|limit| !limit.is_zero())).then(Instant::now);
        let mut left = timeout;
        loop {
            self.prepare();
            let at_once = left == Some(Duration::ZERO) || !self.state.touched.is_empty();
            let queued = self.ring.queued();
            let entered = self.ring.enter_again(if at_once { Wait::Not } else { Wait::AtMost(left) })?;
            let reaped = self.entered(entered, queued);
            let told = self.state.tell(&mut each);
            let woken = std::mem::take(&mut self.state.woken);
            if told || woken || reaped == 0 || at_once {
                return match entered {
                    _ if told || woken || reaped > 0 => Ok(()),
                    // Nothing came and nothing went on: whoever polls again at once is to know why.
                    Entered::Failed(error) => Err(error.into()),
                    // The kernel says that it took what was queued, and not whether the time is over or a signal came.
                    Entered::Done if queued > 0 && !at_once => Err(io::ErrorKind::Interrupted.into()),
                    _ => Ok(()),
                };
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

    pub(super) fn arm_waker(&mut self) {
        self.state.wake_armed = true;
        self.state.in_flight += 1;
        // Never read, so always readable: what counts is that every write to it completes the operation once more.
        let entry =
            opcode::PollAdd::new(types::Fd(self.state.waker), libc::POLLIN as u32).multi(true).build();
        self.push(entry.user_data(Key { index: 0, generation: 0 }.name(Kind::Wake)));
    }

    /// Submits and reaps. How many completions there were.
    pub(super) fn enter(&mut self, wait: Wait) -> io::Result<usize> {
        let queued = self.ring.queued();
        let entered = self.ring.enter(wait)?;
        Ok(self.entered(entered, queued))
    }

    /// Reaps after an enter, before which so many operations were queued.
    #[inline]
    fn entered(&mut self, entered: Entered, queued: usize) -> usize {
        if entered != Entered::Skipped {
            self.state.figures.enters += 1;
            self.state.figures.submissions += (queued - self.ring.queued()) as u64;
        }
        self.state.own_affairs = false;
        self.reap()
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
        let room = matches!(&slot.role, Role::Stream(stream) if stream.waits_for_room);
        if room && !slot.flying.has(Kind::Room) {
            self.start(key, Kind::Room);
        }
        let slot = &self.state.slots[index as usize];
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
            Role::Files => return self.start_files(),
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
}

impl State {
    /// Passes on what sources have to know, in the order in which it began. True if there was anything.
    #[inline]
    fn tell(&mut self, each: &mut impl FnMut(Event)) -> bool {
        let mut told = false;
        for index in self.touched.drain(..) {
            let slot = &mut self.slots[index as usize];
            slot.touched = false;
            let ready = std::mem::take(&mut slot.told);
            // A source whose send waits for its peer is called for nothing in particular: it looks.
            let calls = matches!(&slot.role, Role::Stream(stream) if stream.waits_for_room);
            if let Some(token) = slot.token
                && (ready != Ready::NONE || calls)
            {
                each(Event { token, ready });
                told = true;
            }
        }
        told
    }
}
