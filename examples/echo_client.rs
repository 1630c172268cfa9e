//! Sends what is typed and prints what comes back: `cargo run --release --example echo_client -- 127.0.0.1:7007`

use bytes::Bytes;
use netwright::{Client, pipeline};
use std::{
    error::Error,
    io::{self, Write},
};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7007".to_owned());
    let client = Client::builder().pipeline(|| {
        pipeline().handle(|_, bytes| {
            let _ = io::stdout().write_all(&bytes).and_then(|()| io::stdout().flush());
        })
    })?;
    let channel = client.connect(address).wait()?;
    for line in io::stdin().lines() {
        channel.send(Bytes::from(line? + "\n")).wait()?;
    }
    channel.shut_down_output_tracked().wait()?; // the server sends the rest and closes
    println!("{}", channel.closed().wait()?);
    Ok(())
}
