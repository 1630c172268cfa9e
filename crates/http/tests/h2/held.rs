//! Memory that a peer has us hold, at most: heads, replies, bodies. Bounded for each connection, and given back.

use crate::peer::*;
use http::{Request, Response};
use netwright_core::pipeline;
use netwright_http::{Body, HttpLimits, HttpPart, serve};
use netwright_testkit::{bytes_in_use, peak_during};
use std::time::Duration;

#[test]
fn a_block_that_says_much_by_few_bytes_is_refused_while_it_is_read() {
    // A field of nearly the whole table, and then what is in it, again and again: a byte each.
    let large = field("a", &[b'x'; 4000]);
    let bomb = [&[0x40][..], &large[1..], &[0xbe; 10_000]].concat();
    let mut peer = Peer::with(HttpLimits::default());
    let block = [fields("GET", "/"), bomb].concat();
    let (peak, ()) = peak_during(|| {
        peer.say(frame(HEADERS, ALL, 1, &block));
    });
    assert!(peak < 200_000, "{peak}");
    assert!(peer.is_answered(1), "told that its head is too large");
    assert!(peer.serves(3), "and the tables are what they were");
}

#[test]
fn tiny_fields_that_are_many_are_refused() {
    let mut peer = Peer::with(HttpLimits::default());
    for (number, tiny) in
        [&[0x82][..], &[0x90], &field("a", b""), &field("cookie", b"a")].into_iter().enumerate()
    {
        let stream = 1 + 2 * number as u32;
        let block = [fields("GET", "/"), field("x", b""), tiny.repeat(12_000 / tiny.len())].concat();
        let (peak, ()) = peak_during(|| {
            peer.say(frame(HEADERS, ALL, stream, &block));
        });
        assert!(peak < 200_000, "{peak}");
        assert!(!peer.body(stream).starts_with(b"GET"));
    }
    assert!(peer.serves(99));
}

#[test]
fn heads_and_replies_that_a_closed_window_holds_are_bounded_and_do_not_stay() {
    let mut peer = Peer::with(HttpLimits::default());
    peer.say(setting(4, 0));
    let tiny: Vec<u8> = (0..90).flat_map(|number| field(&format!("x-{number}"), b"abc")).collect();
    let before = bytes_in_use();
    let (peak, ()) = peak_during(|| {
        for number in 0..100 {
            let block = [fields("GET", "/bytes/1000"), tiny.clone()].concat();
            peer.say(frame(HEADERS, ALL, 1 + 2 * number, &block));
        }
    });
    assert!(peak < 4 << 20, "{peak}");
    // None of them takes anything, so they go.
    for _ in 0..20 {
        peer.advance(Duration::from_secs(1));
    }
    assert!((0..100).all(|number| peer.reset_of(1 + 2 * number) == Some(CANCEL)));
    assert!(peer.say(get(201, "/")).say(get(203, "/")).is_answered(203), "there is room for others");
    peer.say(reset(201)).say(reset(203));
    peer.forget();
    peer.heard = Vec::new();
    assert!(bytes_in_use() - before < 50_000, "{}", bytes_in_use() - before);
}

#[test]
fn bodies_that_nobody_reads_are_bounded_by_their_windows_however_small_their_pieces() {
    for piece in [1, 100, 16_000] {
        let mut limits = HttpLimits::default();
        (limits.http2.unread, limits.http2.connection_window) = (200_000, 100_000);
        let mut peer = Peer::serving(limits, || pipeline().app(Stuck));
        let before = bytes_in_use();
        let mut sent = 0;
        'all: for number in 0..100 {
            let stream = 1 + 2 * number;
            peer.say(post(stream, "/"));
            let mut left = 65_536;
            while left > 0 {
                let len = left.min(piece);
                peer.say(frame(DATA, 0, stream, &vec![0; len]));
                (left, sent) = (left - len, sent + len);
                if peer.goodbye().is_some() {
                    break 'all;
                }
            }
        }
        let held = bytes_in_use() - before;
        // What may be unread, the window of the connection, and what keeping them costs.
        assert!(held < 700_000, "{held} for {sent} in pieces of {piece}");
        assert_eq!(peer.goodbye(), Some(FLOW_CONTROL_ERROR), "{piece}");
        assert!(sent > 190_000, "{sent} in pieces of {piece}");
    }
}

