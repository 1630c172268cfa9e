//! Anything at all: conversations cut anywhere say the same, and whatever is made of one, the server neither panics nor grows nor stays.
//!
//! `NETWRIGHT_H2_ROUNDS=100000` tries so many instead of the usual few; `NETWRIGHT_SEED=17` that one alone.

use crate::peer::*;
use http::{Request, Response};
use netwright_core::pipeline;
use netwright_http::{Body, HttpLimits, serve};
use netwright_testkit::{bytes_in_use, peak_during};
use std::{collections::BTreeMap, time::Duration};

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) as usize % most
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.below(256) as u8).collect()
    }
}

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    match number("NETWRIGHT_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("NETWRIGHT_H2_ROUNDS").unwrap_or(100)).collect(),
    }
}

/// Frames of a peer that keeps to the rules, and takes all that it is sent.
fn honest(random: &mut Random) -> Vec<Vec<u8>> {
    let mut frames = vec![window(0, 1 << 24), setting(4, 1 << 24)];
    let mut open: Vec<u32> = Vec::new();
    let mut next = 1;
    for _ in 0..random.below(40) {
        match random.below(9) {
            0 | 1 => {
                let block = [
                    fields("GET", ["/", "/a?b", "/bytes/100", "/bytes/40000"][random.below(4)]),
                    indexed(random),
                ]
                .concat();
                frames.extend(cut_head(random, next, true, &block));
                next += 2;
            }
            2 | 3 => {
                frames.extend(cut_head(random, next, false, &fields("POST", "/up")));
                open.push(next);
                next += 2;
            }
            4 | 5 if !open.is_empty() => {
                let stream = open[random.below(open.len())];
                let mut body = random.bytes(300);
                if body.is_empty() {
                    body.push(1);
                }
                if random.below(3) == 0 {
                    let padding = random.below(50);
                    body.insert(0, padding as u8);
                    body.extend(vec![0; padding]);
                    frames.push(frame(DATA, PADDED, stream, &body));
                } else {
                    frames.push(frame(DATA, 0, stream, &body));
                }
            }
            6 if !open.is_empty() => {
                let stream = open.swap_remove(random.below(open.len()));
                match random.below(3) {
                    0 => frames.extend(cut_head(random, stream, true, &field("x-end", b"yes"))),
                    1 => frames.push(frame(DATA, END_STREAM, stream, &[])),
                    _ => frames.push(frame(DATA, END_STREAM, stream, b"end")),
                }
            }
            7 => frames.push(frame(PING, 0, 0, &[random.below(256) as u8; 8])),
            _ => frames.push(match random.below(4) {
                0 => window(0, 1000),
                1 => frame(PRIORITY_UPDATE, 0, 0, b"\x00\x00\x00\x01u=1, i"),
                2 => frame(0x7f, 3, 1, b"nobody knows"),
                _ => frame(SETTINGS, 0, 0, &[]),
            }),
        }
    }
    for stream in open {
        frames.push(frame(DATA, END_STREAM, stream, &[]));
    }
    frames
}

/// A field that goes into the table, or one that may be there from before.
fn indexed(random: &mut Random) -> Vec<u8> {
    let value = [b'a' + random.below(4) as u8];
    let mut field = field("x-table", &value);
    field[0] = 0x40;
    field
}

fn cut_head(random: &mut Random, stream: u32, end: bool, block: &[u8]) -> Vec<Vec<u8>> {
    let end = u8::from(end) * END_STREAM;
    if random.below(2) == 0 {
        return vec![frame(HEADERS, END_HEADERS | end, stream, block)];
    }
    let cut = 1 + random.below(block.len() - 1);
    vec![frame(HEADERS, end, stream, &block[..cut]), frame(CONTINUATION, END_HEADERS, stream, &block[cut..])]
}

/// What each stream was told.
type Told = BTreeMap<u32, (Vec<Field>, Vec<u8>, bool, Option<u32>)>;
type Field = (Vec<u8>, Vec<u8>);

fn told(frames: &[Heard]) -> (Told, usize) {
    let mut told = Told::new();
    let mut decoder = fluke_hpack::Decoder::new();
    let mut pings = 0;
    for heard in frames {
        let of = told.entry(heard.stream).or_default();
        match heard.kind {
            HEADERS => of.0.extend(decoder.decode(&heard.payload).unwrap()),
            DATA => of.1.extend(&heard.payload),
            RESET => of.3 = heard.payload.last().map(|code| u32::from(*code)),
            PING => pings += 1,
            _ => {}
        }
        of.2 |= matches!(heard.kind, HEADERS | DATA) && heard.flags & END_STREAM != 0;
    }
    told.remove(&0);
    (told, pings)
}

