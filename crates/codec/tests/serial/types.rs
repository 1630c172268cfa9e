//! One set of messages, for `serde`, `prost` and `thrift`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TListIdentifier, TOutputProtocol, TSerializable, TStructIdentifier,
    TType,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) customer: String,
    pub(crate) lines: Vec<Line>,
    pub(crate) tags: BTreeMap<String, i32>,
    pub(crate) state: State,
    pub(crate) paid: bool,
    pub(crate) note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) item: String,
    pub(crate) count: u32,
    pub(crate) cents: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum State {
    New,
    Sent { day: u32 },
    Lost(String),
}

pub(crate) fn orders() -> Vec<Order> {
    let line = |item: &str, count, cents| Line { item: item.to_owned(), count, cents };
    let order = |id, state, note: Option<&str>| Order {
        id,
        customer: "Grüße & Co".to_owned(),
        lines: vec![line("nut", 100, 5), line("bolt", 70_000, -12)],
        tags: BTreeMap::from([("fast".to_owned(), 1), ("far".to_owned(), -300)]),
        state,
        paid: id % 2 == 0,
        note: note.map(str::to_owned),
    };
    vec![
        order(0, State::New, None),
        order(u64::MAX, State::Sent { day: 300 }, Some("leave it at the door")),
        Order { lines: vec![], tags: BTreeMap::new(), ..order(7, State::Lost("fire".to_owned()), Some("")) },
        order(1 << 40, State::New, Some(&"long ".repeat(300))),
    ]
}

/// As deep as somebody likes, by lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tree(pub(crate) Vec<Tree>);

/// As deep as somebody likes, by options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chain {
    pub(crate) next: Option<Box<Chain>>,
}

/// Wants one field of many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Picky {
    pub(crate) wanted: u8,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ProtoOrder {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) customer: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) lines: Vec<ProtoLine>,
    #[prost(btree_map = "string, sint32", tag = "4")]
    pub(crate) tags: BTreeMap<String, i32>,
    #[prost(string, optional, tag = "5")]
    pub(crate) note: Option<String>,
    #[prost(bytes = "bytes", tag = "6")]
    pub(crate) raw: bytes::Bytes,
    #[prost(uint32, repeated, tag = "7")]
    pub(crate) packed: Vec<u32>,
    #[prost(message, optional, boxed, tag = "8")]
    pub(crate) inner: Option<Box<ProtoOrder>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ProtoLine {
    #[prost(string, tag = "1")]
    pub(crate) item: String,
    #[prost(uint32, tag = "2")]
    pub(crate) count: u32,
    #[prost(sint64, tag = "3")]
    pub(crate) cents: i64,
}

pub(crate) fn proto_orders() -> Vec<ProtoOrder> {
    let proto = |order: Order| ProtoOrder {
        id: order.id,
        customer: order.customer,
        lines: order
            .lines
            .into_iter()
            .map(|line| ProtoLine { item: line.item, count: line.count, cents: line.cents })
            .collect(),
        tags: order.tags,
        note: order.note,
        raw: bytes::Bytes::from_static(b"\0\x01\xff"),
        packed: vec![1, 300, 70_000],
        inner: Some(Box::default()),
    };
    let mut orders: Vec<_> = orders().into_iter().map(proto).collect();
    orders.push(ProtoOrder::default());
    orders
}

/// What the Thrift compiler would make of
/// `struct Item { 1: i64 id, 2: string name, 3: list<i32> counts, 4: bool sold, 5: Item inner }`, as trusting as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Item {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) counts: Vec<i32>,
    pub(crate) sold: bool,
    pub(crate) inner: Option<Box<Item>>,
}

impl TSerializable for Item {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        let mut item = Self::default();
        input.read_struct_begin()?;
        loop {
            let field = input.read_field_begin()?;
            if field.field_type == TType::Stop {
                break;
            }
            match field.id.unwrap_or(0) {
                1 => item.id = input.read_i64()?,
                2 => item.name = input.read_string()?,
                3 => {
                    let list = input.read_list_begin()?;
                    item.counts = Vec::with_capacity(list.size as usize);
                    for _ in 0..list.size {
                        item.counts.push(input.read_i32()?);
                    }
                    input.read_list_end()?;
                }
                4 => item.sold = input.read_bool()?,
                5 => item.inner = Some(Box::new(Self::read_from_in_protocol(input)?)),
                _ => input.skip(field.field_type)?,
            }
            input.read_field_end()?;
        }
        input.read_struct_end()?;
        Ok(item)
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        output.write_struct_begin(&TStructIdentifier::new("Item"))?;
        output.write_field_begin(&TFieldIdentifier::new("id", TType::I64, 1))?;
        output.write_i64(self.id)?;
        output.write_field_end()?;
        output.write_field_begin(&TFieldIdentifier::new("name", TType::String, 2))?;
        output.write_string(&self.name)?;
        output.write_field_end()?;
        output.write_field_begin(&TFieldIdentifier::new("counts", TType::List, 3))?;
        output.write_list_begin(&TListIdentifier::new(TType::I32, self.counts.len() as i32))?;
        for count in &self.counts {
            output.write_i32(*count)?;
        }
        output.write_list_end()?;
        output.write_field_end()?;
        output.write_field_begin(&TFieldIdentifier::new("sold", TType::Bool, 4))?;
        output.write_bool(self.sold)?;
        output.write_field_end()?;
        if let Some(inner) = &self.inner {
            output.write_field_begin(&TFieldIdentifier::new("inner", TType::Struct, 5))?;
            inner.write_to_out_protocol(output)?;
            output.write_field_end()?;
        }
        output.write_field_stop()?;
        output.write_struct_end()
    }
}

pub(crate) fn items() -> Vec<Item> {
    let item =
        Item { id: -5, name: "nüt".to_owned(), counts: vec![1, -70_000, 300], sold: true, inner: None };
    let nested = Item { inner: Some(Box::new(item.clone())), sold: false, ..item.clone() };
    vec![item, nested, Item::default(), Item { name: "x".repeat(2000), ..Item::default() }]
}
