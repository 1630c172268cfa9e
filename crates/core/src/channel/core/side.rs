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

impl Whereabouts {
    /// The addresses as far as they are known, or who knows them.
    fn known(&self) -> Result<Addresses, &ParentChannel> {
        match self {
            Self::Unknown => Ok(Addresses::default()),
            Self::At(addresses) => Ok(addresses.clone()),
            Self::ChildOf(parent) => Err(parent),
        }
    }
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

    /// The channel leaves: what waits here is for the caller to drop, outside of the lock. What is attached to it stays, and where it was, for
    /// those who have a handle.
    pub(crate) fn leave(&mut self) -> Option<Box<RareSide>> {
        self.gone = true;
        let rare = self.rare.as_mut()?;
        if rare.attributes.is_empty() && rare.said_to_be_at.is_none() {
            return self.rare.take();
        }
        let (attributes, said_to_be_at) =
            (std::mem::take(&mut rare.attributes), std::mem::take(&mut rare.said_to_be_at));
        Some(Box::new(std::mem::replace(rare, RareSide { attributes, said_to_be_at, ..RareSide::default() })))
    }

    /// Ours and the peer's address, as far as they are known: those that a stage has said, or else those of the wire.
    pub(crate) fn addresses(side: &SideTable) -> Addresses {
        let parent = {
            let side = side.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(said) = side.rare.as_ref().and_then(|rare| rare.said_to_be_at.as_deref()) {
                return said.clone();
            }
            match side.whereabouts.known() {
                Ok(addresses) => return addresses,
                Err(parent) => parent.clone(),
            }
        };
        parent.addresses() // with no lock of ours held
    }

    /// The same, whatever stages have said.
    pub(crate) fn wire_addresses(side: &SideTable) -> Addresses {
        let parent = match side.lock().unwrap_or_else(PoisonError::into_inner).whereabouts.known() {
            Ok(addresses) => return addresses,
            Err(parent) => parent.clone(),
        };
        parent.wire_addresses()
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
    /// What a stage has said of the addresses, which holds in place of those of the wire.
    said_to_be_at: Option<Box<Addresses>>,
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

    /// A stage knows better where the two ends are.
    pub(crate) fn is_said_to_be_at(&self, addresses: Addresses) {
        let mut side = self.side().lock().unwrap_or_else(PoisonError::into_inner);
        side.rare().said_to_be_at = Some(Box::new(addresses));
    }

    /// Ours and the peer's address on the wire, as far as they are known.
    pub(crate) fn wire_addresses(&self) -> Addresses {
        match (self.side.get(), &self.family) {
            (Some(side), _) => Side::wire_addresses(side),
            (None, Some(family)) => family.parent().wire_addresses(),
            (None, None) => Addresses::default(),
        }
    }

    pub(in crate::channel) fn attach(&self, attributes: &[(TypeId, Attribute)]) {
        let mut side = self.side().lock().unwrap_or_else(PoisonError::into_inner);
        side.rare().attributes.extend(attributes.iter().cloned());
    }

    /// In place of the one of this type, if there is one.
    pub(crate) fn set_attribute(&self, key: TypeId, value: Attribute) {
        let mut side = self.side().lock().unwrap_or_else(PoisonError::into_inner);
        let before = side.set_attribute(key, value);
        drop(side);
        drop(before); // a user's, outside of the lock
    }

    /// What is attached to the channel, or else to its parent.
    pub(crate) fn attribute(&self, key: TypeId) -> Option<Attribute> {
        match (self.side.get(), &self.family) {
            (Some(side), _) => Side::attribute(side, key),
            (None, Some(family)) => family.parent().any_attribute(key),
            (None, None) => None,
        }
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
