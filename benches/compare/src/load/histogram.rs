//! Latencies, counted in places that grow with the value: within one in 128 of the truth, from a nanosecond to centuries.
//!
//! ```text
//!   0 … 255      a place for each nanosecond
//!   256 … 511    a place for two, 512 … 1023 for four, …: 128 places for each doubling
//! ```

const BITS: u32 = 7;
const HALF: usize = 1 << BITS;
const PLACES: usize = (64 - BITS as usize + 1) * HALF;

#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; PLACES], total: 0 }
    }
}

impl Histogram {
    #[inline]
    pub(crate) fn add(&mut self, ns: u64) {
        self.counts[place(ns)] += 1;
        self.total += 1;
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The latency that this share of all requests did not exceed, in microseconds.
    pub(crate) fn us_at(&self, share: f64) -> f64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return middle(place) / 1e3;
            }
        }
        0.0
    }
}

#[inline]
fn place(ns: u64) -> usize {
    if ns < 2 * HALF as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - BITS;
    ((shift as usize) << BITS) + (ns >> shift) as usize
}

fn middle(place: usize) -> f64 {
    if place < 2 * HALF {
        return place as f64;
    }
    let shift = (place >> BITS) - 1;
    let least = (HALF + place % HALF) as f64;
    (least + 0.5) * (shift as f64).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_found_within_one_in_128() {
        for ns in [1, 255, 256, 257, 511, 512, 1000, 123_456, 9_876_543_210, u64::MAX / 3] {
            let found = middle(place(ns));
            assert!((found - ns as f64).abs() <= ns as f64 / 128.0, "{ns}: {found}");
        }
        assert!(place(u64::MAX) < PLACES);
    }

    #[test]
    fn places_follow_one_another_without_a_gap() {
        for shift in 8..63 {
            assert_eq!(place(1 << shift), place((1 << shift) - 1) + 1, "at 2^{shift}");
        }
    }

    #[test]
    fn a_share_of_all_requests_did_not_exceed_its_quantile() {
        let mut all = Histogram::default();
        (1..=100).for_each(|us| all.add(us * 1000));
        assert!((all.us_at(0.5) - 50.0).abs() < 0.5);
        assert!((all.us_at(0.99) - 99.0).abs() < 1.0);
        assert!((all.us_at(1.0) - 100.0).abs() < 1.0);
        assert_eq!(Histogram::default().us_at(0.5), 0.0);
    }
}
