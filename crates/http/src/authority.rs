//! Hosts and ports as `Host`, absolute targets, `CONNECT` and addresses of clients name them, read by one parser (RFC 3986,
//! section 3.2, and RFC 9112, section 3.2).
//!
//! ```text
//!   authority = host [ ":" port ]             no user
//!   host      = name │ "[" IPv6 "]" │ "[" "v" hex+ "." (name │ ":")+ "]"
//!   name      = (letter │ digit │ -._~ │ !$&'()*+;= │ "%" hex hex)+
//!   port      = digits, 0 to 65535, or nothing
//! ```
//! Two of its readers that differ over a host can be played off against each other: one looks up what it may do, the other does
//! it. So nothing is guessed and nothing repaired. What the grammar allows beyond this is a comma in a name, which others read as
//! the end of a host, and a port without a host.
//!
//! Not here: whether there is such a host, and which port a scheme stands for.

use http::Uri;
use std::{error::Error, fmt, net::Ipv6Addr};

/// A host and perhaps a port, of a text that is nothing else.
///
/// ```
/// use netwright_http::{BadAuthority, HostAndPort};
///
/// let here = HostAndPort::parse("[::1]:8080")?;
/// assert_eq!((here.host, here.port), ("[::1]", Some(8080)));
/// assert_eq!(HostAndPort::parse("example.org:")?.port, None);
/// assert_eq!(HostAndPort::parse("example.org:65536"), Err(BadAuthority::Port));
/// assert_eq!(HostAndPort::parse("2001:db8::1"), Err(BadAuthority::Port));
/// assert_eq!(HostAndPort::parse("ada@example.org"), Err(BadAuthority::User));
/// # Ok::<_, BadAuthority>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostAndPort<'a> {
    /// The host as it was written, with the brackets of an address in brackets.
    pub host: &'a str,
    /// The port, if one was written.
    pub port: Option<u16>,
}

/// Why something is not a host and perhaps a port.
///
/// ```
/// use netwright_http::{BadAuthority, HostAndPort};
///
/// assert_eq!(HostAndPort::parse("[::1"), Err(BadAuthority::Address));
/// assert_eq!(BadAuthority::Port.to_string(), "a port is a number up to 65535");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadAuthority {
    /// There is no host.
    NoHost,
    /// A user or a password before the host.
    User,
    /// A byte that no host has, or a `%` without two hexadecimal digits.
    Host,
    /// What is in brackets is not an address, or a bracket is alone.
    Address,
    /// What is behind a colon is not a number up to 65535.
    Port,
}

impl<'a> HostAndPort<'a> {
    /// Reads a text.
    ///
    /// # Errors
    /// It is not a host and perhaps a port.
    pub fn parse(text: &'a str) -> Result<Self, BadAuthority> {
        let (host_len, port) = split(text.as_bytes())?;
        Ok(Self { host: &text[..host_len], port })
    }

    /// Those of a URI.
    ///
    /// ```
    /// use netwright_http::{BadAuthority, HostAndPort};
    ///
    /// let uri = "http://example.org:80800/".parse()?;
    /// assert_eq!(HostAndPort::of(&uri), Err(BadAuthority::Port));
    /// # Ok::<_, http::uri::InvalidUri>(())
    /// ```
    ///
    /// # Errors
    /// It has none, or what it has is none.
    pub fn of(uri: &'a Uri) -> Result<Self, BadAuthority> {
        Self::parse(uri.authority().ok_or(BadAuthority::NoHost)?.as_str())
    }

    /// The host without brackets: what resolvers and certificates know.
    ///
    /// ```
    /// use netwright_http::{BadAuthority, HostAndPort};
    ///
    /// assert_eq!(HostAndPort::parse("[::1]:80")?.bare_host(), "::1");
    /// assert_eq!(HostAndPort::parse("example.org")?.bare_host(), "example.org");
    /// # Ok::<_, BadAuthority>(())
    /// ```
    pub fn bare_host(&self) -> &'a str {
        self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(self.host)
    }
}

/// Whether it is a value of `Host`: a host and perhaps a port, or nothing, where a target has none.
#[inline]
pub(crate) fn is_host_field(value: &[u8]) -> bool {
    value.is_empty() || split(value).is_ok()
}

