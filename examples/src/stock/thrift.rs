//! The method of `stock/stock.thrift`: its arguments and its result, as structs. The Thrift compiler writes such code too.

use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TOutputProtocol, TSerializable, TStructIdentifier, TType,
};

/// The name of the only method.
pub const PRICE: &str = "price";

/// The arguments of `price`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PriceArguments {
    /// Of which item.
    pub item: String,
    /// How many.
    pub count: i32,
}

/// The result of `price`: what it cost, or the exception that the method declares.
#[derive(Debug, Clone, PartialEq)]
pub enum PriceResult {
    /// All of them together.
    Cents(i64),
    /// There is no such item.
    NoSuchItem(NoSuchItem),
}

/// There is no item of this name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NoSuchItem {
    /// Its name.
    pub item: String,
}

impl TSerializable for PriceArguments {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        let mut arguments = Self::default();
        each_field(input, |input, id, kind| match (id, kind) {
            (1, TType::String) => input.read_string().map(|item| arguments.item = item),
            (2, TType::I32) => input.read_i32().map(|count| arguments.count = count),
            _ => input.skip(kind),
        })?;
        Ok(arguments)
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        output.write_struct_begin(&TStructIdentifier::new("price_args"))?;
        field(output, "item", TType::String, 1, |output| output.write_string(&self.item))?;
        field(output, "count", TType::I32, 2, |output| output.write_i32(self.count))?;
        output.write_field_stop()?;
        output.write_struct_end()
    }
}

impl TSerializable for PriceResult {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        let mut result = None;
        each_field(input, |input, id, kind| match (id, kind) {
            (0, TType::I64) => input.read_i64().map(|cents| result = Some(Self::Cents(cents))),
            (1, TType::Struct) => NoSuchItem::read_from_in_protocol(input)
                .map(|missing| result = Some(Self::NoSuchItem(missing))),
            _ => input.skip(kind),
        })?;
        result.ok_or_else(|| {
            thrift::new_application_error(
                thrift::ApplicationErrorKind::MissingResult,
                "neither price nor exception",
            )
        })
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        output.write_struct_begin(&TStructIdentifier::new("price_result"))?;
        match self {
            Self::Cents(cents) => field(output, "success", TType::I64, 0, |output| output.write_i64(*cents))?,
            Self::NoSuchItem(missing) => {
                field(output, "missing", TType::Struct, 1, |output| missing.write_to_out_protocol(output))?;
            }
        }
        output.write_field_stop()?;
        output.write_struct_end()
    }
}

impl TSerializable for NoSuchItem {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        let mut missing = Self::default();
        each_field(input, |input, id, kind| match (id, kind) {
            (1, TType::String) => input.read_string().map(|item| missing.item = item),
            _ => input.skip(kind),
        })?;
        Ok(missing)
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        output.write_struct_begin(&TStructIdentifier::new("NoSuchItem"))?;
        field(output, "item", TType::String, 1, |output| output.write_string(&self.item))?;
        output.write_field_stop()?;
        output.write_struct_end()
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
