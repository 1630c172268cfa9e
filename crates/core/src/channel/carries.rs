//! What can be written where something else is taken.
//!
//! ```text
//!   [ Tls: takes Outgoing ] ◀── Bytes ── [ echo: writes Bytes ]         an `Outgoing` carries bytes
//!   [ Tls: takes Outgoing ] ◀── Outgoing ── [ HTTP: bytes and files ]   and everything carries itself
//! ```
//! Bytes and files have one type towards the wire, [`Outgoing`]. Who writes bytes need not know: whatever bytes are made of is
//! carried by it, between two stages and from the hand of whoever writes.

use super::{Envelope, FileRegion, Outgoing};
use bytes::{Bytes, BytesMut};

/// A message type as which an `M` can be written: `M` itself, and for types of bytes also text, vectors and buffers.
///
/// Whoever takes [`Outgoing`] or [`Bytes`] is given text, vectors and buffers as they are; whoever takes `Outgoing` also files. The
/// same between stages: one that writes `Bytes` fits behind one that takes `Outgoing`.
///
/// ```
/// use netwright_core::{EmbeddedChannel, FileRegion, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().handle(|cx, question| match &question[..] {
///     b"who" => cx.write_and_flush("a server"),
///     b"what" => cx.write_and_flush(question), // a buffer, sent back as it is
///     b"when" => cx.write_and_flush(format!("{:?}", std::time::SystemTime::UNIX_EPOCH)),
///     _ => cx.write_and_flush(FileRegion::whole(std::fs::File::open(std::env::current_exe().unwrap()).unwrap()).unwrap()),
/// }));
/// channel.write_inbound("who");
/// assert_eq!(channel.outbound_bytes(), b"a server");
/// ```
///
/// A message type of one's own may carry others:
///
/// ```
/// use netwright_core::Carries;
///
/// enum Reply { Text(String), Nothing }
///
/// impl Carries<String> for Reply {
///     fn carry(text: String) -> Self {
///         Self::Text(text)
///     }
/// }
/// # let _ = (Reply::Nothing, Reply::carry(String::new()));
/// // Where a `Reply` is taken, `cx.write("text".to_owned())` will do, and a stage that writes `String` fits.
/// ```
#[diagnostic::on_unimplemented(
    message = "`{M}` cannot be written where `{Self}` is taken",
    label = "writes `{M}`, and what is in front takes `{Self}`",
    note = "a message is taken as it is; `Bytes` and `Outgoing` are also made of text, vectors and buffers, and `Outgoing` of files"
)]
pub trait Carries<M>: Sized {
    /// The message as it is taken.
    fn carry(message: M) -> Self;
}

impl<M> Carries<M> for M {
    #[inline(always)]
    fn carry(message: M) -> M {
        message
    }
}

/// The other way round, for bounds on what is written: `M: CarriedBy<W>` says that `W` [carries](Carries) `M`.
#[doc(hidden)]
pub trait CarriedBy<W>: Sized + 'static {
    fn carried(self) -> W;
}

impl<M: 'static, W: Carries<M>> CarriedBy<W> for M {
    #[inline(always)]
    fn carried(self) -> W {
        W::carry(self)
    }
}

/// Whoever takes `$to` is given `$from`.
macro_rules! carries {
    ($($to:ty: $($from:ty),+;)+) => {$($(
        #[diagnostic::do_not_recommend]
        impl Carries<$from> for $to {
            #[inline]
            fn carry(message: $from) -> Self {
                message.into()
            }
        }
    )+)+};
}

carries! {
    Outgoing: Bytes, BytesMut, Vec<u8>, Box<[u8]>, String, &'static [u8], &'static str, FileRegion, Envelope;
    Bytes: BytesMut, Vec<u8>, Box<[u8]>, String, &'static [u8], &'static str;
}

#[diagnostic::do_not_recommend]
impl<const N: usize> Carries<&'static [u8; N]> for Outgoing {
    #[inline]
    fn carry(message: &'static [u8; N]) -> Self {
        message.as_slice().into()
    }
}

#[diagnostic::do_not_recommend]
impl<const N: usize> Carries<&'static [u8; N]> for Bytes {
    #[inline]
    fn carry(message: &'static [u8; N]) -> Self {
        Self::from_static(message)
    }
}
