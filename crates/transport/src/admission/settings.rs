//! The numbers of an [`Admission`](super::Admission), which may change while a server runs.

use super::AcceptRate;

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) per_address: Option<usize>,
    /// How many bits of an address count, of IPv4 and of IPv6.
    pub(super) prefixes: (u8, u8),
    pub(super) rate: Option<AcceptRate>,
    pub(super) rate_per_address: Option<AcceptRate>,
    pub(super) pace: Option<AcceptRate>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { per_address: None, prefixes: (32, 64), rate: None, rate_per_address: None, pace: None }
    }
}
