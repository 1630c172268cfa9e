//! Each format behind frames: what is written is read again, however the bytes come.

use crate::types::{Item, Order, Picky, ProtoOrder, items, orders, proto_orders};
use bytes::{Bytes, BytesMut};
use netwright_codec::{
    Cbor, Json, LengthFrames, Lift, LineFrames, MessagePack, Postcard, Protobuf, Thrift, ThriftCall,
    Varint32Frames,
    serial::{
        Format, JsonFormat, MessagePackFormat, PostcardFormat, SerialError, ThriftBody, ThriftFormat, Typed,
    },
};
use netwright_core::{AppContext, Application, CloseCause, EmbeddedChannel, Fault, Handler, pipeline};
use netwright_testkit::{allocations_during, verify_decoder};
use serde::{Deserialize, Serialize};
use std::{cell::RefCell, fmt::Debug, rc::Rc};
use thrift::{ApplicationError, ApplicationErrorKind};

/// Writes all, reads the bytes in pieces of every length up to 40 and whole, and gets the same.
fn there_and_back<T, H>(stage: impl Fn() -> H, values: &[T])
where
    T: Clone + PartialEq + Debug + 'static,
    H: Handler<Read = Bytes, ReadOut = T, Write = T, WriteOut = Bytes>,
{
    let mut out = EmbeddedChannel::new(pipeline().add(LengthFrames::max(1 << 20)).add(stage()));
    for value in values {
        out.write_outbound(value.clone());
    }
    let bytes = out.outbound_bytes();
    for len in (1..=40).chain([bytes.len()]) {
        let mut input = EmbeddedChannel::new(pipeline().add(LengthFrames::max(1 << 20)).add(stage()));
        for piece in bytes.chunks(len) {
            input.write_inbound(piece);
        }
        for (index, value) in values.iter().enumerate() {
            let read = input.read_inbound();
            assert!(read.as_ref() == Some(value), "pieces of {len}: number {index} is {read:?}");
        }
        assert!(input.read_inbound().is_none() && input.is_open());
    }
}

#[test]
fn every_format_reads_what_it_wrote_however_the_bytes_come() {
    there_and_back(Json::<Order>::new, &orders());
    there_and_back(MessagePack::<Order>::new, &orders());
    there_and_back(|| MessagePack::<Order>::with(MessagePackFormat::new().named(true)), &orders());
    there_and_back(Cbor::<Order>::new, &orders());
    there_and_back(Postcard::<Order>::new, &orders());
    there_and_back(Protobuf::<ProtoOrder>::new, &proto_orders());
    there_and_back(Thrift::<Item>::new, &items());
    there_and_back(|| Thrift::<Item>::with(ThriftFormat::compact()), &items());
    there_and_back(|| Thrift::<Item>::with(ThriftFormat::binary_without_version()), &items());
}

/// Everything that `serde` has a name for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Everything {
    ints: (i8, i16, i32, i64, u8, u16, u32, u64),
    wide: Vec<i64>,
    floats: (f32, f64),
    text: char,
    unit: (),
    marker: Marker,
    new: New,
    pair: Pair,
    options: (Option<u8>, Option<Vec<u8>>, Option<Variant>),
    variants: Vec<Variant>,
    last: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Marker;
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct New(u16);
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Pair(String, bool);
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Variant {
    Plain,
    One(u32),
    Two(u32, String),
    Named { inner: Box<Option<Variant>> },
}

