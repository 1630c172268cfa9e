//! The loop side of a channel that every stage can reach: demand, the account of what waits to be sent, and what was asked for.
//!
//! | file | what it is |
//! | --- | --- |
//! | `core` | [`ChannelCore`] and how it is put together; its handle, its stages' numbers, demand, calls |
//! | `room` | whether there is room to write |
//! | `taken` | what single stages take, and give back |
//! | `timers`, `futures` | of stages |
//! | `wishes` | what is asked of the transport |
//! | `side` | what other threads share with it |
//! | `away` | what goes along with a stage to its worker |

use super::{
    Account, Channel, ChannelId, CloseCause, WaterMarks,
    demand::Demand,
    inlet::Inlet,
    shared::{AnyShared, ChannelShared, find},
    taken::{Taken, What},
    weight::Weight,
};
use crate::{
    driver::Token,
    event_loop::{EventLoop, LocalLoop, SourceCaller},
    pipeline::{Handler, NamedStage, StageCaller, StageError, Tasks},
};
use std::{
    any::Any,
    cell::Cell,
    marker::PhantomData,
    sync::{Arc, PoisonError},
};

mod away;
mod futures;
mod room;
mod side;
mod taken;
mod timers;
mod wishes;

pub(crate) use away::{Asked, Away, Known};
pub(crate) use room::Delivered;
pub(crate) use side::{Addresses, Side, SideTable};
use timers::Armed;
pub(crate) use wishes::Wishes;

/// The inlet of a sealed segment, and whose handles there were before.
pub(crate) type Opened<W> = (Arc<Inlet<W>>, Option<Arc<dyn AnyShared>>);

pub(crate) struct ChannelCore {
    pub(crate) id: ChannelId,
    pub(crate) demand: Demand,
    /// What waits to be sent, in figures.
    pub(crate) account: Account,
    pub(crate) wishes: Wishes,
    pub(crate) home: Home,
    pub(crate) unhandled_messages: u64,
    /// Bytes written during the call that is under way, which the outbound queue has not seen yet.
    unsettled: usize,
    /// Somebody was told that there is no room because of them, and has to be told when there is.
    told_full: Cell<bool>,
    /// A stage has asked whether there is room, and may do so again.
    asks_for_room: Cell<bool>,
    /// Something may wait inside the pipeline: a message to be pulled, or one that was held. If not, there is no need to
    /// walk through the stages and look.
    pub(crate) waiting_inside: bool,
    /// The handler that was asked for a message is one that never has any to give.
    pub(crate) never_pulls: bool,
    /// Since when a stage has read a message.
    pub(crate) delivered: Delivered,
    /// The channel lives on when its peer sends no more.
    pub(crate) half_closure: bool,
    /// An empty message is something to send.
    pub(super) whole_messages: bool,
    /// Messages stand still while their answers are more than the channel takes.
    pub(super) hold_back: bool,
    /// The channel has ended, and nobody waits for what is still inside: messages are dropped where they are.
    pub(crate) forsaken: bool,
    /// The channel's own handle, or that of the innermost sealed segment, of a type that only the last stage knows.
    handle: Option<Arc<dyn AnyShared>>,
    side: SideTable,
    token: Option<Token>,
    /// What most channels never have: one pointer until one does.
    extras: Option<Box<Extras>>,
    last_timer: u32,
    last_stage: u32,
}

#[derive(Default)]
struct Extras {
    timers: Vec<Armed>,
    tasks: Tasks,
    taken: Taken,
}

/// Where a core is: on its loop, or lent to a worker.
pub(crate) enum Home {
    Here(LocalLoop),
    /// A stage runs on a worker: what it asks of the channel is noted, and done on the loop afterwards.
    Away(Box<Away>),
}

impl ChannelCore {
    fn ask(&mut self, asked: impl FnOnce() -> Asked) {
        if let Home::Away(away) = &mut self.home {
            away.asked.push(asked());
        }
    }

    pub(super) fn new(local: LocalLoop, marks: WaterMarks, auto_read: bool) -> Self {
        Self {
            id: ChannelId::next(),
            demand: Demand::new(auto_read),
            account: Account::new(marks),
            wishes: Wishes::default(),
            home: Home::Here(local),
            unhandled_messages: 0,
            unsettled: 0,
            told_full: Cell::new(false),
            asks_for_room: Cell::new(false),
            waiting_inside: false,
            never_pulls: false,
            delivered: Delivered::default(),
            half_closure: false,
            whole_messages: false,
            hold_back: false,
            forsaken: false,
            handle: None,
            side: SideTable::default(),
            token: None,
            extras: None,
            last_timer: 0,
            last_stage: 0,
        }
    }

    pub(super) fn set_handle(&mut self, handle: Arc<dyn AnyShared>) {
        self.handle = Some(handle);
    }

