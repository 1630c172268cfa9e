//! What comes of bytes that are in order.

use super::*;
use http::Version;

#[test]
fn a_request_without_a_body_comes_in_one_piece_with_all_that_it_said() {
    let mut channel = server();
    channel.write_inbound(
        "GET /a/b?c=d HTTP/1.1\r\nHost: example:80\r\nX-One: 1\r\nX-One: 2\r\nAccept:  */* \r\n\r\n",
    );
    let Some(HttpPart::Whole(head, body)) = channel.read_inbound() else { panic!("not whole") };
    assert_eq!((head.method.as_str(), head.uri.path(), head.uri.query()), ("GET", "/a/b", Some("c=d")));
    assert_eq!(head.version, Version::HTTP_11);
    assert_eq!(head.headers["host"], "example:80");
    assert_eq!(head.headers["accept"], "*/*");
    assert_eq!(head.headers.get_all("x-one").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert!(body.is_empty());
}

/// Behaviour 81.
#[test]
fn bytes_one_by_one_give_the_same_as_all_at_once() {
    let stream = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
                  PUT /y HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nt: 1\r\n\r\n";
    let mut channel = server();
    channel.write_inbound(stream);
    assert_eq!(
        parts(&mut channel),
        ["whole POST /x [hello]", "head PUT /y", "data [abc]", "end with 1 trailers"]
    );
    let mut channel = server();
    stream.as_bytes().chunks(1).for_each(|byte| _ = channel.write_inbound(byte));
    let one_by_one = ["head POST /x", "data [h]", "data [e]", "data [l]", "data [l]", "data [o]", "end"];
    let then = ["head PUT /y", "data [a]", "data [b]", "data [c]", "end with 1 trailers"];
    assert_eq!(parts(&mut channel), [&one_by_one[..], &then].concat());
}

#[test]
fn a_body_that_is_all_there_comes_with_its_head_up_to_a_limit() {
    let mut channel = server_with(|limits| limits.whole = 5);
    channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345");
    channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n123456");
    channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let seen = parts(&mut channel);
    assert_eq!(seen, ["whole POST / [12345]", "head POST /", "data [123456]", "end", "whole POST / []"]);
}

#[test]
fn each_method_has_its_form_of_target() {
    for (line, uri) in [
        ("GET /", "/"),
        ("OPTIONS *", "*"),
        ("GET http://b:81/x?y", "http://b:81/x?y"),
        ("GET HTTP://b", "http://b/"),
        ("CONNECT b:443", "b:443"),
        ("CONNECT [::1]:443", "[::1]:443"),
        ("BREW /pot?|{}^`", "/pot?|{}^`"),
        ("GET //double", "//double"),
    ] {
        let mut channel = server();
        channel.write_inbound(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let Some(HttpPart::Whole(head, _)) = channel.read_inbound() else { panic!("{line}: refused") };
        assert_eq!(head.uri.to_string(), uri, "{line}");
    }
}

#[test]
fn whom_an_absolute_target_names_counts_and_not_host() {
    let mut channel = server();
    channel.write_inbound("GET http://right:8/ HTTP/1.1\r\nHost: wrong\r\n\r\n");
    let Some(HttpPart::Whole(head, _)) = channel.read_inbound() else { panic!("refused") };
    assert_eq!(head.headers["host"], "right:8");
}

#[test]
fn one_empty_line_before_a_request_is_let_pass_and_http_1_0_needs_no_host() {
    let mut channel = server();
    channel.write_inbound("\r\nGET /1 HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /2 HTTP/1.0\r\n\r\n");
    assert_eq!(parts(&mut channel), ["whole GET /1 []", "whole GET /2 []"]);
    let mut channel = server();
    for byte in "\r\nGET / HTTP/1.0\r\n\r\n".bytes() {
        channel.write_inbound([byte]);
    }
    assert_eq!(parts(&mut channel), ["whole GET / []"]);
}

#[test]
fn nothing_is_decoded_while_reading_is_paused_and_each_request_brings_one_part() {
    let mut channel = server();
    channel.channel().pause();
    channel.run().write_inbound(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
    );
    for expected in ["head POST /", "data [a]", "data [b]", "end"] {
        assert_eq!(parts(&mut channel), [""; 0]);
        channel.channel().request();
        channel.run();
        assert_eq!(parts(&mut channel), [expected]);
    }
}

#[test]
fn so_many_requests_wait_for_replies_and_what_comes_meanwhile_is_bounded() {
    let mut channel = server_with(|limits| (limits.in_flight, limits.head) = (2, 200));
    channel.write_inbound(GET.repeat(3));
    assert_eq!(parts(&mut channel).len(), 2);
    assert!(channel.wants_read());
    channel.write_inbound(GET.repeat(10));
    assert!(!channel.wants_read(), "enough is here");
    channel.write_outbound(hello());
    assert_eq!(parts(&mut channel).len(), 1);
    for _ in 0..12 {
        channel.write_outbound(hello());
    }
    assert_eq!(parts(&mut channel).len(), 10);
    assert!(channel.wants_read() && channel.is_open());
    assert_eq!(sent(&mut channel), HELLO.repeat(13));
}

#[test]
fn a_peer_that_waits_is_told_to_go_on_when_its_body_is_asked_for() {
    const EXPECTS: &str = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-Continue\r\n\r\n";
    let mut channel = server();
    channel.channel().pause();
    channel.run().write_inbound(EXPECTS);
    channel.channel().request();
    assert_eq!(parts(channel.run()), ["head PUT /"]);
    assert_eq!(sent(&mut channel), "", "nobody has asked for the body");
    channel.channel().request();
    channel.run();
    assert_eq!(sent(&mut channel), "HTTP/1.1 100 Continue||");
    channel.write_inbound("abc").channel().resume();
    assert_eq!(parts(channel.run()), ["data [abc]", "end"]);
    channel.write_outbound(hello());
    assert_eq!(sent(&mut channel), HELLO);

    // Who does not wait is not told.
    channel.write_inbound(format!("{EXPECTS}abc"));
    assert_eq!(parts(&mut channel), ["whole PUT / [abc]"]);
    channel.write_outbound(hello());
    assert_eq!(sent(&mut channel), HELLO);
    assert!(channel.is_open());
}

#[test]
fn a_peer_that_waits_and_is_answered_at_once_is_not_told_to_go_on_and_the_connection_ends() {
    let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).handle(|cx, part| {
        if let HttpPart::Head(_) = part {
            cx.write_and_flush(HttpPart::Whole(reply(417), Bytes::new()));
        }
    }));
    channel.write_inbound("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    let text = String::from_utf8(channel.outbound_bytes()).unwrap();
    assert_eq!(
        text.replace("\r\n", "|"),
        "HTTP/1.1 417 Expectation Failed|date: D|content-length: 0|connection: close||"
    );
    channel
        .write_inbound("abcGET / HTTP/1.1\r\nHost: smuggled\r\n\r\n")
        .advance(HttpLimits::default().linger_time);
    assert!(!channel.is_open());
    channel.finish().expect_nothing();
}

#[test]
fn the_go_on_comes_behind_the_replies_before_it() {
    let mut channel = server();
    channel.write_inbound(format!(
        "{GET}PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    ));
    assert_eq!(parts(&mut channel), ["whole GET / []", "head PUT /"]);
    assert_eq!(sent(&mut channel), "");
    channel.write_outbound(hello());
    assert_eq!(sent(&mut channel), format!("{HELLO}HTTP/1.1 100 Continue||"));
}

#[test]
fn after_an_upgrade_bytes_are_left_for_whoever_comes_next() {
    let mut channel = server();
    channel.write_inbound("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: chat\r\n\r\nGET /not HTTP/9\r\n\r\n");
    assert_eq!(parts(&mut channel), ["whole GET / []"], "what follows waits for the answer");
    channel.write_outbound(HttpPart::Whole(reply_with(101, &[("upgrade", "chat")]), Bytes::new()));
    assert_eq!(
        sent(&mut channel),
        "HTTP/1.1 101 Switching Protocols|date: D|upgrade: chat|connection: upgrade||"
    );
    channel.write_inbound("more");
    assert_eq!(parts(&mut channel), [""; 0]);
    assert!(channel.is_open());
}

#[test]
fn an_upgrade_that_is_declined_goes_on_as_http() {
    let mut channel = server();
    channel.write_inbound(format!(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n{GET}"
    ));
    assert_eq!(parts(&mut channel), ["whole GET / []"]);
    channel.write_outbound(hello());
    assert_eq!(parts(&mut channel), ["whole GET / []"]);
}

#[test]
fn a_tunnel_begins_with_a_success_and_not_with_a_refusal() {
    let connect = format!("CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n{GET}");
    let mut channel = server();
    channel.write_inbound(&connect);
    assert_eq!(parts(&mut channel), ["whole CONNECT b:443 []"]);
    channel.write_outbound(HttpPart::Whole(reply(407), Bytes::new()));
    assert_eq!(parts(&mut channel), ["whole GET / []"]);

    let mut channel = server();
    channel.write_inbound(&connect);
    parts(&mut channel);
    channel.write_outbound(HttpPart::Whole(reply_with(200, &[("content-length", "5")]), Bytes::new()));
    assert_eq!(sent(&mut channel), "HTTP/1.1 200 OK|date: D||", "a length would be a lie");
    assert_eq!(parts(&mut channel), [""; 0]);
}

/// Behaviour 91: the reply, the switch, and what the peer had sent behind its request.
#[test]
fn an_upgrade_through_a_joint_loses_no_byte_and_comes_behind_its_reply() {
    use netwright_core::{AppContext, Application, Outgoing, Switch};
    use std::convert::Infallible;

    struct Upgrade(Switch<Infallible>);
    impl Application for Upgrade {
        type Read = RequestPart;
        type Write = ReplyPart;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, _: RequestPart) {
            cx.write(HttpPart::Whole(reply_with(101, &[("upgrade", "echo")]), Bytes::new()));
            self.0.to(pipeline()
                .add(Raw)
                .handle(|cx, bytes: bytes::BytesMut| {
                    cx.write_and_flush(Outgoing::from(bytes));
                })
                .sealed());
        }
    }
    /// Says that files may be written here too.
    struct Raw;
    impl netwright_core::Handler for Raw {
        type Read = bytes::BytesMut;
        type ReadOut = bytes::BytesMut;
        type Write = Outgoing;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut netwright_core::Context<'_, Self>, bytes: bytes::BytesMut) {
            cx.fire_read(bytes);
        }
        fn write(
            &mut self,
            cx: &mut netwright_core::Context<'_, Self>,
            bytes: Outgoing,
            done: netwright_core::WritePromise,
        ) {
            cx.write_with(bytes, done);
        }
    }

    let request =
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nGET /not a request";
    for size in [request.len(), 1] {
        let mut channel = EmbeddedChannel::<(), _>::with_joint(
            pipeline().joint(|switch| pipeline().add(HttpServer::new()).app(Upgrade(switch)).sealed()),
        );
        request.as_bytes().chunks(size).for_each(|piece| _ = channel.write_inbound(piece));
        let text = String::from_utf8(channel.outbound_bytes()).unwrap().replace("\r\n", "|");
        let head = "HTTP/1.1 101 Switching Protocols|date: D|upgrade: echo|connection: upgrade||";
        assert_eq!(text, format!("{head}GET /not a request"));
    }
}
