//! Why a source has no more, although its end has not come.

use crate::{refused::RefusedWhy, task_error::TaskError};
use std::{error::Error, fmt, io};

/// Why a [source](super::ItemSource) of ours failed. It is found in the [`Fault`](crate::Fault) of the channel's end, or of the write.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, Peer, pipeline, source::{self, SourceError}};
///
/// let mut channel = EmbeddedChannel::new(pipeline().serve(async |mut peer: Peer| {
///     let numbers = (1..).map(|number| if number < 3 { format!("{number} ") } else { panic!("out of numbers") });
///     peer.write_from(source::iter(numbers)).await.map(drop)
/// }));
/// assert_eq!(channel.outbound_bytes(), b"1 2 ");
/// let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { panic!() };
/// assert!(matches!(fault.downcast_ref(), Some(SourceError::Panicked(message)) if message == "out of numbers"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum SourceError {
    /// It panicked with this message.
    Panicked(String),
    /// What it reads from failed.
    Read(io::Error),
    /// A reader says that it has read more than there was room for, so nothing that it says means anything.
    Overrun {
        /// How many bytes it says that it read.
        said: usize,
        /// How many it was given room for.
        room: usize,
    },
    /// The workers that were to read do not take the work.
    Refused(RefusedWhy),
    /// The workers that were to read were shut down before they did.
    Workers(TaskError),
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(message) => write!(f, "the source panicked: {message}"),
            Self::Read(error) => write!(f, "reading from the source failed: {error}"),
            Self::Overrun { said, room } => {
                write!(f, "the reader says that it read {said} bytes, and there was room for {room}")
            }
            Self::Refused(why) => write!(f, "the workers that read the source refused: {why}"),
            Self::Workers(error) => write!(f, "the workers that read the source have ended: {error}"),
        }
    }
}

impl Error for SourceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::Workers(error) => Some(error),
            Self::Panicked(_) | Self::Overrun { .. } | Self::Refused(_) => None,
        }
    }
}
