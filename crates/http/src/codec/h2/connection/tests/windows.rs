//! Flow control: nothing is sent that was not granted, and all that was taken is granted again.

use super::{
    app::{bytes, replies, serving},
    peer::Heard,
};
use crate::{
    codec::h2::{code::ErrorCode, frame::Settings},
    limits::HttpLimits,
    message::HttpPart,
};
use std::{collections::BTreeMap, time::Duration};

#[test]
fn a_setting_changes_the_windows_of_open_streams_even_below_nothing() {
    let (mut peer, _) = serving(HttpLimits::default(), replies(20_000));
    let window = |size| Settings { initial_window_size: Some(size), ..Settings::default() };
    peer.settings(&window(100)).get(1, "/").send();
    assert_eq!(bytes(&peer.hear()), 100);
    peer.settings(&window(0)).window_update(1, 100).send();
    assert_eq!(bytes(&peer.hear()), 0, "a hundred were sent of none");
    peer.window_update(1, 1).send();
    assert_eq!(bytes(&peer.hear()), 1);
    peer.settings(&window(1000)).send();
    assert_eq!(bytes(&peer.hear()), 1000);
    peer.settings(&window(30_000)).send();
    assert_eq!(bytes(&peer.hear()), 20_000 - 1101);
    assert_eq!(
        peer.settings(&window((1 << 31) - 1)).send().hear(),
        [Heard::SettingsAck],
        "no stream is left"
    );
}

#[test]
fn windows_that_grow_too_large_end_their_stream_or_the_connection() {
    let (mut peer, _) = serving(HttpLimits::default(), |_, _| ());
    let heard = peer.window_update(0, (1 << 31) - 1).send().hear();
    assert_eq!(heard[0].goodbye(), Some(ErrorCode::FLOW_CONTROL_ERROR));
    let (mut peer, _) = serving(HttpLimits::default(), |_, _| ());
    peer.get(1, "/").window_update(1, 1 << 30).send();
    let more = Settings { initial_window_size: Some((1 << 31) - 1), ..Settings::default() };
    assert_eq!(peer.settings(&more).send().hear()[0].goodbye(), Some(ErrorCode::FLOW_CONTROL_ERROR));
}

#[test]
fn more_than_was_granted_ends_the_stream_or_the_connection() {
    let mut limits = HttpLimits::default();
    limits.http2.stream_window = 100_000;
    let (mut peer, _) = serving(limits, |cx, _| cx.pause());
    peer.request(1, "POST", "/", &[], false);
    for _ in 0..6 {
        peer.data(1, &[0; 16_384], false);
    }
    assert_eq!(peer.send().hear(), []);
    let heard = peer.data(1, &[0; 16_384], false).send().hear();
    assert_eq!(heard, [Heard::Reset { stream: 1, code: ErrorCode::FLOW_CONTROL_ERROR }]);

    let mut limits = HttpLimits::default();
    (limits.http2.stream_window, limits.http2.connection_window, limits.http2.unread) = (1 << 20, 1 << 16, 0);
    let (mut peer, _) = serving(limits, |cx, _| cx.pause());
    peer.request(1, "POST", "/", &[], false);
    for _ in 0..5 {
        peer.data(1, &[0; 16_384], false);
    }
    assert_eq!(peer.send().hear()[0].goodbye(), Some(ErrorCode::FLOW_CONTROL_ERROR));
}

