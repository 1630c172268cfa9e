//! Why there is no child.

use crate::refused::RefusedWhy;
use std::{error::Error, fmt};

/// Why a child could not be opened.
///
/// ```
/// use netwright_core::{ChildError, RefusedWhy};
///
/// assert_eq!(ChildError::ParentEnded.to_string(), "the parent of the child has ended");
/// assert!(ChildError::Refused(RefusedWhy::ShutDown).to_string().contains("shut"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildError {
    /// The channel that it was to be a child of has ended.
    ParentEnded,
    /// The loop takes no more channels: it shuts down.
    Refused(RefusedWhy),
}

impl fmt::Display for ChildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ParentEnded => f.write_str("the parent of the child has ended"),
            Self::Refused(why) => write!(f, "the event loop takes no child: {why}"),
        }
    }
}

impl Error for ChildError {}

impl From<RefusedWhy> for ChildError {
    fn from(why: RefusedWhy) -> Self {
        Self::Refused(why)
    }
}
