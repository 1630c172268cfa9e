//! Children of a channel's stages, as the channel knows them: whose of them want to be looked at, and their end with its own.

use super::{
    super::{
        ChannelId, CloseCause,
        child::{ChildError, Family, ParentChannel},
    },
    ChannelCore, Home,
};
use crate::{
    driver::Token,
    event_loop::LocalLoop,
    promise::{Promise, PromiseError},
};
use std::rc::Rc;

/// The families of a channel: at most one for each of its stages that has children. Nearly always none, or one.
#[derive(Default)]
pub(super) struct Families {
    list: Vec<Rc<Family>>,
    /// The channel as its children know it, and who is told of its end.
    parent: Option<(ParentChannel, Promise<CloseCause, PromiseError>)>,
}

impl ChannelCore {
    /// A family for a stage that is about to have its first child.
    pub(crate) fn found_family(
        &mut self,
        stage: u32,
        found: impl FnOnce(ParentChannel, LocalLoop, Token, u32) -> Family,
    ) -> Result<Rc<Family>, ChildError> {
        let (Home::Here(local), Some(token), false) = (&self.home, self.token(), self.has_ended()) else {
            return Err(ChildError::ParentEnded);
        };
        let (local, caller) = (local.clone(), local.caller(token));
        let (id, side) = (self.id, self.side().clone());
        let families = &mut self.extras.get_or_insert_default().families;
        let (parent, _) = families.parent.get_or_insert_with(|| ParentChannel::new(id, side, caller));
        let family = Rc::new(found(parent.clone(), local, token, stage));
        families.list.push(family.clone());
        Ok(family)
    }

    /// The next stage that has to look after its children, if any.
    #[inline]
    pub(in crate::channel) fn take_poke(&mut self) -> Option<u32> {
        let families = &self.extras.as_ref()?.families.list;
        families.iter().find(|family| family.take_poke()).map(|family| family.stage())
    }

    /// Has every stage look that has children.
    pub(in crate::channel) fn poke_families(&mut self) {
        let families = self.extras.as_ref().map(|extras| &extras.families.list);
        families.into_iter().flatten().for_each(|family| family.store_is_due());
    }

    /// The channel has ended, and so its children do.
    #[inline]
    pub(in crate::channel) fn end_families(&mut self, cause: &CloseCause) {
        if self.extras.is_some() {
            self.end_all_families(cause);
        }
    }

    #[cold]
    fn end_all_families(&mut self, cause: &CloseCause) {
        let families = self.extras.as_mut().map(|extras| std::mem::take(&mut extras.families));
        let Families { list, parent } = families.unwrap_or_default();
        if let Some((_, ended)) = parent {
            ended.succeed(cause.clone());
        }
        list.iter().for_each(|family| family.end_all(cause));
    }

    /// Stages from this number on leave: they end their children themselves.
    pub(super) fn forget_families(&mut self, from: u32) {
        if let Some(extras) = &mut self.extras {
            extras.families.list.retain(|family| family.stage() < from);
        }
    }

    /// The numbers of all children.
    pub(in crate::channel) fn children(&self) -> Vec<ChannelId> {
        let families = self.extras.as_ref().map(|extras| &extras.families.list);
        families.into_iter().flatten().flat_map(|family| family.ids()).collect()
    }
}