#[test]
fn a_peer_that_has_not_heard_of_a_small_window_may_send_as_much_as_others_and_is_not_stuck_then() {
    use crate::codec::h2::{connection::http2_server, frame::PREFACE};
    use netwright_core::{EmbeddedChannel, pipeline};
    let mut limits = HttpLimits::default();
    limits.http2.stream_window = 1000;
    limits.http2.stream_window_max = 1000;
    let app = || {
        pipeline().app(crate::respond(|request: &crate::Received| {
            http::Response::new(request.body().len().to_string())
        }))
    };
    let server = http2_server(app).limits(limits);
    let mut peer = super::peer::Peer::silent(EmbeddedChannel::of(pipeline().last(server)));
    peer.raw(PREFACE).settings(&Settings::default()).request(1, "POST", "/", &[], false);
    for _ in 0..3 {
        peer.data(1, &[b'x'; 16_384], false);
    }
    assert!(peer.send().hear().iter().all(|heard| !matches!(heard, Heard::Reset { .. })));
    // From its acknowledgement on, the peer counts with our setting: it has sent more than that, and waits.
    let mut window = 1000_i64 - 3 * 16_384;
    let mut heard = peer.settings_ack().send().hear();
    for _ in 0..1000 {
        for heard in heard.drain(..) {
            if let Heard::WindowUpdate { stream: 1, by } = heard {
                window += i64::from(by);
            }
        }
        assert!(window <= 1000, "more was granted than the window holds");
        let Some(len) = usize::try_from(window).ok().filter(|len| *len > 0) else { break };
        window -= len as i64;
        heard = peer.data(1, &vec![b'x'; len], false).send().hear();
    }
    // What was sent too much before is granted as it was read.
    let all = peer.data(1, b"", true).send().hear();
    assert_eq!(all[0].status(), Some("200"), "{all:?}");
}

#[test]
fn whoever_grants_nothing_loses_the_reply_and_whoever_grants_drops_too() {
    for (drop, every) in [(0, 1000), (1, 100), (100, 1000)] {
        let (mut peer, told) = serving(HttpLimits::default(), replies(1_000_000));
        peer.settings(&Settings { initial_window_size: Some(0), ..Settings::default() }).get(1, "/").send();
        let mut reset_after = None;
        for passed in (0..40_000).step_by(every) {
            if drop > 0 {
                peer.window_update(1, drop).send();
            }
            peer.channel.advance(Duration::from_millis(every as u64));
            let reset = Heard::Reset { stream: 1, code: ErrorCode::CANCEL };
            if reset_after.is_none() && peer.hear().contains(&reset) {
                reset_after = Some(passed);
            }
        }
        let after = reset_after.expect("it is reset");
        assert!((9_000..=20_000).contains(&after), "{drop} in {every}: after {after}");
        assert_eq!(told.take().len(), 2, "refused and ended");
    }
    let (mut peer, _) = serving(HttpLimits::default(), replies(1_000_000));
    peer.settings(&Settings { initial_window_size: Some(0), ..Settings::default() }).get(1, "/").send();
    for _ in 0..100 {
        peer.window_update(1, 250).send();
        peer.channel.advance(Duration::from_secs(1));
        assert!(!peer.hear().iter().any(|heard| matches!(heard, Heard::Reset { .. })), "that is enough");
    }
}

#[test]
fn replies_that_wait_for_the_connection_are_as_slow_as_all_of_them_together() {
    let (mut peer, _) = serving(HttpLimits::default(), replies(1_000_000));
    peer.settings(&Settings { initial_window_size: Some(1 << 30), ..Settings::default() });
    for stream in 0..20 {
        peer.get(1 + 2 * stream, "/");
    }
    peer.send();
    // 10 KB/s for one after the other.
    for _ in 0..100 {
        peer.window_update(0, 10_000).send();
        peer.channel.advance(Duration::from_secs(1));
        let heard = peer.hear();
        assert!(!heard.iter().any(|heard| matches!(heard, Heard::Reset { .. })), "{heard:?}");
    }
    // Half of what twenty need.
    let mut resets = 0;
    for _ in 0..25 {
        peer.window_update(0, 2_400).send();
        peer.channel.advance(Duration::from_secs(1));
        resets += peer.hear().iter().filter(|heard| matches!(heard, Heard::Reset { .. })).count();
    }
    assert!((8..=12).contains(&resets), "{resets}");
}

