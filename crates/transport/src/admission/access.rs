//! Who may come, by networks.
//!
//! ```text
//!   address ── in a denied network? ──▶ no
//!       └───── are there allowed networks, and it is in none? ──▶ no
//!                   └──▶ yes
//! ```

use super::{Network, NetworkError, Networks};
use netwright_core::Address;
use std::{
    fmt,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

/// Networks that are allowed and networks that are denied. What is denied stays denied, also within an allowed network; where no network was
/// allowed, everybody else is. Addresses that are on no network, such as those of Unix sockets, are always let pass.
///
/// ```
/// use netwright_transport::{AccessDenied, AccessList};
///
/// let list = AccessList::new().allow("10.0.0.0/8")?.deny("10.6.6.0/24")?;
/// assert!(list.judge_ip("10.1.2.3".parse()?).is_ok());
/// assert!(matches!(list.judge_ip("10.6.6.6".parse()?), Err(AccessDenied::Denied)));
/// assert!(matches!(list.judge_ip("192.0.2.1".parse()?), Err(AccessDenied::NotAllowed)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[doc(alias = "firewall")]
#[doc(alias = "IpSubnetFilter")]
pub struct AccessList {
    /// None: whoever is not denied.
    allowed: Option<Networks>,
    denied: Networks,
}

impl AccessList {
    /// Everybody may come.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows a network, and from then on nobody who is in no allowed network.
    ///
    /// # Errors
    /// It is no network.
    pub fn allow<N: TryInto<Network>>(mut self, network: N) -> Result<Self, NetworkError>
    where
        NetworkError: From<N::Error>,
    {
        self.allowed.get_or_insert_default().extend([network.try_into()?]);
        Ok(self)
    }

    /// Denies a network, whatever is allowed.
    ///
    /// # Errors
    /// It is no network.
    pub fn deny<N: TryInto<Network>>(mut self, network: N) -> Result<Self, NetworkError>
    where
        NetworkError: From<N::Error>,
    {
        self.denied.extend([network.try_into()?]);
        Ok(self)
    }

    /// Allows these networks and no others. With none among them nobody is allowed.
    pub fn allow_only(mut self, networks: Networks) -> Self {
        self.allowed = Some(networks);
        self
    }

    /// Denies these networks beside those that are denied.
    pub fn deny_all(mut self, networks: &Networks) -> Self {
        self.denied.extend(networks.iter().copied());
        self
    }

    /// Whether an address of any kind may come.
    ///
    /// # Errors
    /// It may not, and why.
    pub fn judge(&self, address: &Address) -> Result<(), AccessDenied> {
        address.ip().map_or(Ok(()), |address| self.judge_ip(address.ip()))
    }

    /// Whether this address may come.
    ///
    /// # Errors
    /// It may not, and why.
    pub fn judge_ip(&self, address: IpAddr) -> Result<(), AccessDenied> {
        let judges = self.allowed.is_some() || !self.denied.is_empty();
        if judges && address.is_unspecified() {
            return Err(AccessDenied::Unknown);
        }
        if self.denied.contains(address) {
            return Err(AccessDenied::Denied);
        }
        match &self.allowed {
            Some(allowed) if !allowed.contains(address) => Err(AccessDenied::NotAllowed),
            _ => Ok(()),
        }
    }
}

/// Why an address may not come.
///
/// ```
/// use netwright_transport::AccessDenied;
///
/// assert_eq!(AccessDenied::Denied.to_string(), "its network is denied");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessDenied {
    /// It is in a network that is denied.
    Denied,
    /// There are networks that are allowed, and it is in none of them.
    NotAllowed,
    /// There are networks that are allowed or denied, and nobody knows where it is: it was gone before it could be asked.
    Unknown,
}

impl fmt::Display for AccessDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Denied => "its network is denied",
            Self::Unknown => "its network is not known",
            Self::NotAllowed => "it is in none of the networks that are allowed",
        })
    }
}

impl std::error::Error for AccessDenied {}

/// An [`AccessList`] that can be exchanged for another one while it is in use. Cheap to clone; clones are the same.
///
/// ```
/// use netwright_transport::{AccessList, LiveAccessList};
///
/// let live = LiveAccessList::new(AccessList::new());
/// let held_by_a_server = live.clone();
/// live.replace(AccessList::new().deny("192.0.2.0/24")?);
/// assert!(held_by_a_server.current().judge_ip("192.0.2.1".parse()?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct LiveAccessList {
    list: Arc<RwLock<Arc<AccessList>>>,
}

impl LiveAccessList {
    /// With this list to begin with.
    pub fn new(list: AccessList) -> Self {
        Self { list: Arc::new(RwLock::new(Arc::new(list))) }
    }

    /// The list as it is now.
    pub fn current(&self) -> Arc<AccessList> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on this list holds. Who has come before stays.
    pub fn replace(&self, list: AccessList) {
        let before =
            std::mem::replace(&mut *self.list.write().unwrap_or_else(PoisonError::into_inner), list.into());
        drop(before); // outside of the lock
    }

    /// Whether an address may come by the list as it is now.
    ///
    /// # Errors
    /// It may not, and why.
    pub fn judge(&self, address: &Address) -> Result<(), AccessDenied> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).judge(address)
    }
}

impl From<AccessList> for LiveAccessList {
    fn from(list: AccessList) -> Self {
        Self::new(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_denied_is_denied_within_an_allowed_network_too_and_who_is_on_no_network_may_come() {
        let list = AccessList::new().allow("10.0.0.0/8").unwrap().deny("10.1.0.0/16").unwrap();
        let judge = |address: &str| list.judge(&address.parse().unwrap());
        assert_eq!(judge("10.2.0.1:1"), Ok(()));
        assert_eq!(judge("[::ffff:10.2.0.1]:1"), Ok(()));
        assert_eq!(judge("10.1.0.1:1"), Err(AccessDenied::Denied));
        assert_eq!(judge("[::ffff:10.1.0.1]:1"), Err(AccessDenied::Denied));
        assert_eq!(judge("11.0.0.1:1"), Err(AccessDenied::NotAllowed));
        assert_eq!(judge("[::1]:1"), Err(AccessDenied::NotAllowed));
        assert_eq!(judge("0.0.0.0:0"), Err(AccessDenied::Unknown));
        assert_eq!(AccessList::new().judge_ip("0.0.0.0".parse().unwrap()), Ok(()));
        assert_eq!(judge("unix:/run/app.sock"), Ok(()));
        assert_eq!(judge("local:app"), Ok(()));
    }

    #[test]
    fn where_only_no_network_is_allowed_nobody_is() {
        let list = AccessList::new().allow_only(Networks::none());
        assert_eq!(list.judge_ip("127.0.0.1".parse().unwrap()), Err(AccessDenied::NotAllowed));
    }
}
