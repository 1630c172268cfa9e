//! Frames that all have the same length.

use super::{FrameError, Impossible};
use crate::base::{Batch, Coded, DecodeError, Decoder, Encoder, codec, take};
use bytes::{BufMut, Bytes, BytesMut};
use netwright_core::Fault;

/// Cuts bytes into frames of a fixed length, and refuses to write any other. What is left at the channel's end is dropped.
///
/// ```
/// use netwright_codec::FixedFrames;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(FixedFrames::of(3)?));
/// channel.write_inbound(b"abcde").write_inbound(b"fg");
/// assert_eq!(channel.read_inbound().unwrap(), "abc");
/// assert_eq!(channel.read_inbound().unwrap(), "def");
/// assert!(channel.read_inbound().is_none());
/// # Ok::<(), netwright_codec::Impossible>(())
/// ```
pub type FixedFrames = Coded<(FixedDecoder, FixedEncoder)>;

impl FixedFrames {
    /// Frames of so many bytes.
    pub fn of(length: usize) -> Result<Self, Impossible> {
        Ok(codec((FixedDecoder::of(length)?, FixedEncoder::of(length)?)))
    }

    /// Fills what is written up to the length with this byte, and takes it off the end of what is read: records with spaces or
    /// zeros behind their text. A message longer than the frame is refused. Default: messages have the length of a frame,
    /// and keep every byte.
    ///
    /// Whoever reads cannot tell such bytes at the end of a message from those that fill its frame: they are gone, too.
    ///
    /// ```
    /// use netwright_codec::FixedFrames;
    /// use netwright_core::{EmbeddedChannel, pipeline};
    ///
    /// let mut channel = EmbeddedChannel::new(pipeline().add(FixedFrames::of(8)?.filled_with(b' ')));
    /// channel.write_inbound(b"New YorkRome    ");
    /// assert_eq!(channel.read_inbound().unwrap(), "New York");
    /// assert_eq!(channel.read_inbound().unwrap(), "Rome");
    /// channel.write_outbound("Oslo");
    /// assert_eq!(channel.outbound_bytes(), b"Oslo    ");
    /// # Ok::<(), netwright_codec::Impossible>(())
    /// ```
    pub fn filled_with(mut self, byte: u8) -> Self {
        let (decoder, encoder) = self.inner_mut();
        (decoder.fill, encoder.fill) = (Some(byte), Some(byte));
        self
    }
}

/// Cuts bytes into frames of a fixed length.
///
/// ```
/// use netwright_codec::{Decoder, FixedDecoder};
/// use bytes::BytesMut;
///
/// let (mut pairs, mut bytes) = (FixedDecoder::of(2)?, BytesMut::from("abc"));
/// assert_eq!(pairs.decode(&mut bytes).unwrap().unwrap(), "ab");
/// assert!(pairs.decode(&mut bytes).unwrap().is_none());
/// # Ok::<(), netwright_codec::Impossible>(())
/// ```
#[derive(Debug, Clone)]
pub struct FixedDecoder {
    length: usize,
    /// What is taken off the end of each frame.
    fill: Option<u8>,
}

fn check(length: usize) -> Result<usize, Impossible> {
    match length {
        0 => Err(Impossible::new("length", 0, "there would be frames without end")),
        length => Ok(length),
    }
}

impl FixedDecoder {
    /// Frames of so many bytes.
    pub fn of(length: usize) -> Result<Self, Impossible> {
        Ok(Self { length: check(length)?, fill: None })
    }

    /// Takes this byte off the end of each frame, as often as it is there. Default: frames stay as they are.
    pub fn trimmed_of(mut self, byte: u8) -> Self {
        self.fill = Some(byte);
        self
    }
}

impl Decoder for FixedDecoder {
    type Item = Bytes;

    #[inline]
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        if bytes.len() < self.length {
            return Ok(None);
        }
        let mut frame = take(bytes, self.length).freeze();
        if let Some(fill) = self.fill {
            frame.truncate(frame.iter().rposition(|byte| *byte != fill).map_or(0, |last| last + 1));
        }
        Ok(Some(frame))
    }

    fn needs(&self) -> Option<usize> {
        Some(self.length)
    }

    fn limit(&self) -> usize {
        self.length
    }

    fn name(&self) -> &'static str {
        "FixedFrames"
    }
}

