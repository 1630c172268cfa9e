//! What each frame may and may not say, in each state.

use super::{
    app::{bytes, replies, serving, silent},
    peer::Heard,
};
use crate::{
    codec::h2::{
        code::ErrorCode,
        frame::{Settings, flag, kind},
    },
    limits::HttpLimits,
};

fn goodbye(heard: &[Heard]) -> Option<ErrorCode> {
    heard.iter().find_map(Heard::goodbye)
}

fn reset(stream: u32, code: ErrorCode) -> Heard {
    Heard::Reset { stream, code }
}

#[test]
fn no_frame_but_a_head_opens_a_stream_and_whoever_sends_one_is_told_so_by_the_end_of_the_connection() {
    let frames: [(u8, &[u8]); 5] = [
        (kind::DATA, b"x"),
        (kind::RST_STREAM, &[0, 0, 0, 8]),
        (kind::WINDOW_UPDATE, &[0, 0, 0, 1]),
        (kind::WINDOW_UPDATE, &[0, 0, 0, 0]),
        (kind::PRIORITY, &[0, 0, 0, 1]), // four bytes, of five
    ];
    for (frame, payload) in frames {
        for stream in [1, 2, 7] {
            let (mut peer, _) = silent();
            let heard = peer.frame(frame, 0, stream, payload).send().hear();
            assert!(goodbye(&heard).is_some(), "{frame} on {stream}: {heard:?}");
            assert!(!heard.iter().any(|heard| matches!(heard, Heard::Reset { .. })), "{heard:?}");
        }
    }
    let (mut peer, _) = silent();
    assert_eq!(goodbye(&peer.get(2, "/").send().hear()), Some(ErrorCode::PROTOCOL_ERROR), "our number");
}

#[test]
fn what_breaks_the_rules_of_a_stream_costs_that_stream_alone() {
    let cases: [(&str, ErrorCode, u8, u8, &[u8]); 6] = [
        ("no increment", ErrorCode::PROTOCOL_ERROR, kind::WINDOW_UPDATE, 0, &[0; 4]),
        ("overflow", ErrorCode::FLOW_CONTROL_ERROR, kind::WINDOW_UPDATE, 0, &[0x7f, 0xff, 0xff, 0xff]),
        ("length of PRIORITY", ErrorCode::FRAME_SIZE_ERROR, kind::PRIORITY, 0, &[0; 4]),
        ("data behind the end", ErrorCode::STREAM_CLOSED, kind::DATA, 0, b"x"),
        ("an end behind the end", ErrorCode::STREAM_CLOSED, kind::DATA, flag::END_STREAM, b""),
        ("a head behind the end", ErrorCode::STREAM_CLOSED, kind::HEADERS, 5, &[0x88]),
    ];
    for (what, code, kind, flags, payload) in cases {
        let (mut peer, told) = serving(HttpLimits::default(), |cx, part| {
            if let crate::HttpPart::Whole(head, _) = &part
                && head.uri.path() == "/answered"
            {
                replies(5)(cx, part);
            }
        });
        peer.get(1, "/").get(3, "/").send();
        let heard = peer.frame(kind, flags, 1, payload).send().hear();
        assert_eq!(heard, [reset(1, code)], "{what}");
        assert!(told.take().iter().any(|told| told.starts_with("ended: unhandled error")), "{what}");
        let heard = peer.get(5, "/answered").send().hear();
        assert_eq!((heard[0].status(), heard[0].stream()), (Some("200"), 5), "{what}: others go on");
        peer.reset(3, ErrorCode::CANCEL).send();
        assert_eq!(told.take(), ["ended: closed by our side", "ended: reset with code 8"], "{what}");
    }
}

#[test]
fn what_is_on_its_way_to_a_stream_that_we_have_reset_is_forgiven_and_counted_for_the_connection() {
    let (mut peer, _) = serving(HttpLimits::default(), replies(1));
    let heard = peer.request(1, "POST", "/", &[], false).send().hear();
    assert_eq!(heard[2], reset(1, ErrorCode::NO_ERROR), "the reply is whole");
    for _ in 0..60 {
        peer.data(1, &[b'x'; 16_384], false);
    }
    let heard = peer.window_update(1, 10).head(1, &[("x", "y")], true).get(3, "/").send().hear();
    let granted: u32 = heard
        .iter()
        .map(|heard| if let Heard::WindowUpdate { stream: 0, by } = heard { *by } else { 0 })
        .sum();
    assert!(granted >= 1 << 19, "{heard:?}");
    assert!(heard.iter().any(|heard| heard.status() == Some("200")), "{heard:?}");
}

#[test]
fn what_comes_of_a_stream_that_the_peer_has_reset_is_its_mistake() {
    let (mut peer, _) = silent();
    let heard = peer
        .request(1, "POST", "/", &[], false)
        .reset(1, ErrorCode::CANCEL)
        .data(1, b"x", false)
        .send()
        .hear();
    assert_eq!(heard, [reset(1, ErrorCode::STREAM_CLOSED)]);
    let (mut peer, _) = silent();
    let heard = peer.get(1, "/").reset(1, ErrorCode::CANCEL).get(1, "/").send().hear();
    assert_eq!(goodbye(&heard), Some(ErrorCode::STREAM_CLOSED));
}

