//! What is known of the networks that connections come from: how many are open, and how fast they came.
//!
//! Always true:
//! 1. A network has an entry only while connections of it are open, or while its bucket is not full.
//! 2. Of those without an open connection there are at most [`FORGOTTEN_ABOVE`]: beyond that they are forgotten, and their buckets are full.
//! 3. Looking for entries to forget costs as much as the entries that came since it was done last.

use super::{Network, rate::Bucket};
use std::collections::HashMap;

/// How many networks are remembered of which no connection is open: a few megabytes.
pub(super) const FORGOTTEN_ABOVE: usize = 65_536;
/// Fewer are not worth a look.
const LOOK_ABOVE: usize = 256;

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Entry {
    pub(super) open: usize,
    pub(super) bucket: Bucket,
}

#[derive(Debug)]
pub(super) struct Addresses {
    entries: HashMap<Network, Entry>,
    /// With so many entries it is looked for some to forget.
    look_at: usize,
}

impl Default for Addresses {
    fn default() -> Self {
        Self { entries: HashMap::new(), look_at: LOOK_ABOVE }
    }
}

impl Addresses {
    /// What is known of a network.
    pub(super) fn get(&self, network: &Network) -> Entry {
        self.entries.get(network).copied().unwrap_or_default()
    }

    /// Changes what is known of a network.
    pub(super) fn change(&mut self, network: Network, now: u64, change: impl FnOnce(&mut Entry)) {
        if self.entries.len() >= self.look_at && !self.entries.contains_key(&network) {
            self.forget(now);
        }
        change(self.entries.entry(network).or_default());
    }

    /// A connection has ended.
    pub(super) fn left(&mut self, network: &Network, now: u64) {
        let Some(entry) = self.entries.get_mut(network) else { return };
        entry.open = entry.open.saturating_sub(1);
        if entry.open == 0 && entry.bucket.is_full(now) {
            self.entries.remove(network);
        }
    }

    /// Fills all buckets.
    pub(super) fn fill_buckets(&mut self) {
        self.entries.retain(|_, entry| entry.open > 0);
        self.entries.values_mut().for_each(|entry| entry.bucket = Bucket::default());
    }

    fn forget(&mut self, now: u64) {
        self.entries.retain(|_, entry| entry.open > 0 || !entry.bucket.is_full(now));
        let open = self.entries.values().filter(|entry| entry.open > 0).count();
        if self.entries.len() - open >= FORGOTTEN_ABOVE / 2 {
            self.entries.retain(|_, entry| entry.open > 0);
        }
        let more = self.entries.len().clamp(LOOK_ABOVE, FORGOTTEN_ABOVE / 2);
        self.look_at = self.entries.len() + more;
        if self.entries.capacity() > 4 * self.look_at {
            self.entries.shrink_to(self.look_at);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::AcceptRate, *};
    use std::{
        net::{IpAddr, Ipv6Addr},
        time::Duration,
    };

    fn network(number: u64) -> Network {
        Network::around(IpAddr::V6(Ipv6Addr::from_bits(u128::from(number) << 64)), 32, 64)
    }

    #[test]
    fn a_flood_of_networks_is_forgotten_and_those_with_open_connections_are_not() {
        let slow = AcceptRate::new(1, Duration::from_secs(3600));
        let mut addresses = Addresses::default();
        let take = |entry: &mut Entry| entry.bucket.take(&slow, 0);
        for number in 0..1000 {
            addresses.change(network(number), 0, |entry| entry.open += 1);
        }
        let mut most = 0;
        for number in 1000..400_000 {
            addresses.change(network(number), 0, take);
            most = most.max(addresses.len());
        }
        assert!(most <= FORGOTTEN_ABOVE + 1000, "{most}");
        assert!((0..1000).all(|number| addresses.get(&network(number)).open == 1));
        for number in 0..1000 {
            addresses.left(&network(number), 0);
        }
        assert_eq!(addresses.get(&network(7)).open, 0);
    }

    #[test]
    fn a_network_is_forgotten_with_its_last_connection_or_when_its_bucket_is_full() {
        let rate = AcceptRate::per_second(1);
        let mut addresses = Addresses::default();
        addresses.change(network(1), 0, |entry| entry.open = 2);
        addresses.left(&network(1), 0);
        assert_eq!(addresses.len(), 1);
        addresses.left(&network(1), 0);
        assert_eq!(addresses.len(), 0);
        for number in 0..1000 {
            let now = number * 2_000_000_000; // each comes when the bucket of the one before is full
            addresses.change(network(number), now, |entry| entry.bucket.take(&rate, now));
        }
        assert!(addresses.len() <= LOOK_ABOVE + 1, "{}", addresses.len());
    }
}
