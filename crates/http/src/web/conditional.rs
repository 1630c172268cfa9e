//! Conditional requests (RFC 9110, 13): whether a client has what it asks for, or wants to change what it has seen.

use crate::{
    calendar::{date_of, text_of},
    grammar::elements,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use netwright_core::world;
use std::time::SystemTime;

/// What tells one state of a resource from another.
///
/// ```
/// use http::{HeaderMap, Method};
/// use netwright_http::web::{Precondition, Validators};
///
/// let current = Validators { etag: Some("\"v2\"".parse().unwrap()), modified: None };
/// let mut headers = HeaderMap::new();
/// headers.insert("if-none-match", "\"v1\", \"v2\"".parse().unwrap());
/// assert_eq!(current.check(&Method::GET, &headers), Precondition::NotModified);
/// assert_eq!(current.check(&Method::PUT, &headers), Precondition::Failed);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// The entity tag, quotes included: `"abc"`, or `W/"abc"`.
    pub etag: Option<HeaderValue>,
    /// When it was changed last. Full seconds count.
    pub modified: Option<SystemTime>,
}

/// What the conditions of a request come to.
///
/// ```
/// use netwright_http::web::{Precondition, Validators};
///
/// let what = Validators { etag: Some("\"v1\"".parse().unwrap()), modified: None };
/// let mut headers = http::HeaderMap::new();
/// headers.insert("if-none-match", "\"v1\"".parse().unwrap());
/// assert_eq!(what.check(&http::Method::GET, &headers), Precondition::NotModified);
/// headers.insert("if-match", "\"v2\"".parse().unwrap());
/// assert_eq!(what.check(&http::Method::PUT, &headers), Precondition::Failed);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// Do what is asked.
    Holds,
    /// 304: the client has it.
    NotModified,
    /// 412: it is not what the client thinks.
    Failed,
}

impl Validators {
    /// Looks at `If-Match`, `If-Unmodified-Since`, `If-None-Match` and `If-Modified-Since`, in that order, each only if those
    /// before say nothing about it. Dates that cannot be read are as if they were not there.
    pub fn check(&self, method: &Method, headers: &HeaderMap) -> Precondition {
        let reads = method == Method::GET || method == Method::HEAD;
        if headers.contains_key(header::IF_MATCH) {
            if !self.is_listed(headers, header::IF_MATCH, strong_equal) {
                return Precondition::Failed;
            }
        } else if let (Some(date), Some(modified)) =
            (date(headers, header::IF_UNMODIFIED_SINCE), self.seconds())
            && modified > date
        {
            return Precondition::Failed;
        }
        if headers.contains_key(header::IF_NONE_MATCH) {
            return match self.is_listed(headers, header::IF_NONE_MATCH, weak_equal) {
                false => Precondition::Holds,
                true if reads => Precondition::NotModified,
                true => Precondition::Failed,
            };
        }
        match (date(headers, header::IF_MODIFIED_SINCE), self.seconds()) {
            (Some(date), Some(modified)) if reads && modified <= date => Precondition::NotModified,
            _ => Precondition::Holds,
        }
    }

    /// Whether a range may be sent: there is no `If-Range`, or it names exactly this state.
    pub fn range_applies(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(header::IF_RANGE) else { return true };
        if value.as_bytes().ends_with(b"\"") {
            return self.etag.as_ref().is_some_and(|etag| strong_equal(etag.as_bytes(), value.as_bytes()));
        }
        matches!((date(headers, header::IF_RANGE), self.seconds()), (Some(date), Some(modified)) if date == modified)
    }

    /// Writes `ETag` and `Last-Modified`. What claims to have been changed in the future was changed now, as far as a client has
    /// to know (RFC 9110, 8.8.2.1); conditions still go by the real time.
    pub fn write_to(&self, headers: &mut HeaderMap) {
        if let Some(etag) = &self.etag {
            headers.insert(header::ETAG, etag.clone());
        }
        let modified = self.seconds().and_then(|modified| date_of(modified.min(world::system_time())));
        if let Some(Ok(date)) = modified.map(|date| HeaderValue::from_bytes(&text_of(date))) {
            headers.insert(header::LAST_MODIFIED, date);
        }
    }

    /// When it was changed, as dates in headers can say it.
    fn seconds(&self) -> Option<SystemTime> {
        date_of(self.modified?).map(SystemTime::from)
    }

    fn is_listed(&self, headers: &HeaderMap, name: HeaderName, equal: fn(&[u8], &[u8]) -> bool) -> bool {
        headers.get_all(name).iter().any(|value| {
            let value = value.as_bytes();
            value == b"*"
                || self
                    .etag
                    .as_ref()
                    .is_some_and(|etag| tags(value).any(|known| equal(etag.as_bytes(), known)))
        })
    }
}

