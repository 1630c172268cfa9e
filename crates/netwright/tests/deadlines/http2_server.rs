//! A server of HTTP/2: what it waits for on a connection, and on each stream.

use crate::{
    embedded::subject,
    row::{
        Drip::{Byte, Nothing, Takes},
        Limit::Ours,
        Seen, Subject, Table, at, between, closed, cut, never, rows, timed_out,
    },
    wire::{self, much},
};
use http::Response;
use netwright::{
    AppContext, Application, EmbeddedChannel,
    channel::ShuttingDown,
    http::{HttpLimits, HttpPart, Received, ReplyPart, RequestPart, http2::http2_server, respond},
    pipeline,
    pipeline::{Event, observe},
};
use std::{convert::Infallible, time::Duration};

pub(crate) const TABLE: Table = (
    "http2_server",
    rows! {
        nothing_has_come []
            by said(b"") => "Http2Limits::setup_time" at(10), goodbye::<4>, Nothing("a byte is one of the preface");
        within_the_preface ["http/src/codec/h2/connection/mod.rs Phase::Preface"]
            by said(&PREFACE[..5]) => "Http2Limits::setup_time" at(10), goodbye::<4>, Nothing("only the rest of it follows");
        before_its_settings []
            by said(PREFACE) => "Http2Limits::setup_time" at(10), goodbye::<4>, Nothing("a byte begins a frame");
        our_settings_are_not_acknowledged []
            by said(&[PREFACE, &frame(4, 0, 0, b"")].concat()) => "Http2Limits::setup_time" at(10), goodbye::<4>, Nothing("it takes nine bytes");
        between_frames ["http/src/codec/h2/connection/mod.rs Phase::Open", "http/src/codec/h2/frame/decode.rs State::Head"]
            by greeted(b"") => "HttpLimits::idle_time" between(60, 120), timed_out::<60>, Nothing("a byte begins a frame");
        within_a_frame []
            by greeted(&frame(6, 0, 0, &[0; 8])[..5]) => "HttpLimits::head_time" at(10), goodbye::<11>, Byte(0);
        within_a_head []
            by greeted(&frame(1, 0, 1, b"\x82")) => "HttpLimits::head_time" at(10), goodbye::<11>, Nothing("more comes by frames");
        within_what_nobody_knows ["http/src/codec/h2/frame/decode.rs State::Skip"]
            by greeted(&[0, 50, 0, 0x77, 0, 0, 0, 0, 0]) => "HttpLimits::idle_time" between(60, 120), timed_out::<60>, Byte(b'x');
        between_two_requests []
            by answered(&get()) => "HttpLimits::idle_time" between(60, 120), timed_out::<60>, Nothing("a byte begins a frame");
        a_request_is_there []
            by stream(&get()) => "application" Ours("it answers"), never, Nothing("a byte begins a frame");
        a_body_has_not_begun []
            by stream(&post(b"")) => "HttpLimits::body_time" between(10, 20), refused, Nothing("a byte begins a frame");
        a_body_that_waited_for_its_100 []
            by stream(&post(b"\x00\x06expect\x0c100-continue")) => "HttpLimits::body_time" between(10, 20), refused, Nothing("a byte begins a frame");
        within_the_data_of_a_frame ["http/src/codec/h2/frame/decode.rs State::Data"]
            by stream(&[post(b""), vec![0, 50, 0, 0, 0, 0, 0, 0, 1, b'x']].concat()) => "HttpLimits::body_time" between(10, 20), refused, Byte(b'x');
        a_body_is_not_asked_for []
            by unwanted(&post(b"")) => "application" Ours("it reads"), never, Nothing("a byte begins a frame");
        a_100_is_not_asked_for []
            by unwanted(&post(b"\x00\x06expect\x0c100-continue")) => "application" Ours("it reads"), never, Nothing("the peer may send, but need not");
        within_a_tunnel []
            by tunnel() => "application" Ours("it knows what is spoken"), never, Nothing("a byte begins a frame");
        a_reply_waits_for_its_window []
            by waits(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])) => "Http2Limits::take_time" between(10, 20), reset, Nothing("credit comes by frames");
        a_reply_waits_for_the_window_of_the_connection []
            by waits(&frame(4, 0, 0, &[0, 4, 0, 127, 0, 0])) => "Http2Limits::take_time" between(10, 20), reset, Nothing("credit comes by frames");
        a_ping_of_ours_is_not_answered []
            by pinged() => "Http2Limits::ping_time, then setup_time" at(30), timed_out::<10>, Nothing("whatever comes is an answer");
        a_stream_keeps_a_connection_that_is_to_end []
            by drains(&get()) => "Http2Limits::grace" at(30), timed_out::<30>, Nothing("a byte begins a frame");
        refused_and_told_why ["http/src/codec/h2/connection/mod.rs Phase::Lingering"]
            by greeted(&frame(0, 0, 1, b"x")) => "HttpLimits::linger_time" at(2), |seen| seen.cause.is_some(), Byte(b'x');
        a_last_reply_was_sent []
            by drained() => "Http2Limits::grace" at(30), closed, Byte(b'x');
        a_reply_waits_to_be_taken ["http/src/codec/h2/connection/mod.rs Phase::Closing"]
            by replies() => "LeastRate" between(60, 140), cut, Takes;
    },
);

// ---- what is said ----

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

fn greeting() -> Vec<u8> {
    [PREFACE, &frame(4, 0, 0, b""), &frame(4, 1, 0, b"")].concat()
}

fn get() -> Vec<u8> {
    frame(1, 5, 1, b"\x82\x86\x84\x01\x01a")
}

fn post(more: &[u8]) -> Vec<u8> {
    frame(1, 4, 1, &[b"\x83\x86\x84\x01\x01a", more].concat())
}

