//! How a loop waits when it has nothing to do: asleep in its driver, or looking out for something without a pause.
//!
//! ```text
//!   block             [sleep ······················▶ woken]
//!   spin for a while  [poll][poll][poll] … [sleep ··▶ woken]
//!   spin              [poll][poll][poll][poll][poll][poll] …
//! ```
//! A loop that spins is awake: whoever gives it a task finds that and sends no wake-up. So what a spin saves is the way of two
//! threads through the scheduler, and what it costs is a core.

use std::time::Duration;

/// How the loops of a group wait when they have nothing to do.
///
/// The example is a group for tasks and timers. For one that can host sockets begin with `Backend::group` instead of
/// `EventLoopGroup::builder`.
///
/// What ends a wait is the same for all: I/O, a task, a timer, a shutdown. They differ in how soon the loop is there.
///
/// ```
/// use netwright_core::{EventLoopGroup, WaitStrategy};
/// use std::time::Duration;
///
/// let group = EventLoopGroup::builder()
///     .loops(1)
///     .wait_strategy(WaitStrategy::SpinThenBlock(Duration::from_micros(50)))
///     .build()?;
/// assert_eq!(group.next().submit(|| 6 * 7)?.wait()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// Sleeps until there is something to do. An idle loop costs nothing, and waking up takes some microseconds. Right for nearly all
    /// programs.
    #[default]
    Block,
    /// Spins for this long after the last thing that it did, then sleeps. For loops whose next message comes
    /// soon after the last, on machines with a core to spare. Zero is the same as [`Block`](Self::Block).
    SpinThenBlock(Duration),
    /// Never sleeps: each loop occupies a core all the time. Have fewer such loops than cores.
    Spin,
}

impl WaitStrategy {
    /// How long to look out before a sleep: `None` for ever.
    pub(super) fn spin_time(self) -> Option<Duration> {
        match self {
            Self::Block => Some(Duration::ZERO),
            Self::SpinThenBlock(time) => Some(time),
            Self::Spin => None,
        }
    }

    pub(super) fn spins(self) -> bool {
        self.spin_time() != Some(Duration::ZERO)
    }
}
