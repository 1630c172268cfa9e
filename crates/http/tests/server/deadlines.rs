//! Every state that a peer can leave a connection in, and the deadline that covers it: a further state is a line in a table.

use super::*;
use netwright_core::{CloseCause, Event, ShuttingDown};
use netwright_http::{Received, respond};
use std::{convert::Infallible, time::Duration};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
const FIXED: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";

/// Within a head: what has come, and what keeps the state as it is.
const HEADS: [(&str, &str, &str); 5] = [
    ("the empty line that may precede a request", "\r", ""),
    ("the first line", "GE", "T"),
    ("the end of the first line", "GET / HTTP/1.1\r", ""),
    ("a header", "GET / HTTP/1.1\r\nHost: a\r\nx: ", "y"),
    ("the end of the head", "GET / HTTP/1.1\r\nHost: a\r\n\r", ""),
];

/// Within a body: its head, what has come of it, and what can be added again and again.
const BODIES: [(&str, &str, &str, &str); 14] = [
    ("nothing of a known length", FIXED, "", "x"),
    ("a part of a known length", FIXED, "some", "x"),
    ("nothing of chunks", CHUNKED, "", "1\r\nx\r\n"),
    ("the size of a chunk", CHUNKED, "0", "0"),
    ("an extension", CHUNKED, "5;na", "a"),
    ("the value of an extension", CHUNKED, "5;a=\"b", "b"),
    ("the end of a chunk's head", CHUNKED, "5\r", ""),
    ("no data of a chunk", CHUNKED, "fff\r\n", "x"),
    ("data of a chunk", CHUNKED, "fff\r\nhel", "x"),
    ("the end of a chunk's data", CHUNKED, "5\r\nhello", ""),
    ("the end of a chunk's data, half of it", CHUNKED, "5\r\nhello\r", ""),
    ("the beginning of trailers", CHUNKED, "5\r\nhello\r\n0\r\n", ""),
    ("a trailer", CHUNKED, "0\r\nx: y", "y"),
    ("the end of the trailers", CHUNKED, "0\r\nx: y\r\n\r", ""),
];

/// How much of the reply is written when the peer stops.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reply {
    None,
    Begun,
    Over,
}

/// Brings a connection into a state and leaves it there, or adds to it each second. How long it lived, and what it was told.
fn left_alone(before: &str, drip: &str, reply: Reply) -> (u64, String) {
    let mut channel = server();
    channel.write_inbound(before);
    assert!(channel.is_open(), "{before:?}");
    let head = reply_with(200, &[("content-length", "5")]);
    match reply {
        Reply::None => {}
        Reply::Begun => _ = channel.write_outbound(HttpPart::Head(head)),
        Reply::Over => _ = channel.write_outbound(hello()),
    }
    let told = sent(&mut channel);
    for lived in 1..600 {
        if !drip.is_empty() {
            channel.write_inbound(drip);
        }
        channel.advance(secs(1));
        if !channel.is_open() {
            return (lived, sent(&mut channel));
        }
    }
    panic!("{before:?} with {drip:?} is still open, told {told:?} and {:?}", sent(&mut channel));
}

#[test]
fn a_head_that_stops_anywhere_or_drips_is_refused_within_its_time() {
    for (state, before, drip) in HEADS {
        let (lived, told) = left_alone(before, "", Reply::None);
        assert!(told.starts_with("HTTP/1.1 408 "), "{state}: {told:?}");
        assert_eq!(lived, 12, "{state}: the head's time, and two seconds to read why");
        if !drip.is_empty() {
            let (lived, told) = left_alone(before, drip, Reply::None);
            assert!(told.starts_with("HTTP/1.1 408 ") && lived <= 12, "{state}: {lived} s, {told:?}");
        }
    }
}

#[test]
fn a_body_that_stops_anywhere_or_drips_is_refused_within_its_time() {
    for (state, head, part, drip) in BODIES {
        let before = format!("{head}{part}");
        for drip in ["", drip] {
            let (lived, told) = left_alone(&before, drip, Reply::None);
            assert!(told.starts_with("HTTP/1.1 408 "), "{state}, {drip:?}: {told:?}");
            assert_eq!(lived, 12, "{state}, {drip:?}: the body's time, and two seconds to read why");
            let (lived, told) = left_alone(&before, drip, Reply::Begun);
            assert_eq!((lived, told.as_str()), (10, ""), "{state}, {drip:?}: its reply has begun");
            let (lived, told) = left_alone(&before, drip, Reply::Over);
            assert_eq!((lived, told.as_str()), (12, ""), "{state}, {drip:?}: it is answered");
        }
    }
}

#[test]
fn a_body_behind_another_request_is_refused_behind_its_reply() {
    for (state, head, part, _) in BODIES {
        let mut channel = server();
        channel.write_inbound(GET).write_inbound(format!("{head}{part}")).advance(secs(30));
        assert_eq!(sent(&mut channel), "", "{state}");
        channel.write_outbound(hello());
        let text = sent(&mut channel);
        assert!(text.starts_with(&format!("{HELLO}HTTP/1.1 408 ")), "{state}: {text}");
        assert!(!channel.advance(secs(2)).is_open(), "{state}");
    }
}

#[test]
fn time_in_which_nobody_reads_does_not_count_against_the_peer() {
    let states = HEADS.map(|(state, before, _)| (state, before.to_owned())).into_iter();
    let bodies = BODIES.map(|(state, head, part, _)| (state, format!("{head}{part}")));
    for (state, before) in states.chain(bodies) {
        let mut channel = server();
        channel.write_inbound(&before).channel().pause();
        channel.run().advance(secs(300));
        assert!(channel.is_open() && sent(&mut channel).is_empty(), "{state}");
        channel.channel().resume();
        channel.run().advance(secs(25));
        let text = sent(&mut channel);
        assert!(text.starts_with("HTTP/1.1 408 "), "{state}: {text:?}");
    }
}

