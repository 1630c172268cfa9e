use super::*;
use crate::{LineDecoder, LineEncoder, codec};
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
