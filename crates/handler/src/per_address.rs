//! How many connections a client's address may have, counted where that address is known.
//!
//! ```text
//!   active ─▶ fewer than may are open ─ yes ─▶ a seat is taken ─▶ active … inactive ─▶ the seat is free
//!                    └ no ─▶ words? ─ none ─▶ closed
//!                              └▶ words, end of our output ─▶ what comes is thrown away ─┬─ the peer's end ─▶ closed
//!                                                                                        └─ a second ─▶ closed
//! ```
//! Always true: an address has an entry only while one of its connections has a seat, and a seat is given back exactly once: with the end of its channel, or
//! with its stage.

use netwright_core::{Carries, CloseCause, Event, Fault, Filter, FilterContext, HalfClosure, StageTimer};
use netwright_transport::{Network, Refusal, Refusals};
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// For the peer to read why it is refused.
const FAREWELL: Duration = Duration::from_secs(1);

/// How many connections of one address may be open at a time, by the address that a channel has when it begins. Behind
/// [`ProxyProtocol`](crate::ProxyProtocol) that is the client's; without a proxy, [`Admission::per_address`](netwright_transport::Admission::per_address) does the same
/// for less, before there is a channel.
///
/// A handle: clones count together, so there is one for a server, and a [`stage`](Self::stage) of it in each pipeline. Whoever is one too many is closed with a
/// [`Refusal::AddressFull`], or [told in words](PerAddressStage::farewell). Peers that have no address on a network, such as those of Unix sockets, are not counted.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::{PerAddress, ProxyProtocol, TrustedNetworks};
///
/// let seats = PerAddress::new(1);
/// let connect = || {
///     let stages = pipeline()
///         .filter(ProxyProtocol::from(TrustedNetworks::everyone()))
///         .filter(seats.stage().farewell("421 no more than one of you\r\n"))
///         .handle(|cx, bytes: bytes::BytesMut| cx.write_and_flush(bytes));
///     let mut channel = EmbeddedChannel::new(stages);
///     channel.write_inbound("PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\nhello");
///     channel
/// };
/// let (mut first, mut second) = (connect(), connect());
/// assert_eq!(first.outbound_bytes(), b"hello");
/// assert_eq!(second.outbound_bytes(), b"421 no more than one of you\r\n");
/// first.close_by_peer();
/// assert_eq!(connect().outbound_bytes(), b"hello");
/// ```
#[derive(Clone)]
#[doc(alias = "UniqueIpFilter")]
#[doc(alias = "connection limit")]
pub struct PerAddress(Arc<Inner>);

struct Inner {
    most: usize,
    v4: u8,
    v6: u8,
    open: Mutex<HashMap<Network, usize>>,
    refused: AtomicU64,
}

impl PerAddress {
    /// So many connections of an address: of IPv4 32 bits are one address, of IPv6 64, because whoever has one address of IPv6 has a network of them.
    pub fn new(connections: usize) -> Self {
        Self::with_prefixes(connections, 32, 64)
    }

    /// The same with so many bits for one address, of IPv4 and of IPv6; more than there are count as all.
    pub fn with_prefixes(connections: usize, v4: u8, v6: u8) -> Self {
        Self(Arc::new(Inner {
            most: connections,
            v4: v4.min(32),
            v6: v6.min(128),
            open: Mutex::default(),
            refused: AtomicU64::new(0),
        }))
    }

    /// The stage for one channel, behind the one that knows the client's address. Made by the function that makes a server's pipelines, it counts in
    /// [`ServerFigures::refused_per_address`](netwright_transport::ServerFigures::refused_per_address) as well.
    pub fn stage<W>(&self) -> PerAddressStage<W> {
        PerAddressStage {
            seats: self.clone(),
            seat: None,
            farewell: None,
            refused: false,
            counts: Refusals::current(),
        }
    }

    /// How many addresses have a connection now.
    pub fn addresses(&self) -> usize {
        self.open().len()
    }