    /// The channel's handle. `None` for any but the last stage's type.
    pub(crate) fn handle<W: 'static>(&self) -> Option<Channel<W>> {
        if let Home::Away(away) = &self.home {
            return away.channel.as_ref()?.downcast_ref::<Channel<W>>().cloned();
        }
        let handle = self.handle.as_ref()?;
        match find::<ChannelShared<W>>(handle.clone()) {
            Some(shared) => Some(Channel::of(shared)),
            None => find::<Inlet<W>>(handle.clone()).map(Channel::through),
        }
    }

    /// Another segment has come to the far end: what messages count for there.
    pub(crate) fn tail_weighs<W: 'static>(&self, weight: Weight<W>) {
        let Some(handle) = self.handle.as_ref().map(|handle| handle.as_any()) else { return };
        if let Some(shared) = handle.downcast_ref::<ChannelShared<W>>() {
            shared.weight.say(weight);
        } else if let Some(inlet) = handle.downcast_ref::<Inlet<W>>() {
            inlet.weight.say(weight);
        }
    }

    /// Opens the inlet of a sealed segment: handles that are asked for from now on write there. Also returns whose they
    /// were before.
    pub(crate) fn open_inlet<W: 'static>(&mut self, stage: u32, weight: Weight<W>) -> Opened<W> {
        let outer = self.handle.take();
        let channel = outer.clone().and_then(|outer| outer.outermost());
        let channel = channel.expect("with a sealed segment inside, nothing can be written from outside");
        let inlet = Inlet::new(channel, stage, weight);
        self.handle = Some(inlet.clone());
        (inlet, outer)
    }

    /// A sealed segment leaves: handles are what they were without it.
    pub(crate) fn restore_handle(&mut self, outer: Option<Arc<dyn AnyShared>>) {
        self.handle = outer;
    }

    /// The channel has ended: tells those who wrote to a sealed segment.
    pub(super) fn end_inlet(&self, cause: &CloseCause) {
        if let Some(handle) = &self.handle {
            handle.ended(cause);
        }
    }

    pub(crate) fn side(&self) -> SideTable {
        self.side.clone()
    }

    pub(crate) fn publish_slot(&mut self, name: &'static str, slot: Box<dyn Any + Send>) {
        let mut side = self.side.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = &mut side.rare().slots;
        slots.retain(|(known, _)| *known != name); // one that left with its segment makes room
        slots.push((name, slot));
    }

    /// Has a stage found by its name, until it leaves.
    pub(crate) fn publish_stage(&mut self, stage: NamedStage) -> Result<(), StageError> {
        let mut side = self.side.lock().unwrap_or_else(PoisonError::into_inner);
        stage.enter(&mut side.rare().stages)
    }

    /// The way to the stage of this name.
    pub(crate) fn stage<H: Handler>(&self, name: &str) -> Result<StageCaller<H>, StageError> {
        let stage = self.side.lock().unwrap_or_else(PoisonError::into_inner).stage::<H>(name)?;
        Ok(self.caller(stage))
    }

    pub(super) fn set_token(&mut self, token: Token) {
        self.token = Some(token);
    }

    /// Stages are numbered as they come, so a signal for one that has gone finds nobody.
    pub(crate) fn next_stage_id(&mut self) -> u32 {
        self.last_stage += 1;
        self.last_stage
    }

    /// The number that the next stage will get.
    pub(crate) fn first_free_stage(&self) -> u32 {
        self.last_stage + 1
    }

    // ---- demand ----

    pub(crate) fn pause(&mut self) {
        self.demand.pause();
        self.ask(|| Asked::Pause);
    }

    pub(crate) fn resume(&mut self) {
        self.ask(|| Asked::Resume);
        self.demand.resume();
        self.waiting_inside = true;
    }

    pub(crate) fn request(&mut self) {
        self.ask(|| Asked::Request);
        self.demand.request();
        self.waiting_inside = true;
    }

    /// Ours and the peer's address, as far as they are known.
    pub(crate) fn addresses(&self) -> Addresses {
        self.side.lock().unwrap_or_else(PoisonError::into_inner).addresses.clone().unwrap_or_default()
    }

    /// Bytes that were flushed and not sent.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        match &self.home {
            Home::Here(_) => self.account.unsent_bytes(),
            Home::Away(away) => away.unsent,
        }
    }

    /// The channel's loop.
    pub(crate) fn event_loop(&self) -> EventLoop {
        match &self.home {
            Home::Here(local) => local.handle(),
            Home::Away(away) => away.event_loop.handle(),
        }
    }

    // ---- calls ----

    /// How other threads have this channel called, while it lives.
    pub(crate) fn source_caller(&self) -> Option<SourceCaller> {
        match &self.home {
            Home::Here(local) => Some(local.caller(self.token?)),
            Home::Away(away) => away.caller.clone(),
        }
    }

    pub(crate) fn caller<H: Handler>(&self, stage: u32) -> StageCaller<H> {
        let channel = self.source_caller();
        StageCaller { table: self.side.clone(), channel, stage, handler: PhantomData }
    }

    /// Takes the calls that have arrived. Before [`take_woken`](Self::take_woken): whoever wakes after that is not seen there.
    pub(super) fn take_calls(&self) -> Vec<(u32, Box<dyn Any + Send>)> {
        let mut side = self.side.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(rare) = side.rare_if_any() else { return Vec::new() };
        rare.called = false; // what comes from now on calls again
        std::mem::take(&mut rare.calls)
    }
}
