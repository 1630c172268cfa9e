//! Whether a channel lives on when its peer sends no more, as its stages say.
//!
//! ```text
//!   the peer sends no more ─▶ transport ─▶ said by whoever made the channel?  ─ yes ─▶ that
//!                                                    └ no ─▶ asks the stages: refused by one ─▶ the channel ends
//!                                                                              needed by one ─▶ input_closed
//!                                                                              neither       ─▶ the channel ends
//! ```
//! The stages are asked when the end has come, so whoever has been exchanged by then has no say, and whoever came for it has.

/// What a stage says about a peer that sends no more and may still read: [`Handler::half_closure`](crate::Handler::half_closure).
///
/// ```
/// use netwright_core::{AppContext, Application, EmbeddedChannel, HalfClosure, Outgoing, pipeline};
/// use bytes::BytesMut;
///
/// /// Answers when the peer has sent everything.
/// #[derive(Default)]
/// struct Count { bytes: usize }
///
/// impl Application for Count {
///     type Read = BytesMut;
///     type Write = Outgoing;
///     fn half_closure(&self) -> HalfClosure {
///         HalfClosure::Needs // or the channel would end with the peer's last byte
///     }
///     fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
///         self.bytes += bytes.len();
///     }
///     fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
///         cx.write_and_flush(format!("{} bytes", self.bytes));
///         cx.close_when_flushed();
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().app(Count::default()));
/// channel.write_inbound("hello, ").write_inbound("world").end_input();
/// assert_eq!(channel.outbound_bytes(), b"12 bytes");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HalfClosure {
    /// This stage does not care. If no stage does, the channel ends when the answers that wait have been sent.
    #[default]
    Passes,
    /// This stage may still write something: the pipeline hears [`input_closed`](crate::Handler::input_closed), and ends the channel
    /// itself.
    Needs,
    /// The protocol has no such end: the channel ends, whoever else would need it.
    Refuses,
}

impl HalfClosure {
    /// What two stages say together.
    ///
    /// ```
    /// use netwright_core::HalfClosure::{Needs, Passes, Refuses};
    ///
    /// assert_eq!(Passes.and(Needs), Needs);
    /// assert_eq!(Needs.and(Refuses), Refuses);
    /// assert_eq!(Passes.and(Passes), Passes);
    /// ```
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Refuses, _) | (_, Self::Refuses) => Self::Refuses,
            (Self::Needs, _) | (_, Self::Needs) => Self::Needs,
            (Self::Passes, Self::Passes) => Self::Passes,
        }
    }
}
