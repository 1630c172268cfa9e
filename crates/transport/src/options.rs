//! Socket options: typed, with defaults, and checked as a whole before the first one is set.
//!
//! ```text
//!   ListenerOptions ─┐            1 check: platform, address family, range, combination ─▶ OptionError: nothing is set
//!                    ├─ apply ──▶ 2 set, one by one, through socket2 ──────────────────▶ OptionError: the system's
//!   StreamOptions ───┤                                                                     own refusal, with its name
//!   DatagramOptions ─┘
//! ```
//! Always true:
//! 1. An option that is not mentioned is not set: the system's default holds, except where the docs name ours.
//! 2. Every option has its setter on every platform, so that settings compile everywhere; where the platform does not
//!    have the option, `check` and `apply` refuse it. None is skipped silently.
//! 3. An error names the option as its setter is called, and the value.
//!
//! | file | what |
//! | --- | --- |
//! | `common` | what listeners and connections have in common |
//! | `listener`, `stream`, `datagram` | what only one of them has, and the defaults |
//! | `platform` | which platform has what |
//! | `error` | the refusals |
//!
//! Not here, because an event loop has no use for them: read and write timeouts of the socket (blocking sockets only),
//! and what concerns raw sockets. TCP fast open and deferred accept: socket2 does not have them. Multicast groups are
//! joined while a channel lives: [`DatagramSocket`](crate::DatagramSocket).

mod common;
mod datagram;
mod error;
mod listener;
mod platform;
mod stream;

pub use self::{
    datagram::DatagramOptions,
    error::{OptionError, OptionWhy},
    listener::{ListenerOptions, system_backlog},
    stream::StreamOptions,
};

use self::platform::Setter;
use socket2::{Domain, Socket};
use std::{fmt::Debug, io, time::Duration};

/// The setters of options, each kept under its own name: in the struct itself, or in a field of it.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($value:ident: $type:ty) $(in $field:ident)?;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $value: $type) -> Self {
            self$(.$field)?.$name = Some($value.into());
            self
        }
    )*};
}
use setters;

/// One walk over the options that are set: to ask whether each can be, or to set them.
#[derive(Clone, Copy)]
enum Pass<'a> {
    Check,
    /// A family that has none of them: the first that is set is refused.
    Refuse(Domain),
    Apply(&'a Socket),
}

impl Pass<'_> {
    fn option<T: Copy + Debug>(
        self,
        name: &'static str,
        value: Option<T>,
        set: Option<impl FnOnce(&Socket, T) -> io::Result<()>>,
    ) -> Result<(), OptionError> {
        let Some(value) = value else { return Ok(()) };
        if let Self::Refuse(domain) = self {
            return Err(OptionError::new(name, value, OptionWhy::Family(domain)));
        }
        let set = set.ok_or_else(|| OptionError::new(name, value, OptionWhy::Platform))?;
        match self {
            Self::Check | Self::Refuse(_) => Ok(()),
            Self::Apply(socket) => {
                set(socket, value).map_err(|error| OptionError::new(name, value, OptionWhy::System(error)))
            }
        }
    }

    /// An option that is called differently for IPv4 and IPv6.
    fn by_family<T: Copy + Debug>(
        self,
        name: &'static str,
        value: Option<T>,
        domain: Domain,
        (v4, v6): (Setter<T>, Setter<T>),
    ) -> Result<(), OptionError> {
        let Some(given) = value else { return Ok(()) };
        match domain {
            Domain::IPV4 => self.option(name, value, v4),
            Domain::IPV6 => self.option(name, value, v6),
            _ => Err(OptionError::new(name, given, OptionWhy::Family(domain))),
        }
    }
}

fn refuse_unless<T: Debug>(
    allowed: bool,
    name: &'static str,
    value: T,
    expected: &'static str,
) -> Result<(), OptionError> {
    if allowed { Ok(()) } else { Err(OptionError::new(name, value, OptionWhy::Range { expected })) }
}

/// An option that sockets of no other family have, whatever its value.
fn only_of<T: Debug>(
    domain: Domain,
    family: Domain,
    name: &'static str,
    value: Option<T>,
) -> Result<(), OptionError> {
    match value {
        Some(value) if domain != family => Err(OptionError::new(name, value, OptionWhy::Family(domain))),
        _ => Ok(()),
    }
}

/// Seconds are what the system takes; a fraction would be cut off without a word.
fn whole_seconds(
    name: &'static str,
    value: Option<Duration>,
    range: std::ops::RangeInclusive<u64>,
    expected: &'static str,
) -> Result<(), OptionError> {
    let Some(value) = value else { return Ok(()) };
    let whole = value.subsec_nanos() == 0 && range.contains(&value.as_secs());
    refuse_unless(whole, name, value, expected)
}

/// Options travel as a C `int`.
const INT_MAX: usize = i32::MAX as usize;
