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
//! | `families` | children of stages: who of them has something to say, and their end with the channel's |

use super::{
    Account, Channel, ChannelId, CloseCause, HostSettings, WaterMarks,
    child::{Family, ParentChannel},
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
    cell::{Cell, OnceCell},
    marker::PhantomData,
    rc::Rc,
    sync::{Arc, PoisonError},
};

mod away;
mod families;
mod futures;
mod room;
mod side;
mod taken;
mod timers;
mod wishes;

pub(crate) use away::{Asked, Away, Known};
use families::Families;
pub(crate) use room::Delivered;
pub(crate) use side::{Addresses, Side, SideTable, Whereabouts};
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
    /// The channel's own handle, or that of the innermost sealed segment, of a type that only the last stage knows. A child
    /// has none before somebody asks for it.
    handle: OnceCell<Arc<dyn AnyShared>>,
    side: OnceCell<SideTable>,
    /// Its place on the loop as a number; 0, which is none, before it has one.
    token: u64,
    /// Whose child this is, if it is one.
    pub(super) family: Option<Rc<Family>>,
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
    families: Families,
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

    pub(super) fn set_up(local: LocalLoop, settings: &HostSettings) -> Self {
        Self {
            id: ChannelId::next(),
            demand: Demand::new(settings.auto_read),
            account: Account::new(settings.water_marks),
            wishes: Wishes::default(),
            home: Home::Here(local),
            unhandled_messages: 0,
            unsettled: 0,
            told_full: Cell::new(false),
            asks_for_room: Cell::new(false),
            waiting_inside: false,
            never_pulls: false,
            delivered: Delivered::default(),
            half_closure: settings.half_closure,
            whole_messages: settings.whole_messages,
            hold_back: settings.hold_back,
            handle: OnceCell::new(),
            side: OnceCell::new(),
            token: 0,
            family: None,
            extras: None,
            last_timer: 0,
            last_stage: 0,
        }
    }

    pub(super) fn set_handle(&mut self, handle: Arc<dyn AnyShared>) {
        self.handle = OnceCell::from(handle);
    }

    /// The handle, of any type. A child's is made when somebody asks for it.
    fn any_handle(&self) -> Option<&Arc<dyn AnyShared>> {
        match &self.family {
            Some(family) => Some(self.handle.get_or_init(|| family.handle_of(self))),
            None => self.handle.get(),
        }
    }

    /// The channel's own handle, if it has one by now: not that of a sealed segment.
    pub(super) fn own_handle<W: 'static>(&self) -> Option<Arc<ChannelShared<W>>> {
        let handle = self.handle.get()?.clone();
        match find(handle.clone()) {
            Some(shared) => Some(shared),
            None => find(handle.outermost()?),
        }
    }

    /// The same, made if it has none.
    pub(super) fn make_own_handle<W: 'static>(&self) -> Option<Arc<ChannelShared<W>>> {
        self.any_handle()?;
        self.own_handle()
    }

    /// The channel's handle. `None` for any but the last stage's type.
    pub(crate) fn handle<W: 'static>(&self) -> Option<Channel<W>> {
        if let Home::Away(away) = &self.home {
            return away.channel.as_ref()?.downcast_ref::<Channel<W>>().cloned();
        }
        let handle = self.any_handle()?;
        match find::<ChannelShared<W>>(handle.clone()) {
            Some(shared) => Some(Channel::of(shared)),
            None => find::<Inlet<W>>(handle.clone()).map(Channel::through),
        }
    }

    /// Another segment has come to the far end: what messages count for there.
    pub(crate) fn tail_weighs<W: 'static>(&self, weight: Weight<W>) {
        let Some(handle) = self.handle.get().map(|handle| handle.as_any()) else { return };
        if let Some(shared) = handle.downcast_ref::<ChannelShared<W>>() {
            shared.weight.say(weight);
        } else if let Some(inlet) = handle.downcast_ref::<Inlet<W>>() {
            inlet.weight.say(weight);
        }
    }

    /// Opens the inlet of a sealed segment: handles that are asked for from now on write there. Also returns whose they
    /// were before.
    pub(crate) fn open_inlet<W: 'static>(&mut self, stage: u32, weight: Weight<W>) -> Opened<W> {
        self.any_handle();
        let outer = self.handle.take();
        let channel = outer.clone().and_then(|outer| outer.outermost());
        let channel = channel.expect("with a sealed segment inside, nothing can be written from outside");
        let inlet = Inlet::new(channel, stage, weight);
        self.set_handle(inlet.clone());
        (inlet, outer)
    }

    /// A sealed segment leaves: handles are what they were without it.
    pub(crate) fn restore_handle(&mut self, outer: Option<Arc<dyn AnyShared>>) {
        self.handle = outer.map(OnceCell::from).unwrap_or_default();
    }

    /// The channel has ended: tells those who wrote to a sealed segment.
    pub(super) fn end_inlet(&self, cause: &CloseCause) {
        if let Some(handle) = self.handle.get() {
            handle.ended(cause);
        }
    }

    /// What other threads share with the channel. A child has it from when it is asked for.
    pub(crate) fn side(&self) -> &SideTable {
        self.side.get_or_init(|| self.make_side())
    }

    pub(crate) fn publish_slot(&mut self, name: &'static str, slot: Box<dyn Any + Send>) {
        let mut side = self.side().lock().unwrap_or_else(PoisonError::into_inner);
        let slots = &mut side.rare().slots;
        slots.retain(|(known, _)| *known != name); // one that left with its segment makes room
        slots.push((name, slot));
    }

    /// Has a stage found by its name, until it leaves.
    pub(crate) fn publish_stage(&mut self, stage: NamedStage) -> Result<(), StageError> {
        let mut side = self.side().lock().unwrap_or_else(PoisonError::into_inner);
        stage.enter(&mut side.rare().stages)
    }

    /// The way to the stage of this name.
    pub(crate) fn stage<H: Handler>(&self, name: &str) -> Result<StageCaller<H>, StageError> {
        let stage = self.side().lock().unwrap_or_else(PoisonError::into_inner).stage::<H>(name)?;
        Ok(self.caller(stage))
    }

    /// Whether others found nothing of its stages that would be lost with a new side: names, slots.
    pub(super) fn can_start_over(&self) -> bool {
        let Some(side) = self.side.get() else { return true };
        !side.lock().unwrap_or_else(PoisonError::into_inner).has_names()
    }

    /// Another conversation with the same stages: nothing of the last one is left but their numbers.
    pub(super) fn start_over(&mut self, marks: WaterMarks, auto_read: bool) {
        if self.extras.is_some() {
            self.forget_stages(0);
        }
        self.id = ChannelId::next();
        self.demand = Demand::new(auto_read);
        self.account = Account::new(marks);
        self.wishes.start_over();
        self.unhandled_messages = 0;
        self.unsettled = 0;
        self.told_full.set(false);
        self.asks_for_room.set(false);
        self.waiting_inside = false;
        self.delivered = Delivered::default();
        self.token = 0;
        if self.is_shared() {
            self.handle.take();
            self.side.take();
        }
    }

    /// Whether there is something that other threads share with the channel.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.side.get().is_some() // a handle has one as well
    }

    /// The channel leaves its loop, and has no handle that would tell others.
    pub(super) fn leave_side(&self) {
        let Some(side) = self.side.get() else { return };
        let left = side.lock().unwrap_or_else(PoisonError::into_inner).leave();
        if let Some(rare) = left {
            rare.discard();
        }
    }

    pub(super) fn set_token(&mut self, token: Token) {
        self.token = token.to_u64();
    }

    /// Its place on the loop, while it has one.
    pub(super) fn token(&self) -> Option<Token> {
        (self.token != 0).then(|| Token::from_u64(self.token))
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
        match (self.side.get(), &self.family) {
            (Some(side), _) => Side::addresses(side),
            (None, Some(family)) => family.parent().addresses(),
            (None, None) => Addresses::default(),
        }
    }

    /// Whose child this channel is, if it is one.
    pub(crate) fn parent(&self) -> Option<ParentChannel> {
        if let Some(family) = &self.family {
            return Some(family.parent().clone());
        }
        self.side.get()?.lock().unwrap_or_else(PoisonError::into_inner).parent().cloned()
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
            Home::Here(local) => Some(local.caller(self.token()?)),
            Home::Away(away) => away.caller.clone(),
        }
    }

    pub(crate) fn caller<H: Handler>(&self, stage: u32) -> StageCaller<H> {
        let channel = self.source_caller();
        StageCaller { table: self.side().clone(), channel, stage, handler: PhantomData }
    }

    /// Takes the calls that have arrived. Before [`take_woken`](Self::take_woken): whoever wakes after that is not seen there.
    pub(super) fn take_calls(&self) -> Vec<(u32, Box<dyn Any + Send>)> {
        let Some(side) = self.side.get() else { return Vec::new() };
        let mut side = side.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(rare) = side.rare_if_any() else { return Vec::new() };
        rare.called = false; // what comes from now on calls again
        std::mem::take(&mut rare.calls)
    }
}
