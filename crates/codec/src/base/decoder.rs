//! A decoder: bytes in, one message out for each call.
//!
//! ```text
//!   decode(bytes) ──▶ Ok(Some(message))   its bytes are taken off the front; ask again
//!                 ──▶ Ok(None)            more bytes are needed, the unfinished ones stay where they are
//!                 ──▶ Err(recoverable)    this message is lost, its bytes are taken off; ask again
//!                 ──▶ Err(fatal)          nothing sensible can follow; never asked again
//! ```
//! Not here: who asks and what happens to the answers (`decoding`), which bytes are kept meanwhile (`intake`).

use super::short_name;
use bytes::BytesMut;
use netwright_core::Fault;
use std::{error::Error, fmt};

/// Makes messages of a stream of bytes.
///
/// As a stage: [`decode`](super::decode).
///
/// ```
/// use bytes::{Buf, BytesMut};
/// use netwright_codec::{DecodeError, Decoder, decode};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// /// Numbers of four bytes.
/// struct Numbers;
///
/// impl Decoder for Numbers {
///     type Item = u32;
///     fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<u32>, DecodeError> {
///         Ok((bytes.len() >= 4).then(|| bytes.get_u32()))
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(decode(Numbers)));
/// channel.write_inbound([0, 0, 0, 1, 0, 0]).write_inbound([0, 2]);
/// assert_eq!((channel.read_inbound(), channel.read_inbound()), (Some(1), Some(2)));
/// ```
pub trait Decoder: Sized + 'static {
    /// What it makes.
    type Item: 'static;

    /// The next message. Takes the bytes of the message, and of anything that can be skipped, off the front; `None`
    /// leaves what is unfinished where it is, or takes it into a state of its own.
    ///
    /// Called whenever there are new bytes, and again after each message and each recoverable error. A recoverable
    /// error has to take off at least a byte: the same bytes would be refused for ever.
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, DecodeError>;

    /// The stream has ended, and this is what is left of it; maybe nothing. Called once. By default the rest is dropped.
    #[allow(unused_variables)]
    fn decode_last(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, DecodeError> {
        Ok(None)
    }

    /// Whether another message can be made without another byte, because the decoder itself holds one.
    fn has_more(&self) -> bool {
        false
    }

    /// How many bytes the unfinished message will have, from its first one on, if that is known by now. Room is made
    /// for them, and no byte behind them is copied.
    fn needs(&self) -> Option<usize> {
        None
    }

    /// How many of these bytes, which follow the unfinished ones, end the unfinished message. Asked only when
    /// [`needs`](Self::needs) has no answer. A guess is enough: too few are followed by more, too many are copied for nothing.
    fn wants(&self, more: &[u8]) -> usize {
        more.len()
    }

    /// How many bytes may stay unfinished. More than that means that the decoder waits for an end that does not come,
    /// which is a fatal error. A format with a limit of its own answers that.
    fn limit(&self) -> usize {
        UNFINISHED_MAX
    }

    /// What to call it in listings and errors.
    fn name(&self) -> &'static str {
        short_name::<Self>()
    }
}

/// What a decoder that knows no limit may keep of one connection: more than most messages have, and a thousand
/// connections that fill it do not yet end the process.
const UNFINISHED_MAX: usize = 1024 * 1024;

/// What is wrong with the bytes, and whether the stream can go on.
///
/// Every error converts into a fatal one, so `?` says "nothing sensible can follow". Where the format knows where the
/// next message begins, [`recoverable`](Self::recoverable) says so.
///
/// ```
/// use netwright_codec::DecodeError;
///
/// let wrong = "x".parse::<u32>().unwrap_err();
/// assert!(DecodeError::from(wrong.clone()).is_fatal());
/// let one_message = DecodeError::recoverable(wrong);
/// assert!(!one_message.is_fatal());
/// assert_eq!(one_message.to_string(), "invalid digit found in string");
/// ```
#[derive(Debug, Clone)]
pub struct DecodeError {
    fault: Fault,
    fatal: bool,
}

impl DecodeError {
    /// One message is lost; the next one can be read.
    pub fn recoverable(error: impl Into<Fault>) -> Self {
        Self { fault: error.into(), fatal: false }
    }

    /// Nothing sensible can follow: the channel is closed when everybody has been told.
    pub fn fatal(error: impl Into<Fault>) -> Self {
        Self { fault: error.into(), fatal: true }
    }

    /// Whether nothing sensible can follow.
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// The error itself.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// The error itself, without the verdict.
    pub fn into_fault(self) -> Fault {
        self.fault
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for DecodeError {
    fn from(error: E) -> Self {
        Self::fatal(error)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.fault, f)
    }
}

/// A decoder breaks the rules of [`Decoder`]: a mistake in the program, not in the bytes. Found instead of looped on.
///
/// ```
/// use netwright_codec::DecoderDefect;
///
/// let defect = DecoderDefect::Endless { decoder: "Mine", messages: 1000 };
/// assert!(defect.to_string().starts_with("Mine gave 1000 messages"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecoderDefect {
    /// It reported an error as recoverable and took off nothing: it would refuse the same bytes for ever.
    RefusesInPlace {
        /// Its name.
        decoder: &'static str,
        /// How many bytes it was given.
        has: usize,
    },
    /// It waits for a number of bytes, has them, and makes nothing of them.
    WaitsForWhatItHas {
        /// Its name.
        decoder: &'static str,
        /// How many bytes it wants.
        needs: usize,
        /// How many it has.
        has: usize,
    },
    /// It gave so many messages in a row without taking off a byte that there seems to be no end of them.
    Endless {
        /// Its name.
        decoder: &'static str,
        /// How many it gave.
        messages: u32,
    },
}

impl fmt::Display for DecoderDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RefusesInPlace { decoder, has } => {
                write!(f, "{decoder} reported a recoverable error and took off none of {has} bytes")
            }
            Self::WaitsForWhatItHas { decoder, needs, has } => {
                write!(f, "{decoder} waits for {needs} bytes, has {has} and makes nothing of them")
            }
            Self::Endless { decoder, messages } => {
                write!(f, "{decoder} gave {messages} messages in a row without taking off a byte")
            }
        }
    }
}

impl Error for DecoderDefect {}

/// A peer sends and sends, and its message does not end: more than [`Decoder::limit`] bytes are unfinished.
///
/// ```
/// use netwright_codec::Unfinished;
/// use netwright_core::CloseCause;
///
/// /// Whether a channel was closed because of a message without an end.
/// fn flooded(cause: &CloseCause) -> bool {
///     matches!(cause, CloseCause::Fault(fault) if fault.downcast_ref::<Unfinished>().is_some())
/// }
/// assert!(!flooded(&CloseCause::PeerClosed));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// Who waits for an end.
    pub decoder: &'static str,
    /// How many bytes may stay unfinished.
    pub limit: usize,
    /// How many did.
    pub got: usize,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { decoder, limit, got } = self;
        write!(f, "{decoder} has {got} bytes of a message without an end, the limit is {limit}")
    }
}

impl Error for Unfinished {}
