//! Targets that are connected to without a proxy: what `NO_PROXY` says.

use super::{
    BadProxy,
    target::{Host, Target},
};
use std::net::IpAddr;

/// Which targets are connected to directly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bypass {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    what: What,
    /// None: whatever the port.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    All,
    /// Addresses whose first so many bits are these.
    Network(IpAddr, u8),
    /// A name without a dot at its end, in small letters, and what is below it.
    Name {
        name: String,
        itself: bool,
    },
}

const NO_RULE: &str = "an entry of those that go without a proxy is no name, address, network or `*`";

impl Bypass {
    /// Entries with commas or blanks between them.
    pub(super) fn parse(text: &str) -> Result<Self, BadProxy> {
        let entries = text.split([',', ' ', '\t']).filter(|entry| !entry.is_empty());
        let rules = entries.map(|entry| rule(entry).ok_or_else(|| BadProxy::new(entry, NO_RULE)));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    pub(super) fn add(&mut self, other: Self) {
        self.rules.extend(other.rules);
    }

    pub(super) fn has(&self, target: &Target) -> bool {
        self.rules.iter().any(|Rule { what, port }| {
            port.is_none_or(|port| port == target.port)
                && match (what, &target.host) {
                    (What::All, _) => true,
                    (What::Network(network, bits), Host::Ip(ip)) => begins_with(*ip, *network, *bits),
                    (What::Name { name, itself }, Host::Name(host)) => {
                        is_below(&host.to_ascii_lowercase(), name, *itself)
                    }
                    _ => false,
                }
        })
    }
}

fn rule(entry: &str) -> Option<Rule> {
    let all = |what| Rule { what, port: None };
    if entry == "*" {
        return Some(all(What::All));
    }
    if let Some(network) = network(without_brackets(entry)) {
        return Some(all(network));
    }
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (entry, None),
    };
    if let Some(what) = network(without_brackets(host)) {
        return Some(Rule { what, port });
    }
    let name = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host);
    let (name, itself) = name.strip_prefix('.').map_or((name, true), |name| (name, false));
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let usable = !name.is_empty() && name.bytes().all(known);
    usable.then_some(Rule { what: What::Name { name, itself }, port })
}

fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// An address, or one with the number of its bits that count.
fn network(text: &str) -> Option<What> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
            bits.parse().ok().filter(|bits| *bits <= all)?
        }
        Some(_) => return None,
        None => all,
    };
    // An address of version 4 that is written as one of version 6 is one of version 4.
    match (address, address.to_canonical()) {
        (IpAddr::V6(_), v4 @ IpAddr::V4(_)) if bits >= 96 => Some(What::Network(v4, bits - 96)),
        _ => Some(What::Network(address, bits)),
    }
}

fn begins_with(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let bits = u32::from(bits);
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            (ip.to_bits() ^ network.to_bits()).checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            (ip.to_bits() ^ network.to_bits()).checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

fn is_below(host: &str, name: &str, itself: bool) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    match host.strip_suffix(name) {
        Some("") => itself,
        Some(before) => before.ends_with('.'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(rules: &str, target: &str) -> bool {
        Bypass::parse(rules).unwrap().has(&Target::parse(target).unwrap())
    }

    #[test]
    fn a_name_means_itself_and_what_is_below_it_and_with_a_dot_only_what_is_below() {
        for target in ["example.com:80", "EXAMPLE.com.:80", "a.example.com:1", "b.a.example.com:1"] {
            assert!(direct("localhost, Example.COM", target), "{target}");
        }
        for target in ["badexample.com:80", "example.com.evil:80", "com:80", "10.0.0.1:80"] {
            assert!(!direct("example.com", target), "{target}");
        }
        for rule in [".example.com", "*.example.com"] {
            assert!(direct(rule, "a.example.com:1"));
            assert!(!direct(rule, "example.com:1"));
        }
    }

    #[test]
    fn addresses_and_networks_mean_addresses_however_they_are_written() {
        for (rules, target, expected) in [
            ("10.0.0.0/8", "10.255.0.1:1", true),
            ("10.0.0.0/8", "11.0.0.1:1", false),
            ("10.0.0.0/8", "[::ffff:10.0.0.1]:1", true),
            ("::ffff:10.0.0.0/104", "10.1.2.3:1", true),
            ("0.0.0.0/0", "1.2.3.4:1", true),
            ("0.0.0.0/0", "[::1]:1", false),
            ("::/0", "[2001:db8::1]:1", true),
            ("::1", "[::1]:1", true),
            ("[::1]", "[::1]:1", true),
            ("fd00::/8", "[fd12::1]:1", true),
            ("fd00::/8", "[fe80::1]:1", false),
            ("127.0.0.1", "127.0.0.1:1", true),
            ("127.0.0.1", "127.0.0.2:1", false),
            ("10.0.0.0/8", "10.example:1", false),
            ("*", "whatever:1", true),
        ] {
            assert_eq!(direct(rules, target), expected, "{rules} {target}");
        }
    }

    #[test]
    fn an_entry_with_a_port_means_that_port_alone() {
        assert!(direct("a:80 [::1]:81\t10.0.0.1:82", "a:80"));
        assert!(direct("a:80,[::1]:81", "[::1]:81"));
        assert!(direct("10.0.0.1:82", "10.0.0.1:82"));
        assert!(!direct("a:80,[::1]:81,10.0.0.1:82", "a:81"));
        assert!(!direct("a:80,[::1]:81,10.0.0.1:82", "10.0.0.1:81"));
    }

    #[test]
    fn an_entry_that_means_nothing_is_an_error_that_names_it() {
        for entry in
            ["10.0.0.0/33", "::/129", "10.0.0.0/+8", "a/8", "a*b", "*", "a:x", ".", "http://a", "a:65536"]
        {
            let parsed = Bypass::parse(&format!("fine, {entry}"));
            match (entry, parsed) {
                ("*", parsed) => assert!(parsed.is_ok()),
                (entry, Err(error)) => assert!(error.to_string().contains(entry), "{error}"),
                (entry, Ok(parsed)) => panic!("{entry}: {parsed:?}"),
            }
        }
        assert_eq!(Bypass::parse(" , ,").unwrap(), Bypass::default());
    }
}
