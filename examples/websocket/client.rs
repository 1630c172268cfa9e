//! A WebSocket client: what is typed goes to a server, and what it says is printed.
//! `cargo run --release --example websocket_client -- ws://127.0.0.1:7010/` with the example `websocket_echo`, or any other server.
//!
//! ```text
//!   main ── connect ──▶ the handshake is done: a socket, and what was agreed to
//!   standard input ── a thread, one line at a time ──▶ socket.channel()       the end of it: a close frame
//!   the loop ── peer.read().await ──▶ standard output                         until the server has closed, too
//! ```

use netwright::{
    CloseCause, Peer, event_loops,
    tls::Connector,
    websocket::{
        Close, CloseCode, Config, Deflate, HandshakeError, Message, OpenError, Opened, Request, Socket,
        WebSocketClient,
    },
};
use std::{error::Error, io, process::ExitCode, thread};

/// Runs on the client's loop, as soon as the server has agreed.
async fn print(mut peer: Peer<Message, Message>, _: Opened) -> Result<(), CloseCause> {
    while let Some(message) = peer.read().await? {
        match message {
            Message::Text(text) => println!("{text}"),
            other => println!("{} bytes", other.payload().len()),
        }
    }
    Ok(())
}

/// Standard input blocks, so it has a thread of its own; a line is read when the one before is on its way.
fn send_lines(socket: &Socket) {
    for line in io::stdin().lines().map_while(Result::ok) {
        if socket.channel().send(Message::from(line)).wait().is_err() {
            return; // the socket has ended, which `main` hears as well
        }
    }
    // What the server still has to say before it answers this is printed.
    socket.channel().write_and_flush(Message::from(Close::new(CloseCode::NORMAL, "no more lines")));
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "ws://127.0.0.1:7010/".to_owned());
    let request =
        Request::new(&url)?.protocols(["echo"]).config(Config::default().deflate(Deflate::default()));
    let mut client = WebSocketClient::new(event_loops(1)?);
    if request.is_secure() {
        client = client.tls(Connector::system()?); // without it a wss address is refused
    }
    let socket = match client.connect(request, print).wait() {
        Ok(socket) => socket,
        Err(OpenError::Handshake(HandshakeError::Rejected(reply))) => {
            eprintln!("{reply}: {}", String::from_utf8_lossy(&reply.body).trim_end());
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error.into()),
    };
    let protocol = socket.protocol().unwrap_or("no subprotocol");
    let compression = if socket.deflate().is_some() { "compressed" } else { "not compressed" };
    eprintln!("connected to {url}: {protocol}, {compression}");
    let to_server = socket.clone();
    thread::spawn(move || send_lines(&to_server));
    eprintln!("ended: {}", socket.closed().wait()?);
    Ok(ExitCode::SUCCESS)
}
