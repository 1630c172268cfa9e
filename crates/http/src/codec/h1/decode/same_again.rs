//! Requests that say what the one before said: clients that poll, health checks and proxies send the same headers again and
//! again.
//!
//! ```text
//!   input     GET /b HTTP/1.1\r\n │ Host: a\r\nAccept: x\r\n\r\n
//!                                  │ equal, byte by byte: the map of the last request is this one's
//!   kept      GET /a HTTP/1.1\r\n │ Host: a\r\nAccept: x\r\n\r\n      and its map, lent to one request at a time
//! ```
//! A loop keeps one head. Comparing takes a small part of what parsing takes, and a head that differs does so early.
//!
//! Always true:
//! 1. What is lent again was parsed from the bytes that are kept with it, and nobody has had the means to change it since:
//!    a head says whether it is as it was made ([`Head`](crate::Head)).
//! 2. A head is copied when it comes the second time in a row, not before: who never repeats itself pays one comparison.
//! 3. Only requests without a body, an upgrade or an expectation, and with a plain path for a target, are kept.

use crate::{
    codec::{h1::asked::Asked, h2},
    limits::HttpLimits,
    message::{Known, RequestHead, recycle_request_box},
};
use bytes::Bytes;
use http::{Method, Uri, request};
use memchr::memchr;
use std::{
    cell::RefCell,
    sync::atomic::{AtomicU64, Ordering},
};

/// Longer heads are not kept.
const HEAD_MAX: usize = 2048;
/// After so many heads that did not come back, because whoever answers requests keeps them, it is tried rarely.
const LOST_MAX: u32 = 8;
const TRY_EVERY: u32 = 1024;

static NUMBERS: AtomicU64 = AtomicU64::new(1);

struct Kept {
    /// Tells heads made from this one from others: no two that are kept have the same, on any thread.
    number: u64,
    /// The head before this one, to see which come twice.
    last: Vec<u8>,
    lost: u32,
    head: Bytes,
    /// Where the headers begin.
    fields_at: usize,
    /// How many there are.
    fields: usize,
    target_len: usize,
    method: Method,
    uri: Uri,
    asked: Asked,
    /// Not there while a request has them.
    parts: Option<Box<request::Parts>>,
    /// Whether method and target of the parts are those of `head`.
    line_is_whole: bool,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::new(Kept {
        number: 0,
        last: Vec::new(),
        lost: 0,
        head: Bytes::new(),
        fields_at: 0,
        fields: 0,
        target_len: 0,
        method: Method::GET,
        uri: Uri::default(),
        asked: Asked::default(),
        parts: None,
        line_is_whole: false,
    });
}

/// A request that was asked before.
pub(crate) struct Again {
    /// The length of its head.
    pub(crate) len: usize,
    /// What the first line says is not known: it differs.
    pub(crate) other_line: bool,
    pub(crate) asked: Asked,
    pub(crate) head: RequestHead,
}

/// Whether `input` begins with what is kept.
#[inline]
pub(crate) fn find(input: &[u8], limits: &HttpLimits) -> Option<Again> {
    KEPT.with_borrow_mut(|kept| {
        kept.parts.as_ref()?;
        let same_line = input.starts_with(&kept.head);
        let line_len = if same_line { kept.fields_at } else { kept.other_line(input)? };
        let len = line_len + kept.head.len() - kept.fields_at;
        if len > limits.head || kept.fields > limits.headers || kept.target_len > limits.target {
            return None; // another server on this loop allows more
        }
        kept.lost += 1;
        let mut parts = kept.parts.take()?;
        if same_line && !kept.line_is_whole {
            (parts.method, parts.uri) = (kept.method.clone(), kept.uri.clone());
        }
        let head = RequestHead::known(parts, Known::new(kept.number, same_line));
        Some(Again { len, other_line: !same_line, asked: kept.asked, head })
    })
}

