//! Whom a proxy is asked for: a name or an address, and a port.

use super::{NAME_MAX, ProxyWhy, proxy::Protocol};
use crate::resolve::{self, ResolveError};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// A name or an address, and a port. A name has bytes that names have, so that it can be written into any protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    Name(String),
    Ip(IpAddr),
}

impl Target {
    /// Of `host:port`.
    ///
    /// # Errors
    /// Inside: no proxy can be asked for it. Outside: it is nothing that could be connected to.
    pub(super) fn parse(text: &str) -> Result<Self, Result<ProxyWhy, ResolveError>> {
        let text = text.strip_prefix("tcp:").unwrap_or(text);
        let resolve::Target { host, port, .. } = resolve::Target::parse(text).map_err(Err)?;
        let host = match host.parse::<IpAddr>() {
            Ok(ip) => Host::Ip(ip.to_canonical()),
            Err(_) => Host::Name(name(host).map_err(|why| Ok(ProxyWhy::Target(why)))?),
        };
        Ok(Self { host, port })
    }

    pub(super) fn is_name(&self) -> bool {
        matches!(self.host, Host::Name(_))
    }

    /// The same port at this address.
    pub(super) fn at(self, ip: IpAddr) -> Self {
        Self { host: Host::Ip(ip), ..self }
    }

    pub(super) fn check_for(&self, protocol: Protocol) -> Result<(), ProxyWhy> {
        match self.host {
            Host::Ip(IpAddr::V6(_)) if protocol == Protocol::Socks4 => {
                Err(ProxyWhy::Target("SOCKS 4 knows no IPv6"))
            }
            _ => Ok(()),
        }
    }
}

/// A name that a proxy may be asked for: what URLs call one (RFC 3986, section 3.2.2) but for percent signs. So nothing that would end a line, a
/// name or a string of whatever the proxy hands it to.
fn name(host: String) -> Result<String, &'static str> {
    if host.len() > NAME_MAX {
        return Err("the name is longer than the limit of 255 bytes");
    }
    if host.contains(':') {
        return Err("an address with a zone means something on this machine alone");
    }
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte);
    if !host.bytes().all(known) {
        return Err("the name has a byte that no name has (names beyond ASCII are written in Punycode)");
    }
    Ok(host)
}

/// Without the brackets of addresses.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(ip) => ip.fmt(f),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Ip(ip) => SocketAddr::new(*ip, self.port).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_an_address_or_a_name_of_255_bytes_at_most() {
        for (text, shown) in [
            ("example.org:80", "example.org:80"),
            ("tcp:local:7", "local:7"),
            ("[::1]:443", "[::1]:443"),
            ("[::ffff:10.0.0.1]:1", "10.0.0.1:1"),
            ("127.0.0.1:65535", "127.0.0.1:65535"),
        ] {
            assert_eq!(Target::parse(text).unwrap().to_string(), shown);
        }
        let longest = format!("{}:1", "x".repeat(NAME_MAX));
        assert!(Target::parse(&longest).unwrap().is_name());
        assert!(matches!(Target::parse(&format!("x{longest}")), Err(Ok(ProxyWhy::Target(_)))));
        assert!(matches!(Target::parse("example.org"), Err(Err(ResolveError::Malformed { .. }))));
    }

    #[test]
    fn a_name_cannot_carry_a_line_a_nul_or_another_address() {
        for host in
            ["a\r\nHost: b", "a b", "a\0b", "a@b", "a/b", "bücher.example", "[fe80::1%eth0]", "a%0d", "a\n"]
        {
            let parsed = Target::parse(&format!("{host}:80"));
            assert!(parsed.is_err(), "{host:?}: {parsed:?}");
        }
    }
}
