//! The loop side of a channel that every stage can reach: demand, outbound queue, timers, and what was asked for.

use super::{
    Account, Address, Channel, ChannelId, CloseCause, ENTRY_OVERHEAD, Fault, WaterMarks, WriteError,
    WritePromise,
    demand::Demand,
    inlet::Inlet,
    shared::{AnyShared, ChannelShared, find},
    taken::{Taken, What},
    weight::{Weight, at_first_sight},
};
use crate::{
    arena::Key,
    driver::Token,
    event_loop::{EventLoop, LocalLoop, SourceCaller, SourceTimer},
    pipeline::{Handler, Job, NamedStage, StageCaller, StageError, StageTask, StageTimer, TaskWaker, Tasks},
    spill::Spill,
    task_error::{discard_each, tell},
};
use std::{
    any::Any,
    cell::Cell,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

mod away;

pub(crate) use away::{Asked, Away, Known};

/// What a channel shares with others beside its typed handle: one allocation for all of it.
pub(crate) type SideTable = Arc<Mutex<Side>>;

/// The inlet of a sealed segment, and whose handles there were before.
pub(crate) type Opened<W> = (Arc<Inlet<W>>, Option<Arc<dyn AnyShared>>);

/// Our address and the peer's.
pub(crate) type Addresses = (Option<Address>, Option<Address>);

#[derive(Default)]
pub(crate) struct Side {
    /// Ours and the peer's, once connected.
    pub(crate) addresses: Option<Addresses>,
    /// Somebody has asked for the end, by a handle or in the pipeline.
    pub(crate) closing: bool,
    /// The channel has left its loop: nobody will look here again.
    gone: bool,
    /// What most channels never have: one pointer until one does.
    rare: Option<Box<RareSide>>,
}

impl Side {
    /// Leaves a call for the channel, and says whether the channel has to be called because of it: once for all that is left
    /// before it looks. Given back if nobody is left to take it.
    pub(crate) fn call<T>(&mut self, call: T, push: impl FnOnce(&mut RareSide, T)) -> Result<bool, T> {
        if self.gone {
            return Err(call);
        }
        let rare = self.rare();
        push(rare, call);
        Ok(!std::mem::replace(&mut rare.called, true))
    }

    /// The channel leaves: what waits here is for the caller to drop, outside of the lock.
    pub(crate) fn leave(&mut self) -> Option<Box<RareSide>> {
        self.gone = true;
        self.rare.take()
    }

    pub(crate) fn rare(&mut self) -> &mut RareSide {
        self.rare.get_or_insert_default()
    }

    /// The number of the stage of this name, if it takes calls for `H`.
    pub(crate) fn stage<H: Handler>(&self, name: &str) -> Result<u32, StageError> {
        if self.gone {
            return Err(StageError::ChannelGone);
        }
        NamedStage::find::<H>(self.rare.as_ref().map_or(&[], |rare| &rare.stages), name)
    }

    /// What is there of it, without making it.
    pub(crate) fn rare_if_any(&mut self) -> Option<&mut RareSide> {
        self.rare.as_deref_mut()
    }
}

#[derive(Default)]
pub(crate) struct RareSide {
    /// Slots by name.
    pub(crate) slots: Vec<(&'static str, Box<dyn Any + Send>)>,
    /// Stages that have a name.
    stages: Vec<NamedStage>,
    /// Calls of stages that are on their way.
    pub(crate) calls: Vec<(u32, Box<dyn Any + Send>)>,
    /// Futures of stages that want to be polled.
    pub(crate) woken: Vec<Key>,
    /// The channel has been called for these, and has not looked yet.
    called: bool,
}

/// What the pipeline wants of the transport.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) flush: bool,
    pub(crate) close: Option<Box<CloseCause>>,
    pub(crate) close_done: Spill<WritePromise>,
    pub(crate) close_when_flushed: bool,
    /// That is because an async tail has ended, and not if it has given way to another segment.
    pub(crate) tail_ended: bool,
    /// That close is on its way: what stages flush because of it is sent before.
    pub(crate) last_words: bool,
    /// The close waits for nobody: neither for workers nor for what stages have to say to the peer.
    pub(crate) at_once: bool,
    /// A close has come through the pipeline: what is written behind it comes too late.
    pub(crate) closing: bool,
    /// Whoever reads the messages has asked for the end, or an owner of a handle: nobody waits for what is still inside.
    pub(crate) wants_no_more: bool,
    pub(crate) shut_down_output: bool,
    pub(crate) shut_down_done: Spill<WritePromise>,
}

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

/// Since when a stage has read a message, as several look at it: one byte, which each message sets at once.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Delivered(u8);

impl Delivered {
    /// Since what was written was last flushed for a pause.
    pub(crate) const SINCE_FLUSH: u8 = 1;
    /// Since somebody was last told of room that there is after the end.
    pub(crate) const SINCE_ROOM: u8 = 2;
    /// Since somebody last looked whether a channel that has ended still goes on.
    pub(crate) const SINCE_LOOK: u8 = 4;
    /// In the call that is under way, so that what is written may be an answer.
    pub(crate) const IN_CALL: u8 = 8;

    #[inline]
    pub(crate) fn mark(&mut self) {
        self.0 = u8::MAX;
    }

    /// What is written in this call answers a message that came before it.
    pub(crate) fn mark_call(&mut self) {
        self.0 |= Self::IN_CALL;
    }

    pub(crate) fn is(self, since: u8) -> bool {
        self.0 & since != 0
    }

    pub(crate) fn take(&mut self, since: u8) -> bool {
        let was = self.is(since);
        self.0 &= !since;
        was
    }
}

#[derive(Default)]
struct Extras {
    timers: Vec<Armed>,
    tasks: Tasks,
    taken: Taken,
}

struct Armed {
    signal: u64,
    key: SourceTimer,
}

fn signal_of(stage: u32, timer: StageTimer) -> u64 {
    u64::from(stage) << 32 | u64::from(timer.0)
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

    // ---- what single stages take ----

    pub(crate) fn hold(&mut self, stage: u32) {
        self.take(stage, What::Hold, 1, || Asked::Hold);
    }

    pub(crate) fn release(&mut self, stage: u32) {
        self.give_back(stage, What::Hold, 1, || Asked::Release);
    }

    pub(crate) fn hold_input(&mut self, stage: u32) {
        self.take(stage, What::HoldInput, 1, || Asked::HoldInput);
    }

    pub(crate) fn release_input(&mut self, stage: u32) {
        self.give_back(stage, What::HoldInput, 1, || Asked::ReleaseInput);
    }

    pub(crate) fn insist(&mut self, stage: u32) {
        self.take(stage, What::Insist, 1, || Asked::Insist);
    }

    pub(crate) fn desist(&mut self, stage: u32) {
        self.give_back(stage, What::Insist, 1, || Asked::Desist);
    }

    pub(crate) fn add_pending(&mut self, stage: u32, bytes: usize) {
        self.take(stage, What::Pending, bytes, || Asked::AddPending(bytes));
    }

    pub(crate) fn sub_pending(&mut self, stage: u32, bytes: usize) {
        self.give_back(stage, What::Pending, bytes, || Asked::SubPending(bytes));
    }

    fn take(&mut self, stage: u32, what: What, amount: usize, asked: impl FnOnce() -> Asked) {
        self.ask(asked);
        self.extras.get_or_insert_default().taken.take(stage, what, amount);
        match what {
            What::Hold => self.demand.hold(),
            What::HoldInput => self.demand.hold_input(),
            What::Insist => {
                self.demand.insist();
                self.waiting_inside = true;
            }
            What::Pending => self.account.expect_from_outside(amount),
            What::Away => self.demand.depart(),
        }
    }

    fn give_back(&mut self, stage: u32, what: What, amount: usize, asked: impl FnOnce() -> Asked) {
        self.ask(asked);
        let amount = self.extras.as_mut().map_or(0, |extras| extras.taken.give_back(stage, what, amount));
        self.given_back(what, amount);
    }

    fn given_back(&mut self, what: What, amount: usize) {
        match what {
            _ if amount == 0 => {}
            What::Hold => {
                (0..amount).for_each(|_| self.demand.release());
                self.waiting_inside = true;
            }
            What::HoldInput => (0..amount).for_each(|_| self.demand.release_input()),
            What::Insist => (0..amount).for_each(|_| self.demand.desist()),
            What::Away => {
                (0..amount).for_each(|_| self.demand.arrive());
                self.waiting_inside = true;
            }
            What::Pending => self.account.arrived_from_outside(amount),
        }
    }

    /// All stages from this number on leave: what they have of the channel they have no more.
    pub(crate) fn forget_stages(&mut self, from: u32) {
        self.drop_tasks(from);
        self.drop_timers(from);
        if let Some(rare) = self.side.lock().unwrap_or_else(PoisonError::into_inner).rare_if_any() {
            rare.stages.retain(|known| known.stage < from);
        }
        if std::mem::take(&mut self.wishes.tail_ended) {
            self.wishes.close_when_flushed = false;
            self.wishes.wants_no_more = false;
        }
        while let Some((what, amount)) =
            self.extras.as_mut().and_then(|extras| extras.taken.give_back_next(from))
        {
            self.given_back(what, amount);
        }
    }

    // ---- room to write ----

    /// Whether there is room, counting what this very call has written: a loop that writes while there is room ends.
    pub(crate) fn is_writable(&self) -> bool {
        // Behind a close there is no room, and none before the end: who waits for it would be told for ever.
        if !self.account.is_writable() || self.has_output_ended() {
            return self.has_ended() && self.has_room_for(self.unsettled);
        }
        self.has_room_for(self.account.pending_bytes() + self.unsettled)
    }

    fn has_room_for(&self, pending: usize) -> bool {
        self.asks_for_room.set(true);
        let room = pending <= self.account.water_marks().high();
        if !room {
            self.told_full.set(true);
        }
        room
    }

    /// Why the channel has ended, if it has: known at once, while `inactive` waits for what is held.
    pub(crate) fn close_cause(&self) -> Option<&CloseCause> {
        match self.account.ended() {
            Some(WriteError::Closed(cause)) => Some(cause),
            _ => None,
        }
    }

    /// Whether the channel has ended. What is written fails, so there is room for it: whoever waits for that goes on.
    pub(crate) fn has_ended(&self) -> bool {
        self.close_cause().is_some()
    }

    /// Whether more waits to be sent than should, and a stage has just added to it in answer to a message.
    pub(super) fn has_too_many_answers(&self) -> bool {
        self.unsettled > 0
            && self.delivered.is(Delivered::IN_CALL)
            && self.account.ended().is_none()
            && !self.account.is_writable()
    }

    #[inline]
    pub(crate) fn count_write<W: 'static>(&mut self, weight: Weight<W>, msg: &W) {
        // Finding out what messages hold may take a while, and is done for those who ask: whoever never does need not wait for it.
        let size = if self.asks_for_room.get() { weight.of_message(msg) } else { at_first_sight(msg) };
        self.unsettled += size + ENTRY_OVERHEAD;
    }

    /// Everything that was written has reached the queue. True if somebody was told that there is no room and the queue
    /// has room after all. Once the channel has ended, that is said once for each message: who writes whenever there is
    /// room would go on for ever.
    pub(super) fn writes_settled(&mut self) -> bool {
        let written = std::mem::take(&mut self.unsettled);
        if self.has_ended() {
            // Whoever has written that much may wait for room, whether it has asked or not.
            let full = self.told_full.get() || written > self.account.water_marks().high();
            return full && self.delivered.take(Delivered::SINCE_ROOM) && {
                self.told_full.set(false);
                true
            };
        }
        self.told_full.get()
            && self.account.is_writable()
            && !self.has_output_ended()
            && self.told_full.replace(false)
    }

    /// What was asked for is carried out: whether nothing more follows from it, as nearly always.
    #[inline]
    pub(super) fn comes_to_rest(&mut self) -> bool {
        let rest = self.account.is_calm()
            && !self.told_full.get()
            && !self.waiting_inside
            && !self.demand.is_paused();
        if rest {
            self.call_over();
        }
        rest
    }

    /// A call and all that follows from it is over.
    #[inline]
    pub(super) fn call_over(&mut self) {
        self.unsettled = 0;
        self.delivered.take(Delivered::IN_CALL);
    }

    /// The queue itself has news: nobody waits for ours any more.
    pub(super) fn told_by_queue(&self) {
        self.told_full.set(false);
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

    // ---- timers ----

    pub(crate) fn arm(&mut self, stage: u32, delay: Duration) -> StageTimer {
        self.last_timer = self.last_timer.wrapping_add(1);
        let timer = StageTimer(self.last_timer);
        match &mut self.home {
            Home::Here(_) => self.arm_as(stage, timer, delay),
            Home::Away(away) => {
                away.armed.push(timer);
                away.asked.push(Asked::Arm(timer, delay));
            }
        }
        timer
    }

    /// Arms a timer whose number was given elsewhere.
    pub(crate) fn arm_as(&mut self, stage: u32, timer: StageTimer, delay: Duration) {
        if let (Some(token), Home::Here(local)) = (self.token, &self.home) {
            let signal = signal_of(stage, timer);
            let key = local.arm(token, delay, signal);
            let timers = &mut self.extras.get_or_insert_default().timers;
            if timers.capacity() == 0 {
                timers.reserve_exact(1); // for most channels that have one at all it stays the only one
            }
            timers.push(Armed { signal, key });
        }
    }

    pub(crate) fn disarm(&mut self, stage: u32, timer: StageTimer) -> bool {
        if let Home::Away(away) = &mut self.home {
            let Some(index) = away.armed.iter().position(|armed| *armed == timer) else { return false };
            away.armed.swap_remove(index);
            away.asked.push(Asked::Disarm(timer));
            return true;
        }
        self.take_timer(signal_of(stage, timer)).is_some_and(|armed| self.disarm_source(armed.key))
    }

    fn disarm_source(&self, key: SourceTimer) -> bool {
        matches!(&self.home, Home::Here(local) if local.disarm(key))
    }

    /// A signal that came back: which stage it is for, if its timer still counts.
    pub(super) fn due(&mut self, signal: u64) -> Option<(u32, StageTimer)> {
        let (stage, timer) = ((signal >> 32) as u32, StageTimer(signal as u32));
        self.take_timer(signal)?;
        Some((stage, timer))
    }

    fn take_timer(&mut self, signal: u64) -> Option<Armed> {
        let timers = &mut self.extras.as_mut()?.timers;
        let index = timers.iter().position(|armed| armed.signal == signal)?;
        Some(timers.swap_remove(index))
    }

    /// The channel leaves its loop: no timer comes any more, and none can be armed.
    pub(super) fn disarm_all(&mut self) {
        self.token = None;
        let timers = self.extras.as_mut().map(|extras| std::mem::take(&mut extras.timers));
        for armed in timers.unwrap_or_default() {
            self.disarm_source(armed.key);
        }
    }

    /// Takes back the timers of all stages from this number on: they leave.
    fn drop_timers(&mut self, from: u32) {
        let Some(extras) = &mut self.extras else { return };
        let leaving = |armed: &Armed| (armed.signal >> 32) as u32 >= from;
        let keys: Vec<_> =
            extras.timers.extract_if(.., |armed| leaving(armed)).map(|armed| armed.key).collect();
        for key in keys {
            self.disarm_source(key);
        }
    }

    // ---- futures ----

    /// Takes a future of a stage; its first poll comes in a turn of its own. Dropped if the channel has ended.
    pub(crate) fn spawn<H: Handler>(&mut self, stage: u32, job: Pin<Box<dyn Job<H>>>) -> StageTask {
        let task = self.extras.get_or_insert_default().tasks.insert(stage, job);
        match (self.token, &mut self.home) {
            (Some(token), Home::Here(local)) => local.call_soon(token),
            (None, Home::Here(_)) => self.drop_tasks(0),
            (_, Home::Away(away)) => {
                away.asked.push(Asked::Fail(Fault::new(
                    "a future was spawned by a stage on workers, which has no loop",
                )));
                self.drop_tasks(0);
            }
        }
        task
    }

    /// The futures that want to be polled.
    pub(super) fn take_woken(&mut self) -> Vec<Key> {
        let Some(extras) = &mut self.extras else { return Vec::new() };
        let mut woken = extras.tasks.take_woken();
        if let Some(rare) = self.side.lock().unwrap_or_else(PoisonError::into_inner).rare_if_any() {
            woken.append(&mut rare.woken);
        }
        woken
    }

    /// Lets the room of a list be used again.
    pub(super) fn give_woken_back(&mut self, list: Vec<Key>) {
        if let Some(extras) = &mut self.extras {
            extras.tasks.give_back(list);
        }
    }

    pub(super) fn take_task(&mut self, key: Key) -> Option<(u32, Box<dyn Any>)> {
        self.extras.as_mut()?.tasks.take(key)
    }

    pub(crate) fn put_task_back(&mut self, key: Key, task: Box<dyn Any>) {
        if let Some(extras) = &mut self.extras {
            extras.tasks.put_back(key, task);
        }
    }

    pub(crate) fn task_done(&mut self, key: Key, stage: u32, emptied: Box<dyn Any>) {
        if let Some(extras) = &mut self.extras {
            extras.tasks.done(key, stage, emptied);
        }
    }

    pub(crate) fn task_waker(&self, key: Key) -> Option<Arc<TaskWaker>> {
        Some(TaskWaker::new(self.side.clone(), self.source_caller()?, key))
    }

    pub(crate) fn abort_task(&mut self, key: Key) -> bool {
        let known = self.extras.as_mut().is_some_and(|extras| extras.tasks.contains(key));
        let task = self.extras.as_mut().and_then(|extras| extras.tasks.remove(key));
        drop(task); // outside of every borrow: it may be a user's
        known
    }

    /// Drops the futures of all stages from this number on: they leave. Each on its own: one that panics does not keep the
    /// others from being dropped in peace.
    pub(crate) fn drop_tasks(&mut self, from: u32) {
        let leaving = self.extras.as_mut().map(|extras| extras.tasks.take_from(from));
        discard_each(leaving.into_iter().flatten());
    }

    // ---- the end ----

    pub(crate) fn close_when_flushed(&mut self) {
        self.ask(|| Asked::CloseWhenFlushed);
        self.wishes.close_when_flushed = true;
        self.let_know_of_close();
    }

    /// An async tail has ended, and the channel with it; unless the tail has given way to another segment, which goes on.
    pub(crate) fn tail_ended(&mut self) {
        self.wishes.wants_no_more = true;
        self.wishes.tail_ended = !self.wishes.close_when_flushed;
        self.wishes.close_when_flushed = true;
    }

    /// Whoever reads the messages has closed the channel, or could not go on: none is delivered any more.
    pub(crate) fn wants_no_more(&mut self) {
        self.wishes.wants_no_more = true;
        self.demand.pause();
    }

    /// Whether a close is to be carried out: who writes whenever it is told of room would keep workers busy, and a close waits
    /// for these.
    pub(super) fn is_closing(&self) -> bool {
        self.wishes.close.is_some()
    }

    /// Whether nothing more may be written, as far as the order of operations says so.
    pub(super) fn has_output_ended(&self) -> bool {
        self.wishes.closing || self.wishes.shut_down_output
    }

    /// Why nothing more may be written, as far as the order of operations says so.
    pub(super) fn output_ended(&self) -> Option<WriteError> {
        if self.wishes.closing {
            let cause = self.wishes.close.as_deref().cloned().unwrap_or(CloseCause::Requested);
            return Some(WriteError::Closed(cause));
        }
        self.wishes.shut_down_output.then_some(WriteError::OutputShutDown)
    }

    /// Whoever looks at the channel from outside is to see that it is about to end.
    fn let_know_of_close(&self) {
        self.side.lock().unwrap_or_else(PoisonError::into_inner).closing = true;
    }

    /// The first cause counts.
    pub(crate) fn request_close(&mut self, cause: CloseCause, done: WritePromise) {
        self.let_know_of_close();
        self.wishes.close.get_or_insert_with(|| Box::new(cause));
        if done.is_tracked() {
            self.wishes.close_done.push_back(done);
        }
    }

    /// Has the channel end without asking its stages.
    pub(super) fn close_at_once(&mut self, cause: CloseCause) {
        self.wants_no_more();
        self.request_close(cause, WritePromise::untracked());
        (self.wishes.closing, self.wishes.at_once) = (true, true);
    }

    /// An error that no stage took care of.
    pub(crate) fn unhandled(&mut self, fault: Fault) {
        self.wants_no_more(); // what follows the error is not to be taken for what it would be without it
        let channel = self.id;
        tell(
            || tracing::warn!(%channel, error = %fault, "no handler took care of this error, closing the channel"),
        );
        self.request_close(CloseCause::Fault(fault), WritePromise::untracked());
    }
}
