//! What the channels of one server have in common: how the handle of one of them is made when somebody asks for it.
//!
//! Most connections are held by nobody but their loop. So their handles, and what goes with them, are not made before a stage
//! or somebody behind it wants one.

use super::{
    core::ChannelCore,
    shared::{AnyShared, ChannelShared},
    weight::Weight,
};
use std::{
    any::Any,
    sync::{Arc, OnceLock},
};

/// Channels whose pipelines are of the same type.
pub struct Kin {
    make: fn(&Self, &ChannelCore) -> Arc<dyn AnyShared>,
    /// What messages weigh that are written from outside, the same for all of them: a `Weight` of the type that `make` knows.
    weight: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Kin {
    /// Of channels to which `T` is written, without one so far.
    pub fn of<T: 'static>() -> Arc<Self> {
        Arc::new(Self { make: Self::make::<T>, weight: OnceLock::new() })
    }

    fn make<T: 'static>(&self, core: &ChannelCore) -> Arc<dyn AnyShared> {
        let said = self.weight.get().and_then(|weight| weight.downcast_ref::<Weight<T>>());
        make_handle(core, said.copied().unwrap_or_default())
    }

    /// All of them have the same stages, so what is said first counts.
    pub(super) fn tail_weighs<T: 'static>(&self, weight: Weight<T>) {
        self.weight.get_or_init(|| Box::new(weight));
    }

    /// Makes the handle of a channel that has had none so far.
    pub(super) fn handle_of(&self, core: &ChannelCore) -> Arc<dyn AnyShared> {
        (self.make)(self, core)
    }
}

/// Makes a handle late: it knows all that has happened so far.
pub(super) fn make_handle<T: 'static>(core: &ChannelCore, weight: Weight<T>) -> Arc<dyn AnyShared> {
    let high_mark = core.account.water_marks().high();
    let shared = ChannelShared::<T>::new(core.id, core.loop_reference(), high_mark, core.side().clone());
    shared.weight.say(weight);
    if let Some(token) = core.token() {
        shared.set_token(token);
    }
    match core.close_cause() {
        Some(cause) => shared.close(cause.clone()),
        None => shared.set_writable(core.account.is_writable()),
    }
    shared
}
