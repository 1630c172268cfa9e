//! Text in frames and in streams, and bytes written as text.
//!
//! | stage | reads | writes |
//! | --- | --- | --- |
//! | [`Utf8`] | a frame is a text, strict or lossy | the same |
//! | [`Utf8Stream`] | text as it comes, characters whole | text as it is |
//! | `Charset` (feature `charsets`) | a frame in another charset | the same |
//! | `Base64` (feature `base64`), [`Hex`] | a frame of text is bytes | the same |
//!
//! Frames know where the next one begins, so what is wrong with one of them is recoverable. In a stream nobody knows.

#[cfg(feature = "base64")]
mod base64;
#[cfg(feature = "charsets")]
mod charset;
mod hex;
mod stream;
mod utf8;

#[cfg(feature = "base64")]
pub use base64::{Base64, Base64Codec};
#[cfg(feature = "charsets")]
pub use charset::{Charset, CharsetCodec};
pub use hex::{Hex, HexCodec};
pub use stream::{Utf8Stream, Utf8StreamCodec};
pub use utf8::{Utf8, Utf8Codec};

use std::{error::Error, fmt};

/// Why bytes are not text, or text is not bytes.
///
/// ```
/// use netwright_codec::{LineFrames, TextError, Utf8};
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(64)).add(Utf8::strict()).handle(|_, _| {}));
/// channel.write_inbound(b"\xff\n");
/// let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { panic!() };
/// assert!(fault.downcast_ref::<TextError>().is_some(), "{fault}");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextError {
    /// The frame is not UTF-8.
    NotUtf8 {
        /// Up to which byte it is.
        valid_up_to: usize,
        /// How long it is.
        len: usize,
    },
    /// The stream is not UTF-8.
    NotUtf8Stream {
        /// After how many bytes since its beginning it is not.
        after: u64,
    },
    /// The frame is not in the charset that it should be in.
    NotInCharset {
        /// The charset.
        charset: &'static str,
        /// How long the frame is.
        len: usize,
    },
    /// The text has a character that its charset does not have.
    NoSuchCharacter {
        /// The charset.
        charset: &'static str,
        /// The character.
        character: char,
    },
    /// A digit that is none, or in the wrong place.
    BadDigit {
        /// Which digits: base64 or hex.
        digits: &'static str,
        /// The byte.
        byte: u8,
        /// At which place.
        at: usize,
    },
    /// No such number of digits can be right.
    BadLength {
        /// Which digits: base64 or hex.
        digits: &'static str,
        /// How many there are.
        len: usize,
    },
    /// The padding is missing, or there where none should be.
    BadPadding {
        /// Which digits: base64.
        digits: &'static str,
    },
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 { valid_up_to, len } => {
                write!(f, "a frame of {len} bytes is not UTF-8: wrong after {valid_up_to} bytes")
            }
            Self::NotUtf8Stream { after } => write!(f, "the stream is not UTF-8: wrong after {after} bytes"),
            Self::NotInCharset { charset, len } => write!(f, "a frame of {len} bytes is not {charset}"),
            Self::NoSuchCharacter { charset, character } => {
                write!(f, "{charset} has no {character:?}")
            }
            Self::BadDigit { digits, byte, at } => {
                write!(f, "\"{}\" at place {at} is no digit of {digits}", byte.escape_ascii())
            }
            Self::BadLength { digits, len } => write!(f, "no {digits} text has {len} digits"),
            Self::BadPadding { digits } => write!(f, "the padding of a {digits} text is wrong"),
        }
    }
}

impl Error for TextError {}
