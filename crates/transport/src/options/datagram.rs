//! Options of a socket for datagrams.

use super::{
    OptionError, Pass,
    common::{Common, common_setters},
    only_of, platform, setters,
};
use socket2::{Domain, Socket};
use std::net::Ipv4Addr;

/// Options of a datagram socket, UDP or Unix: set after the socket is made and before it is bound.
///
/// ```
/// use netwright_transport::DatagramOptions;
/// use socket2::Domain;
///
/// let options = DatagramOptions::new().recv_buffer_size(1 << 20).broadcast(true);
/// assert!(options.check(Domain::IPV4).is_ok());
/// assert_eq!(
///     options.check(Domain::IPV6).unwrap_err().to_string(),
///     "socket option broadcast = true: an IPv6 socket does not have it"
/// );
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "options do nothing until they are applied"]
pub struct DatagramOptions {
    common: Common,
    traffic_class: Option<u8>,
    only_v6: Option<bool>,
    broadcast: Option<bool>,
    multicast_hops: Option<u8>,
    multicast_loop: Option<bool>,
    multicast_interface: Option<Ipv4Addr>,
    multicast_interface_index: Option<u32>,
}

impl DatagramOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// `SO_RCVBUF`: bytes that the system holds for us to read; what comes when it is full is lost. Linux doubles it and
        /// caps it at `net.core.rmem_max`. Default: the system's, often some 200 KiB.
        recv_buffer_size(bytes: usize) in common;

        /// `SO_SNDBUF`: bytes that the system holds for us to send. Linux doubles it and caps it at `net.core.wmem_max`.
        /// Default: the system's.
        send_buffer_size(bytes: usize) in common;

        /// `SO_REUSEADDR`: several sockets on one port, all of which get what is sent to a multicast group. Default: off.
        reuse_address(reuse: bool) in common;

        /// `SO_REUSEPORT`: several sockets of one user on one port, over which the system spreads senders. Not on Windows,
        /// Solaris, illumos. Default: off.
        reuse_port(reuse: bool) in common;

        /// `IP_TOS` on IPv4, `IPV6_TCLASS` on IPv6: how routers are to treat the packets, the two bits for congestion (ECN)
        /// included. Default: 0.
        traffic_class(class: u8);

        /// `IP_TTL` on IPv4, `IPV6_UNICAST_HOPS` on IPv6: how many routers a packet may pass, 1 to 255. Default: the system's,
        /// mostly 64.
        hop_limit(hops: u8) in common;

        /// `IPV6_V6ONLY`: an IPv6 socket takes nothing from IPv4. Default: the system's, which is off on Linux.
        only_v6(only: bool);

        /// `SO_BROADCAST`: may send to a broadcast address. IPv4. Default: off.
        broadcast(allowed: bool);

        /// `IP_MULTICAST_TTL`, `IPV6_MULTICAST_HOPS`: how many routers what is sent to a group may pass; 0 does not leave this
        /// machine. Default: 1, which does not leave the network.
        multicast_hops(hops: u8);

        /// `IP_MULTICAST_LOOP`, `IPV6_MULTICAST_LOOP`: members of a group on this machine get what is sent to it here.
        /// Default: on.
        multicast_loop(looped: bool);

        /// `IP_MULTICAST_IF`: what is sent to a group leaves by the interface of this address. IPv4. Default: the system
        /// chooses.
        multicast_interface(address: Ipv4Addr);

        /// `IPV6_MULTICAST_IF`: what is sent to a group leaves by the interface of this number. IPv6. Default: the system
        /// chooses.
        multicast_interface_index(index: u32);
    }

    common_setters!();

    /// The sizes of the receive and the send buffer, if given.
    pub fn buffer_sizes(&self) -> (Option<usize>, Option<usize>) {
        (self.common.recv_buffer_size, self.common.send_buffer_size)
    }

    /// Whether it shares its port with others ([`reuse_port`](Self::reuse_port)).
    pub(crate) fn shares_port(&self) -> bool {
        self.common.reuse_port == Some(true)
    }

    /// Whether all of it can be asked of a socket of that family on this platform.
    ///
    /// # Errors
    /// The first option that cannot.
    pub fn check(&self, domain: Domain) -> Result<(), OptionError> {
        self.common.check()?;
        self.walk(Pass::Check, domain)
    }

    /// [Checks](Self::check) everything, then sets everything on `socket`, which is of the family `domain` and not bound
    /// yet.
    ///
    /// # Errors
    /// As `check`, with nothing set; or the system's refusal of one option, with those before it set.
    pub fn apply(&self, socket: &Socket, domain: Domain) -> Result<(), OptionError> {
        self.check(domain)?;
        self.walk(Pass::Apply(socket), domain)
    }

    fn walk(&self, pass: Pass<'_>, domain: Domain) -> Result<(), OptionError> {
        use platform as p;
        only_of(domain, Domain::IPV6, "only_v6", self.only_v6)?;
        only_of(domain, Domain::IPV4, "broadcast", self.broadcast)?;
        only_of(domain, Domain::IPV4, "multicast_interface", self.multicast_interface)?;
        only_of(domain, Domain::IPV6, "multicast_interface_index", self.multicast_interface_index)?;
        pass.option("only_v6", self.only_v6, p::ONLY_V6)?;
        pass.option("broadcast", self.broadcast, p::BROADCAST)?;
        let traffic_class = (p::TRAFFIC_CLASS_V4, p::TRAFFIC_CLASS_V6);
        pass.by_family("traffic_class", self.traffic_class, domain, traffic_class)?;
        let hops = (p::MULTICAST_HOPS_V4, p::MULTICAST_HOPS_V6);
        pass.by_family("multicast_hops", self.multicast_hops, domain, hops)?;
        let looped = (p::MULTICAST_LOOP_V4, p::MULTICAST_LOOP_V6);
        pass.by_family("multicast_loop", self.multicast_loop, domain, looped)?;
        pass.option("multicast_interface", self.multicast_interface, p::MULTICAST_INTERFACE_V4)?;
        let index = self.multicast_interface_index;
        pass.option("multicast_interface_index", index, p::MULTICAST_INTERFACE_V6)?;
        self.common.walk(pass, domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::Type;

    #[test]
    fn what_is_set_on_an_ipv4_socket_is_there() {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        let options = DatagramOptions::new()
            .broadcast(true)
            .reuse_address(true)
            .hop_limit(7)
            .traffic_class(0b11)
            .multicast_hops(0)
            .multicast_loop(false)
            .multicast_interface(Ipv4Addr::LOCALHOST);
        options.apply(&socket, Domain::IPV4).unwrap();
        assert!(socket.broadcast().unwrap() && socket.reuse_address().unwrap());
        assert_eq!((socket.ttl_v4().unwrap(), socket.multicast_ttl_v4().unwrap()), (7, 0));
        assert!(!socket.multicast_loop_v4().unwrap());
        assert_eq!(socket.multicast_if_v4().unwrap(), Ipv4Addr::LOCALHOST);
    }

    #[test]
    fn what_is_set_on_an_ipv6_socket_is_there() {
        let Ok(socket) = Socket::new(Domain::IPV6, Type::DGRAM, None) else { return }; // a machine without IPv6
        let options = DatagramOptions::new().only_v6(true).multicast_hops(3).multicast_loop(false);
        options.apply(&socket, Domain::IPV6).unwrap();
        assert!(socket.only_v6().unwrap() && !socket.multicast_loop_v6().unwrap());
        assert_eq!(socket.multicast_hops_v6().unwrap(), 3);
    }

    #[test]
    fn what_a_family_does_not_have_is_refused_before_anything_is_set() {
        for (options, domain, expected) in [
            (
                DatagramOptions::new().only_v6(true),
                Domain::IPV4,
                "only_v6 = true: an IPv4 socket does not have it",
            ),
            (
                DatagramOptions::new().multicast_interface(Ipv4Addr::LOCALHOST),
                Domain::IPV6,
                "multicast_interface = 127.0.0.1: an IPv6 socket does not have it",
            ),
            (
                DatagramOptions::new().multicast_interface_index(1),
                Domain::IPV4,
                "multicast_interface_index = 1: an IPv4 socket does not have it",
            ),
            (DatagramOptions::new().hop_limit(0), Domain::IPV4, "hop_limit = 0: must be 1 to 255"),
        ] {
            let error = options.check(domain).unwrap_err();
            assert_eq!(error.to_string(), format!("socket option {expected}"));
        }
        assert!(DatagramOptions::new().multicast_hops(1).check(Domain::UNIX).is_err());
        assert!(DatagramOptions::new().recv_buffer_size(4096).check(Domain::UNIX).is_ok());
    }
}
