//! What listeners and connections have in common.

use super::{INT_MAX, OptionError, OptionWhy, Pass, platform, refuse_unless};
use socket2::Domain;
use std::num::NonZeroU32;

/// See the setters. `None`: left as the system has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Common {
    pub(super) recv_buffer_size: Option<usize>,
    pub(super) send_buffer_size: Option<usize>,
    pub(super) reuse_address: Option<bool>,
    pub(super) reuse_port: Option<bool>,
    pub(super) traffic_class: Option<u8>,
    pub(super) hop_limit: Option<u8>,
    pub(super) mss: Option<u16>,
    pub(super) mark: Option<u32>,
    pub(super) priority: Option<u32>,
    pub(super) bind_device: Option<String>,
    pub(super) bind_device_index: Option<NonZeroU32>,
    pub(super) freebind: Option<bool>,
    pub(super) transparent: Option<bool>,
    pub(super) busy_poll: Option<u32>,
    pub(super) incoming_cpu: Option<usize>,
    pub(super) fib: Option<u32>,
}

impl Common {
    pub(super) fn check(&self) -> Result<(), OptionError> {
        for (name, size) in
            [("recv_buffer_size", self.recv_buffer_size), ("send_buffer_size", self.send_buffer_size)]
        {
            let Some(size) = size else { continue };
            refuse_unless((1..=INT_MAX).contains(&size), name, size, "1 to 2147483647 bytes")?;
        }
        if let Some(class) = self.traffic_class {
            refuse_unless(
                class & 0b11 == 0,
                "traffic_class",
                class,
                "a multiple of 4: the two lowest bits are TCP's own (ECN)",
            )?;
        }
        if let Some(hops) = self.hop_limit {
            refuse_unless(hops > 0, "hop_limit", hops, "1 to 255")?;
        }
        if let Some(mss) = self.mss {
            refuse_unless(mss > 0, "mss", mss, "1 to 65535 bytes")?;
        }
        if let Some(name) = &self.bind_device {
            let fits = (1..16).contains(&name.len()) && !name.contains('\0');
            refuse_unless(fits, "bind_device", name, "the name of an interface, 1 to 15 bytes")?;
            if self.bind_device_index.is_some() {
                let with = "bind_device_index is set as well, and one socket has one interface";
                return Err(OptionError::new("bind_device", name, OptionWhy::Combination { with }));
            }
        }
        if let Some(cpu) = self.incoming_cpu {
            refuse_unless(cpu <= INT_MAX, "incoming_cpu", cpu, "0 to 2147483647")?;
        }
        if let Some(micros) = self.busy_poll {
            refuse_unless(micros as usize <= INT_MAX, "busy_poll", micros, "0 to 2147483647 µs")?;
        }
        Ok(())
    }

    /// What Unix sockets have of these, and the others: two buffer sizes. Whether an address may be reused matters to no
    /// Unix socket, so its default is not in the way.
    pub(super) fn split_for_unix(&self) -> (Self, Self) {
        let Self { recv_buffer_size, send_buffer_size, .. } = *self;
        let theirs = Self { recv_buffer_size, send_buffer_size, ..Self::default() };
        let others =
            Self { recv_buffer_size: None, send_buffer_size: None, reuse_address: None, ..self.clone() };
        (theirs, others)
    }

    pub(super) fn walk(&self, pass: Pass<'_>, domain: Domain) -> Result<(), OptionError> {
        use platform as p;
        pass.option("reuse_address", self.reuse_address, p::REUSE_ADDRESS)?;
        pass.option("reuse_port", self.reuse_port, p::REUSE_PORT)?;
        pass.option("recv_buffer_size", self.recv_buffer_size, p::RECV_BUFFER_SIZE)?;
        pass.option("send_buffer_size", self.send_buffer_size, p::SEND_BUFFER_SIZE)?;
        let traffic_class = (p::TRAFFIC_CLASS_V4, p::TRAFFIC_CLASS_V6);
        pass.by_family("traffic_class", self.traffic_class, domain, traffic_class)?;
        pass.by_family("hop_limit", self.hop_limit, domain, (p::HOP_LIMIT_V4, p::HOP_LIMIT_V6))?;
        pass.option("mss", self.mss, p::MSS)?;
        pass.option("mark", self.mark, p::MARK)?;
        // After the traffic class, which sets a priority of its own on Linux.
        pass.option("priority", self.priority, p::PRIORITY)?;
        pass.option("bind_device", self.bind_device.as_deref(), p::BIND_DEVICE)?;
        let bind_device_index = (p::BIND_DEVICE_INDEX_V4, p::BIND_DEVICE_INDEX_V6);
        pass.by_family("bind_device_index", self.bind_device_index, domain, bind_device_index)?;
        pass.by_family("freebind", self.freebind, domain, (p::FREEBIND_V4, p::FREEBIND_V6))?;
        pass.by_family("transparent", self.transparent, domain, (p::TRANSPARENT_V4, p::TRANSPARENT_V6))?;
        pass.option("busy_poll", self.busy_poll, p::BUSY_POLL)?;
        pass.option("incoming_cpu", self.incoming_cpu, p::INCOMING_CPU)?;
        pass.option("fib", self.fib, p::FIB)
    }
}

