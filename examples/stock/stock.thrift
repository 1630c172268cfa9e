// What things cost. On the wire: framed transport, binary protocol.

exception NoSuchItem {
  1: string item
}

service Stock {
  // All of them together, in cents.
  i64 price(1: string item, 2: i32 count) throws (1: NoSuchItem missing)
}
