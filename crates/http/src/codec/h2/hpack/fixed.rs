//! The table that everybody has (RFC 7541, appendix A), and where a name is in it.

use crate::codec::h2::field::{Field, Line, Pseudo};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};

pub(super) const LEN: usize = 61;

/// Index 1 is at place 0.
#[rustfmt::skip]
pub(super) static FIELDS: [Field; LEN] = [
    pseudo(Pseudo::Authority, ""),
    pseudo(Pseudo::Method, "GET"),
    pseudo(Pseudo::Method, "POST"),
    pseudo(Pseudo::Path, "/"),
    pseudo(Pseudo::Path, "/index.html"),
    pseudo(Pseudo::Scheme, "http"),
    pseudo(Pseudo::Scheme, "https"),
    pseudo(Pseudo::Status, "200"),
    pseudo(Pseudo::Status, "204"),
    pseudo(Pseudo::Status, "206"),
    pseudo(Pseudo::Status, "304"),
    pseudo(Pseudo::Status, "400"),
    pseudo(Pseudo::Status, "404"),
    pseudo(Pseudo::Status, "500"),
    header(header::ACCEPT_CHARSET, "accept-charset", ""),
    header(header::ACCEPT_ENCODING, "accept-encoding", "gzip, deflate"),
    header(header::ACCEPT_LANGUAGE, "accept-language", ""),
    header(header::ACCEPT_RANGES, "accept-ranges", ""),
    header(header::ACCEPT, "accept", ""),
    header(header::ACCESS_CONTROL_ALLOW_ORIGIN, "access-control-allow-origin", ""),
    header(header::AGE, "age", ""),
    header(header::ALLOW, "allow", ""),
    header(header::AUTHORIZATION, "authorization", ""),
    header(header::CACHE_CONTROL, "cache-control", ""),
    header(header::CONTENT_DISPOSITION, "content-disposition", ""),
    header(header::CONTENT_ENCODING, "content-encoding", ""),
    header(header::CONTENT_LANGUAGE, "content-language", ""),
    header(header::CONTENT_LENGTH, "content-length", ""),
    header(header::CONTENT_LOCATION, "content-location", ""),
    header(header::CONTENT_RANGE, "content-range", ""),
    header(header::CONTENT_TYPE, "content-type", ""),
    header(header::COOKIE, "cookie", ""),
    header(header::DATE, "date", ""),
    header(header::ETAG, "etag", ""),
    header(header::EXPECT, "expect", ""),
    header(header::EXPIRES, "expires", ""),
    header(header::FROM, "from", ""),
    header(header::HOST, "host", ""),
    header(header::IF_MATCH, "if-match", ""),
    header(header::IF_MODIFIED_SINCE, "if-modified-since", ""),
    header(header::IF_NONE_MATCH, "if-none-match", ""),
    header(header::IF_RANGE, "if-range", ""),
    header(header::IF_UNMODIFIED_SINCE, "if-unmodified-since", ""),
    header(header::LAST_MODIFIED, "last-modified", ""),
    header(header::LINK, "link", ""),
    header(header::LOCATION, "location", ""),
    header(header::MAX_FORWARDS, "max-forwards", ""),
    header(header::PROXY_AUTHENTICATE, "proxy-authenticate", ""),
    header(header::PROXY_AUTHORIZATION, "proxy-authorization", ""),
    header(header::RANGE, "range", ""),
    header(header::REFERER, "referer", ""),
    header(header::REFRESH, "refresh", ""),
    header(header::RETRY_AFTER, "retry-after", ""),
    header(header::SERVER, "server", ""),
    header(header::SET_COOKIE, "set-cookie", ""),
    header(header::STRICT_TRANSPORT_SECURITY, "strict-transport-security", ""),
    header(header::TRANSFER_ENCODING, "transfer-encoding", ""),
    header(header::USER_AGENT, "user-agent", ""),
    header(header::VARY, "vary", ""),
    header(header::VIA, "via", ""),
    header(header::WWW_AUTHENTICATE, "www-authenticate", ""),
];

const fn pseudo(name: Pseudo, value: &'static str) -> Field {
    let name_len = name.name().len() as u32;
    let line = Line::Pseudo(name, Bytes::from_static(value.as_bytes()));
    Field { line, name_len, size: name_len + value.len() as u32 }
}

/// The text of a name cannot be had from it while it is compiled.
const fn header(name: HeaderName, text: &str, value: &'static str) -> Field {
    let name_len = text.len() as u32;
    let line = Line::Header(name, HeaderValue::from_static(value));
    Field { line, name_len, size: name_len + value.len() as u32 }
}

