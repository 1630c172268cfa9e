//! How many descriptors the process may have: every connection is one.
//!
//! ```text
//!   soft limit ≤ hard limit        many systems start processes with 1024 and allow a thousand times as many
//!        └── raise ───▶┘           any process may do that for itself
//! ```
//!
//! Of what there may be, servers leave some to files, clients and logs: a connection is refused when it would take one of the last
//! ([`Admission::descriptor_reserve`](crate::Admission::descriptor_reserve)).
//!
//! Low soft limits are kept for programs that use `select`, which breaks beyond 1024; an event loop does not.
//!
//! Outside Unix there is no such limit, and both functions answer `Unsupported`.

use std::io;

/// The process's limits on open descriptors; `u64::MAX` means none.
///
/// ```
/// # #[cfg(unix)] {
/// let limit = netwright_transport::descriptor_limit().unwrap();
/// println!("{} descriptors, may be raised to {}", limit.soft, limit.hard);
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DescriptorLimit {
    /// What holds now.
    pub soft: u64,
    /// What it may be raised to.
    pub hard: u64,
}

/// What [`raise_descriptor_limit`] did; `u64::MAX` means no limit.
///
/// ```
/// # #[cfg(unix)] {
/// let raised = netwright_transport::raise_descriptor_limit().unwrap();
/// assert!(raised.from <= raised.to && raised.to <= raised.hard);
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Raised {
    /// The soft limit before.
    pub from: u64,
    /// The soft limit now; equal to `from` if there was nothing to raise.
    pub to: u64,
    /// The hard limit, which stays.
    pub hard: u64,
}

/// The present limits.
///
/// ```
/// # #[cfg(unix)] {
/// let limit = netwright_transport::descriptor_limit().unwrap();
/// assert!(limit.soft <= limit.hard);
/// # }
/// ```
pub fn descriptor_limit() -> io::Result<DescriptorLimit> {
    sys::get()
}

/// Raises the soft limit to the hard one, for the whole process and those that it starts: call it once, early.
///
/// ```
/// # #[cfg(unix)] {
/// let raised = netwright_transport::raise_descriptor_limit().unwrap();
/// println!("descriptors: {} → {} of {}", raised.from, raised.to, raised.hard);
/// # }
/// ```
#[doc(alias = "ulimit")]
#[doc(alias = "max connections")]
pub fn raise_descriptor_limit() -> io::Result<Raised> {
    let DescriptorLimit { soft: from, hard } = sys::get()?;
    if from < hard {
        sys::raise(from, hard)?;
    }
    Ok(Raised { from, to: sys::get()?.soft, hard })
}

/// How many descriptors the connections of servers leave to the rest of the process, of this limit: a sixteenth, at most 1,024. Below 256 there is none
/// to spare, and what is done for want of descriptors has to do.
pub(crate) fn default_reserve(limit: u64) -> u64 {
    if limit < 256 { 0 } else { (limit / 16).min(1024) }
}

#[cfg(unix)]
mod sys {
    use super::DescriptorLimit;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::io;

    pub(super) fn get() -> io::Result<DescriptorLimit> {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        Ok(DescriptorLimit { soft: current.unwrap_or(u64::MAX), hard: maximum.unwrap_or(u64::MAX) })
    }

    pub(super) fn raise(soft: u64, hard: u64) -> io::Result<()> {
        match set(hard, hard) {
            // macOS calls its hard limit infinite and takes no more than OPEN_MAX for the soft one.
            Err(_) if cfg!(target_vendor = "apple") && hard > 10_240 => set(soft.max(10_240), hard),
            result => result,
        }
    }

    pub(super) fn set(soft: u64, hard: u64) -> io::Result<()> {
        let finite = |limit| if limit == u64::MAX { None } else { Some(limit) };
        Ok(setrlimit(Resource::Nofile, Rlimit { current: finite(soft), maximum: finite(hard) })?)
    }
}

#[cfg(not(unix))]
mod sys {
    use super::DescriptorLimit;
    use std::io;

    pub(super) fn get() -> io::Result<DescriptorLimit> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this platform has no limit on descriptors"))
    }

    pub(super) fn raise(_: u64, _: u64) -> io::Result<()> {
        get().map(drop)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_sixteenth_is_left_to_the_process_but_no_more_than_a_thousand() {
        let reserves = [0, 64, 255, 256, 1024, 65_536, u64::MAX].map(default_reserve);
        assert_eq!(reserves, [0, 0, 0, 16, 64, 1024, 1024]);
    }

    // One test, because the limit belongs to the process.
    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one_and_stays_there() {
        let before = descriptor_limit().unwrap();
        let lower = before.soft - 1; // by one, so that other tests do not notice
        sys::set(lower, before.hard).unwrap();
        let raised = raise_descriptor_limit().unwrap();
        assert_eq!((raised.from, raised.hard), (lower, before.hard));
        assert!(raised.to > lower);
        if !cfg!(target_vendor = "apple") {
            assert_eq!(raised.to, before.hard);
        }
        assert_eq!(descriptor_limit().unwrap(), DescriptorLimit { soft: raised.to, hard: before.hard });
        let again = raise_descriptor_limit().unwrap();
        assert_eq!((again.from, again.to), (raised.to, raised.to), "nothing left to raise");
    }
}
