//! What a channel shares with others beside its typed handle.

use super::super::Address;
use crate::{
    arena::Key,
    pipeline::{Handler, NamedStage, StageError},
};
use std::{
    any::Any,
    sync::{Arc, Mutex},
};

/// What a channel shares with others beside its typed handle: one allocation for all of it.
pub(crate) type SideTable = Arc<Mutex<Side>>;

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
    pub(super) stages: Vec<NamedStage>,
    /// Calls of stages that are on their way.
    pub(crate) calls: Vec<(u32, Box<dyn Any + Send>)>,
    /// Futures of stages that want to be polled.
    pub(crate) woken: Vec<Key>,
    /// The channel has been called for these, and has not looked yet.
    pub(super) called: bool,
}
