//! Another conversation with the same stages.
//!
//! ```text
//!   … inactive ──▶ start_over: every stage forgets ──▶ a new number, a new place on the loop ──▶ active …
//!                        └ one of them cannot: removed, and gone
//! ```
//! What was made for others in the last conversation stays with it: its handles say that it has ended, and a new one has
//! handles of its own. So nobody who still holds one keeps the stages from going on, or reaches a stranger by it.

use super::{
    super::{HostSettings, Pack},
    Host,
};
use crate::{driver::Token, pipeline::Segment, task_error::catch};

impl<P, W, R, M> Host<P, W, R, M>
where
    P: Segment<R, W>,
    W: 'static,
    R: 'static,
    M: Pack<W>,
{
    /// Makes ready for another conversation when the last one [is over](Self::is_finished), if every stage can. If not, the host is of no use any more
    /// but to be [removed](Self::remove).
    pub(in crate::channel) fn start_over(&mut self, settings: &HostSettings) -> bool {
        debug_assert!(self.is_finished());
        if self.inside.silent || self.inside.removed || !self.inside.core.can_start_over() {
            return false;
        }
        let root = &mut self.pipe.root;
        if !catch(|| root.start_over()).unwrap_or(false) {
            return false;
        }
        if self.inside.core.is_shared() {
            self.inside.leave(&self.pipe);
            self.pipe.shared.take();
        }
        self.inside.core.start_over(settings.water_marks, settings.auto_read);
        (self.inside.ended, self.inside.was_active) = (false, false);
        true
    }

    /// The channel has another place on the loop. Its stages are there already.
    pub(in crate::channel) fn register_again(&mut self, token: Token) {
        self.inside.core.set_token(token);
    }
}
