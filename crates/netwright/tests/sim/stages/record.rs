//! What is known of one connection: what its stages have heard, what was written and what became of it, how far it is. Stages tell, the
//! scenario looks.

use super::{
    moments::Moment,
    slips::{Slip, Step},
    wire::{NOTICES, ROOM, Said},
};
use netwright::{Channel, CloseCause, WriteError, channel::Written};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What stages and the scenario share of a connection. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    reached: BTreeSet<Moment>,
    /// What does not hold, in words.
    faults: Vec<String>,
    heard: BTreeMap<Place, Heard>,
    /// The server's channel, as its last stage has it.
    channel: Option<Channel>,
    /// Closes the server's channel from the stage next to its wire, for last stages that have no handle.
    closer: Option<Box<dyn Fn() + Send>>,
    /// How often, and why, the server's channel was closed, as its handles say.
    closed: Vec<CloseCause>,
    writes: Vec<(Wrote, Written)>,
    /// What became of writes that others have waited for.
    told: Vec<(Wrote, Result<(), WriteError>)>,
    requests_read: BTreeSet<u32>,
    said: BTreeMap<u8, Vec<u32>>,
    /// The mistake that a stage will make.
    slip: Option<Slip>,
    /// It was made.
    slipped: bool,
    /// The server's stages are no more.
    gone: bool,
}

/// Who wrote something that is tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrote {
    /// The last stage: an answer, by its lane and number.
    Answer(u8, u32),
    /// Somebody with a handle.
    Notice(u32),
    /// Somebody with the group of all channels.
    ToAll(u32),
    /// The client.
    Request(u32),
    /// The client, a part of a request.
    Part,
    /// The last stage, when it had heard of the end.
    TooLate,
}

/// Which stage has heard something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Next to the server's wire.
    Wire,
    /// The server's last stage; those of the segments behind a joint have numbers, and so have children.
    Last(u8),
    /// The client's.
    Client,
}

/// What a stage has heard.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard {
    pub(crate) active: u32,
    pub(crate) inactive: Vec<CloseCause>,
    pub(crate) panicked: u32,
    pub(crate) removed: u32,
}

impl Heard {
    /// Nothing has ended yet.
    fn is_within(&self) -> bool {
        self.inactive.is_empty() && self.panicked == 0 && self.removed == 0
    }
}

impl Record {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fault(&self, text: impl Into<String>) {
        self.state().faults.push(text.into());
    }

    // ---- stages tell ----

    pub(crate) fn reach(&self, moment: Moment) {
        self.state().reached.insert(moment);
    }

    pub(crate) fn active(&self, place: Place) {
        let mut state = self.state();
        let heard = state.heard.entry(place).or_default();
        heard.active += 1;
        let in_order = heard.active == 1 && heard.is_within();
        if !in_order {
            let text = format!("{place:?} became active out of order: {heard:?}");
            state.faults.push(text);
        }
    }

    /// A message, or anything else that only comes between `active` and `inactive`.
    pub(crate) fn between(&self, place: Place, what: &str) {
        let mut state = self.state();
        let heard = state.heard.entry(place).or_default();
        if heard.active != 1 || !heard.is_within() {
            let text = format!("{place:?} heard {what} out of order: {heard:?}");
            state.faults.push(text);
        }
    }

    pub(crate) fn inactive(&self, place: Place, cause: &CloseCause) {
        let mut state = self.state();
        let heard = state.heard.entry(place).or_default();
        let in_order = heard.active == 1 && heard.is_within();
        heard.inactive.push(cause.clone());
        if !in_order {
            let text = format!("{place:?} became inactive out of order: {heard:?}");
            state.faults.push(text);
        }
    }

    /// Some stage has panicked. A stage that did so when it heard of the end has heard of both.
    pub(crate) fn panicked(&self, place: Place) {
        let mut state = self.state();
        let slipped = state.slipped;
        let heard = state.heard.entry(place).or_default();
        heard.panicked += 1;
        if !slipped || heard.panicked != 1 || heard.removed > 0 {
            let text = format!("{place:?} heard of a panic out of order: {heard:?}");
            state.faults.push(text);
        }
    }

    /// The server's stages are dropped.
    pub(crate) fn gone(&self) {
        self.state().gone = true;
    }

    pub(crate) fn will_slip(&self, slip: Slip) {
        self.state().slip = Some(slip);
    }