#[test]
fn a_conversation_says_the_same_however_it_is_cut() {
    for seed in seeds() {
        let mut random = Random::new(seed);
        let said = honest(&mut random).concat();
        let hear = |pieces: &mut dyn FnMut() -> usize| {
            let mut peer = Peer::with(HttpLimits::default());
            let mut rest = &said[..];
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(pieces().clamp(1, rest.len()));
                peer.say(piece);
                rest = behind;
            }
            assert_eq!(peer.goodbye(), None, "seed {seed}");
            told(&peer.heard)
        };
        let whole = hear(&mut || usize::MAX);
        for (stream, (fields, _, ended, reset)) in &whole.0 {
            assert!(*ended && reset.is_none() && !fields.is_empty(), "seed {seed}, stream {stream}");
        }
        assert_eq!(hear(&mut || 1), whole, "seed {seed}, byte by byte");
        assert_eq!(hear(&mut || random.below(60)), whole, "seed {seed}, in pieces");
    }
}

/// Frames of any kind, with what may and may not be in them.
fn any(random: &mut Random) -> Vec<u8> {
    let streams = [0, 1, 1, 3, 3, 5, 7, 9, 11, 2, 0x7fff_ffff];
    let stream = streams[random.below(streams.len())];
    let flags = [0, 1, 4, 5, 5, 8, 0x20, 0xff][random.below(8)];
    match random.below(14) {
        0 | 1 => get(stream, ["/", "/bytes/70000"][random.below(2)]),
        2 => post(stream, "/"),
        3 => frame(HEADERS, flags, stream, &[fields("GET", "/"), random.bytes(20)].concat()),
        4 => frame(DATA, flags, stream, &random.bytes(200)),
        5 => frame(DATA, flags & 9, stream, &vec![0; random.below(16_000)]),
        6 => reset(stream),
        7 => window(stream, [0, 1, 1000, 0x7fff_ffff][random.below(4)]),
        8 => setting(random.below(10) as u16, [0, 1, 65_535, 0x7fff_ffff, u32::MAX][random.below(5)]),
        9 => frame(PING, flags & 1, 0, b"draining"),
        10 => frame(CONTINUATION, flags, stream, &random.bytes(50)),
        11 => frame(random.below(256) as u8, flags, stream, &random.bytes(40)),
        12 => frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]),
        _ => random.bytes(30),
    }
}

#[test]
fn whatever_comes_the_server_stays_whole_small_and_ends() {
    for seed in seeds() {
        let mut random = Random::new(seed ^ 0xabcd);
        let before = bytes_in_use();
        let (peak, ()) = peak_during(|| {
            let mut peer = match random.below(2) {
                0 => Peer::with(HttpLimits::default()),
                _ => Peer::serving(HttpLimits::default(), || {
                    pipeline().app(serve(async |request: Request<Body>| {
                        netwright_core::time::sleep(Duration::from_secs(1)).await;
                        Response::new(request.into_body())
                    }))
                }),
            };
            let mut said: Vec<Vec<u8>> = match random.below(2) {
                0 => honest(&mut random),
                _ => (0..random.below(60)).map(|_| any(&mut random)).collect(),
            };
            for _ in 0..random.below(4) {
                match said.get_mut(random.below(60)) {
                    Some(frame) if !frame.is_empty() => {
                        let at = random.below(frame.len());
                        frame[at] ^= 1 << random.below(8);
                    }
                    _ => said.push(any(&mut random)),
                }
            }
            let whole = random.below(2) == 0;
            for frame in said {
                if whole {
                    peer.say(&frame);
                } else {
                    let cut = random.below(frame.len() + 1);
                    peer.say(&frame[..cut]).say(&frame[cut..]);
                }
                match random.below(40) {
                    0 => drop(peer.advance(Duration::from_secs(random.below(15) as u64))),
                    1 => drop(peer.channel.block_output(true)),
                    2 => drop(peer.channel.block_output(false)),
                    _ => {}
                }
                peer.forget();
            }
            peer.channel.block_output(false);
            if random.below(3) == 0 {
                peer.channel.close_input();
            }
            // It ends by itself: without streams by its idle time, with some by theirs.
            for _ in 0..400 {
                peer.advance(Duration::from_secs(1));
                peer.forget();
            }
            assert!(!peer.channel.is_open(), "seed {seed}: it is still there");
        });
        assert!(peak < 3 << 20, "seed {seed}: {peak}");
        assert!(bytes_in_use() - before < 300_000, "seed {seed}: {} stay", bytes_in_use() - before);
    }
}
