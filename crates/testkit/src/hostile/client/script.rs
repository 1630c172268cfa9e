//! What clients send, by the numbers of a seed.

use super::{Site, http2, socket};
use crate::verify::Numbers;
use std::time::Duration;

/// A request, and what has to come of it.
pub(super) struct Exchange {
    pub(super) bytes: Vec<u8>,
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// The reply to a HEAD: its length is told, and nothing follows.
    pub(super) head: bool,
}

/// What one hostile connection does.
pub(super) struct Plan {
    pub(super) bytes: Vec<u8>,
    pub(super) pieces: Pieces,
    pub(super) reading: Reading,
    pub(super) ending: Ending,
    /// Without what belongs around the connection.
    pub(super) bare: bool,
}

/// How it is sent.
pub(super) struct Pieces {
    pub(super) max: usize,
    pub(super) pause: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    All,
    Slowly,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Finish,
    Close,
    Reset,
    Silence,
}

fn one_of<T: Copy>(numbers: &mut Numbers, of: &[T]) -> T {
    of[numbers.below(of.len())]
}

fn chance(numbers: &mut Numbers, one_in: usize) -> bool {
    numbers.below(one_in) == 0
}

/// Letters, so that bodies can be told apart when they are printed.
fn letters(numbers: &mut Numbers, len: usize) -> Vec<u8> {
    (0..len).map(|_| b'a' + numbers.below(26) as u8).collect()
}

// ---- what is right ----

/// A request that a server of this site has to answer.
pub(super) fn exchange(numbers: &mut Numbers, site: &Site) -> Exchange {
    match &site.echo {
        Some(path) if chance(numbers, 2) => echo(numbers, path),
        _ => page(numbers, site),
    }
}

fn page(numbers: &mut Numbers, site: &Site) -> Exchange {
    // The large one is asked for now and then, as it takes its time.
    let large = site.pages.iter().position(|(_, body)| body.len() > 100_000);
    let at = numbers.below(site.pages.len());
    let at = if Some(at) == large && !chance(numbers, 8) { 0 } else { at };
    let (path, body) = &site.pages[at];
    let head = chance(numbers, 5);
    let method = if head { "HEAD" } else { "GET" };
    let host =
        one_of(numbers, &["Host: example", "hOST:example:80", "Host: [::1]:8080", "Host:  127.0.0.1 "]);
    let more = one_of(numbers, &["", "Accept: */*\r\n", "X-Empty:\r\n", "Connection: keep-alive\r\n"]);
    let bytes = format!("{method} {path} HTTP/1.1\r\n{host}\r\n{more}\r\n").into_bytes();
    Exchange { bytes, status: 200, body: body.to_vec(), head }
}

fn echo(numbers: &mut Numbers, path: &str) -> Exchange {
    let len = one_of(numbers, &[0, 1, 10, 1000, 20_000, 60_000]);
    let body = letters(numbers, len);
    let expect = if chance(numbers, 4) { "Expect: 100-continue\r\n" } else { "" };
    let mut bytes = format!("POST {path} HTTP/1.1\r\nHost: example\r\n{expect}").into_bytes();
    if chance(numbers, 2) {
        bytes.extend(format!("Content-Length: {len}\r\n\r\n").into_bytes());
        bytes.extend(&body);
    } else {
        bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
        bytes.extend(chunked(numbers, &body));
    }
    Exchange { bytes, status: 200, body, head: false }
}

fn chunked(numbers: &mut Numbers, body: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), body);
    while !rest.is_empty() {
        let len = (1 + numbers.below(5000)).min(rest.len());
        let extension = one_of(numbers, &["", "", ";a", ";a=1", ";a=\"b;c\""]);
        let zeros = one_of(numbers, &["", "0"]);
        bytes.extend(format!("{zeros}{len:x}{extension}\r\n").into_bytes());
        bytes.extend(&rest[..len]);
        bytes.extend(b"\r\n");
        rest = &rest[len..];
    }
    bytes.extend(one_of(numbers, &[&b"0\r\n\r\n"[..], b"000;last\r\n\r\n", b"0\r\nX-Trailer: 1\r\n\r\n"]));
    bytes
}

// ---- what is not ----

