//! Why a channel ended, for code that knows only `io::Error`. The cause stays inside: `downcast_ref` finds it.

use netwright_core::{CloseCause, WriteError};
use std::io::{Error, ErrorKind};

pub(crate) fn closed(cause: CloseCause) -> Error {
    let kind = match &cause {
        CloseCause::Io(error) => error.kind(),
        CloseCause::PeerClosed => ErrorKind::BrokenPipe, // told to writers: for readers it is the end
        CloseCause::TimedOut(_) => ErrorKind::TimedOut,
        CloseCause::Requested | CloseCause::ShutDown => ErrorKind::NotConnected,
        _ => ErrorKind::Other,
    };
    Error::new(kind, cause)
}

pub(crate) fn not_written(error: WriteError) -> Error {
    match error {
        WriteError::Closed(cause) => closed(cause),
        WriteError::OutputShutDown => Error::new(ErrorKind::BrokenPipe, error),
        other => Error::other(other),
    }
}
