//! Where connections live: on the loops of a group, in turns, or each on a thread of its own.

use super::{Backend, setters::Making, world::in_world};
use crate::blocking::{Lease, ThreadError, ThreadPerChannel};
use netwright_core::{BuildError, EventLoop, EventLoopGroup};

#[derive(Clone)]
pub(super) enum Homes {
    Group(EventLoopGroup),
    Threads {
        threads: ThreadPerChannel,
        /// Loops that host no connection: what accepts, and what needs a loop before there is a channel.
        beside: EventLoopGroup,
    },
}

impl Homes {
    /// What the settings of a builder come to. `beside`: the loops that accept, if there are any to begin with; `loops`:
    /// how many to make if nothing is said.
    pub(super) fn new(
        group: Option<EventLoopGroup>,
        threads: Option<ThreadPerChannel>,
        beside: Option<&EventLoopGroup>,
        making: Making,
        loops: usize,
    ) -> Result<Self, SetupError> {
        let threads = match (group, threads) {
            (Some(_), Some(_)) => {
                return Err(SetupError::Both);
            }
            (Some(group), None) => return Ok(Self::Group(group)),
            _ if in_world() => return Ok(Self::Group(making.loops(loops)?)), // no threads there
            (None, Some(threads)) => threads,
            (None, None) => match making.threads() {
                Some(threads) => threads,
                None => return Ok(Self::Group(making.loops(loops)?)),
            },
        };
        let beside = match beside {
            Some(group) => group.clone(),
            None if making.backend == Backend::Auto => threads.loop_beside()?,
            None => making.loops(1)?,
        };
        Ok(Self::Threads { threads, beside })
    }

    /// The loop for the next connection; the lease is to be dropped with its channel.
    pub(super) fn next(&self) -> Result<(EventLoop, Option<Lease>), ThreadError> {
        match self {
            Self::Group(group) => Ok((group.next(), None)),
            Self::Threads { threads, .. } => {
                threads.lease().map(|(event_loop, lease)| (event_loop, Some(lease)))
            }
        }
    }

    /// Where else a connection can live whose loop does not take it: the other loops, from the one behind it on. With a thread
    /// for each connection there is nobody else.
    pub(super) fn others(&self, first: &EventLoop) -> Vec<EventLoop> {
        let Self::Group(group) = self else { return Vec::new() };
        let mut loops: Vec<EventLoop> = group.iter().collect();
        let at = loops.iter().position(|event_loop| event_loop == first).map_or(0, |at| at + 1);
        loops.rotate_left(at);
        loops.retain(|event_loop| event_loop != first);
        loops
    }

    /// The loops to which a connection may be on its way.
    pub(super) fn expecting(&self) -> Vec<EventLoop> {
        match self {
            Self::Group(group) => group.iter().collect(),
            Self::Threads { threads, .. } => {
                let mut loops = threads.busy_loops();
                // One that has its connection gets no other, and a handler may block it for as long as it likes.
                loops.retain(|event_loop| event_loop.figures().sources == 0);
                loops
            }
        }
    }

    /// Loops that stay.
    pub(super) fn group(&self) -> &EventLoopGroup {
        match self {
            Self::Group(group) | Self::Threads { beside: group, .. } => group,
        }
    }

    /// Whether each connection has a thread of its own.
    pub(super) fn have_threads(&self) -> bool {
        matches!(self, Self::Threads { .. })
    }

    #[cfg(feature = "blocking")]
    pub(super) fn threads(&self) -> Option<&ThreadPerChannel> {
        match self {
            Self::Group(_) => None,
            Self::Threads { threads, .. } => Some(threads),
        }
    }
}

/// Why the settings do not go together.
pub(super) enum SetupError {
    Both,
    Build(BuildError),
}

impl From<BuildError> for SetupError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl std::fmt::Display for SetupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Both => f.write_str(
                "group and thread_per_channel exclude each other: each connection has a loop of its own, or the \
                 loops of a group share them",
            ),
            Self::Build(error) => error.fmt(f),
        }
    }
}
