//! What a stage keeps on its way to the application: messages, and what has to stay behind them.

use netwright_core::{Event, Fault, Filter, FilterContext};
use std::collections::VecDeque;

/// A message, or news that must not overtake messages.
pub(crate) enum Inbound<R> {
    Message(R),
    Event(Event),
    Error(Fault),
    InputClosed,
}

impl<R> Inbound<R> {
    /// Passes it on.
    pub(crate) fn fire<F: Filter<R, W>, W: 'static>(self, cx: &mut FilterContext<'_, F, R, W>)
    where
        R: 'static,
    {
        match self {
            Self::Message(msg) => cx.fire_read(msg),
            Self::Event(event) => cx.fire_event(event),
            Self::Error(fault) => cx.fire_error(fault),
            Self::InputClosed => cx.fire_input_closed(),
        }
    }

    pub(crate) fn into_message(self) -> Option<R> {
        match self {
            Self::Message(msg) => Some(msg),
            _ => None,
        }
    }
}

/// Gives everything out, and tells whoever has paused for lack of room that there is some: nothing else will come to tell it.
pub(crate) fn fire_all<R: 'static, W: 'static, F: Filter<R, W>>(
    all: VecDeque<Inbound<R>>,
    cx: &mut FilterContext<'_, F, R, W>,
) {
    if !all.is_empty() && cx.view().is_paused() {
        cx.fire_writability(true);
    }
    all.into_iter().for_each(|one| one.fire(cx));
}
