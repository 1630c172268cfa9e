//! Depth, claimed lengths, elements of no length: what a message may make us do is bounded by what it is.

use crate::types::{Chain, Item, Picky, ProtoOrder, Tree};
use bytes::Bytes;
use netwright_codec::serial::{
    CborFormat, Format, JsonFormat, MessagePackFormat, PostcardFormat, ProtobufFormat, SerialError,
    ThriftFormat,
};
use netwright_testkit::bytes_allocated_during;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, HashMap};

/// More levels than any stack has room for.
const BOMB: usize = 200_000;

fn read<T: DeserializeOwned + Serialize>(
    format: &mut impl Format<T, T>,
    message: impl Into<Bytes>,
) -> Result<T, SerialError> {
    format.read(message.into())
}

#[track_caller]
fn too_deep<T>(result: Result<T, SerialError>, limit: usize) {
    match result.map(drop) {
        Err(SerialError::TooDeep { limit: is, got, .. }) => assert_eq!((is, got), (limit, limit + 1)),
        other => panic!("should be too deep, is {other:?}"),
    }
}

#[test]
fn nesting_bombs_are_refused_with_the_limit_in_the_text() {
    let error = read::<Tree>(&mut JsonFormat::new(), "[".repeat(BOMB)).unwrap_err();
    assert_eq!(error.to_string(), "a JSON message of 101 levels or more, the limit is 100");
    too_deep(read::<serde_json::Value>(&mut JsonFormat::new(), "[".repeat(BOMB)), 100);
    too_deep(read::<serde_json::Value>(&mut JsonFormat::new(), "{\"a\":".repeat(BOMB)), 100);
    too_deep(read::<Chain>(&mut JsonFormat::new(), "{\"next\":".repeat(BOMB)), 100);
    too_deep(read::<Tree>(&mut MessagePackFormat::new(), vec![0x91; BOMB]), 100);
    too_deep(read::<Chain>(&mut MessagePackFormat::new(), vec![0x91; BOMB]), 100);
    too_deep(read::<serde_json::Value>(&mut MessagePackFormat::new(), vec![0x91; BOMB]), 100);
    too_deep(read::<Tree>(&mut CborFormat::new(), vec![0x81; BOMB]), 100);
    too_deep(read::<Tree>(&mut CborFormat::new(), vec![0x9f; BOMB]), 100);
    too_deep(read::<serde_json::Value>(&mut CborFormat::new(), vec![0x81; BOMB]), 100);
    too_deep(read::<Tree>(&mut PostcardFormat::new(), vec![1; BOMB]), 100);
    too_deep(read::<Chain>(&mut PostcardFormat::new(), vec![1; BOMB]), 100);
}

#[test]
fn a_limit_of_ones_own_is_kept_exactly() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    for limit in [0, 1, 7, 127, 128, 200] {
        let mut json = JsonFormat::new().depth(limit);
        assert!(limit == 0 || read::<Tree>(&mut json, nested(limit)).is_ok(), "{limit} of {limit}");
        too_deep(read::<Tree>(&mut json, nested(limit + 1)), limit);
        // One byte for each list but the last, which is empty.
        let packed = |levels: usize| [vec![0x91; levels.saturating_sub(1)], vec![0x90]].concat();
        let mut pack = MessagePackFormat::new().depth(limit);
        assert!(limit == 0 || read::<Tree>(&mut pack, packed(limit)).is_ok(), "{limit} of {limit}");
        too_deep(read::<Tree>(&mut pack, packed(limit + 1)), limit);
        let carded = |levels: usize| [vec![1; levels.saturating_sub(1)], vec![0]].concat();
        let mut card = PostcardFormat::new().depth(limit);
        assert!(limit == 0 || read::<Tree>(&mut card, carded(limit)).is_ok(), "{limit} of {limit}");
        too_deep(read::<Tree>(&mut card, carded(limit + 1)), limit);
    }
}

#[test]
fn siblings_are_not_levels() {
    let wide = format!("[{}[]]", "[[]],".repeat(1000));
    assert!(read::<Tree>(&mut JsonFormat::new().depth(3), wide).is_ok());
}

