//! One proxy: its protocol, its address, its credentials.

use super::{ProxyChain, connect::basic, target::Target};
use crate::bootstrap::ConnectError;
use std::{fmt, sync::Arc};

/// A proxy: whom to ask for a connection instead of making it oneself.
///
/// ```
/// use netwright_transport::Proxy;
///
/// let proxy = Proxy::socks5("127.0.0.1:1080").credentials("ada", "secret");
/// assert_eq!(proxy.to_string(), "socks5h://127.0.0.1:1080"); // credentials are never shown
/// assert_eq!(proxy, Proxy::parse("socks5h://ada:secret@127.0.0.1:1080")?);
/// # Ok::<(), netwright_transport::BadProxy>(())
/// ```
///
/// Names of targets go to the proxy as they are, and it looks them up; see [`local_names`](Self::local_names).
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub(super) protocol: Protocol,
    pub(super) address: Arc<str>,
    pub(super) credentials: Option<Arc<Credentials>>,
    /// Whether names are looked up here and not by the proxy.
    pub(super) local_names: bool,
    /// By which name it shows itself, if it is spoken to in TLS. Empty: nobody has said so.
    tls: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Socks4,
    Socks5,
}

/// Without `Debug`: nobody shows them by mistake.
#[derive(PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

impl Proxy {
    fn new(protocol: Protocol, address: impl ToString, local_names: bool) -> Self {
        Self { protocol, address: address.to_string().into(), credentials: None, local_names, tls: None }
    }

    /// A proxy that speaks HTTP and is asked by `CONNECT`. The address is one that a [`Client`](crate::Client) can connect to, mostly `host:port`.
    pub fn http(address: impl ToString) -> Self {
        Self::new(Protocol::Http, address, false)
    }

    /// One that speaks HTTP in TLS (`https://`). Who speaks TLS to it is said by [`ClientBuilder::proxy_tls`](crate::ClientBuilder::proxy_tls), or is
    /// the connector of clients that have one. It has to show itself by the name in its address, or by [`server_name`](Self::server_name).
    ///
    /// ```
    /// use netwright_transport::Proxy;
    ///
    /// let proxy = Proxy::https("proxy.example:443");
    /// assert_eq!((proxy.to_string().as_str(), proxy.tls_name()), ("https://proxy.example:443", Some("proxy.example")));
    /// assert_eq!(Proxy::https("10.0.0.1:443").server_name("proxy.example").tls_name(), Some("proxy.example"));
    /// assert_eq!(Proxy::http("proxy.example:80").tls_name(), None);
    /// ```
    pub fn https(address: impl ToString) -> Self {
        let proxy = Self::http(address);
        let name =
            Target::parse(&proxy.address).map_or_else(|_| String::new(), |target| target.host.to_string());
        Self { tls: Some(name.into()), ..proxy }
    }

    /// A proxy of SOCKS version 4, which knows no names: they are looked up here, and only their IPv4 addresses are asked for.
    pub fn socks4(address: impl ToString) -> Self {
        Self::new(Protocol::Socks4, address, true)
    }

    /// A proxy of SOCKS version 4a, which looks names up itself. Addresses are IPv4.
    pub fn socks4a(address: impl ToString) -> Self {
        Self::new(Protocol::Socks4, address, false)
    }

    /// A proxy of SOCKS version 5.
    pub fn socks5(address: impl ToString) -> Self {
        Self::new(Protocol::Socks5, address, false)
    }

