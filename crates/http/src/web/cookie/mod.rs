//! Cookies: what a request brings, and what a reply asks a browser to keep (RFC 6265, and what browsers added to it).

mod set;

pub use set::{CookieError, SameSite, SetCookie};

use crate::grammar::{is_token, trim};
use http::{HeaderMap, header};

/// The cookies of a request, in their order. What is not well-formed is left out: a cookie that some other page of the same
/// site has set must not lock a user out.
///
/// ```
/// use http::HeaderMap;
/// use netwright_http::web::{cookie, cookies};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("cookie", "session=abc; theme=\"dark\"; broken".parse().unwrap());
/// assert_eq!(cookies(&headers).collect::<Vec<_>>(), [("session", "abc"), ("theme", "dark")]);
/// assert_eq!(cookie(&headers, "theme"), Some("dark"));
/// ```
pub fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b';'))
        .filter_map(pair)
}

/// The first cookie of this name. Names are compared as they are: `A` is not `a`.
///
/// ```
/// use netwright_http::web::cookie;
///
/// let mut headers = http::HeaderMap::new();
/// headers.insert("cookie", "theme=dark; session=abc".parse().unwrap());
/// assert_eq!(cookie(&headers, "session"), Some("abc"));
/// assert_eq!(cookie(&headers, "Session"), None);
/// ```
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    cookies(headers).find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn pair(bytes: &[u8]) -> Option<(&str, &str)> {
    let pair = trim(bytes);
    let at = memchr::memchr(b'=', pair)?;
    let (name, value) = (trim(&pair[..at]), trim(&pair[at + 1..]));
    let value = match value {
        [b'"', inner @ .., b'"'] => inner,
        bare => bare,
    };
    // More than the RFC allows in values, because browsers send it: blanks, commas, backslashes; but no quotes, which
    // others might read as the beginning of something.
    let legal = is_token(name) && value.iter().all(|&byte| matches!(byte, b' '..=b'~') && byte != b'"');
    if !legal {
        return None;
    }
    Some((std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::YEAR_10000;
    use http::HeaderValue;
    use std::time::{Duration, SystemTime};

    fn read(values: &[&[u8]]) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("cookie", HeaderValue::from_bytes(value).unwrap());
        }
        cookies(&headers).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn well_formed_cookies_are_read_and_others_left_out() {
        let cookies = read(&[b"a=1; b = two words ;c=\"q\";=x;d;e=\"half;f=\xff;a=2", b"g="]);
        let expected = [("a", "1"), ("b", "two words"), ("c", "q"), ("a", "2"), ("g", "")];
        assert_eq!(cookies, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(read(&[b"", b";;;", b"=", b"\t"]).is_empty());
    }

    #[test]
    fn all_attributes_are_written() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let cookie = SetCookie::encoded("a", "b; c")
            .path("/p")
            .domain(".example.org")
            .max_age(Duration::from_millis(1999));
        let cookie = cookie.expires(time).same_site(SameSite::None).secure().http_only().partitioned();
        assert_eq!(
            cookie.to_header().unwrap(),
            "a=b%3B%20c; Path=/p; Domain=example.org; Max-Age=1; Expires=Sun, 06 Nov 1994 08:49:37 GMT; SameSite=None; Secure; HttpOnly; Partitioned"
        );
        let gone = SetCookie::removal("a").to_header().unwrap();
        assert_eq!(gone, "a=; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn what_browsers_would_drop_or_misread_is_an_error() {
        let cookie = || SetCookie::new("a", "b");
        for (wrong, what) in [
            (SetCookie::new("", "b"), "no token"),
            (SetCookie::new("a b", "b"), "no token"),
            (SetCookie::new("a", "b;c"), "semicolon"),
            (SetCookie::new("a", "b\r\nx: y"), "its value"),
            (SetCookie::new("a", "é"), "ASCII"),
            (SetCookie::new("a", "x".repeat(4096)), "4096"),
            (cookie().path("relative"), "its path"),
            (cookie().path("/a;b"), "its path"),
            (cookie().path("/\n"), "its path"),
            (cookie().domain("a b"), "its domain"),
            (cookie().domain(""), "its domain"),
            (cookie().expires(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), "1970"),
            (cookie().expires(SystemTime::UNIX_EPOCH + Duration::from_secs(YEAR_10000)), "9999"),
            (cookie().same_site(SameSite::None), "SameSite=None needs Secure"),
            (cookie().partitioned(), "Partitioned needs Secure"),
            (SetCookie::new("__secure-a", "b"), "prefix needs Secure"),
            (SetCookie::new("__Host-a", "b").secure(), "needs Path=/"),
            (SetCookie::new("__Host-a", "b").secure().path("/").domain("x"), "no Domain"),
        ] {
            let error = wrong.to_header().unwrap_err().to_string();
            assert!(error.contains(what), "{error:?} should name {what:?}");
        }
    }
}