#[test]
fn blocks_of_streams_that_are_over_are_decoded_for_those_that_come_behind() {
    let (mut peer, _) = serving(HttpLimits::default(), replies(1));
    peer.request(1, "POST", "/", &[], false).send().hear();
    // The second head uses what this one put into the table.
    peer.head(1, &[("x-kept", "a value that goes into the table")], true);
    let heard =
        peer.request(3, "GET", "/", &[("x-kept", "a value that goes into the table")], true).send().hear();
    assert_eq!(heard[0].status(), Some("200"), "{heard:?}");
}

#[test]
fn a_frame_in_pieces_whose_padding_comes_late_is_no_empty_frame() {
    let mut limits = HttpLimits::default();
    (limits.http2.points, limits.http2.points_per_second) = (20, 0);
    let (mut peer, _) = serving(limits, replies(1));
    peer.request(1, "POST", "/upload", &[], false);
    let (mut quiet, _) = silent();
    quiet.request(1, "POST", "/upload", &[], false);
    for _ in 0..50 {
        quiet.frame(kind::DATA, flag::PADDED, 1, &[3, b'x', 0, 0, 0]).drip();
    }
    assert_eq!(goodbye(&quiet.hear()), None, "fifty frames that are not empty");
    for _ in 0..101 {
        quiet.frame(kind::DATA, flag::PADDED, 1, &[3, 0, 0, 0]);
    }
    assert_eq!(goodbye(&quiet.send().hear()), Some(ErrorCode::ENHANCE_YOUR_CALM), "these are");
}

#[test]
fn padding_alone_uses_up_no_window() {
    let mut limits = HttpLimits::default();
    limits.http2.points_per_second = 1000;
    let (mut peer, _) = serving(limits, |_, _| ());
    peer.request(1, "POST", "/", &[], false).send();
    let mut padded = [0; 256];
    padded[0] = 255;
    let mut granted = [0; 2];
    for _ in 0..1000 {
        let heard = peer.frame(kind::DATA, flag::PADDED, 1, &padded).send().hear();
        for heard in heard {
            match heard {
                Heard::WindowUpdate { stream, by } => granted[stream as usize] += by,
                other => panic!("{other:?}"),
            }
        }
        peer.channel.advance(std::time::Duration::from_millis(10));
    }
    assert!(granted[1] > 256_000 - 65_536, "{granted:?}");
}

#[test]
fn the_first_frame_is_settings_or_the_connection_ends() {
    use crate::{
        Received,
        codec::h2::{connection::http2_server, frame::PREFACE},
        respond,
    };
    use netwright_core::{EmbeddedChannel, pipeline};
    let app = || pipeline().app(respond(|_: &Received| http::Response::new("x")));
    for (kind, flags, stream, payload) in [
        (kind::PING, 0, 0, &[0; 8][..]),
        (kind::SETTINGS, flag::ACK, 0, &[]),
        (kind::PRIORITY, 0, 1, &[0; 4]),
        (0x42, 0, 0, &[]),
        (kind::HEADERS, 5, 1, &[0x88]),
    ] {
        let mut peer = super::peer::Peer::silent(EmbeddedChannel::of(pipeline().last(http2_server(app))));
        let heard = peer.raw(PREFACE).frame(kind, flags, stream, payload).send().hear();
        assert!(goodbye(&heard).is_some(), "{kind}: {heard:?}");
    }
}

#[test]
fn interruptions_of_a_head_end_the_connection() {
    let frames: [(u8, u8, u32, &[u8]); 6] = [
        (kind::PING, 0, 0, &[0; 8]),
        (kind::DATA, 0, 1, b"x"),
        (kind::CONTINUATION, 0, 3, b"x"),
        (kind::HEADERS, 0, 3, b"x"),
        (0x42, 0, 0, b""),
        (kind::CONTINUATION, 0, 1, b""),
    ];
    for (kind, flags, stream, payload) in frames {
        let (mut peer, _) = silent();
        peer.frame(kind::HEADERS, 0, 1, b"\x82").frame(kind, flags, stream, payload);
        assert!(goodbye(&peer.send().hear()).is_some(), "{kind} of {stream}");
    }
}

#[test]
fn settings_that_cannot_be_end_the_connection_and_others_are_acknowledged() {
    for payload in [
        &[0, 2, 0, 0, 0, 2][..],
        &[0, 4, 0x80, 0, 0, 0],
        &[0, 5, 0, 0, 0x3f, 0xff],
        &[0, 5, 1, 0, 0, 0],
        &[0, 5, 0],
    ] {
        let (mut peer, _) = silent();
        assert!(goodbye(&peer.frame(kind::SETTINGS, 0, 0, payload).send().hear()).is_some(), "{payload:?}");
    }
    let (mut peer, _) = silent();
    let heard = peer
        .frame(kind::SETTINGS, 0, 0, &[0xff, 0xff, 1, 2, 3, 4])
        .settings(&Settings::default())
        .send()
        .hear();
    assert_eq!(heard, [Heard::SettingsAck, Heard::SettingsAck]);
}

#[test]
fn a_request_that_expects_what_nobody_knows_is_told_so() {
    let (mut peer, _) = serving(HttpLimits::default(), replies(5));
    let heard = peer.request(1, "POST", "/", &[("expect", "miracles")], false).send().hear();
    assert_eq!((heard[0].status(), bytes(&heard)), (Some("417"), 0));
    assert_eq!(heard[1], reset(1, ErrorCode::NO_ERROR));
}
