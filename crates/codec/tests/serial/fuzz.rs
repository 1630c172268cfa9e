//! Attacks on every format, as `tests/fuzz.rs` has them on frames. A length of one byte, so that damage leaves most frames whole
//! and gets at what is in them.

use crate::types::{Chain, Item, Order, ProtoOrder, Tree};
use netwright_codec::{
    Cbor, Decode, Json, LengthDecoder, LengthField, MessagePack, Postcard, Protobuf, Thrift, ThriftCall,
    decode, serial::ThriftFormat,
};
use netwright_testkit::fuzz_decoder;
use serde_json::Value;

fn frames() -> Decode<LengthDecoder> {
    decode(LengthField::new(1).strip(1).decoder().unwrap())
}

#[test]
fn json() {
    fuzz_decoder!("serial_json", frames(), Json::<Order>::new());
    fuzz_decoder!("serial_json", frames(), Json::<Value>::new());
}

#[test]
fn message_pack() {
    fuzz_decoder!("serial_messagepack", frames(), MessagePack::<Order>::new());
    fuzz_decoder!("serial_messagepack", frames(), MessagePack::<Value>::new());
    fuzz_decoder!("serial_messagepack", frames(), MessagePack::<Tree>::new());
}

#[test]
fn cbor() {
    fuzz_decoder!("serial_cbor", frames(), Cbor::<Order>::new());
    fuzz_decoder!("serial_cbor", frames(), Cbor::<Value>::new());
}

#[test]
fn postcard() {
    fuzz_decoder!("serial_postcard", frames(), Postcard::<Order>::new());
    fuzz_decoder!("serial_postcard", frames(), Postcard::<Chain>::new());
    fuzz_decoder!("serial_postcard", frames(), Postcard::<Vec<Vec<()>>>::new());
}

#[test]
fn protobuf() {
    fuzz_decoder!("serial_protobuf", frames(), Protobuf::<ProtoOrder>::new());
}

#[test]
fn thrift() {
    fuzz_decoder!("serial_thrift", frames(), Thrift::<Item>::new());
    fuzz_decoder!("serial_thrift", frames(), Thrift::<ThriftCall<Item>>::new());
    fuzz_decoder!("serial_thrift", frames(), Thrift::<Item>::with(ThriftFormat::compact()));
    fuzz_decoder!("serial_thrift", frames(), Thrift::<ThriftCall<Item>>::with(ThriftFormat::compact()));
}
