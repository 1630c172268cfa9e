//! Heads of IP and TCP for bytes that have come or gone without them.
//!
//! Not here: which numbers and flags a segment has (`conversation`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const PSH: u8 = 8;
pub(super) const ACK: u8 = 16;

const TCP: u8 = 6;
const TCP_LEN: usize = 20;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
pub(super) const HEADS_MAX: usize = IPV6_LEN + TCP_LEN;
/// With its heads a segment is no longer than the length field of IP can say.
pub(super) const PAYLOAD_MAX: usize = u16::MAX as usize - IPV4_LEN - TCP_LEN;
/// What each side has room for: more than the longest segment, so there is always a way to send one within it.
pub(super) const WINDOW: u64 = u16::MAX as u64;
const _: () = assert!(WINDOW > PAYLOAD_MAX as u64);
/// No packet of ours was ever forwarded, or is fragmented.
const HOPS: u8 = 64;
const DO_NOT_FRAGMENT: u8 = 0x40;

/// What a segment says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) payload: &'a [u8],
}

/// Both ends in one version of IP: IPv4-mapped addresses are IPv4, and if only one end is, both are IPv6.
pub(super) fn same_version(one: SocketAddr, other: SocketAddr) -> (SocketAddr, SocketAddr) {
    let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (one, other) = (canonical(one), canonical(other));
    if one.is_ipv4() == other.is_ipv4() {
        return (one, other);
    }
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    (mapped(one), mapped(other))
}

/// Addresses for the ends of a channel that has none of IP: one for each channel, of networks that are nobody's.
pub(super) fn made_up(number: u32) -> (SocketAddr, SocketAddr) {
    let [_, a, b, c] = number.to_be_bytes();
    let us = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 1);
    let peer = SocketAddrV4::new(Ipv4Addr::new(10, a, b, c), 1024 + (number >> 24) as u16);
    (us.into(), peer.into())
}

impl Segment<'_> {
    /// Writes its heads, and tells how long they are.
    pub(super) fn heads(&self, out: &mut [u8; HEADS_MAX]) -> usize {
        debug_assert!(self.payload.len() <= PAYLOAD_MAX, "{} bytes in a segment", self.payload.len());
        let len = (TCP_LEN + self.payload.len()) as u16;
        let mut sum = Sum::default();
        let ip_len = match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                out[..IPV4_LEN].fill(0);
                out[0] = 0x45;
                out[2..4].copy_from_slice(&(len + IPV4_LEN as u16).to_be_bytes());
                out[6] = DO_NOT_FRAGMENT;
                out[8] = HOPS;
                out[9] = TCP;
                out[12..16].copy_from_slice(&from.octets());
                out[16..20].copy_from_slice(&to.octets());
                let mut head = Sum::default();
                head.add(&out[..IPV4_LEN]);
                out[10..12].copy_from_slice(&head.checksum());
                sum.add(&out[12..20]);
                IPV4_LEN
            }
            (from, to) => {
                let octets = |ip| match ip {
                    IpAddr::V4(ip) => Ipv4Addr::to_ipv6_mapped(&ip).octets(),
                    IpAddr::V6(ip) => ip.octets(),
                };
                out[..IPV6_LEN].fill(0);
                out[0] = 0x60;
                out[4..6].copy_from_slice(&len.to_be_bytes());
                out[6] = TCP;
                out[7] = HOPS;
                out[8..24].copy_from_slice(&octets(from));
                out[24..40].copy_from_slice(&octets(to));
                sum.add(&out[8..40]);
                IPV6_LEN
            }
        };
        let tcp = &mut out[ip_len..ip_len + TCP_LEN];
        tcp.fill(0);
        tcp[..2].copy_from_slice(&self.from.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&self.to.port().to_be_bytes());
        tcp[4..8].copy_from_slice(&self.seq.to_be_bytes());
        if self.flags & ACK != 0 {
            tcp[8..12].copy_from_slice(&self.ack.to_be_bytes());
        }
        tcp[12] = (TCP_LEN as u8 / 4) << 4;
        tcp[13] = self.flags;
        tcp[14..16].copy_from_slice(&(WINDOW as u16).to_be_bytes());
        sum.add(&[0, TCP]);
        sum.add(&len.to_be_bytes());
        sum.add(tcp);
        sum.add(self.payload);
        tcp[16..18].copy_from_slice(&sum.checksum());
        ip_len + TCP_LEN
    }
}

/// The internet checksum (RFC 1071) of parts that, but for the last, have even lengths.
#[derive(Debug, Default)]
struct Sum(u64);

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let (pairs, rest) = bytes.as_chunks::<2>();
        self.0 += pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum::<u64>();
        self.0 += rest.first().map_or(0, |&byte| u64::from(byte) << 8);
    }

    fn checksum(mut self) -> [u8; 2] {
        while self.0 > 0xffff {
            self.0 = (self.0 & 0xffff) + (self.0 >> 16);
        }
        (!(self.0 as u16)).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc_has_its_sum() {
        let mut sum = Sum::default();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.checksum(), (!0xddf2_u16).to_be_bytes());
    }

    #[test]
    fn both_ends_are_of_one_version() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (one, other, expected) in [
            ("1.2.3.4:5", "6.7.8.9:10", ("1.2.3.4:5", "6.7.8.9:10")),
            ("[::ffff:1.2.3.4]:5", "6.7.8.9:10", ("1.2.3.4:5", "6.7.8.9:10")),
            ("[2001:db8::1]:5", "[::ffff:6.7.8.9]:10", ("[2001:db8::1]:5", "[::ffff:6.7.8.9]:10")),
        ] {
            assert_eq!(same_version(parse(one), parse(other)), (parse(expected.0), parse(expected.1)));
        }
    }

    #[test]
    fn made_up_addresses_differ() {
        let all: std::collections::HashSet<_> =
            [0, 1, 255, 256, 1 << 16, 1 << 24, u32::MAX].map(|number| made_up(number).1).into();
        assert_eq!(all.len(), 7);
    }
}
