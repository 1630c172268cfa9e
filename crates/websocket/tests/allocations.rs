//! What messages may allocate: nothing of ours for a short one in steady state, in either direction.

mod common;

use bytes::{Bytes, BytesMut};
use common::*;
use netwright_core::{AppContext, Application, CloseCause, ManualLoop, Peer, Segment, pipeline};
use netwright_testkit::{CountingAllocator, Wire, allocations_during};
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

async fn echo(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
    while let Some(message) = peer.read().await? {
        peer.write(message).await?;
    }
    Ok(())
}

/// Allocations of one read, echoed by a handler and by an async function, which have to be the same.
fn echoing(socket: impl Fn() -> WebSocket, read: &[u8]) -> u64 {
    let handler = steady(pipeline().add(socket()).app(Echo).into_segment(), read);
    let tail = steady(pipeline().add(socket()).serve(echo).into_segment(), read);
    assert_eq!(handler, tail);
    handler
}

/// The first reads, which fill what grows once, do not count.
fn steady<P: Segment<BytesMut, Bytes>>(pipeline: P, read: &[u8]) -> u64 {
    ManualLoop::new().enter(|| {
        let mut wire = Wire::new(pipeline);
        (0..100).for_each(|_| assert!(wire.turn(read) > 0));
        allocations_during(|| wire.turn(read)).0
    })
}

#[test]
fn short_messages_allocate_nothing_however_many_a_read_holds() {
    let config = || Config::default().ping_after(None);
    for messages in [1, 2, 5] {
        let read = frame(Opcode::Binary, [7; 64]).repeat(messages);
        let allocations = echoing(|| WebSocket::server(config()), &read);
        assert_eq!(allocations, 0, "{messages} messages of a client");
        let read = raw(true, false, Opcode::Text, &[b'x'; 64], None).repeat(messages);
        let allocations = echoing(|| WebSocket::client(config()), &read);
        assert_eq!(allocations, 0, "{messages} messages of a server");
    }
}

#[test]
fn short_messages_on_a_connection_with_compression_allocate_no_engine() {
    let socket = || {
        let config = Config::default().ping_after(None).deflate(Deflate::default());
        WebSocket::server(config).agreed(Some(Agreed::default()))
    };
    let read = frame(Opcode::Binary, [7; 64]);
    assert_eq!(echoing(socket, &read), 0);
}
