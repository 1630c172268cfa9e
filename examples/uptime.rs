//! Keeps a connection to a server, and tells how long each has stood: `cargo run --release --example uptime -- 127.0.0.1:7007`
//!
//! ```text
//!   refused ─▶ pause ─▶ refused ─▶ longer pause ─▶ connected ── "are you there?" now and then ──▶ lost ─▶ pause ─▶ …
//! ```
//! Try it with the example `echo` (which answers whatever it is asked): start it late, stop it, stop it with `kill -STOP`, and start it again. More than one
//! address may be given. It ends with the end of standard input.

use netwright::{
    Client,
    handler::{Backoff, Heartbeat, Reconnect, ReconnectEvent},
    pipeline,
};
use std::{
    error::Error,
    io,
    time::{Duration, Instant},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut addresses = std::env::args().skip(1);
    let first = addresses.next().unwrap_or_else(|| "127.0.0.1:7007".to_owned());

    // A server that is silent for five seconds is asked, and has lost us if it says nothing for two more.
    let heartbeat = || {
        Heartbeat::new(Duration::from_secs(5), || "are you there?\n".into())
            .answer_within(Duration::from_secs(2))
    };
    let client = Client::builder().connect_timeout(Duration::from_secs(5)).pipeline(move || {
        pipeline().filter(heartbeat()).handle(|_, bytes| println!("{} bytes", bytes.len()))
    })?;

    let begun = Instant::now();
    let tell = move |event: &ReconnectEvent<'_>| {
        print!("[{:6.1} s] ", begun.elapsed().as_secs_f64());
        match event {
            ReconnectEvent::Connecting { address } => println!("connecting to {address}"),
            ReconnectEvent::Failed { error, failures, .. } => println!("failure {failures}: {error}"),
            ReconnectEvent::Connected { address } => println!("connected to {address}"),
            ReconnectEvent::Lost { address, cause, stood } => {
                println!("{address} was up for {:.1} s: {cause}", stood.as_secs_f64());
            }
            ReconnectEvent::Waiting { pause } => println!("next attempt in {:.1} s", pause.as_secs_f64()),
            other => println!("{other:?}"),
        }
    };
    let backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(10));
    let mut server = Reconnect::to(&client, first).backoff(backoff).observe(tell);
    for address in addresses {
        server = server.or_to(address);
    }
    let server = server.start()?;

    for line in io::stdin().lines() {
        // Without a connection that is told at once: messages may wait for one if that is set.
        if let Err(error) = server.send(line? + "\n").wait() {
            println!("not sent: {error}");
        }
    }
    server.stop().wait()?;
    Ok(())
}