#[test]
fn a_body_that_is_too_long_is_refused_and_forgotten() {
    let mut limits = HttpLimits::default();
    limits.body = 100_000;
    let mut peer = Peer::with(limits);
    let before = bytes_in_use();
    for number in 0..50 {
        let stream = 1 + 2 * number;
        peer.say(post(stream, "/"));
        for _ in 0..7 {
            peer.say(frame(DATA, 0, stream, &[0; 15_000]));
        }
        assert_eq!(peer.reset_of(stream), Some(NO_ERROR), "behind its 413");
        peer.forget();
    }
    assert!(bytes_in_use() - before < 100_000);
    assert!(peer.serves(1001));
}

#[test]
fn huge_and_nested_trailers_are_refused() {
    let mut peer = Peer::with(HttpLimits::default());
    let large = field("a", &[b'x'; 9000]);
    peer.say(post(1, "/")).say(frame(HEADERS, ALL, 1, &large));
    assert_eq!(peer.reset_of(1), Some(NO_ERROR), "behind its 431");
    peer.say(post(3, "/")).say(frame(HEADERS, END_HEADERS, 3, &field("a", b"b")));
    assert_eq!(peer.reset_of(3), Some(PROTOCOL_ERROR), "trailers behind trailers");
    peer.say(post(5, "/")).say(frame(HEADERS, ALL, 5, &fields("GET", "/admin")));
    assert_eq!(peer.reset_of(5), Some(PROTOCOL_ERROR), "a request in trailers");
    let many: Vec<u8> = (0..101).flat_map(|_| field("a", b"b")).collect();
    peer.say(post(7, "/")).say(frame(HEADERS, ALL, 7, &many));
    assert!(peer.reset_of(7).is_some());
    assert!(peer.serves(9));
}

#[test]
fn a_file_of_bodies_that_are_echoed_holds_what_windows_allow() {
    let echo = || pipeline().app(serve(async |request: Request<Body>| Response::new(request.into_body())));
    let mut peer = Peer::serving(HttpLimits::default(), echo);
    peer.say(setting(4, 0));
    let before = bytes_in_use();
    for number in 0..100 {
        let stream = 1 + 2 * number;
        peer.say(post(stream, "/")).say(frame(DATA, 0, stream, &[0; 16_000]));
    }
    let held = bytes_in_use() - before;
    assert!(held < 4 << 20, "{held}");
    assert_eq!(peer.goodbye(), None);
}

#[test]
fn an_idle_connection_holds_nothing_of_what_was_said() {
    let mut peer = Peer::with(HttpLimits::default());
    assert!(peer.serves(1));
    peer.forget();
    let before = bytes_in_use();
    for number in 1..1000 {
        let stream = 1 + 2 * number;
        peer.say(post(stream, "/")).say(frame(DATA, END_STREAM, stream, &[0; 5000]));
        assert!(peer.is_answered(stream));
        peer.forget();
    }
    assert!(bytes_in_use() - before < 20_000, "{}", bytes_in_use() - before);
}

/// An application that takes the head and nothing else.
struct Stuck;

impl netwright_core::Application for Stuck {
    type Read = netwright_http::RequestPart;
    type Write = netwright_http::ReplyPart;
    fn read(&mut self, cx: &mut netwright_core::AppContext<'_, Self>, part: netwright_http::RequestPart) {
        if let HttpPart::Head(_) = part {
            cx.pause();
        }
    }
}
