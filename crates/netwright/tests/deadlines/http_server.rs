//! A server of HTTP/1.1: what it waits for while requests come, and while replies go.

use crate::{
    embedded::subject,
    row::{
        Drip::{Alive, Byte, Nothing, Takes},
        Limit::Ours,
        Seen, Subject, Table, at, between, closed, cut, never, rows, timed_out,
    },
    wire::{self, much},
};
use bytes::Bytes;
use http::Response;
use netwright::{
    EmbeddedChannel, EventLoop,
    channel::FileRegion,
    http::{Body, HttpAggregate, HttpPart, HttpServer, ReplyHead, ReplyPart, RequestPart, respond, serve},
    pipeline,
    pipeline::observe,
    transport::HostSettings,
};
use std::time::Duration;

pub(crate) const TABLE: Table = (
    "http_server",
    rows! {
        nothing_has_come ["http/src/codec/h1/server/mod.rs Phase::Reading"]
            by after(b"") => "HttpLimits::idle_time" at(60), timed_out::<60>, Nothing("a byte begins a request");
        within_an_empty_line_before_a_request []
            by after(b"\r") => "HttpLimits::head_time" at(10), refused, Nothing("one byte ends it");
        behind_an_empty_line_before_a_request []
            by after(b"\r\n") => "HttpLimits::idle_time" at(60), timed_out::<60>, Nothing("a byte begins a request");
        within_a_request_line []
            by after(b"GET /") => "HttpLimits::head_time" at(10), refused, Byte(b'a');
        within_headers []
            by after(b"GET / HTTP/1.1\r\nHost: a\r\nX: ") => "HttpLimits::head_time" at(10), refused, Byte(b'a');
        within_the_headers_of_a_next_request []
            by answered(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nX: ") => "HttpLimits::head_time" at(10), refused, Byte(b'a');
        within_headers_that_waited_for_a_reply []
            by answered_late(b"GET / HTTP/1.1\r\nX: ") => "HttpLimits::head_time" at(10), refused, Byte(b'a');
        a_request_is_there []
            by after(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") => "application" Ours("it answers"), never, Byte(b'G');
        a_request_that_may_end_http_is_there []
            by after(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n") => "application" Ours("it answers"), never, Byte(b'G');
        within_a_body_of_known_length ["http/src/codec/h1/decode/body.rs Body::Length"]
            by after(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\nx") => "HttpLimits::body_time" at(10), refused, Byte(b'x');
        a_body_has_not_begun []
            by after(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n") => "HttpLimits::body_time" at(10), refused, Byte(b'x');
        a_body_that_waited_for_its_100 []
            by after(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n") => "HttpLimits::body_time" at(10), refused, Byte(b'x');
        a_100_is_not_asked_for []
            by unwanted(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n") => "application" Ours("it reads"), never, Nothing("the peer may send, but need not");
        a_body_is_not_asked_for []
            by unwanted(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n") => "application" Ours("it reads"), never, Byte(b'x');
        before_a_chunk ["http/src/codec/h1/decode/body.rs Body::Chunked"]
            by chunked(b"") => "HttpLimits::body_time" at(10), refused, Byte(b'0');
        within_the_size_of_a_chunk ["http/src/codec/h1/decode/chunked.rs State::Size"]
            by chunked(b"1") => "HttpLimits::body_time" at(10), refused, Nothing("the next digits are many bytes");
        within_zeros_of_a_size []
            by chunked(b"00") => "HttpLimits::body_time" at(10), refused, Byte(b'0');
        within_an_extension []
            by chunked(b"5;a") => "HttpLimits::body_time" at(10), refused, Byte(b'a');
        within_the_end_of_a_size []
            by chunked(b"5\r") => "HttpLimits::body_time" at(10), refused, Nothing("one byte ends it");
        within_the_data_of_a_chunk ["http/src/codec/h1/decode/chunked.rs State::Data"]
            by chunked(b"fff\r\nhe") => "HttpLimits::body_time" at(10), refused, Byte(b'x');
        behind_the_data_of_a_chunk ["http/src/codec/h1/decode/chunked.rs State::DataEnd"]
            by chunked(b"5\r\nhello") => "HttpLimits::body_time" at(10), refused, Nothing("only CR LF follows");
        within_the_end_of_a_chunk []
            by chunked(b"5\r\nhello\r") => "HttpLimits::body_time" at(10), refused, Nothing("only LF follows");
        before_trailers ["http/src/codec/h1/decode/chunked.rs State::Trailers"]
            by chunked(b"0\r\n") => "HttpLimits::body_time" at(10), refused, Byte(b'a');
        within_trailers []
            by chunked(b"0\r\nx: a\r\ny") => "HttpLimits::body_time" at(10), refused, Byte(b'a');
        within_the_end_of_trailers []
            by chunked(b"0\r\nx: a\r\n\r") => "HttpLimits::body_time" at(10), refused, Nothing("only LF follows");
        within_a_body_that_is_put_together ["http/src/service/aggregate.rs State::Body"]
            by put_together(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\nx") => "HttpLimits::body_time" at(10), refused, Byte(b'x');
        within_a_body_that_is_too_large_and_thrown_away ["http/src/service/aggregate.rs State::ThrownAway"]
            by put_together(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\nx") => "HttpLimits::body_time, then linger_time" at(12), closed, Byte(b'x');
        within_a_body_that_was_answered_before []
            by answered_early() => "HttpLimits::body_time, then linger_time" at(12), closed, Byte(b'x');
        between_two_requests []
            by answered(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") => "HttpLimits::idle_time" between(60, 120), timed_out::<60>, Nothing("a byte begins a request");
        refused_and_told_why ["http/src/codec/h1/server/mod.rs Phase::Lingering"]
            by after(b"GET / HTTP/1.1\r\nbad\r\n\r\n") => "HttpLimits::linger_time" at(2), closed, Byte(b'x');
        switched_to_what_nobody_speaks ["http/src/codec/h1/server/mod.rs Phase::Switched"]
            by switched() => "HttpLimits::idle_time" between(60, 120), timed_out::<60>, Byte(b'x');
        a_tunnel_of_which_our_side_has_said_all ["http/src/codec/h1/server/mod.rs Phase::TunnelEnds"]
            by half_a_tunnel() => "HttpLimits::idle_time" between(60, 120), timed_out::<60>, Alive(b'x');
        a_last_reply_waits_to_be_taken ["http/src/codec/h1/server/mod.rs Phase::Closing"]
            by replies("Connection: close\r\n") => "LeastRate" between(60, 140), cut, Takes;
        a_reply_waits_to_be_taken []
            by replies("") => "LeastRate" between(60, 140), cut, Takes;
        a_streamed_reply_waits_to_be_taken []
            by streams() => "LeastRate" between(60, 140), cut, Takes;
        a_file_waits_to_be_taken []
            by file() => "LeastRate" between(60, 140), cut, Takes;
        replies_to_many_requests_wait_to_be_taken []
            by many_replies() => "LeastRate" between(60, 140), cut, Takes;
    },
);

// ---- ends ----

/// Told why, by a reply that closes.
fn refused(seen: &Seen) -> bool {
    let text = String::from_utf8_lossy(&seen.sent);
    text.starts_with("HTTP/1.1 408 Request Timeout\r\n") && text.contains("\r\nconnection: close\r\n")
}

// ---- ways ----

/// A server whose application reads and does not answer.
fn after(bytes: &[u8]) -> Box<dyn Subject> {
    let mut channel: EmbeddedChannel<RequestPart, ReplyPart> =
        EmbeddedChannel::new(pipeline().add(HttpServer::new()));
    channel.write_inbound(bytes);
    subject(channel)
}

fn chunked(bytes: &[u8]) -> Box<dyn Subject> {
    after(&[b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", bytes].concat())
}

/// A server whose application answers at once.
fn answered(bytes: &[u8]) -> Box<dyn Subject> {
    let app = pipeline().add(HttpServer::new()).app(respond(|_| Response::new("hello")));
    let mut channel = EmbeddedChannel::<(), _>::with_joint(app.sealed());
    channel.write_inbound(bytes);
    subject(channel)
}

/// A server whose application answers a request that could have ended HTTP after a while, in which something else came.
fn answered_late(bytes: &[u8]) -> Box<dyn Subject> {
    let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()));
    channel.write_inbound("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    channel.write_inbound(bytes).advance(Duration::from_secs(100));
    channel.write_outbound(HttpPart::from(Response::new(Bytes::new())));
    subject(channel)
}

/// A server whose application answers without a look at the body.
fn answered_early() -> Box<dyn Subject> {
    let app = pipeline().add(HttpServer::new()).app(serve(|_| async { Response::new(Body::empty()) }));
    let mut channel = EmbeddedChannel::<(), _>::with_joint(app.sealed());
    channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\nx");
    subject(channel)
}

/// A server whose application has asked for a head, and for nothing more.
fn unwanted(bytes: &[u8]) -> Box<dyn Subject> {
    let mut settings = HostSettings::default();
    settings.auto_read = false;
    let mut channel = EmbeddedChannel::with_settings(pipeline().add(HttpServer::new()), settings);
    channel.channel().request();
    channel.run().write_inbound(bytes);
    assert!(matches!(channel.read_inbound(), Some(HttpPart::Head(_))));
    subject(channel)
}

fn put_together(bytes: &[u8]) -> Box<dyn Subject> {
    let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).add(HttpAggregate::max(100)));
    channel.write_inbound(bytes);
    subject(channel)
}

fn switched() -> Box<dyn Subject> {
    let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()));
    channel.write_inbound("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    let reply = Response::builder().status(101).header("connection", "upgrade").header("upgrade", "x");
    channel.write_outbound(HttpPart::from(reply.body(Bytes::new()).unwrap()));
    subject(channel)
}

fn half_a_tunnel() -> Box<dyn Subject> {
    let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()));
    channel.write_inbound("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
    channel.write_outbound(HttpPart::Head(ReplyHead::from(http::StatusCode::OK)));
    channel.write_outbound(HttpPart::End(None));
    subject(channel)
}

fn request(headers: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n").into_bytes()
}

fn replies(headers: &str) -> Box<dyn Subject> {
    wire::serving(&request(headers), |watch| {
        let front = pipeline().add(observe(watch.onlooker())).add(HttpServer::new());
        front.app(respond(|_| Response::new(much())))
    })
}

fn streams() -> Box<dyn Subject> {
    wire::serving(&request(""), |watch| {
        let front = pipeline().add(observe(watch.onlooker())).add(HttpServer::new());
        front.app(serve(|_| async {
            let (mut sender, body) = Body::channel();
            let making = async move { while sender.send(much().slice(..100_000)).await.is_ok() {} };
            drop(EventLoop::current().unwrap().spawn_local(making));
            Response::new(body)
        }))
    })
}

fn file() -> Box<dyn Subject> {
    wire::serving(&request(""), |watch| {
        let front = pipeline().add(observe(watch.onlooker())).add(HttpServer::new());
        front.app(serve(|_| async {
            Response::new(Body::from(FileRegion::whole(wire::large_file()).unwrap()))
        }))
    })
}

fn many_replies() -> Box<dyn Subject> {
    wire::serving(&request("").repeat(1000), |watch| {
        let front = pipeline().add(observe(watch.onlooker())).add(HttpServer::new());
        front.app(respond(|_| Response::new(much().slice(..100_000))))
    })
}