    /// Who we are: by `Basic` for HTTP, by user name and password (RFC 1929) for SOCKS 5. SOCKS 4 has no passwords and takes a
    /// user alone.
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        let credentials = Credentials { user: user.into(), password: password.into() };
        self.credentials = Some(Arc::new(credentials));
        self
    }

    /// Looks names of targets up here, by the client's resolver, and asks the proxy for the first of their addresses. For proxies without a
    /// name server; whoever sees our lookups learns where we connect to.
    pub fn local_names(mut self) -> Self {
        self.local_names = true;
        self
    }

    /// By which name a proxy that is spoken to in TLS has to show itself, if it is not the one in its address. Others show themselves by none.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.tls = self.tls.map(|_| name.into().into());
        self
    }

    /// By which name it has to show itself. None: it is not spoken to in TLS.
    pub fn tls_name(&self) -> Option<&str> {
        self.tls.as_deref()
    }

    /// Another proxy behind this one: this one is asked to connect to that one.
    pub fn then(self, next: Proxy) -> ProxyChain {
        ProxyChain::from(self).then(next)
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether it is asked in HTTP, so that plain requests can be put to it without a tunnel.
    pub fn is_http(&self) -> bool {
        self.protocol == Protocol::Http
    }

    /// The value of `Proxy-Authorization`, if there are credentials and this is a proxy of HTTP. It is a secret.
    pub fn authorization(&self) -> Option<String> {
        let credentials = self.credentials.as_ref().filter(|_| self.is_http())?;
        Some(basic(credentials))
    }

    /// Whether its credentials can be said in its protocol.
    pub(super) fn check(&self) -> Result<(), ConnectError> {
        let bad = |why: &str| Err(ConnectError::Setup(format!("the credentials for {self}: {why}")));
        let Some(credentials) = &self.credentials else { return Ok(()) };
        let Credentials { user, password } = &**credentials;
        let longest = user.len().max(password.len());
        if longest > CREDENTIAL_MAX {
            return bad(&format!("one has {longest} bytes, and the limit is {CREDENTIAL_MAX}"));
        }
        match self.protocol {
            Protocol::Http if user.contains(':') => bad("a user for `Basic` has no colon"),
            Protocol::Http if user.chars().chain(password.chars()).any(char::is_control) => {
                bad("`Basic` takes no control characters")
            }
            Protocol::Socks4 if !password.is_empty() => bad("SOCKS 4 has no passwords"),
            Protocol::Socks4 if user.contains('\0') => bad("a user for SOCKS 4 has no NUL"),
            Protocol::Socks5 if user.is_empty() => bad("SOCKS 5 has no empty user"),
            _ => Ok(()),
        }
    }
}

/// The longest user, and the longest password: what SOCKS 5 has a byte for.
const CREDENTIAL_MAX: usize = 255;

/// As a URL, without credentials.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.protocol, self.local_names) {
            (Protocol::Http, _) if self.tls.is_some() => "https",
            (Protocol::Http, _) => "http",
            (Protocol::Socks4, true) => "socks4",
            (Protocol::Socks4, false) => "socks4a",
            (Protocol::Socks5, true) => "socks5",
            (Protocol::Socks5, false) => "socks5h",
        };
        write!(f, "{scheme}://{}", self.address.strip_prefix("tcp:").unwrap_or(&self.address))
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self}")?;
        if self.credentials.is_some() {
            f.write_str(", with credentials")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_shown_nowhere() {
        for proxy in [Proxy::http("a:1"), Proxy::socks4("a:1"), Proxy::socks5("a:1")] {
            let proxy = proxy.credentials("ada\n", "hunter2");
            let chain = Proxy::http("b:1").then(proxy.clone());
            for shown in [format!("{proxy} {proxy:?} {proxy:#?}"), format!("{chain} {chain:?} {chain:#?}")] {
                assert!(!shown.contains("ada") && !shown.contains("hunter2"), "{shown}");
            }
            if let Err(error) = proxy.check() {
                let shown = format!("{error} {error:?}");
                assert!(!shown.contains("ada") && !shown.contains("hunter2"), "{shown}");
            }
        }
    }

    #[test]
    fn credentials_that_a_protocol_cannot_say_are_refused_before_anybody_connects() {
        let long = "x".repeat(CREDENTIAL_MAX + 1);
        for (proxy, user, password, why) in [
            (Proxy::http("a:1"), "a:b", "c", "colon"),
            (Proxy::http("a:1"), "a", "b\r\nX: y", "control"),
            (Proxy::socks4("a:1"), "a", "b", "no passwords"),
            (Proxy::socks4("a:1"), "a\0b", "", "NUL"),
            (Proxy::socks5("a:1"), "", "b", "empty user"),
            (Proxy::socks5("a:1"), "a", long.as_str(), "256 bytes, and the limit is 255"),
            (Proxy::http("a:1"), long.as_str(), "", "256 bytes, and the limit is 255"),
        ] {
            let error = proxy.credentials(user, password).check().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        Proxy::socks5("a:1").credentials("a", &long[1..]).check().unwrap();
        Proxy::socks4a("a:1").credentials("a", "").check().unwrap();
    }
}
