//! HTTP/2, as hostile and honest clients speak it: heads are written without compression, and only the status of replies is looked at.

use super::{
    Link, Site,
    honest::Failure,
    script::{self, Exchange},
};
use crate::verify::Numbers;
use std::collections::BTreeMap;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// What may be sent on a stream before anything is granted.
const WINDOW: usize = 65_535;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![a, b, c, kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn window(stream: u32, by: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

/// A field that goes into no table; names and values are short.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        bytes.push(text.len().min(126) as u8);
        bytes.extend(&text.as_bytes()[..text.len().min(126)]);
    }
    bytes
}

fn head(method: &str, path: &str) -> Vec<u8> {
    [field(":method", method), field(":scheme", "http"), field(":path", path), field(":authority", "a")]
        .concat()
}

fn request(stream: u32, method: &str, path: &str, end: bool) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | if end { END_STREAM } else { 0 }, stream, &head(method, path))
}

// ---- what is not ----

/// A stream of frames, of which some are none, or come where they must not.
pub(super) fn frames(numbers: &mut Numbers, site: &Site) -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    bytes.extend(match numbers.below(4) {
        0 => setting(4, 0),
        1 => setting(4, 1 << 30),
        _ => frame(SETTINGS, 0, 0, &[]),
    });
    if numbers.below(4) > 0 {
        bytes.extend(frame(SETTINGS, 1, 0, &[]));
    }
    let flood = (numbers.below(3) == 0).then(|| numbers.below(16));
    let mut next = 1;
    for _ in 0..[1, 5, 40, 400][numbers.below(4)] {
        bytes.extend(any(numbers, site, &mut next, flood));
    }
    bytes
}

fn any(numbers: &mut Numbers, site: &Site, next: &mut u32, flood: Option<usize>) -> Vec<u8> {
    let new = *next;
    *next += 2;
    let old = new.saturating_sub(2 * numbers.below(6) as u32).max(1);
    let path = site.pages.get(numbers.below(site.pages.len().max(1))).map_or("/", |(path, _)| path);
    let echo = site.echo.as_deref().unwrap_or(path);
    match flood.unwrap_or_else(|| numbers.below(20)) {
        0 => [request(new, "GET", path, true), frame(RESET, 0, new, &[0, 0, 0, 8])].concat(),
        1 => [request(new, "GET", path, true), window(new, 0)].concat(),
        2 => [request(new, "POST", echo, false), frame(DATA, 0, new, &vec![b'x'; numbers.below(10_000)])]
            .concat(),
        3 => [
            request(new, "POST", echo, false),
            frame(HEADERS, END_HEADERS | END_STREAM, new, &field("a", "b")),
        ]
        .concat(),
        4 => frame(PING, 0, 0, &[1; 8]),
        5 => frame(SETTINGS, 0, 0, &[]),
        6 => frame(DATA, 0, old, &[]),
        7 => window(old, 1),
        8 => window(0, [1, 1000, 0x7fff_ffff][numbers.below(3)]),
        9 => [
            frame(HEADERS, 0, new, &head("GET", path)),
            frame(CONTINUATION, numbers.below(8) as u8, new, &[]),
        ]
        .concat(),
        10 => {
            frame(HEADERS, END_HEADERS | END_STREAM, new, &[&head("GET", path)[..], &[0x90; 5000]].concat())
        }
        11 => frame(16, 0, 0, &[&old.to_be_bytes()[..], b"u=0, i"].concat()),
        12 => frame(2, 0, old, &[0, 0, 0, 1, 9]),
        13 => frame(numbers.below(256) as u8, numbers.below(256) as u8, old, &[7; 40]),
        14 => frame(RESET, 0, old, &[0, 0, 0, 8]),
        15 => frame(GOAWAY, 0, 0, &[0; 8]),
        _ => request(new, "GET", path, true),
    }
}

// ---- what is right ----

/// Asks for some things at once on one connection, and says how many.
pub(super) fn converse(link: &mut dyn Link, site: &Site, numbers: &mut Numbers) -> Result<usize, Failure> {
    let exchanges: Vec<_> = (0..1 + numbers.below(6)).map(|_| script::exchange(numbers, site)).collect();
    let mut said = [PREFACE, &setting(4, 1 << 24), &window(0, 1 << 24)].concat();
    let mut open = BTreeMap::new();
    for (number, exchange) in exchanges.iter().enumerate() {
        let stream = 1 + 2 * number as u32;
        let target = target_of(&exchange.bytes);
        let body = if target.0 == "POST" { &exchange.body[..] } else { &[] };
        debug_assert!(body.len() <= WINDOW);
        said.extend(request(stream, target.0, target.1, body.is_empty()));
        let mut pieces = body.chunks(16_384).peekable();
        while let Some(piece) = pieces.next() {
            said.extend(frame(DATA, u8::from(pieces.peek().is_none()), stream, piece));
        }
        open.insert(stream, (exchange, Vec::new()));
    }
    link.write_all(&said)?;
    link.flush()?;
    while !open.is_empty() {
        let mut begin = [0; 9];
        link.read_exact(&mut begin)?;
        let [a, b, c, kind, flags, d, e, f, g] = begin;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        link.read_exact(&mut payload)?;
        let stream = u32::from_be_bytes([d, e, f, g]);
        let ends = matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0;
        match kind {
            // ":status 200" is the eighth of the fields that everybody knows. One before the answer is not indexed.
            HEADERS
                if payload.first() == Some(&0x88)
                    || !ends && payload.windows(3).any(|text| text == b"100") => {}
            HEADERS if payload.windows(3).any(|text| text == b"408") => {
                return Err(Failure::Cut("too slow".to_owned()));
            }
            HEADERS => return Err(Failure::Wrong(format!("a head of {payload:?} on stream {stream}"))),
            DATA => match open.get_mut(&stream) {
                Some((_, body)) => body.extend(&payload),
                None => return Err(Failure::Wrong(format!("data of stream {stream}, which is over"))),
            },
            SETTINGS if flags & 1 == 0 => link.write_all(&frame(SETTINGS, 1, 0, &[]))?,
            PING if flags & 1 == 0 => link.write_all(&frame(PING, 1, 0, &payload))?,
            RESET | GOAWAY => return Err(Failure::Cut(format!("a frame {kind}: {payload:?}"))),
            _ => {}
        }
        if ends && let Some((exchange, body)) = open.remove(&stream) {
            check(exchange, &body)?;
        }
    }
    Ok(exchanges.len())
}

fn check(exchange: &Exchange, body: &[u8]) -> Result<(), Failure> {
    let expected: &[u8] = if exchange.head { &[] } else { &exchange.body };
    if body == expected {
        return Ok(());
    }
    Err(Failure::Wrong(format!(
        "a body of {} bytes instead of {}, or another one",
        body.len(),
        expected.len()
    )))
}

/// The method and the path of a request of HTTP/1.1.
fn target_of(bytes: &[u8]) -> (&str, &str) {
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = std::str::from_utf8(line).unwrap_or_default().split(' ');
    (words.next().unwrap_or("GET"), words.next().unwrap_or("/"))
}
