//! What the stages behind an idle stage are told.

use std::time::Duration;

/// What there was none of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdleKind {
    /// The peer said nothing.
    Read,
    /// Nothing was written, and of what was written before nothing left.
    Write,
    /// Neither of the two.
    All,
}

/// A channel on which nothing happened for a while, as [`Idle`](crate::Idle) tells the stages behind it.
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, Event, pipeline};
/// use netwright_handler::{Idle, IdleEvent, IdleKind};
/// use bytes::{Bytes, BytesMut};
/// use std::time::Duration;
///
/// /// Reminds its peer twice, then gives up.
/// struct Patience;
///
/// impl Application for Patience {
///     type Read = BytesMut;
///     type Write = Bytes;
///
///     fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
///     fn event(&mut self, cx: &mut AppContext<'_, Self>, event: Event) {
///         match event.get::<IdleEvent>() {
///             Some(IdleEvent { kind: IdleKind::Read, times: 1..=2, .. }) => cx.write_and_flush("hello?"),
///             Some(_) => cx.close(),
///             None => {}
///         }
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().filter(Idle::read(Duration::from_secs(10))).app(Patience));
/// channel.advance(Duration::from_secs(29));
/// assert_eq!(channel.outbound_bytes(), b"hello?hello?");
/// channel.advance(Duration::from_secs(1));
/// assert!(!channel.is_open());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdleEvent {
    /// What there was none of.
    pub kind: IdleKind,
    /// The limit that is over.
    pub limit: Duration,
    /// How often this has been told since something last happened: 1 for the first time, then one more after each further limit.
    pub times: u32,
}

impl IdleEvent {
    /// Whether this silence is told for the first time.
    pub fn is_first(&self) -> bool {
        self.times == 1
    }
}
