//! Ends of streams and connections, in every state.

use super::{
    app::{bytes, head, replies, serving, silent, whole},
    peer::{Heard, Peer},
};
use crate::{
    codec::h2::{code::ErrorCode, frame::Settings},
    limits::HttpLimits,
    message::HttpPart,
};
use netwright_core::{EmbeddedChannel, Event, ShuttingDown, pipeline};
use std::{convert::Infallible, time::Duration};

const CANCEL: ErrorCode = ErrorCode::CANCEL;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Has the connection end in order, as a shutdown of its loop does.
fn shut_down(peer: &mut Peer<Infallible>) {
    peer.channel.channel().fire_event(Event::new(ShuttingDown));
    peer.channel.run();
}

#[test]
fn a_reset_ends_a_stream_in_every_state_and_its_place_is_free_again() {
    let mut limits = HttpLimits::default();
    (limits.http2.streams, limits.http2.points) = (1, 100_000);
    let (mut peer, told) = serving(limits, |cx, part| {
        let HttpPart::Head(of) = part else { return };
        match of.uri.path() {
            "/paused" => cx.pause(),
            "/begun" => cx.write_and_flush(head(200)),
            "/waits" => {
                cx.write(head(200));
                cx.write_and_flush(HttpPart::Data(vec![0; 100_000].into()));
            }
            _ => {}
        }
    });
    let mut stream = 1;
    for path in ["/", "/paused", "/begun", "/waits"] {
        for body in [&b""[..], b"some", b"all"] {
            peer.request(stream, "POST", path, &[], false);
            if !body.is_empty() {
                peer.data(stream, body, body == b"all");
            }
            peer.send().hear();
            peer.window_update(0, 65_535).reset(stream, CANCEL).send();
            assert_eq!(told.take(), ["ended: reset with code 8"], "{path}");
            assert_eq!(peer.hear(), [], "{path}");
            stream += 2;
        }
    }
    peer.reset(stream - 2, CANCEL).send();
    assert_eq!(peer.hear(), [], "one that is over");
}

#[test]
fn who_sends_no_more_gets_what_was_asked_for_as_a_whole_and_half_requests_are_told() {
    let (mut peer, told) = serving(HttpLimits::default(), |cx, part| {
        if let HttpPart::Whole(..) = part {
            cx.write(head(200));
            cx.write_and_flush(HttpPart::Data(vec![0; 10].into()));
        }
    });
    peer.get(1, "/").request(3, "POST", "/", &[], false).data(3, b"half", false).send();
    peer.hear();
    peer.channel.close_input();
    let told = told.take();
    assert!(told.iter().any(|told| told.starts_with("refused: ")), "{told:?}");
    assert!(told.iter().any(|told| told.starts_with("ended: unhandled error")), "{told:?}");
    assert!(peer.channel.is_open(), "the other one is not answered yet");
    // Whoever sends no more cannot acknowledge or answer anything: it is not waited for.
    peer.channel.advance(secs(100));
    assert!(peer.channel.is_open());
}

#[test]
fn the_last_reply_to_who_sends_no_more_closes() {
    let (mut peer, _) = serving(HttpLimits::default(), replies(10));
    peer.request(1, "POST", "/", &[], false).data(1, b"", true);
    peer.send();
    peer.channel.close_input();
    let heard = peer.hear();
    assert_eq!((heard[0].status(), bytes(&heard)), (Some("200"), 10));
    assert!(!peer.channel.is_open());
}

#[test]
fn half_a_frame_and_an_end_of_input_wait_for_nothing() {
    let (mut peer, _) = serving(HttpLimits::default(), |_, _| ());
    peer.get(1, "/").raw(&[0, 0, 8, 6]).send();
    peer.channel.close_input();
    peer.channel.advance(secs(60));
    assert!(peer.channel.is_open(), "the application has not answered");
    let (mut peer, _) = silent();
    peer.raw(&[0, 0, 8, 6]).send();
    peer.channel.close_input();
    assert!(!peer.channel.is_open());
}

#[test]
fn an_end_of_input_within_the_preface_closes() {
    for sent in [0, 5, 24] {
        let server = crate::http2::http2_server(|| {
            pipeline().app(crate::respond(|_: &crate::Received| http::Response::new("x")))
        });
        let mut peer = Peer::silent(EmbeddedChannel::of(pipeline().last(server)));
        peer.raw(&crate::codec::h2::frame::PREFACE[..sent]).send();
        peer.channel.close_input();
        assert!(!peer.channel.is_open(), "{sent}");
    }
}