#[test]
fn bombs_in_fields_that_nobody_wants_are_skipped_or_refused() {
    let json = format!("{{\"wanted\":5,\"x\":{}{}}}", "[".repeat(BOMB), "]".repeat(BOMB));
    assert_eq!(read::<Picky>(&mut JsonFormat::new(), json).unwrap().wanted, 5);
    let pack = [b"\x82\xa6wanted\x05\xa1x", &vec![0x91; BOMB][..]].concat();
    too_deep(read::<Picky>(&mut MessagePackFormat::new(), pack), 100);
    for open in [0x81, 0x9f] {
        let cbor = [b"\xa2\x66wanted\x05\x61x", &vec![open; BOMB][..]].concat();
        assert!(read::<Picky>(&mut CborFormat::new(), cbor).is_err(), "skipped to its missing end");
    }
}

#[test]
fn protobuf_nests_a_hundred_levels_and_no_more() {
    let nested = |levels: usize| {
        let mut message = Vec::new();
        for _ in 0..levels {
            let mut outer = vec![0x42]; // field 8, length-delimited
            prost::encode_length_delimiter(message.len(), &mut outer).unwrap();
            outer.extend_from_slice(&message);
            message = outer;
        }
        Bytes::from(message)
    };
    let read = |message| Format::<ProtoOrder, ProtoOrder>::read(&mut ProtobufFormat::new(), message);
    assert!(read(nested(100)).is_ok());
    too_deep(read(nested(101)), 100);
    too_deep(read(nested(3000)), 100);
    too_deep(read(vec![0x7b; BOMB].into()), 100); // groups, of a field that is not known
}

#[test]
fn thrift_nests_64_levels_and_no_more() {
    for (mut format, open, skipped) in [
        (ThriftFormat::binary(), &b"\x0c\0\x05"[..], &b"\x0c\0\x09"[..]),
        (ThriftFormat::compact(), b"\x5c", b"\x9c"),
    ] {
        let nested = |levels: usize| [open.repeat(levels), vec![0; levels + 1]].concat();
        let mut read = |message: Vec<u8>| Format::<Item, Item>::read(&mut format, message.into());
        assert!(read(nested(63)).is_ok());
        too_deep(read(nested(64)), 64);
        too_deep(read(open.repeat(BOMB)), 64);
        too_deep(read(skipped.repeat(BOMB)), 64);
    }
    let list_bomb = [b"\x0f\0\x09".to_vec(), b"\x0f\0\0\0\x01".repeat(1000)].concat();
    too_deep(Format::<Item, Item>::read(&mut ThriftFormat::binary(), list_bomb.into()), 64);
}

#[derive(Debug, Default, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
struct Wide {
    numbers: [u64; 4],
}

/// What may be allocated for a message of so many bytes that is refused: places for elements that its bytes could pay for, and
/// the error itself.
fn allowed(len: usize) -> u64 {
    64 * len as u64 + 1024
}

#[track_caller]
fn refused_for_little<T>(what: &str, len: usize, read: impl FnOnce() -> Result<T, SerialError>) {
    let (bytes, result) = bytes_allocated_during(read);
    assert!(result.is_err(), "{what} should be refused");
    assert!(bytes <= allowed(len), "{what}: {bytes} bytes allocated for a message of {len}");
}

