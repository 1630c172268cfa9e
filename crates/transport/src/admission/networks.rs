//! A set of networks, asked for every connection that comes.
//!
//! ```text
//!   10.0.0.0/8, 10.1.0.0/16, 11.0.0.0/8 ──▶ 10.0.0.0 … 11.255.255.255        ranges: sorted, apart, found by halving
//! ```

use super::{Network, NetworkError};
use std::{fmt, net::IpAddr, str::FromStr};

/// A set of networks. Asking it takes as long for a hundred thousand networks as for a few.
///
/// ```
/// use netwright_transport::Networks;
///
/// let office: Networks = "192.0.2.0/24, 2001:db8::/32".parse()?;
/// assert!(office.contains("192.0.2.7".parse()?));
/// assert!(office.contains("::ffff:192.0.2.7".parse()?)); // IPv4 in IPv6's clothes
/// assert!(!office.contains("192.0.3.7".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Networks {
    /// As they were given, for people.
    given: Vec<Network>,
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl Networks {
    /// No network.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a network.
    ///
    /// # Errors
    /// It is none; see [`Network`].
    pub fn with<N: TryInto<Network>>(mut self, network: N) -> Result<Self, NetworkError>
    where
        NetworkError: From<N::Error>,
    {
        self.extend([network.try_into()?]);
        Ok(self)
    }

    /// Whether an address is in one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(v4) => is_within(&self.v4, v4.to_bits()),
            IpAddr::V6(v6) => is_within(&self.v6, v6.to_bits()),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// They, as they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Network> {
        self.given.iter()
    }
}

fn is_within<T: Copy + Ord>(ranges: &[(T, T)], address: T) -> bool {
    let behind = ranges.partition_point(|(first, _)| *first <= address);
    behind > 0 && ranges[behind - 1].1 >= address
}

/// Sorts ranges, and joins those that have addresses in common. Networks are never half in one another, but whole.
fn sort<T: Copy + Ord>(ranges: &mut Vec<(T, T)>) {
    ranges.sort_unstable();
    let mut sorted: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges.drain(..) {
        match sorted.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => sorted.push((first, last)),
        }
    }
    *ranges = sorted;
}

impl Extend<Network> for Networks {
    fn extend<I: IntoIterator<Item = Network>>(&mut self, networks: I) {
        for network in networks {
            self.given.push(network);
            match network.bounds() {
                Ok(v4) => self.v4.push(v4),
                Err(v6) => self.v6.push(v6),
            }
        }
        sort(&mut self.v4);
        sort(&mut self.v6);
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        let mut all = Self::none();
        all.extend(networks);
        all
    }
}

impl From<Network> for Networks {
    fn from(network: Network) -> Self {
        [network].into_iter().collect()
    }
}

/// Networks with commas or white space between them; none at all is an empty set.
impl FromStr for Networks {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let between = |letter: char| letter == ',' || letter.is_whitespace();
        text.split(between).filter(|part| !part.is_empty()).map(str::parse).collect()
    }
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, network) in self.given.iter().enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            network.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.given).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipnet::IpNet;
    use netwright_testkit::verify::Numbers;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// An address near others, so that networks meet.
    fn address(numbers: &mut Numbers) -> IpAddr {
        let mut any = || numbers.below(u32::MAX as usize) as u32;
        let bits = [any(), any(), any(), any()].iter().fold(0, |bits, part| bits << 32 | u128::from(*part));
        let few = any() % 8;
        match any() % 5 {
            0 => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
            1 => IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 | few << 8 | (any() % 4))),
            2 => IpAddr::V6(Ipv6Addr::from_bits(bits)),
            3 => IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(few) << 64 | (bits % 4))),
            _ => IpAddr::V6(Ipv4Addr::from_bits(0x0a00_0000 | few << 8 | (any() % 4)).to_ipv6_mapped()),
        }
    }

    #[test]
    fn an_address_is_in_a_set_if_ipnet_finds_it_in_one_of_the_networks() {
        for seed in 0..400 {
            let mut numbers = Numbers::new(seed);
            let count = numbers.below(12);
            let mut theirs: Vec<IpNet> = Vec::new();
            let mut texts: Vec<String> = Vec::new();
            for _ in 0..count {
                // Theirs knows of no mapped addresses, so it is given what they stand for.
                let address = address(&mut numbers).to_canonical();
                let bits = if address.is_ipv4() { 33 } else { 129 };
                let network = IpNet::new(address, numbers.below(bits) as u8).unwrap();
                texts.push(network.to_string());
                theirs.push(network);
            }
            let ours: Networks = texts.join(", ").parse().unwrap();
            for _ in 0..200 {
                let address = address(&mut numbers);
                let expected = theirs.iter().any(|network| network.contains(&address.to_canonical()));
                assert_eq!(ours.contains(address), expected, "seed {seed}: {address} in {ours}");
                let by_one = ours.iter().any(|network| network.contains(address));
                assert_eq!(by_one, expected, "seed {seed}: {address} in one of {ours}");
            }
        }
    }

    #[test]
    fn a_network_is_cut_as_ipnet_cuts_it() {
        for seed in 0..400 {
            let mut numbers = Numbers::new(seed);
            let address = address(&mut numbers).to_canonical();
            let bits = if address.is_ipv4() { 33 } else { 129 };
            let prefix = numbers.below(bits) as u8;
            let (ours, theirs) =
                (Network::new(address, prefix).unwrap(), IpNet::new(address, prefix).unwrap().trunc());
            assert_eq!((ours.address(), ours.prefix()), (theirs.addr(), theirs.prefix_len()));
        }
    }

    #[test]
    fn texts_are_read_with_whatever_is_between_networks() {
        let networks: Networks = " 10.0.0.0/8,, ::1\n 192.0.2.1".parse().unwrap();
        assert_eq!(networks.to_string(), "10.0.0.0/8, ::1, 192.0.2.1");
        assert!("".parse::<Networks>().unwrap().is_empty());
        assert!("10.0.0.0/8; ::1".parse::<Networks>().is_err());
    }
}
