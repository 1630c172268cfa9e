//! A journal whose lines are on the disk before they are confirmed: `cargo run --release --example journal -- journal.txt`, then
//! `telnet 127.0.0.1 7012`.
//!
//! A disk takes milliseconds to sync, and the loop serves everybody else meanwhile: by the ring where there is one, else by workers.

use netwright::{
    Backend, CloseCause, Peer, Server,
    codec::{LineFrames, Utf8},
    files::{File, FileError, OpenOptions},
    pipeline,
};
use std::{error::Error, time::Duration};

/// Appends a line, and is done when it is safe.
async fn store(journal: &File, line: &str) -> Result<(), FileError> {
    journal.append(format!("{line}\n")).await?;
    journal.sync_data().await
}

/// One client: a confirmation for each line, or why there is none.
async fn keep(mut peer: Peer<String, String>, journal: File) -> Result<(), CloseCause> {
    while let Some(line) = peer.read().await? {
        match store(&journal, &line).await {
            Ok(()) => peer.write("stored".to_owned()).await?,
            Err(error) => peer.write(format!("ERROR {error}")).await?,
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "journal.txt".to_owned());
    let address = args.next().unwrap_or_else(|| "127.0.0.1:7012".to_owned());
    let journal = OpenOptions::new().append(true).create(true).open(&path).wait()?;
    let shared = journal.clone();
    let server = Server::builder()
        .group(Backend::Auto.event_loops(2)?)
        .pipeline(move |_| {
            let journal = shared.clone();
            pipeline()
                .add(LineFrames::max(1024))
                .add(Utf8::strict())
                .serve(move |peer| keep(peer, journal.clone()))
        })
        .bind(address)
        .wait()?;
    println!("a journal on {}; Enter ends the server", server.address());
    std::io::stdin().read_line(&mut String::new())?;
    server.drain(Duration::from_secs(5)).wait()?;
    println!("{path} has {} bytes", journal.metadata().wait()?.len());
    Ok(())
}
