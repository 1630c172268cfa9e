//! Sets up a client that reconnects.

use super::{
    Backoff, Reconnect, ReconnectEvent,
    inner::{Connect, Hook, Inner, Settings},
};
use netwright_core::EventLoop;
use netwright_transport::ConnectError;
use std::time::Duration;

/// How long a connection has to stand, unless it is said otherwise.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// Sets up a [`Reconnect`].
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_handler::{Backoff, Reconnect, ReconnectError};
/// use netwright_transport::Client;
/// use std::time::Duration;
///
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// let nobody = Reconnect::to(&client, "local:nobody-is-here")
///     .or_to("local:nor-here")
///     .backoff(Backoff::new(Duration::from_millis(1), Duration::from_millis(10)))
///     .give_up_after(4)
///     .start()?;
/// assert!(matches!(nobody.connected().wait(), Err(ReconnectError::GaveUp { failures: 4, .. })));
/// # Ok::<(), netwright_transport::ConnectError>(())
/// ```
#[must_use = "a builder does nothing until `start`"]
pub struct ReconnectBuilder<W: Send + 'static> {
    pub(super) settings: Settings<W>,
}

impl<W: Send + 'static> ReconnectBuilder<W> {
    pub(super) fn new(event_loop: EventLoop, address: String, connect: Connect<W>) -> Self {
        let settings = Settings {
            addresses: vec![address],
            connect,
            event_loop,
            backoff: Backoff::default(),
            stable_after: STABLE_AFTER,
            give_up_after: None,
            max_waiting: 0,
            observer: None,
            hook: None,
        };
        Self { settings }
    }

    /// One more address: all of them are tried in turn, one right after the other, before there is a pause. After a connection that stood, the first attempt
    /// is made to where that was.
    pub fn or_to(mut self, address: impl ToString) -> Self {
        self.settings.addresses.push(address.to_string());
        self
    }

    /// How long the pauses are. They grow with each round through all addresses in which none gave a connection that
    /// [stood](Self::stable_after).
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// How long a connection has to stand to count as a success: then failures and pauses begin anew. Default: 10 s.
    pub fn stable_after(mut self, time: Duration) -> Self {
        self.settings.stable_after = time;
        self
    }

    /// After how many failures in a row there are no more attempts; connections that did not stand count. At least one. Default: never.
    pub fn give_up_after(mut self, failures: u32) -> Self {
        self.settings.give_up_after = Some(failures.max(1));
        self
    }

    /// How many messages may wait for a connection. Default: none, so that what is sent without a connection fails at once.
    pub fn max_waiting(mut self, messages: usize) -> Self {
        self.settings.max_waiting = messages;
        self
    }

    /// Is told of everything that happens, on the loop where it happens. What panics there is told in the log.
    pub fn observe(mut self, observer: impl FnMut(&ReconnectEvent<'_>) + Send + 'static) -> Self {
        self.settings.observer = Some(Box::new(observer));
        self
    }

    pub(crate) fn event_loop(&self) -> EventLoop {
        self.settings.event_loop.clone()
    }

    pub(crate) fn hook(mut self, hook: impl Hook) -> Self {
        self.settings.hook = Some(Box::new(hook));
        self
    }

    /// Begins to connect. An error only if the loop takes nothing.
    pub fn start(self) -> Result<Reconnect<W>, ConnectError> {
        Inner::start(self.settings)
    }
}