    /// How many connections were refused.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Network, usize>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, network: Network) -> Result<Seat, Refusal> {
        let mut all = self.open();
        let open = all.get(&network).copied().unwrap_or_default();
        if open >= self.0.most {
            drop(all);
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Refusal::AddressFull { network, connections_max: self.0.most });
        }
        all.insert(network, open + 1);
        drop(all);
        Ok(Seat { seats: self.clone(), network })
    }
}

impl fmt::Debug for PerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerAddress")
            .field("connections_max", &self.0.most)
            .field("addresses", &self.addresses())
            .field("refused", &self.refused())
            .finish()
    }
}

/// One of those that may be open.
struct Seat {
    seats: PerAddress,
    network: Network,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut all = self.seats.open();
        match all.get_mut(&self.network) {
            Some(open) if *open > 1 => *open -= 1,
            _ => drop(all.remove(&self.network)),
        }
    }
}

/// Made by [`PerAddress::stage`]: a [`Filter`] of whatever passes. Stages behind it are told of nothing of a connection that is refused.
pub struct PerAddressStage<W> {
    seats: PerAddress,
    seat: Option<Seat>,
    farewell: Option<W>,
    refused: bool,
    /// Of the server that it was made for. Until it is known who comes.
    counts: Option<Refusals>,
}

impl<W> PerAddressStage<W> {
    /// What is said to a connection that is refused, as it is written where the stage stands: next to the wire bytes, behind a codec a message of the protocol. Then
    /// our output ends; the peer has a second to read it, and what it sends meanwhile is thrown away. Default: it is closed without a word.
    #[must_use]
    pub fn farewell<M>(mut self, words: M) -> Self
    where
        W: Carries<M>,
    {
        self.farewell = Some(W::carry(words));
        self
    }
}

impl<R: 'static, W: 'static> Filter<R, W> for PerAddressStage<W> {
    fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W>) {
        let counts = self.counts.take();
        let Some(peer) = cx.view().peer_addr() else { return cx.fire_active() };
        let address = peer.ip().to_canonical();
        let prefix = if address.is_ipv4() { self.seats.0.v4 } else { self.seats.0.v6 };
        let network = match Network::new(address, prefix) {
            Ok(network) => network,
            Err(error) => return cx.close_because(CloseCause::Fault(Fault::from(error))),
        };
        match self.seats.take(network) {
            Ok(seat) => {
                self.seat = Some(seat);
                cx.fire_active();
            }
            Err(refusal) => {
                self.refused = true;
                let words = self.farewell.take();
                match &counts {
                    None => {}
                    Some(counts) if words.is_some() => counts.count_told(&refusal),
                    Some(counts) => counts.count(&refusal),
                }
                match words {
                    None => cx.close_because(CloseCause::Fault(Fault::from(refusal))),
                    Some(words) => {
                        cx.write_and_flush(words);
                        cx.shut_down_output();
                        cx.arm(FAREWELL);
                    }
                }
            }
        }
    }

    #[inline]
    fn read(&mut self, cx: &mut FilterContext<'_, Self, R, W>, msg: R) {
        if !self.refused {
            cx.fire_read(msg);
        }
    }

    fn event(&mut self, cx: &mut FilterContext<'_, Self, R, W>, event: Event) {
        if !self.refused {
            cx.fire_event(event);
        }
    }

    fn error(&mut self, cx: &mut FilterContext<'_, Self, R, W>, fault: Fault) {
        if self.refused {
            cx.close();
        } else {
            cx.fire_error(fault);
        }
    }

    fn input_closed(&mut self, cx: &mut FilterContext<'_, Self, R, W>) {
        if self.refused {
            cx.close_when_flushed();
        } else {
            cx.fire_input_closed();
        }
    }

    fn half_closure(&self) -> HalfClosure {
        if self.refused { HalfClosure::Needs } else { HalfClosure::Passes }
    }

    fn timer(&mut self, cx: &mut FilterContext<'_, Self, R, W>, _: StageTimer) {
        cx.close();
    }

    fn inactive(&mut self, cx: &mut FilterContext<'_, Self, R, W>, cause: CloseCause) {
        self.seat = None;
        if !self.refused {
            cx.fire_inactive(cause);
        }
    }
}

