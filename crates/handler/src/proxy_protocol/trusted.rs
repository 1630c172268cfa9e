//! Who may say whom it speaks for.

use netwright_core::Address;
use netwright_transport::{Network, NetworkError, Networks};
use std::{fmt, str::FromStr};

/// Proxies that are believed: those in these networks, and nobody else. Whoever may send a header can take any address, so everybody is trusted only by
/// the word: [`everyone`](Self::everyone).
///
/// ```
/// use netwright_handler::TrustedNetworks;
///
/// let trusted: TrustedNetworks = "10.0.0.0/8, 192.0.2.7".parse()?;
/// assert!(trusted.trusts(&"192.0.2.7:50000".parse()?));
/// assert!(!trusted.trusts(&"192.0.2.8:50000".parse()?));
/// assert!(!trusted.trusts(&"unix:@proxy".parse()?));
/// assert!("0.0.0.0/0".parse::<TrustedNetworks>().is_err()); // not like that
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedNetworks {
    networks: Networks,
    unix: bool,
    everyone: bool,
}

impl TrustedNetworks {
    /// These networks.
    ///
    /// # Errors
    /// One of them is everybody's.
    pub fn only(networks: Networks) -> Result<Self, TrustError> {
        if let Some(network) = networks.iter().find(|network| network.prefix() == 0) {
            return Err(TrustError::Everyone(*network));
        }
        Ok(Self { networks, unix: false, everyone: false })
    }

    /// This machine, by its loopback addresses. That is every program here.
    pub fn loopback() -> Self {
        let loopback = [([127, 0, 0, 0].into(), 8), (std::net::Ipv6Addr::LOCALHOST.into(), 128)];
        let networks =
            loopback.into_iter().filter_map(|(address, prefix)| Network::new(address, prefix).ok());
        Self { networks: networks.collect(), unix: false, everyone: false }
    }

    /// Whoever connects, by whatever means. Right where nobody but a proxy can reach the server, and in tests.
    pub fn everyone() -> Self {
        Self { networks: Networks::none(), unix: true, everyone: true }
    }

    /// Also those that come by a Unix socket: whoever may open its file.
    pub fn and_unix_sockets(mut self) -> Self {
        self.unix = true;
        self
    }

    /// Whether whoever is at this address is trusted.
    pub fn trusts(&self, peer: &Address) -> bool {
        self.everyone
            || match peer {
                Address::Ip(peer) => self.networks.contains(peer.ip()),
                Address::Unix(_) => self.unix,
                _ => false,
            }
    }

    /// The same of one whose address is not known.
    pub(super) fn trusts_any(&self, peer: Option<&Address>) -> bool {
        peer.map_or(self.everyone, |peer| self.trusts(peer))
    }
}

/// Networks with commas between them.
impl FromStr for TrustedNetworks {
    type Err = TrustError;

    fn from_str(text: &str) -> Result<Self, TrustError> {
        let networks: Networks = text.parse()?;
        if networks.is_empty() {
            return Err(TrustError::Nobody);
        }
        Self::only(networks)
    }
}

/// Why networks cannot be trusted.
///
/// ```
/// use netwright_handler::TrustedNetworks;
///
/// let error = "::/0".parse::<TrustedNetworks>().unwrap_err();
/// assert!(error.to_string().contains("TrustedNetworks::everyone()"), "{error}");
/// assert!("".parse::<TrustedNetworks>().is_err()); // nobody
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrustError {
    /// It is no network.
    Network(NetworkError),
    /// It is everybody's.
    Everyone(Network),
    /// There is none in a text that is to name some.
    Nobody,
}

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(error) => error.fmt(f),
            Self::Everyone(network) => {
                write!(f, "{network} is everybody: to trust everybody say `TrustedNetworks::everyone()`")
            }
            Self::Nobody => f.write_str("no network is named, so no proxy would be trusted"),
        }
    }
}

impl std::error::Error for TrustError {}

impl From<NetworkError> for TrustError {
    fn from(error: NetworkError) -> Self {
        Self::Network(error)
    }
}
