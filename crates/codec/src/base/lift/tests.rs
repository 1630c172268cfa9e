use super::*;
use crate::{
    DelimiterDecoder, JsonDecoder, LengthField, LineBatches, LineDecoder, LineEncoder, Varint32Decoder, codec,
};
use netwright_core::{EmbeddedChannel, InboundOnly, inbound, pipeline};

type Lines = EachDatagram<(LineDecoder, LineEncoder)>;
type OnPorts = Lift<(u16, BytesMut), Lines, u16, Bytes>;

/// Stands for a datagram socket: a first byte that tells the port.
struct Ports;

impl InboundOnly for Ports {
    type Read = BytesMut;
    type ReadOut = (u16, BytesMut);
    type Write = Bytes;
    fn read(&mut self, cx: &mut Context<'_, netwright_core::InboundStage<Self>>, mut bytes: BytesMut) {
        let port = u16::from(bytes.split_to(1)[0]);
        cx.fire_read((port, bytes));
    }
}

struct Sent(u16, Bytes);

impl From<(u16, Bytes)> for Sent {
    fn from((port, bytes): (u16, Bytes)) -> Self {
        Self(port, bytes)
    }
}

/// Puts the port in front again.
struct Ported;

impl Handler for Ported {
    type Read = (u16, BytesMut);
    type ReadOut = (u16, BytesMut);
    type Write = Sent;
    type WriteOut = Bytes;
    fn read(&mut self, cx: &mut Context<'_, Self>, msg: (u16, BytesMut)) {
        cx.fire_read(msg);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, sent: Sent, done: WritePromise) {
        let mut bytes = BytesMut::from(&[sent.0 as u8][..]);
        bytes.extend_from_slice(&sent.1);
        cx.write_with(bytes.freeze(), done);
    }
}

#[test]
fn the_address_goes_along_and_a_bad_datagram_harms_no_other() {
    let lines = EachDatagram((LineDecoder::max(10), LineEncoder::lf()));
    let lifted: Lift<(u16, BytesMut), Lines, u16, Sent> = Lift::between(lines);
    let mut channel = EmbeddedChannel::new(pipeline().add(inbound(Ports)).add(Ported).add(lifted));
    channel.write_inbound(b"\x01one\ntwo\n").write_inbound(b"\x02unfin").write_inbound(b"\x03ished\n");
    for (port, line) in [(1, "one"), (1, "two"), (3, "ished")] {
        assert_eq!(channel.read_inbound(), Some((port, Bytes::from(line))));
    }
    assert!(channel.read_inbound().is_none() && channel.is_open());
    channel.write_outbound((7, Bytes::from("back")));
    assert_eq!(channel.read_outbound().unwrap(), &b"\x07back\n"[..]);
}

#[test]
fn by_default_it_writes_envelopes() {
    let _: Lift<(Address, BytesMut), Lines> =
        Lift::new(EachDatagram((LineDecoder::max(10), LineEncoder::lf())));
    let _ = (codec((LineDecoder::max(1), LineEncoder::lf())), std::any::type_name::<OnPorts>());
}

/// How many messages come of a datagram, and what is wrong with it.
fn opened<C: Decoder + Clone>(decoder: C, datagram: impl AsRef<[u8]>) -> (usize, Option<String>) {
    let mut out = Messages::new();
    let error = EachDatagram(decoder).decode(BytesMut::from(datagram.as_ref()), &mut out).err();
    (std::iter::from_fn(|| out.pop()).count(), error.map(|error| error.to_string()))
}

#[test]
fn a_datagram_whose_bytes_were_skipped_is_told_of() {
    let long = "x".repeat(20);
    let told = |got: usize| Some(format!("a frame of {got} bytes or more, the limit is 10"));
    for fast in [false, true] {
        let lines = LineDecoder::max(10).fail_fast(fast);
        assert_eq!(opened(lines.clone(), &long), (0, told(20)), "fast: {fast}");
        assert_eq!(opened(lines, format!("one\n{long}")), (1, told(20)), "fast: {fast}");
        let field = LengthField::new(1).max(10).fail_fast(fast).decoder().unwrap();
        assert_eq!(opened(field, format!("\x01a\x14{}", "x".repeat(5))), (1, told(21)), "fast: {fast}");
    }
    assert_eq!(opened(LineBatches::max(10), &long), (0, told(20)));
    assert_eq!(opened(DelimiterDecoder::max(10, [";;"]).unwrap().fail_fast(false), &long), (0, told(20)));
    assert_eq!(opened(JsonDecoder::max(10).fail_fast(false), format!("{{{long}")), (0, told(21)));
    assert_eq!(opened(Varint32Decoder::max(10).fail_late(), format!("\x14{}", "x".repeat(5))), (0, told(20)));
}

#[test]
fn what_follows_a_message_that_is_too_long_is_read() {
    let told = Some("a frame of 20 bytes or more, the limit is 10".to_owned());
    let datagram = format!("one\n{}\ntwo\nthree\n", "x".repeat(20));
    assert_eq!(opened(LineDecoder::max(10), datagram), (3, told));
}

/// Keeps everything to itself.
#[derive(Clone)]
struct Glutton;

impl Decoder for Glutton {
    type Item = ();
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<()>, DecodeError> {
        bytes.clear();
        Ok(None)
    }
}

#[test]
fn a_datagram_of_which_nothing_comes_is_told_of_and_one_of_nothing_is_not() {
    assert_eq!(opened(Glutton, "abc"), (0, Some("3 bytes of a datagram of 3 are in no message".to_owned())));
    assert_eq!(opened(Glutton, ""), (0, None));
    assert_eq!(opened(JsonDecoder::max(10), "{}\n"), (1, None), "what a format skips is no matter");
}
