//! When a connection may be lent again: the one place that decides it.
//!
//! > A connection is lent again only if everything that was written is sent and everything that was to come has come.
//!
//! | it needs | who knows it |
//! | --- | --- |
//! | the request is written, to its end | the exchange, when the end has gone to the codec |
//! | all of that is sent: the transport has it | the promise of the last part, or a channel with nothing unsent |
//! | the reply has come, to its end | the codec, whose last part ends it |
//! | nothing else is to come: no close was said by either side, HTTP has not ended, no byte lies behind the reply | the codec, which tells of a [`LastReply`](crate::LastReply) otherwise |
//!
//! Nobody gives a connection back to its pool but by this verdict; without one it is closed. The pool itself sees to it that
//! one that has ended meanwhile, or whose end was asked for, is not lent either.

/// What an exchange and its connection still owe each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dues {
    pub(super) request: Request,
    /// The reply has come, to its end.
    pub(super) replied: bool,
    /// No other reply will come on this connection.
    pub(super) last: bool,
}

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// Parts of it are still to be written.
    Begun,
    /// Its end was written, and may wait to be sent.
    Written,
    /// The transport has all of it.
    Sent,
}

/// What is to become of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The exchange is not over.
    Wait,
    /// It is, and nothing of it is left: the next one can have the connection.
    Lend,
    /// It is, and the connection with it.
    Close,
}

impl Dues {
    /// What is to become of the connection now.
    pub(super) fn verdict(self) -> Verdict {
        match self {
            Self { replied: false, .. } => Verdict::Wait,
            // Also if something is unsent: nobody will read it, and its answer has come (RFC 9112, section 9.5).
            Self { last: true, .. } => Verdict::Close,
            Self { request: Request::Sent, .. } => Verdict::Lend,
            Self { request: Request::Begun | Request::Written, .. } => Verdict::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_states_one_alone_lends_the_connection_again() {
        let mut lent = Vec::new();
        for request in [Request::Begun, Request::Written, Request::Sent] {
            for (replied, last) in [(false, false), (false, true), (true, false), (true, true)] {
                let dues = Dues { request, replied, last };
                match dues.verdict() {
                    Verdict::Lend => lent.push(dues),
                    Verdict::Close => assert!(replied && last, "{dues:?}"),
                    Verdict::Wait => assert!(!replied || request != Request::Sent, "{dues:?}"),
                }
            }
        }
        assert_eq!(lent, [Dues { request: Request::Sent, replied: true, last: false }]);
    }
}
