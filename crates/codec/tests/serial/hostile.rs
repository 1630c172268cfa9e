//! Valid messages with random damage, and cut off anywhere: a value or an error, never a panic, and never much memory.

use crate::types::{Item, Order, ProtoOrder, items, orders, proto_orders};
use bytes::{Bytes, BytesMut};
use netwright_codec::serial::{
    CborFormat, Format, JsonFormat, MessagePackFormat, PostcardFormat, ProtobufFormat, ThriftFormat,
};
use netwright_testkit::{
    bytes_allocated_during,
    verify::{damaged, hostile_lengths},
};

const SEEDS: u64 = 3000;

fn attack<T: 'static>(mut format: impl Format<T, T>, values: &[T]) {
    let name = format.name();
    let messages: Vec<Vec<u8>> = values
        .iter()
        .map(|value| {
            let mut message = BytesMut::new();
            format.write(value, &mut message).expect(name);
            message.to_vec()
        })
        .collect();
    let mut try_one = |what: &str, seed: u64, message: Vec<u8>| {
        let len = message.len() as u64;
        let message = Bytes::from(message);
        let (bytes, result) = bytes_allocated_during(|| format.read(message).map(drop));
        // A growing list asks for up to twice what it holds, and the smallest element has one byte on the wire.
        assert!(bytes <= 256 * len + 4096, "{name}, {what} {seed}: {bytes} bytes allocated for {len}");
        result.is_ok()
    };
    for message in &messages {
        assert!(try_one("whole", 0, message.clone()), "{name}: a valid message");
        for cut in 0..message.len().min(300) {
            try_one("cut at", cut as u64, message[..cut].to_vec());
        }
        for (index, hostile) in hostile_lengths(message).into_iter().enumerate() {
            try_one("hostile length", index as u64, hostile);
        }
    }
    let mut survived = 0;
    for seed in 0..SEEDS {
        let message = &messages[seed as usize % messages.len()];
        survived += u64::from(try_one("seed", seed, damaged(seed, message)));
    }
    assert!(survived < SEEDS, "{name}: damage is noticed at least once");
}

#[test]
fn damage_is_a_value_or_an_error_in_serde_formats() {
    attack::<Order>(JsonFormat::new(), &orders());
    attack::<Order>(MessagePackFormat::new(), &orders());
    attack::<Order>(MessagePackFormat::new().named(true), &orders());
    attack::<Order>(CborFormat::new(), &orders());
    attack::<Order>(PostcardFormat::new(), &orders());
}

#[test]
fn damage_is_a_value_or_an_error_in_protobuf_and_thrift() {
    attack::<ProtoOrder>(ProtobufFormat::new(), &proto_orders());
    attack::<Item>(ThriftFormat::binary(), &items());
    attack::<Item>(ThriftFormat::compact(), &items());
}
