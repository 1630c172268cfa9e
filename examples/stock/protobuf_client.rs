//! Asks what things cost, in Protocol Buffers: `cargo run --release --example protobuf_client -- 127.0.0.1:7020 nut bolt`

use netwright::{
    Client,
    codec::{Protobuf, Varint32Frames},
    pipeline,
};
use netwright_examples::stock::{
    MESSAGE_MAX,
    protobuf::{Reply, Request},
};
use std::{error::Error, sync::mpsc};

/// Asks for all items at once, and waits for the replies.
pub(crate) fn ask(address: &str, items: &[String]) -> Result<Vec<Reply>, Box<dyn Error>> {
    let (send, replies) = mpsc::channel();
    let client = Client::builder().pipeline(move || {
        let send = send.clone();
        pipeline()
            .add(Varint32Frames::max(MESSAGE_MAX))
            .add(Protobuf::<Reply, Request>::new()) // the other way round
            .handle(move |_, reply| send.send(reply).unwrap_or_default())
    })?;
    let channel = client.connect(address).wait()?;
    for (id, item) in (1..).zip(items) {
        channel.write(Request { id, item: item.clone(), count: 3 });
    }
    channel.flush();
    Ok(replies.iter().take(items.len()).collect())
}

#[allow(dead_code)] // the tests call `ask`
fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:7020".to_owned());
    let mut items: Vec<String> = args.collect();
    if items.is_empty() {
        items = ["nut", "bolt", "moon"].map(str::to_owned).to_vec();
    }
    for (item, reply) in items.iter().zip(ask(&address, &items)?) {
        println!("3 of {item}: {:?}", reply.answer);
    }
    Ok(())
}
