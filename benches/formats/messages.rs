//! The message set: something small, something with a bit of everything, and a thousand numbers.
//!
//! The same types for `serde` and `prost`; for Thrift, what its compiler would write.

use serde::{Deserialize, Serialize};
use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TListIdentifier, TOutputProtocol, TSerializable, TStructIdentifier,
    TType,
};

/// A question of 30 bytes.
#[derive(Clone, PartialEq, Serialize, Deserialize, prost::Message)]
pub(crate) struct Request {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    item: String,
    #[prost(uint32, tag = "3")]
    count: u32,
}

/// Text, numbers, a list of structs.
#[derive(Clone, PartialEq, Serialize, Deserialize, prost::Message)]
pub(crate) struct Order {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    customer: String,
    #[prost(message, repeated, tag = "3")]
    lines: Vec<Line>,
    #[prost(string, tag = "4")]
    note: String,
    #[prost(bool, tag = "5")]
    paid: bool,
}

#[derive(Clone, PartialEq, Serialize, Deserialize, prost::Message)]
pub(crate) struct Line {
    #[prost(string, tag = "1")]
    item: String,
    #[prost(uint32, tag = "2")]
    count: u32,
    #[prost(sint64, tag = "3")]
    cents: i64,
    #[prost(double, tag = "4")]
    weight: f64,
}

/// Numbers and nothing else.
#[derive(Clone, PartialEq, Serialize, Deserialize, prost::Message)]
pub(crate) struct Samples {
    #[prost(string, tag = "1")]
    source: String,
    #[prost(uint64, repeated, tag = "2")]
    times: Vec<u64>,
    #[prost(double, repeated, tag = "3")]
    values: Vec<f64>,
}

pub(crate) fn request() -> Request {
    Request { id: 4_711, item: "gear, 48 teeth".to_owned(), count: 12 }
}

pub(crate) fn order() -> Order {
    let line = |number: u32| Line {
        item: format!("part number {}", number * 7919),
        count: number * number,
        cents: i64::from(number) * 1999 - 5000,
        weight: f64::from(number) * 0.37,
    };
    Order {
        id: 1 << 40,
        customer: "Grüße & Co, Lindenstraße 12".to_owned(),
        lines: (1..=20).map(line).collect(),
        note: "leave it at the door if nobody is at home, or with the neighbours".to_owned(),
        paid: true,
    }
}

pub(crate) fn samples() -> Samples {
    Samples {
        source: "boiler/2/outlet".to_owned(),
        times: (0..1000).map(|second| 1_700_000_000_000 + 1000 * second).collect(),
        values: (0..1000).map(|second| 60.0 + (f64::from(second) * 0.1).sin()).collect(),
    }
}

impl TSerializable for Request {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        let mut request = Self::default();
        each_field(input, |input, id, kind| match id {
            1 => input.read_i64().map(|id| request.id = id as u64),
            2 => input.read_string().map(|item| request.item = item),
            3 => input.read_i32().map(|count| request.count = count as u32),
            _ => input.skip(kind),
        })?;
        Ok(request)
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        structure(output, "Request", |output| {
            field(output, "id", TType::I64, 1, |output| output.write_i64(self.id as i64))?;
            field(output, "item", TType::String, 2, |output| output.write_string(&self.item))?;
            field(output, "count", TType::I32, 3, |output| output.write_i32(self.count as i32))
        })
    }
}

impl TSerializable for Order {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        let mut order = Self::default();
        each_field(input, |input, id, kind| match id {
            1 => input.read_i64().map(|id| order.id = id as u64),
            2 => input.read_string().map(|customer| order.customer = customer),
            3 => read_list(input, Line::read_from_in_protocol).map(|lines| order.lines = lines),
            4 => input.read_string().map(|note| order.note = note),
            5 => input.read_bool().map(|paid| order.paid = paid),
            _ => input.skip(kind),
        })?;
        Ok(order)
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        structure(output, "Order", |output| {
            field(output, "id", TType::I64, 1, |output| output.write_i64(self.id as i64))?;
            field(output, "customer", TType::String, 2, |output| output.write_string(&self.customer))?;
            field(output, "lines", TType::List, 3, |output| {
                list(output, TType::Struct, &self.lines, |output, line| line.write_to_out_protocol(output))
            })?;
            field(output, "note", TType::String, 4, |output| output.write_string(&self.note))?;
            field(output, "paid", TType::Bool, 5, |output| output.write_bool(self.paid))
        })
    }
}

