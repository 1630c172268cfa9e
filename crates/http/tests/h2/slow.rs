//! Drips and silence: every state has its deadline, whatever is dripped meanwhile.

use crate::peer::*;
use netwright_http::HttpLimits;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Says this, byte by byte, one in each `every`; after how many seconds the connection was told to end, and how.
fn drip(channel: Channel, bytes: &[u8], every: Duration) -> (u64, Option<u32>) {
    let mut peer = Peer { channel, heard: Vec::new() };
    let mut left = bytes.iter();
    for passed in 0..300_u64 {
        if passed.is_multiple_of(every.as_secs())
            && let Some(byte) = left.next()
        {
            peer.say([*byte]);
        }
        if let Some(code) = peer.goodbye() {
            return (passed, Some(code));
        }
        if !peer.channel.is_open() {
            return (passed, None);
        }
        peer.advance(SECOND);
    }
    panic!("it does not end");
}

#[test]
fn half_a_preface_half_a_greeting_and_no_acknowledgement_end_within_ten_seconds() {
    let limits = HttpLimits::default;
    for bytes in [&b""[..], PREFACE, &PREFACE[..5]] {
        assert_eq!(drip(server(limits()), bytes, SECOND), (10, Some(SETTINGS_TIMEOUT)));
    }
    let mut peer = Peer { channel: server(limits()), heard: Vec::new() };
    peer.say(PREFACE).say(frame(SETTINGS, 0, 0, &[])).say(get(1, "/"));
    assert!(peer.is_answered(1), "it need not wait for us");
    for _ in 0..10 {
        peer.advance(SECOND);
    }
    assert_eq!(peer.goodbye(), Some(SETTINGS_TIMEOUT));
}

#[test]
fn half_a_frame_ends_after_its_time() {
    for (what, bytes) in [
        ("the head of a frame", frame(PING, 0, 0, &[0; 8])[..5].to_vec()),
        ("a head of a request", get(1, "/")[..12].to_vec()),
        ("a head that goes on", frame(HEADERS, 0, 1, &[0x82])),
    ] {
        let mut peer = Peer::with(HttpLimits::default());
        peer.say(&bytes);
        peer.advance(SECOND * 9);
        assert_eq!(peer.goodbye(), None, "{what}");
        peer.advance(SECOND);
        assert_eq!(peer.goodbye(), Some(ENHANCE_YOUR_CALM), "{what}");
    }
    // Byte by byte it takes no longer than three times that.
    let mut peer = Peer::with(HttpLimits::default());
    for byte in frame(HEADERS, ALL, 1, &[b'x'; 200]) {
        if peer.goodbye().is_some() {
            break;
        }
        peer.say([byte]).advance(SECOND);
    }
    assert_eq!(peer.goodbye(), Some(ENHANCE_YOUR_CALM));
}

#[test]
fn a_slow_body_is_refused_however_it_is_dripped() {
    let drips: [&dyn Fn() -> Vec<u8>; 3] = [&Vec::new, &|| frame(DATA, 0, 1, b"x"), &|| {
        frame(DATA, PADDED, 1, &[&[200][..], &[b'x'; 201]].concat())
    }];
    for bytes in drips {
        let mut peer = Peer::with(HttpLimits::default());
        peer.say(post(1, "/"));
        let mut passed = 0;
        while peer.reset_of(1).is_none() {
            peer.say(bytes()).advance(SECOND);
            passed += 1;
        }
        assert!((10..=20).contains(&passed), "{passed}");
        assert!(peer.is_answered(1), "408");
        assert!(peer.serves(3), "others go on");
    }
}

#[test]
fn half_a_data_frame_is_a_slow_body_too() {
    let mut peer = Peer::with(HttpLimits::default());
    peer.say(post(1, "/")).say(&frame(DATA, 0, 1, &[0; 1000])[..20]);
    let mut passed = 0;
    while peer.reset_of(1).is_none() {
        peer.advance(SECOND);
        passed += 1;
    }
    assert!((10..=20).contains(&passed), "{passed}");
}

#[test]
fn a_silent_connection_ends_and_pings_do_not_keep_it() {
    for pings in [false, true] {
        let mut peer = Peer::with(HttpLimits::default());
        assert!(peer.serves(1));
        let mut passed = 0;
        while peer.channel.is_open() {
            if pings {
                peer.say(frame(PING, 0, 0, &[0; 8]));
            }
            peer.advance(SECOND);
            passed += 1;
        }
        assert!((60..=120).contains(&passed), "{passed}");
        assert_eq!(peer.goodbye(), Some(NO_ERROR));
    }
}

#[test]
fn who_does_not_answer_our_ping_is_closed_and_who_does_stays() {
    let mut limits = HttpLimits::default();
    (limits.http2.ping_time, limits.idle_time) = (SECOND * 20, SECOND * 1000);
    let mut peer = Peer::idle(limits.clone());
    peer.say(get(1, "/"));
    for _ in 0..100 {
        peer.advance(SECOND);
        let pings: Vec<_> = peer.heard.drain(..).filter(|heard| heard.kind == PING).collect();
        for ping in pings {
            peer.say(frame(PING, ACK, 0, &ping.payload));
        }
    }
    assert!(peer.channel.is_open());
    peer.advance(SECOND * 20);
    assert!(peer.channel.is_open());
    peer.advance(SECOND * 10);
    assert!(!peer.channel.is_open());
}
