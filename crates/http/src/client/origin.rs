//! Whom a connection leads to: the scheme, the host and the port of a URL.

use super::WebClientError;
use crate::authority::{BadAuthority, HostAndPort};
use http::Uri;

/// Whom a connection leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    pub(super) tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

impl Origin {
    pub(super) fn of(uri: &Uri) -> Result<Self, WebClientError> {
        let bad = |why| WebClientError::Url { url: uri.to_string(), why };
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) => return Err(bad("only http and https are known")),
            None => return Err(bad("it has no scheme")),
        };
        let authority = uri.authority().ok_or_else(|| bad("it has no host"))?.as_str();
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let parsed = HostAndPort::parse(authority).map_err(|error| refused(error, authority, bad))?;
        let port = parsed.port.unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host: parsed.host.to_ascii_lowercase(), port })
    }

    /// Where it is, for a resolver.
    pub(super) fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// Whether two URLs have the same scheme, host and port. What has none of these is like nothing.
pub(super) fn same_origin(one: &Uri, other: &Uri) -> bool {
    Origin::of(one).is_ok_and(|one| Origin::of(other).is_ok_and(|other| one == other))
}

fn refused(
    error: BadAuthority,
    authority: &str,
    bad: impl FnOnce(&'static str) -> WebClientError,
) -> WebClientError {
    match error {
        BadAuthority::Port => {
            let behind = authority.rsplit_once(']').map_or(authority, |(_, behind)| behind);
            let port = behind.split_once(':').map_or(behind, |(_, port)| port).to_owned();
            WebClientError::Port { port, authority: authority.to_owned() }
        }
        BadAuthority::NoHost => bad("it has no host"),
        BadAuthority::Address => bad("what is in brackets is not an address"),
        BadAuthority::Host | BadAuthority::User => bad("its host has a byte that no host has"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Result<Origin, WebClientError> {
        Origin::of(&url.parse().unwrap())
    }

    #[test]
    fn ports_are_those_of_the_scheme_unless_one_is_said() {
        for (url, address) in [
            ("http://a/", "a:80"),
            ("https://A.example/", "a.example:443"),
            ("http://a:/", "a:80"),
            ("https://a:65535/", "a:65535"),
            ("http://user:secret@a:81/", "a:81"),
            ("http://[::1]:8080", "[::1]:8080"),
            ("https://[::1]?x", "[::1]:443"),
        ] {
            assert_eq!(of(url).unwrap().address(), address, "{url}");
        }
    }

    #[test]
    fn a_port_that_is_none_is_like_no_origin_and_its_own_error() {
        for port in ["65536", "99999", "184467440737095516160"] {
            let url = format!("http://a:{port}/");
            let error = of(&url).unwrap_err();
            assert!(matches!(&error, WebClientError::Port { port: said, .. } if said == port), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(&format!("a:{port}")) && text.contains("65535"), "{text}");
            let uri: Uri = url.parse().unwrap();
            assert!(!same_origin(&uri, &"http://a/".parse().unwrap()), "{url}");
            assert!(!same_origin(&uri, &uri), "{url}");
        }
    }
}