#[test]
fn a_shutdown_answers_what_comes_until_the_peer_knows_and_then_nothing_new() {
    let (mut peer, _) = serving(HttpLimits::default(), |cx, part| {
        if let HttpPart::Whole(head, _) = part
            && head.uri.path() == "/now"
        {
            cx.write_and_flush(whole(200, 3));
        }
    });
    peer.get(1, "/never").send();
    shut_down(&mut peer);
    let heard = peer.hear();
    assert!(
        matches!(heard[0], Heard::GoAway { last: 0x7fff_ffff, code: ErrorCode::NO_ERROR, .. }),
        "{heard:?}"
    );
    let Heard::Ping { ack: false, data } = heard[1] else { panic!("{heard:?}") };
    assert_eq!(peer.get(3, "/now").send().hear()[0].status(), Some("200"), "it did not know");
    let heard = peer.ping(true, data).send().hear();
    assert!(matches!(heard[0], Heard::GoAway { last: 3, code: ErrorCode::NO_ERROR, .. }), "{heard:?}");
    assert_eq!(peer.get(5, "/now").get(7, "/now").send().hear(), [], "it knew");
    assert!(peer.channel.is_open());
    // However it ends, it never says that more was answered.
    let heard = peer.data(99, b"x", true).send().hear();
    assert!(matches!(heard[0], Heard::GoAway { last: 3, .. }), "{heard:?}");
}

#[test]
fn a_drained_connection_is_closed_when_its_peer_has_read_all() {
    let (mut peer, _) = serving(HttpLimits::default(), replies(60_000));
    peer.settings(&Settings { initial_window_size: Some(10_000), ..Settings::default() }).get(1, "/").send();
    peer.hear();
    shut_down(&mut peer);
    let Some(&Heard::Ping { data, .. }) = peer.hear().last() else { panic!("no ping") };
    peer.ping(true, data).window_update(1, 100_000).send();
    let heard = peer.hear();
    assert!(heard.iter().any(|heard| matches!(heard, Heard::Data { end: true, .. })), "{heard:?}");
    // What it sends while it reads would have the system throw away what it has not read.
    for _ in 0..10 {
        assert!(peer.channel.is_open());
        peer.window_update(0, 100).send();
        peer.channel.advance(secs(1));
        assert_eq!(peer.hear(), []);
    }
    peer.channel.close_input();
    assert!(!peer.channel.is_open());
}

#[test]
fn a_drained_connection_waits_for_its_peer_only_so_long() {
    for talks in [false, true] {
        let (mut peer, _) = serving(HttpLimits::default(), replies(1));
        peer.get(1, "/").send();
        shut_down(&mut peer);
        let Some(&Heard::Ping { data, .. }) = peer.hear().last() else { panic!("no ping") };
        peer.ping(true, data).send();
        let mut passed = 0;
        while peer.channel.is_open() && passed < 100 {
            if talks {
                peer.channel.write_inbound([0]);
            }
            peer.channel.advance(secs(1));
            passed += 1;
        }
        assert_eq!(passed, 30);
    }
}

#[test]
fn a_peer_that_does_not_answer_the_ping_of_a_drain_is_told_all_the_same() {
    let (mut peer, _) = silent();
    peer.get(1, "/").send();
    shut_down(&mut peer);
    peer.hear();
    peer.channel.advance(secs(10));
    let heard = peer.hear();
    assert!(matches!(heard[0], Heard::GoAway { last: 1, code: ErrorCode::NO_ERROR, .. }), "{heard:?}");
    peer.channel.advance(secs(20));
    assert!(!peer.channel.is_open(), "grace is over");
}

#[test]
fn the_last_request_of_a_connection_drains_it() {
    let limits = HttpLimits { requests: 3, ..HttpLimits::default() };
    let (mut peer, _) = serving(limits, replies(1));
    let heard = peer.get(1, "/").get(3, "/").send().hear();
    assert!(!heard.iter().any(|heard| heard.goodbye().is_some()));
    let heard = peer.get(5, "/").send().hear();
    assert!(heard.iter().any(|heard| heard.goodbye() == Some(ErrorCode::NO_ERROR)));
    assert_eq!(heard.iter().filter(|heard| heard.status() == Some("200")).count(), 1);
}

