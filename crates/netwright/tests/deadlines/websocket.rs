//! WebSocket, both sides: from the handshake to the last close frame.

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
use netwright::{
    CloseCause, EmbeddedChannel, Peer,
    http::HttpServer,
    pipeline,
    pipeline::observe,
    websocket::{Accept, Close, Config, HandshakeError, Message, Request, Upgrade, Violation, WebSocket},
};
use std::time::Duration;

pub(crate) const TABLE: Table = (
    "websocket",
    rows! {
        a_request_for_a_websocket_is_not_whole []
            by upgrade(b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nX: ") => "http::HttpLimits::head_time" at(10), refused, Byte(b'a');
        the_server_has_not_answered []
            by opening(b"") => "Request::deadline" at(10), not_opened, Nothing("a byte begins a reply");
        within_the_servers_answer []
            by opening(b"HTTP/1.1 101 Switching Protocols\r\nX: ") => "Request::deadline" at(10), not_opened, Byte(b'a');
        behind_an_answer_before_the_answer []
            by opening(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 1") => "Request::deadline" at(10), not_opened, Nothing("its next bytes are an answer");
        nothing_comes_of_a_client ["websocket/src/stage.rs Phase::Open", "websocket/src/stage.rs Due::Look"]
            by server(b"") => "Config::ping_after and pong_deadline" at(40), timed_out::<40>, Nothing("a byte begins a frame");
        nothing_comes_of_a_server []
            by client(b"") => "Config::ping_after and pong_deadline" at(40), timed_out::<40>, Nothing("a byte begins a frame");
        a_ping_is_not_answered ["websocket/src/watch.rs Suspicion::Silent"]
            by pinged() => "Config::pong_deadline" at(10), timed_out::<40>, Nothing("any byte is an answer");
        behind_a_message []
            by server(b"\x81\x81\0\0\0\0h") => "Config::ping_after and pong_deadline" at(40), timed_out::<40>, Nothing("a byte begins a frame");
        within_the_head_of_a_frame []
            by server(b"\x81") => "Config::ping_after and pong_deadline" at(40), timed_out::<40>, Nothing("the next byte ends it");
        within_a_length_of_16_bits []
            by server(b"\x82\xfe\x01") => "Config::ping_after and pong_deadline" at(40), timed_out::<40>, Nothing("the next byte ends it");
        within_a_length_of_64_bits []
            by server(b"\x82\xff\0\0") => "Config::ping_after and pong_deadline" at(40), timed_out::<40>, Nothing("few bytes end it");
        within_a_mask []
            by server(b"\x81\x85\0\0") => "Config::ping_after and pong_deadline" at(40), timed_out::<40>, Nothing("few bytes end it");
        within_a_payload []
            by server(b"\x82\xfe\xff\xff\0\0\0\0x") => "Config::ping_after and pong_deadline" between(40, 48), timed_out::<40>, Alive(b'x');
        within_a_payload_of_a_server []
            by client(b"\x82\x7e\xff\xffx") => "Config::ping_after and pong_deadline" between(40, 48), timed_out::<40>, Alive(b'x');
        within_the_payload_of_a_ping []
            by server(b"\x89\xfd\0\0\0\0x") => "Config::ping_after and pong_deadline" between(40, 48), timed_out::<40>, Alive(b'x');
        between_two_fragments []
            by server(b"\x01\x81\0\0\0\0x") => "Config::ping_after and pong_deadline" at(40), timed_out::<40>, Nothing("a byte begins a fragment");
        within_a_fragment []
            by server(b"\x02\x81\0\0\0\0x\x80\xfe\xff\xff\0\0\0\0") => "Config::ping_after and pong_deadline" between(40, 48), timed_out::<40>, Alive(b'x');
        our_close_is_not_answered ["websocket/src/stage.rs Phase::Asked", "websocket/src/stage.rs Due::Close"]
            by closing(b"\x82\xfe\xff\xff\0\0\0\0") => "Config::close_deadline" at(10), closed, Byte(b'x');
        our_close_is_not_answered_by_a_server []
            by closing_client(b"\x82\x7e\xff\xff") => "Config::close_deadline" at(10), closed, Byte(b'x');
        our_close_is_not_taken []
            by closing_unread() => "Config::close_deadline" at(10), closed, Nothing("the peer does not take anything");
        a_violation_was_told ["websocket/src/stage.rs Phase::Failed"]
            by server(b"\x83\x80\0\0\0\0") => "Config::linger" at(1), violated, Byte(b'x');
        the_server_has_closed_and_stays ["websocket/src/stage.rs Phase::Over"]
            by client(b"\x88\x02\x03\xe8") => "Config::close_deadline" at(10), closed_by_peer, Byte(b'x');
        our_answer_to_a_close_is_not_taken []
            by answering_unread() => "Config::close_deadline" at(10), closed_by_peer, Nothing("the peer does not take anything");
        a_close_is_seen_and_the_application_reads_nothing []
            by unwanted(b"\x81\x81\0\0\0\0h\x88\x80\0\0\0\0") => "application" Ours("it reads"), never, Nothing("nothing follows a close");
        a_message_waits_and_the_peer_speaks_on ["websocket/src/watch.rs Suspicion::Stuck"]
            by unread(b"\x82\xfe\xff\xff\0\0\0\0") => "Config::ping_after, ten times if the peer speaks on, and pong_deadline" between(40, 350), timed_out::<40>, Byte(b'x');
        a_message_waits_to_be_taken []
            by speaks() => "LeastRate" between(60, 140), cut, Takes;
        echoes_wait_to_be_taken_while_more_is_sent []
            by echoes() => "LeastRate" between(60, 140), cut, Byte(b'x');
    },
);

// ---- ends ----

fn refused(seen: &Seen) -> bool {
    seen.sent.starts_with(b"HTTP/1.1 408 Request Timeout\r\n")
}

fn not_opened(seen: &Seen) -> bool {
    let Some(CloseCause::Fault(fault)) = &seen.cause else { return false };
    let error = fault.downcast_ref::<HandshakeError>();
    matches!(error, Some(HandshakeError::TimedOut(time)) if *time == Duration::from_secs(10))
}

fn violated(seen: &Seen) -> bool {
    matches!(&seen.cause, Some(CloseCause::Fault(fault)) if fault.downcast_ref::<Violation>().is_some())
}

fn closed_by_peer(seen: &Seen) -> bool {
    matches!(seen.cause, Some(CloseCause::PeerClosed))
}

// ---- ways ----

type Embedded = EmbeddedChannel<Message, Message>;

fn with(socket: WebSocket, bytes: &[u8]) -> Embedded {
    let mut channel = EmbeddedChannel::new(pipeline().add(socket));
    if !bytes.is_empty() {
        channel.write_inbound(bytes);
    }
    channel
}

fn server(bytes: &[u8]) -> Box<dyn Subject> {
    subject(with(WebSocket::server(Config::default()), bytes))
}

fn client(bytes: &[u8]) -> Box<dyn Subject> {
    subject(with(WebSocket::client(Config::default()), bytes))
}

fn upgrade(bytes: &[u8]) -> Box<dyn Subject> {
    let server = pipeline().joint(|switch| {
        let upgrade = Upgrade::new(switch, Accept::new(Config::default()), |socket, _, _| {
            pipeline().add(socket).handle(|_, _| {})
        });
        pipeline().add(HttpServer::new()).add(upgrade).handle(|_, _| {}).sealed()
    });
    let mut channel = EmbeddedChannel::<(), _>::with_joint(server);
    channel.write_inbound(bytes);
    subject(channel)
}

fn opening(bytes: &[u8]) -> Box<dyn Subject> {
    let request = Request::new("ws://example.org/").unwrap();
    let pipeline = request.pipeline(|socket, _, _| pipeline().add(socket).handle(|_, _| {}));
    let mut channel = EmbeddedChannel::<(), _>::with_joint(pipeline);
    channel.write_inbound(bytes);
    subject(channel)
}

fn pinged() -> Box<dyn Subject> {
    let mut channel = with(WebSocket::server(Config::default()), b"");
    channel.advance(Duration::from_secs(30));
    assert_eq!(channel.outbound_bytes(), b"\x89\0");
    subject(channel)
}

fn closing(bytes: &[u8]) -> Box<dyn Subject> {
    let mut channel = with(WebSocket::server(Config::default()), bytes);
    channel.write_outbound(Message::Close(Close::default()));
    subject(channel)
}

fn closing_client(bytes: &[u8]) -> Box<dyn Subject> {
    let mut channel = with(WebSocket::client(Config::default()), bytes);
    drop(channel.channel().close());
    channel.run();
    subject(channel)
}

fn closing_unread() -> Box<dyn Subject> {
    let mut channel = with(WebSocket::server(Config::default()), b"");
    channel.block_output(true).write_outbound(Message::Close(Close::default()));
    subject(channel)
}

/// Without a socket that would cut it before.
fn unread(bytes: &[u8]) -> Box<dyn Subject> {
    let mut channel = with(WebSocket::server(Config::default()), bytes);
    channel.block_output(true).write_outbound(Message::Binary(much()));
    subject(channel)
}

fn answering_unread() -> Box<dyn Subject> {
    let mut channel = with(WebSocket::server(Config::default()), b"");
    channel.block_output(true).write_inbound(b"\x88\x80\0\0\0\0");
    subject(channel)
}

fn unwanted(bytes: &[u8]) -> Box<dyn Subject> {
    let mut channel = with(WebSocket::server(Config::default()), b"");
    channel.channel().pause();
    channel.run().write_inbound(bytes);
    subject(channel)
}

fn speaks() -> Box<dyn Subject> {
    wire::serving(b"\x81\x81\0\0\0\0h", |watch| {
        let socket = WebSocket::server(Config::default());
        let front = pipeline().add(observe(watch.onlooker())).add(socket);
        front.handle(|cx, _| cx.write_and_flush(Message::Binary(much())))
    })
}

/// The peer sends messages, and takes none of their echoes.
fn echoes() -> Box<dyn Subject> {
    async fn echo(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
        while let Some(message) = peer.read().await? {
            for _ in 0..64 {
                peer.write(message.clone()).await?;
            }
        }
        Ok(())
    }
    let message: Bytes = [b"\x82\xff\0\0\0\0\0\x0f\0\0\0\0\0\0".as_slice(), &[0; 0xf_0000]].concat().into();
    // More frames are begun, of whose payloads nobody sees anything before the echoes are taken.
    let bytes = [&message[..], &message[..14]].concat();
    wire::serving(&bytes, |watch| {
        let socket = WebSocket::server(Config::default());
        pipeline().add(observe(watch.onlooker())).add(socket).serve(echo)
    })
}
