//! Codecs as stages: bytes to frames, frames to text, and back.
//!
//! TCP is a stream: messages stick together and break apart. A frame stage cuts it, and the stages behind it see whole
//! messages.
//!
//! ```
//! use netwright_codec::{LineFrames, Utf8};
//! use netwright_core::{EmbeddedChannel, pipeline};
//!
//! let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(1024)).add(Utf8::strict()));
//! channel.write_inbound(b"hel").write_inbound(b"lo\r\nwor").write_inbound(b"ld\n");
//! assert_eq!(channel.read_inbound().as_deref(), Some("hello"));
//! assert_eq!(channel.read_inbound().as_deref(), Some("world"));
//! channel.write_outbound("and back".to_owned());
//! assert_eq!(channel.outbound_bytes(), b"and back\n");
//! ```

#![forbid(unsafe_code)]

pub mod frame;
mod gather;
pub mod text;

pub use frame::{FrameError, LineFrames};
pub use text::{TextError, Utf8};
