//! What a seed draws for a scenario.

use netwright_testkit::sim::{HostLimits, Link, Sim};
use std::time::Duration;

pub(crate) struct Draw<'a>(pub(crate) &'a Sim);

impl Draw<'_> {
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    pub(crate) fn one_in(&self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn one_of<T: Clone>(&self, some: &[T]) -> T {
        some[self.below(some.len() as u64) as usize].clone()
    }

    /// Up to so many, often much less.
    pub(crate) fn micros(&self, most: u64) -> Duration {
        let most = 1 + self.below(most);
        Duration::from_micros(self.below(most + 1))
    }

    pub(crate) fn millis(&self, most: u64) -> Duration {
        self.micros(most * 1_000)
    }

    /// A way that may be far, slow or bad.
    pub(crate) fn link(&self) -> Link {
        let mut link = Link::default();
        if self.one_in(2) {
            link = link.latency(self.millis(50)).jitter(self.millis(10));
        }
        if self.one_in(4) {
            link = link.loss(self.below(20) as f64 / 100.0);
        }
        if self.one_in(4) {
            link = link.rate(20_000 + self.below(1_000_000));
        }
        link
    }

    /// What a system has: sometimes very little.
    pub(crate) fn limits(&self, limits: &mut HostLimits) {
        let size = || self.one_of(&[500, 2_000, 16_000, 64 * 1024]);
        limits.send_buffer = size();
        limits.receive_buffer = size();
        limits.short_sends = self.one_of(&[0.0, 0.05, 0.5]);
        limits.short_receives = self.one_of(&[0.0, 0.05, 0.5]);
    }
}
