//! Mistakes of stages: one panics when it comes to a step, in some of the runs. That ends its channel, and nothing else.

use super::draw::Draw;
use std::panic::resume_unwind;

/// The text of each panic that is a part of what is tried.
pub(crate) const ON_PURPOSE: &str = "a stage panics on purpose";

/// Where a stage may panic: the one next to the wire, or a last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    WireActive,
    WireRead,
    WireWrite,
    WireInactive,
    WireRemoved,
    Active,
    /// A request is read, by a stage or by a future.
    Read,
    ReadComplete,
    /// A pause is over.
    Timer,
    /// What workers have done is back.
    Done,
    InputClosed,
    Inactive,
    Removed,
}

impl Step {
    const ALL: [Self; 13] = [
        Self::WireActive,
        Self::WireRead,
        Self::WireWrite,
        Self::WireInactive,
        Self::WireRemoved,
        Self::Active,
        Self::Read,
        Self::ReadComplete,
        Self::Timer,
        Self::Done,
        Self::InputClosed,
        Self::Inactive,
        Self::Removed,
    ];
}

/// The mistake of one connection: at this step, when it comes to it for that many times.
#[derive(Debug, Clone)]
pub(crate) struct Slip {
    at: Step,
    left: u64,
}

impl Slip {
    /// In one of five connections.
    pub(crate) fn draw(draw: &Draw<'_>) -> Option<Self> {
        draw.one_in(5).then(|| Self { at: draw.one_of(&Step::ALL), left: draw.below(3) })
    }

    pub(crate) fn is_at(&self, step: Step) -> bool {
        self.at == step
    }

    /// Whether it is made now.
    pub(crate) fn is_made(&mut self, step: Step) -> bool {
        if self.at != step {
            return false;
        }
        self.left.checked_sub(1).is_none_or(|left| {
            self.left = left;
            false
        })
    }

    /// As `panic!`, without the words of its hook.
    pub(crate) fn make() {
        resume_unwind(Box::new(ON_PURPOSE));
    }
}
