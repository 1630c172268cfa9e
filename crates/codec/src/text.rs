//! Text in frames.

use bytes::Bytes;
use netwright_core::{Context, Handler, WritePromise};
use std::fmt;

/// Why bytes are not text.
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
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 { valid_up_to, len } => {
                write!(f, "a frame of {len} bytes is not UTF-8: wrong after {valid_up_to} bytes")
            }
        }
    }
}

impl std::error::Error for TextError {}

/// Makes text of frames, and frames of text.
#[derive(Debug, Clone, Copy)]
pub struct Utf8 {
    lossy: bool,
}

impl Utf8 {
    /// A frame that is not UTF-8 is an error.
    pub fn strict() -> Self {
        Self { lossy: false }
    }

    /// What is not UTF-8 in a frame is replaced by U+FFFD.
    pub fn lossy() -> Self {
        Self { lossy: true }
    }
}

impl Handler for Utf8 {
    type Read = Bytes;
    type ReadOut = String;
    type Write = String;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self>, frame: Bytes) {
        match simdutf8::compat::from_utf8(&frame) {
            Ok(text) => cx.fire_read(text.to_owned()),
            Err(_) if self.lossy => cx.fire_read(String::from_utf8_lossy(&frame).into_owned()),
            Err(error) => {
                cx.fire_error(TextError::NotUtf8 { valid_up_to: error.valid_up_to(), len: frame.len() });
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, text: String, done: WritePromise) {
        cx.write_with(Bytes::from(text), done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LineFrames;
    use netwright_core::{CloseCause, EmbeddedChannel, pipeline};

    #[test]
    fn text_goes_both_ways() {
        let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(Utf8::strict()));
        channel.write_inbound("grüße\n");
        assert_eq!(channel.read_inbound().as_deref(), Some("grüße"));
        channel.write_outbound("zurück".to_owned());
        assert_eq!(channel.outbound_bytes(), "zurück\n".as_bytes());
    }

    #[test]
    fn what_is_not_utf8_closes_with_an_error_that_says_where() {
        let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(Utf8::strict()));
        channel.write_inbound(b"ab\xff\n");
        let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else {
            panic!("not closed by a fault")
        };
        assert_eq!(fault.downcast_ref(), Some(&TextError::NotUtf8 { valid_up_to: 2, len: 3 }));
        assert_eq!(fault.to_string(), "a frame of 3 bytes is not UTF-8: wrong after 2 bytes");
    }

    #[test]
    fn lossy_text_has_replacement_characters_instead() {
        let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(Utf8::lossy()));
        channel.write_inbound(b"ab\xff\n");
        assert_eq!(channel.read_inbound().as_deref(), Some("ab\u{fffd}"));
    }
}
