//! The loop side of a channel that every stage can reach: demand, the account of what waits to be sent, and what was asked for.
//!
//! | file | what it is |
//! | --- | --- |
//! | `core` | [`ChannelCore`] and how it is put together; its handle, its stages' numbers, demand, calls |
//! | `unrest` | what waits inside of the pipeline: each flag, who says it and who goes by it |
//! | `room` | whether there is room to write, likewise |
//! | `given` | what was said when the channel was made, likewise |
//! | `taken` | what single stages take, and give back |
//! | `timers`, `futures` | of stages |
//! | `wishes` | what is asked of the transport, likewise |
//! | `side` | what other threads share with it |
//! | `away` | what goes along with a stage to its worker |
//! | `families` | children of stages: who of them has something to say, and their end with the channel's |

use super::{
    Account, Channel, ChannelId, CloseCause, HostSettings, WaterMarks,
    child::{Family, ParentChannel},
    demand::Demand,
    inlet::Inlet,
    kin::Kin,
    shared::{AnyShared, ChannelShared, find},
    taken::{Taken, What},
    weight::Weight,
};
use crate::{
    driver::Token,
    event_loop::{EventLoop, LocalLoop, Moment, SourceCaller},
    pipeline::{Handler, NamedStage, Place, StageCaller, StageError, Tasks},
};
use std::{
    any::Any,
    cell::OnceCell,
    marker::PhantomData,
    rc::Rc,
    sync::{Arc, PoisonError},
    time::Instant,
};

mod away;
mod families;
mod futures;
mod given;
mod room;
mod side;
mod taken;
mod timers;
mod unrest;
mod wishes;

pub(crate) use away::{Asked, Away, Known};
use families::Families;
pub(crate) use given::Given;
use room::Room;
pub(crate) use side::{Addresses, Calls, Side, SideTable, Whereabouts};
use timers::Timers;
pub(crate) use unrest::{Delivered, Unrest};
pub(crate) use wishes::{TailEnded, Wishes};

/// The inlet of a sealed segment, and whose handles there were before.
pub(crate) type Opened<W> = (Arc<Inlet<W>>, Option<Arc<dyn AnyShared>>);

pub(crate) struct ChannelCore {
    pub(crate) id: ChannelId,
    pub(crate) demand: Demand,
    /// What waits to be sent, in figures.
    pub(crate) account: Account,
    pub(crate) wishes: Wishes,
    pub(crate) home: Home,
    /// What waits inside of the pipeline, and who goes by it.
    pub(crate) unrest: Unrest,
    /// What was written and has not settled, and who was told of room.
    room: Room,
    /// What was said when the channel was made.
    pub(crate) given: Given,
    /// The channel's own handle, or that of the innermost sealed segment, of a type that only the last stage knows. A child
    /// has none before somebody asks for it.
    handle: OnceCell<Arc<dyn AnyShared>>,
    side: OnceCell<SideTable>,
    /// Its place on the loop as a number; 0, which is none, before it has one.
    token: u64,
    /// Whose child this is, if it is one.
    pub(super) family: Option<Rc<Family>>,
    /// The channels of the same server, if its handle is made when it is asked for.
    pub(super) kin: Option<Arc<Kin>>,
    /// Those of stages that are armed: one pointer until one is.
    timers: Timers,
    /// What most channels never have: one pointer until one does.
    extras: Option<Box<Extras>>,
    last_timer: u32,
    last_stage: u32,
}

