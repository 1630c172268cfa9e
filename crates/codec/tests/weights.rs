//! What an encoder says of its messages counts in every stage that is made of it.

use bytes::{BufMut, Bytes, BytesMut};
use netwright_codec::{
    Batch, DecodeError, EachDatagram, Encoder, Lift, LineDecoder, LineFrames, MessageDecoder, MessageEncoder,
    Messages, Utf8, codec, encode, encode_messages, message_codec,
};
use netwright_core::{EmbeddedChannel, Fault, Handler, Weight, pipeline};

/// As if it held so many bytes.
struct Letter(usize);

#[derive(Clone)]
struct Letters;

impl Encoder for Letters {
    type Message = Letter;
    const WEIGHT: Weight<Letter> = Weight::of(|letter| letter.0);
    fn encode(&mut self, _: Letter, out: &mut Batch) -> Result<(), Fault> {
        out.put_slice(b"l");
        Ok(())
    }
}

struct Notes;

impl MessageEncoder for Notes {
    type In = Letter;
    type Out = Bytes;
    const WEIGHT: Weight<Letter> = Weight::of(|letter| letter.0);
    fn encode(&mut self, _: Letter, out: &mut Messages<Bytes>) -> Result<(), Fault> {
        out.push("n".into());
        Ok(())
    }
}

/// Keeps frames as they are.
struct Frames;

impl MessageDecoder for Frames {
    type In = BytesMut;
    type Out = BytesMut;
    fn decode(&mut self, frame: BytesMut, out: &mut Messages<BytesMut>) -> Result<(), DecodeError> {
        out.push(frame);
        Ok(())
    }
}

struct Sent;

impl From<(u16, Bytes)> for Sent {
    fn from(_: (u16, Bytes)) -> Self {
        Self
    }
}

type Lifted = Lift<(u16, BytesMut), EachDatagram<(LineDecoder, Letters)>, u16, Sent>;

/// What a stage counts a letter for.
fn held<H: Handler<Write = Letter>>(_: &H) -> usize {
    H::WEIGHT.held(&Letter(5))
}

#[test]
fn what_an_encoder_says_of_its_messages_counts_in_every_stage_made_of_it() {
    assert_eq!(held(&encode(Letters).passing::<BytesMut>()), 5);
    assert_eq!(held(&codec((LineDecoder::max(10), Letters))), 5);
    assert_eq!(held(&encode_messages(Notes).passing::<Bytes>()), 5);
    assert_eq!(held(&message_codec((Frames, Notes))), 5);
    assert_eq!(<Lifted as Handler>::WEIGHT.held(&(7, Letter(5))), 5);
}

#[test]
fn frames_and_text_count_for_their_bytes_without_a_word() {
    let channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(Utf8::strict()));
    channel.channel().write("x".repeat(1 << 20));
    assert!(!channel.channel().is_writable());
}
