//! Every message comes back: `cargo run --release --example websocket_echo`, then any WebSocket client at
//! `ws://127.0.0.1:7010`.

use netwright::{
    CloseCause, Peer, Server, event_loops,
    http::HttpServer,
    pipeline,
    websocket::{Accept, Config, Deflate, Message, Upgrade},
};
use std::{error::Error, sync::Arc};

async fn echo(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
    while let Some(message) = peer.read().await? {
        peer.write(message).await?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7010".to_owned());
    let config = Config::default().max_message(16 << 20).deflate(Deflate::default().takeover(true).min(0));
    let accept = Arc::new(Accept::new(config).protocols(["echo"]));
    let server = Server::builder()
        .group(event_loops(2)?)
        .pipeline(move |_| {
            let accept = accept.clone();
            pipeline().joint(|switch| {
                let upgrade = Upgrade::new(switch, accept, |socket, _, _| pipeline().add(socket).serve(echo));
                // Requests that are not for a WebSocket have nobody to answer them: the connection ends.
                pipeline().add(HttpServer::new()).add(upgrade).handle(|cx, _| cx.close()).sealed()
            })
        })
        .bind(address)
        .wait()?;
    println!("echo on ws://{}", server.address());
    Ok(server.group().termination().wait()?)
}