impl Kept {
    /// The length of the first line, if what follows it is what is kept.
    fn other_line(&self, input: &[u8]) -> Option<usize> {
        let line_len = memchr(b'\n', &input[..input.len().min(HEAD_MAX)])? + 1;
        input[line_len..].starts_with(&self.head[self.fields_at..]).then_some(line_len)
    }
}

/// Whether a head that had to be parsed is the same as the one before it, and worth keeping.
#[inline]
pub(crate) fn comes_again(head: &[u8]) -> bool {
    KEPT.with_borrow_mut(|kept| {
        if kept.last == head {
            kept.lost = kept.lost.saturating_add(1);
            return kept.lost <= LOST_MAX || kept.lost.is_multiple_of(TRY_EVERY);
        }
        kept.lost = 0;
        kept.last.clear();
        if head.len() <= HEAD_MAX {
            kept.last.extend_from_slice(head);
        }
        false
    })
}

/// Keeps a head that was parsed; its parts are on their way, and may come back. What is lent meanwhile is not known any more.
#[cold]
pub(crate) fn keep(
    head: &Bytes,
    fields_at: usize,
    target_len: usize,
    asked: Asked,
    parts: &request::Parts,
) -> Known {
    KEPT.with_borrow_mut(|kept| {
        kept.head = head.clone();
        (kept.fields_at, kept.fields) = (fields_at, parts.headers.len());
        (kept.target_len, kept.asked) = (target_len, asked);
        (kept.method, kept.uri) = (parts.method.clone(), parts.uri.clone());
        kept.parts = None;
        kept.number = new_number();
        Known::new(kept.number, true)
    })
}

/// The head of a request that is answered: kept if it is what was lent and nobody has changed it.
#[inline]
pub(crate) fn recycle_request(head: RequestHead) {
    let known = head.what_is_known();
    let parts = head.into_box();
    let other = KEPT.with_borrow_mut(|kept| {
        if known.number() != kept.number || known == Known::NOTHING || kept.parts.is_some() {
            return Some(parts);
        }
        kept.line_is_whole = known.line_is_whole();
        kept.lost = 0;
        kept.parts = Some(parts);
        None
    });
    if let Some(parts) = other.and_then(|parts| h2::give_back(parts, known)) {
        recycle_request_box(parts);
    }
}

