//! Taking everything back from the kernel: to go on with another ring, and for good.

use super::Engine;
use crate::uring::{
    buffers::Buffers,
    ring::{Ring, Wait},
    slot::{Key, Kind, Role},
};
use netwright_core::driver::Ready;
use std::{
    io,
    time::{Duration, Instant},
};

/// How long the kernel has to give everything back. Cancelling takes microseconds.
const DRAIN_MAX: Duration = Duration::from_secs(5);

impl Engine {
    /// Goes on with another ring, which was enabled by this thread and has `buffers` registered. Everything that flies is
    /// taken back from the old ring first; what had completed stays, what had not is started again.
    pub(in crate::uring) fn move_to(&mut self, ring: Ring, buffers: Buffers) -> io::Result<usize> {
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
    pub(in crate::uring) fn drain(&mut self) -> bool {
        let begun = Instant::now();
        let keys: Vec<Key> = self.state.slots_with_something_flying().collect();
        for key in keys {
            Kind::OF_SLOTS.into_iter().for_each(|kind| self.cancel(key, kind));
        }
        for name in self.state.files.names() {
            self.push_cancel(name);
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

    /// The end. What the kernel does not give back is leaked, on purpose (rule 4). Who waits for operations on files is told of it.
    pub(in crate::uring) fn end(mut self) {
        let drained = self.drain();
        self.state.files.end();
        if !drained {
            let operations = self.state.in_flight;
            tracing::error!(
                operations,
                "the kernel did not give operations back in time; their memory is leaked"
            );
            std::mem::forget(self);
        }
    }
}
