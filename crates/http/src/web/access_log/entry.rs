//! What is known of a request, and the line that it makes.

use crate::{HttpError, calendar::clock_text};
use http::{HeaderValue, Method, StatusCode, Uri, Version};
use netwright_core::world;
use std::{
    fmt,
    net::IpAddr,
    time::{Duration, SystemTime},
};

/// What stands for the method of a head that was refused.
const NO_METHOD: &[u8] = b"-";

/// What is known of a request when its reply is over.
///
/// ```
/// use netwright_http::web::{AccessEntry, AccessLog};
///
/// let log = AccessLog::new(|entry: &AccessEntry| println!("{} in {:?}", entry.common(), entry.latency));
/// # drop(log);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AccessEntry {
    /// Who asked, if the connection is on the network.
    pub peer: Option<IpAddr>,
    /// When the head had come, by the wall.
    pub time: SystemTime,
    /// The method; `-` if the head was refused.
    pub method: Method,
    /// The target; `-` if the head was refused.
    pub target: Uri,
    /// The request's version; HTTP/1.1 if the head was refused.
    pub version: Version,
    /// The reply's status; `None` if there was none before the connection ended.
    pub status: Option<StatusCode>,
    /// Why the codec refused the head, or the body. It tells the peer itself, with this status.
    pub refused: Option<HttpError>,
    /// Bytes of the request's body that had come.
    pub request_bytes: u64,
    /// Bytes of the reply's body that were written; what the codec says itself is not counted.
    pub reply_bytes: u64,
    /// From the request's head to the last part of the reply.
    pub latency: Duration,
    /// Whether the reply came to its end.
    pub complete: bool,
    /// Where the client says it came from.
    pub referer: Option<HeaderValue>,
    /// What the client says it is.
    pub user_agent: Option<HeaderValue>,
}

impl AccessEntry {
    pub(super) fn new(peer: Option<IpAddr>, method: Method, target: Uri, version: Version) -> Self {
        Self {
            peer,
            time: world::system_time(),
            method,
            target,
            version,
            status: None,
            refused: None,
            request_bytes: 0,
            reply_bytes: 0,
            latency: Duration::ZERO,
            complete: false,
            referer: None,
            user_agent: None,
        }
    }

    /// Of a head that was refused: nothing is known of it.
    pub(super) fn without_head(peer: Option<IpAddr>) -> Self {
        let method = Method::from_bytes(NO_METHOD).unwrap_or_default();
        Self::new(peer, method, Uri::from_static("-"), Version::HTTP_11)
    }

    fn is_without_head(&self) -> bool {
        self.refused.is_some() && self.method.as_str().as_bytes() == NO_METHOD
    }

    /// The codec refuses it. A peer that has gone is not told.
    pub(super) fn refuse(&mut self, error: &HttpError) {
        if !matches!(error, HttpError::Premature { .. }) {
            self.status.get_or_insert(error.status());
        }
        self.refused = Some(error.clone());
    }

    /// Common Log Format: `127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 2326`.
    pub fn common(&self) -> impl fmt::Display {
        Line { entry: self, combined: false }
    }

    /// Combined Log Format: the same, and who the client says it is and where it came from.
    pub fn combined(&self) -> impl fmt::Display {
        Line { entry: self, combined: true }
    }
}

struct Line<'a> {
    entry: &'a AccessEntry,
    combined: bool,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.entry;
        match entry.peer {
            Some(peer) => write!(f, "{peer} - - ")?,
            None => f.write_str("- - - ")?,
        }
        write!(f, "[{}] \"", Stamp(entry.time))?;
        if entry.is_without_head() {
            f.write_str("-\" ")?;
        } else {
            write!(f, "{} ", entry.method)?;
            match entry.target.path_and_query() {
                // What a client sends to an origin has no more than this; a proxy's targets are shown whole.
                Some(path) if entry.target.authority().is_none() => {
                    write!(f, "{}", Escaped(path.as_str().as_bytes()))?
                }
                _ => write!(f, "{}", Escaped(entry.target.to_string().as_bytes()))?,
            }
            write!(f, " {:?}\" ", entry.version)?;
        }
        match entry.status {
            Some(status) => write!(f, "{} ", status.as_u16())?,
            None => f.write_str("- ")?,
        }
        match entry.reply_bytes {
            0 => f.write_str("-")?,
            bytes => write!(f, "{bytes}")?,
        }
        if self.combined {
            let shown = |value: &Option<HeaderValue>, f: &mut fmt::Formatter<'_>| match value {
                Some(value) => write!(f, " \"{}\"", Escaped(value.as_bytes())),
                None => f.write_str(" \"-\""),
            };
            shown(&entry.referer, f)?;
            shown(&entry.user_agent, f)?;
        }
        Ok(())
    }
}

struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0 {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", byte as char)?,
                b' '..=b'~' => write!(f, "{}", byte as char)?,
                other => write!(f, "\\x{other:02x}")?,
            }
        }
        Ok(())
    }
}

/// `10/Oct/2000:13:55:36 +0000`
pub(super) struct Stamp(pub(super) SystemTime);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = clock_text(self.0);
        let text = std::str::from_utf8(&date).map_err(|_| fmt::Error)?;
        let (day, month, year, time) = (&text[5..7], &text[8..11], &text[12..16], &text[17..25]);
        write!(f, "{day}/{month}/{year}:{time} +0000")
    }
}