/// Writes frames of a fixed length, and refuses others.
///
/// ```
/// use netwright_codec::FixedFrames;
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// // The other half of `FixedFrames`.
/// let mut channel = EmbeddedChannel::new(pipeline().add(FixedFrames::of(5)?));
/// channel.write_outbound("hello");
/// assert_eq!(channel.outbound_bytes(), b"hello");
/// # Ok::<(), netwright_codec::Impossible>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FixedEncoder {
    length: usize,
    /// What short messages are filled up with.
    fill: Option<u8>,
}

impl FixedEncoder {
    /// Frames of so many bytes.
    pub fn of(length: usize) -> Result<Self, Impossible> {
        Ok(Self { length: check(length)?, fill: None })
    }

    /// Fills shorter messages up with this byte. Default: they are refused.
    pub fn filled_with(mut self, byte: u8) -> Self {
        self.fill = Some(byte);
        self
    }
}

impl Encoder for FixedEncoder {
    type Message = Bytes;

    #[inline]
    fn encode(&mut self, frame: Bytes, out: &mut Batch) -> Result<(), Fault> {
        let (length, got) = (self.length, frame.len());
        match self.fill {
            _ if got == length => out.pass(frame),
            Some(fill) if got < length => {
                out.pass(frame);
                out.put_bytes(fill, length - got);
            }
            Some(_) => return Err(FrameError::TooLong { limit: length, got }.into()),
            None => return Err(FrameError::WrongLength { expected: length, got }.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright_core::{CloseCause, EmbeddedChannel, WriteError, pipeline};

    fn filled() -> EmbeddedChannel<Bytes, Bytes> {
        EmbeddedChannel::new(pipeline().add(FixedFrames::of(6).unwrap().filled_with(b'.')))
    }

    #[test]
    fn short_messages_are_filled_up_and_what_was_filled_is_taken_off_again() {
        let messages = ["", "a", "five5", "sixsix", "..a"];
        let mut writer = filled();
        for message in messages {
            writer.write_outbound(message);
        }
        let sent = writer.outbound_bytes();
        assert_eq!(sent, b"......a.....five5.sixsix..a...");
        let mut reader = filled();
        reader.write_inbound(&sent);
        for message in messages {
            assert_eq!(reader.read_inbound().unwrap(), message);
        }
    }

    #[test]
    fn a_large_message_is_filled_up_in_its_place() {
        let length = 3 * crate::base::GATHER_MAX;
        let frames = FixedFrames::of(length).unwrap().filled_with(0);
        let mut channel = EmbeddedChannel::new(pipeline().add(frames));
        channel.write_outbound("x".repeat(length - 2)).write_outbound("y");
        let sent = channel.outbound_bytes();
        assert_eq!(sent.len(), 2 * length);
        assert_eq!(&sent[length - 3..length + 2], b"x\0\0y\0");
    }

    #[test]
    fn a_message_longer_than_its_frame_is_refused_with_its_length_and_the_limit() {
        let mut channel = filled();
        let mut refused = channel.channel().send("seven77");
        channel.run();
        let Err(WriteError::Fault(fault)) = refused.wait() else { panic!("it was written") };
        let error = fault.downcast_ref::<FrameError>();
        assert_eq!(error, Some(&FrameError::TooLong { limit: 6, got: 7 }));
        assert!(channel.is_open(), "who hears of it can go on");
        channel.write_outbound("much too long");
        let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { panic!("no cause") };
        assert_eq!(fault.to_string(), "a frame of 13 bytes or more, the limit is 6");
        assert_eq!(channel.outbound_bytes(), b"");
    }

    #[test]
    fn without_a_byte_to_fill_up_with_a_short_message_is_refused_and_nothing_is_trimmed() {
        let mut channel = EmbeddedChannel::new(pipeline().add(FixedFrames::of(3).unwrap()));
        channel.write_inbound(b"a  ");
        assert_eq!(channel.read_inbound().unwrap(), "a  ");
        let mut refused = channel.channel().send("ab");
        channel.run();
        let Err(WriteError::Fault(fault)) = refused.wait() else { panic!("it was written") };
        assert_eq!(fault.to_string(), "a frame of 2 bytes, all have 3");
        assert_eq!(FixedEncoder::of(0).unwrap_err().parameter, "length");
    }
}
