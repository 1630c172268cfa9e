//! Which fields are put into the table, to be referred to later.
//!
//! | field | what is done |
//! | --- | --- |
//! | secrets: marked as such, credentials, cookies that are set, short cookies | never put into a table, here or behind a proxy |
//! | what hardly differs between the messages of a connection | put into the table at once |
//! | anything else | put into the table when it is said for the second time |
//!
//! What differs with each message (lengths, tags, request ids, paths) so never drives out what does not, and what changes now and
//! then (`date`) is in the table as long as it pays.

use super::said::{Key, Sums};
use crate::codec::h2::field::Pseudo;
use http::{HeaderName, HeaderValue, header};

/// Shorter cookies can be guessed, one byte after the other, by who can see how long blocks are and make the peer send guesses.
const COOKIE_MIN: usize = 20;
/// So many fields are remembered that were said and are not in the table.
const ONCE: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    AtOnce,
    SecondTime,
}

/// Whether a field may be in no table.
#[inline]
pub(super) fn is_secret(name: &HeaderName, value: &HeaderValue) -> bool {
    if value.is_sensitive() {
        return true;
    }
    let text = name.as_str();
    match text.len() {
        6 => name == header::COOKIE && value.len() < COOKIE_MIN,
        10 => name == header::SET_COOKIE,
        13 => name == header::AUTHORIZATION,
        19 => name == header::PROXY_AUTHORIZATION,
        _ => false,
    }
}

/// What to do with a field that is in no table.
pub(super) fn of(key: Key<'_>) -> Policy {
    const CONSTANT: [HeaderName; 17] = [
        header::ACCEPT,
        header::ACCEPT_ENCODING,
        header::ACCEPT_LANGUAGE,
        header::ACCEPT_RANGES,
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        header::ALT_SVC,
        header::CACHE_CONTROL,
        header::CONTENT_ENCODING,
        header::CONTENT_TYPE,
        header::ORIGIN,
        header::SERVER,
        header::STRICT_TRANSPORT_SECURITY,
        header::TE,
        header::USER_AGENT,
        header::VARY,
        header::VIA,
        header::X_CONTENT_TYPE_OPTIONS,
    ];
    match key {
        Key::Pseudo(Pseudo::Path) => Policy::SecondTime,
        Key::Pseudo(_) => Policy::AtOnce,
        Key::Header(name) if CONSTANT.contains(name) => Policy::AtOnce,
        Key::Header(_) => Policy::SecondTime,
    }
}

/// The sums of the last fields that were said without being put into the table.
#[derive(Debug, Default)]
pub(super) struct Once {
    sums: [u32; ONCE],
    next: usize,
}

impl Once {
    /// Whether this field was said before. From now on it was.
    pub(super) fn was_said(&mut self, sums: Sums) -> bool {
        if self.sums.contains(&sums.whole) {
            return true;
        }
        self.sums[self.next % ONCE] = sums.whole;
        self.next = self.next.wrapping_add(1);
        false
    }
}