/// The setters of options that every kind of socket has for the same reasons, for a struct that has a [`Common`] in its field `common`.
macro_rules! common_setters {
    () => {
        $crate::options::setters! {
            /// `SO_MARK`: marks packets for routing and filters. Linux; needs `CAP_NET_ADMIN`. Default: 0.
            mark(mark: u32) in common;

            /// `SO_PRIORITY`: the queue for outgoing packets; above 6 it needs `CAP_NET_ADMIN`. Linux. Default: 0.
            priority(priority: u32) in common;

            /// `SO_BINDTODEVICE`: only packets of this interface, by name, 1 to 15 bytes. Linux. Default: any.
            bind_device(name: impl Into<String>) in common;

            /// `SO_BUSY_POLL`: microseconds that the system may spin on the network card instead of sleeping. Linux; raising
            /// it needs `CAP_NET_ADMIN`. Default: `net.core.busy_read`.
            busy_poll(micros: u32) in common;
        }
    };
}

/// And of those that listeners and connections share, beside [`common_setters`].
macro_rules! stream_setters {
    () => {
        $crate::options::setters! {
            /// `SO_RCVBUF`: bytes that the system may hold for us to read. Linux doubles it and caps it at
            /// `net.core.rmem_max`. Default: the system's, which it tunes by itself; a size set here ends that.
            recv_buffer_size(bytes: usize) in common;

            /// `SO_SNDBUF`: bytes that the system may hold for us to send. Linux doubles it and caps it at
            /// `net.core.wmem_max`. Default: the system's, which it tunes by itself; a size set here ends that.
            send_buffer_size(bytes: usize) in common;

            /// `SO_REUSEADDR`: binds although old connections of this address are still being forgotten. Default: on for
            /// listeners on Unix, the system's (off) otherwise. On Windows it would let others take the address over.
            reuse_address(reuse: bool) in common;

            /// `SO_REUSEPORT` (FreeBSD: `SO_REUSEPORT_LB`): several sockets of one user bind the same address, and the
            /// system spreads connections over them. Not on Windows, Solaris, illumos. Default: off.
            reuse_port(reuse: bool) in common;

            /// `IP_TOS` on IPv4, `IPV6_TCLASS` on IPv6: how routers are to treat the packets. The two lowest bits have to
            /// be 0: they are TCP's own (ECN). On Linux it holds for IPv4 peers of an IPv6 socket as well. Default: 0.
            traffic_class(class: u8) in common;

            /// `IP_TTL` on IPv4, `IPV6_UNICAST_HOPS` on IPv6: how many routers a packet may pass, 1 to 255. On Linux it
            /// holds for IPv4 peers of an IPv6 socket as well. Default: the system's, mostly 64.
            hop_limit(hops: u8) in common;

            /// `TCP_MAXSEG`: the largest segment to send and to announce. Unix. Default: what the path allows.
            mss(bytes: u16) in common;

            /// `SO_BINDTOIFINDEX`, `IP_BOUND_IF`: only packets of this interface, by number. Linux, Apple, Solaris,
            /// illumos; not together with `bind_device`. Default: any.
            bind_device_index(index: std::num::NonZeroU32) in common;

            /// `IP_FREEBIND`: binds an address that this machine does not have (yet). Linux. Default: off.
            freebind(free: bool) in common;

            /// `IP_TRANSPARENT`: takes and makes connections under foreign addresses, for transparent proxies. Linux; needs
            /// `CAP_NET_ADMIN`. Default: off.
            transparent(transparent: bool) in common;

            /// `SO_INCOMING_CPU`: of several listeners on one port, prefer this one for packets handled by that core.
            /// Linux. Default: none.
            incoming_cpu(cpu: usize) in common;

            /// `SO_SETFIB`: the routing table. FreeBSD. Default: the process's.
            fib(table: u32) in common;
        }
        $crate::options::common::common_setters!();
    };
}

pub(super) use {common_setters, stream_setters};
