//! What goes along with a stage to its worker, and what it asks of its channel from there.

use super::{
    super::{Account, ChannelId, WaterMarks, WriteError},
    ChannelCore, Demand, Given, Home, Room, SideTable, Timers, Unrest, What, Wishes,
};
use crate::{
    event_loop::{LoopRef, Moment, SourceCaller},
    pipeline::StageTimer,
};
use std::{any::Any, cell::OnceCell, sync::Arc, time::Duration};

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
    /// Bytes that were flushed and not sent when the call began, and those that were sent.
    pub(crate) unsent: u64,
    pub(crate) taken: u64,
    /// When the call began.
    pub(crate) moment: Moment,
}

impl Away {
    #[cold]
    pub(super) fn moment(&self) -> Moment {
        self.moment
    }
}

/// What the loop knew of a channel when it sent something to a worker.
#[derive(Clone)]
pub(crate) struct Known {
    paused: bool,
    writable: bool,
    pending: usize,
    unsent: u64,
    taken: u64,
    moment: Moment,
    marks: WaterMarks,
    half_closure: bool,
    /// Why writes only failed, if they did.
    ended: Option<WriteError>,
}

/// Something that a stage on a worker asks of its channel.
pub(crate) enum Asked {
    Pause,
    Resume,
    Request,
    Take(What, usize),
    GiveBack(What, usize),
    CloseWhenFlushed,
    Arm(StageTimer, Duration),
    Disarm(StageTimer),
    /// It was told that there is no room because of what it wrote, and has to be told when there is.
    Room,
}

impl Known {
    /// Whether messages were not wanted.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }
}

impl ChannelCore {
    /// What a worker has to know of the channel as it is now.
    pub(crate) fn known(&self, half_closure: bool) -> Known {
        Known {
            paused: self.demand.is_stopped(),
            writable: self.account.is_writable() && !self.has_output_ended(),
            pending: self.account.pending_bytes(),
            unsent: self.account.unsent_bytes(),
            taken: self.account.taken_bytes(),
            moment: self.moment(),
            marks: self.account.water_marks(),
            half_closure,
            ended: if self.only_refuses() { self.account.ended().cloned() } else { None },
        }
    }

    /// A core for a stage on a worker, for the time of one call.
    pub(crate) fn away(id: ChannelId, side: SideTable, away: Away, known: Known) -> Self {
        let mut account = Account::new(known.marks);
        account.expect_from_outside(known.pending);
        if let Some(error) = known.ended {
            account.end(error);
        }
        if !known.writable {
            let _ = account.set_user_writability(31, false);
        }
        Self {
            id,
            demand: Demand::new(!known.paused),
            account,
            wishes: Wishes::default(),
            last_timer: away.last_timer,
            home: Home::Away(Box::new(Away {
                unsent: known.unsent,
                taken: known.taken,
                moment: known.moment,
                ..away
            })),
            unrest: Unrest::default(),
            room: Room::default(),
            given: Given { half_closure: Some(known.half_closure), ..Given::default() },
            handle: OnceCell::new(),
            side: OnceCell::from(side),
            token: 0,
            family: None,
            kin: None,
            timers: Timers::default(),
            extras: None,
            last_stage: 0,
        }
    }

    /// What was asked for on a worker since this was asked last.
    pub(crate) fn take_asked(&mut self) -> Vec<Asked> {
        match &mut self.home {
            Home::Here(_) => Vec::new(),
            Home::Away(away) => std::mem::take(&mut away.asked),
        }
    }

    /// The call on a worker is over: what was asked for last, the number of the last timer, and those that have not come.
    pub(crate) fn come_home(mut self) -> (Vec<Asked>, u32, Vec<StageTimer>) {
        if self.room.is_told_full() {
            self.ask(|| Asked::Room);
        }
        match self.home {
            Home::Here(_) => (Vec::new(), self.last_timer, Vec::new()),
            Home::Away(away) => (away.asked, self.last_timer, away.armed),
        }
    }

    /// Something of this stage goes to a worker: nothing else is delivered until it is back.
    pub(crate) fn depart(&mut self, stage: u32) {
        self.take(stage, What::Away, 1);
    }

    /// It is back.
    pub(crate) fn arrive(&mut self, stage: u32) {
        self.give_back(stage, What::Away, 1);
    }

    /// A stage on a worker was told that there is no room: it hears of it when there is.
    pub(crate) fn expects_room(&mut self) {
        self.room.tell_full();
    }

    /// The channel's loop, for what must not keep it alive.
    pub(crate) fn loop_reference(&self) -> LoopRef {
        match &self.home {
            Home::Here(local) => local.reference(),
            Home::Away(away) => away.event_loop.clone(),
        }
    }
}