#[test]
fn lengths_that_are_only_claimed_allocate_nothing() {
    fn all<T: DeserializeOwned + Serialize>(what: &str) {
        let claims: [(&str, &[u8]); 9] = [
            ("array32", b"\xdd\xff\xff\xff\xff\x01\x02"),
            ("array32", b"\xdd\x00\x10\x00\x00"),
            ("map32", b"\xdf\xff\xff\xff\xff\x01\x02"),
            ("str32", b"\xdb\xff\xff\xff\xffabc"),
            ("bin32", b"\xc6\xff\xff\xff\xffabc"),
            ("ext32", b"\xc9\xff\xff\xff\xff\x01abc"),
            ("array16", b"\xdc\xff\xff\x01"),
            ("list of arrays", b"\x91\xdd\xff\xff\xff\xff"),
            ("nothing", b""),
        ];
        for (kind, claim) in claims {
            let message = Bytes::copy_from_slice(claim);
            refused_for_little(&format!("MessagePack {kind} as {what}"), claim.len(), || {
                read::<T>(&mut MessagePackFormat::new(), message)
            });
        }
        let claims: [(&str, &[u8]); 7] = [
            ("array", b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            ("array", b"\x9a\x00\x10\x00\x00\x01"),
            ("map", b"\xbb\x7f\xff\xff\xff\xff\xff\xff\xff\x01"),
            ("text", b"\x7b\xff\xff\xff\xff\xff\xff\xff\xffabc"),
            ("bytes", b"\x5a\xff\xff\xff\xffabc"),
            ("text in pieces", b"\x7f\x7a\xff\xff\xff\xffabc"),
            ("nothing", b""),
        ];
        for (kind, claim) in claims {
            let message = Bytes::copy_from_slice(claim);
            refused_for_little(&format!("CBOR {kind} as {what}"), claim.len(), || {
                read::<T>(&mut CborFormat::new(), message)
            });
        }
    }
    fn card<T: DeserializeOwned + Serialize>(what: &str) {
        for claim in [&b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x05"[..], b"\x80\x80\x80\x80\x08\x05", b""]
        {
            let message = Bytes::copy_from_slice(claim);
            refused_for_little(&format!("postcard as {what}"), claim.len(), || {
                read::<T>(&mut PostcardFormat::new(), message)
            });
        }
    }
    all::<Vec<u64>>("numbers");
    all::<Vec<Wide>>("structs");
    all::<String>("text");
    all::<HashMap<u32, u64>>("a hash map");
    all::<BTreeMap<String, Vec<String>>>("a tree map");
    all::<serde_json::Value>("anything");
    card::<Vec<u64>>("numbers");
    card::<Vec<Wide>>("structs");
    card::<String>("text");
    card::<HashMap<u32, u64>>("a hash map");
    card::<Vec<()>>("units");
    card::<Vec<Vec<()>>>("lists of units");
}

#[test]
fn elements_of_no_length_are_counted_and_some_are_fine() {
    let units = |count: &'static [u8]| read::<Vec<()>>(&mut PostcardFormat::new(), Bytes::from_static(count));
    assert_eq!(units(b"\x80\x08").unwrap().len(), 1024);
    let error = units(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").unwrap_err();
    assert_eq!(
        error.to_string(),
        "a postcard message of 1035 values or more, the limit for its length is 1034"
    );
}

#[test]
fn protobuf_and_thrift_believe_no_length_either() {
    let claims: [(&str, &[u8]); 5] = [
        ("string", b"\x12\xff\xff\xff\xff\x07abc"),
        ("bytes", b"\x32\xff\xff\xff\xff\xff\xff\xff\xff\x7fabc"),
        ("message", b"\x1a\xff\xff\xff\xff\x0f\x0a"),
        ("packed", b"\x3a\xff\xff\xff\xff\x0f\x01\x02"),
        ("map", b"\x22\xff\xff\xff\x7f\x0a"),
    ];
    for (kind, claim) in claims {
        let message = Bytes::copy_from_slice(claim);
        refused_for_little(&format!("Protobuf {kind}"), claim.len(), || {
            Format::<ProtoOrder, ProtoOrder>::read(&mut ProtobufFormat::new(), message)
        });
    }
    let claims: [(&str, ThriftFormat, &[u8]); 9] = [
        ("string", ThriftFormat::binary(), b"\x0b\0\x02\x7f\xff\xff\xffabc"),
        ("string of another type", ThriftFormat::binary(), b"\x08\0\x02\x7f\xff\xff\xffabc"),
        ("negative string", ThriftFormat::binary(), b"\x0b\0\x02\xff\xff\xff\xffabc"),
        ("list", ThriftFormat::binary(), b"\x0f\0\x03\x08\x7f\xff\xff\xff\0\0\0\0"),
        ("negative list", ThriftFormat::binary(), b"\x0f\0\x03\x08\xff\xff\xff\xff\0\0\0\0"),
        ("skipped map", ThriftFormat::binary(), b"\x0d\0\x09\x0b\x0b\x7f\xff\xff\xff\0\0\0\0"),
        ("string", ThriftFormat::compact(), b"\x28\xff\xff\xff\xff\x07abc"),
        ("list", ThriftFormat::compact(), b"\x39\xf5\xff\xff\xff\xff\x07\x01"),
        ("negative list", ThriftFormat::compact(), b"\x39\xf5\xff\xff\xff\xff\x0f\x01"),
    ];
    for (kind, mut format, claim) in claims {
        let message = Bytes::copy_from_slice(claim);
        refused_for_little(&format!("Thrift {kind}, {format:?}"), claim.len(), || {
            Format::<Item, Item>::read(&mut format, message)
        });
    }
    let error = Format::<Item, Item>::read(
        &mut ThriftFormat::binary(),
        Bytes::from_static(b"\x0b\0\x02\x7f\xff\xff\xffabc"),
    );
    let text = error.unwrap_err().to_string();
    assert!(text.contains("2147483647") && text.contains("10"), "{text}");
}
