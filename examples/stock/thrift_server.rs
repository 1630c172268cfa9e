//! Answers what things cost, by Thrift: `cargo run --release --example thrift_server -- 127.0.0.1:7022`
//!
//! The service is that of `stock.thrift`, over the framed transport and the binary protocol; with the word `compact` behind the
//! address, over the compact one. Clients that the Thrift compiler generates, in any language, can call it.

use netwright::{
    AppContext, Application, Server,
    codec::{
        LengthFrames, Thrift, ThriftCall,
        serial::{ThriftBody, ThriftFormat},
    },
    event_loops, pipeline,
};
use netwright_examples::stock::{
    MESSAGE_MAX, price_of,
    thrift::{NoSuchItem, PRICE, PriceArguments, PriceResult},
};
use std::error::Error;
use thrift::{ApplicationError, ApplicationErrorKind};

struct Stock;

impl Application for Stock {
    type Read = ThriftCall<PriceArguments>;
    type Write = ThriftCall<PriceResult>;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, call: Self::Read) {
        let arguments = match &call.body {
            ThriftBody::Call(arguments) if call.name == PRICE => arguments,
            ThriftBody::Call(_) => {
                let kind = ApplicationErrorKind::UnknownMethod;
                let unknown = ApplicationError::new(kind, format!("no method {:?}", call.name));
                return cx.write(call.exception(unknown));
            }
            _ => return, // nobody waits for an answer
        };
        let price = u32::try_from(arguments.count).ok().and_then(|count| price_of(&arguments.item, count));
        cx.write(call.reply(match price {
            Some(cents) => PriceResult::Cents(cents),
            None => PriceResult::NoSuchItem(NoSuchItem { item: arguments.item.clone() }),
        }));
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush(); // once for all requests that came together
    }
}

pub(crate) fn serve(address: &str, format: ThriftFormat) -> Result<Server, Box<dyn Error>> {
    let server = Server::builder()
        .group(event_loops(1)?)
        .pipeline(move |_| {
            pipeline()
                .add(LengthFrames::max(MESSAGE_MAX)) // BytesMut -> Bytes
                .add(Thrift::<ThriftCall<PriceArguments>, ThriftCall<PriceResult>>::with(format))
                .app(Stock)
        })
        .bind(address)
        .wait()?;
    Ok(server)
}

#[allow(dead_code)] // the tests call `serve`
fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7022".to_owned());
    let format = match std::env::args().nth(2).as_deref() {
        Some("compact") => ThriftFormat::compact(),
        _ => ThriftFormat::binary(),
    };
    let server = serve(&address, format)?;
    println!("stock by Thrift on {}; stop with Ctrl-C", server.address());
    Ok(server.group().termination().wait()?)
}