#[test]
fn every_shape_of_serde_passes_the_guard() {
    let everything = |last| Everything {
        ints: (i8::MIN, i16::MIN, i32::MIN, i64::MIN, u8::MAX, u16::MAX, u32::MAX, u64::MAX),
        wide: vec![-1, 0, 1, i64::MAX],
        floats: (1.5, -1e300),
        text: 'ß',
        unit: (),
        marker: Marker,
        new: New(500),
        pair: Pair("pair".to_owned(), true),
        options: (None, Some(vec![0, 255]), Some(Variant::Plain)),
        variants: vec![
            Variant::Plain,
            Variant::One(1),
            Variant::Two(2, "two".to_owned()),
            Variant::Named { inner: Box::new(Some(Variant::One(3))) },
        ],
        last,
    };
    let values = [everything(None), everything(Some(1)), everything(Some(255))];
    there_and_back(Json::<Everything>::new, &values);
    there_and_back(MessagePack::<Everything>::new, &values);
    there_and_back(|| MessagePack::<Everything>::with(MessagePackFormat::new().named(true)), &values);
    there_and_back(Cbor::<Everything>::new, &values);
    there_and_back(Postcard::<Everything>::new, &values);
    // A variant or a `None` as the last thing of a message leaves nothing behind that looks like a further byte.
    let variants = [Variant::Plain, Variant::One(0), Variant::Named { inner: Box::new(None) }];
    there_and_back(Json::<Variant>::new, &variants);
    there_and_back(MessagePack::<Variant>::new, &variants);
    there_and_back(Cbor::<Variant>::new, &variants);
    there_and_back(Postcard::<Variant>::new, &variants);
}

#[test]
fn a_broken_message_in_a_good_frame_is_an_error_and_the_next_one_is_read() {
    let picky = || Picky { wanted: 5 };
    verify_decoder!(LengthFrames::max(100), Json::<Picky>::new();
        b"\0\0\0\x0c{\"wanted\":5}" => [Ok(picky())],
        b"\0\0\0\x0b{\"wanted\":5" => [Err("11 bytes are not the JSON message that was expected: EOF")],
        b"\0\0\0\x0e{\"wanted\":500}" => [Err("expected u8")],
        b"\0\0\0\x00" => [Err("0 bytes are not the JSON message")],
        b"\0\0\0\x0e{\"wanted\":5} x" => [Err("a JSON message of 14 bytes ends after 13 of them")],
        b"\0\0\0\x0e{\"wanted\":5}\r\n" => [Ok(picky())],
    );
    verify_decoder!(LengthFrames::max(100), MessagePack::<Picky>::new();
        b"\0\0\0\x09\x81\xa6wanted\x05" => [Ok(picky())],
        b"\0\0\0\x02\x91\x05" => [Ok(picky())],
        b"\0\0\0\x08\x81\xa6wanted" => [Err("8 bytes are not the MessagePack message that was expected")],
        b"\0\0\0\x03\x91\x05\x05" => [Err("a MessagePack message of 3 bytes ends after 2 of them")],
        b"\0\0\0\x02\x91\xc1" => [Err("MessagePack")],
    );
    verify_decoder!(LengthFrames::max(100), Cbor::<Picky>::new();
        b"\0\0\0\x09\xa1\x66wanted\x05" => [Ok(picky())],
        b"\0\0\0\x0a\xbf\x66wanted\x05\xff" => [Ok(picky())],
        b"\0\0\0\x08\xa1\x66wanted" => [Err("8 bytes are not the CBOR message that was expected")],
        b"\0\0\0\x0a\xa1\x66wanted\x05\0" => [Err("a CBOR message of 10 bytes ends after 9 of them")],
    );
    verify_decoder!(LengthFrames::max(100), Postcard::<(u32, bool)>::new();
        b"\0\0\0\x03\xac\x02\x01" => [Ok((300, true))],
        b"\0\0\0\x02\xac\x02" => [Err("2 bytes are not the postcard message that was expected")],
        b"\0\0\0\x06\xff\xff\xff\xff\xff\x01" => [Err("postcard")],
        b"\0\0\0\x02\x01\x02" => [Err("postcard")],
        b"\0\0\0\x03\x01\x01\x01" => [Err("a postcard message of 3 bytes ends after 2 of them")],
    );
    let order = || ProtoOrder { id: 300, ..ProtoOrder::default() };
    verify_decoder!(Varint32Frames::max(100), Protobuf::<ProtoOrder>::new();
        b"\x03\x08\xac\x02" => [Ok(order())],
        b"\x00" => [Ok(ProtoOrder::default())],
        b"\x02\x08\xac" => [Err("2 bytes are not the Protobuf message that was expected")],
        b"\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02" => [Err("invalid varint")],
        b"\x02\x0d\x00" => [Err("Protobuf")],
        b"\x03\x12\x01\xff" => [Err("ProtoOrder.customer: invalid string value")],
    );
    let item = || Item { sold: true, ..Item::default() };
    verify_decoder!(LengthFrames::max(100), Thrift::<Item>::new();
        b"\0\0\0\x05\x02\0\x04\x01\0" => [Ok(item())],
        b"\0\0\0\x04\x02\0\x04\x01" => [Err("4 bytes are not the Thrift message that was expected")],
        b"\0\0\0\x02\0\0" => [Err("a Thrift message of 2 bytes ends after 1 of them")],
        b"\0\0\0\x02\x7f\0" => [Err("Thrift")],
    );
    verify_decoder!(LengthFrames::max(100), Thrift::<Item>::with(ThriftFormat::compact());
        b"\0\0\0\x02\x41\0" => [Ok(item())],
        b"\0\0\0\x01\x41" => [Err("1 bytes are not the Thrift message that was expected")],
        b"\0\0\0\x0b\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" => [Err("Thrift")],
    );
}

