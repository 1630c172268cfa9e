//! What travels from the wire towards the application beside messages.

use crate::channel::{CloseCause, Fault};
use std::any::Any;

/// An inbound event on its way through the stages.
#[doc(hidden)]
pub enum Inbound {
    Active,
    ReadComplete,
    Writability(bool),
    InputClosed,
    Error(Fault),
    User(Event),
    Inactive(CloseCause),
}

impl Inbound {
    /// Whether it may pass messages that are held back. Only the news that there is room again may: whoever paused
    /// because there was none waits for exactly that.
    pub(crate) fn overtakes(&self) -> bool {
        matches!(self, Self::Writability(_))
    }
}

/// Something that a stage tells the stages behind it: idle, handshake done, a user's own news.
///
/// ```
/// use netwright_core::Event;
///
/// #[derive(Debug, PartialEq)]
/// struct LoggedIn(&'static str);
///
/// let event = Event::new(LoggedIn("ada"));
/// assert_eq!(event.get::<LoggedIn>(), Some(&LoggedIn("ada")));
/// assert!(event.get::<u32>().is_none());
/// ```
#[derive(Debug)]
pub struct Event(Box<dyn Any + Send>);

impl Event {
    /// Wraps any value. It may have to cross threads, to a stage on workers or from outside.
    pub fn new<T: Send + 'static>(value: T) -> Self {
        Self(Box::new(value))
    }

    /// The value, if it is of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Takes the value out, or gives the event back if it is of another type.
    pub fn take<T: 'static>(self) -> Result<T, Self> {
        self.0.downcast().map(|value| *value).map_err(Self)
    }
}
