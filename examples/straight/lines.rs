//! A line protocol as an async function: `cargo run --release --example straight_lines`, then `telnet 127.0.0.1 7011`.
//!
//! Who says nothing for a minute is sent away, and when the server ends, everybody is told.

use netwright::{
    CloseCause, Peer, Server,
    codec::{LineFrames, Utf8},
    event_loops, pipeline,
    promise::{Selected, select},
    time,
};
use std::{error::Error, pin::pin, time::Duration};

const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The whole conversation with one client, from top to bottom.
async fn converse(mut peer: Peer<String, String>) -> Result<(), CloseCause> {
    let mut ending = pin!(peer.shutting_down());
    peer.write("what is your name?".to_owned()).await?;
    let Some(name) = peer.read().await? else { return Ok(()) };
    let mut sum = 0.0;
    peer.write(format!("hello, {name}! each number is added up, `bye` ends")).await?;
    loop {
        let line = match select(time::timeout(SILENCE_MAX, peer.read()), ending.as_mut()).await {
            Selected::First(Ok(line)) => line?,
            Selected::First(Err(elapsed)) => return peer.write(format!("{elapsed}: goodbye")).await,
            Selected::Second(()) => return peer.write("the server ends: goodbye".to_owned()).await,
        };
        let Some(line) = line else { return Ok(()) }; // the client sends no more
        match line.trim().parse::<f64>() {
            _ if line == "bye" => return peer.write(format!("goodbye, {name}")).await,
            Ok(number) => {
                sum += number;
                peer.write(format!("{sum}")).await?;
            }
            Err(_) => peer.write(format!("{line:?} is not a number")).await?,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7011".to_owned());
    let server = Server::builder()
        .group(event_loops(2)?)
        .pipeline(|_| pipeline().add(LineFrames::max(1024)).add(Utf8::strict()).serve(converse))
        .bind(address)
        .wait()?;
    println!("sums on {}; Enter ends the server", server.address());
    std::io::stdin().read_line(&mut String::new())?;
    let cut = server.drain(Duration::from_secs(5)).wait()?.cut;
    println!("ended; {cut} clients did not finish in time");
    Ok(())
}
