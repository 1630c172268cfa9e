//! Hosts: their addresses, what they may have open, and their ports.

use super::{DatagramId, Failure, ListenerId, Net, StreamId};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::RangeInclusive,
    time::Duration,
};

/// A host, by the order in which hosts were added.
///
/// ```
/// # use netwright_testkit::sim::HostId;
/// assert_eq!(HostId(3).to_string(), "h3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{}", self.0)
    }
}

/// What a host has of everything. Changes hold for what is opened later.
///
/// ```
/// use netwright_testkit::sim::HostLimits;
///
/// let small = HostLimits::default().descriptors(16).ports(40_000..=40_003).receive_buffer(1_024);
/// assert_eq!((small.descriptors, small.ports.count()), (16, 4));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HostLimits {
    /// Sockets that may be open at the same time; beyond that it is `EMFILE`. Default: 20,000.
    pub descriptors: usize,
    /// The ports that are given to whoever does not ask for one. Default: 32,768 to 60,999.
    pub ports: RangeInclusive<u16>,
    /// How long the side that closed first keeps its port. Default: 60 s.
    pub time_wait: Duration,
    /// Connections that may wait for being accepted, unless a listener says otherwise. Default: 4,096.
    pub backlog: usize,
    /// How long a connection takes until it shows up to whoever accepts, drawn each time. Default: 0.
    pub accept_delay: RangeInclusive<Duration>,
    /// Bytes of a connection that may wait for being sent or acknowledged. Default: 64 KiB.
    pub send_buffer: usize,
    /// Bytes of a connection, or of a datagram socket, that may wait for being read. Default: 64 KiB.
    pub receive_buffer: usize,
    /// The probability that a send takes less than it could. Default: 0.05.
    pub short_sends: f64,
    /// The probability that a receive gives less than there is. Default: 0.05.
    pub short_receives: f64,
    /// How long sent bytes may stay unacknowledged before the connection counts as dead. Default: 15 min.
    pub give_up: Duration,
    /// The probability that a reset takes away what had arrived and was not read. Default: 0, as on Linux.
    pub reset_discards: f64,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            descriptors: 20_000,
            ports: 32_768..=60_999,
            time_wait: Duration::from_secs(60),
            backlog: 4_096,
            accept_delay: Duration::ZERO..=Duration::ZERO,
            send_buffer: 64 * 1024,
            receive_buffer: 64 * 1024,
            short_sends: 0.05,
            short_receives: 0.05,
            give_up: Duration::from_secs(15 * 60),
            reset_discards: 0.0,
        }
    }
}

/// Setters, so that limits can be made in one expression.
macro_rules! setters {
    ($($name:ident: $type:ty, $what:literal;)*) => {
        impl HostLimits {
            $(
                #[doc = concat!("Sets ", $what, ".")]
                #[must_use]
                pub fn $name(mut self, $name: $type) -> Self {
                    self.$name = $name;
                    self
                }
            )*
        }
    };
}

setters! {
    descriptors: usize, "how many sockets may be open";
    ports: RangeInclusive<u16>, "the ports for whoever does not ask for one";
    time_wait: Duration, "how long the side that closed first keeps its port";
    backlog: usize, "how many connections may wait for being accepted";
    accept_delay: RangeInclusive<Duration>, "how long a connection takes to show up";
    send_buffer: usize, "how many bytes may wait for being sent";
    receive_buffer: usize, "how many bytes may wait for being read";
    short_sends: f64, "the probability of a short send";
    short_receives: f64, "the probability of a short receive";
    give_up: Duration, "how long bytes may stay unacknowledged";
    reset_discards: f64, "the probability that a reset discards what was not read";
}

/// A socket that a program holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Socket {
    Listener(ListenerId),
    Stream(StreamId),
    Datagram(DatagramId),
}

#[derive(Debug)]
pub(super) struct Host {
    #[cfg(test)]
    pub(super) name: String,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) up: bool,
    pub(super) limits: HostLimits,
    /// What programs hold.
    pub(super) open: BTreeSet<Socket>,
    /// What the system holds, by local and remote address: also connections that nobody holds any more, or yet.
    pub(super) connections: BTreeMap<(SocketAddr, SocketAddr), StreamId>,
    pub(super) listening: BTreeMap<u16, Vec<ListenerId>>,
    pub(super) bound: BTreeMap<u16, Vec<DatagramId>>,
}

