//! WebSocket, as much of it as clients need.

use super::{
    Link,
    honest::{Failure, head_of},
};
use crate::verify::Numbers;

/// The key of the standard's example, and its proof.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const PROOF: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Asks for a WebSocket.
pub(super) fn request(path: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
    )
    .into_bytes()
}

/// A frame of a client: its first byte, and its payload.
pub(super) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [7, 0, 250, 3];
    let mut bytes = vec![first];
    match payload.len() {
        len @ 0..126 => bytes.push(0x80 | len as u8),
        len @ 126..65_536 => {
            bytes.push(0x80 | 126);
            bytes.extend((len as u16).to_be_bytes());
        }
        len => {
            bytes.push(0x80 | 127);
            bytes.extend((len as u64).to_be_bytes());
        }
    }
    bytes.extend(MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// A conversation of an honest client: every message comes back, in order, and the close is answered.
pub(super) fn converse(link: &mut dyn Link, path: &str, numbers: &mut Numbers) -> Result<usize, Failure> {
    let messages: Vec<Vec<u8>> = (0..1 + numbers.below(5))
        .map(|_| {
            let len = [0, 5, 125, 126, 5000, 70_000][numbers.below(6)];
            (0..len).map(|_| numbers.below(256) as u8).collect()
        })
        .collect();
    let mut bytes = request(path);
    for message in &messages {
        if numbers.below(2) == 0 {
            bytes.extend(frame(0x82, message));
            continue;
        }
        let (first, second) = message.split_at(message.len() / 2);
        bytes.extend(frame(0x02, first));
        bytes.extend(frame(0x89, b"are you there?"));
        bytes.extend(frame(0x80, second));
    }
    bytes.extend(frame(0x88, b"\x03\xe8"));
    link.write_all(&bytes)?;
    link.flush()?;
    let head = head_of(link)?;
    if !head.starts_with("HTTP/1.1 101 ") || !head.contains(PROOF) {
        return Err(Failure::of_head(&head, "101 and its proof"));
    }
    for message in &messages {
        let (first, payload) = next(link)?;
        if first != 0x82 || payload != *message {
            let got = payload.len();
            let expected = message.len();
            return Err(Failure::Wrong(format!(
                "a message of {expected} bytes came back as {got} bytes, {first:#x}"
            )));
        }
    }
    match next(link)? {
        (0x88, payload) if payload.starts_with(b"\x03\xe8") => Ok(messages.len()),
        (first, payload) => {
            Err(Failure::Wrong(format!("a close was answered with {first:#x} {:?}", payload.escape_ascii())))
        }
    }
}

/// The next frame that is no ping and no pong. All of what we send is on its way, so pings need no answer.
fn next(link: &mut dyn Link) -> Result<(u8, Vec<u8>), Failure> {
    loop {
        let mut head = [0; 2];
        link.read_exact(&mut head)?;
        let len = match head[1] {
            126 => {
                let mut len = [0; 2];
                link.read_exact(&mut len)?;
                u16::from_be_bytes(len).into()
            }
            127 => {
                let mut len = [0; 8];
                link.read_exact(&mut len)?;
                u64::from_be_bytes(len)
            }
            len => u64::from(len),
        };
        if len > 1 << 20 {
            return Err(Failure::Wrong(format!("a frame of {len} bytes, which nobody has sent")));
        }
        let mut payload = vec![0; len as usize];
        link.read_exact(&mut payload)?;
        if !matches!(head[0], 0x89 | 0x8a) {
            return Ok((head[0], payload));
        }
    }
}
