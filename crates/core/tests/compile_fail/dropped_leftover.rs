#![deny(unused_must_use)]

use bytes::BytesMut;
use netwright_core::Leftover;

fn last_bytes() -> Leftover<BytesMut> {
    Leftover::one(BytesMut::from("read, and not used"))
}

fn main() {
    last_bytes();
}
