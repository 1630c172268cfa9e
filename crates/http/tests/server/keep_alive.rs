//! When a connection goes on, and when it ends.

use super::*;
use netwright_core::{Event, ShuttingDown};

fn answered(requests: &str, replies: usize) -> (String, bool) {
    let mut channel = server();
    channel.write_inbound(requests);
    (0..replies).for_each(|_| _ = channel.write_outbound(hello()));
    let text = sent(&mut channel);
    (text, channel.is_open())
}

#[test]
fn http_1_1_goes_on_unless_told_and_1_0_ends_unless_asked() {
    assert_eq!(answered(GET, 1), (HELLO.to_owned(), true));
    let close = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n";
    assert_eq!(answered(close, 1), (HELLO_CLOSE.to_owned(), false));
    assert_eq!(answered("GET / HTTP/1.0\r\n\r\n", 1), (HELLO_CLOSE.to_owned(), false));
    let (text, open) = answered("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 1);
    assert_eq!((text.contains("connection: keep-alive"), open), (true, true));
}

/// Behaviour 88.
#[test]
fn the_connection_closes_only_after_the_last_reply_to_what_was_asked() {
    let close = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let requests = format!("{GET}{GET}{close}{GET}");
    assert_eq!(answered(&requests, 2), (HELLO.repeat(2), true));
    let mut channel = server();
    channel.write_inbound(&requests);
    assert_eq!(parts(&mut channel).len(), 3, "nothing is read behind the close");
    (0..3).for_each(|_| _ = channel.write_outbound(hello()));
    assert_eq!(sent(&mut channel), format!("{HELLO}{HELLO}{HELLO_CLOSE}"));
    channel.advance(HttpLimits::default().linger_time);
    assert!(!channel.is_open());
}

#[test]
fn a_reply_that_says_close_ends_the_connection_behind_those_that_are_owed() {
    let mut channel = server();
    channel.write_inbound(GET.repeat(2));
    channel.write_outbound(HttpPart::Whole(reply_with(200, &[("connection", "close")]), "hello".into()));
    assert_eq!(sent(&mut channel), HELLO, "one more is owed");
    channel.write_inbound(GET);
    assert_eq!(parts(&mut channel).len(), 2);
    channel.write_outbound(hello());
    assert_eq!(sent(&mut channel), HELLO_CLOSE);
    assert!(!channel.is_open());
}

#[test]
fn the_last_request_that_is_allowed_ends_the_connection() {
    let mut channel = server_with(|limits| limits.requests = 2);
    channel.write_inbound(GET.repeat(3));
    assert_eq!(parts(&mut channel).len(), 2);
    channel.write_outbound(hello()).write_outbound(hello());
    assert_eq!(sent(&mut channel), format!("{HELLO}{HELLO_CLOSE}"));
}

#[test]
fn a_server_that_shuts_down_answers_what_was_asked_and_closes() {
    let mut channel = server();
    channel.write_inbound(GET);
    channel.channel().fire_event(Event::new(ShuttingDown));
    assert!(channel.run().is_open());
    channel.write_outbound(hello());
    assert_eq!(sent(&mut channel), HELLO_CLOSE);
    assert!(!channel.is_open());
    let mut idle = server();
    idle.channel().fire_event(Event::new(ShuttingDown));
    assert!(!idle.run().is_open());
}

#[test]
fn a_peer_that_has_said_all_still_gets_its_answers() {
    let mut channel = server();
    channel.write_inbound(GET.repeat(2)).close_input();
    assert_eq!(parts(&mut channel).len(), 2);
    channel.write_outbound(hello()).write_outbound(hello());
    assert_eq!(sent(&mut channel), format!("{HELLO}{HELLO_CLOSE}"));
    assert!(!channel.is_open());
}

#[test]
fn requests_that_wait_for_room_when_the_peer_says_that_they_were_all_are_answered() {
    for requests in [1, 31, 32, 33, 100] {
        for body in ["", "hello"] {
            let one = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let mut channel = server();
            channel.write_inbound(one.repeat(requests)).close_input();
            let mut seen = 0;
            for answered in 1..=requests {
                seen += parts(&mut channel).iter().filter(|part| part.starts_with("whole")).count();
                assert_eq!(seen, (answered + 31).min(requests), "of {requests}");
                assert!(channel.is_open(), "{answered} of {requests}");
                channel.write_outbound(hello());
            }
            let text = sent(&mut channel);
            assert_eq!(text.matches("HTTP/1.1 200").count(), requests);
            assert!(text.ends_with(HELLO_CLOSE), "the last one says so");
            assert!(!channel.is_open(), "{requests}");
        }
    }
}

#[test]
fn half_a_request_behind_others_that_wait_for_room_is_refused_in_its_turn() {
    let mut channel = server();
    channel.write_inbound(format!("{}GET / HT", GET.repeat(33))).close_input();
    (0..33).for_each(|_| _ = channel.write_outbound(hello()));
    let text = sent(&mut channel);
    assert!(text.starts_with(&format!("{}HTTP/1.1 400 ", HELLO.repeat(33))), "{text}");
    channel.advance(HttpLimits::default().linger_time);
    assert!(!channel.is_open());
}
