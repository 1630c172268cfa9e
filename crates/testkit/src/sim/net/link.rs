//! What is between two hosts, one direction at a time.

use super::{Fnv, HostId, Time, time::nanoseconds};
use crate::sim::chance::Chance;
use std::{collections::BTreeMap, time::Duration};

/// What happens to a datagram that is larger than [`Link::mtu`].
///
/// ```
/// use netwright_testkit::sim::{Link, Oversized};
///
/// assert_eq!(Link::default().mtu(1_472).oversized(Oversized::Drop).oversized, Oversized::Drop);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Oversized {
    /// Sending it is an error.
    #[default]
    Refuse,
    /// It is sent and never arrives.
    Drop,
}

/// One direction between two hosts. May be changed at any time; what is on its way already arrives as it would have.
///
/// ```
/// use netwright_testkit::sim::Link;
/// use std::time::Duration;
///
/// let modem = Link::default().latency(Duration::from_millis(120)).rate(7_000).queue(16 * 1024);
/// assert_eq!((modem.loss, modem.rate), (0.0, Some(7_000)));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Link {
    /// How long each segment or datagram takes at least. Default: 500 µs.
    pub latency: Duration,
    /// How much longer it may take, drawn each time. A stream stays in order; datagrams may overtake each other. Default: 100 µs.
    pub jitter: Duration,
    /// Bytes a second, shared by all that is sent in this direction; headers and acknowledgements are free. Default: no bound.
    pub rate: Option<u64>,
    /// How many bytes may wait for their turn, if there is a rate: datagrams beyond it are dropped, streams wait. Default: 1 MiB.
    pub queue: u64,
    /// The probability that a datagram vanishes. What a stream loses is sent again after 200 ms, then 400 ms … Default: 0.
    pub loss: f64,
    /// The probability that a datagram arrives twice. Default: 0.
    pub duplication: f64,
    /// The probability that a datagram is held back, so that later ones overtake it. Default: 0.
    pub reordering: f64,
    /// The largest datagram, without headers. Default: 65,507 bytes, which the system sends in fragments.
    pub mtu: usize,
    /// What happens to larger ones. Default: an error.
    pub oversized: Oversized,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(500),
            jitter: Duration::from_micros(100),
            rate: None,
            queue: 1 << 20,
            loss: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            mtu: DATAGRAM_MAX,
            oversized: Oversized::Refuse,
        }
    }
}

/// The largest payload of UDP over IPv4.
const DATAGRAM_MAX: usize = 65_507;

impl Link {
    /// From a host to itself: 20 µs, and nothing goes wrong.
    pub fn loopback() -> Self {
        Self { latency: Duration::from_micros(20), jitter: Duration::ZERO, ..Self::default() }
    }

    /// Sets how long everything takes at least.
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Sets how much longer it may take.
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the bytes a second.
    pub fn rate(mut self, rate: u64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Sets how many bytes may wait for their turn.
    pub fn queue(mut self, queue: u64) -> Self {
        self.queue = queue;
        self
    }

    /// Sets the probability of a loss.
    pub fn loss(mut self, loss: f64) -> Self {
        self.loss = loss;
        self
    }

    /// Sets the probability that a datagram arrives twice.
    pub fn duplication(mut self, duplication: f64) -> Self {
        self.duplication = duplication;
        self
    }

    /// Sets the probability that a datagram is overtaken.
    pub fn reordering(mut self, reordering: f64) -> Self {
        self.reordering = reordering;
        self
    }

    /// Sets the largest datagram.
    pub fn mtu(mut self, mtu: usize) -> Self {
        self.mtu = mtu;
        self
    }

    /// Sets what happens to larger datagrams.
    pub fn oversized(mut self, oversized: Oversized) -> Self {
        self.oversized = oversized;
        self
    }
}

/// One direction: the link that was set for it, if any, and its state.
#[derive(Debug, Default)]
struct Path {
    link: Option<Link>,
    cut: bool,
    /// When everything that was sent so far has left.
    free_at: Time,
}

/// All directions. Who has no link of its own has the default.
#[derive(Debug)]
pub(super) struct Paths {
    default: Link,
    loopback: Link,
    paths: BTreeMap<(HostId, HostId), Path>,
}

/// What became of a segment or datagram that was given to a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    /// When its last byte has left the sender.
    pub(super) departs: Time,
    /// When it arrives, unless it is lost.
    pub(super) arrives: Option<Time>,
}

impl Default for Paths {
    fn default() -> Self {
        Self { default: Link::default(), loopback: Link::loopback(), paths: BTreeMap::new() }
    }
}

impl Paths {
    pub(super) fn default_mut(&mut self) -> &mut Link {
        &mut self.default
    }

    pub(super) fn link(&self, from: HostId, to: HostId) -> &Link {
        let own = self.paths.get(&(from, to)).and_then(|path| path.link.as_ref());
        own.unwrap_or(if from == to { &self.loopback } else { &self.default })
    }

    pub(super) fn link_mut(&mut self, from: HostId, to: HostId) -> &mut Link {
        let inherited = if from == to { &self.loopback } else { &self.default };
        self.paths.entry((from, to)).or_default().link.get_or_insert_with(|| inherited.clone())
    }

    pub(super) fn is_cut(&self, from: HostId, to: HostId) -> bool {
        self.paths.get(&(from, to)).is_some_and(|path| path.cut)
    }

    pub(super) fn set_cut(&mut self, from: HostId, to: HostId, cut: bool) {
        self.paths.entry((from, to)).or_default().cut = cut;
    }

    pub(super) fn heal(&mut self) {
        self.paths.values_mut().for_each(|path| path.cut = false);
    }

    /// How many bytes wait for their turn.
    pub(super) fn backlog(&self, now: Time, from: HostId, to: HostId) -> u64 {
        let Some(path) = self.paths.get(&(from, to)) else { return 0 };
        let Some(rate) = self.link(from, to).rate else { return 0 };
        let waiting = u128::from(nanoseconds(path.free_at - now));
        u64::try_from(waiting * u128::from(rate) / NANOSECONDS).unwrap_or(u64::MAX)
    }

    /// Sends `size` bytes.
    pub(super) fn pass(
        &mut self,
        chance: &mut Chance,
        now: Time,
        (from, to): (HostId, HostId),
        size: usize,
    ) -> Passage {
        let link = self.link(from, to);
        let (latency, jitter, loss, rate) = (link.latency, nanoseconds(link.jitter), link.loss, link.rate);
        let mut departs = now;
        if let Some(rate) = rate.filter(|_| size > 0) {
            let path = self.paths.entry((from, to)).or_default();
            let took = size as u128 * NANOSECONDS / u128::from(rate.max(1));
            departs =
                departs.max(path.free_at) + Duration::from_nanos(u64::try_from(took).unwrap_or(u64::MAX));
            path.free_at = departs;
        }
        if self.is_cut(from, to) || chance.chance(loss) {
            return Passage { departs, arrives: None };
        }
        let more = if jitter > 0 { chance.between(0..=jitter) } else { 0 };
        Passage { departs, arrives: Some(departs + latency + Duration::from_nanos(more)) }
    }
}

const NANOSECONDS: u128 = 1_000_000_000;

/// One of `n`, by a hash of `who`: as ports that are shared are spread.
pub(super) fn spread(who: &impl std::hash::Hash, n: usize) -> usize {
    let mut hash = Fnv::default();
    who.hash(&mut hash);
    // The low bits of FNV are its weakest.
    ((u128::from(hash.value()) * n as u128) >> 64) as usize
}
