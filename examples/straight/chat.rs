//! Everybody hears everybody, each client an async function: `cargo run --release --example straight_chat`, then
//! `telnet 127.0.0.1 7012` from several terminals.
//!
//! The room is a broadcast channel of tokio's: its futures need no runtime, so they run on our loops as they are.

use netwright::{
    CloseCause, Peer, Server,
    codec::{LineFrames, Utf8},
    event_loops, pipeline,
    promise::{Selected, select},
};
use std::error::Error;
use tokio::sync::broadcast::{Sender, channel, error::RecvError};

/// Lines that a slow reader may be behind before it misses some.
const BEHIND_MAX: usize = 256;

/// Something that was said, and by whom.
#[derive(Clone)]
struct News {
    from: String,
    line: String,
}

async fn chat(mut peer: Peer<String, String>, room: Sender<News>) -> Result<(), CloseCause> {
    let mut news = room.subscribe();
    let me = peer.channel().peer_addr().map_or_else(|| "somebody".to_owned(), |peer| peer.to_string());
    let say = |line: String| drop(room.send(News { from: me.clone(), line }));
    peer.write(format!("welcome {me}, {} here", room.receiver_count())).await?;
    say(format!("{me} has come"));
    loop {
        // Neither loses anything when the other one is ready.
        match select(peer.read(), news.recv()).await {
            Selected::First(Ok(Some(line))) if line == "bye" => break,
            Selected::First(Ok(Some(line))) => say(format!("{me}: {line}")),
            Selected::First(Ok(None)) => break,
            Selected::First(Err(cause)) => {
                say(format!("{me} has left ({cause})"));
                return Err(cause);
            }
            Selected::Second(Ok(news)) if news.from == me => {}
            // Waits while this client does not take its lines; the others do not.
            Selected::Second(Ok(news)) => peer.write(news.line).await?,
            Selected::Second(Err(RecvError::Lagged(lines))) => {
                peer.write(format!("you were too slow for {lines} lines")).await?;
            }
            Selected::Second(Err(RecvError::Closed)) => break,
        }
    }
    say(format!("{me} has left"));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7012".to_owned());
    let (room, _) = channel(BEHIND_MAX);
    let server = Server::builder()
        .group(event_loops(2)?)
        .pipeline(move |_| {
            let room = room.clone();
            let stages = pipeline().add(LineFrames::max(1024)).add(Utf8::strict());
            stages.serve(move |peer| chat(peer, room))
        })
        .bind(address)
        .wait()?;
    println!("chat on {}; `bye` leaves", server.address());
    Ok(server.group().termination().wait()?)
}