/// Bodies in pieces of any length to applications that read, do not read, answer early, or end, streams that are reset and streams that
/// break the rules: at the end everything was granted again.
#[test]
fn whatever_becomes_of_streams_the_window_of_the_connection_comes_back() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for round in 0..60 {
        let mut limits = HttpLimits::default();
        limits.http2.unread = [0, 10_000, 2 << 20][round % 3];
        limits.http2.connection_window = 200_000;
        (limits.http2.points, limits.body) = (1_000_000, 100_000);
        let size = limits.http2.connection_window;
        let (mut peer, _) = serving(limits, move |cx, part| {
            let HttpPart::Head(head) = &part else { return };
            match head.uri.path() {
                "/paused" => cx.pause(),
                "/early" => cx.write_and_flush(super::app::whole(200, 3)),
                "/closes" => cx.close(),
                "/panics" => panic!("as it was asked to"),
                "/one" => {
                    cx.pause();
                    cx.request();
                }
                _ => {}
            }
        });
        let mut window = i64::from(size);
        let mut streams: BTreeMap<u32, i64> = BTreeMap::new();
        let mut next = 1;
        for _ in 0..200 {
            match random(8) {
                0 | 1 if streams.len() < 50 => {
                    let paths = ["/paused", "/early", "/closes", "/one", "/", "/panics"];
                    let length = if random(4) == 0 { "1000" } else { "90000" };
                    peer.request(
                        next,
                        "POST",
                        paths[random(6) as usize],
                        &[("content-length", length)],
                        false,
                    );
                    streams.insert(next, 65_536);
                    next += 2;
                }
                2 => {
                    if let Some((&stream, _)) = streams.iter().nth(random(10) as usize) {
                        peer.reset(stream, ErrorCode::CANCEL);
                        streams.remove(&stream);
                    }
                }
                _ => {
                    let Some((&stream, left)) = streams.iter_mut().nth(random(10) as usize) else { continue };
                    let padding = random(3) as i64 * 20;
                    let len = (random(16_000) as i64).min(*left - padding - 1).min(window - padding - 1);
                    if len < 0 {
                        continue;
                    }
                    (*left, window) = (*left - len - padding - 1, window - len - padding - 1);
                    let mut payload = vec![b'x'; 1 + (len + padding) as usize];
                    payload[0] = padding as u8;
                    peer.frame(0, 8 | u8::from(random(20) == 0), stream, &payload);
                }
            }
            if random(3) > 0 {
                peer.send();
                for heard in peer.hear() {
                    match heard {
                        Heard::WindowUpdate { stream: 0, by } => window += i64::from(by),
                        Heard::WindowUpdate { stream, by } => {
                            streams.entry(stream).and_modify(|left| *left += i64::from(by));
                        }
                        Heard::GoAway { .. } => panic!("{heard:?} in round {round}"),
                        _ => {}
                    }
                }
                assert!(window <= i64::from(size), "more than there is, in round {round}");
            }
        }
        let all: Vec<u32> = (1..next).step_by(2).collect();
        for stream in all {
            peer.reset(stream, ErrorCode::CANCEL);
        }
        peer.send();
        for heard in peer.hear() {
            match heard {
                Heard::WindowUpdate { stream: 0, by } => window += i64::from(by),
                Heard::GoAway { .. } => panic!("{heard:?} in round {round}"),
                _ => {}
            }
        }
        // What is less than half of the window is owed still.
        assert!(window > i64::from(size) / 2, "{window} of {size} in round {round}");
        // To the last byte: use up what there is, and all of it has to come back.
        peer.request(next, "POST", "/early", &[], false).send().hear();
        for _ in 0..20 {
            let mut left = window;
            while left > 0 {
                let len = left.min(16_384);
                peer.data(next, &vec![b'x'; len as usize], false);
                left -= len;
            }
            window = 0;
            for heard in peer.send().hear() {
                if let Heard::WindowUpdate { stream: 0, by } = heard {
                    window += i64::from(by);
                }
            }
            assert!(window > 0, "stuck in round {round}");
        }
        assert_eq!(window, i64::from(size), "in round {round}");
    }
}