#[test]
fn whoever_takes_a_body_slowly_does_not_make_its_sender_too_slow() {
    // Asked for piece by piece, long after the one before; each is there soon.
    let mut channel = server();
    channel.write_inbound(FIXED).channel().pause();
    for piece in 0..20 {
        channel.run().advance(secs(30));
        channel.channel().request();
        channel.run().advance(Duration::from_millis(400)).write_inbound("x");
        assert_eq!(sent(&mut channel), "", "{piece}");
    }
    assert!(channel.is_open());
    channel.channel().request();
    channel.run().advance(secs(20));
    assert!(sent(&mut channel).starts_with("HTTP/1.1 408 "), "now it is the sender");
}

#[test]
fn a_connection_between_requests_is_closed_whatever_came_before() {
    for before in ["", "\r\n", GET] {
        let mut channel = server();
        channel.write_inbound(before);
        if before == GET {
            channel.write_outbound(hello());
        }
        channel.advance(secs(121));
        assert!(!channel.is_open(), "{before:?}");
        assert!(matches!(channel.channel().close_cause(), Some(CloseCause::TimedOut(_))), "{before:?}");
    }
}

#[test]
fn a_connection_is_idle_from_the_end_of_a_body_on_if_the_reply_came_before() {
    let mut channel = server_with(|limits| limits.body_rate = 0);
    channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 91\r\n\r\n");
    channel.write_outbound(hello());
    for _ in 0..91 {
        channel.advance(Duration::from_millis(1_250)).write_inbound(vec![b'x'; 1]);
    }
    channel.advance(secs(59));
    assert!(channel.is_open(), "the body has ended less than a minute ago");
    assert!(!channel.advance(secs(62)).is_open());
}

/// Ways to the last reply of a connection, and what it says of itself.
const LAST: [(&str, &str, bool); 4] = [
    ("the client wants no more", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true),
    ("and has sent more", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nmore", true),
    ("HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", true),
    ("it is refused", "nonsense\r\n\r\n", false),
];

#[test]
fn a_last_reply_that_nobody_takes_does_not_hold_its_connection_for_ever() {
    for (way, bytes, answered) in LAST {
        let mut channel = server();
        channel.block_output(true);
        channel.write_inbound(bytes);
        if answered {
            channel.write_outbound(hello());
        }
        channel.advance(secs(59));
        assert!(channel.is_open(), "{way}: it may still be taken");
        channel.advance(secs(720));
        assert!(!channel.is_open(), "{way}");
    }
}

/// Reading stops while replies pile up, and with it whatever the peer says behind its requests, its end included.
#[test]
fn a_peer_that_takes_nothing_of_its_replies_does_not_stay_because_its_requests_are_not_read() {
    for ends in [false, true] {
        for requests in [2, 40, 5000] {
            let large = |_: &Received| Response::new(Bytes::from(vec![b'x'; 100_000]));
            let mut channel: EmbeddedChannel<Infallible, ReplyPart> =
                EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(respond(large)));
            channel.block_output(true);
            channel.write_inbound(GET.repeat(requests));
            if ends {
                channel.close_input();
            }
            channel.advance(secs(50));
            assert!(channel.is_open(), "{requests} requests, end of input: {ends}: it may still take them");
            channel.advance(secs(720));
            assert!(!channel.is_open(), "{requests} requests, end of input: {ends}");
        }
    }
}

#[test]
fn a_last_reply_that_is_taken_late_is_taken_whole() {
    for (way, bytes, answered) in LAST {
        for ends in [false, true] {
            let mut channel = server();
            channel.block_output(true);
            channel.write_inbound(bytes);
            if answered {
                channel.write_outbound(hello());
            }
            if ends {
                channel.close_input();
            }
            channel.advance(secs(50)).block_output(false);
            let text = sent(&mut channel);
            let (status, end) = if answered { ("200", "||hello") } else { ("400", "\n") };
            assert!(
                text.starts_with(&format!("HTTP/1.1 {status} ")) && text.ends_with(end),
                "{way}: {text:?}"
            );
            channel.advance(secs(5));
            assert!(!channel.is_open(), "{way}");
        }
    }
}

#[test]
fn a_connection_that_nobody_takes_over_is_closed() {
    let upgrade = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
    for (bytes, status) in [(upgrade, 101), ("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 200)] {
        let mut channel = server();
        channel.advance(secs(59)).write_inbound(bytes);
        channel.write_outbound(HttpPart::Whole(reply_with(status, &[("upgrade", "x")]), Bytes::new()));
        channel.advance(secs(59));
        assert!(channel.is_open(), "{status}: a whole period");
        channel.advance(secs(61));
        assert!(!channel.is_open(), "{status}");
    }
}

#[test]
fn a_shutdown_waits_neither_for_half_a_head_nor_for_a_request_that_was_answered_early() {
    for (state, before, _) in HEADS {
        let mut channel = server();
        channel.write_inbound(before).channel().fire_event(Event::new(ShuttingDown));
        channel.run().advance(secs(2));
        assert!(!channel.is_open(), "{state}");
    }
    let mut channel = server();
    channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n").write_outbound(hello());
    channel.channel().fire_event(Event::new(ShuttingDown));
    assert!(channel.run().is_open(), "the body comes");
    channel.write_inbound("hello").advance(secs(2));
    assert!(!channel.is_open());
}
