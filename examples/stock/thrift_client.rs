//! Asks what things cost, by Thrift: `cargo run --release --example thrift_client -- 127.0.0.1:7022 nut bolt`

use netwright::{
    Client,
    codec::{LengthFrames, Thrift, ThriftCall, serial::ThriftFormat},
    pipeline,
};
use netwright_examples::stock::{
    MESSAGE_MAX,
    thrift::{PRICE, PriceArguments, PriceResult},
};
use std::{error::Error, sync::mpsc};

/// Asks for all items at once, and waits for the replies.
pub(crate) fn ask(
    address: &str,
    items: &[String],
    format: ThriftFormat,
) -> Result<Vec<ThriftCall<PriceResult>>, Box<dyn Error>> {
    let (send, replies) = mpsc::channel();
    let client = Client::builder().pipeline(move || {
        let send = send.clone();
        pipeline()
            .add(LengthFrames::max(MESSAGE_MAX))
            .add(Thrift::<ThriftCall<PriceResult>, ThriftCall<PriceArguments>>::with(format))
            .handle(move |_, reply| send.send(reply).unwrap_or_default())
    })?;
    let channel = client.connect(address).wait()?;
    for (sequence, item) in (1..).zip(items) {
        channel.write(ThriftCall::call(PRICE, sequence, PriceArguments { item: item.clone(), count: 3 }));
    }
    channel.flush();
    Ok(replies.iter().take(items.len()).collect())
}

#[allow(dead_code)] // the tests call `ask`
fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:7022".to_owned());
    let mut items: Vec<String> = args.collect();
    if items.is_empty() {
        items = ["nut", "bolt", "moon"].map(str::to_owned).to_vec();
    }
    for (item, reply) in items.iter().zip(ask(&address, &items, ThriftFormat::binary())?) {
        println!("3 of {item}: {:?}", reply.body);
    }
    Ok(())
}
