//! Peers that take their time.

use super::*;
use netwright_core::CloseCause;
use std::time::Duration;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn a_head_that_does_not_come_in_time_is_refused() {
    let mut channel = server();
    channel.write_inbound("GET / HTTP/1.1\r\n").advance(secs(9));
    assert_eq!(sent(&mut channel), "");
    channel.write_inbound("Host: a\r\n").advance(secs(1));
    assert!(sent(&mut channel).starts_with("HTTP/1.1 408 Request Timeout|connection: close|"));
    channel.advance(secs(2));
    assert!(!channel.is_open());
}

#[test]
fn a_head_that_comes_fast_enough_earns_time_but_not_for_ever() {
    let mut channel = server();
    channel.write_inbound("GET / HTTP/1.1\r\nHost: a\r\n");
    let line = format!("x: {}\r\n", "a".repeat(600));
    let mut waited = 0;
    while channel.is_open() && sent(&mut channel).is_empty() {
        channel.write_inbound(&line).advance(secs(1));
        waited += 1;
        assert!(waited < 60);
    }
    assert!((20..=31).contains(&waited), "{waited}");
}

#[test]
fn a_head_in_time_is_not_disturbed_by_its_timer() {
    let mut channel = server();
    channel
        .write_inbound("GET / HT")
        .advance(secs(5))
        .write_inbound("TP/1.1\r\nHost: a\r\n\r\n")
        .advance(secs(30));
    channel.write_outbound(hello());
    assert_eq!(sent(&mut channel), HELLO);
}

#[test]
fn a_body_has_to_come_with_a_least_rate_while_it_is_asked_for() {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    let mut channel = server();
    channel.write_inbound(post);
    for _ in 0..5 {
        channel.write_inbound([b'x'; 2400]).advance(secs(10));
        assert_eq!(sent(&mut channel), "");
    }
    channel.write_inbound([b'x'; 2399]).advance(secs(10));
    assert!(sent(&mut channel).starts_with("HTTP/1.1 408 "));

    let mut channel = server();
    channel.write_inbound(post).channel().pause();
    channel.run().advance(secs(100));
    assert_eq!(sent(&mut channel), "", "the application does not want it");
    channel.channel().resume();
    channel.run().advance(secs(20));
    assert!(sent(&mut channel).starts_with("HTTP/1.1 408 "));
}

#[test]
fn a_connection_without_requests_is_closed_and_one_with_a_slow_answer_is_not() {
    let mut channel = server();
    channel.advance(secs(59));
    assert!(channel.is_open());
    channel.write_inbound(GET).advance(secs(600));
    assert!(channel.is_open());
    channel.write_outbound(hello()).advance(secs(120));
    assert!(!channel.is_open());
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::TimedOut(time)) if time == secs(60)));
}

#[test]
fn the_date_follows_the_clock_of_the_loop() {
    let mut channel = server();
    for _ in 0..3 {
        channel.write_inbound(GET).write_outbound(HttpPart::from(Response::new(Bytes::new())));
        assert!(sent(&mut channel).contains("|date: "));
        channel.advance(secs(1));
    }
}

#[test]
fn a_refusal_that_waits_for_its_turn_is_told_once_however_long_it_waits() {
    let mut channel = server();
    channel
        .write_inbound(GET)
        .write_inbound("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    channel.advance(secs(5)).write_inbound("nonsense\r\n").advance(secs(200));
    assert_eq!(sent(&mut channel), "");
    channel.write_outbound(hello());
    let text = sent(&mut channel);
    assert!(text.starts_with(&format!("{HELLO}HTTP/1.1 400 ")), "{text}");
    assert_eq!(text.matches("HTTP/1.1").count(), 2);
    assert!(!channel.advance(secs(2)).is_open());
}

#[test]
fn a_reply_that_is_being_sent_is_not_idle_but_a_peer_that_takes_nothing_of_it_is() {
    let mut channel = server();
    channel.block_output(true);
    channel.write_inbound("GET / HTTP/1.1\r\nHost: a\r\n\r\n").write_outbound(hello());
    channel.advance(secs(110));
    assert!(channel.is_open(), "the reply waits, and the peer may still take it");
    channel.block_output(false);
    assert_eq!(sent(&mut channel), HELLO);
    channel.advance(secs(60));
    assert!(channel.is_open(), "it has just taken it");
    channel.advance(secs(60));
    assert!(!channel.is_open());

    let mut channel = server();
    channel.block_output(true);
    channel.write_inbound("GET / HTTP/1.1\r\nHost: a\r\n\r\n").write_outbound(hello()).advance(secs(780));
    assert!(!channel.is_open(), "nothing was taken for ten periods");
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::TimedOut(time)) if time == secs(60)));
}
