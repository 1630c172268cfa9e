//! Floods: many frames that are cheap to send. Each has a price, and without points the connection ends; whoever asks within reason beside
//! them is served.

use crate::peer::*;
use netwright_http::HttpLimits;
use netwright_testkit::{bytes_in_use, peak_during};
use std::time::Duration;

/// Says a flood until the connection ends. How often that took, and the most that was in memory meanwhile.
fn flood(peer: &mut Peer, mut next: impl FnMut(u32) -> Vec<u8>) -> (u32, u64) {
    let before = bytes_in_use();
    let mut times = 0;
    let (peak, ()) = peak_during(|| {
        while peer.goodbye().is_none() && times < 100_000 {
            let bytes = next(times);
            peer.say(bytes);
            peer.forget_all_but_goodbye();
            times += 1;
        }
    });
    assert!(bytes_in_use() - before < 100_000, "{} stay", bytes_in_use() - before);
    assert_eq!(peer.goodbye(), Some(ENHANCE_YOUR_CALM), "after {times}");
    peer.advance(Duration::from_secs(2));
    assert!(!peer.channel.is_open());
    (times, peak)
}

impl Peer {
    fn forget_all_but_goodbye(&mut self) {
        self.listen();
        self.heard.retain(|heard| heard.kind == GOAWAY);
    }
}

/// Floods that take one frame each, and what each costs.
#[test]
fn floods_of_frames_that_say_nothing_end_the_connection_and_hold_no_memory() {
    let cases: [(&str, u32, Vec<u8>); 14] = [
        ("pings", 1, frame(PING, 0, 0, &[0; 8])),
        ("answers to pings", 1, frame(PING, ACK, 0, &[0; 8])),
        ("settings", 1, frame(SETTINGS, 0, 0, &[])),
        ("settings that change all windows", 1, setting(4, 0x7fff_0000)),
        ("settings of the table", 1, [setting(1, 0), setting(1, 4096)].concat()),
        ("acknowledgements", 1, frame(SETTINGS, ACK, 0, &[])),
        ("priorities", 1, frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 0])),
        ("priorities of streams that are not there", 1, frame(PRIORITY, 0, 77, &[0, 0, 0, 77, 0])),
        ("new priorities", 1, frame(PRIORITY_UPDATE, 0, 0, b"\x00\x00\x00\x01u=1")),
        ("frames that nobody knows", 1, frame(0xbe, 0, 0, b"x")),
        ("credit", 1, window(1, 1)),
        ("credit of a stream that is over", 1, window(3, 1)),
        ("empty data", 10, frame(DATA, 0, 1, &[])),
        ("padding", 10, frame(DATA, PADDED, 1, &[3, 0, 0, 0])),
    ];
    for (what, price, bytes) in cases {
        let mut peer = Peer::idle(HttpLimits::default());
        peer.say(post(1, "/")).say(get(3, "/")).say(reset(3));
        let (times, peak) = flood(&mut peer, |_| bytes.repeat(100));
        let frames = times * 100;
        assert!(frames * price <= 1200, "{what}: {frames}");
        assert!(peak < 200_000, "{what}: {peak}");
    }
}

#[test]
fn within_reason_the_same_frames_are_served() {
    let mut peer = Peer::with(HttpLimits::default());
    for second in 0..100 {
        for number in 0..90 {
            let stream = 1 + 2 * (second * 90 + number);
            peer.say(frame(PING, 0, 0, &[0; 8])).say(get(stream, "/bytes/7"));
            assert_eq!(peer.body(stream), b"xxxxxxx");
        }
        peer.forget();
        peer.advance(Duration::from_secs(1));
    }
    assert_eq!(peer.goodbye(), None);
}

#[test]
fn rapid_reset_ends_the_connection_before_much_was_done() {
    let mut peer = Peer::idle(HttpLimits::default());
    let (times, peak) = flood(&mut peer, |time| {
        (0..10)
            .flat_map(|number| {
                let stream = 1 + 2 * (10 * time + number);
                [get(stream, "/"), reset(stream)].concat()
            })
            .collect()
    });
    assert!(times <= 11, "{times}");
    assert!(peak < 500_000, "{peak}");
}

