//! What messages may allocate: nothing of ours for a short one in steady state, in either direction.

mod common;

use common::*;
use netwright_core::{AppContext, Application, EmbeddedChannel, pipeline};
use netwright_testkit::{CountingAllocator, allocations_during};
use netwright_websocket::{Agreed, Config, Deflate, Message, WebSocket, frame::Opcode};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Echo;

impl Application for Echo {
    type Read = Message;
    type Write = Message;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, message: Message) {
        cx.write(message);
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

/// Allocations of one read of so many messages, echoed; the first reads, which fill what grows once, do not count.
fn echoing(socket: WebSocket, read: &[u8]) -> u64 {
    let mut channel = EmbeddedChannel::new(pipeline().add(socket).app(Echo));
    for _ in 0..10 {
        channel.write_inbound(read);
        while channel.read_outbound().is_some() {}
    }
    let (allocations, _) = allocations_during(|| {
        channel.write_inbound(read);
        while channel.read_outbound().is_some() {}
    });
    allocations
}

#[test]
fn short_messages_allocate_nothing_however_many_a_read_holds() {
    let config = || Config::default().ping_after(None);
    for messages in [1, 2, 5] {
        let read = frame(Opcode::Binary, [7; 64]).repeat(messages);
        // The read's own buffer, and the bookkeeping of `bytes` that makes it one that messages can share.
        let allocations = echoing(WebSocket::server(config()), &read);
        assert!(allocations <= 2, "{messages} messages of a client: {allocations} allocations");
        let read = raw(true, false, Opcode::Text, &[b'x'; 64], None).repeat(messages);
        let allocations = echoing(WebSocket::client(config()), &read);
        assert!(allocations <= 2, "{messages} messages of a server: {allocations} allocations");
    }
}

#[test]
fn short_messages_on_a_connection_with_compression_allocate_no_engine() {
    let socket = || {
        let config = Config::default().ping_after(None).deflate(Deflate::default());
        WebSocket::server(config).agreed(Some(Agreed::default()))
    };
    let read = frame(Opcode::Binary, [7; 64]);
    assert!(echoing(socket(), &read) <= 2);
}