/// A number for a head that is kept, which no other has on any thread.
pub(crate) fn new_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::super::request::RequestDecoder;
    use super::*;
    use bytes::BytesMut;
    use http::HeaderMap;

    fn decode(head: &str) -> (RequestHead, Asked) {
        let mut input = BytesMut::from(head);
        let mut decoder = RequestDecoder::default();
        let part = decoder.next(&mut input, &HttpLimits::default()).unwrap().unwrap();
        assert!(input.is_empty());
        match (part, decoder.take_asked()) {
            (crate::HttpPart::Whole(parts, _), Some(asked)) => (parts, asked),
            other => panic!("{other:?}"),
        }
    }

    fn is_kept() -> bool {
        KEPT.with_borrow(|kept| kept.parts.is_some())
    }

    const HEAD: &str = "GET /a?b HTTP/1.1\r\nHost: h\r\nX: 1\r\nX: 2\r\nEmpty:\r\n\r\n";

    /// Brings it to where the head is kept.
    fn repeat() {
        (0..3).for_each(|_| recycle_request(decode(HEAD).0));
        assert!(is_kept());
    }

    #[test]
    fn a_request_that_comes_again_is_the_same_as_the_first() {
        let (first, asked) = decode(HEAD);
        repeat();
        let (again, asked_again) = decode(HEAD);
        assert!(!is_kept(), "it is lent");
        assert_eq!((&first.method, &first.uri, first.version), (&again.method, &again.uri, again.version));
        assert_eq!((&first.headers, asked), (&again.headers, asked_again));
        let (meanwhile, _) = decode(HEAD);
        assert_eq!(meanwhile.headers, again.headers);
    }

    #[test]
    fn other_lines_with_the_same_headers_have_their_own_method_and_target() {
        repeat();
        let rest = HEAD.split_once("\r\n").unwrap().1;
        for (line, method, uri, close) in [
            ("HEAD /c HTTP/1.1", "HEAD", "/c", false),
            ("DELETE / HTTP/1.1", "DELETE", "/", false),
            ("GET /a?b HTTP/1.0", "GET", "/a?b", true),
            ("OPTIONS * HTTP/1.1", "OPTIONS", "*", false),
        ] {
            let (parts, asked) = decode(&format!("{line}\r\n{rest}"));
            assert_eq!((parts.method.as_str(), parts.uri.to_string().as_str()), (method, uri));
            assert_eq!((asked.head, asked.close, parts.headers.len()), (method == "HEAD", close, 4));
            recycle_request(parts);
        }
        let (parts, _) = decode(HEAD);
        assert_eq!(parts.uri, "/a?b");
    }

    #[test]
    fn headers_that_somebody_changed_are_not_kept() {
        type Change = fn(&mut HeaderMap);
        let changes: [Change; 5] = [
            |headers| drop(headers.insert("x", "1".parse().unwrap())),
            |headers| drop(headers.insert("host", "h".parse().unwrap())),
            |headers| drop(headers.remove("empty")),
            |headers| {
                let host = headers.remove("host").unwrap();
                headers.insert("tsoh", host);
            },
            |headers| headers.get_mut("host").unwrap().set_sensitive(true),
        ];
        for change in changes {
            repeat();
            let (mut parts, _) = decode(HEAD);
            change(&mut parts.headers);
            recycle_request(parts);
            assert!(!is_kept());
            assert_eq!(decode(HEAD).0.headers["host"], "h");
        }
    }

    #[test]
    fn a_target_that_somebody_changed_is_not_that_of_the_next_request() {
        repeat();
        let (mut parts, _) = decode(HEAD);
        (parts.uri, parts.method) = ("/other".parse().unwrap(), Method::DELETE);
        recycle_request(parts);
        let (parts, _) = decode(HEAD);
        assert_eq!((parts.uri.to_string().as_str(), &parts.method), ("/a?b", &Method::GET));
        repeat();
        let (mut parts, _) = decode(HEAD);
        parts.extensions.insert(5);
        recycle_request(parts);
        assert!(!is_kept());
    }

    #[test]
    fn a_head_that_comes_back_late_is_not_taken_for_the_one_that_is_kept_now() {
        repeat();
        let (late, _) = decode(HEAD);
        let other = HEAD.replace("Host: h", "Host: other");
        let lent: Vec<_> = (0..3).map(|_| decode(&other).0).collect();
        assert!(lent.iter().any(|head| head.what_is_known() != Known::NOTHING), "the other one is kept");
        recycle_request(late);
        assert!(!is_kept());
        assert_eq!(decode(&other).0.headers["host"], "other");
        std::thread::spawn(move || {
            repeat();
            let mine = decode(HEAD).0;
            lent.into_iter().for_each(recycle_request);
            assert!(!is_kept());
            assert_eq!(mine.headers["host"], "h");
            assert_eq!(decode(HEAD).0.headers["host"], "h");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_has_a_body_or_asks_for_more_is_not_kept_and_limits_count() {
        for head in [
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n",
            "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
        ] {
            (0..4).for_each(|_| recycle_request(decode(head).0));
            assert!(!is_kept(), "{head}");
        }
        repeat();
        let limits = HttpLimits { headers: 3, ..HttpLimits::default() };
        let mut input = BytesMut::from(HEAD);
        assert!(RequestDecoder::default().next(&mut input, &limits).is_err());
    }

    #[test]
    fn who_never_gives_headers_back_is_soon_left_alone() {
        let own = (0..100)
            .filter(|_| {
                let (parts, _) = decode(HEAD);
                parts.what_is_known() != Known::NOTHING
            })
            .count();
        assert!(own <= LOST_MAX as usize, "{own} heads were copied");
    }
}
