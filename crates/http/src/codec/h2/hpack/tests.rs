use super::{decoder::Decoded, *};
use crate::{
    codec::h2::field::{Field, Line, Pseudo},
    error::Limit,
};
use bytes::BytesMut;
use http::{HeaderName, HeaderValue};
use netwright_testkit::verify::Numbers;

const WIDE: HeadLimits = HeadLimits { size: 1 << 20, fields: 1 << 20 };

/// Every byte as the character of its number.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| byte as char).collect()
}

/// A field as text, and whether it is a secret.
type Told = (String, String, bool);

fn told(field: &Field) -> Told {
    match &field.line {
        Line::Pseudo(pseudo, value) => (pseudo.name().to_owned(), latin(value), false),
        Line::Header(name, value) => {
            let text = latin(value.as_bytes());
            (name.to_string(), text, value.is_sensitive())
        }
        Line::BadName => ("bad".to_owned(), String::new(), false),
        Line::BadValue(name) => (name.to_string(), "bad".to_owned(), false),
    }
}

fn decode_with(
    decoder: &mut Decoder,
    block: &[u8],
    limits: HeadLimits,
) -> Result<(Vec<Told>, Decoded), HpackError> {
    let mut fields = Vec::new();
    let decoded = decoder.decode(block, limits, |field| {
        if let Line::Pseudo(..) | Line::Header(..) = field.line {
            let (name, value, _) = told(field);
            let len = name.len() + value.chars().count();
            assert_eq!((field.size as usize, field.name_len as usize), (len, name.len()));
        }
        fields.push(told(field));
    })?;
    Ok((fields, decoded))
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Told>, HpackError> {
    let (fields, decoded) = decode_with(decoder, block, WIDE)?;
    assert_eq!(decoded, Decoded::Whole);
    Ok(fields)
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Blocks and their fields, one line each, and what is in the table behind each.
#[track_caller]
fn check(decoder: &mut Decoder, blocks: &[(&str, &[&str], &[&str], usize)]) {
    for (block, fields, table, weight) in blocks {
        let line = |(name, value, _): Told| format!("{name}: {value}");
        let decoded: Vec<String> = decode(decoder, &hex(block)).unwrap().into_iter().map(line).collect();
        assert_eq!(decoded, *fields, "{block}");
        let (in_table, weighs) = decoder.table().fields();
        assert_eq!(in_table.map(|field| line(told(field))).collect::<Vec<_>>(), *table, "{block}");
        assert_eq!(weighs, *weight, "{block}");
    }
}

/// RFC 7541, C.2.
#[test]
fn single_fields_of_the_standard() {
    let field = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    let custom = "custom-key: custom-header";
    check(&mut Decoder::default(), &[(field, &[custom], &[custom], 55)]);
    let path = "040c 2f73 616d 706c 652f 7061 7468";
    check(
        &mut Decoder::default(),
        &[(path, &[":path: /sample/path"], &[], 0), ("82", &[":method: GET"], &[], 0)],
    );
    let secret = hex("1008 7061 7373 776f 7264 0673 6563 7265 74");
    let mut decoder = Decoder::default();
    assert_eq!(decode(&mut decoder, &secret), Ok(vec![("password".into(), "secret".into(), true)]));
    assert_eq!(decoder.table().fields().1, 0);
}

/// RFC 7541, C.3 and C.4.
#[test]
fn requests_of_the_standard_with_the_code_and_without() {
    let with_authority = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
    let no_cache = [&with_authority[..], &["cache-control: no-cache"]].concat();
    let custom = [
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ];
    let tables =
        [&["custom-key: custom-value"][..], &["cache-control: no-cache"], &[":authority: www.example.com"]]
            .concat();
    for blocks in [
        [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ],
        [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ],
    ] {
        check(
            &mut Decoder::default(),
            &[
                (blocks[0], &with_authority, &tables[2..], 57),
                (blocks[1], &no_cache, &tables[1..], 110),
                (blocks[2], &custom, &tables, 164),
            ],
        );
    }
}

/// RFC 7541, C.5 and C.6: a table of 256 bytes.
#[test]
fn replies_of_the_standard_drive_the_oldest_out_of_the_table() {
    let rest = [
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ];
    let cookie = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    let later = "date: Mon, 21 Oct 2013 20:13:22 GMT";
    for blocks in [
        [
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d
             546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f
             6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b
             2076 6572 7369 6f6e 3d31",
        ],
        [
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7
             8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335
             dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        ],
    ] {
        let mut decoder = Decoder::default();
        assert_eq!(decode(&mut decoder, &hex("3fe1 01")), Ok(vec![]));
        let with = |status: &'static str| [&[status][..], &rest].concat();
        check(
            &mut decoder,
            &[
                (blocks[0], &with(":status: 302"), &[rest[2], rest[1], rest[0], ":status: 302"], 222),
                (blocks[1], &with(":status: 307"), &[":status: 307", rest[2], rest[1], rest[0]], 222),
                (
                    blocks[2],
                    &[":status: 200", rest[0], later, rest[2], "content-encoding: gzip", cookie],
                    &[cookie, "content-encoding: gzip", later],
                    215,
                ),
            ],
        );
    }
}

#[test]
fn each_thing_that_is_wrong_with_a_block_has_its_own_error() {
    use HpackError::*;
    for (block, error) in [
        ("80", Index),
        ("be", Index),
        ("ff 80 80 80 01", Index),
        ("ff ff ff ff ff 7f", Number),
        ("7e", Index), // a name
        ("0f 2f 00", Index),
        ("40", CutOff),
        ("40 05 61", CutOff),
        ("40 01 61", CutOff),
        ("40 01 61 02 62", CutOff),
        ("44", CutOff),
        ("44 7f", CutOff),
        ("44 7f ff ff ff 3f", CutOff),
        ("44 81 18", Huffman),
        ("40 84 ffff ffff 00", Huffman),
        ("82 20", TableSize),
        ("3f e2 1f", TableSize), // 4097
        ("3f ff ff ff ff ff 01", Number),
    ] {
        assert_eq!(decode(&mut Decoder::default(), &hex(block)), Err(error), "{block}");
    }
}

#[test]
fn what_no_field_is_goes_into_the_table_all_the_same() {
    let mut decoder = Decoder::default();
    // "A: b", ":what: b", "x: <CR>", then all three again, then the name of the last with a good value, and that of the first.
    let block = "40 01 41 01 62  40 05 3a77686174 01 62  40 01 78 01 0d  c0 bf be  7e 01 62  c3";
    let fields = decode(&mut decoder, &hex(block)).map(|fields| {
        fields.into_iter().map(|(name, value, _)| format!("{name}: {value}")).collect::<Vec<_>>()
    });
    let three = ["bad: ", "bad: ", "x: bad"];
    assert_eq!(fields, Err(HpackError::Index), "there are four");
    let mut decoder = Decoder::default();
    let fields = decode(&mut decoder, &hex(block.trim_end_matches("c3"))).unwrap();
    let fields: Vec<_> = fields.into_iter().map(|(name, value, _)| format!("{name}: {value}")).collect();
    assert_eq!(fields, [&three[..], &three, &["x: b"]].concat());
    assert_eq!(decoder.table().fields().1, 4 * 32 + 2 + 6 + 2 + 2);
}

#[test]
fn a_list_that_passes_its_limits_is_told_up_to_there_and_the_table_goes_on() {
    // Four fields of 1 + 1 + 32 bytes.
    let block = hex("40 01 61 01 31  40 01 62 01 32  40 01 63 01 33  40 01 64 01 34");
    for (limits, told, decoded) in [
        (HeadLimits { size: 136, fields: 4 }, 4, Decoded::Whole),
        (HeadLimits { size: 135, fields: 4 }, 3, Decoded::TooLarge { what: Limit::Head, max: 135, got: 136 }),
        (HeadLimits { size: 136, fields: 3 }, 3, Decoded::TooLarge { what: Limit::Headers, max: 3, got: 4 }),
        (HeadLimits { size: 33, fields: 4 }, 0, Decoded::TooLarge { what: Limit::Head, max: 33, got: 136 }),
    ] {
        let mut decoder = Decoder::default();
        let (fields, result) = decode_with(&mut decoder, &block, limits).unwrap();
        assert_eq!((fields.len(), result), (told, decoded));
        assert_eq!(decoder.table().fields().1, 136, "the table has all of them");
        assert_eq!(decode(&mut decoder, &[0xbe]), Ok(vec![("d".into(), "4".into(), false)]));
    }
}

#[test]
fn a_bomb_of_indices_is_counted_and_told_up_to_the_limit() {
    let mut decoder = Decoder::default();
    let mut block = BytesMut::from(&b"\x40\x01a"[..]);
    integer::put(&mut block, 0, 7, 4000);
    block.extend_from_slice(&[b'x'; 4000]);
    assert_eq!(decode(&mut decoder, &block).unwrap().len(), 1);
    let limits = HeadLimits { size: 16 * 1024, fields: 100 };
    let (fields, decoded) = decode_with(&mut decoder, &[0xbe; 16 * 1024], limits).unwrap();
    assert_eq!(fields.len(), 4);
    assert_eq!(decoded, Decoded::TooLarge { what: Limit::Head, max: 16 * 1024, got: 16 * 1024 * 4033 });
    let (fields, decoded) = decode_with(&mut decoder, &[0x82; 16 * 1024], limits).unwrap();
    assert_eq!(fields.len(), 100);
    assert!(matches!(decoded, Decoded::TooLarge { what: Limit::Headers, max: 100, got: 16384 }));
}

#[test]
fn a_table_that_has_to_become_smaller_is_said_to_before_anything_else() {
    let mut decoder = Decoder::default();
    decode(&mut decoder, &hex("40 01 61 01 31")).unwrap();
    decoder.set_max(100);
    assert!(decoder.must_shrink());
    assert_eq!(decode(&mut decoder, &[0x82]), Err(HpackError::NoTableSize));
    assert_eq!(decode(&mut decoder, &hex("3f46 82")), Err(HpackError::TableSize), "101");
    assert_eq!(decode(&mut decoder, &hex("20 3f45 82")).map(|fields| fields.len()), Ok(1));
    assert_eq!(decode(&mut decoder, &[0xbe]), Err(HpackError::Index), "it was empty meanwhile");
    decoder.set_max(4096);
    assert_eq!(decode(&mut decoder, &hex("82")).map(|fields| fields.len()), Ok(1));
}

#[test]
fn a_field_that_is_larger_than_the_table_empties_it() {
    let mut decoder = Decoder::default();
    decode(&mut decoder, &hex("40 01 61 01 31")).unwrap();
    let mut block = BytesMut::from(&b"\x40\x01a"[..]);
    integer::put(&mut block, 0, 7, 5000);
    block.extend_from_slice(&[b'x'; 5000]);
    assert_eq!(decode(&mut decoder, &block).unwrap().len(), 1);
    assert_eq!(decoder.table().fields().1, 0);
}

#[test]
fn the_generation_stays_while_the_table_does() {
    let mut decoder = Decoder::default();
    let mut generation = decoder.generation();
    for (block, changes) in
        [("82", false), ("04 01 2f", false), ("40 01 61 01 31", true), ("be", false), ("20", true)]
    {
        decode(&mut decoder, &hex(block)).unwrap();
        assert_eq!(decoder.generation() != generation, changes, "{block}");
        generation = decoder.generation();
    }
}

fn encode(encoder: &mut Encoder, fields: &[(&str, &str)]) -> BytesMut {
    let mut out = BytesMut::new();
    encoder.begin(&mut out);
    for (name, value) in fields {
        match Pseudo::of(name.as_bytes()) {
            Some(pseudo) => encoder.pseudo(&mut out, pseudo, value.as_bytes()),
            None => {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                encoder.header(&mut out, &name, &HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
        }
    }
    out
}

#[test]
fn what_hardly_differs_is_an_index_from_the_second_time_on_and_the_rest_from_the_third() {
    let mut encoder = Encoder::default();
    let request =
        [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
    assert_eq!(encode(&mut encoder, &request), hex("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff"));
    let request = [&request[..], &[("cache-control", "no-cache")]].concat();
    assert_eq!(encode(&mut encoder, &request), hex("8286 84be 5886 a8eb 1064 9cbf"));
    let tag = [("etag", "\"1234\"")];
    let lens: Vec<usize> = (0..4).map(|_| encode(&mut encoder, &tag).len()).collect();
    assert_eq!(lens[2..], [1, 1]);
    assert!(lens[0] > 5 && lens[1] > 5);
    // What never comes again drives nothing out.
    for number in 0..1000 {
        encode(&mut encoder, &[("x-request-id", &number.to_string()), (":path", &format!("/{number}"))]);
    }
    assert_eq!(encode(&mut encoder, &tag).len(), 1);
    assert_eq!(encode(&mut encoder, &request).len(), 5);
}

#[test]
fn secrets_are_said_as_such_and_in_no_table() {
    let mut encoder = Encoder::default();
    let mut decoder = Decoder::default();
    for _ in 0..3 {
        let fields = [
            ("authorization", "Basic abc"),
            ("proxy-authorization", "Basic abc"),
            ("set-cookie", "a=b"),
            ("cookie", "short=1"),
            ("x-long", "a longer text that is no secret"),
        ];
        let block = encode(&mut encoder, &fields);
        let secrets: Vec<bool> = decode(&mut decoder, &block).unwrap().iter().map(|field| field.2).collect();
        assert_eq!(secrets, [true, true, true, true, false]);
    }
    assert_eq!(decoder.table().fields().0.count(), 1);
    let mut marked = HeaderValue::from_static("marked");
    marked.set_sensitive(true);
    for _ in 0..3 {
        let mut out = BytesMut::new();
        encoder.header(&mut out, &HeaderName::from_static("x-token"), &marked);
        assert!(decode(&mut decoder, &out).unwrap()[0].2);
    }
}

#[test]
fn changes_of_the_table_are_said_in_the_next_block_and_how_far_down_they_went() {
    let mut encoder = Encoder::default();
    let field = [("server", "netwright")];
    encode(&mut encoder, &field);
    encoder.set_max(1 << 30);
    assert_eq!(encode(&mut encoder, &field), hex("be"), "ours is at most 4096 bytes, as before");
    encoder.set_max(0);
    encoder.set_max(100);
    encoder.set_max(4096);
    let again = encode(&mut encoder, &field);
    assert_eq!(again[..4], hex("20 3f e1 1f"));
    assert!(again.len() > 5);
    encoder.set_max(60);
    let smaller = encode(&mut encoder, &field);
    assert_eq!(smaller[..2], hex("3f 1d"));
    assert_eq!(encode(&mut encoder, &field), hex("be"), "it is half of it");
    encoder.set_max(40);
    (0..3).for_each(|_| assert!(encode(&mut encoder, &field).len() > 5, "it does not fit"));
    encoder.set_max(0);
    (0..3).for_each(|_| assert!(encode(&mut encoder, &field).len() > 5));
}

/// Lists of fields that come again, and some that do not.
fn random_list(numbers: &mut Numbers) -> Vec<(String, String)> {
    const NAMES: [&str; 14] = [
        ":path",
        ":authority",
        ":status",
        ":method",
        "cookie",
        "date",
        "x-a",
        "x-custom-name",
        "accept",
        "content-length",
        "etag",
        "server",
        "set-cookie",
        "x-empty",
    ];
    (0..=numbers.below(12))
        .map(|_| {
            let value = match numbers.below(6) {
                0 => String::new(),
                1 => "/".to_owned(),
                2 => format!("value {}", numbers.below(8)),
                3 => "x".repeat(numbers.below(700)),
                4 => (0..numbers.below(40)).map(|_| (b' ' + numbers.below(95) as u8) as char).collect(),
                _ => format!("{:x}", numbers.next_u64()),
            };
            (NAMES[numbers.below(NAMES.len())].to_owned(), value.trim_matches(' ').to_owned())
        })
        .collect()
}

#[test]
fn another_decoder_reads_what_we_write_and_we_what_another_encoder_writes() {
    for seed in 0..12 {
        let mut numbers = Numbers::new(seed);
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let (mut their_encoder, mut their_decoder) =
            (fluke_hpack::Encoder::new(), fluke_hpack::Decoder::new());
        let mut our_reader = Decoder::default();
        for _ in 0..60 {
            if numbers.below(8) == 0 {
                let size = [0, 60, 100, 500, 4096, 100_000][numbers.below(6)];
                encoder.set_max(size);
            }
            let list = random_list(&mut numbers);
            let fields: Vec<(&str, &str)> =
                list.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let block = encode(&mut encoder, &fields);
            let ours: Vec<_> = decode(&mut decoder, &block).unwrap();
            let ours: Vec<_> = ours.into_iter().map(|(name, value, _)| (name, value)).collect();
            assert_eq!(ours, list, "seed {seed}");
            let theirs: Vec<_> = their_decoder.decode(&block).unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            let theirs: Vec<_> = theirs.into_iter().map(|(name, value)| (text(name), text(value))).collect();
            assert_eq!(theirs, list, "seed {seed}");
            let block =
                their_encoder.encode(list.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
            let read: Vec<_> = decode(&mut our_reader, &block).unwrap();
            let read: Vec<_> = read.into_iter().map(|(name, value, _)| (name, value)).collect();
            assert_eq!(read, list, "seed {seed}");
        }
    }
}

#[test]
fn damaged_blocks_mean_what_another_decoder_takes_them_for_or_nothing() {
    let (mut agreed, mut stricter) = (0, 0);
    for seed in 0..200 {
        let mut numbers = Numbers::new(seed);
        let (mut encoder, mut ours, mut theirs) =
            (Encoder::default(), Decoder::default(), fluke_hpack::Decoder::new());
        theirs.set_max_allowed_table_size(TABLE_MAX);
        for round in 0..4 {
            let list = random_list(&mut numbers);
            let fields: Vec<(&str, &str)> =
                list.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let mut block = encode(&mut encoder, &fields).to_vec();
            if round == 2 && !block.is_empty() {
                for _ in 0..=numbers.below(3) {
                    let at = numbers.below(block.len());
                    block[at] = numbers.next_u64() as u8;
                }
            }
            let (our, their) = (decode(&mut ours, &block), theirs.decode(&block));
            match (our, their) {
                (Ok(our), Ok(their)) => {
                    agreed += 1;
                    assert_eq!(our.len(), their.len(), "seed {seed}");
                    for ((name, value, _), (their_name, their_value)) in our.into_iter().zip(their) {
                        if name != "bad" && value != "bad" {
                            assert_eq!(name.as_bytes(), their_name, "seed {seed}");
                            assert_eq!(value, latin(&their_value), "seed {seed}");
                        }
                    }
                }
                (Err(_), Err(_)) => break,
                (Err(_), Ok(_)) => {
                    stricter += 1;
                    break;
                }
                (Ok(our), Err(their)) => {
                    panic!("seed {seed}: we read {our:?}, they say {their:?}: {block:x?}")
                }
            }
        }
    }
    assert!(agreed > 400 && stricter < 10, "{agreed} agreed, {stricter} stricter");
}
