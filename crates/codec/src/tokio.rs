//! Both ways between tokio-util's codecs and ours.
//!
//! ```text
//!   tokio_util::codec::{Decoder, Encoder} ── FromTokio ──▶ Decoder, Encoder ──▶ a stage
//!   tokio_util::codec::Framed            ◀── IntoTokio ─── Decoder, Encoder
//! ```
//! What they differ in: tokio-util's errors end a stream, so they are fatal here; and ours may be recoverable, which `Framed`
//! shows as an error and the end of its stream. It can be polled on behind that end.

use crate::base::{Batch, DecodeError, Decoder, Encoder, Unfinished};
use bytes::BytesMut;
use netwright_core::Fault;
use std::{convert::Infallible, error::Error, fmt, io, marker::PhantomData};
use tokio_util::codec;

/// A codec of tokio-util as one of ours. `M` is what its encoder takes.
///
/// ```
/// use netwright_codec::{FromTokio, codec, decode};
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use tokio_util::codec::{LengthDelimitedCodec, LinesCodec};
///
/// let lines = codec(FromTokio::<_, String>::codec(LinesCodec::new_with_max_length(100)));
/// let mut channel = EmbeddedChannel::new(pipeline().add(lines));
/// channel.write_inbound("hel").write_inbound("lo\nunfinished").write_outbound("back".to_owned()).close_by_peer();
/// assert_eq!(channel.read_inbound().as_deref(), Some("hello"));
/// assert_eq!(channel.read_inbound().as_deref(), Some("unfinished"));
/// assert_eq!(channel.outbound_bytes(), b"back\n");
///
/// let frames = pipeline().add(decode(FromTokio::decoder(LengthDelimitedCodec::new())));
/// # drop(frames);
/// ```
#[derive(Debug, Clone)]
pub struct FromTokio<C, M = Infallible> {
    codec: C,
    /// At the end it gave a message, so it may give another one.
    ending: bool,
    messages: PhantomData<fn(M)>,
}

impl<C: codec::Decoder> FromTokio<C> {
    /// Only the decoder of it.
    pub fn decoder(codec: C) -> Self {
        Self::codec(codec)
    }
}

impl<C, M> FromTokio<C, M> {
    /// Decoder and encoder, for messages of type `M`.
    pub fn codec(codec: C) -> Self {
        Self { codec, ending: false, messages: PhantomData }
    }
}

impl<C, M> Decoder for FromTokio<C, M>
where
    C: codec::Decoder + 'static,
    C::Item: 'static,
    C::Error: Error + Send + Sync + 'static,
    M: 'static,
{
    type Item = C::Item;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<C::Item>, DecodeError> {
        Ok(self.codec.decode(bytes)?)
    }

    fn decode_last(&mut self, bytes: &mut BytesMut) -> Result<Option<C::Item>, DecodeError> {
        let last = self.codec.decode_eof(bytes)?;
        self.ending = last.is_some();
        Ok(last)
    }

    fn has_more(&self) -> bool {
        self.ending
    }

    fn limit(&self) -> usize {
        usize::MAX // it has one of its own, which we cannot ask for
    }

    fn name(&self) -> &'static str {
        crate::base::short_name::<C>()
    }
}

impl<C, M> Encoder for FromTokio<C, M>
where
    C: codec::Encoder<M> + 'static,
    C::Error: Error + Send + Sync + 'static,
    M: 'static,
{
    type Message = M;

    fn encode(&mut self, message: M, out: &mut Batch) -> Result<(), Fault> {
        Ok(self.codec.encode(message, out)?)
    }
}

/// One of our codecs for tokio-util's `Framed`, `FramedRead` and `FramedWrite`.
///
/// ```
/// use bytes::BytesMut;
/// use netwright_codec::{IntoTokio, LineDecoder};
/// use tokio_util::codec::Decoder;
///
/// let mut lines = IntoTokio(LineDecoder::max(100));
/// let mut bytes = BytesMut::from("one\ntwo");
/// assert_eq!(lines.decode(&mut bytes)?.unwrap(), "one");
/// assert!(lines.decode(&mut bytes)?.is_none());
/// # Ok::<(), netwright_codec::tokio::TokioError>(())
/// ```
#[derive(Debug, Clone)]
pub struct IntoTokio<C>(pub C);

/// What goes wrong in tokio-util's `Framed` with one of our codecs.
///
/// ```
/// use netwright_codec::tokio::TokioError;
///
/// /// Whether the stream can go on with the next message.
/// fn goes_on(error: &TokioError) -> bool {
///     matches!(error, TokioError::Decode(error) if !error.is_fatal())
/// }
/// assert!(!goes_on(&TokioError::Io(std::io::ErrorKind::BrokenPipe.into())));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TokioError {
    /// What the stream underneath reports.
    Io(io::Error),
    /// What is wrong with the bytes, and whether the stream can go on.
    Decode(DecodeError),
    /// What is wrong with a message.
    Encode(Fault),
}

impl fmt::Display for TokioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Decode(error) => error.fmt(f),
            Self::Encode(fault) => fault.fmt(f),
        }
    }
}

impl Error for TokioError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Decode(error) => Some(error.fault().as_error()),
            Self::Encode(fault) => Some(fault.as_error()),
        }
    }
}

impl From<io::Error> for TokioError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl<C: Decoder> codec::Decoder for IntoTokio<C> {
    type Item = C::Item;
    type Error = TokioError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<C::Item>, TokioError> {
        while !bytes.is_empty() || self.0.has_more() {
            let before = bytes.len();
            let message = self.0.decode(bytes).map_err(TokioError::Decode)?;
            if message.is_some() {
                return Ok(message);
            }
            if bytes.len() >= before {
                break; // it wants more; otherwise it has skipped something and may go on
            }
        }
        let (got, limit) = (bytes.len(), self.0.limit());
        if got > limit {
            let decoder = self.0.name();
            return Err(TokioError::Decode(Unfinished { decoder, limit, got }.into()));
        }
        Ok(None)
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<C::Item>, TokioError> {
        if let Some(message) = codec::Decoder::decode(self, bytes)? {
            return Ok(Some(message));
        }
        let last = self.0.decode_last(bytes);
        bytes.clear(); // nobody is asked about the same bytes twice
        last.map_err(TokioError::Decode)
    }
}

impl<C: Encoder> codec::Encoder<C::Message> for IntoTokio<C> {
    type Error = TokioError;

    fn encode(&mut self, message: C::Message, bytes: &mut BytesMut) -> Result<(), TokioError> {
        let mut batch = Batch::new();
        self.0.encode(message, &mut batch).map_err(TokioError::Encode)?;
        batch.append_to(bytes);
        Ok(())
    }
}
