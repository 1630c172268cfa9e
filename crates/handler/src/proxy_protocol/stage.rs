//! Reads the header, and lets the connection begin behind it.
//!
//! ```text
//!   active ─▶ from a trusted peer: waits ──┬─ a header ─▶ addresses, active, the header as an event, what came behind it
//!         │        (the deadline runs)     ├─ something else, required ──▶ error, closed
//!         │                                ├─ something else, optional ──▶ active, and all that came
//!         │                                └─ wrong, too long, too late, cut ──▶ error, closed
//!         └─▶ from anybody else: required ─▶ error, closed
//!                                optional ─▶ active at once, and on; a header is an error, closed
//! ```
//! Always true: stages behind it are told of nothing before `active`, but for an error; they are told of `active` with the addresses that hold from then on;
//! and they are told of the end only of what has begun for them.

use super::{
    ProxyHeader, ProxyProtocolError, TrustedNetworks,
    decode::{Look, Signature, look, signature},
};
use bytes::BytesMut;
use netwright_core::{
    CloseCause, Event, Fault, Filter, FilterContext, Hold, ShuttingDown, StageTimer, WriteError, WritePromise,
};
use std::{fmt, sync::Arc, time::Duration};

/// How long a header has unless told otherwise: two lost packets on a slow link.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long a header of version 2 may be unless told otherwise.
const LENGTH_MAX: usize = 4096;

/// Reads the header that a proxy sends first, by the PROXY protocol, versions 1 and 2: first stage of a server behind haproxy, nginx, a cloud's load
/// balancer. From then on the channel's addresses are the client's ([`peer`](netwright_core::ChannelView::peer)), for logs, filters, handlers and handles;
/// those of the proxy stay known ([`wire_peer`](netwright_core::ChannelView::wire_peer)).
///
/// `active` is held until the header is there, so stages behind see the right address from their first call on. The [`ProxyHeader`] itself is
/// told as an event behind `active`, and [attached](netwright_core::ChannelView::attribute) to the channel. A connection that the proxy opens for itself (`LOCAL`), and one
/// of whose client it tells nothing, keep their addresses. Only the function that makes the pipeline, and
/// [`Admission`](netwright_transport::Admission), come before the header: [`AddressFilter`](crate::AddressFilter) judges behind it.
///
/// Who is trusted has to be said. Whoever is not, but sends a header, is closed with a [`ProxyProtocolError`], and so is a header that is wrong, too long
/// (107 bytes in version 1, 4 KiB in version 2), cut, or not there in time (5 seconds, single bytes included).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::{ProxyProtocol, TrustedNetworks};
///
/// let trusted: TrustedNetworks = "10.0.0.0/8".parse()?;
/// let stages = pipeline()
///     .filter(ProxyProtocol::from(trusted))
///     .handle(|cx, _: bytes::BytesMut| cx.write_and_flush(format!("hello, {}", cx.view().peer().unwrap())));
/// let mut channel = EmbeddedChannel::between(stages, None, Some("10.0.0.1:5000".parse()?));
/// channel.write_inbound("PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\nhello");
/// assert_eq!(channel.outbound_bytes(), b"hello, 192.0.2.7:4711");
/// assert_eq!(channel.channel().wire_peer(), Some("10.0.0.1:5000".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "HAProxyMessageDecoder")]
#[doc(alias = "X-Forwarded-For")]
pub struct ProxyProtocol {
    trusted: Arc<TrustedNetworks>,
    required: bool,
    deadline: Duration,
    length_max: usize,
    state: State,
    /// Stages behind have been told of `active`, and so they will be of the end.
    has_begun: bool,
    /// What the header is read from, whoever asks for messages.
    insists: Option<Hold>,
    timer: Option<StageTimer>,
    read: BytesMut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// For the header of one who is trusted.
    Waits,
    /// For the first bytes of one who is not, which may be no header.
    Guards,
    Passes,
    Failed,
}

impl From<TrustedNetworks> for ProxyProtocol {
    fn from(trusted: TrustedNetworks) -> Self {
        Self::from(Arc::new(trusted))
    }
}

/// For all connections of a server.
impl From<Arc<TrustedNetworks>> for ProxyProtocol {
    fn from(trusted: Arc<TrustedNetworks>) -> Self {
        Self {
            trusted,
            required: true,
            deadline: DEADLINE,
            length_max: LENGTH_MAX,
            state: State::Waits,
            has_begun: false,
            insists: None,
            timer: None,
            read: BytesMut::new(),
        }
    }
}

impl ProxyProtocol {
    /// Whoever sends no header is served as well, with the address that it has. From a trusted peer that sends nothing at all a header is waited for until the
    /// deadline; from anybody else nothing is waited for, and a header is an error.
    pub fn optional(mut self) -> Self {
        self.required = false;
        self
    }

    /// How long a header has, from the begin of the connection to its last byte. Default: 5 seconds.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How many bytes a header of version 2 may have, with its prefix of 16. Default: 4,096.
    pub fn length_max(mut self, bytes: usize) -> Self {
        self.length_max = bytes;
        self
    }

