//! The head of a frame, read and written.
//!
//! ```text
//!   byte 0          byte 1          then                        then           then
//!   F R R R opcode  M length        0, 2 or 8 bytes of length   4 bytes mask   payload
//!   └ last frame    └ masked        if length is 126 or 127     if M
//! ```
//! Each rule is checked with the first byte that can break it, so how a stream is split does not show.
//!
//! Not here: whether a frame fits what came before it, and its payload (`decode`).

use crate::Violation;
use std::fmt;

pub use crate::mask::mask;

/// The longest head: two bytes, eight of length, four of mask.
pub const HEAD_MAX: usize = 14;
/// The longest payload of a control frame.
pub const CONTROL_MAX: usize = 125;

/// What kind of frame it is.
///
/// ```
/// use netwright_websocket::frame::Opcode;
///
/// assert_eq!(Opcode::new(9), Some(Opcode::Ping));
/// assert!(Opcode::Ping.is_control() && !Opcode::Text.is_control());
/// assert_eq!(Opcode::new(3), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// More of the message before.
    Continuation = 0,
    /// Text begins.
    Text = 1,
    /// Bytes begin.
    Binary = 2,
    /// The last word.
    Close = 8,
    /// Asks for a pong.
    Ping = 9,
    /// Answers a ping.
    Pong = 10,
}

impl Opcode {
    /// By its number.
    pub const fn new(opcode: u8) -> Option<Self> {
        Some(match opcode {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// Whether such frames are short, never fragments, and may come between the fragments of a message.
    pub const fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Continuation => "continuation",
            Self::Text => "text",
            Self::Binary => "binary",
            Self::Close => "close",
            Self::Ping => "ping",
            Self::Pong => "pong",
        })
    }
}

/// Which end of a connection we are.
///
/// ```
/// use netwright_websocket::frame::{FrameHead, FrameRules, Role};
///
/// // A server does not take frames without a mask.
/// let rules = FrameRules { role: Role::Server, compression: false, len_max: 1000 };
/// assert!(FrameHead::parse(&[0x81, 5], &rules).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// We were connected to: what comes is masked.
    Server,
    /// We have connected: what we send is masked.
    Client,
}

/// What frames of the peer have to keep.
///
/// ```
/// use netwright_websocket::frame::{FrameHead, FrameRules, Role};
///
/// let rules = FrameRules { role: Role::Client, compression: false, len_max: 4 };
/// assert!(FrameHead::parse(&[0x81, 4], &rules).is_ok());
/// assert!(FrameHead::parse(&[0x81, 5], &rules).is_err()); // longer than allowed
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FrameRules {
    /// Which end we are: frames of clients are masked, frames of servers are not.
    pub role: Role,
    /// Whether the first reserved bit may say that a message is compressed.
    pub compression: bool,
    /// The longest payload.
    pub len_max: u64,
}

/// The head of a frame.
///
/// ```
/// use netwright_websocket::frame::{FrameHead, FrameRules, Opcode, Role};
///
/// let head = FrameHead { fin: true, compressed: false, opcode: Opcode::Text, len: 300, mask: None };
/// let mut bytes = Vec::new();
/// head.write(&mut bytes);
/// assert_eq!(bytes, [0x81, 126, 1, 44]);
///
/// let rules = FrameRules { role: Role::Client, compression: false, len_max: 1000 };
/// assert_eq!(FrameHead::parse(&bytes, &rules), Ok(Some((head, 4))));
/// assert_eq!(FrameHead::parse(&bytes[..3], &rules), Ok(None)); // more is needed
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Whether the message ends with this frame.
    pub fin: bool,
    /// The first reserved bit: the message is compressed.
    pub compressed: bool,
    /// What kind of frame it is.
    pub opcode: Opcode,
    /// How long its payload is.
    pub len: u64,
    /// What its payload is masked with.
    pub mask: Option<[u8; 4]>,
}