/// Entity tags of a list. A tag with a comma in it is cut, so it is never found: then everything is sent once more, which is
/// always right for `If-None-Match`; our own tags have none.
fn tags(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    elements(value)
}

fn is_weak(tag: &[u8]) -> bool {
    tag.starts_with(b"W/")
}

fn strong_equal(one: &[u8], other: &[u8]) -> bool {
    !is_weak(one) && one == other
}

fn weak_equal(one: &[u8], other: &[u8]) -> bool {
    let bare = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
    bare(one) == bare(other)
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::YEAR_10000;
    use std::time::Duration;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn current() -> Validators {
        // Half a second that no header can name.
        let modified = SystemTime::UNIX_EPOCH + Duration::from_millis(784_111_777_500);
        Validators { etag: Some(HeaderValue::from_static("\"a\"")), modified: Some(modified) }
    }

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn conditions_are_looked_at_in_their_order() {
        use Precondition::{Failed, Holds, NotModified};
        let (get, put) = (Method::GET, Method::PUT);
        for (method, list, expected) in [
            (&get, &[][..], Holds),
            (&get, &[("if-match", "\"a\"")], Holds),
            (&get, &[("if-match", "*")], Holds),
            (&get, &[("if-match", "\"b\", \"a\"")], Holds),
            (&put, &[("if-match", "\"b\"")], Failed),
            (&put, &[("if-match", "W/\"a\"")], Failed),
            (&put, &[("if-match", "\"a\""), ("if-unmodified-since", BEFORE)], Holds),
            (&put, &[("if-unmodified-since", BEFORE)], Failed),
            (&put, &[("if-unmodified-since", SAME)], Holds),
            (&put, &[("if-unmodified-since", "nonsense")], Holds),
            (&get, &[("if-none-match", "\"a\"")], NotModified),
            (&get, &[("if-none-match", "W/\"a\"")], NotModified),
            (&get, &[("if-none-match", "\"b\"")], Holds),
            (&put, &[("if-none-match", "*")], Failed),
            (&get, &[("if-none-match", "\"b\""), ("if-modified-since", AFTER)], Holds),
            (&get, &[("if-modified-since", BEFORE)], Holds),
            (&get, &[("if-modified-since", SAME)], NotModified),
            (&get, &[("if-modified-since", AFTER)], NotModified),
            (&put, &[("if-modified-since", AFTER)], Holds),
            (&get, &[("if-modified-since", "Sun, 99 Foo 1994")], Holds),
            (&get, &[("if-match", "\"b\""), ("if-none-match", "\"a\"")], Failed),
        ] {
            assert_eq!(current().check(method, &headers(list)), expected, "{method} {list:?}");
        }
    }

    #[test]
    fn a_range_is_for_exactly_the_state_that_was_seen() {
        for (value, applies) in [
            ("\"a\"", true),
            ("W/\"a\"", false),
            ("\"b\"", false),
            (SAME, true),
            (AFTER, false),
            ("x", false),
        ] {
            assert_eq!(current().range_applies(&headers(&[("if-range", value)])), applies, "{value}");
        }
        assert!(current().range_applies(&HeaderMap::new()));
        let weak = Validators { etag: Some(HeaderValue::from_static("W/\"a\"")), modified: None };
        assert!(!weak.range_applies(&headers(&[("if-range", "W/\"a\"")])));
    }

    #[test]
    fn nothing_was_changed_later_than_now() {
        let now = SystemTime::now();
        let mut headers = HeaderMap::new();
        let soon = Validators { etag: None, modified: Some(now + Duration::from_secs(3600)) };
        soon.write_to(&mut headers);
        let said = httpdate::parse_http_date(headers["last-modified"].to_str().unwrap()).unwrap();
        assert!(said <= SystemTime::now(), "{said:?}");
        assert!(said + Duration::from_secs(1) >= now, "{said:?}");
        // That it was said does not make it true: nobody is told that it has what may still change.
        let list = [("if-modified-since", headers["last-modified"].to_str().unwrap())];
        let asked = self::headers(&list);
        assert_eq!(soon.check(&Method::GET, &asked), Precondition::Holds);
    }

    #[test]
    fn validators_are_written_in_full_seconds() {
        let mut headers = HeaderMap::new();
        current().write_to(&mut headers);
        assert_eq!(
            (&headers["etag"], &headers["last-modified"]),
            (&"\"a\"".parse().unwrap(), &SAME.parse().unwrap())
        );
        let mut headers = HeaderMap::new();
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(YEAR_10000);
        Validators { etag: None, modified: Some(far) }.write_to(&mut headers);
        assert!(headers.is_empty());
    }
}
