//! The smallest server: every byte goes back. `cargo run --release --example echo -- 127.0.0.1:7007`

use bytes::BytesMut;
use netwright::{AppContext, Application, Outgoing, Server, event_loops, pipeline};

struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush(); // once for all that came in this turn
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7007".to_owned());
    let server =
        Server::builder().group(event_loops(1)?).pipeline(|_| pipeline().app(Echo)).bind(address).wait()?;
    println!("echo on {}; stop with Ctrl-C", server.address());
    Ok(server.group().termination().wait()?)
}