/// How long the host is, and the port.
#[inline]
pub(crate) fn split(text: &[u8]) -> Result<(usize, Option<u16>), BadAuthority> {
    // Most are a name and nothing else, or a name and a port.
    let plain = text.iter().position(|&byte| !is_plain(byte));
    match plain.map(|at| (at, text[at])) {
        None if text.is_empty() => Err(BadAuthority::NoHost),
        None => Ok((text.len(), None)),
        Some((at @ 1.., b':')) => Ok((at, port(&text[at + 1..])?)),
        Some((at, _)) => split_rare(text, at),
    }
}

/// The same, of a text whose first `plain` bytes are plain ones of a name.
#[cold]
fn split_rare(text: &[u8], plain: usize) -> Result<(usize, Option<u16>), BadAuthority> {
    let host_len = match (text[0], plain) {
        (b'[', 0) => address(text)?,
        _ => name(text, plain)?,
    };
    match &text[host_len..] {
        [] => Ok((host_len, None)),
        [b':', ..] if host_len == 0 => Err(BadAuthority::NoHost),
        [b':', digits @ ..] => Ok((host_len, port(digits)?)),
        _ => Err(BadAuthority::Address), // behind the brackets of an address
    }
}

/// How long the name is that goes on behind its first `at` bytes.
fn name(text: &[u8], mut at: usize) -> Result<usize, BadAuthority> {
    while let Some(&byte) = text.get(at) {
        match byte {
            b':' => return if text[at..].contains(&b'@') { Err(BadAuthority::User) } else { Ok(at) },
            b'%' => match text.get(at + 1..at + 3) {
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => at += 3,
                _ => return Err(BadAuthority::Host),
            },
            b'@' => return Err(BadAuthority::User),
            b'[' | b']' => return Err(BadAuthority::Address),
            byte if is_plain(byte) => at += 1,
            _ => return Err(BadAuthority::Host),
        }
    }
    Ok(at)
}

/// How long the address in brackets is, with them.
fn address(text: &[u8]) -> Result<usize, BadAuthority> {
    let end = text.iter().position(|&byte| byte == b']').ok_or(BadAuthority::Address)?;
    let inner = &text[1..end];
    let known = match inner {
        [b'v' | b'V', rest @ ..] => is_future_address(rest),
        _ => std::str::from_utf8(inner).is_ok_and(|inner| inner.parse::<Ipv6Addr>().is_ok()),
    };
    if known { Ok(end + 1) } else { Err(BadAuthority::Address) }
}

/// An address of a kind that is still to come: a version, a dot, and something.
fn is_future_address(rest: &[u8]) -> bool {
    let Some(dot) = rest.iter().position(|&byte| byte == b'.') else { return false };
    let (version, address) = (&rest[..dot], &rest[dot + 1..]);
    !version.is_empty()
        && version.iter().all(u8::is_ascii_hexdigit)
        && !address.is_empty()
        && address.iter().all(|&byte| is_plain(byte) || byte == b':')
}

fn port(digits: &[u8]) -> Result<Option<u16>, BadAuthority> {
    if digits.is_empty() {
        return Ok(None);
    }
    let number = digits.iter().try_fold(0u16, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(u16::from(digit)) }
    });
    number.map(Some).ok_or(if digits.contains(&b'@') { BadAuthority::User } else { BadAuthority::Port })
}

/// Bytes that stand for themselves in a name.
#[inline]
fn is_plain(byte: u8) -> bool {
    const PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            plain[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let others = b"-._~!$&'()*+;=";
        let mut at = 0;
        while at < others.len() {
            plain[others[at] as usize] = true;
            at += 1;
        }
        plain
    };
    PLAIN[usize::from(byte)]
}

impl fmt::Display for BadAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoHost => "there is no host",
            Self::User => "a user or a password stands before the host",
            Self::Host => "the host has a byte that no host has",
            Self::Address => "what is in brackets is not an address",
            Self::Port => "a port is a number up to 65535",
        })
    }
}

impl Error for BadAuthority {}

#[cfg(test)]
mod tests;
