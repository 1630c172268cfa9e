//! Frames by hand, for peers that break rules.

#![allow(dead_code, unreachable_pub)] // each test program uses some of it

use netwright_core::{EmbeddedChannel, pipeline};
use netwright_websocket::{
    Config, Message, WebSocket,
    frame::{FrameHead, FrameRules, Opcode, Role, mask},
};

pub type Channel = EmbeddedChannel<Message, Message>;

pub const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A server's end, to which we are the client.
pub fn server(config: Config) -> Channel {
    EmbeddedChannel::new(pipeline().add(WebSocket::server(config)))
}

/// A client's end, to which we are the server.
pub fn client(config: Config) -> Channel {
    EmbeddedChannel::new(pipeline().add(WebSocket::client(config)))
}

/// Brings bytes piece by piece.
pub fn feed<'a, R: 'static>(
    channel: &mut EmbeddedChannel<R, Message>,
    pieces: impl Iterator<Item = &'a [u8]>,
) {
    for piece in pieces {
        channel.write_inbound(piece);
    }
}

/// A frame with every bit as wanted.
pub fn raw(fin: bool, compressed: bool, opcode: Opcode, payload: &[u8], key: Option<[u8; 4]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    FrameHead { fin, compressed, opcode, len: payload.len() as u64, mask: key }.write(&mut bytes);
    let at = bytes.len();
    bytes.extend_from_slice(payload);
    if let Some(key) = key {
        mask(&mut bytes[at..], key);
    }
    bytes
}

/// A masked frame that is a message, or a control frame.
pub fn frame(opcode: Opcode, payload: impl AsRef<[u8]>) -> Vec<u8> {
    raw(true, false, opcode, payload.as_ref(), Some(KEY))
}

/// A masked frame that more follows.
pub fn fragment(opcode: Opcode, payload: impl AsRef<[u8]>) -> Vec<u8> {
    raw(false, false, opcode, payload.as_ref(), Some(KEY))
}

/// What is in a stream of frames that a `role` sent: opcodes, compression and payloads.
pub fn frames_of(role: Role, mut bytes: &[u8]) -> Vec<(Opcode, bool, Vec<u8>)> {
    let receiver = if role == Role::Server { Role::Client } else { Role::Server };
    let rules = FrameRules { role: receiver, compression: true, len_max: u64::MAX };
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (head, at) = FrameHead::parse(bytes, &rules).unwrap().expect("a whole head");
        let end = at + head.len as usize;
        let mut payload = bytes[at..end].to_vec();
        if let Some(key) = head.mask {
            mask(&mut payload, key);
        }
        frames.push((head.opcode, head.compressed, payload));
        bytes = &bytes[end..];
    }
    frames
}

/// What a server's end has sent so far.
pub fn sent<R: 'static>(channel: &mut EmbeddedChannel<R, Message>) -> Vec<(Opcode, Vec<u8>)> {
    let bytes = channel.outbound_bytes();
    frames_of(Role::Server, &bytes).into_iter().map(|(opcode, _, payload)| (opcode, payload)).collect()
}

/// The code of the one close frame among what was sent last.
#[track_caller]
pub fn close_code(channel: &mut Channel) -> u16 {
    let sent = sent(channel);
    let Some((Opcode::Close, payload)) = sent.last() else { panic!("no close frame at the end of {sent:?}") };
    assert_eq!(sent.iter().filter(|(opcode, _)| *opcode == Opcode::Close).count(), 1);
    u16::from_be_bytes([payload[0], payload[1]])
}

pub fn text(text: &'static str) -> Message {
    Message::from(text)
}
