//! Version 1: a line of text.
//!
//! ```text
//!   PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n
//!   PROXY UNKNOWN …\r\n
//! ```

use super::{
    decode::Look,
    error::{ProxyProtocolError, malformed},
    header::{Command, ProxyHeader},
};
use bytes::Bytes;
use netwright_core::Address;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) const SIGNATURE: &[u8] = b"PROXY ";
/// With its end.
pub(super) const LENGTH_MAX: usize = 107;

/// Looks at bytes that begin with the signature.
pub(super) fn look(bytes: &[u8]) -> Result<Look, ProxyProtocolError> {
    let seen = &bytes[..bytes.len().min(LENGTH_MAX)];
    let Some(end) = seen.iter().position(|byte| *byte == b'\n') else {
        return match bytes.len() {
            ..LENGTH_MAX => Ok(Look::More),
            got => Err(ProxyProtocolError::TooLong {
                what: "header",
                limit: LENGTH_MAX,
                got: got.min(LENGTH_MAX + 1),
            }),
        };
    };
    let Some(line) = seen[..end].strip_suffix(b"\r") else {
        return malformed("its line does not end in CR and LF");
    };
    let line = &line[SIGNATURE.len()..];
    let header = match (line, std::str::from_utf8(line)) {
        (b"UNKNOWN", _) | ([b'U', b'N', b'K', b'N', b'O', b'W', b'N', b' ', ..], _) => ProxyHeader::unknown(),
        (_, Ok(line)) => parse(line)?,
        (_, Err(_)) => return malformed("its line is no text"),
    };
    Ok(Look::Header { header, length: end + 1 })
}

/// What stands behind the signature.
fn parse(line: &str) -> Result<ProxyHeader, ProxyProtocolError> {
    let mut parts = line.split(' ');
    let family = parts.next();
    let mut next = || parts.next().unwrap_or("");
    let (source, destination, from, to) = (next(), next(), next(), next());
    if parts.next().is_some() {
        return malformed("there is more than two addresses and two ports");
    }
    let (source, destination): (IpAddr, IpAddr) = match family {
        Some("TCP4") => (v4(source)?, v4(destination)?),
        Some("TCP6") => (v6(source)?, v6(destination)?),
        _ => return malformed("it is neither of TCP4 nor TCP6 nor UNKNOWN"),
    };
    let (source, destination) =
        (SocketAddr::new(source, port(from)?), SocketAddr::new(destination, port(to)?));
    Ok(ProxyHeader::of(Command::Proxy, Some((source.into(), destination.into()))))
}

fn v4(text: &str) -> Result<IpAddr, ProxyProtocolError> {
    text.parse::<Ipv4Addr>().map(IpAddr::V4).or(malformed("what should be an IPv4 address is none"))
}

fn v6(text: &str) -> Result<IpAddr, ProxyProtocolError> {
    text.parse::<Ipv6Addr>().map(IpAddr::V6).or(malformed("what should be an IPv6 address is none"))
}

/// In digits, without a sign and without zeros in front.
fn port(text: &str) -> Result<u16, ProxyProtocolError> {
    let plain = text.bytes().all(|digit| digit.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    match text.parse() {
        Ok(port) if plain => Ok(port),
        _ => malformed("what should be a port is none"),
    }
}

pub(super) fn encode(header: &ProxyHeader) -> Result<Bytes, ProxyProtocolError> {
    let text = match &header.ends {
        None => "PROXY UNKNOWN\r\n".to_owned(),
        Some((Address::Ip(source), Address::Ip(destination))) => {
            let (family, from, to) = match (source.ip(), destination.ip()) {
                (from @ IpAddr::V4(_), to @ IpAddr::V4(_)) => ("TCP4", from, to),
                (from, to) => ("TCP6", as_v6(from), as_v6(to)),
            };
            format!("PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port())
        }
        Some(_) => return malformed("version 1 has addresses on networks only"),
    };
    Ok(text.into())
}

/// Where the two ends are of different families.
pub(super) fn as_v6(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V6(v4.to_ipv6_mapped()),
        v6 => v6,
    }
}
