//! What the stock examples share: what things cost, and the messages that ask for it, in three formats.

pub mod messagepack;
pub mod protobuf;
pub mod thrift;

/// The longest message that a stock server reads.
pub const MESSAGE_MAX: usize = 64 * 1024;

/// What so many of an item cost, in cents; `None` if there is no such item.
pub fn price_of(item: &str, count: u32) -> Option<i64> {
    let cents = match item {
        "nut" => 5,
        "bolt" => 12,
        "gear" => 1999,
        _ => return None,
    };
    Some(cents * i64::from(count))
}
