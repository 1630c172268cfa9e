//! Asks any of the time servers with a plain socket: `cargo run --release --example time_blocking_client -- 127.0.0.1:7001 3`
//!
//! The client as everybody writes it first: connect, write, read, each of them until it is done. For one connection there is
//! nothing simpler. A thousand of them would be a thousand threads; see `time_client` for the one that needs none.

use netwright_examples::{ORDER_MAX, QUERY};
use std::{
    error::Error,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

/// How long to wait for an answer: a read without a limit waits for as long as the server likes.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:7001".to_owned());
    let times: usize = args.next().map_or(Ok(1), |times| times.parse())?;
    let mut server = TcpStream::connect(&address)?;
    server.set_read_timeout(Some(PATIENCE))?;
    let mut answers = BufReader::new(server.try_clone()?);
    let mut now = String::new();
    for _ in 0..times {
        writeln!(server, "{QUERY}")?;
        now.clear();
        // TCP knows no lines: the reader puts together what came in pieces, and keeps what came too early.
        answers.by_ref().take(ORDER_MAX as u64).read_line(&mut now)?;
        match now.strip_suffix('\n') {
            Some(now) => println!("now is {now}"),
            None => return Err(format!("{address} hung up in the midst of an answer: {now:?}").into()),
        }
    }
    Ok(())
}
