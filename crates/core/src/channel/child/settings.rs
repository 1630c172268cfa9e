//! What children are set up with.

use super::super::{HostSettings, Weight};
use std::time::Duration;

/// What the children of a stage are set up with.
///
/// ```
/// use netwright_core::{ChildSettings, WaterMarks, Weight};
/// use bytes::Bytes;
///
/// let mut settings = ChildSettings::<Bytes>::default();
/// settings.host.water_marks = WaterMarks::new(8 * 1024, 16 * 1024)?; // each of them, so a little less
/// settings.keep = 0; // every conversation has stages of its own
/// # Ok::<(), netwright_core::InvalidArgument>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ChildSettings<W> {
    /// As for every channel. Half-closure is on: a child's parent says when it has ended.
    pub host: HostSettings,
    /// What messages count for that children write, while they wait for their parent to take them.
    pub weight: Weight<W>,
    /// How many pipelines of children that have ended in order are kept for the next ones: 16. Only those whose stages all say
    /// that they can [start over](crate::Handler::start_over).
    pub keep: usize,
    /// For how long one of them is kept that nobody needs: a minute, or up to two.
    pub keep_for: Duration,
}

/// Covers what comes and goes at once on a busy connection, in the room of a few kilobytes.
const KEEP: usize = 16;
const KEEP_FOR: Duration = Duration::from_secs(60);

impl<W> Default for ChildSettings<W> {
    fn default() -> Self {
        let host = HostSettings { half_closure: Some(true), ..HostSettings::default() };
        Self { host, weight: Weight::unsaid(), keep: KEEP, keep_for: KEEP_FOR }
    }
}
