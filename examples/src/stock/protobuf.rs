//! The messages of `stock/stock.proto`, as `prost-build` would write them: there is no need for `protoc`.

/// What does it cost?
#[derive(Clone, PartialEq, prost::Message)]
pub struct Request {
    /// Comes back with the reply.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Of which item.
    #[prost(string, tag = "2")]
    pub item: String,
    /// How many.
    #[prost(uint32, tag = "3")]
    pub count: u32,
}

/// It costs this much.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Reply {
    /// Of which request.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// One of the two.
    #[prost(oneof = "Answer", tags = "2, 3")]
    pub answer: Option<Answer>,
}

/// A price, or why there is none.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Answer {
    /// All of them together.
    #[prost(sint64, tag = "2")]
    Cents(i64),
    /// There is no such item.
    #[prost(string, tag = "3")]
    Missing(String),
}
