//! A proxy as a URL: `socks5h://user:password@host:1080`.

use super::{Proxy, ProxyWhy, target::Target};
use crate::resolve::ResolveError;
use std::{error::Error, fmt, str::FromStr};

/// Why a text is no proxy, or no list of those that go without. It quotes nothing that may be a password.
///
/// ```
/// use netwright_transport::Proxy;
///
/// let error = Proxy::parse("ftp://proxy.example").unwrap_err();
/// assert!(error.to_string().contains("socks5h"), "{error}");
/// let error = Proxy::parse("http://ada:secret@:80").unwrap_err();
/// assert!(!error.to_string().contains("secret"), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadProxy {
    /// What was given, if it cannot have a password in it.
    text: Option<String>,
    why: String,
}

impl BadProxy {
    pub(super) fn new(text: &str, why: impl Into<String>) -> Self {
        // Wherever it stands, credentials are before it, and what is behind it may be a part of a password.
        let text = (!text.contains('@')).then(|| text.to_owned());
        Self { text, why: why.into() }
    }

    /// The name of the variable that it stands in, which is no secret.
    pub(super) fn in_variable(self, name: &str) -> Self {
        Self { text: Some(name.to_owned()), ..self }
    }
}

impl fmt::Display for BadProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => write!(f, "{text:?} is no proxy: {}", self.why),
            None => write!(f, "the text, which has credentials, is no proxy: {}", self.why),
        }
    }
}

impl Error for BadProxy {}

impl Proxy {
    /// A proxy as a URL: `scheme://user:password@host:port`. Without a scheme it is one of HTTP.
    ///
    /// | scheme | what it is | port, if there is none |
    /// | --- | --- | --- |
    /// | `http` | HTTP, by `CONNECT` | 80 |
    /// | `https` | the same in TLS; see [`Proxy::https`] | 443 |
    /// | `socks4`, `socks4a` | SOCKS 4, names looked up here; 4a, names looked up there | 1080 |
    /// | `socks5`, `socks5h` | SOCKS 5, names looked up here; names looked up there | 1080 |
    ///
    /// Bytes that mean something in a URL are written with percent signs in users and passwords.
    ///
    /// ```
    /// use netwright_transport::Proxy;
    ///
    /// let proxy = Proxy::parse("http://ada:a%40b@proxy.example")?;
    /// assert_eq!(proxy.to_string(), "http://proxy.example:80");
    /// assert_eq!(proxy.authorization().as_deref(), Some("Basic YWRhOmFAYg=="));
    /// # Ok::<(), netwright_transport::BadProxy>(())
    /// ```
    ///
    /// # Errors
    /// It is nothing of that kind.
    pub fn parse(url: &str) -> Result<Self, BadProxy> {
        let bad = |why: &str| BadProxy::new(url, why);
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (words, place) = match rest.rsplit_once('@') {
            Some((words, place)) => (Some(words), place),
            None => (None, rest),
        };
        let scheme = scheme.to_ascii_lowercase();
        let port = match scheme.as_str() {
            "http" => 80,
            "https" => 443,
            _ => 1080,
        };
        let address = address(place, port).map_err(|why| bad(&why))?;
        let proxy = match scheme.as_str() {
            "http" => Self::http(address),
            "socks4" => Self::socks4(address),
            "socks4a" => Self::socks4a(address),
            "socks5" => Self::socks5(address).local_names(),
            "socks5h" => Self::socks5(address),
            "https" => Self::https(address),
            _ => return Err(bad("its scheme is none of http, https, socks4, socks4a, socks5, socks5h")),
        };
        let Some(words) = words else { return Ok(proxy) };
        let (user, password) = words.split_once(':').unwrap_or((words, ""));
        match (decoded(user), decoded(password)) {
            (Some(user), Some(password)) => Ok(proxy.credentials(user, password)),
            _ => Err(bad("its credentials are not UTF-8 with percent signs")),
        }
    }
}

impl FromStr for Proxy {
    type Err = BadProxy;

    fn from_str(url: &str) -> Result<Self, BadProxy> {
        Self::parse(url)
    }
}

/// The address to connect to. Whatever a host is called, it is one, and never a name in this process.
fn address(place: &str, port: u16) -> Result<String, String> {
    let behind_host = place.rsplit_once(']').map_or(place, |(_, behind)| behind);
    let target = match behind_host.split_once(':') {
        Some((_, "")) => Target::parse(&format!("{place}{port}")),
        Some(_) => Target::parse(place),
        None => Target::parse(&format!("{place}:{port}")),
    };
    let target = target.map_err(|error| match error {
        Ok(ProxyWhy::Target(why)) => why.to_owned(),
        Err(ResolveError::Malformed { expected, .. }) => format!("expected {expected}"),
        _ => "expected host:port".to_owned(),
    })?;
    Ok(if target.is_name() { format!("tcp:{target}") } else { target.to_string() })
}

/// Bytes that are written by percent signs.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_the_protocol_who_looks_names_up_and_the_port() {
        for (url, shown, address) in [
            ("socks5h://127.0.0.1", "socks5h://127.0.0.1:1080", "127.0.0.1:1080"),
            ("SOCKS5://[::1]:9", "socks5://[::1]:9", "[::1]:9"),
            ("socks4://a.example:9/", "socks4://a.example:9", "tcp:a.example:9"),
            ("socks4a://local:9", "socks4a://local:9", "tcp:local:9"),
            ("proxy:3128", "http://proxy:3128", "tcp:proxy:3128"),
            ("http://proxy:", "http://proxy:80", "tcp:proxy:80"),
            ("http://u@[::1]", "http://[::1]:80", "[::1]:80"),
            ("https://proxy", "https://proxy:443", "tcp:proxy:443"),
            ("HTTPS://[::1]:9", "https://[::1]:9", "[::1]:9"),
        ] {
            let proxy = Proxy::parse(url).unwrap();
            assert_eq!((proxy.to_string().as_str(), proxy.address()), (shown, address), "{url}");
        }
    }

    #[test]
    fn credentials_are_what_is_before_the_last_at_sign_with_percent_signs_decoded() {
        let of = |url| Proxy::parse(url).unwrap();
        assert_eq!(
            of("socks5h://a%3Ab:c%25@127.0.0.1:1"),
            Proxy::socks5("127.0.0.1:1").credentials("a:b", "c%")
        );
        assert_eq!(of("socks5h://a:b@c@127.0.0.1:1"), Proxy::socks5("127.0.0.1:1").credentials("a", "b@c"));
        assert_eq!(of("socks5h://a@127.0.0.1:1"), Proxy::socks5("127.0.0.1:1").credentials("a", ""));
        for broken in ["%", "%4", "%zz", "%+1", "%ff"] {
            assert!(Proxy::parse(&format!("http://a:{broken}@b:1")).is_err(), "{broken}");
        }
    }

    #[test]
    fn what_is_no_proxy_is_refused_without_a_word_of_its_password() {
        for url in [
            "",
            "http://",
            "ftp://a:1",
            "https://a:1/path",
            "http://a:1/path",
            "http://a:1?x",
            "http://a:65536",
            "http://a b:1",
            "http://::1:1",
            "http://a\r\nb:1",
        ] {
            assert!(Proxy::parse(url).is_err(), "{url:?}");
            let secret = url.replace("://", "://ada:hunter2@");
            if secret != url {
                let error = Proxy::parse(&secret).unwrap_err();
                assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
            }
        }
        let error = Proxy::parse("http://ada:hun@ter2/x").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("ter2"), "{error:?}");
    }
}