/// The first of the pseudo-fields and of the others.
const HEADERS_FROM: usize = 15;
const PLACES: usize = 256;

/// The index of a header's name, by a sum of it; 0: there is none.
static NAMES: [u8; PLACES] = names();

const fn names() -> [u8; PLACES] {
    let mut places = [0; PLACES];
    let mut index = HEADERS_FROM;
    while index <= LEN {
        let mut place = place(TEXTS[index - HEADERS_FROM]);
        while places[place] != 0 {
            place = (place + 1) % PLACES;
        }
        places[place] = index as u8;
        index += 1;
    }
    places
}

const fn place(name: &[u8]) -> usize {
    let len = name.len();
    let sum = len * 7 + name[0] as usize * 31 + name[len / 2] as usize * 5 + name[len - 1] as usize * 59;
    sum % PLACES
}

/// An index under which a header's name is.
#[inline]
pub(super) fn index_of_name(name: &str) -> Option<usize> {
    let name = name.as_bytes();
    let mut place = place(name);
    loop {
        match usize::from(NAMES[place]) {
            0 => return None,
            index if TEXTS[index - HEADERS_FROM] == name => return Some(index),
            _ => place = (place + 1) % PLACES,
        }
    }
}

/// An index under which a pseudo-field's name is.
#[inline]
pub(super) fn index_of_pseudo(pseudo: Pseudo) -> Option<usize> {
    Some(match pseudo {
        Pseudo::Authority => 1,
        Pseudo::Method => 2,
        Pseudo::Path => 4,
        Pseudo::Scheme => 6,
        Pseudo::Status => 8,
        Pseudo::Protocol => return None,
    })
}

/// The index of a pseudo-field with this value.
#[inline]
pub(super) fn index_of_pseudo_field(pseudo: Pseudo, value: &[u8]) -> Option<usize> {
    Some(match (pseudo, value) {
        (Pseudo::Status, b"200") => 8,
        (Pseudo::Status, b"204") => 9,
        (Pseudo::Status, b"206") => 10,
        (Pseudo::Status, b"304") => 11,
        (Pseudo::Status, b"400") => 12,
        (Pseudo::Status, b"404") => 13,
        (Pseudo::Status, b"500") => 14,
        (Pseudo::Method, b"GET") => 2,
        (Pseudo::Method, b"POST") => 3,
        (Pseudo::Path, b"/") => 4,
        (Pseudo::Path, b"/index.html") => 5,
        (Pseudo::Scheme, b"http") => 6,
        (Pseudo::Scheme, b"https") => 7,
        _ => return None,
    })
}

/// Names from index 15 on.
#[rustfmt::skip]
const TEXTS: [&[u8]; LEN + 1 - HEADERS_FROM] = [
    b"accept-charset", b"accept-encoding", b"accept-language", b"accept-ranges",
    b"accept", b"access-control-allow-origin", b"age", b"allow",
    b"authorization", b"cache-control", b"content-disposition", b"content-encoding",
    b"content-language", b"content-length", b"content-location", b"content-range",
    b"content-type", b"cookie", b"date", b"etag",
    b"expect", b"expires", b"from", b"host",
    b"if-match", b"if-modified-since", b"if-none-match", b"if-range",
    b"if-unmodified-since", b"last-modified", b"link", b"location",
    b"max-forwards", b"proxy-authenticate", b"proxy-authorization", b"range",
    b"referer", b"refresh", b"retry-after", b"server",
    b"set-cookie", b"strict-transport-security", b"transfer-encoding", b"user-agent",
    b"vary", b"via", b"www-authenticate",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_where_it_is_and_no_other_is() {
        for (index, field) in (1..).zip(&FIELDS) {
            match &field.line {
                Line::Pseudo(pseudo, value) => {
                    assert_eq!(field.size as usize, pseudo.name().len() + value.len());
                    let by_name = index_of_pseudo(*pseudo).unwrap();
                    assert!(matches!(&FIELDS[by_name - 1].line, Line::Pseudo(same, _) if same == pseudo));
                    let whole = index_of_pseudo_field(*pseudo, value);
                    assert_eq!(whole, if value.is_empty() { None } else { Some(index) });
                }
                Line::Header(name, value) => {
                    assert_eq!(index_of_name(name.as_str()), Some(index));
                    assert_eq!(field.size as usize, name.as_str().len() + value.len());
                    assert_eq!(field.name_len as usize, name.as_str().len());
                }
                other => panic!("{other:?}"),
            }
        }
        for name in ["x", "hosT", "x-request-id", "priority", "content-lengtH", "alt-svc"] {
            assert_eq!(index_of_name(name), None);
        }
    }
}
