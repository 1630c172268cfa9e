//! Text that has been checked to be UTF-8.

use bytes::Bytes;
use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
};

/// Shared UTF-8: cheap to clone, and a piece of what was read.
///
/// Reading it as a `str` checks it again, at the speed of vectors: to claim that it was checked before takes `unsafe` code.
/// [`into_bytes`](Self::into_bytes) and writing it are free.
///
/// ```
/// use netwright_websocket::Text;
/// use bytes::Bytes;
///
/// let text = Text::try_from(Bytes::from_static("grüß dich".as_bytes())).unwrap();
/// assert_eq!(text, "grüß dich");
/// assert!(Text::try_from(Bytes::from_static(b"\xff")).is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Text(Bytes);

impl Text {
    /// Text that was checked before, piece by piece.
    pub(crate) fn checked(bytes: Bytes) -> Self {
        debug_assert!(simdutf8::basic::from_utf8(&bytes).is_ok());
        Self(bytes)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        simdutf8::basic::from_utf8(&self.0).expect("it was checked when it was made")
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes, without a copy.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<Bytes> for Text {
    type Error = simdutf8::basic::Utf8Error;
    fn try_from(bytes: Bytes) -> Result<Self, Self::Error> {
        simdutf8::basic::from_utf8(&bytes)?;
        Ok(Self(bytes))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }
}

impl From<Cow<'static, str>> for Text {
    fn from(text: Cow<'static, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

impl From<Text> for Bytes {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.as_str().to_owned()
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
