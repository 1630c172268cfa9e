//! The loop side of a channel that every stage can reach: demand, outbound queue, timers, and what was asked for.

use super::{Channel, ChannelId, CloseCause, Fault, Outbound, WaterMarks, WriteError, WritePromise};
use crate::{
    driver::Token,
    event_loop::{LocalLoop, SourceTimer},
    pipeline::StageTimer,
};
use std::{
    any::Any,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The slots of a pipeline by name.
pub(super) type SlotTable = Arc<Mutex<Vec<(&'static str, Box<dyn Any + Send>)>>>;

/// Whether messages may be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    Flowing,
    /// So many messages, then stop.
    Permits(u32),
}

impl Demand {
    pub(crate) fn is_paused(self) -> bool {
        self == Self::Permits(0)
    }

    pub(crate) fn pause(&mut self) {
        *self = Self::Permits(0);
    }

    pub(crate) fn resume(&mut self) {
        *self = Self::Flowing;
    }

    pub(crate) fn request(&mut self) {
        if let Self::Permits(permits) = self {
            *permits = permits.saturating_add(1);
        }
    }

    /// A message has reached the last stage.
    pub(crate) fn delivered(&mut self) {
        if let Self::Permits(permits) = self {
            *permits = permits.saturating_sub(1);
        }
    }
}

/// What the pipeline wants of the transport.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) flush: bool,
    pub(crate) close: Option<CloseCause>,
    pub(crate) close_done: Vec<WritePromise>,
    pub(crate) close_when_flushed: bool,
    /// A close has come through the pipeline: what is written behind it comes too late.
    pub(crate) closing: bool,
    pub(crate) shut_down_output: bool,
    pub(crate) shut_down_done: Vec<WritePromise>,
}

pub(crate) struct ChannelCore {
    pub(crate) id: ChannelId,
    pub(crate) demand: Demand,
    pub(crate) outbound: Outbound,
    pub(crate) wishes: Wishes,
    pub(crate) local: LocalLoop,
    pub(crate) local_addr: Option<SocketAddr>,
    pub(crate) peer_addr: Option<SocketAddr>,
    pub(crate) unhandled_messages: u64,
    /// A stage has read a message since the last flush for a pause.
    pub(crate) delivered: bool,
    /// The channel's own handle, of a type that only its last stage knows.
    handle: Option<Rc<dyn Any>>,
    slots: SlotTable,
    token: Option<Token>,
    timers: Vec<Armed>,
    last_timer: u32,
    last_stage: u32,
}

struct Armed {
    timer: StageTimer,
    key: SourceTimer,
}

impl ChannelCore {
    pub(super) fn new(local: LocalLoop, marks: WaterMarks, auto_read: bool) -> Self {
        Self {
            id: ChannelId::next(),
            demand: if auto_read { Demand::Flowing } else { Demand::Permits(0) },
            outbound: Outbound::new(marks),
            wishes: Wishes::default(),
            local,
            local_addr: None,
            peer_addr: None,
            unhandled_messages: 0,
            delivered: false,
            handle: None,
            slots: SlotTable::default(),
            token: None,
            timers: Vec::new(),
            last_timer: 0,
            last_stage: 0,
        }
    }

    pub(super) fn set_handle<W: 'static>(&mut self, handle: Channel<W>) {
        self.handle = Some(Rc::new(handle));
    }

    /// The channel's handle. `None` for any but the last stage's type.
    pub(crate) fn handle<W: 'static>(&self) -> Option<Channel<W>> {
        self.handle.as_ref()?.downcast_ref::<Channel<W>>().cloned()
    }

    /// Where slots are found from outside. Empty, and without memory of its own, until the first slot is added.
    pub(super) fn slots(&self) -> SlotTable {
        self.slots.clone()
    }

    pub(crate) fn publish_slot(&mut self, name: &'static str, slot: Box<dyn Any + Send>) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|(known, _)| *known != name); // one that left with its segment makes room
        slots.push((name, slot));
    }

    pub(super) fn set_token(&mut self, token: Token) {
        self.token = Some(token);
    }

    /// Stages are numbered as they come, so a signal for one that has gone finds nobody.
    pub(crate) fn next_stage_id(&mut self) -> u32 {
        self.last_stage += 1;
        self.last_stage
    }

    // ---- timers ----

    pub(crate) fn arm(&mut self, stage: u32, delay: Duration) -> StageTimer {
        self.last_timer = self.last_timer.wrapping_add(1);
        let timer = StageTimer(self.last_timer);
        if let Some(token) = self.token {
            let signal = u64::from(stage) << 32 | u64::from(timer.0);
            let key = self.local.arm(token, delay, signal);
            self.timers.push(Armed { timer, key });
        }
        timer
    }

    pub(crate) fn disarm(&mut self, timer: StageTimer) -> bool {
        let Some(index) = self.timers.iter().position(|armed| armed.timer == timer) else { return false };
        self.local.disarm(self.timers.swap_remove(index).key)
    }

    /// A signal that came back: which stage it is for, if its timer still counts.
    pub(super) fn due(&mut self, signal: u64) -> Option<(u32, StageTimer)> {
        let (stage, timer) = ((signal >> 32) as u32, StageTimer(signal as u32));
        let index = self.timers.iter().position(|armed| armed.timer == timer)?;
        self.timers.swap_remove(index);
        Some((stage, timer))
    }

    /// The channel has ended: no timer comes any more, and none can be armed.
    pub(super) fn disarm_all(&mut self) {
        self.token = None;
        for armed in self.timers.drain(..) {
            self.local.disarm(armed.key);
        }
    }

    // ---- the end ----

    pub(crate) fn close_when_flushed(&mut self) {
        self.wishes.close_when_flushed = true;
    }

    /// Why nothing more may be written, as far as the order of operations says so.
    pub(super) fn output_ended(&self) -> Option<WriteError> {
        if self.wishes.closing {
            let cause = self.wishes.close.clone().unwrap_or(CloseCause::Requested);
            return Some(WriteError::Closed(cause));
        }
        self.wishes.shut_down_output.then_some(WriteError::OutputShutDown)
    }

    /// The first cause counts.
    pub(crate) fn request_close(&mut self, cause: CloseCause, done: WritePromise) {
        self.wishes.close.get_or_insert(cause);
        if done.is_tracked() {
            self.wishes.close_done.push(done);
        }
    }

    /// An error that no stage took care of.
    pub(crate) fn unhandled(&mut self, fault: Fault) {
        tracing::warn!(channel = %self.id, error = %fault, "no handler took care of this error, closing the channel");
        self.request_close(CloseCause::Fault(fault), WritePromise::untracked());
    }
}
