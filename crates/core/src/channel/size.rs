//! What a message counts for while it is on its way to the outbound queue.
//!
//! ```text
//!   channel.write(msg) ─▶ on its way to the loop ─▶ on its way through the stages ─▶ outbound queue
//!                         └──────── size_of_message(&msg) ────────┘                  └ its bytes
//! ```
//! Messages that are bytes count for their bytes. Of other types nobody here can tell what they hold, so whoever defines one
//! says it once ([`count_bytes_of`]); a type of which nothing was said counts for the room that it takes itself.
//!
//! Always true: what was said of a type stays, and looking it up takes no lock.

use super::{Envelope, Outgoing};
use bytes::{Bytes, BytesMut};
use std::{
    any::{Any, TypeId},
    sync::OnceLock,
};

/// Types of which something can be said: those of the protocols here, and as many again for users.
const TYPES_MAX: usize = 32;

type BytesOf = Box<dyn Fn(&dyn Any) -> usize + Send + Sync>;

/// Filled from the front.
static KNOWN: [OnceLock<(TypeId, BytesOf)>; TYPES_MAX] = [const { OnceLock::new() }; TYPES_MAX];

/// Says how many bytes messages of a type hold outside of themselves, so that they count for as much while they wait: a writer on
/// another thread is told by [`Channel::is_writable`](crate::Channel::is_writable) that there is too much, and a handler by
/// [`Context::is_writable`](crate::Context::is_writable). For whoever defines messages; what is said first of a type stays.
///
/// Not for [`Bytes`], [`BytesMut`], `Vec<u8>` and `String`, which count for their length. False if this was said of as many types
/// as there is room for (32): then its messages count for their own size.
///
/// ```
/// use netwright_core::count_bytes_of;
///
/// struct Picture { title: String, pixels: Vec<u32> }
///
/// assert!(count_bytes_of(|picture: &Picture| picture.title.len() + 4 * picture.pixels.len()));
/// ```
pub fn count_bytes_of<M: 'static>(bytes: impl Fn(&M) -> usize + Copy + Send + Sync + 'static) -> bool {
    let id = TypeId::of::<M>();
    KNOWN.iter().any(|place| {
        let (known, _) = place.get_or_init(|| {
            let bytes = move |msg: &dyn Any| msg.downcast_ref::<M>().map_or(0, bytes);
            (id, Box::new(bytes))
        });
        *known == id
    })
}

/// What a message counts for while it is on its way: the room it takes itself, and the bytes that it holds.
pub(crate) fn size_of_message<W: 'static>(msg: &W) -> usize {
    let bytes = bytes_seen(msg).unwrap_or_else(|| known_bytes(TypeId::of::<W>(), msg));
    size_of::<W>() + bytes
}

/// The same as far as it can be told at once: what was said of other types is not looked up.
#[inline]
pub(crate) fn size_at_first_sight<W: 'static>(msg: &W) -> usize {
    size_of::<W>() + bytes_seen(msg).unwrap_or(0)
}

/// The bytes of a message that is nothing else. Whether it is, is known when this is compiled.
#[inline]
fn bytes_seen<W: 'static>(msg: &W) -> Option<usize> {
    let any: &dyn Any = msg;
    Some(if let Some(bytes) = any.downcast_ref::<Bytes>() {
        bytes.len()
    } else if let Some(bytes) = any.downcast_ref::<BytesMut>() {
        bytes.len()
    } else if let Some(bytes) = any.downcast_ref::<Vec<u8>>() {
        bytes.len()
    } else if let Some(text) = any.downcast_ref::<String>() {
        text.len()
    } else if let Some(envelope) = any.downcast_ref::<Envelope>() {
        envelope.bytes.len()
    } else if let Some(outgoing) = any.downcast_ref::<Outgoing>() {
        match outgoing {
            Outgoing::Bytes(bytes) => bytes.len(),
            Outgoing::Envelope(envelope) => envelope.bytes.len(),
            _ => 0,
        }
    } else {
        return None;
    })
}

fn known_bytes(id: TypeId, msg: &dyn Any) -> usize {
    let said = KNOWN.iter().map_while(OnceLock::get).find(|(known, _)| *known == id);
    said.map_or(0, |(_, bytes)| bytes(msg))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_count_for_the_bytes_that_they_hold() {
        struct Unknown(#[allow(dead_code)] Vec<u8>);
        struct Known(Vec<u8>);
        assert_eq!(size_of_message(&Bytes::from(vec![0; 100])), size_of::<Bytes>() + 100);
        assert_eq!(size_of_message(&"hello".to_owned()), size_of::<String>() + 5);
        assert_eq!(size_of_message(&Unknown(vec![0; 100])), size_of::<Unknown>());
        assert!(count_bytes_of(|known: &Known| known.0.len()));
        assert!(count_bytes_of(|_: &Known| 1000));
        let known = Known(vec![0; 100]);
        assert_eq!(size_of_message(&known), size_of::<Known>() + 100, "what was said first stays");
        assert_eq!(size_at_first_sight(&known), size_of::<Known>());
        assert_eq!(size_at_first_sight(&Bytes::from(vec![0; 100])), size_of::<Bytes>() + 100);
    }
}
