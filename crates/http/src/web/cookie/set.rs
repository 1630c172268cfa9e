//! What a reply asks a browser to keep.

use crate::{calendar::date_of, grammar::is_token, web::percent::percent_encode};
use http::HeaderValue;
use std::{
    error::Error,
    fmt,
    time::{Duration, SystemTime},
};

/// A name and a value together may have so many bytes: browsers drop what is longer.
const COOKIE_BYTES_MAX: usize = 4096;
/// A path or a domain may have so many.
const ATTRIBUTE_BYTES_MAX: usize = 1024;

/// Which requests from other sites bring the cookie along.
///
/// ```
/// use netwright_http::web::{SameSite, SetCookie};
///
/// let cookie = SetCookie::new("session", "abc").same_site(SameSite::Strict);
/// println!("{cookie:?}");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameSite {
    /// None.
    Strict,
    /// Those by which a user comes to us, through a link.
    Lax,
    /// All. Browsers want it to be [`secure`](SetCookie::secure) then.
    None,
}

/// A cookie for a browser to keep: the value of a `Set-Cookie` header.
///
/// ```
/// use netwright_http::web::{SameSite, SetCookie};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cookie = SetCookie::new("__Host-session", "abc")
///     .path("/")
///     .max_age(Duration::from_secs(3600))
///     .same_site(SameSite::Lax)
///     .http_only()
///     .secure()
///     .to_header()?;
/// assert_eq!(cookie, "__Host-session=abc; Path=/; Max-Age=3600; SameSite=Lax; Secure; HttpOnly");
///
/// // What could break out of its place, and what browsers would drop without a word, is an error.
/// assert!(SetCookie::new("a", "b; Domain=example.org").to_header().is_err());
/// assert!(SetCookie::new("__Host-session", "abc").to_header().is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct SetCookie {
    name: String,
    value: String,
    path: Option<String>,
    domain: Option<String>,
    max_age: Option<Duration>,
    expires: Option<SystemTime>,
    same_site: Option<SameSite>,
    secure: bool,
    http_only: bool,
    partitioned: bool,
}

impl SetCookie {
    /// A cookie that ends with the browser's session, for the directory of the page that sets it.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            path: None,
            domain: None,
            max_age: None,
            expires: None,
            same_site: None,
            secure: false,
            http_only: false,
            partitioned: false,
        }
    }

    /// A cookie whose value may be any text: it is percent-encoded, and comes back so.
    pub fn encoded(name: impl Into<String>, value: &str) -> Self {
        Self::new(name, percent_encode(value))
    }

    /// Makes browsers forget a cookie. Path and domain have to be those with which it was set.
    pub fn removal(name: impl Into<String>) -> Self {
        Self::new(name, "").max_age(Duration::ZERO).expires(SystemTime::UNIX_EPOCH)
    }

    /// For which paths it is.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// For which domain, with all below it. Without one it is for the host that sets it alone.
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }

    /// How long it is kept; full seconds count.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    /// Until when it is kept, for those who do not know [`max_age`](Self::max_age).
    pub fn expires(mut self, time: SystemTime) -> Self {
        self.expires = Some(time);
        self
    }

    /// Whether requests from other sites bring it along.
    pub fn same_site(mut self, same_site: SameSite) -> Self {
        self.same_site = Some(same_site);
        self
    }

    /// Only over TLS.
    pub fn secure(mut self) -> Self {
        self.secure = true;
        self
    }

    /// Not for scripts.
    pub fn http_only(mut self) -> Self {
        self.http_only = true;
        self
    }

    /// Kept apart for each site that embeds us.
    pub fn partitioned(mut self) -> Self {
        self.partitioned = true;
        self
    }

    /// The header's value.
    ///
    /// # Errors
    /// A part has characters that it must not have, or browsers would not take the cookie as it is.
    pub fn to_header(&self) -> Result<HeaderValue, CookieError> {
        self.check()?;
        let mut text = format!("{}={}", self.name, self.value);
        let mut add = |name: &str, value: &str| {
            text.push_str("; ");
            text.push_str(name);
            text.push_str(value);
        };
        if let Some(path) = &self.path {
            add("Path=", path);
        }
        if let Some(domain) = &self.domain {
            add("Domain=", domain.strip_prefix('.').unwrap_or(domain));
        }
        if let Some(age) = self.max_age {
            add("Max-Age=", &age.as_secs().min(i64::MAX as u64).to_string());
        }
        if let Some(date) = self.expires.and_then(date_of) {
            add("Expires=", &date.to_string());
        }
        match self.same_site {
            Some(SameSite::Strict) => add("SameSite=", "Strict"),
            Some(SameSite::Lax) => add("SameSite=", "Lax"),
            Some(SameSite::None) => add("SameSite=", "None"),
            None => {}
        }
        if self.secure {
            add("Secure", "");
        }
        if self.http_only {
            add("HttpOnly", "");
        }
        if self.partitioned {
            add("Partitioned", "");
        }
        HeaderValue::from_str(&text).map_err(|_| self.error("it has characters that no header may have"))
    }

    fn check(&self) -> Result<(), CookieError> {
        let octet = |byte: u8| matches!(byte, b'!' | b'#'..=b'+' | b'-'..=b':' | b'<'..=b'[' | b']'..=b'~');
        let domain_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let wrong = |attribute: &Option<String>, legal: fn(&str) -> bool| {
            attribute.as_deref().is_some_and(|text| text.len() > ATTRIBUTE_BYTES_MAX || !legal(text))
        };
        let host = self.name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("__Host-"));
        let secure = self.name.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("__Secure-"));
        let far = self.expires.is_some_and(|time| date_of(time).is_none());
        let problem = if !is_token(self.name.as_bytes()) {
            "its name is no token"
        } else if !self.value.bytes().all(octet) {
            "its value has a blank, a quote, a comma, a semicolon, a backslash or something beyond ASCII"
        } else if self.name.len() + self.value.len() > COOKIE_BYTES_MAX {
            "name and value together have more than 4096 bytes"
        } else if wrong(&self.path, |path| {
            path.starts_with('/') && path.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b';')
        }) {
            "its path does not begin with a slash, has a semicolon, or more than 1024 bytes"
        } else if self.domain.as_deref().is_some_and(|domain| {
            domain.is_empty() || domain.len() > ATTRIBUTE_BYTES_MAX || !domain.bytes().all(domain_byte)
        }) {
            "its domain is no host name"
        } else if far {
            "it expires before 1970 or after 9999"
        } else if self.same_site == Some(SameSite::None) && !self.secure {
            "SameSite=None needs Secure"
        } else if self.partitioned && !self.secure {
            "Partitioned needs Secure"
        } else if (host || secure) && !self.secure {
            "its name's prefix needs Secure"
        } else if host && (self.domain.is_some() || self.path.as_deref() != Some("/")) {
            "the prefix __Host- needs Path=/ and no Domain"
        } else {
            return Ok(());
        };
        Err(self.error(problem))
    }

    fn error(&self, what: &'static str) -> CookieError {
        CookieError { name: self.name.chars().take(64).collect(), what }
    }
}

/// Why a cookie cannot be set.
///
/// ```
/// use netwright_http::web::CookieError;
///
/// let error = CookieError { name: "session".to_owned(), what: "a value with a line break" };
/// assert_eq!(error.to_string(), "cookie \"session\": a value with a line break");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieError {
    /// Its name.
    pub name: String,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for CookieError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cookie {:?}: {}", self.name, self.what)
    }
}

impl Error for CookieError {}
