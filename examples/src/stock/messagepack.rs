//! The messages as maps: `{"id": 1, "item": "nut", "count": 3}`.

use serde::{Deserialize, Serialize};

/// What does it cost?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Comes back with the reply.
    pub id: u64,
    /// Of which item.
    pub item: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
}

/// It costs this much, or there is no such item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Of which request.
    pub id: u64,
    /// All of them together.
    pub cents: Option<i64>,
}

fn one() -> u32 {
    1
}
