//! The stage that reads the first bytes, and gives way to who takes them.

use super::{
    DetectError, Verdict,
    choice::{Choice, Look},
};
use crate::{
    channel::{CloseCause, Fault, Outgoing, ShuttingDown, WriteError, WritePromise},
    pipeline::{Context, Event, Handler, Hold, IntoPipeline, Leftover, StageTimer, Switch},
};
use bytes::BytesMut;
use std::{convert::Infallible, fmt, time::Duration};

/// How many bytes are looked at unless told otherwise: far more than any beginning that is well known.
pub const FIRST_BYTES_MAX: usize = 1024;

/// How long is waited for them unless told otherwise: two lost packets on a slow link.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Behind a joint: looks at the first bytes, and gives way to the segment of the protocol that they are of.
///
/// Rules are asked in the order in which they are given; the first one that says [`Take`](Verdict::Take) while all before it
/// have said [`No`](Verdict::No) is chosen, and its segment reads everything from the first byte on. When no more bytes are
/// waited for, because there are [`max`](Self::max) of them, the [`deadline`](Self::deadline) has passed or the peer sends no
/// more, rules that need more have said no. If nobody takes them, the channel closes with a [`DetectError`].
///
/// It reads also while nobody asks for messages. Segments that take messages of different types are
/// [sealed](crate::PipelineBuilder::sealed).
///
/// ```
/// use netwright_core::{EmbeddedChannel, detect::{Detect, http, prefix}, pipeline};
/// use bytes::Bytes;
///
/// let web = || pipeline().handle(|cx, _| cx.write_and_flush(Bytes::from("HTTP/1.1 204 No Content\r\n\r\n")));
/// let echo = || pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
/// let either = || {
///     pipeline().joint(|switch| {
///         pipeline().last(Detect::new(switch).rule(http, move || web().sealed()).rule(prefix("E"), move || echo().sealed()))
///     })
/// };
///
/// let mut channel = EmbeddedChannel::<(), _>::with_joint(either());
/// channel.write_inbound(b"GE").write_inbound(b"T / HTTP/1.1\r\n\r\n");
/// assert_eq!(channel.outbound_bytes(), b"HTTP/1.1 204 No Content\r\n\r\n");
///
/// let mut channel = EmbeddedChannel::<(), _>::with_joint(either());
/// channel.write_inbound(b"Echo");
/// assert_eq!(channel.outbound_bytes(), b"Echo");
///
/// let mut channel = EmbeddedChannel::<(), _>::with_joint(either());
/// channel.write_inbound(b"SSH-2.0-x");
/// assert!(!channel.is_open());
/// ```
#[must_use = "it has to be added behind a joint"]
pub struct Detect<T, W = Outgoing> {
    switch: Switch<T, BytesMut, W>,
    choice: Choice<Successor<T, W>>,
    max: usize,
    deadline: Duration,
    /// What tells the protocol is read whoever asks for messages.
    insists: Option<Hold>,
    read: BytesMut,
    decided: bool,
}

/// Gives way to the segment of a rule.
type Successor<T, W> = Box<dyn FnOnce(&Switch<T, BytesMut, W>)>;

impl<T: 'static, W: 'static> Detect<T, W> {
    /// Gives way through this switch.
    pub fn new(switch: Switch<T, BytesMut, W>) -> Self {
        Self {
            switch,
            choice: Choice::new(),
            max: FIRST_BYTES_MAX,
            deadline: DEADLINE,
            insists: None,
            read: BytesMut::new(),
            decided: false,
        }
    }

    /// How many bytes are looked at, at least 1. Default: [`FIRST_BYTES_MAX`].
    pub fn max(mut self, bytes: usize) -> Self {
        self.max = bytes.max(1);
        self
    }

    /// How long is waited for the bytes that tell. Default: [`DEADLINE`].
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Adds a protocol, behind those before it: how to know it, and its segment, which is made when it is needed.
    pub fn rule<P: IntoPipeline<T, BytesMut, W>>(
        mut self,
        rule: impl FnMut(&[u8]) -> Verdict + 'static,
        make: impl FnOnce() -> P + 'static,
    ) -> Self {
        self.choice.add(Box::new(rule), Box::new(|switch| switch.to(make())));
        self
    }

    /// The segment for whoever is none of those before it, and for peers that wait for us to speak first: they get it when
    /// the deadline has passed.
    pub fn otherwise<P: IntoPipeline<T, BytesMut, W>>(self, make: impl FnOnce() -> P + 'static) -> Self {
        self.rule(|_| Verdict::Take, make)
    }

    /// Looks at what was read. `end` says why no more bytes are waited for, if so.
    fn look(&mut self, cx: &mut Context<'_, Self>, end: Option<DetectError>) {
        if self.decided {
            return;
        }
        let looked_at = &self.read[..self.read.len().min(self.max)];
        let end = end.or((self.read.len() >= self.max).then_some(DetectError::TooLong { limit: self.max }));
        let open = self.choice.look(looked_at, false);
        let (found, why) = match (open, end) {
            (Look::Open, Some(end)) => (self.choice.look(looked_at, true), end),
            (found, _) => (found, DetectError::no_match(looked_at)),
        };
        match found {
            Look::Open => {}
            Look::Chosen(give_way) => {
                self.decided = true;
                give_way(&self.switch);
            }
            Look::Nobody => {
                self.decided = true;
                cx.fire_error(why);
            }
        }
    }
}

impl<T: 'static, W: 'static> Handler for Detect<T, W> {
    type Read = BytesMut;
    type ReadOut = Infallible;
    type Write = T;
    type WriteOut = W;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.insists = Some(cx.insist());
        cx.arm(self.deadline);
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        match self.read.is_empty() {
            true => self.read = bytes,
            false => self.read.extend_from_slice(&bytes),
        }
        self.look(cx, None);
    }

    fn timer(&mut self, cx: &mut Context<'_, Self>, _: StageTimer) {
        let too_late = DetectError::TooLate { deadline: self.deadline, read: self.read.len() };
        self.look(cx, Some(too_late));
    }

    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        match self.read.len() {
            0 => cx.close(), // it came, and went
            read => self.look(cx, Some(DetectError::CutShort { read })),
        }
    }

    /// Without half-closure a peer's end is the channel's, and what it sent before that is read all the same.
    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        let by_peer = matches!(cause, CloseCause::PeerClosed | CloseCause::Io(_));
        if by_peer && !self.read.is_empty() {
            self.look(cx, Some(DetectError::CutShort { read: self.read.len() }));
        }
        cx.fire_inactive(cause);
    }

    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        if event.get::<ShuttingDown>().is_some() {
            cx.close(); // nothing has begun
        }
    }

    fn write(&mut self, _: &mut Context<'_, Self>, msg: T, done: WritePromise) {
        drop(msg);
        done.fail(WriteError::Fault(Fault::from(DetectError::NotYet)));
    }

    fn leftover(&mut self) -> Leftover<BytesMut> {
        match self.read.is_empty() {
            true => Leftover::nothing(),
            false => Leftover::one(std::mem::take(&mut self.read)),
        }
    }
}

impl<T, W> fmt::Debug for Detect<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detect")
            .field("rules", &self.choice.len())
            .field("max", &self.max)
            .field("deadline", &self.deadline)
            .field("read", &self.read.len())
            .finish_non_exhaustive()
    }
}