/// What a hostile connection does.
pub(super) fn plan(numbers: &mut Numbers, site: &Site) -> Plan {
    let mut bytes = match &site.socket {
        Some(path) if chance(numbers, 2) => frames(numbers, path),
        _ if site.http2 && !chance(numbers, 4) => http2::frames(numbers, site),
        _ => requests(numbers, site),
    };
    for _ in 0..one_of(numbers, &[0, 0, 1, 1, 2, 5]) {
        mutate(numbers, &mut bytes);
    }
    if chance(numbers, 2) {
        let cut = numbers.below(bytes.len() + 1);
        bytes.truncate(cut);
    }
    let pieces = match numbers.below(4) {
        0 => Pieces { max: 1 + numbers.below(50), pause: Duration::ZERO },
        1 => {
            // Drips: the rest never comes.
            let most = bytes.len().saturating_sub(numbers.below(30));
            let drips = bytes.split_off(most.min(bytes.len()));
            let begins = bytes.len();
            bytes.extend(drips);
            bytes.truncate(begins + 25);
            Pieces { max: (begins / 25).max(1), pause: Duration::from_millis(20) }
        }
        _ => Pieces { max: usize::MAX / 2, pause: Duration::ZERO },
    };
    Plan {
        bytes,
        pieces,
        reading: one_of(numbers, &[Reading::All, Reading::Slowly, Reading::Nothing]),
        ending: one_of(
            numbers,
            &[Ending::Finish, Ending::Close, Ending::Reset, Ending::Silence, Ending::Silence],
        ),
        bare: chance(numbers, 6),
    }
}

/// Several requests in one stream, many of the large page among them.
fn requests(numbers: &mut Numbers, site: &Site) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..one_of(numbers, &[1, 1, 2, 5, 40]) {
        match (numbers.below(8), site.pages.last()) {
            (0, Some((path, _))) => {
                bytes.extend(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(3).into_bytes());
            }
            (1, _) => bytes.extend(ODD[numbers.below(ODD.len())]),
            _ => bytes.extend(exchange(numbers, site).bytes),
        }
    }
    bytes
}

/// Requests that are right in their own way, or wrong in one.
const ODD: &[&[u8]] = &[
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET http://example/ HTTP/1.1\r\nHost: example\r\n\r\n",
    b"CONNECT example:80 HTTP/1.1\r\nHost: example:80\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: unknown\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /%2e%2e%2f HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0,5-,-1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\nmore than there is",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: wonders\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\r\n\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
];

/// A request for a WebSocket, and frames, some of which are none.
fn frames(numbers: &mut Numbers, path: &str) -> Vec<u8> {
    let mut bytes = socket::request(path);
    for _ in 0..one_of(numbers, &[1, 3, 10, 100]) {
        let len = one_of(numbers, &[0, 1, 125, 126, 1000, 65_536]);
        let payload = letters(numbers, len);
        match numbers.below(12) {
            0 => bytes.extend(socket::frame(0x1, &payload)), // a fragment without an end
            1 => bytes.extend(socket::frame(0x89, &payload[..len.min(125)])),
            2 => bytes.extend(socket::frame(0x88, b"\x03\xe8bye")),
            3 => bytes.extend(socket::frame(numbers.below(256) as u8, &payload)),
            4 => bytes.extend([0x82, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), // more than anybody takes
            5 => bytes.extend([0x81, 0x05]),                                     // without a mask
            _ => bytes.extend(socket::frame(0x82, &payload)),
        }
    }
    bytes
}

/// Changes something.
fn mutate(numbers: &mut Numbers, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = numbers.below(bytes.len());
    match numbers.below(8) {
        0 => bytes[at] ^= 1 << numbers.below(8),
        1 => bytes[at] = one_of(numbers, b"\0\r\n \t:;,\x7f\xff"),
        2 => _ = bytes.remove(at),
        3 => bytes.insert(at, one_of(numbers, b"\0\r\n \t:;,0\xff")),
        4 => {
            let piece = letters(numbers, 40_000);
            bytes.splice(at..at, piece);
        }
        5 => {
            let end = (at + numbers.below(200)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        6 => {
            let end = (at + numbers.below(200)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let header = one_of(
                numbers,
                &[
                    "Content-Length: 7\r\n",
                    "Transfer-Encoding: chunked\r\n",
                    "Host: b\r\n",
                    "Connection: close\r\n",
                ],
            );
            if let Some(line) = bytes[at..].windows(2).position(|two| two == b"\r\n") {
                let at = at + line + 2;
                bytes.splice(at..at, header.bytes());
            }
        }
    }
}
