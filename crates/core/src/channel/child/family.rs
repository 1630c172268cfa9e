//! What the children of one stage share: the list of those who have news, and the way to their parent.
//!
//! ```text
//!   a child that has news ──▶ news: [c3][c1]          each at most once
//!                        └──▶ poked?  no: call the parent, and it has its stage look
//! ```
//! Always true:
//! 1. `news` has room for every child that lives, so putting one on it allocates nothing.
//! 2. A parent that was poked and has not looked is not called again.
//! 3. Once a family is over, all of its children have been told the cause, and none is added.

use super::{
    super::{AnyShared, ChannelCore, ChannelId, CloseCause, weight::Weight},
    ParentChannel,
    news::NewsList,
};
use crate::{
    driver::{Source, Token},
    event_loop::{LocalLoop, SourceTimer},
    task_error::discard,
};
use std::{
    any::Any,
    cell::{Cell, OnceCell, RefCell},
    sync::Arc,
    time::Duration,
};

/// The signal to a parent that its store of stages should be looked at: no timer of a stage, and none of the host's own.
pub(in crate::channel) const STORE_DUE: u64 = u32::MAX as u64;

/// So many children may come and go before a family is tidied up.
const MANY: usize = 8;

/// What can be done with a child whose type only its siblings know.
pub(super) trait Kind {
    /// Makes the handle of a child, of the type that its last stage takes. `weight` is what its siblings' messages weigh.
    fn handle_of(&self, core: &ChannelCore, weight: Option<&dyn Any>) -> Arc<dyn AnyShared>;
    /// Ends a child with its parent's cause. True if nothing is left of it to be done.
    fn end(&self, child: &mut dyn Any, cause: CloseCause) -> bool;
    /// A child's number.
    fn id(&self, child: &dyn Any) -> Option<ChannelId>;
}

/// What the children of one stage share.
pub(crate) struct Family {
    parent: ParentChannel,
    local: LocalLoop,
    /// The parent's place on the loop, and the stage whose children these are.
    token: Token,
    stage: u32,
    kind: &'static dyn Kind,
    /// What messages weigh that are written to children: of a type that only they know.
    weight: OnceCell<Box<dyn Any>>,
    /// All children, and some that have ended since this was last tidied up: their tokens name nobody.
    known: RefCell<Vec<Token>>,
    /// How many live.
    living: Cell<usize>,
    /// How many have ended and are not finished: they hold messages that nobody has asked for, or have something on workers.
    parting: Cell<usize>,
    /// Who of them has news.
    news: NewsList,
    poked: Cell<bool>,
    store_due: Cell<bool>,
    over: Cell<bool>,
}

impl Family {
    pub(super) fn new(
        parent: ParentChannel,
        local: LocalLoop,
        token: Token,
        stage: u32,
        kind: &'static dyn Kind,
    ) -> Self {
        Self {
            parent,
            local,
            token,
            stage,
            kind,
            weight: OnceCell::new(),
            known: RefCell::default(),
            living: Cell::new(0),
            parting: Cell::new(0),
            news: NewsList::default(),
            poked: Cell::new(false),
            store_due: Cell::new(false),
            over: Cell::new(false),
        }
    }

    pub(in crate::channel) fn parent(&self) -> &ParentChannel {
        &self.parent
    }

    pub(in crate::channel) fn local(&self) -> &LocalLoop {
        &self.local
    }

    pub(in crate::channel) fn stage(&self) -> u32 {
        self.stage
    }

    /// The handle of one of the children, made now.
    pub(in crate::channel) fn handle_of(&self, core: &ChannelCore) -> Arc<dyn AnyShared> {
        self.kind.handle_of(core, self.weight.get().map(AsRef::as_ref))
    }

    /// All siblings have the same stages, so what is said first counts.
    pub(in crate::channel) fn tail_weighs<T: 'static>(&self, weight: Weight<T>) {
        self.weight.get_or_init(|| Box::new(weight));
    }

    // ---- who there is ----

    pub(super) fn is_over(&self) -> bool {
        self.over.get()
    }

    pub(super) fn len(&self) -> usize {
        self.living.get()
    }

    /// A child is born.
    #[inline]
    pub(super) fn enter(&self, token: Token) {
        let mut known = self.known.borrow_mut();
        if self.living.replace(self.living.get() + 1) == 0 {
            known.clear(); // all of them have ended
            self.news.clear();
        }
        if known.len() == known.capacity() {
            self.make_room(&mut known);
        }
        known.push(token);
    }

    /// Forgets those who have ended, and has room for as many again as there are: so this is rare, however many come and go.
    #[cold]
    fn make_room(&self, known: &mut Vec<Token>) {
        known.retain(|token| self.local.has(*token));
        let room = known.len().max(MANY);
        known.reserve(room);
        self.news.make_room(known.capacity()); // beside those who have ended and are on the list nevertheless
    }

    #[inline]
    pub(super) fn leave(&self) {
        self.living.set(self.living.get() - 1);
    }

    pub(super) fn parting(&self) -> usize {
        self.parting.get()
    }

    /// A child has ended, and goes on by itself.
    pub(super) fn parts(&self) {
        self.parting.set(self.parting.get() + 1);
    }

    /// That is over.
    pub(super) fn parted(&self) {
        self.parting.set(self.parting.get() - 1);
    }

    /// All children, as far as they are in their places.
    pub(super) fn tokens(&self) -> Vec<Token> {
        self.known.borrow().iter().copied().filter(|token| self.local.has(*token)).collect()
    }

    pub(in crate::channel) fn ids(&self) -> Vec<ChannelId> {
        let id = |token| {
            let source = self.local.lend(token)?;
            let id = self.kind.id(&*source as &dyn Any);
            self.local.give_back(token, source);
            id
        };
        self.tokens().into_iter().filter_map(id).collect()
    }

    // ---- who has news ----

    pub(super) fn news(&self) -> &NewsList {
        &self.news
    }

    /// Has a parent look that has not called.
    pub(super) fn poke(&self) {
        if !self.over.get() && !self.poked.replace(true) {
            self.local.call_late(self.token); // others may have something to say by then
        }
    }

    /// The parent is here: whether it was poked.
    pub(in crate::channel) fn take_poke(&self) -> bool {
        self.poked.replace(false)
    }

    // ---- the store ----

    /// Has the parent look at its store after some time.
    pub(super) fn arm(&self, after: Duration) -> SourceTimer {
        self.local.arm(self.token, after, STORE_DUE)
    }

    /// That time is over: the parent is here, and has its stages look.
    pub(in crate::channel) fn store_is_due(&self) {
        self.store_due.set(true);
        self.poked.set(true);
    }

    pub(super) fn take_store_due(&self) -> bool {
        self.store_due.replace(false)
    }

    // ---- the end ----

    /// Ends all children.
    pub(in crate::channel) fn end_all(&self, cause: &CloseCause) {
        if self.over.replace(true) {
            return;
        }
        let children = self.known.take();
        self.news.clear();
        for token in children {
            let Some(mut source) = self.local.lend(token) else { continue };
            if self.kind.end(&mut *source as &mut dyn Any, cause.clone()) {
                self.bury(token, source);
            } else {
                self.local.give_back(token, source);
            }
        }
    }

    /// Nothing is left of a child.
    fn bury(&self, token: Token, source: Box<dyn Source>) {
        self.local.deregister(token);
        discard(source);
    }
}