impl FrameHead {
    /// The head at the beginning of these bytes and its length; `None` if they do not hold all of it.
    ///
    /// # Errors
    /// The peer broke a rule, however the head goes on.
    #[inline]
    pub fn parse(bytes: &[u8], rules: &FrameRules) -> Result<Option<(Self, usize)>, Violation> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        let (fin, bits, opcode) = (first & 0x80 != 0, first >> 4 & 7, first & 15);
        let compressed = bits & 4 != 0;
        let Some(opcode) = Opcode::new(opcode) else { return Err(Violation::Opcode { opcode }) };
        let begins = matches!(opcode, Opcode::Text | Opcode::Binary);
        if bits & 3 != 0 || compressed && !(rules.compression && begins) {
            return Err(Violation::Reserved { bits, opcode: opcode as u8 });
        }
        if opcode.is_control() && !fin {
            return Err(Violation::ControlFragmented { opcode });
        }
        let Some(&second) = bytes.get(1) else { return Ok(None) };
        let (masked, short) = (second & 0x80 != 0, second & 0x7f);
        match rules.role {
            Role::Server if !masked => return Err(Violation::NotMasked),
            Role::Client if masked => return Err(Violation::Masked),
            _ => {}
        }
        if opcode.is_control() && usize::from(short) > CONTROL_MAX {
            return Err(Violation::ControlTooLong { opcode });
        }
        let (len, at) = match short {
            126 => {
                let Some(&len) = bytes.get(2..4).and_then(<[u8]>::first_chunk) else { return Ok(None) };
                let len = u64::from(u16::from_be_bytes(len));
                if len < 126 {
                    return Err(Violation::NotMinimal { len, bytes: 2 });
                }
                (len, 4)
            }
            127 => {
                let Some(&len) = bytes.get(2..10).and_then(<[u8]>::first_chunk) else { return Ok(None) };
                let len = u64::from_be_bytes(len);
                if len > i64::MAX as u64 {
                    return Err(Violation::LengthSign { len });
                }
                if len <= u64::from(u16::MAX) {
                    return Err(Violation::NotMinimal { len, bytes: 8 });
                }
                (len, 10)
            }
            len => (u64::from(len), 2),
        };
        if len > rules.len_max && !opcode.is_control() {
            return Err(Violation::FrameTooLong { len, limit: rules.len_max });
        }
        if !masked {
            return Ok(Some((Self { fin, compressed, opcode, len, mask: None }, at)));
        }
        let Some(&mask) = bytes.get(at..at + 4).and_then(<[u8]>::first_chunk) else { return Ok(None) };
        Ok(Some((Self { fin, compressed, opcode, len, mask: Some(mask) }, at + 4)))
    }

    /// The head as bytes, and how many of them count.
    #[inline]
    pub(crate) fn bytes(&self) -> ([u8; HEAD_MAX], usize) {
        let mut bytes = [0; HEAD_MAX];
        bytes[0] = u8::from(self.fin) << 7 | u8::from(self.compressed) << 6 | self.opcode as u8;
        let mut at = match self.len {
            0..126 => {
                bytes[1] = self.len as u8;
                2
            }
            126..0x1_0000 => {
                bytes[1] = 126;
                bytes[2..4].copy_from_slice(&(self.len as u16).to_be_bytes());
                4
            }
            _ => {
                bytes[1] = 127;
                bytes[2..10].copy_from_slice(&self.len.to_be_bytes());
                10
            }
        };
        if let Some(mask) = self.mask {
            bytes[1] |= 0x80;
            bytes[at..at + 4].copy_from_slice(&mask);
            at += 4;
        }
        (bytes, at)
    }

    /// Appends the head.
    pub fn write(&self, out: &mut impl Extend<u8>) {
        let (bytes, len) = self.bytes();
        out.extend(bytes.into_iter().take(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: FrameRules = FrameRules { role: Role::Server, compression: true, len_max: 1 << 20 };
    const CLIENT: FrameRules = FrameRules { role: Role::Client, compression: false, len_max: 1 << 20 };

    #[test]
    fn a_head_reads_as_it_was_written() {
        for len in [0, 1, 125, 126, 127, 65_535, 65_536, 1 << 20] {
            for mask in [None, Some([1, 2, 3, 4])] {
                let head =
                    FrameHead { fin: len % 2 == 0, compressed: false, opcode: Opcode::Binary, len, mask };
                let mut bytes = Vec::new();
                head.write(&mut bytes);
                let rules = if mask.is_some() { SERVER } else { CLIENT };
                for cut in 0..bytes.len() {
                    assert_eq!(FrameHead::parse(&bytes[..cut], &rules), Ok(None));
                }
                assert_eq!(FrameHead::parse(&bytes, &rules), Ok(Some((head, bytes.len()))));
            }
        }
    }

    #[test]
    fn every_broken_rule_has_its_name() {
        let refused = |bytes: &[u8], rules: &FrameRules| FrameHead::parse(bytes, rules).unwrap_err();
        assert_eq!(refused(&[0x81, 0x01], &SERVER), Violation::NotMasked);
        assert_eq!(refused(&[0x81, 0x81], &CLIENT), Violation::Masked);
        assert_eq!(refused(&[0xa1], &SERVER), Violation::Reserved { bits: 2, opcode: 1 });
        assert_eq!(refused(&[0xc1], &CLIENT), Violation::Reserved { bits: 4, opcode: 1 });
        assert_eq!(refused(&[0xc9], &SERVER), Violation::Reserved { bits: 4, opcode: 9 });
        assert_eq!(refused(&[0xc0], &SERVER), Violation::Reserved { bits: 4, opcode: 0 });
        for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
            assert_eq!(refused(&[0x80 | opcode], &SERVER), Violation::Opcode { opcode });
        }
        assert_eq!(refused(&[0x09], &SERVER), Violation::ControlFragmented { opcode: Opcode::Ping });
        assert_eq!(refused(&[0x88, 0xfe], &SERVER), Violation::ControlTooLong { opcode: Opcode::Close });
        assert_eq!(refused(&[0x82, 126, 0, 125], &CLIENT), Violation::NotMinimal { len: 125, bytes: 2 });
        let long = |len: u64| [&[0x82, 127][..], &len.to_be_bytes()].concat();
        assert_eq!(refused(&long(65_535), &CLIENT), Violation::NotMinimal { len: 65_535, bytes: 8 });
        assert_eq!(refused(&long(1 << 63), &CLIENT), Violation::LengthSign { len: 1 << 63 });
        let (len, limit) = ((1 << 20) + 1, 1 << 20);
        assert_eq!(refused(&long(len), &CLIENT), Violation::FrameTooLong { len, limit });
    }
}
