//! Answers what things cost, in MessagePack: `cargo run --release --example messagepack_server -- 127.0.0.1:7021`
//!
//! A frame has its length in front, in four bytes. Messages are maps with names, as programs in Python or JavaScript have them.

use netwright::{
    AppContext, Application, Server,
    codec::{LengthFrames, MessagePack, serial::MessagePackFormat},
    event_loops, pipeline,
};
use netwright_examples::stock::{
    MESSAGE_MAX,
    messagepack::{Reply, Request},
    price_of,
};
use std::error::Error;

struct Stock;

impl Application for Stock {
    type Read = Request;
    type Write = Reply;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, request: Request) {
        cx.write(Reply { id: request.id, cents: price_of(&request.item, request.count) });
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
                .add(LengthFrames::max(MESSAGE_MAX)) // BytesMut -> Bytes
                .add(MessagePack::<Request, Reply>::with(MessagePackFormat::new().named(true)))
                .app(Stock)
        })
        .bind(address)
        .wait()?;
    Ok(server)
}

#[allow(dead_code)] // the tests call `serve`
fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7021".to_owned());
    let server = serve(&address)?;
    println!("stock in MessagePack on {}; stop with Ctrl-C", server.address());
    Ok(server.group().termination().wait()?)
}
