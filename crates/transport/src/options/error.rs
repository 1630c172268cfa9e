//! Why an option was refused.

use socket2::Domain;
use std::{error::Error, fmt, io};

/// A socket option that was refused: which one, with which value, and why.
///
/// ```
/// use netwright_transport::ListenerOptions;
/// use socket2::Domain;
///
/// let error = ListenerOptions::new().only_v6(true).check(Domain::IPV4).unwrap_err();
/// assert_eq!(error.to_string(), "socket option only_v6 = true: an IPv4 socket does not have it");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct OptionError {
    /// The option, as its setter is called.
    pub option: &'static str,
    /// What it was given.
    pub value: String,
    /// Why it was refused.
    pub why: OptionWhy,
}

/// Why a socket option was refused.
///
/// ```
/// use netwright_transport::{ListenerOptions, options::OptionWhy};
/// use socket2::Domain;
///
/// let error = ListenerOptions::new().only_v6(true).check(Domain::IPV4).unwrap_err();
/// assert!(matches!(error.why, OptionWhy::Family(_)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum OptionWhy {
    /// This platform does not have it.
    Platform,
    /// Sockets of this address family do not have it.
    Family(Domain),
    /// The value cannot work.
    Range {
        /// What would do.
        expected: &'static str,
    },
    /// It makes no sense together with, or without, another option.
    Combination {
        /// What stands against it.
        with: &'static str,
    },
    /// The system refused it. Options before it have been set by then.
    System(io::Error),
}

impl OptionError {
    pub(super) fn new(option: &'static str, value: impl fmt::Debug, why: OptionWhy) -> Self {
        Self { option, value: format!("{value:?}"), why }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "socket option {} = {}: {}", self.option, self.value, self.why)
    }
}

impl fmt::Display for OptionWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Platform => f.write_str("this platform does not have it"),
            Self::Family(Domain::IPV4) => f.write_str("an IPv4 socket does not have it"),
            Self::Family(Domain::IPV6) => f.write_str("an IPv6 socket does not have it"),
            Self::Family(Domain::UNIX) => f.write_str("a Unix socket does not have it"),
            Self::Family(domain) => write!(f, "a socket of {domain:?} does not have it"),
            Self::Range { expected } => write!(f, "must be {expected}"),
            Self::Combination { with } => f.write_str(with),
            Self::System(error) => write!(f, "the system refused it: {error}"),
        }
    }
}

impl Error for OptionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.why {
            OptionWhy::System(error) => Some(error),
            _ => None,
        }
    }
}

/// Of the system's kind if the system refused, else `InvalidInput`, or `Unsupported` where it is the platform's fault.
impl From<OptionError> for io::Error {
    fn from(error: OptionError) -> Self {
        let kind = match &error.why {
            OptionWhy::System(error) => error.kind(),
            OptionWhy::Platform => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}
