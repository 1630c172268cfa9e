//! Question: what do the formats cost, in bytes and in time?
//!
//! ```text
//!   value ──▶ Format::write ──▶ bytes ──▶ Format::read ──▶ value        one core, no socket, no frame
//! ```
//! Answer for each message of a set: its length, and nanoseconds to write and to read it, beside JSON in the same round. What
//! the stages add for safety, depth and claimed lengths, is in it.
//!
//! `cargo bench -p netwright-benches --bench formats -- --write` writes the figures into `docs/codecs.md` and draws
//! `docs/codecs.svg`.

mod messages;
mod plot;

use bytes::{Bytes, BytesMut};
use netwright::codec::serial::{
    CborFormat, Format, JsonFormat, MessagePackFormat, PostcardFormat, ProtobufFormat, ThriftFormat,
};
use netwright_benches::{
    Rounds, Scale, Table, Target, interleave, interleave_all,
    text::{rewrite, thousands},
};
use plot::Panel;
use std::{error::Error, fmt::Write, fs, hint::black_box, path::Path, time::Instant};

/// How many bytes of JSON each side handles in a round: so few that it is mostly over before the system takes the core away.
const BYTES: usize = 65_536;
/// So many times the usual rounds, because each is so short.
const ROUNDS: usize = 20;
const FORMATS: usize = NAMES.len();
const NAMES: [&str; 8] = [
    "JSON",
    "MessagePack, named",
    "MessagePack",
    "CBOR",
    "postcard",
    "Protobuf",
    "Thrift, binary",
    "Thrift, compact",
];

/// What one format gave for one message.
struct Figures {
    bytes: usize,
    write_ns: f64,
    read_ns: f64,
    write_of_json: f64,
    read_of_json: f64,
}

fn measure<T: 'static>(value: &T, scale: Scale) -> Vec<Figures>
where
    JsonFormat: Format<T, T>,
    MessagePackFormat: Format<T, T>,
    CborFormat: Format<T, T>,
    PostcardFormat: Format<T, T>,
    ProtobufFormat: Format<T, T>,
    ThriftFormat: Format<T, T>,
{
    let mut formats: [Box<dyn Format<T, T>>; FORMATS] = [
        Box::new(JsonFormat::new()),
        Box::new(MessagePackFormat::new().named(true)),
        Box::new(MessagePackFormat::new()),
        Box::new(CborFormat::new()),
        Box::new(PostcardFormat::new()),
        Box::new(ProtobufFormat::new()),
        Box::new(ThriftFormat::binary()),
        Box::new(ThriftFormat::compact()),
    ];
    let messages: Vec<Bytes> = formats
        .iter_mut()
        .map(|format| {
            let mut out = BytesMut::new();
            format.write(value, &mut out).expect("writable");
            out.freeze()
        })
        .collect();
    let times = BYTES.div_ceil(messages[0].len());
    let mut out = BytesMut::with_capacity(1 << 20);
    let rounds = interleave_all::<{ 2 * FORMATS }>(ROUNDS * scale.rounds(), |side| {
        let (format, message) = (&mut formats[side / 2], &messages[side / 2]);
        let begin = Instant::now();
        for _ in 0..times {
            if side % 2 == 0 {
                out.clear();
                format.write(black_box(value), &mut out).expect("writable");
            } else {
                drop(black_box(format.read(message.clone()).expect("readable")));
            }
        }
        begin.elapsed().as_nanos() as f64 / times as f64
    });
    let figures = |format: usize| Figures {
        bytes: messages[format].len(),
        write_ns: rounds[2 * format].median(),
        read_ns: rounds[2 * format + 1].median(),
        write_of_json: rounds[2 * format].over(&rounds[0]).median,
        read_of_json: rounds[2 * format + 1].over(&rounds[1]).median,
    };
    (0..FORMATS).map(figures).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut write = false;
    let own = |arg: &str, _: &mut dyn Iterator<Item = String>| {
        write |= arg == "--write";
        arg == "--write"
    };
    let Some(scale) = Scale::from_args_with(", --write, to write the page", own) else { return Ok(()) };
    let (mut text, mut panels) = (String::new(), Vec::new());
    for (name, figures) in [
        ("a request: a number, a short text, a number", measure(&messages::request(), scale)),
        ("an order: texts, numbers, 20 lines", measure(&messages::order(), scale)),
        ("samples: 1,000 times, 1,000 values", measure(&messages::samples(), scale)),
    ] {
        table(&mut text, name, &figures);
        let kind = name.split(':').next().unwrap_or(name);
        let panel = |what, unit, of: fn(&Figures) -> f64| Panel {
            title: format!("{kind}: {what}"),
            unit,
            bars: figures.iter().map(of).collect(),
        };
        panels.push(panel("length", "B", |figures| figures.bytes as f64));
        panels.push(panel("to write", "ns", |figures| figures.write_ns));
        panels.push(panel("to read", "ns", |figures| figures.read_ns));
    }
    println!("{text}");
    println!("{}", guard(&messages::order(), scale));
    if write {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        fs::write(docs.join("codecs.svg"), plot::svg(&NAMES, 3, &panels))?;
        rewrite(&docs.join("codecs.md"), &text)?;
    }
    Ok(())
}

/// What it costs to count levels and elements while an order is read, beside the same parser without it.
fn guard(order: &messages::Order, scale: Scale) -> Table {
    type Own = fn(&[u8]) -> messages::Order;
    type OfOrders = Box<dyn Format<messages::Order, messages::Order>>;
    let formats: [(&str, OfOrders, Own); 3] = [
        ("JSON", Box::new(JsonFormat::new()), |json| serde_json::from_slice(json).expect("readable")),
        ("MessagePack", Box::new(MessagePackFormat::new()), |pack| {
            rmp_serde::from_slice(pack).expect("readable")
        }),
        ("postcard", Box::new(PostcardFormat::new()), |card| postcard::from_bytes(card).expect("readable")),
    ];
    let mut table = Table::new("an order, read within bounds (ns)", ["format", "without", "within"]);
    for (name, mut format, own) in formats {
        let mut out = BytesMut::new();
        format.write(order, &mut out).expect("writable");
        let message = out.freeze();
        let times = BYTES.div_ceil(message.len());
        let time = |read: &mut dyn FnMut() -> messages::Order| {
            let begin = Instant::now();
            for _ in 0..times {
                drop(black_box(read()));
            }
            begin.elapsed().as_nanos() as f64 / times as f64
        };
        let (without, within): (Rounds, Rounds) = interleave(
            ROUNDS * scale.rounds(),
            || time(&mut || own(black_box(&message))),
            || time(&mut || format.read(black_box(message.clone())).expect("readable")),
        );
        table.row(name, &without, &within, Target::None);
    }
    table
}

fn table(text: &mut String, name: &str, figures: &[Figures]) {
    let _ = writeln!(text, "\n| {name} | bytes | write | of JSON | read | of JSON |");
    let _ = writeln!(text, "| --- | ---: | ---: | ---: | ---: | ---: |");
    for (format, figures) in NAMES.iter().zip(figures) {
        let Figures { bytes, write_ns, read_ns, write_of_json, read_of_json } = figures;
        let (bytes, write, read) = (thousands(*bytes as f64), thousands(*write_ns), thousands(*read_ns));
        let _ = writeln!(
            text,
            "| {format} | {bytes} | {write} ns | {write_of_json:.2} | {read} ns | {read_of_json:.2} |"
        );
    }
    text.push('\n');
}
