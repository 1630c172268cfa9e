//! Many conversations in one connection, each a channel with a pipeline of its own: `cargo run --release --example mux`

use bytes::BytesMut;
use netwright::{Client, CloseCause, Outgoing, Peer, Server, pipeline};
use netwright_examples::mux::{Mux, Open};
use std::sync::mpsc;

/// Answers a stream when it has been said in full.
async fn count(mut peer: Peer<BytesMut, Outgoing>) -> Result<(), CloseCause> {
    let mut bytes = 0;
    while let Some(piece) = peer.read().await? {
        bytes += piece.len(); // what is read gives the stream credit for more
    }
    peer.write_and_flush(format!("{bytes} bytes")).await
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder()
        .pipeline(|_| pipeline().last(Mux::server(|| pipeline().serve(count).into_segment())))
        .bind("127.0.0.1:0")
        .wait()?;

    let (tell, answers) = mpsc::channel();
    let client = Client::builder().pipeline(move || {
        let tell = tell.clone();
        pipeline().last(Mux::client(move || {
            let tell = tell.clone();
            pipeline()
                .handle(move |cx, bytes| tell.send((cx.view().id(), bytes)).unwrap_or_default())
                .into_segment()
        }))
    })?;
    let connection = client.connect(server.local_addr().ok_or("on the network")?).wait()?;

    // Three streams side by side; the second says more than a stream may have unread.
    for size in [5, 200_000, 70] {
        let (open, mut stream) = Open::new();
        connection.write_and_flush(open);
        let stream = stream.wait()?;
        println!("stream {} of connection {}: {size} bytes", stream.id(), connection.id());
        stream.write_and_flush(vec![b'x'; size]);
        stream.shut_down_output();
    }
    for _ in 0..3 {
        let (stream, answer) = answers.recv()?;
        println!("stream {stream}: {}", String::from_utf8_lossy(&answer));
    }
    connection.close().wait()?;
    Ok(())
}
