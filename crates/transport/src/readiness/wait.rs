//! The system call that waits for all sockets, and what it brought.
//!
//! On Linux it is inlined into the driver's poll, on the descriptor that `mio` has made: see
//! [`return_stack`](crate::return_stack). `mio` keeps its tokens in the events as they are, and wants nothing done to a
//! waker that has woken. Elsewhere `mio` waits.

use netwright_core::driver::Ready;
use std::{io, time::Duration};

#[cfg(target_os = "linux")]
mod linux {
    use super::{Duration, Ready, io};
    use rustix::event::{
        Timespec,
        epoll::{self, EventFlags},
    };

    /// More does not fit into what `epoll_wait` takes, in milliseconds.
    const TIMEOUT_MAX: Duration = Duration::from_secs(1_000_000);

    pub(in crate::readiness) struct Brought(Vec<epoll::Event>);

    impl Brought {
        pub(in crate::readiness) fn with_capacity(events: usize) -> Self {
            Self(Vec::with_capacity(events))
        }

        pub(in crate::readiness) fn capacity(&self) -> usize {
            self.0.capacity()
        }

        #[inline(always)]
        pub(in crate::readiness) fn wait(
            &mut self,
            poll: &mut mio::Poll,
            timeout: Option<Duration>,
        ) -> io::Result<()> {
            let timeout = timeout.map(|time| {
                let time = time.min(TIMEOUT_MAX);
                Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
            });
            self.0.clear();
            let room = rustix::buffer::spare_capacity(&mut self.0);
            let result = epoll::wait(poll.registry(), room, timeout.as_ref());
            crate::return_stack::refill();
            result?;
            Ok(())
        }

        /// Tokens, and what is ready.
        pub(in crate::readiness) fn iter(&self) -> impl Iterator<Item = (mio::Token, Ready)> {
            self.0.iter().map(|event| (mio::Token(event.data.u64() as usize), ready(event.flags)))
        }
    }

    #[inline]
    fn ready(flags: EventFlags) -> Ready {
        const BOTH: EventFlags = EventFlags::IN.union(EventFlags::OUT);
        match flags {
            BOTH => Ready::READ | Ready::WRITE, // nearly always
            EventFlags::IN => Ready::READ,
            other => rarely_ready(other),
        }
    }

    /// An end always counts as something to try, as below.
    #[cold]
    fn rarely_ready(flags: EventFlags) -> Ready {
        let hung_up = flags.contains(EventFlags::HUP);
        let read_closed = hung_up || flags.contains(EventFlags::IN | EventFlags::RDHUP);
        let mut ready = Ready::NONE;
        if read_closed || flags.intersects(EventFlags::IN | EventFlags::PRI) {
            ready |= Ready::READ;
        }
        if hung_up || flags.contains(EventFlags::OUT) || flags == EventFlags::ERR {
            ready |= Ready::WRITE;
        }
        if read_closed {
            ready |= Ready::READ_CLOSED;
        }
        if flags.contains(EventFlags::ERR) {
            ready |= Ready::ERROR;
        }
        if flags.contains(EventFlags::PRI) {
            ready |= Ready::URGENT;
        }
        ready
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{Duration, Ready, io};

    pub(in crate::readiness) struct Brought(mio::Events);

    impl Brought {
        pub(in crate::readiness) fn with_capacity(events: usize) -> Self {
            Self(mio::Events::with_capacity(events))
        }

        pub(in crate::readiness) fn capacity(&self) -> usize {
            self.0.capacity()
        }

        pub(in crate::readiness) fn wait(
            &mut self,
            poll: &mut mio::Poll,
            timeout: Option<Duration>,
        ) -> io::Result<()> {
            poll.poll(&mut self.0, timeout)
        }

        /// Tokens, and what is ready.
        pub(in crate::readiness) fn iter(&self) -> impl Iterator<Item = (mio::Token, Ready)> {
            self.0.iter().map(|event| (event.token(), ready(event)))
        }
    }

    /// What a source may try. An end always counts as something to try: reading finds the end of the stream, writing finds
    /// the broken pipe or the refused connect.
    fn ready(event: &mio::event::Event) -> Ready {
        let mut ready = Ready::NONE;
        if event.is_readable() || event.is_read_closed() {
            ready |= Ready::READ;
        }
        if event.is_writable() || event.is_write_closed() {
            ready |= Ready::WRITE;
        }
        if event.is_read_closed() {
            ready |= Ready::READ_CLOSED;
        }
        if event.is_error() {
            ready |= Ready::ERROR;
        }
        if event.is_priority() {
            ready |= Ready::URGENT;
        }
        ready
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::Brought;
#[cfg(target_os = "linux")]
pub(super) use linux::Brought;
