//! What passes between the WebSocket stage and the application.

use crate::{Close, Text};
use bytes::Bytes;

/// A whole message, or a control frame.
///
/// | | read | written |
/// | --- | --- | --- |
/// | `Text`, `Binary` | always | yes |
/// | `Ping`, `Pong` | if [asked for](crate::Config::show_control); pings are answered in any case | yes, up to 125 bytes |
/// | `Close` | if [asked for](crate::Config::show_control); answered in any case | begins the close handshake |
///
/// ```
/// use netwright_websocket::Message;
///
/// assert_eq!(Message::from("hello").as_text(), Some("hello"));
/// assert_eq!(Message::from(vec![1, 2, 3]).payload(), &[1, 2, 3]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Text.
    Text(Text),
    /// Bytes.
    Binary(Bytes),
    /// Asks for a pong with the same bytes.
    Ping(Bytes),
    /// Answers a ping, or just says that the peer is there.
    Pong(Bytes),
    /// The last word.
    Close(Close),
}

impl Message {
    /// The text, if it is a text message.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes of a message, ping or pong; of a close its reason.
    pub fn payload(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) | Self::Ping(bytes) | Self::Pong(bytes) => bytes,
            Self::Close(close) => close.reason.as_bytes(),
        }
    }

    /// Whether it is text or bytes of the application.
    pub fn is_data(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Binary(_))
    }
}

impl From<Text> for Message {
    fn from(text: Text) -> Self {
        Self::Text(text)
    }
}

impl From<&'static str> for Message {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<Bytes> for Message {
    fn from(bytes: Bytes) -> Self {
        Self::Binary(bytes)
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Binary(bytes.into())
    }
}

impl From<Close> for Message {
    fn from(close: Close) -> Self {
        Self::Close(close)
    }
}