impl Host {
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.addresses.contains(&ip)
    }

    pub(super) fn check_descriptors(&self) -> Result<(), Failure> {
        match self.up {
            false => Err(Failure::HostDown),
            true if self.open.len() >= self.limits.descriptors => Err(Failure::TooManyDescriptors),
            true => Ok(()),
        }
    }

    /// What to send from, to reach `to`.
    pub(super) fn source_for(&self, to: IpAddr) -> Result<IpAddr, Failure> {
        if self.has(to) {
            return Ok(to);
        }
        let own = self.addresses.iter().find(|own| own.is_ipv4() == to.is_ipv4());
        own.copied().ok_or(Failure::NetworkUnreachable)
    }
}

impl Net {
    /// Adds a host. Its name is found by all hosts, as its addresses.
    ///
    /// # Panics
    /// If another host has one of the addresses: a mistake of the test.
    pub(crate) fn add_host(&mut self, name: &str, addresses: &[IpAddr]) -> HostId {
        let id = HostId(self.hosts.len() as u32);
        for address in addresses {
            assert!(!self.routes.contains_key(address), "another host has the address {address}");
            self.routes.insert(*address, id);
        }
        self.hosts.push(Host {
            #[cfg(test)]
            name: name.to_owned(),
            addresses: addresses.to_vec(),
            up: true,
            limits: HostLimits::default(),
            open: BTreeSet::new(),
            connections: BTreeMap::new(),
            listening: BTreeMap::new(),
            bound: BTreeMap::new(),
        });
        self.names.set(None, name, super::NameAnswer::Addresses(addresses.to_vec()));
        id
    }

    /// The limits of a host.
    pub(crate) fn limits_mut(&mut self, host: HostId) -> &mut HostLimits {
        &mut self.host_mut(host).limits
    }

    pub(crate) fn is_up(&self, host: HostId) -> bool {
        self.host(host).up
    }

    #[cfg(test)]
    pub(crate) fn host_name(&self, host: HostId) -> &str {
        &self.host(host).name
    }

    #[cfg(test)]
    pub(crate) fn addresses(&self, host: HostId) -> &[IpAddr] {
        &self.host(host).addresses
    }

    pub(super) fn host(&self, id: HostId) -> &Host {
        &self.hosts[id.0 as usize]
    }

    pub(super) fn host_mut(&mut self, id: HostId) -> &mut Host {
        &mut self.hosts[id.0 as usize]
    }

    /// Who is reached at `ip` from `host`.
    pub(super) fn route(&self, host: HostId, ip: IpAddr) -> Option<HostId> {
        if ip.is_loopback() { Some(host) } else { self.routes.get(&ip).copied() }
    }

    /// A port of the ephemeral range that `is_free` likes.
    pub(super) fn ephemeral(
        &mut self,
        host: HostId,
        is_free: impl Fn(&Host, u16) -> bool,
    ) -> Result<u16, Failure> {
        let (low, high) = self.host(host).limits.ports.clone().into_inner();
        let width = u32::from(high.saturating_sub(low)) + 1;
        let start = self.chance.below(width.into()) as u32;
        let host = self.host(host);
        let mut ports = (0..width).map(|n| low + ((start + n) % width) as u16);
        ports.find(|port| is_free(host, *port)).ok_or(Failure::AddressNotAvailable)
    }
}

/// As the system sees it: a mapped address is the one that it stands for, and what is unspecified is the host itself.
pub(super) fn plain(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// As a socket for both families shows an address.
pub(super) fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Where a socket is bound, and what reaches it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) address: SocketAddr,
    pub(super) only_v6: bool,
    pub(super) shared: bool,
}

impl Bound {
    /// How well `to` fits: exactly, as one of many, or not.
    pub(super) fn fits(&self, to: IpAddr) -> Option<u8> {
        match self.address.ip() {
            ip if ip.to_canonical() == to => Some(2),
            IpAddr::V4(ip) if ip.is_unspecified() && to.is_ipv4() => Some(1),
            IpAddr::V6(ip) if ip.is_unspecified() && (to.is_ipv6() || !self.only_v6) => Some(1),
            _ => None,
        }
    }

    pub(super) fn is_for_both(&self) -> bool {
        self.address.is_ipv6() && !self.only_v6
    }

    /// Whether both cannot be at the same port.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let (one, two) = (self.address.ip(), other.address.ip());
        let overlap = match (one.is_unspecified(), two.is_unspecified()) {
            (false, false) => one.to_canonical() == two.to_canonical(),
            (true, false) => self.fits(two.to_canonical()).is_some(),
            (false, true) => other.fits(one.to_canonical()).is_some(),
            (true, true) => one.is_ipv4() == two.is_ipv4() || self.is_for_both() || other.is_for_both(),
        };
        overlap && !(self.shared && other.shared)
    }
}
