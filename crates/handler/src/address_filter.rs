//! Who may go on, by the address that a channel has when it begins.

use netwright_core::{Address, CloseCause, Fault, Filter, FilterContext};
use netwright_transport::{AccessDenied, LiveAccessList, Refusal, Refusals};
use std::fmt;

/// Closes connections from networks that may not come in. Where a proxy is in between, this stage behind [`ProxyProtocol`](crate::ProxyProtocol) judges the
/// client's address; without one, [`Admission`](netwright_transport::Admission) does that for less, before there is a channel.
///
/// Stages behind it are told of nothing of a connection that is refused, and the channel ends with an [`AddressRefused`]. Made by the function that makes a server's
/// pipelines, it counts in [`ServerFigures::refused_denied`](netwright_transport::ServerFigures::refused_denied).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::{AddressFilter, ProxyProtocol, TrustedNetworks};
/// use netwright_transport::{AccessList, LiveAccessList};
///
/// let list = LiveAccessList::new(AccessList::new().deny("192.0.2.0/24")?); // one for all connections
/// let stages = pipeline()
///     .filter(ProxyProtocol::from(TrustedNetworks::everyone()))
///     .filter(AddressFilter::new(list.clone()))
///     .handle(|cx, bytes: bytes::BytesMut| cx.write_and_flush(bytes));
/// let mut channel = EmbeddedChannel::new(stages);
/// channel.write_inbound("PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\nhello");
/// assert!(!channel.is_open());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[doc(alias = "IpFilter")]
#[doc(alias = "firewall")]
pub struct AddressFilter {
    list: LiveAccessList,
    refused: bool,
    /// Of the server that it was made for. Until it is known who comes.
    counts: Option<Refusals>,
}

impl AddressFilter {
    /// By this list; a [`LiveAccessList`] can be changed later, for the connections that begin from then on.
    pub fn new(list: impl Into<LiveAccessList>) -> Self {
        Self { list: list.into(), refused: false, counts: Refusals::current() }
    }
}

impl<R: 'static, W: 'static> Filter<R, W> for AddressFilter {
    fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W>) {
        let (peer, counts) = (cx.view().peer(), self.counts.take());
        match peer.as_ref().map_or(Ok(()), |peer| self.list.judge(peer)) {
            Ok(()) => cx.fire_active(),
            Err(why) => {
                self.refused = true;
                if let Some(counts) = counts {
                    counts.count(&Refusal::Denied(why));
                }
                cx.close_because(CloseCause::Fault(Fault::from(AddressRefused { peer, why })));
            }
        }
    }

    #[inline]
    fn read(&mut self, cx: &mut FilterContext<'_, Self, R, W>, msg: R) {
        if !self.refused {
            cx.fire_read(msg);
        }
    }

    fn inactive(&mut self, cx: &mut FilterContext<'_, Self, R, W>, cause: CloseCause) {
        if !self.refused {
            cx.fire_inactive(cause);
        }
    }

    fn event(&mut self, cx: &mut FilterContext<'_, Self, R, W>, event: netwright_core::Event) {
        if !self.refused {
            cx.fire_event(event);
        }
    }
}

/// Why [`AddressFilter`] closed a channel.
///
/// ```
/// use netwright_handler::AddressRefused;
/// use netwright_transport::AccessDenied;
///
/// let error = AddressRefused { peer: Some("192.0.2.7:4711".parse()?), why: AccessDenied::Denied };
/// assert_eq!(error.to_string(), "192.0.2.7:4711 is refused: its network is denied");
/// # Ok::<(), netwright_core::AddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressRefused {
    /// Who was refused.
    pub peer: Option<Address>,
    /// Why.
    pub why: AccessDenied,
}

impl fmt::Display for AddressRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.peer {
            Some(peer) => write!(f, "{peer} is refused: {}", self.why),
            None => write!(f, "a peer is refused: {}", self.why),
        }
    }
}

impl std::error::Error for AddressRefused {}
