//! What passes on the wire, in the log: `cargo run --release --example logged_echo`, then `nc 127.0.0.1 7018`.
//!
//! Where a log stands decides what it sees: here one shows bytes as they come, and one behind the codec shows lines. The password of `login NAME
//! PASSWORD` is covered in the first and left out in the second.

use netwright::{
    Server,
    codec::{LineFrames, Utf8},
    event_loops,
    handler::{Direction, Log},
    pipeline,
};
use std::{error::Error, time::Duration};

/// Covers what comes behind `login NAME `. A secret that comes in two pieces would not be found: what must never be seen is not logged as bytes.
fn cover(direction: Direction, bytes: &mut Vec<u8>) {
    if direction == Direction::Read && bytes.starts_with(b"login ") {
        let mut blanks = bytes.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
        if let Some(second) = blanks.nth(1) {
            bytes.truncate(second + 1);
            bytes.extend_from_slice(b"***");
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7018".to_owned());
    let server = Server::builder()
        .group(event_loops(1)?)
        .observer(Log::lifecycle())
        .pipeline(|_| {
            pipeline()
                .filter(Log::hex().max(256).redact(cover))
                .add(LineFrames::max(1024))
                .add(Utf8::strict())
                .handle(|cx, line: String| match line.strip_prefix("login ") {
                    Some(who) => {
                        let name = who.split(' ').next().unwrap_or_default();
                        tracing::info!(name, "somebody logs in");
                        cx.write_and_flush(format!("welcome, {name}"));
                    }
                    None => cx.write_and_flush(line),
                })
        })
        .bind(address)
        .wait()?;
    println!("echo on {}; Ctrl-C ends it", server.address());
    server.serve_until_signal(Duration::from_secs(1))?;
    Ok(())
}
