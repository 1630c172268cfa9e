//! Tunnels through the parts of messages: the rest of a connection of HTTP/1.1. (Those of HTTP/2 are in `crates/websocket/tests/http2.rs`.)

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use netwright_core::{
    AppContext, Application, CloseCause, EmbeddedChannel, HalfClosure, Outgoing, Switch, pipeline,
};
use netwright_http::{HttpPart, HttpTunnel, HttpVersions, ReplyHead, ReplyPart, RequestPart};
use std::{convert::Infallible, time::Duration};

/// Answers `CONNECT`; then everything comes back, and its end behind it.
struct Connects(Switch<Infallible, RequestPart, ReplyPart>);

impl Application for Connects {
    type Read = RequestPart;
    type Write = ReplyPart;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, _: RequestPart) {
        cx.write_and_flush(HttpPart::Head(ReplyHead::from(StatusCode::OK)));
        self.0.to(pipeline().add(HttpTunnel).app(Echo).sealed());
    }
}

struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        if bytes == "bye"[..] {
            return cx.close();
        }
        cx.write_and_flush(bytes);
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush(Bytes::from("that was all"));
        cx.shut_down_output();
    }
}

const CONNECT: &str = "CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n";

fn server() -> EmbeddedChannel<(), Infallible> {
    let web =
        HttpVersions::new(|| pipeline().joint_between(|switch| pipeline().app(Connects(switch)).sealed()));
    EmbeddedChannel::with_joint(web.date(false).pipeline())
}

#[test]
fn bytes_behind_a_connect_pass_both_ways_however_they_are_cut() {
    let all = format!("{CONNECT}GET / HTTP/1.1\r\n\r\n");
    for size in [1, 7, CONNECT.len(), all.len()] {
        let mut channel = server();
        all.as_bytes().chunks(size).for_each(|piece| _ = channel.write_inbound(piece));
        assert_eq!(channel.outbound_bytes(), b"HTTP/1.1 200 OK\r\n\r\nGET / HTTP/1.1\r\n\r\n", "{size}");
        assert!(channel.is_open());
    }
}

#[test]
fn each_direction_of_a_tunnel_ends_by_itself() {
    let mut channel = server();
    channel.write_inbound(CONNECT).write_inbound("hello");
    channel.end_input();
    assert!(channel.outbound_bytes().ends_with(b"hellothat was all"));
    assert!(!channel.is_open(), "both have said all");
}

#[test]
fn a_tunnel_may_be_silent_for_long_and_closes_when_its_application_does() {
    let mut channel = server();
    channel.write_inbound(CONNECT);
    channel.advance(Duration::from_secs(3600));
    assert!(channel.is_open(), "how long it may be silent is the application's business");
    channel.write_inbound("bye");
    assert!(!channel.is_open());
    let cause = channel.channel().close_cause();
    assert!(matches!(cause, Some(CloseCause::Requested)), "{cause:?}");
}

#[test]
fn what_no_tunnel_has_is_not_written_to_one() {
    struct Wrong;
    impl Application for Wrong {
        type Read = RequestPart;
        type Write = ReplyPart;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, part: RequestPart) {
            if matches!(part, HttpPart::Whole(..)) {
                return cx.write_and_flush(HttpPart::Head(ReplyHead::from(StatusCode::OK)));
            }
            cx.write_and_flush(HttpPart::Whole(ReplyHead::from(StatusCode::OK), Bytes::new()));
        }
    }
    let mut channel: EmbeddedChannel<(), Infallible> =
        EmbeddedChannel::with_joint(HttpVersions::new(|| pipeline().app(Wrong)).date(false).pipeline());
    channel.write_inbound(CONNECT).write_inbound("hello");
    assert_eq!(channel.outbound_bytes(), b"HTTP/1.1 200 OK\r\n\r\n");
    assert!(!channel.is_open());
}