// ---- ends ----

/// The frames in these bytes: kind, stream, payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u32, &[u8])> {
    let mut frames = Vec::new();
    while let Some((&[a, b, c, kind, _, d, e, f, g], rest)) = bytes.split_first_chunk() {
        let (payload, rest) = rest.split_at(u32::from_be_bytes([0, a, b, c]) as usize);
        frames.push((kind, u32::from_be_bytes([d, e, f, g]), payload));
        bytes = rest;
    }
    frames
}

/// Told by a GOAWAY with this code.
fn goodbye<const CODE: u8>(seen: &Seen) -> bool {
    frames(&seen.sent).iter().any(|(kind, _, payload)| *kind == 7 && payload[7] == CODE)
}

/// The stream was reset, and nothing was said on it.
fn reset(seen: &Seen) -> bool {
    frames(&seen.sent).iter().any(|(kind, stream, _)| (*kind, *stream) == (3, 1))
}

/// The stream was answered by a 408, and then reset.
fn refused(seen: &Seen) -> bool {
    let told = |text: &[u8]| text.windows(3).any(|three| three == b"408");
    reset(seen) && frames(&seen.sent).iter().any(|(kind, _, payload)| *kind == 1 && told(payload))
}

// ---- subjects ----

/// Of a connection, one stream: it is gone when it was reset.
struct OfStream(Box<dyn Subject>);

impl Subject for OfStream {
    fn send(&mut self, byte: u8) {
        self.0.send(byte);
    }
    fn advance(&mut self, by: Duration) {
        self.0.advance(by);
    }
    fn seen(&mut self) -> Seen {
        self.0.seen()
    }
    fn is_gone(&mut self) -> bool {
        reset(&self.0.seen())
    }
}

/// It takes all, or nothing but heads, and says nothing but what opens a tunnel.
struct App {
    reads: bool,
    tunnels: bool,
}

impl Application for App {
    type Read = RequestPart;
    type Write = ReplyPart;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, part: RequestPart) {
        if !self.reads {
            cx.pause();
        }
        if let (true, HttpPart::Head(_)) = (self.tunnels, part) {
            let (head, ()) = Response::new(()).into_parts();
            cx.write_and_flush(HttpPart::Head(head.into()));
        }
    }
}

fn channel(limits: HttpLimits, reads: bool, tunnels: bool) -> EmbeddedChannel<(), Infallible> {
    let server = http2_server(move || pipeline().app(App { reads, tunnels })).date(false);
    EmbeddedChannel::of(pipeline().last(server.limits(limits)))
}

fn answering(len: usize) -> EmbeddedChannel<(), Infallible> {
    let app = move || pipeline().app(respond(move |_: &Received| Response::new(much().slice(..len))));
    EmbeddedChannel::of(pipeline().last(http2_server(app).date(false)))
}

// ---- ways ----

fn said(bytes: &[u8]) -> Box<dyn Subject> {
    let mut channel = channel(HttpLimits::default(), true, false);
    channel.write_inbound(bytes);
    subject(channel)
}

fn greeted(bytes: &[u8]) -> Box<dyn Subject> {
    said(&[&greeting(), bytes].concat())
}

fn stream(bytes: &[u8]) -> Box<dyn Subject> {
    Box::new(OfStream(greeted(bytes)))
}

fn unwanted(bytes: &[u8]) -> Box<dyn Subject> {
    let mut channel = channel(HttpLimits::default(), false, false);
    channel.write_inbound(greeting()).write_inbound(bytes);
    Box::new(OfStream(subject(channel)))
}

fn tunnel() -> Box<dyn Subject> {
    let mut channel = channel(HttpLimits::default(), true, true);
    channel.write_inbound(greeting()).write_inbound(frame(1, 4, 1, b"\x02\x07CONNECT\x01\x03a:1"));
    Box::new(OfStream(subject(channel)))
}

fn answered(bytes: &[u8]) -> Box<dyn Subject> {
    let mut channel = answering(5);
    channel.write_inbound(greeting()).write_inbound(bytes);
    subject(channel)
}

fn waits(settings: &[u8]) -> Box<dyn Subject> {
    let mut channel = answering(1 << 20);
    channel.write_inbound(greeting()).write_inbound(settings).write_inbound(get());
    Box::new(OfStream(subject(channel)))
}

fn pinged() -> Box<dyn Subject> {
    let mut limits = HttpLimits::default();
    limits.http2.ping_time = Duration::from_secs(20);
    let mut channel = channel(limits, true, false);
    channel.write_inbound(greeting());
    subject(channel)
}

fn drains(bytes: &[u8]) -> Box<dyn Subject> {
    let mut channel = channel(HttpLimits::default(), true, false);
    channel.write_inbound(greeting()).write_inbound(bytes);
    channel.channel().fire_event(Event::new(ShuttingDown));
    channel.run().write_inbound(frame(6, 1, 0, b"draining"));
    subject(channel)
}

fn drained() -> Box<dyn Subject> {
    let mut channel = answering(5);
    channel.write_inbound(greeting()).write_inbound(get());
    channel.channel().fire_event(Event::new(ShuttingDown));
    channel.run().write_inbound(frame(6, 1, 0, b"draining"));
    subject(channel)
}

fn replies() -> Box<dyn Subject> {
    let large = frame(4, 0, 0, &[0, 4, 0x7f, 0, 0, 0]);
    let credit = frame(8, 0, 0, &[0x7f, 0, 0, 0]);
    wire::serving(&[greeting(), large, credit, get()].concat(), |watch| {
        let app = || pipeline().app(respond(|_: &Received| Response::new(much())));
        pipeline().add(observe(watch.onlooker())).last(http2_server(app))
    })
}
