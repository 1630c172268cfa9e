//! Answers what things cost, in Protocol Buffers: `cargo run --release --example protobuf_server -- 127.0.0.1:7020`
//!
//! The messages are those of `stock.proto`. The pipeline cuts frames and makes requests of them; the handler sees its own types.

use netwright::{
    AppContext, Application, Server,
    codec::{Protobuf, Varint32Frames},
    event_loops, pipeline,
};
use netwright_examples::stock::{
    MESSAGE_MAX, price_of,
    protobuf::{Answer, Reply, Request},
};
use std::error::Error;

struct Stock;

impl Application for Stock {
    type Read = Request;
    type Write = Reply;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, request: Request) {
        let answer = match price_of(&request.item, request.count) {
            Some(cents) => Answer::Cents(cents),
            None => Answer::Missing(request.item),
        };
        cx.write(Reply { id: request.id, answer: Some(answer) });
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush(); // once for all requests that came together
    }
}

pub(crate) fn serve(address: &str) -> Result<Server, Box<dyn Error>> {
    let server = Server::builder()
        .group(event_loops(1)?)
        .pipeline(|_| {
            pipeline()
                .add(Varint32Frames::max(MESSAGE_MAX)) // BytesMut -> Bytes
                .add(Protobuf::<Request, Reply>::new()) // Bytes -> Request, Reply -> Bytes
                .app(Stock)
        })
        .bind(address)
        .wait()?;
    Ok(server)
}

#[allow(dead_code)] // the tests call `serve`
fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7020".to_owned());
    let server = serve(&address)?;
    println!("stock in Protocol Buffers on {}; stop with Ctrl-C", server.address());
    Ok(server.group().termination().wait()?)
}
