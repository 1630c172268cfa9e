//! What goes along with a stage to its worker, and what it asks of its channel from there.

use super::{Fault, WaterMarks};
use crate::{
    event_loop::{LoopRef, SourceCaller},
    pipeline::StageTimer,
};
use std::{any::Any, sync::Arc, time::Duration};

/// What a stage on a worker knows of its channel.
pub(crate) struct Away {
    pub(crate) event_loop: LoopRef,
    pub(crate) caller: Option<SourceCaller>,
    /// A `Channel<W>`, if the stage is the last one.
    pub(crate) channel: Option<Arc<dyn Any + Send + Sync>>,
    pub(crate) asked: Vec<Asked>,
    /// The number of the stage's last timer, and its timers that have not come.
    pub(crate) last_timer: u32,
    pub(crate) armed: Vec<StageTimer>,
    /// Bytes that were flushed and not sent when the call began.
    pub(crate) unsent: u64,
}

/// What the loop knew of a channel when it sent something to a worker.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(super) paused: bool,
    pub(super) writable: bool,
    pub(super) pending: usize,
    pub(super) unsent: u64,
    pub(super) marks: WaterMarks,
}

/// Something that a stage on a worker asks of its channel.
pub(crate) enum Asked {
    Pause,
    Resume,
    Request,
    Hold,
    Release,
    Insist,
    Desist,
    HoldInput,
    ReleaseInput,
    AddPending(usize),
    SubPending(usize),
    CloseWhenFlushed,
    Arm(StageTimer, Duration),
    Disarm(StageTimer),
    /// It was told that there is no room because of what it wrote, and has to be told when there is.
    Room,
    Fail(Fault),
}

impl Known {
    /// Whether messages were not wanted.
    pub(crate) fn is_paused(self) -> bool {
        self.paused
    }
}