impl TSerializable for Line {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        let mut line = Self::default();
        each_field(input, |input, id, kind| match id {
            1 => input.read_string().map(|item| line.item = item),
            2 => input.read_i32().map(|count| line.count = count as u32),
            3 => input.read_i64().map(|cents| line.cents = cents),
            4 => input.read_double().map(|weight| line.weight = weight),
            _ => input.skip(kind),
        })?;
        Ok(line)
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        structure(output, "Line", |output| {
            field(output, "item", TType::String, 1, |output| output.write_string(&self.item))?;
            field(output, "count", TType::I32, 2, |output| output.write_i32(self.count as i32))?;
            field(output, "cents", TType::I64, 3, |output| output.write_i64(self.cents))?;
            field(output, "weight", TType::Double, 4, |output| output.write_double(self.weight))
        })
    }
}

impl TSerializable for Samples {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        let mut samples = Self::default();
        each_field(input, |input, id, kind| match id {
            1 => input.read_string().map(|source| samples.source = source),
            2 => read_list(input, |input| input.read_i64().map(|time| time as u64))
                .map(|times| samples.times = times),
            3 => read_list(input, |input| input.read_double()).map(|values| samples.values = values),
            _ => input.skip(kind),
        })?;
        Ok(samples)
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        structure(output, "Samples", |output| {
            field(output, "source", TType::String, 1, |output| output.write_string(&self.source))?;
            field(output, "times", TType::List, 2, |output| {
                list(output, TType::I64, &self.times, |output, time| output.write_i64(*time as i64))
            })?;
            field(output, "values", TType::List, 3, |output| {
                list(output, TType::Double, &self.values, |output, value| output.write_double(*value))
            })
        })
    }
}

fn each_field(
    input: &mut dyn TInputProtocol,
    mut read: impl FnMut(&mut dyn TInputProtocol, i16, TType) -> thrift::Result<()>,
) -> thrift::Result<()> {
    input.read_struct_begin()?;
    loop {
        let field = input.read_field_begin()?;
        if field.field_type == TType::Stop {
            return input.read_struct_end();
        }
        read(input, field.id.unwrap_or_default(), field.field_type)?;
        input.read_field_end()?;
    }
}

fn read_list<T>(
    input: &mut dyn TInputProtocol,
    mut read: impl FnMut(&mut dyn TInputProtocol) -> thrift::Result<T>,
) -> thrift::Result<Vec<T>> {
    let size = input.read_list_begin()?.size as usize;
    let mut all = Vec::with_capacity(size);
    for _ in 0..size {
        all.push(read(input)?);
    }
    input.read_list_end()?;
    Ok(all)
}

fn structure(
    output: &mut dyn TOutputProtocol,
    name: &str,
    write: impl FnOnce(&mut dyn TOutputProtocol) -> thrift::Result<()>,
) -> thrift::Result<()> {
    output.write_struct_begin(&TStructIdentifier::new(name))?;
    write(output)?;
    output.write_field_stop()?;
    output.write_struct_end()
}

fn field(
    output: &mut dyn TOutputProtocol,
    name: &str,
    kind: TType,
    id: i16,
    write: impl FnOnce(&mut dyn TOutputProtocol) -> thrift::Result<()>,
) -> thrift::Result<()> {
    output.write_field_begin(&TFieldIdentifier::new(name, kind, id))?;
    write(output)?;
    output.write_field_end()
}

fn list<T>(
    output: &mut dyn TOutputProtocol,
    kind: TType,
    all: &[T],
    write: impl Fn(&mut dyn TOutputProtocol, &T) -> thrift::Result<()>,
) -> thrift::Result<()> {
    output.write_list_begin(&TListIdentifier::new(kind, all.len() as i32))?;
    for one in all {
        write(output, one)?;
    }
    output.write_list_end()
}
