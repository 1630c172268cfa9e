//! Which proxies for which target.

use super::{BadProxy, Proxy, ProxyChain, Route, Secures, bypass::Bypass, target::Target};
use crate::bootstrap::ConnectError;
use std::fmt;

/// Through which proxies connections are made, and which go without.
///
/// ```
/// use netwright_transport::{Proxies, Proxy, Purpose};
///
/// let proxies = Proxies::from(Proxy::socks5("127.0.0.1:1080")).bypass("localhost, .intern.example, 10.0.0.0/8")?;
/// assert!(proxies.find(Purpose::Any, "example.org:443").is_some());
/// assert!(proxies.find(Purpose::Any, "db.intern.example:5432").is_none());
/// assert!(proxies.find(Purpose::Any, "10.1.2.3:80").is_none());
/// # Ok::<(), netwright_transport::BadProxy>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    pub(super) http: Option<ProxyChain>,
    pub(super) https: Option<ProxyChain>,
    pub(super) any: Option<ProxyChain>,
    pub(super) bypass: Bypass,
}

/// What a connection is made for: the environment knows proxies for each.
///
/// ```
/// use netwright_transport::{Proxies, Purpose};
///
/// let proxies = Proxies::from_vars(|name| (name == "https_proxy").then(|| "http://proxy:3128".to_owned()))?;
/// assert!(proxies.find(Purpose::Https, "example.org:443").is_some());
/// assert!(proxies.find(Purpose::Http, "example.org:80").is_none());
/// # Ok::<(), netwright_transport::BadProxy>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// `http` and `ws`.
    Http,
    /// `https` and `wss`.
    Https,
    /// Anything else.
    Any,
}

impl Proxies {
    /// None: every connection is made directly.
    pub fn none() -> Self {
        Self::default()
    }

    /// Targets that are connected to directly, in addition to those that were said before: entries with commas or blanks between them. An entry is
    /// a name, which means what is below it as well (with a dot in front only that), an address, a network (`10.0.0.0/8`), each
    /// of them with `:port` behind it or without, or `*` for everything. Names are compared as they are, and not looked up.
    ///
    /// # Errors
    /// An entry is none of these.
    pub fn bypass(mut self, entries: &str) -> Result<Self, BadProxy> {
        self.bypass.add(Bypass::parse(entries)?);
        Ok(self)
    }

    /// The proxies for a target, `host:port`. None: it is connected to directly.
    pub fn find(&self, purpose: Purpose, target: &str) -> Option<&ProxyChain> {
        let chain = match purpose {
            Purpose::Http => &self.http,
            Purpose::Https => &self.https,
            Purpose::Any => &self.any,
        };
        // What cannot be read as a target goes to the proxy, where it is refused: never past it by mistake.
        let chain = chain.as_ref()?;
        let direct = Target::parse(target).is_ok_and(|target| self.bypass.has(&target));
        (!direct).then_some(chain)
    }

    /// How to connect to a target, if not directly.
    pub(crate) fn route(&self, target: &str) -> Option<Route> {
        self.find(Purpose::Any, target).map(|chain| Route::new(chain.clone(), target))
    }

    /// Whether connections can be made through these at all.
    ///
    /// # Errors
    /// A chain is too long, or credentials cannot be said in the protocol of their proxy.
    pub fn check(&self) -> Result<(), ConnectError> {
        [&self.http, &self.https, &self.any].into_iter().flatten().try_for_each(ProxyChain::check)
    }

    /// Those among them that are spoken to in TLS.
    ///
    /// ```
    /// use netwright_transport::{Proxies, Proxy};
    ///
    /// let proxies = Proxies::from(Proxy::https("proxy.example:443"));
    /// assert!(proxies.in_tls().any(|proxy| proxy.tls_name() == Some("proxy.example")));
    /// assert_eq!(Proxies::from(Proxy::http("proxy.example:80")).in_tls().count(), 0);
    /// ```
    pub fn in_tls(&self) -> impl Iterator<Item = &Proxy> {
        let chains = [&self.http, &self.https, &self.any].into_iter().flatten();
        chains.flat_map(ProxyChain::hops).filter(|proxy| proxy.tls_name().is_some())
    }

    /// [`check`](Self::check), and whether somebody speaks TLS to those that are spoken to so.
    pub(crate) fn check_with<S>(&self, secures: Option<&Secures<S>>) -> Result<(), ConnectError> {
        self.check()?;
        self.any.iter().try_for_each(|chain| chain.check_tls(secures))
    }
}

impl From<ProxyChain> for Proxies {
    fn from(chain: ProxyChain) -> Self {
        let all = Some(chain);
        Self { http: all.clone(), https: all.clone(), any: all, bypass: Bypass::default() }
    }
}

impl From<&ProxyChain> for Proxies {
    fn from(chain: &ProxyChain) -> Self {
        chain.clone().into()
    }
}

impl From<Proxy> for Proxies {
    fn from(proxy: Proxy) -> Self {
        ProxyChain::from(proxy).into()
    }
}

/// A proxy if there is one; else every connection is made directly. For a setting of a program that may be absent:
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, Proxies, Proxy, Purpose};
///
/// let proxy: Option<Proxy> = std::env::args().nth(9).map(|url| url.parse()).transpose()?;
/// let client = Client::builder().through(proxy).pipeline(|| pipeline().handle(|_, _| {}))?;
///
/// let some = Proxies::from(Some(Proxy::socks5("127.0.0.1:1080")));
/// assert!(some.find(Purpose::Any, "example.org:443").is_some());
/// assert!(Proxies::from(None::<Proxy>).find(Purpose::Any, "example.org:443").is_none());
/// # drop(client);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<P: Into<Proxies>> From<Option<P>> for Proxies {
    fn from(proxies: Option<P>) -> Self {
        proxies.map_or_else(Self::none, Into::into)
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("http", &self.http)
            .field("https", &self.https)
            .field("any", &self.any)
            .field("bypass", &self.bypass)
            .finish()
    }
}
