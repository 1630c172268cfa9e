//! Why a channel ended, as a recording keeps it: which kind of cause, and its text.

use crate::show::Escaped;
use netwright_core::CloseCause;
use std::{fmt, io};

/// Why a recorded channel ended.
///
/// Displayed, its text is escaped: a peer may have had a say in it, and must not command a terminal.
///
/// ```
/// use netwright_core::CloseCause;
/// use netwright_record::{Cause, CauseKind};
///
/// let cause = Cause::from(&CloseCause::PeerClosed);
/// assert_eq!((cause.kind, cause.text.as_str()), (CauseKind::PeerClosed, "closed by the peer"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Which [`CloseCause`] it was.
    pub kind: CauseKind,
    /// What that said, as it is.
    pub text: String,
}

/// Which [`CloseCause`] ended a channel.
///
/// ```
/// use netwright_record::CauseKind;
///
/// assert!(CauseKind::PeerClosed.is_of_the_outside() && !CauseKind::Fault.is_of_the_outside());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum CauseKind {
    /// A cause that this version does not know.
    Other = 0,
    /// Our side asked for it.
    Requested = 1,
    /// The peer closed its side in order.
    PeerClosed = 2,
    /// The system reported an error of another kind than those below.
    Io = 3,
    /// The peer broke the connection off.
    Reset = 4,
    /// An error in the pipeline that no handler took care of.
    Fault = 5,
    /// A handler panicked.
    Panicked = 6,
    /// Nothing came, or nothing could be sent, for too long.
    TimedOut = 7,
    /// The peer did not take what waited for it as fast as it has to.
    TooSlow = 8,
    /// The channel's event loop, or its server, was shut down.
    ShutDown = 9,
    /// A conversation within a connection was broken off with a code of its protocol.
    Code = 10,
}

impl CauseKind {
    const ALL: [Self; 11] = [
        Self::Other,
        Self::Requested,
        Self::PeerClosed,
        Self::Io,
        Self::Reset,
        Self::Fault,
        Self::Panicked,
        Self::TimedOut,
        Self::TooSlow,
        Self::ShutDown,
        Self::Code,
    ];

    pub(crate) fn of_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Other)
    }

    /// Whether the end came from outside of the pipeline: of the peer, the system or whoever shut the server down.
    pub fn is_of_the_outside(self) -> bool {
        matches!(
            self,
            Self::PeerClosed | Self::Io | Self::Reset | Self::TooSlow | Self::ShutDown | Self::Code
        )
    }
}

impl From<&CloseCause> for Cause {
    fn from(cause: &CloseCause) -> Self {
        Self { kind: kind_of(cause), text: cause.to_string() }
    }
}

pub(crate) fn kind_of(cause: &CloseCause) -> CauseKind {
    match cause {
        CloseCause::Requested => CauseKind::Requested,
        CloseCause::PeerClosed => CauseKind::PeerClosed,
        CloseCause::Io(error) if is_reset(error.kind()) => CauseKind::Reset,
        CloseCause::Io(_) => CauseKind::Io,
        CloseCause::Fault(_) => CauseKind::Fault,
        CloseCause::Panicked(_) => CauseKind::Panicked,
        CloseCause::TimedOut(_) => CauseKind::TimedOut,
        CloseCause::TooSlow(_) => CauseKind::TooSlow,
        CloseCause::ShutDown => CauseKind::ShutDown,
        CloseCause::Reset(_) => CauseKind::Code,
        _ => CauseKind::Other,
    }
}

fn is_reset(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted
    )
}

impl Cause {
    /// What a transport would say, if the end came from outside of the pipeline.
    pub(crate) fn again(&self) -> Option<CloseCause> {
        let io = |kind| CloseCause::io(io::Error::new(kind, format!("as recorded: {}", self.text)));
        match self.kind {
            CauseKind::PeerClosed => Some(CloseCause::PeerClosed),
            CauseKind::Reset => Some(io(io::ErrorKind::ConnectionReset)),
            CauseKind::Io => Some(io(io::ErrorKind::Other)),
            CauseKind::TooSlow => Some(io(io::ErrorKind::TimedOut)),
            CauseKind::ShutDown => Some(CloseCause::ShutDown),
            CauseKind::Code => Some(CloseCause::Reset(0)),
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(self.text.as_bytes()).fmt(f)
    }
}
