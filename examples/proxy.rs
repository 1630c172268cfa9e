//! A TCP proxy with back pressure both ways: `cargo run --release --example proxy -- 127.0.0.1:7011 127.0.0.1:7007`
//!
//! ```text
//!   client ◀──▶ [ front ] ══ relay ══ [ back ] ◀──▶ server
//! ```
//!
//! Each side reads only while the other has room to write. An end of input is passed on as one, and when one side is
//! over, so is the other. Ctrl-C ends it, in order.

use netwright::{Client, Server, event_loops, handler::Relay, pipeline};
use std::{error::Error, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let listen = args.next().unwrap_or_else(|| "127.0.0.1:7011".to_owned());
    let target = args.next().unwrap_or_else(|| "127.0.0.1:7007".to_owned());
    let (loops, to) = (event_loops(2)?, target.clone());
    let server = Server::builder()
        .group(loops.clone())
        .auto_read(false) // nothing is read before the other side is there
        .pipeline(move |_| pipeline().app(Relay::to(Client::builder().group(loops.clone()), &to)))
        .bind(listen)
        .wait()?;
    println!("proxy on {} to {target}", server.address());
    let end = server.serve_until_signal(Duration::from_secs(10))?;
    println!("{}", end.until);
    Ok(())
}