#[test]
fn bytes_behind_a_value_are_ignored_if_one_says_so() {
    let mut json = JsonFormat::new().ignore_trailing(true);
    let value: u8 = Format::<_, ()>::read(&mut json, Bytes::from_static(b"5 6")).unwrap();
    assert_eq!(value, 5);
    let mut pack = MessagePackFormat::new().ignore_trailing(true);
    assert_eq!(Format::<u8, ()>::read(&mut pack, Bytes::from_static(b"\x05\x06")).unwrap(), 5);
    let mut card = PostcardFormat::new().ignore_trailing(true);
    assert_eq!(Format::<u8, ()>::read(&mut card, Bytes::from_static(b"\x05\x06")).unwrap(), 5);
    let mut thrift = ThriftFormat::binary().ignore_trailing(true);
    assert!(Format::<Item, Item>::read(&mut thrift, Bytes::from_static(b"\0\0")).is_ok());
}

#[test]
fn an_error_that_nobody_takes_closes_the_channel_with_it() {
    let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(Json::<u8>::new()));
    channel.write_inbound("5\nx\n");
    assert_eq!(channel.read_inbound(), Some(5));
    let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else {
        panic!("not closed by a fault")
    };
    assert!(matches!(fault.downcast_ref(), Some(SerialError::Malformed { format: "JSON", len: 1, .. })));
}

#[test]
fn json_shows_where_bytes_behind_a_value_begin_also_on_a_later_line() {
    let mut json = JsonFormat::new();
    let error = Format::<Vec<u8>, ()>::read(&mut json, Bytes::from_static(b"[1,\n2]\n\n ]")).unwrap_err();
    assert_eq!(error.to_string(), "a JSON message of 10 bytes ends after 9 of them");
}

/// Cannot be a map's key in JSON.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Debug, Serialize, Deserialize)]
struct Key(Vec<u8>);

