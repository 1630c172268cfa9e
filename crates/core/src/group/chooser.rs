//! Which loop of a group gets the next channel.

use crate::{EventLoop, error::InvalidArgument};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Picks a loop.
///
/// ```
/// use netwright_core::{EventLoop, EventLoopGroup};
///
/// /// Everything goes to the last loop.
/// fn last(loops: &[EventLoop]) -> usize {
///     loops.len() - 1
/// }
///
/// let group = EventLoopGroup::builder().loops(3).name("io").chooser(last).build()?;
/// assert_eq!(group.next(), group.next());
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
pub trait Chooser: Send + Sync + 'static {
    /// The index of the loop to take next. `loops` is never empty; an index out of range counts modulo its length. If that
    /// loop has ended, the group takes another one.
    fn choose(&self, loops: &[EventLoop]) -> usize;

    /// Called once, when a group with this chooser is built; an error ends the building. Does nothing by itself.
    ///
    /// A chooser that wants to keep the loops keeps [weak handles](EventLoop::downgrade): a group ends when its handles
    /// are gone, and the chooser belongs to the group.
    fn attach(&self, loops: &[EventLoop]) -> Result<(), InvalidArgument> {
        let _ = loops;
        Ok(())
    }

    /// Called when a loop that had died was replaced: `loops` are all loops from now on, `loops[index]` is the new one. Does
    /// nothing by itself.
    fn replaced(&self, loops: &[EventLoop], index: usize) {
        let _ = (loops, index);
    }
}

/// Every function of the loops is a chooser.
impl<F: Fn(&[EventLoop]) -> usize + Send + Sync + 'static> Chooser for F {
    fn choose(&self, loops: &[EventLoop]) -> usize {
        self(loops)
    }
}

/// One loop after the other.
///
/// With a power of two of loops the counter may run over: a mask of its low bits goes on evenly. With any other number it
/// is turned back to zero at the end of each round, because at an overflow some loops would be taken twice.
///
/// ```
/// use netwright_core::{EventLoopGroup, RoundRobin};
///
/// let group = EventLoopGroup::builder().loops(2).chooser(RoundRobin::new()).build()?; // as it is by default
/// assert_ne!(group.next(), group.next());
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
#[derive(Debug, Default)]
pub struct RoundRobin {
    next: AtomicUsize,
}

impl RoundRobin {
    /// Starts with the first loop.
    pub fn new() -> Self {
        Self::default()
    }

    #[cfg(test)]
    fn starting_at(next: usize) -> Self {
        Self { next: AtomicUsize::new(next) }
    }

    pub(super) fn next_of(&self, len: usize) -> usize {
        if len.is_power_of_two() {
            return self.next.fetch_add(1, Ordering::Relaxed) & (len - 1);
        }
        let turn = |next: usize| Some((next + 1) % len);
        match self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, turn) {
            Ok(next) | Err(next) => next % len,
        }
    }
}

impl Chooser for RoundRobin {
    fn choose(&self, loops: &[EventLoop]) -> usize {
        self.next_of(loops.len())
    }
}

/// The loop that hosts the fewest sources, and among equals the one with the fewest tasks waiting; round robin among the
/// rest, so that a burst before the figures move does not land on one loop.
///
/// ```
/// use netwright_core::{EventLoopGroup, LeastLoaded};
///
/// let group = EventLoopGroup::builder().loops(2).chooser(LeastLoaded::new()).build()?;
/// let event_loop = group.next(); // with connections, the one that has the fewest
/// # drop(event_loop);
/// # Ok::<(), netwright_core::BuildError>(())
/// ```
#[derive(Debug, Default)]
pub struct LeastLoaded {
    turn: RoundRobin,
}

impl LeastLoaded {
    /// A new one.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Chooser for LeastLoaded {
    fn choose(&self, loops: &[EventLoop]) -> usize {
        let first = self.turn.next_of(loops.len());
        let load = |index: &usize| {
            let figures = loops[*index].figures();
            // One that has ended hosts nothing, and is not to be had for it.
            (loops[*index].is_shutting_down(), figures.sources, figures.tasks_pending)
        };
        (0..loops.len()).map(|step| (first + step) % loops.len()).min_by_key(load).unwrap_or(first)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn rounds(chooser: &RoundRobin, len: usize, picks: usize) -> Vec<usize> {
        (0..picks).map(|_| chooser.next_of(len)).collect()
    }

    #[test]
    fn round_robin_takes_one_after_the_other_for_any_number_of_loops() {
        assert_eq!(rounds(&RoundRobin::new(), 4, 6), [0, 1, 2, 3, 0, 1]);
        assert_eq!(rounds(&RoundRobin::new(), 3, 5), [0, 1, 2, 0, 1]);
        assert_eq!(rounds(&RoundRobin::new(), 1, 3), [0, 0, 0]);
    }

    #[test]
    fn round_robin_does_not_skew_when_its_counter_overflows() {
        assert_eq!(rounds(&RoundRobin::starting_at(usize::MAX - 1), 4, 5), [2, 3, 0, 1, 2]);
        let three = RoundRobin::starting_at(2);
        let picks = rounds(&three, 3, 300);
        for loop_index in 0..3 {
            assert_eq!(picks.iter().filter(|&&pick| pick == loop_index).count(), 100);
        }
    }
}
