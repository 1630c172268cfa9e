//! What a peer did wrong, and which close code says so.
//!
//! | what | code |
//! | --- | --- |
//! | frames that break the protocol | 1002 |
//! | text that is not UTF-8, data that is not deflated | 1007 |
//! | more than a limit allows | 1009 |

use crate::{Close, CloseCode, frame::Opcode};
use std::{error::Error, fmt};

/// A peer broke the protocol or one of our limits. It is told by a close frame, and the connection ends.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_websocket::{Config, WebSocket};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(WebSocket::server(Config::default())).handle(|_, _| {}));
/// channel.write_inbound([0x81, 2, b'h', b'i']); // text without a mask, which clients have to use
/// let close = channel.outbound_bytes();
/// assert_eq!((close[0], &close[2..4]), (0x88, &1002_u16.to_be_bytes()[..])); // a close frame, with the code for it
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A client sent a frame without a mask.
    NotMasked,
    /// A server sent a frame with a mask.
    Masked,
    /// Reserved bits are set that no extension uses, or not in such a frame.
    Reserved {
        /// The three bits.
        bits: u8,
        /// What kind of frame it is.
        opcode: u8,
    },
    /// There is no such kind of frame.
    Opcode {
        /// The number that came.
        opcode: u8,
    },
    /// A length is written with more bytes than it needs.
    NotMinimal {
        /// The length.
        len: u64,
        /// How many bytes it was written with.
        bytes: u8,
    },
    /// The highest bit of a length is set.
    LengthSign {
        /// What came.
        len: u64,
    },
    /// A control frame is longer than control frames may be.
    ControlTooLong {
        /// What kind of frame it is.
        opcode: Opcode,
    },
    /// A control frame is a fragment.
    ControlFragmented {
        /// What kind of frame it is.
        opcode: Opcode,
    },
    /// A message begins before the one before it has ended.
    Unfinished {
        /// What kind of frame came.
        opcode: Opcode,
    },
    /// A continuation without a message.
    NothingToContinue,
    /// A close frame has one byte: half a code.
    CloseOfOneByte,
    /// A close frame has a code that must not be sent.
    CloseCode {
        /// The code.
        code: u16,
    },
    /// The reason in a close frame is not UTF-8.
    ReasonNotUtf8,
    /// A text message is not UTF-8.
    NotUtf8,
    /// A compressed message cannot be decompressed.
    NotDeflated {
        /// What the decompressor said.
        why: String,
    },
    /// A frame is too long.
    FrameTooLong {
        /// Its length.
        len: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A message is too long.
    MessageTooLong {
        /// How long it is at least.
        len: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A compressed message becomes too much larger.
    Inflated {
        /// How many bytes have come.
        from: u64,
        /// How many bytes they made, at least.
        to: u64,
        /// How many bytes may come of each.
        limit: u64,
    },
}

impl Violation {
    /// The code that tells the peer.
    pub fn close_code(&self) -> CloseCode {
        match self {
            Self::ReasonNotUtf8 | Self::NotUtf8 | Self::NotDeflated { .. } => CloseCode::INVALID,
            Self::FrameTooLong { .. } | Self::MessageTooLong { .. } | Self::Inflated { .. } => {
                CloseCode::TOO_BIG
            }
            _ => CloseCode::PROTOCOL,
        }
    }

    /// The close frame that tells the peer.
    pub(crate) fn close(&self) -> Close {
        Close::new(self.close_code(), self.to_string())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMasked => f.write_str("a frame of a client without a mask"),
            Self::Masked => f.write_str("a frame of a server with a mask"),
            Self::Reserved { bits, opcode } => {
                write!(f, "reserved bits {bits:03b} in a frame with opcode {opcode}")
            }
            Self::Opcode { opcode } => write!(f, "a frame with the unknown opcode {opcode}"),
            Self::NotMinimal { len, bytes } => write!(f, "a length of {len} written with {bytes} bytes"),
            Self::LengthSign { len } => write!(f, "a length of {len}, the limit is {}", i64::MAX),
            Self::ControlTooLong { opcode } => write!(f, "a {opcode} frame of more than 125 bytes"),
            Self::ControlFragmented { opcode } => write!(f, "a {opcode} frame in fragments"),
            Self::Unfinished { opcode } => write!(f, "a {opcode} frame inside of an unfinished message"),
            Self::NothingToContinue => f.write_str("a continuation frame without a message before it"),
            Self::CloseOfOneByte => f.write_str("a close frame of one byte"),
            Self::CloseCode { code } => write!(f, "the close code {code}, which must not be sent"),
            Self::ReasonNotUtf8 => f.write_str("a close reason that is not UTF-8"),
            Self::NotUtf8 => f.write_str("a text message that is not UTF-8"),
            Self::NotDeflated { why } => write!(f, "a message that cannot be decompressed: {why}"),
            Self::FrameTooLong { len, limit } => write!(f, "a frame of {len} bytes, the limit is {limit}"),
            Self::MessageTooLong { len, limit } => {
                write!(f, "a message of {len} bytes or more, the limit is {limit}")
            }
            Self::Inflated { from, to, limit } => {
                write!(f, "{from} compressed bytes became {to} or more, the limit is {limit} for each")
            }
        }
    }
}

impl Error for Violation {}

/// The peer ended the connection with a code that says why.
///
/// The cause of a channel whose peer closed with anything but 1000, 1001 or no code at all.
///
/// ```
/// use netwright_core::CloseCause;
/// use netwright_websocket::ClosedByPeer;
///
/// /// Whether the peer was unhappy.
/// fn unhappy(cause: &CloseCause) -> bool {
///     matches!(cause, CloseCause::Fault(fault) if fault.downcast_ref::<ClosedByPeer>().is_some())
/// }
/// assert!(!unhappy(&CloseCause::PeerClosed));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedByPeer(pub Close);

impl fmt::Display for ClosedByPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the peer closed with {}", self.0)
    }
}

impl Error for ClosedByPeer {}

/// The connection ended without a close frame of the peer: messages may be missing.
///
/// ```
/// use netwright_core::CloseCause;
/// use netwright_websocket::NoClose;
///
/// /// Whether messages may be missing.
/// fn cut_off(cause: &CloseCause) -> bool {
///     matches!(cause, CloseCause::Fault(fault) if fault.downcast_ref::<NoClose>().is_some())
/// }
/// assert!(!cut_off(&CloseCause::Requested));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoClose;

impl fmt::Display for NoClose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection ended without a close frame")
    }
}

impl Error for NoClose {}
