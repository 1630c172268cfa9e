//! What a stage has read and not used when it leaves.

/// Messages that were read and not used. They belong to whoever comes next, so this must not be dropped by accident.
///
/// ```
/// use netwright_core::Leftover;
/// use bytes::BytesMut;
///
/// let rest = Leftover::one(BytesMut::from("read and not used"));
/// assert!(!rest.is_nothing());
/// assert_eq!(rest.into_messages(), ["read and not used"]);
/// ```
#[derive(Debug)]
#[must_use = "these messages were read from the peer and not used: hand them to the next stage"]
pub struct Leftover<R>(Vec<R>);

impl<R> Leftover<R> {
    /// Everything was used.
    pub const fn nothing() -> Self {
        Self(Vec::new())
    }

    /// One message, such as the bytes after the last frame.
    pub fn one(message: R) -> Self {
        Self(vec![message])
    }

    /// Several messages, in the order in which they came.
    pub fn many(messages: Vec<R>) -> Self {
        Self(messages)
    }

    /// The messages, in the order in which they came.
    pub fn into_messages(self) -> Vec<R> {
        self.0
    }

    /// Whether everything was used.
    pub fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }
}
