//! What channels have attached from the start.

use std::{
    any::{Any, TypeId},
    ops::Deref,
    sync::Arc,
};

/// Values for channels, one for each type.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes {
    values: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
}

impl Attributes {
    /// In place of the one of this type, if there is one.
    pub(crate) fn set<T: Send + Sync + 'static>(&mut self, value: T) {
        self.values.retain(|(known, _)| *known != TypeId::of::<T>());
        self.values.push((TypeId::of::<T>(), Arc::new(value)));
    }
}

impl Deref for Attributes {
    type Target = [(TypeId, Arc<dyn Any + Send + Sync>)];

    fn deref(&self) -> &Self::Target {
        &self.values
    }
}
