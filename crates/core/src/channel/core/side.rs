//! What a channel shares with others beside its typed handle.

use super::{
    super::{Address, child::ParentChannel, shared::Attribute, short_queue::ShortQueue, taken::What},
    ChannelCore,
};
use crate::{
    arena::Key,
    pipeline::{Handler, NamedStage, Place, StageError},
    task_error::discard_each,
};
use std::{
    any::{Any, TypeId},
    sync::{Arc, Mutex, PoisonError},
};

/// What a channel shares with others beside its typed handle: one allocation for all of it.
pub(crate) type SideTable = Arc<Mutex<Side>>;

/// Our address and the peer's.
pub(crate) type Addresses = (Option<Address>, Option<Address>);

/// What stages are to be called with, and which.
pub(crate) type Calls = Vec<(u32, Box<dyn Any + Send>)>;

/// Where a channel is: what its addresses are.
#[derive(Default)]
pub(crate) enum Whereabouts {
    /// Not connected yet.
    #[default]
    Unknown,
    /// Ours and the peer's.
    At(Addresses),
    /// Where its parent is.
    ChildOf(ParentChannel),
}

#[derive(Default)]
pub(crate) struct Side {
    pub(crate) whereabouts: Whereabouts,
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

    /// The channel leaves: what waits here is for the caller to drop, outside of the lock. What is attached to it stays, for
    /// those who have a handle.
    pub(crate) fn leave(&mut self) -> Option<Box<RareSide>> {
        self.gone = true;
        let rare = self.rare.as_mut()?;
        if rare.attributes.is_empty() {
            return self.rare.take();
        }
        let attributes = std::mem::take(&mut rare.attributes);
        Some(Box::new(std::mem::replace(rare, RareSide { attributes, ..RareSide::default() })))
    }

    /// Ours and the peer's address, as far as they are known.
    pub(crate) fn addresses(side: &SideTable) -> Addresses {
        let parent = match &side.lock().unwrap_or_else(PoisonError::into_inner).whereabouts {
            Whereabouts::Unknown => return Addresses::default(),
            Whereabouts::At(addresses) => return addresses.clone(),
            Whereabouts::ChildOf(parent) => parent.clone(),
        };
        parent.addresses() // with no lock of ours held
    }

    /// Whose child the channel is.
    pub(crate) fn parent(&self) -> Option<&ParentChannel> {
        match &self.whereabouts {
            Whereabouts::ChildOf(parent) => Some(parent),
            _ => None,
        }
    }

    pub(crate) fn set_attribute(&mut self, key: TypeId, value: Attribute) -> Option<Attribute> {
        let attributes = &mut self.rare().attributes;
        match attributes.iter_mut().find(|(known, _)| *known == key) {
            Some((_, place)) => Some(std::mem::replace(place, value)),
            None => {
                attributes.push((key, value));
                None
            }
        }
    }

    /// What is attached to the channel, or else to its parent.
    pub(crate) fn attribute(side: &SideTable, key: TypeId) -> Option<Attribute> {
        let parent = {
            let side = side.lock().unwrap_or_else(PoisonError::into_inner);
            let attributes = side.rare.as_ref().map_or(&[][..], |rare| &rare.attributes);
            match attributes.iter().find(|(known, _)| *known == key) {
                Some((_, value)) => return Some(value.clone()),
                None => side.parent()?.clone(),
            }
        };
        parent.any_attribute(key)
    }

    /// Whether stages or slots are found here by their names.
    pub(crate) fn has_names(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.stages.is_empty() || !rare.slots.is_empty())
    }

    pub(crate) fn rare(&mut self) -> &mut RareSide {
        self.rare.get_or_insert_default()
    }

    /// The number of the stage of this name, if it takes calls for `H` where that runs.
    pub(crate) fn stage<H: Handler<P>, P: Place>(&self, name: &str) -> Result<u32, StageError> {
        if self.gone {
            return Err(StageError::ChannelGone);
        }
        NamedStage::find::<H, P>(self.rare.as_ref().map_or(&[], |rare| &rare.stages), name)
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
    pub(crate) calls: Calls,
    /// What stages have no more, because a guard was dropped.
    pub(crate) let_go: ShortQueue<(u32, What, usize)>,
    /// Futures of stages that want to be polled.
    pub(crate) woken: Vec<Key>,
    /// What is attached to the channel, one value for each type.
    pub(crate) attributes: Vec<(TypeId, Attribute)>,
    /// The channel has been called for these, and has not looked yet.
    pub(super) called: bool,
}

impl RareSide {
    /// What is here is a user's: outside of every lock, and each on its own.
    pub(crate) fn discard(self) {
        discard_each(self.calls);
        discard_each(self.slots);
    }
}

impl ChannelCore {
    /// The channel is connected.
    pub(in crate::channel) fn is_at(&self, local: Option<Address>, peer: Option<Address>) {
        let mut side = self.side().lock().unwrap_or_else(PoisonError::into_inner);
        side.whereabouts = Whereabouts::At((local, peer));
    }

    pub(in crate::channel) fn attach(&self, attributes: &[(TypeId, Attribute)]) {
        let mut side = self.side().lock().unwrap_or_else(PoisonError::into_inner);
        side.rare().attributes.extend(attributes.iter().cloned());
    }

    /// Made late, for a child whose side is asked for: knows what has happened so far.
    #[cold]
    pub(super) fn make_side(&self) -> SideTable {
        let whereabouts = match &self.family {
            Some(family) => Whereabouts::ChildOf(family.parent().clone()),
            None => Whereabouts::Unknown,
        };
        let closing = self.wishes.close.is_some() || self.wishes.close_when_flushed;
        Arc::new(Mutex::new(Side { whereabouts, closing, ..Side::default() }))
    }
}