#[derive(Default)]
struct Extras {
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
            unrest: Unrest::default(),
            room: Room::default(),
            given: settings.into(),
            handle: OnceCell::new(),
            side: OnceCell::new(),
            token: 0,
            family: None,
            kin: None,
            timers: Timers::default(),
            extras: None,
            last_timer: 0,
            last_stage: 0,
        }
    }

    pub(super) fn set_handle(&mut self, handle: Arc<dyn AnyShared>) {
        self.handle = OnceCell::from(handle);
    }

    /// The handle, of any type. That of a child, and of a server's channel, is made when somebody asks for it.
    fn any_handle(&self) -> Option<&Arc<dyn AnyShared>> {
        match (&self.family, &self.kin) {
            (Some(family), _) => Some(self.handle.get_or_init(|| family.handle_of(self))),
            (None, Some(kin)) => Some(self.handle.get_or_init(|| kin.handle_of(self))),
            (None, None) => self.handle.get(),
        }
    }

    /// The way to the channel for whoever need not know what can be written to it.
    pub(crate) fn way_back(&self) -> Option<Arc<dyn AnyShared>> {
        self.any_handle().cloned()
    }

    /// Whether somebody has asked for a handle.
    #[inline]
    pub(super) fn has_handle(&self) -> bool {
        self.handle.get().is_some()
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
        if self.kin.is_some() {
            self.any_handle(); // it differs from its kin now, and only a handle remembers that
        }
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

    /// Whether this is the channel's own.
    pub(crate) fn is_side(&self, side: &SideTable) -> bool {
        self.side.get().is_some_and(|own| Arc::ptr_eq(own, side))
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
    pub(crate) fn stage<H: Handler<P>, P: Place>(&self, name: &str) -> Result<StageCaller<H, P>, StageError> {
        let stage = self.side().lock().unwrap_or_else(PoisonError::into_inner).stage::<H, P>(name)?;
        Ok(self.caller(stage))
    }

    /// Whether others found nothing of its stages that would be lost with a new side: names, slots.
    #[inline]
    pub(super) fn can_start_over(&self) -> bool {
        let Some(side) = self.side.get() else { return true };
        !side.lock().unwrap_or_else(PoisonError::into_inner).has_names()
    }

    /// Another conversation with the same stages: nothing of the last one is left but their numbers.
    pub(super) fn start_over(&mut self, marks: WaterMarks, auto_read: bool) {
        if self.extras.is_some() || !self.timers.is_empty() {
            self.forget_stages(0);
        }
        self.id = ChannelId::next();
        self.demand = Demand::new(auto_read);
        self.account = Account::new(marks);
        self.wishes.start_over();
        self.unrest = Unrest::default();
        self.room = Room::default();
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
        self.unrest.waits();
    }

    pub(crate) fn request(&mut self) {
        self.ask(|| Asked::Request);
        self.demand.request();
        self.unrest.waits();
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

    /// Bytes that the transport has taken.
    pub(crate) fn taken_bytes(&self) -> u64 {
        match &self.home {
            Home::Here(_) => self.account.taken_bytes(),
            Home::Away(away) => away.taken,
        }
    }

    /// The moment of the loop's turn; on a worker, the present one.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match &self.home {
            Home::Here(local) => local.turn_time(),
            Home::Away(away) => away.event_loop.now(),
        }
    }

    /// The moment at which the loop last read the clock; on a worker, that of the call that went there.
    #[inline]
    pub(crate) fn moment(&self) -> Moment {
        match &self.home {
            Home::Here(local) => local.looked(),
            Home::Away(away) => away.moment(),
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

    pub(crate) fn caller<H: Handler<P>, P: Place>(&self, stage: u32) -> StageCaller<H, P> {
        let channel = self.source_caller();
        StageCaller { table: self.side().clone(), channel, stage, handler: PhantomData }
    }

    /// Takes the calls that have arrived, and gives back what guards have let go; tells whether there was any. Before
    /// [`take_woken`](Self::take_woken): whoever wakes after that is not seen there.
    pub(super) fn take_calls(&mut self) -> (Calls, bool) {
        let Some(side) = self.side.get() else { return (Vec::new(), false) };
        let mut side = side.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(rare) = side.rare_if_any() else { return (Vec::new(), false) };
        rare.called = false; // what comes from now on calls again
        let calls = std::mem::take(&mut rare.calls);
        let let_go = (!rare.let_go.is_empty()).then(|| std::mem::take(&mut rare.let_go));
        drop(side);
        let any = let_go.is_some();
        for (stage, what, amount) in let_go.into_iter().flatten() {
            self.let_go(stage, what, amount);
        }
        (calls, any)
    }
}
