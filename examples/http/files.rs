//! The files of a directory: `cargo run --release --example http_files -- 127.0.0.1:7015 DIR`, then
//!
//! ```text
//! curl -i 127.0.0.1:7015/README.md
//! curl -i -r 0-99 127.0.0.1:7015/README.md
//! ```
//!
//! Files are opened by workers and sent by the system (`sendfile`): no byte of them passes through the program.

use netwright::{
    Server, event_loops,
    http::{
        HttpServer,
        web::{AccessLog, Files},
    },
    pipeline,
};
use std::{error::Error, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7015".to_owned());
    let directory = std::env::args().nth(2).unwrap_or_else(|| ".".to_owned());
    let loops = std::thread::available_parallelism().map_or(1, usize::from);

    let files = Files::below(&directory)?.listing(true).precompressed(true);
    let log = AccessLog::new(|entry| eprintln!("{} {:?}", entry.combined(), entry.latency));
    let root = files.root().display().to_string();

    let server = Server::builder()
        .group(event_loops(loops)?)
        .pipeline(move |_| pipeline().add(HttpServer::new()).add(log.stage()).app(files.server()))
        .bind(address)
        .wait()?;
    println!("files on {}; below {root}; Enter ends it", server.address());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let cut = server.drain(Duration::from_secs(10)).wait()?.cut;
    println!("ended; {cut} connections did not finish in time");
    Ok(())
}
