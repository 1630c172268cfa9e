//! Why there is no ring, in words that say what to do about it.

use std::{error::Error, fmt, io};

/// Why a ring could not be set up: what was tried, what the system said, and what helps. Found inside the [`io::Error`] of
/// [`UringSeed::new`](super::UringSeed::new).
///
/// ```
/// use netwright_transport::uring::{UringError, UringSeed};
///
/// if let Err(error) = UringSeed::new()
///     && let Some(why) = error.get_ref().and_then(|inner| inner.downcast_ref::<UringError>())
/// {
///     println!("{}: {}", why.step, why.advice());
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UringError {
    /// What was tried.
    pub step: &'static str,
    /// What the system said.
    pub code: i32,
}

impl UringError {
    pub(super) fn at(step: &'static str, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), Self { step, code: error.raw_os_error().unwrap_or(0) })
    }

    /// What to change.
    pub fn advice(&self) -> &'static str {
        match self.code {
            libc::EPERM | libc::EACCES => {
                "io_uring is forbidden here: a seccomp filter, as in most containers, or the sysctl kernel.io_uring_disabled"
            }
            libc::ENOSYS => "this kernel has no io_uring, or hides it",
            libc::ENOMEM => "the memory that may be locked is used up: raise RLIMIT_MEMLOCK (ulimit -l)",
            libc::EMFILE | libc::ENFILE => "no descriptor is left: raise RLIMIT_NOFILE (ulimit -n)",
            libc::EINVAL => "this kernel is too old: rings of buffers and multishot receives need Linux 6.0",
            _ => "use the readiness backend",
        }
    }
}

impl fmt::Display for UringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = io::Error::from_raw_os_error(self.code);
        write!(f, "io_uring: {} failed: {said}; {}", self.step, self.advice())
    }
}

impl Error for UringError {}