/// What is said for a stream.
type Way<'a> = &'a dyn Fn(u32) -> Vec<u8>;

#[test]
fn resets_that_the_server_is_made_to_send_cost_the_same() {
    let with_length = |stream| {
        frame(HEADERS, END_HEADERS, stream, &[fields("POST", "/"), field("content-length", b"3")].concat())
    };
    let ways: [(&str, Way); 12] = [
        ("no increment", &|stream| [get(stream, "/"), window(stream, 0)].concat()),
        ("overflow", &|stream| [get(stream, "/"), window(stream, 0x7fff_ffff)].concat()),
        ("data behind the end", &|stream| [get(stream, "/"), frame(DATA, 0, stream, b"x")].concat()),
        ("head behind the end", &|stream| [get(stream, "/"), frame(HEADERS, ALL, stream, &[0x82])].concat()),
        ("priority of four bytes", &|stream| {
            [get(stream, "/"), frame(PRIORITY, 0, stream, &[0; 4])].concat()
        }),
        ("more than was announced", &|stream| {
            [with_length(stream), frame(DATA, 0, stream, b"four")].concat()
        }),
        ("less than was announced", &|stream| {
            [with_length(stream), frame(DATA, END_STREAM, stream, b"2!")].concat()
        }),
        ("trailers that end nothing", &|stream| {
            [post(stream, "/"), frame(HEADERS, END_HEADERS, stream, &field("a", b"b"))].concat()
        }),
        ("bad trailers", &|stream| [post(stream, "/"), frame(HEADERS, ALL, stream, &[0x82])].concat()),
        ("long trailers", &|stream| {
            [post(stream, "/"), frame(HEADERS, ALL, stream, &field("a", &[b'x'; 9000]))].concat()
        }),
        ("a bad request", &|stream| frame(HEADERS, ALL, stream, &[0x82])),
        ("a long head", &|stream| {
            let head = [fields("GET", "/"), field("a", &[b'x'; 10_000])].concat();
            [
                frame(HEADERS, END_STREAM, stream, &head),
                frame(CONTINUATION, END_HEADERS, stream, &field("b", &[b'x'; 9000])),
            ]
            .concat()
        }),
    ];
    for (what, attack) in ways {
        let mut peer = Peer::idle(HttpLimits::default());
        let (times, peak) = flood(&mut peer, |time| attack(1 + 2 * time));
        assert!(times <= 102, "{what}: {times}");
        assert!(peak < 300_000, "{what}: {peak}");
    }
}

#[test]
fn more_streams_than_allowed_are_refused_and_cost_as_much() {
    let mut peer = Peer::idle(HttpLimits::default());
    for number in 0..100 {
        peer.say(post(1 + 2 * number, "/"));
    }
    assert!(peer.listen().iter().all(|heard| heard.kind != RESET));
    peer.say(post(201, "/"));
    assert_eq!(peer.reset_of(201), Some(REFUSED_STREAM));
    let (times, _) = flood(&mut peer, |time| post(203 + 2 * time, "/"));
    assert!(times <= 100, "{times}");
}

#[test]
fn heads_in_many_pieces_end_the_connection() {
    for pieces in [&b""[..], b"\x82"] {
        let mut peer = Peer::idle(HttpLimits::default());
        let (peak, ()) = peak_during(|| {
            peer.say(frame(HEADERS, END_STREAM, 1, &[0x82]));
            peer.say(frame(CONTINUATION, 0, 1, pieces).repeat(10_000));
        });
        assert_eq!(peer.goodbye(), Some(ENHANCE_YOUR_CALM));
        assert!(peak < 500_000, "{peak}"); // what was read at once is there before it is looked at
    }
    // As much as there can be.
    let mut peer = Peer::idle(HttpLimits::default());
    let (peak, ()) = peak_during(|| {
        peer.say(frame(HEADERS, END_STREAM, 1, &[0; 16_384]));
        for _ in 0..4 {
            peer.say(frame(CONTINUATION, 0, 1, &[0; 16_384]));
        }
    });
    assert!(peak < 300_000, "{peak}");
    assert_eq!(peer.goodbye(), None);
    peer.say(frame(CONTINUATION, 0, 1, &[0; 16_384]));
    assert_eq!(peer.goodbye(), Some(ENHANCE_YOUR_CALM));
}