#[test]
fn a_value_that_cannot_be_written_is_an_error_and_nothing_of_it_is_sent() {
    type Keys = std::collections::BTreeMap<Key, u8>;
    struct Errors(Rc<RefCell<Vec<String>>>);
    impl Application for Errors {
        type Read = Keys;
        type Write = Keys;
        fn active(&mut self, cx: &mut AppContext<'_, Self>) {
            cx.write_and_flush(Keys::new());
            cx.write_and_flush(Keys::from([(Key(vec![1]), 2)]));
            cx.write_and_flush(Keys::new());
        }
        fn read(&mut self, _: &mut AppContext<'_, Self>, _: Keys) {}
        fn error(&mut self, _: &mut AppContext<'_, Self>, fault: Fault) {
            self.0.borrow_mut().push(fault.to_string());
        }
    }
    let errors = Rc::new(RefCell::new(Vec::new()));
    let stages = pipeline().add(LineFrames::max(100)).add(Json::<Keys>::new()).app(Errors(errors.clone()));
    let mut channel = EmbeddedChannel::new(stages);
    assert_eq!(channel.outbound_bytes(), b"{}\n{}\n");
    assert_eq!(*errors.borrow(), ["the value cannot be written as JSON: key must be a string"]);
}

#[test]
fn thrift_calls_have_a_name_and_a_number_and_answers_find_them() {
    let calls = || {
        let call = ThriftCall::call("sell", 7, items().remove(0));
        let unknown = ApplicationError::new(ApplicationErrorKind::UnknownMethod, "sell what?");
        let (reply, exception) = (call.reply(Item::default()), call.exception(unknown));
        let one_way =
            ThriftCall { name: "log".to_owned(), sequence: -1, body: ThriftBody::OneWay(Item::default()) };
        [call, reply, exception, one_way]
    };
    let formats = [ThriftFormat::binary(), ThriftFormat::compact(), ThriftFormat::binary_without_version()];
    for format in formats {
        let stages = || {
            pipeline()
                .add(LengthFrames::max(1 << 20))
                .add(Thrift::<ThriftCall<Item>, ThriftCall<Item>>::with(format))
        };
        let mut out = EmbeddedChannel::new(stages());
        for call in calls() {
            out.write_outbound(call);
        }
        let mut input = EmbeddedChannel::new(stages());
        input.write_inbound(out.outbound_bytes());
        for call in calls() {
            assert_eq!(input.read_inbound(), Some(call), "{format:?}");
        }
    }
}

#[test]
fn a_call_without_its_version_is_refused_unless_allowed() {
    let old = Bytes::from_static(b"\0\0\0\x04sell\x01\0\0\0\x07\0");
    let read = |mut format: ThriftFormat| {
        Format::<ThriftCall<Item>, ThriftCall<Item>>::read(&mut format, old.clone())
    };
    assert!(read(ThriftFormat::binary()).is_err());
    assert_eq!(read(ThriftFormat::binary_without_version()).unwrap().name, "sell");
}

#[test]
fn formats_are_lifted_onto_datagrams() {
    type Numbered = Lift<(u16, BytesMut), Typed<JsonFormat, u8, Vec<u8>, BytesMut>, u16, (u16, Bytes)>;
    let mut channel = EmbeddedChannel::new(pipeline().add(Back).add(Numbered::between(Typed::new())));
    channel.write_inbound(b"\x00\x075").write_inbound(b"\x00\x08x").write_inbound(b"\x00\x096");
    assert_eq!(channel.read_inbound(), Some((7, 5)));
    assert_eq!(channel.read_inbound(), Some((9, 6)), "the broken one harms no other");
    channel.write_outbound((3, vec![1, 2]));
    assert_eq!(channel.outbound_bytes(), b"\x00\x03[1,2]");
}

/// Datagrams with a number in front, for lack of real ones.
struct Back;

impl Handler for Back {
    type Read = BytesMut;
    type ReadOut = (u16, BytesMut);
    type Write = (u16, Bytes);
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut netwright_core::Context<'_, Self>, mut bytes: BytesMut) {
        let from = bytes::Buf::get_u16(&mut bytes);
        cx.fire_read((from, bytes));
    }
    fn write(
        &mut self,
        cx: &mut netwright_core::Context<'_, Self>,
        (to, bytes): (u16, Bytes),
        done: netwright_core::WritePromise,
    ) {
        cx.write_with([&to.to_be_bytes()[..], &bytes].concat(), done);
    }
}

#[test]
fn small_answers_allocate_nothing_in_steady_state() {
    let allocations = |answers: bool| {
        let stages = pipeline().add(LengthFrames::max(100)).add(Postcard::<u8, (u32, bool)>::new());
        let mut channel = EmbeddedChannel::new(stages.handle(move |cx, _: u8| {
            if answers {
                cx.write_and_flush((300, true));
            }
        }));
        let mut round = || {
            channel.write_inbound(b"\0\0\0\x01\x05");
            assert_eq!(channel.read_outbound().map(|bytes| bytes.len()), answers.then_some(7));
        };
        (0..10).for_each(|_| round());
        allocations_during(|| (0..100).for_each(|_| round())).0
    };
    assert_eq!(allocations(true), allocations(false), "only what reading takes");
}