    /// A stage is about to do something: this may be its mistake.
    pub(crate) fn step(&self, step: Step) {
        let mut state = self.state();
        if state.slip.as_mut().is_some_and(|slip| slip.is_made(step)) {
            state.slip = None;
            state.slipped = true;
            drop(state);
            Slip::make();
        }
    }

    pub(crate) fn has_slipped(&self) -> bool {
        self.state().slipped
    }

    pub(crate) fn removed(&self, place: Place) {
        let mut state = self.state();
        let heard = state.heard.entry(place).or_default();
        heard.removed += 1;
        if heard.removed > 1 {
            let text = format!("{place:?} was removed out of order: {heard:?}");
            state.faults.push(text);
        }
    }

    /// The server's last stage has read a request.
    pub(crate) fn reads(&self, number: u32) {
        let mut state = self.state();
        if !state.requests_read.insert(number) {
            state.faults.push(format!("request {number} was read twice"));
        }
    }

    /// The client has been told something.
    pub(crate) fn hears(&self, said: Said) {
        let mut state = self.state();
        if !said.whole {
            state.faults.push(format!("{said:?} is not what was written"));
        }
        let before = state.said.entry(said.lane).or_default();
        if before.last().is_some_and(|last| *last >= said.number) {
            let text = format!("{said:?} came after {before:?}");
            state.faults.push(text);
            return;
        }
        before.push(said.number);
    }

    pub(crate) fn tracks(&self, wrote: Wrote, written: Written) {
        self.state().writes.push((wrote, written));
    }

    /// The last stage's handle of the server's channel.
    pub(crate) fn has_channel(&self, channel: Channel) {
        let first = self.state().channel.replace(channel.clone()).is_none();
        if first {
            let record = self.clone();
            channel.on_close(move |cause| record.state().closed.push(cause.clone()));
        }
    }

    pub(crate) fn was_told(&self, wrote: Wrote, result: Result<(), WriteError>) {
        self.state().told.push((wrote, result));
    }

    pub(crate) fn has_closer(&self, close: impl Fn() + Send + 'static) {
        self.state().closer = Some(Box::new(close));
    }

    // ---- the scenario looks ----

    pub(crate) fn has_reached(&self, moment: Moment) -> bool {
        self.state().reached.contains(&moment)
    }

    pub(crate) fn channel(&self) -> Option<Channel> {
        self.state().channel.clone()
    }

    pub(crate) fn close_at_the_wire(&self) {
        let closer = self.state().closer.take();
        if let Some(close) = closer {
            close();
        }
    }

    pub(crate) fn heard(&self, place: Place) -> Heard {
        self.state().heard.get(&place).cloned().unwrap_or_default()
    }

    pub(crate) fn all_heard(&self) -> BTreeMap<Place, Heard> {
        self.state().heard.clone()
    }

    pub(crate) fn closed(&self) -> Vec<CloseCause> {
        self.state().closed.clone()
    }

    /// Nothing of the server's channel is there any more.
    pub(crate) fn server_is_over(&self) -> bool {
        self.state().gone
    }

    pub(crate) fn client_is_over(&self) -> bool {
        let heard = self.heard(Place::Client);
        heard.active == 0 || heard.removed > 0
    }

    pub(crate) fn has_read(&self, request: u32) -> bool {
        self.state().requests_read.contains(&request)
    }

    /// What the client was told: by lane, in order.
    pub(crate) fn said(&self) -> BTreeMap<u8, Vec<u32>> {
        self.state().said.clone()
    }

    pub(crate) fn has_heard(&self, wrote: Wrote) -> bool {
        let state = self.state();
        let heard = |lane: u8, number: u32| state.said.get(&lane).is_some_and(|said| said.contains(&number));
        match wrote {
            Wrote::Answer(lane, number) => heard(lane, number),
            Wrote::Notice(number) => heard(NOTICES, number),
            Wrote::ToAll(number) => heard(ROOM, number),
            Wrote::Request(_) | Wrote::Part | Wrote::TooLate => true,
        }
    }

    /// What became of all writes: none for those that nobody has told yet.
    pub(crate) fn take_writes(&self) -> Vec<(Wrote, Option<Result<(), WriteError>>)> {
        let (writes, told) = {
            let mut state = self.state();
            (std::mem::take(&mut state.writes), std::mem::take(&mut state.told))
        };
        let told = told.into_iter().map(|(wrote, result)| (wrote, Some(result)));
        writes.into_iter().map(|(wrote, mut written)| (wrote, written.try_take())).chain(told).collect()
    }

    pub(crate) fn take_faults(&self) -> Vec<String> {
        std::mem::take(&mut self.state().faults)
    }
}