#[test]
fn heads_that_begin_with_nothing_cost_points() {
    let mut peer = Peer::idle(HttpLimits::default());
    let (times, _) = flood(&mut peer, |time| {
        [
            frame(HEADERS, END_STREAM, 1 + 2 * time, &[]),
            frame(CONTINUATION, END_HEADERS, 1 + 2 * time, &fields("GET", "/")),
        ]
        .concat()
    });
    assert!(times <= 101, "{times}");
}

#[test]
fn streams_that_are_opened_when_it_is_too_late_are_not_looked_at() {
    let mut limits = HttpLimits::default();
    limits.requests = 1;
    let mut peer = Peer::idle(limits);
    peer.say(get(1, "/"));
    assert_eq!(peer.goodbye(), Some(NO_ERROR));
    let ping = peer.heard.iter().find(|heard| heard.kind == PING).unwrap().payload.clone();
    peer.say(frame(PING, ACK, 0, &ping));
    peer.forget();
    let before = bytes_in_use();
    for number in 1..20_000 {
        peer.say(get(1 + 2 * number, "/"));
    }
    assert_eq!(peer.listen(), []);
    assert!(bytes_in_use() - before < 10_000);
    peer.advance(Duration::from_secs(33));
    assert!(!peer.channel.is_open(), "grace is over");
}

#[test]
fn priorities_in_circles_are_no_tree() {
    let mut peer = Peer::with(HttpLimits::default());
    for stream in [1, 3, 5] {
        let mut head = (((stream + 2) % 6) | 0x8000_0000_u32).to_be_bytes().to_vec();
        head.push(255);
        head.extend(fields("GET", "/bytes/100000"));
        peer.say(frame(HEADERS, ALL | WITH_PRIORITY, stream, &head));
    }
    for (stream, on) in [(1_u32, 1_u32), (1, 3), (3, 5), (5, 1)] {
        peer.say(frame(PRIORITY, 0, stream, &[&on.to_be_bytes()[..], &[1]].concat()));
    }
    peer.say(window(0, 1 << 20)).say([window(1, 1 << 20), window(3, 1 << 20), window(5, 1 << 20)].concat());
    for stream in [1, 3, 5] {
        assert_eq!(peer.body(stream).len(), 100_000);
    }
}

#[test]
fn new_priorities_for_waiting_streams_keep_each_on_one_list() {
    let mut limits = HttpLimits::default();
    limits.http2.points = 1_000_000;
    let mut peer = Peer::with(limits);
    peer.channel.block_output(true);
    for number in 0..50 {
        peer.say(get(1 + 2 * number, "/bytes/20000"));
    }
    let before = bytes_in_use();
    for number in 0..20_000_u32 {
        let value = format!("u={}{}", number % 8, if number % 3 == 0 { ", i" } else { "" });
        let stream = 1 + 2 * (number % 50);
        peer.say(frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], value.as_bytes()].concat()));
    }
    assert!(bytes_in_use() - before < 50_000, "{}", bytes_in_use() - before);
    peer.channel.block_output(false);
    peer.say(window(0, 1 << 22));
    peer.listen();
    for number in 0..50 {
        assert_eq!(peer.body(1 + 2 * number).len(), 20_000, "{number}");
    }
}

#[test]
fn answers_to_pings_that_nobody_reads_do_not_heap_up() {
    let mut peer = Peer::with(HttpLimits::default());
    peer.channel.block_output(true);
    let before = bytes_in_use();
    for _ in 0..10_000 {
        peer.say(frame(PING, 0, 0, &[0; 8]));
    }
    assert!(bytes_in_use() - before < 100_000, "{}", bytes_in_use() - before);
    peer.channel.block_output(false);
    assert_eq!(peer.goodbye(), Some(ENHANCE_YOUR_CALM));
}
