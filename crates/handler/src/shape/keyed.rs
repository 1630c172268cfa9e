//! A bucket for each key: client addresses, users, tenants.
//!
//! Always true:
//! 1. There are at most as many keys as allowed. Those beyond share one bucket, so a peer that makes up keys gains nothing.
//! 2. A key is forgotten only when nobody uses it and its bucket is full: who comes back earlier finds it as he left it.
//!
//! Nobody goes through all keys for that: whoever asks for one looks at two others, in turn. So as many as come are forgotten again.

use super::{
    ShapeFigures,
    bucket::{Bucket, Shared},
    rate::Rate,
};
use netwright_core::LocalLoop;
use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// So many keys are kept by default: some 10 MB.
const KEYS_MAX: usize = 65_536;
/// So many others are looked at by each who asks.
const LOOKS: usize = 2;

/// Buckets by key, all of the same [`Rate`]: what each client address or each user may pass, however many channels it has.
///
/// A clone is the same. Keys that nobody uses are forgotten as others come; at most 65,536 are kept, or [as many as are allowed](Self::with_keys_max), and those beyond
/// share one bucket.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::{Shape, shape::{Buckets, Rate}};
///
/// let users: Buckets<String> = Buckets::new("10k".parse::<Rate>()?);
/// let shape = Shape::bytes().read(users.of("alice".into())).write(users.of("alice".into()));
/// let channel = EmbeddedChannel::new(pipeline().filter(shape).handle(|_, _| {}));
/// assert_eq!(users.keys(), 1);
/// # Ok::<(), netwright_handler::shape::RateError>(())
/// ```
/// For client addresses there is [`Shape::read_per_address`](super::Shape::read_per_address).
pub struct Buckets<K>(Arc<Inner<K>>);

struct Inner<K> {
    map: Mutex<Map<K>>,
    keys_max: usize,
    /// For keys beyond those.
    others: Bucket,
}

struct Map<K> {
    buckets: HashMap<K, Arc<Shared>>,
    /// All keys, in the order in which they are looked at.
    round: VecDeque<K>,
    rate: Rate,
}

/// A bucket that was found by a key.
#[derive(Debug, Clone)]
pub struct KeyBucket(pub(super) Bucket);

impl KeyBucket {
    /// What has passed under this key, and what waits.
    pub fn figures(&self) -> ShapeFigures {
        self.0.figures()
    }
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    /// Buckets of this rate.
    pub fn new(rate: impl Into<Rate>) -> Self {
        Self::with_keys_max(rate, KEYS_MAX)
    }

    /// Buckets of this rate for so many keys. Those beyond share one bucket.
    pub fn with_keys_max(rate: impl Into<Rate>, keys_max: usize) -> Self {
        let rate = rate.into();
        let map = Map { buckets: HashMap::new(), round: VecDeque::new(), rate };
        Self(Arc::new(Inner { map: Mutex::new(map), keys_max, others: Bucket::new(rate) }))
    }

    /// The bucket of a key. Whoever holds it keeps the key from being forgotten.
    pub fn of(&self, key: K) -> KeyBucket {
        let now = LocalLoop::turn_time_here();
        let mut map = self.map();
        let forgotten = map.look_at_some(now);
        let bucket = match map.buckets.get(&key) {
            Some(known) => Bucket(known.clone()),
            None if map.buckets.len() < self.0.keys_max => {
                let bucket = Bucket::new(map.rate);
                map.round.push_back(key.clone());
                map.buckets.insert(key, bucket.0.clone());
                bucket
            }
            None => self.0.others.clone(),
        };
        drop(map);
        drop(forgotten); // keys are a user's
        KeyBucket(bucket)
    }

    /// Changes the rate of all, for those who wait as well.
    pub fn set(&self, rate: impl Into<Rate>) {
        let rate = rate.into();
        let mut map = self.map();
        map.rate = rate;
        let all: Vec<Bucket> = map.buckets.values().cloned().map(Bucket).collect();
        drop(map);
        all.iter().chain([&self.0.others]).for_each(|bucket| bucket.set(rate));
    }

    /// How many keys are known.
    pub fn keys(&self) -> usize {
        self.map().buckets.len()
    }

    /// What has passed, and what waits, of keys beyond those that may be kept.
    pub fn others(&self) -> ShapeFigures {
        self.0.others.figures()
    }

    fn map(&self) -> MutexGuard<'_, Map<K>> {
        self.0.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq + Clone> Map<K> {
    /// Forgets keys that nobody uses any more, of the next few.
    fn look_at_some(&mut self, now: Option<Instant>) -> Vec<(K, K)> {
        let mut forgotten = Vec::new();
        for _ in 0..LOOKS.min(self.round.len()) {
            let Some(key) = self.round.pop_front() else { break };
            let Some(shared) = self.buckets.get(&key) else { continue };
            // Without a loop nobody knows how late it is: what time fills may be full, and is kept.
            let idle =
                Arc::strong_count(shared) == 1 && now.is_some_and(|now| Bucket(shared.clone()).is_full(now));
            if !idle {
                self.round.push_back(key);
            } else if let Some((known, _)) = self.buckets.remove_entry(&key) {
                forgotten.push((known, key));
            }
        }
        forgotten
    }
}

impl<K> Clone for Buckets<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Buckets<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buckets").field("keys_max", &self.0.keys_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright_core::ManualLoop;
    use std::time::Duration;

    #[test]
    fn keys_that_nobody_uses_are_forgotten_when_their_debts_are_paid() {
        let mut manual = ManualLoop::new();
        let buckets = Buckets::new(Rate::try_from(100).unwrap());
        let debtor = manual.enter(|| {
            let debtor = buckets.of(0);
            debtor.0.reserve(LocalLoop::turn_time_here().unwrap(), 1_000).unwrap();
            debtor
        });
        drop(debtor);
        manual.enter(|| (1..100).for_each(|key| drop(buckets.of(key))));
        assert!((2..4).contains(&buckets.keys()), "{}", buckets.keys());
        assert!(buckets.map().buckets.contains_key(&0), "it owes ten seconds");
        manual.advance(Duration::from_secs(10));
        manual.enter(|| (1..100).for_each(|key| drop(buckets.of(key))));
        assert!(!buckets.map().buckets.contains_key(&0));
        let round = buckets.map().round.len();
        assert_eq!(round, buckets.keys());
    }

    #[test]
    fn keys_beyond_the_limit_share_one_bucket() {
        let buckets = Buckets::with_keys_max(Rate::try_from(100).unwrap(), 2);
        let kept: Vec<_> = (0..5).map(|key| buckets.of(key)).collect();
        assert_eq!(buckets.keys(), 2);
        assert!(Arc::ptr_eq(&kept[3].0.0, &kept[4].0.0) && !Arc::ptr_eq(&kept[1].0.0, &kept[2].0.0));
        buckets.set(Rate::unlimited());
        assert!(kept.iter().all(|bucket| bucket.0.rate().limit().is_none()));
        assert!(buckets.of(9).0.rate().limit().is_none());
    }
}