#[test]
fn an_old_connection_drains() {
    let mut limits = HttpLimits::default();
    limits.http2.age = secs(100);
    limits.idle_time = secs(1000);
    let (mut peer, _) = serving(limits, replies(1));
    peer.channel.advance(secs(89));
    assert_eq!(peer.hear(), []);
    peer.channel.advance(secs(22));
    assert!(peer.hear().iter().any(|heard| heard.goodbye() == Some(ErrorCode::NO_ERROR)));
}

#[test]
fn behind_a_mistake_nothing_is_said_any_more_and_the_connection_ends_whatever_still_comes() {
    let (mut peer, told) = silent();
    peer.request(1, "POST", "/", &[], false).data(1, &[0; 10_000], false).data(7, b"x", false).send();
    let heard = peer.hear();
    assert!(heard.last().and_then(Heard::goodbye).is_some(), "{heard:?}");
    assert_eq!(told.take().len(), 2, "refused and ended");
    peer.get(9, "/").data(1, &[0; 10_000], false).send();
    assert_eq!(peer.hear(), []);
    peer.channel.advance(secs(2));
    assert!(!peer.channel.is_open());
    let (mut peer, _) = silent();
    peer.data(7, b"x", false).send();
    for _ in 0..70 {
        peer.channel.write_inbound(vec![0; 16_384]);
    }
    assert!(!peer.channel.is_open(), "a mebibyte is enough");
}

#[test]
fn an_application_that_is_done_before_its_request_says_so_and_takes_no_more_of_it() {
    let (mut peer, told) = serving(HttpLimits::default(), replies(3));
    let heard = peer
        .request(1, "POST", "/", &[("content-length", "100000")], false)
        .data(1, b"x", false)
        .send()
        .hear();
    assert_eq!(heard.last(), Some(&Heard::Reset { stream: 1, code: ErrorCode::NO_ERROR }), "{heard:?}");
    assert_eq!(told.take(), ["ended: reset with code 0"]);
}

#[test]
fn a_tunnel_of_which_our_side_has_said_all_ends_when_nothing_comes_for_as_long_as_an_idle_connection_may_be()
{
    let (mut peer, told) = serving(HttpLimits::default(), move |cx, part| {
        if let HttpPart::Head(_) = part {
            cx.write_and_flush(head(200));
            cx.shut_down_output();
        }
    });
    peer.head(1, &[(":method", "CONNECT"), (":authority", "example:443")], false).send();
    peer.hear();
    for _ in 0..5 {
        peer.channel.advance(secs(50));
        peer.data(1, b"more", false).send();
    }
    assert_eq!(told.take(), [""; 0], "bytes are a sign of life");
    peer.channel.advance(secs(90));
    assert!(peer.hear().contains(&Heard::Reset { stream: 1, code: ErrorCode::CANCEL }));
}

#[test]
fn a_tunnel_ends_in_each_direction_by_itself() {
    for ours_first in [false, true] {
        let (mut peer, told) = serving(HttpLimits::default(), move |cx, part| match part {
            HttpPart::Head(_) => {
                cx.write(head(200));
                cx.write_and_flush(HttpPart::Data("hello".into()));
                if ours_first {
                    cx.shut_down_output();
                }
            }
            HttpPart::Data(data) if !ours_first => cx.write_and_flush(HttpPart::Data(data)),
            HttpPart::End(_) if !ours_first => cx.shut_down_output(),
            _ => {}
        });
        peer.head(1, &[(":method", "CONNECT"), (":authority", "example:443")], false).send();
        let heard = peer.hear();
        assert_eq!(bytes(&heard), 5);
        assert_eq!(heard.iter().any(|heard| matches!(heard, Heard::Data { end: true, .. })), ours_first);
        // Of a tunnel of which our side has said all, the other side is waited for as long as for a request.
        peer.channel.advance(secs(if ours_first { 50 } else { 300 }));
        peer.data(1, b"more", false).send();
        assert_eq!(told.take(), [""; 0], "it is open");
        peer.data(1, b"", true).send();
        assert_eq!(told.take(), ["ended: closed by our side"], "ours first: {ours_first}, {:?}", peer.hear());
        assert!(!peer.hear().iter().any(|heard| matches!(heard, Heard::Reset { .. })));
    }
}
