//! The stock examples: our clients with our servers, and Python's own packages with our servers.

use netwright::codec::serial::ThriftFormat;
use netwright_examples::stock::{
    messagepack, protobuf,
    thrift::{NoSuchItem, PriceResult},
};

#[path = "../stock/messagepack_client.rs"]
mod messagepack_client;
#[path = "../stock/messagepack_server.rs"]
mod messagepack_server;
#[path = "../stock/protobuf_client.rs"]
mod protobuf_client;
#[path = "../stock/protobuf_server.rs"]
mod protobuf_server;
mod python;
#[path = "../stock/thrift_client.rs"]
mod thrift_client;
#[path = "../stock/thrift_server.rs"]
mod thrift_server;

const LOOPBACK: &str = "127.0.0.1:0";

fn items() -> Vec<String> {
    ["gear", "moon"].map(str::to_owned).to_vec()
}

#[test]
fn our_client_gets_prices_in_protocol_buffers() {
    let server = protobuf_server::serve(LOOPBACK).unwrap();
    let replies = protobuf_client::ask(&server.address().to_string(), &items()).unwrap();
    let answers = [protobuf::Answer::Cents(5997), protobuf::Answer::Missing("moon".to_owned())];
    for ((id, answer), reply) in (1..).zip(answers).zip(replies) {
        assert_eq!(reply, protobuf::Reply { id, answer: Some(answer) });
    }
}

#[test]
fn our_client_gets_prices_in_messagepack() {
    let server = messagepack_server::serve(LOOPBACK).unwrap();
    let replies = messagepack_client::ask(&server.address().to_string(), &items()).unwrap();
    let reply = |id, cents| messagepack::Reply { id, cents };
    assert_eq!(replies, [reply(1, Some(5997)), reply(2, None)]);
}

#[test]
fn our_client_gets_prices_by_thrift() {
    for format in [ThriftFormat::binary(), ThriftFormat::compact()] {
        let server = thrift_server::serve(LOOPBACK, format).unwrap();
        let replies = thrift_client::ask(&server.address().to_string(), &items(), format).unwrap();
        let missing = PriceResult::NoSuchItem(NoSuchItem { item: "moon".to_owned() });
        let call = netwright::codec::ThriftCall::call("price", 1, ());
        assert_eq!(replies[0], call.reply(PriceResult::Cents(5997)));
        assert_eq!((replies[1].sequence, &replies[1].body), (2, &call.reply(missing).body));
    }
}

#[test]
fn python_gets_prices_in_protocol_buffers() {
    let server = protobuf_server::serve(LOOPBACK).unwrap();
    python::peer("protobuf", "stock_protobuf.py", &[&server.address().to_string()]);
}

#[test]
fn python_gets_prices_in_messagepack() {
    let server = messagepack_server::serve(LOOPBACK).unwrap();
    python::peer("msgpack", "stock_messagepack.py", &[&server.address().to_string()]);
}

#[test]
fn python_gets_prices_by_thrift() {
    for (format, word) in [(ThriftFormat::binary(), "binary"), (ThriftFormat::compact(), "compact")] {
        let server = thrift_server::serve(LOOPBACK, format).unwrap();
        python::peer("thrift", "stock_thrift.py", &[&server.address().to_string(), word]);
    }
}