impl<W> fmt::Debug for PerAddressStage<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerAddressStage").field("refused", &self.refused).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProxyProtocol, TrustedNetworks};
    use bytes::BytesMut;
    use netwright_core::{EmbeddedChannel, Outgoing, pipeline};
    use std::convert::Infallible;

    type Channel = EmbeddedChannel<Infallible, Outgoing>;

    fn from(client: &str, stage: PerAddressStage<Outgoing>) -> Channel {
        let stages = pipeline()
            .filter(ProxyProtocol::from(TrustedNetworks::everyone()))
            .filter(stage)
            .handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes));
        let mut channel = EmbeddedChannel::new(stages);
        let family = if client.contains(':') { "TCP6" } else { "TCP4" };
        let server = if client.contains(':') { "2001:db8::1" } else { "198.51.100.1" };
        channel.write_inbound(format!("PROXY {family} {client} {server} 4711 80\r\nhello"));
        channel
    }

    #[test]
    fn a_client_behind_a_proxy_has_so_many_connections_and_others_have_theirs() {
        let seats = PerAddress::new(2);
        let mut open: Vec<_> = (0..2).map(|_| from("192.0.2.7", seats.stage())).collect();
        let refused = from("192.0.2.7", seats.stage());
        assert!(open.iter().all(|channel| channel.is_open()));
        let Some(CloseCause::Fault(fault)) = refused.channel().close_cause() else { panic!("it is refused") };
        assert!(
            matches!(fault.downcast_ref(), Some(Refusal::AddressFull { connections_max: 2, .. })),
            "{fault}"
        );
        assert!(fault.to_string().contains("192.0.2.7"), "{fault}");
        assert!(from("192.0.2.8", seats.stage()).is_open());
        assert_eq!(seats.refused(), 1);

        open[0].close_by_peer();
        assert!(from("192.0.2.7", seats.stage()).is_open());
        drop((open, refused));
        assert_eq!(seats.addresses(), 0);
    }

    #[test]
    fn whoever_is_refused_reads_why_and_is_closed_after_a_second_or_at_its_end() {
        let seats = PerAddress::new(0);
        for ends in [true, false] {
            let mut channel = from("192.0.2.7", seats.stage().farewell("too many\n"));
            assert_eq!(channel.outbound_bytes(), b"too many\n");
            assert!(channel.write_inbound("something else").is_open());
            assert_eq!(channel.outbound_bytes(), b"");
            if ends {
                channel.end_input();
            } else {
                channel.advance(FAREWELL);
            }
            assert!(!channel.is_open());
        }
    }

    #[test]
    fn addresses_of_a_prefix_are_one_and_zero_is_none() {
        let seats = PerAddress::new(1);
        let first = from("2001:db8::1", seats.stage());
        assert!(first.is_open());
        assert!(!from("2001:db8::2", seats.stage()).is_open());
        assert!(from("2001:db8:0:1::2", seats.stage()).is_open());
        assert!(!from("192.0.2.7", PerAddress::new(0).stage()).is_open());
        let all = PerAddress::with_prefixes(1, 0, 0);
        let one = from("192.0.2.7", all.stage());
        assert!(one.is_open() && !from("198.51.100.9", all.stage()).is_open());
    }

    #[test]
    fn a_peer_without_an_address_is_not_counted() {
        let seats = PerAddress::new(0);
        let stages = pipeline().filter(seats.stage()).handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes));
        assert_eq!(EmbeddedChannel::new(stages).write_inbound("hello").outbound_bytes(), b"hello");
    }
}
