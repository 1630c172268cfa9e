//! Netwright in a tokio program, and tokio in a handler: `cargo run --release --example with_tokio`.
//!
//! ```text
//!   tokio: main ── bind, connect, write, close: all awaited ──▶ ┌ event loop ┐
//!   tokio: task ◀── Handle::spawn ─ cx.spawn(task, then) ─────── │  handler   │   as one would call `reqwest` or `sqlx`
//!               ─── output ──▶ then(&mut handler, cx, output) ──▶└────────────┘
//! ```

use bytes::{Bytes, BytesMut};
use netwright::{
    AppContext, Application, Client, Server,
    codec::{LineFrames, Utf8},
    event_loops, pipeline,
};
use std::{error::Error, io, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::mpsc,
};

/// What one would look up in a database or over HTTP: any future that needs tokio.
async fn look_up(name: String, database: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(database).await?;
    stream.write_all(name.as_bytes()).await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    tokio::time::timeout(Duration::from_secs(5), stream.read_to_string(&mut answer)).await??;
    Ok(answer)
}

/// Answers each name with what the database knows.
struct LooksUp {
    tokio: Handle,
    database: SocketAddr,
    answered: usize,
}

impl Application for LooksUp {
    type Read = String;
    type Write = String;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, name: String) {
        let looked_up = self.tokio.spawn(look_up(name, self.database));
        cx.spawn(looked_up, |handler, cx, answer| {
            handler.answered += 1; // on the loop again, with the handler in hand and no lock
            match answer {
                Ok(Ok(answer)) => cx.write_and_flush(format!("{}: {answer}", handler.answered)),
                Ok(Err(error)) => cx.write_and_flush(format!("{}: no answer: {error}", handler.answered)),
                Err(error) => cx.fire_error(error), // it panicked, or the runtime has ended
            }
        });
    }
}

/// Stands for the database: a plain tokio server.
async fn database(listener: TcpListener) -> io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut name = String::new();
            stream.read_to_string(&mut name).await?;
            stream.write_all(format!("{name} has {} letters", name.chars().count()).as_bytes()).await
        });
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (tokio, at) = (Handle::current(), listener.local_addr()?);
    tokio::spawn(database(listener));

    // Everything that Netwright promises is a plain future.
    let server = Server::builder()
        .group(event_loops(1)?)
        .pipeline(move |_| {
            let looks_up = LooksUp { tokio: tokio.clone(), database: at, answered: 0 };
            pipeline().add(LineFrames::max(1024)).add(Utf8::strict()).app(looks_up)
        })
        .bind("127.0.0.1:0")
        .await?;

    let (send, mut answers) = mpsc::unbounded_channel::<BytesMut>();
    let client = Client::builder().pipeline(move || {
        let send = send.clone();
        pipeline().handle(move |_, bytes| drop(send.send(bytes)))
    })?;
    let channel = client.connect(server.address()).await?;
    for name in ["ada", "grace", "barbara"] {
        channel.send(Bytes::from(format!("{name}\n"))).await?;
        let answer = answers.recv().await.ok_or("the server has gone")?;
        print!("{}", String::from_utf8_lossy(&answer));
    }
    println!("{}", channel.close().await);
    let cut = server.drain(Duration::from_secs(5)).await?.cut;
    println!("ended, {cut} cut");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run())
}
