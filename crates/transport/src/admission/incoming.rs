//! A connection before it has a channel, and what is said of it.

#[cfg(unix)]
use crate::socket::unix::PeerCredentials;
use netwright_core::Address;
use std::{borrow::Cow, pin::Pin, sync::Arc, time::Duration};

/// A connection that has come and waits for a [`Verdict`]: nothing was read from it, and no loop has been asked to host it.
///
/// ```
/// use netwright_transport::{Incoming, Verdict};
///
/// fn only_from_high_ports(incoming: &Incoming) -> Verdict {
///     match incoming.peer.ip() {
///         Some(peer) if peer.port() < 1024 => Verdict::refuse("a port that only root may take"),
///         _ => Verdict::Admit,
///     }
/// }
/// # let _ = only_from_high_ports;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Incoming {
    /// Where the server listens that it came to.
    pub at: Address,
    /// Where it comes from.
    pub peer: Address,
    /// Who is behind it, if it comes by a Unix socket and the system tells.
    #[cfg(unix)]
    pub credentials: Option<PeerCredentials>,
}

/// What becomes of a connection that has come.
///
/// ```
/// use netwright_transport::Verdict;
///
/// assert_eq!(Verdict::from(true), Verdict::Admit);
/// assert_eq!(Verdict::refuse("not today"), Verdict::Refuse("not today".into()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A loop is asked to host it.
    Admit,
    /// It is refused, for a reason that logs and observers are told.
    Refuse(Cow<'static, str>),
}

impl Verdict {
    /// It is refused, for this reason.
    pub fn refuse(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Refuse(reason.into())
    }
}

impl From<bool> for Verdict {
    fn from(admit: bool) -> Self {
        if admit { Self::Admit } else { Self::refuse("a function of the server's said no") }
    }
}

/// What the user says at once.
pub(super) type Judge = Arc<dyn Fn(&Incoming) -> Verdict + Send + Sync>;

/// What the user says later.
pub(crate) type Deciding = Pin<Box<dyn Future<Output = Verdict>>>;

/// Who says something later, and until when.
#[derive(Clone)]
pub(crate) struct Decider {
    pub(crate) deadline: Duration,
    pub(crate) ask: Arc<dyn Fn(Incoming) -> Deciding + Send + Sync>,
}
