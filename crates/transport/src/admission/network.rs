//! Networks: addresses whose first bits are the same.
//!
//! ```text
//!   10.1.2.3/8 ──▶ 10.0.0.0/8               what lies behind the prefix does not count
//!   ::ffff:10.0.0.0/104 ──▶ 10.0.0.0/8      IPv4 in IPv6's clothes is IPv4, in networks as in addresses
//! ```
//! Always true: an IPv4 network contains IPv4 addresses alone, also mapped ones, and an IPv6 network contains none of them, not even `::/0`.
//!
//! Not here: many of them at once (`networks`).

use std::{
    convert::Infallible,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Addresses whose first bits are the same: `10.0.0.0/8`, `2001:db8::/32`, or a single address.
///
/// Bits behind the prefix do not count: `10.1.2.3/8` is `10.0.0.0/8`. An IPv4 address that is mapped into IPv6 (`::ffff:10.1.2.3`) is the
/// IPv4 address, and no IPv6 network contains it.
///
/// ```
/// use netwright_transport::Network;
///
/// let network: Network = "10.1.2.3/8".parse()?;
/// assert_eq!(network.to_string(), "10.0.0.0/8");
/// assert!(network.contains("10.200.0.1".parse()?));
/// assert!(network.contains("::ffff:10.200.0.1".parse()?)); // the same address
/// assert!(!"::/0".parse::<Network>()?.contains("10.200.0.1".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network {
    /// With nothing behind the prefix.
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// The network of the addresses that have their first `prefix` bits in common with this one.
    ///
    /// # Errors
    /// There are not so many bits.
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, NetworkError> {
        let bits = bits(address);
        if prefix > bits {
            return Err(NetworkError::Prefix { address, prefix: u32::from(prefix), max: bits });
        }
        Ok(match address {
            // As many bits of an IPv4 address as are left behind the 96 that say that it is one.
            IpAddr::V6(v6) if prefix >= 96 && v6.to_ipv4_mapped().is_some() => {
                Self::masked(v6.to_canonical(), prefix - 96)
            }
            address => Self::masked(address, prefix),
        })
    }

    /// The network around an address, no finer than it has bits.
    pub(crate) fn around(address: IpAddr, prefix_v4: u8, prefix_v6: u8) -> Self {
        match address.to_canonical() {
            v4 @ IpAddr::V4(_) => Self::masked(v4, prefix_v4.min(32)),
            v6 => Self::masked(v6, prefix_v6.min(128)),
        }
    }

    fn masked(address: IpAddr, prefix: u8) -> Self {
        let address = match address {
            IpAddr::V4(v4) => {
                let kept = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & kept))
            }
            IpAddr::V6(v6) => {
                let kept = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & kept))
            }
        };
        Self { address, prefix }
    }

    /// The first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits are in common.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether an address is one of these.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && Self::masked(address, self.prefix) == *self
    }

    /// The first and the last address of an IPv4 network, or else of an IPv6 network, as numbers.
    pub(super) fn bounds(&self) -> Result<(u32, u32), (u128, u128)> {
        match self.address {
            IpAddr::V4(v4) => {
                let first = v4.to_bits();
                Ok((first, first | u32::MAX.checked_shr(u32::from(self.prefix)).unwrap_or(0)))
            }
            IpAddr::V6(v6) => {
                let first = v6.to_bits();
                Err((first, first | u128::MAX.checked_shr(u32::from(self.prefix)).unwrap_or(0)))
            }
        }
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, prefix: bits(address) }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let not_one = || NetworkError::Text(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| not_one())?;
        let Some(prefix) = prefix else { return Ok(address.into()) };
        if prefix.is_empty() || prefix.len() > 3 || !prefix.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(not_one());
        }
        let prefix: u32 = prefix.parse().map_err(|_| not_one())?;
        let max = bits(address);
        let narrow = u8::try_from(prefix).map_err(|_| NetworkError::Prefix { address, prefix, max })?;
        Self::new(address, narrow)
    }
}

impl TryFrom<&str> for Network {
    type Error = NetworkError;

    fn try_from(text: &str) -> Result<Self, NetworkError> {
        text.parse()
    }
}

impl TryFrom<String> for Network {
    type Error = NetworkError;

    fn try_from(text: String) -> Result<Self, NetworkError> {
        text.parse()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix == bits(self.address) {
            true => self.address.fmt(f),
            false => write!(f, "{}/{}", self.address, self.prefix),
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is no network.
///
/// ```
/// use netwright_transport::Network;
///
/// let error = "10.0.0.0/33".parse::<Network>().unwrap_err();
/// assert_eq!(error.to_string(), "10.0.0.0 has 32 bits, and a prefix of 33 is longer");
/// assert!("example.org".parse::<Network>().is_err()); // names are a resolver's business
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkError {
    /// This text.
    Text(String),
    /// The prefix is longer than the address.
    Prefix {
        /// The address.
        address: IpAddr,
        /// Its prefix.
        prefix: u32,
        /// How many bits there are.
        max: u8,
    },
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?} is no network: expected `ADDRESS` or `ADDRESS/PREFIX`"),
            Self::Prefix { address, prefix, max } => {
                write!(f, "{address} has {max} bits, and a prefix of {prefix} is longer")
            }
        }
    }
}

impl std::error::Error for NetworkError {}

/// For values that are networks already, where texts may be given too.
impl From<Infallible> for NetworkError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn what_is_printed_can_be_read_again_and_bits_behind_the_prefix_are_gone() {
        for (text, printed) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("10.1.2.3", "10.1.2.3"),
            ("10.1.2.3/32", "10.1.2.3"),
            ("2001:db8:ffff::1/32", "2001:db8::/32"),
            ("::/0", "::/0"),
            ("::1/128", "::1"),
            ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:10.1.2.3/95", "::fffe:0:0/95"),
        ] {
            assert_eq!(network(text).to_string(), printed, "{text}");
            assert_eq!(network(printed), network(text));
        }
    }

    #[test]
    fn a_text_that_is_no_network_is_refused() {
        for text in [
            "",
            "/",
            "/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
            "10.0.0/8",
            "10.0.0.0/ 8",
            "10.0.0.0/0008",
            "10.0.0.0/8 ",
            "host/8",
            "[::1]/128",
            "fe80::1%lo/64",
        ] {
            assert!(matches!(text.parse::<Network>(), Err(NetworkError::Text(_))), "{text}");
        }
        for (text, told) in [("1.2.3.4/33", "a prefix of 33"), ("::/129", "129"), ("1.2.3.4/999", "999")] {
            assert!(text.parse::<Network>().unwrap_err().to_string().contains(told), "{text}");
        }
    }
}
