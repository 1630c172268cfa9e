//! Accepts that fail: what concerns one connection costs that one, and what concerns the machine is left alone for a while.

use super::ACCEPTS_PER_TURN;
use crate::sys::errors::{concerns_one_connection, no_longer_listens};
use std::io;

/// What to do about an accept that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// Nobody waits.
    Nobody,
    /// It was interrupted, and says nothing about anybody.
    Again,
    /// The connection that it would have brought is none any more: the next one, please.
    Next,
    /// Descriptors or memory have run out, or nobody knows what it means: accepting rests.
    Pause,
    /// The socket does not listen, so that no accept will ever succeed: its listener closes.
    Broken,
}

/// Failures since the last connection that was accepted.
#[derive(Debug, Default)]
pub(crate) struct Mishaps {
    in_a_row: usize,
}

impl Mishaps {
    /// A connection was accepted.
    pub(crate) fn forget(&mut self) {
        self.in_a_row = 0;
    }

    /// What is to be done about a failure. An error that should concern one connection and comes back with every call
    /// concerns the listener after all: accepting rests then, because trying again at once would never end.
    pub(crate) fn judge(&mut self, error: &io::Error) -> Mishap {
        match error.kind() {
            io::ErrorKind::WouldBlock => {
                self.forget();
                Mishap::Nobody
            }
            io::ErrorKind::Interrupted => Mishap::Again,
            _ if concerns_one_connection(error) && self.in_a_row < ACCEPTS_PER_TURN => {
                self.in_a_row += 1;
                Mishap::Next
            }
            _ if no_longer_listens(error) => Mishap::Broken,
            _ => {
                self.forget();
                Mishap::Pause
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn judge(mishaps: &mut Mishaps, error: Errno) -> Mishap {
        mishaps.judge(&io::Error::from(error))
    }

    #[test]
    fn what_became_of_one_connection_costs_that_one() {
        for error in [
            Errno::CONNABORTED,
            Errno::PERM,
            Errno::PROTO,
            Errno::NOPROTOOPT,
            Errno::OPNOTSUPP,
            Errno::NETDOWN,
            Errno::NETUNREACH,
            Errno::HOSTDOWN,
            Errno::HOSTUNREACH,
            Errno::TIMEDOUT,
        ] {
            assert_eq!(judge(&mut Mishaps::default(), error), Mishap::Next, "{error}");
        }
        let gone = io::Error::from(io::ErrorKind::ConnectionAborted); // as we say it ourselves
        assert_eq!(Mishaps::default().judge(&gone), Mishap::Next);
    }

    #[test]
    fn what_the_machine_lacks_and_what_nobody_knows_is_left_alone_for_a_while() {
        for error in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::IO] {
            assert_eq!(judge(&mut Mishaps::default(), error), Mishap::Pause, "{error}");
        }
    }

    #[test]
    fn a_socket_that_does_not_listen_is_not_asked_again() {
        for error in [Errno::INVAL, Errno::BADF, Errno::NOTSOCK] {
            assert_eq!(judge(&mut Mishaps::default(), error), Mishap::Broken, "{error}");
        }
    }

    #[test]
    fn an_error_that_comes_back_every_time_is_left_alone_for_a_while_too() {
        let mut mishaps = Mishaps::default();
        for _ in 0..2 {
            for _ in 0..ACCEPTS_PER_TURN {
                assert_eq!(judge(&mut mishaps, Errno::PROTO), Mishap::Next);
                assert_eq!(judge(&mut mishaps, Errno::INTR), Mishap::Again);
            }
            assert_eq!(judge(&mut mishaps, Errno::PROTO), Mishap::Pause);
        }
        for error in [Errno::PROTO, Errno::AGAIN, Errno::PROTO] {
            assert_ne!(judge(&mut mishaps, error), Mishap::Pause);
        }
        assert_eq!(mishaps.in_a_row, 1, "who waited has been served");
        mishaps.forget();
        assert_eq!(mishaps.in_a_row, 0);
    }
}