    /// The connection begins.
    fn begin<W: 'static>(
        &mut self,
        cx: &mut FilterContext<'_, Self, BytesMut, W>,
        header: Option<ProxyHeader>,
    ) {
        self.state = State::Passes;
        self.stop_waiting(cx);
        if let Some((source, destination)) = header.as_ref().and_then(|header| header.ends.clone()) {
            cx.set_addresses(Some(destination), Some(source));
        }
        if let Some(header) = &header {
            cx.set_attribute(header.clone());
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            cx.fire_active();
        }
        if let Some(header) = header {
            cx.fire_event(Event::new(header));
        }
        if !self.read.is_empty() {
            cx.fire_read(std::mem::take(&mut self.read));
        }
    }

    fn stop_waiting<W: 'static>(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>) {
        if let Some(timer) = self.timer.take() {
            cx.disarm(timer);
        }
        if let Some(insists) = self.insists.take() {
            insists.release(cx);
        }
    }

    fn fail<W: 'static>(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>, error: ProxyProtocolError) {
        self.state = State::Failed;
        self.stop_waiting(cx);
        self.read = BytesMut::new();
        let fault = Fault::from(error);
        cx.fire_error(fault.clone());
        cx.close_because(CloseCause::Fault(fault));
    }

    fn look<W: 'static>(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>) {
        if self.state == State::Guards {
            return match signature(&self.read) {
                Signature::V1 | Signature::V2 => {
                    let peer = cx.view().wire_peer();
                    self.fail(cx, ProxyProtocolError::Untrusted { peer });
                }
                Signature::None => self.begin(cx, None),
                Signature::Part => drop(self.timer.get_or_insert_with(|| cx.arm(self.deadline))),
            };
        }
        match look(&self.read, self.length_max) {
            Ok(Look::More) => {}
            Ok(Look::Other) if self.required => self.fail(cx, ProxyProtocolError::NoHeader),
            Ok(Look::Other) => self.begin(cx, None),
            Ok(Look::Header { header, length }) => {
                drop(self.read.split_to(length));
                self.begin(cx, Some(header));
            }
            Err(error) => self.fail(cx, error),
        }
    }

    /// No more comes, or not in time. Says whether what has come is no header and goes on as it is.
    fn is_something_else(&self) -> bool {
        self.state == State::Guards || !self.required && signature(&self.read) == Signature::Part
    }

    /// No more comes of what may have become a header.
    fn ended<W: 'static>(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>) {
        match self.read.len() {
            _ if self.is_something_else() => self.begin(cx, None),
            0 => {}
            read => self.fail(cx, ProxyProtocolError::Cut { read }),
        }
    }
}

impl<W: 'static> Filter<BytesMut, W> for ProxyProtocol {
    fn active(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>) {
        let peer = cx.view().wire_peer();
        if self.trusted.trusts_any(peer.as_ref()) {
            self.insists = Some(cx.insist());
            self.timer = Some(cx.arm(self.deadline));
        } else if self.required {
            self.fail(cx, ProxyProtocolError::Untrusted { peer });
        } else {
            (self.state, self.has_begun) = (State::Guards, true);
            cx.fire_active();
        }
    }

    #[inline]
    fn read(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>, bytes: BytesMut) {
        match self.state {
            State::Passes => return cx.fire_read(bytes),
            State::Failed => return,
            State::Waits | State::Guards => {}
        }
        match self.read.is_empty() {
            true => self.read = bytes,
            false => self.read.extend_from_slice(&bytes),
        }
        self.look(cx);
    }

    fn read_complete(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>) {
        if matches!(self.state, State::Passes | State::Guards) {
            cx.fire_read_complete();
        }
    }

    fn timer(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>, timer: StageTimer) {
        if self.timer != Some(timer) {
            return;
        }
        self.timer = None;
        match self.is_something_else() {
            true => self.begin(cx, None),
            false => {
                self.fail(cx, ProxyProtocolError::TooLate { deadline: self.deadline, read: self.read.len() })
            }
        }
    }

    fn event(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>, event: Event) {
        match self.state {
            State::Waits if event.get::<ShuttingDown>().is_some() => cx.close(), // nothing has begun
            _ => cx.fire_event(event),
        }
    }

    fn input_closed(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>) {
        if matches!(self.state, State::Waits | State::Guards) {
            if self.read.is_empty() && self.state == State::Waits {
                return cx.close(); // it came, and went
            }
            self.ended(cx);
        }
        if self.state != State::Failed {
            cx.fire_input_closed();
        }
    }

    /// Without half-closure a peer's end is the channel's.
    fn inactive(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>, cause: CloseCause) {
        let by_peer = matches!(cause, CloseCause::PeerClosed | CloseCause::Io(_));
        if by_peer && matches!(self.state, State::Waits | State::Guards) && !self.read.is_empty() {
            self.ended(cx);
        }
        if self.has_begun {
            cx.fire_inactive(cause);
        }
    }

    /// Nobody is told anything before the header: not even by those who found the channel otherwise.
    fn write(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>, msg: W, done: WritePromise) {
        match self.state {
            State::Passes | State::Guards => cx.write_with(msg, done),
            State::Waits | State::Failed => {
                drop(msg);
                done.fail(WriteError::Fault(Fault::new("the PROXY header has not come yet")));
            }
        }
    }

    fn leftover(&mut self) -> netwright_core::Leftover<BytesMut> {
        match self.read.is_empty() {
            true => netwright_core::Leftover::nothing(),
            false => netwright_core::Leftover::one(std::mem::take(&mut self.read)),
        }
    }
}

impl fmt::Debug for ProxyProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyProtocol")
            .field("trusted", &self.trusted)
            .field("required", &self.required)
            .field("deadline", &self.deadline)
            .field("length_max", &self.length_max)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
