//! Why an end of a relay was closed because of the other one.

use netwright_core::CloseCause;
use netwright_transport::ConnectError;
use std::{error::Error, fmt};

/// Why an end of a [`Relay`](super::Relay) was closed: in the [`Fault`](netwright_core::Fault) of its channel's end.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RelayError {
    /// The other end could not be connected.
    Connect(ConnectError),
    /// The other end was not closed in order: why.
    OtherEnd(CloseCause),
    /// The other end has gone without telling why: its loop has died, or its stage was taken out.
    Gone,
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "nobody to pass on to: {error}"),
            Self::OtherEnd(cause) => write!(f, "the other end of the relay has ended: {cause}"),
            Self::Gone => f.write_str("the other end of the relay has gone"),
        }
    }
}

impl Error for RelayError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Connect(error) => Some(error),
            Self::OtherEnd(cause) => Some(cause),
            Self::Gone => None,
        }
    }
}
