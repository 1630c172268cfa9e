//! The time server with a bounded number of threads: connections wait in a queue for one of them.
//!
//! It cannot run out of threads any more. But a peer that says nothing holds a thread, so as many silent peers as there
//! are threads keep everybody else out.

use netwright::Workers;
use netwright_examples::{ORDER_MAX, answer};
use std::{
    error::Error,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

/// Threads, and so peers that are served at the same time.
const THREADS: usize = 50;
/// After this much silence a thread gives its peer up, or a thousand quiet peers would be served never.
const SILENCE_MAX: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7001".to_owned());
    let listener = TcpListener::bind(address)?;
    let workers = Workers::builder().threads(THREADS).max_pending(10_000).name("time").build()?;
    println!("time, a pool of {THREADS} threads, on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        // Refused when 10,000 wait already: the connection is dropped, and its peer learns it.
        if let Err(refused) = workers.execute(move || drop(serve(stream))) {
            eprintln!("{refused}");
        }
    }
    Ok(())
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let mut orders = BufReader::new(stream.try_clone()?);
    let mut order = String::new();
    while orders.by_ref().take(ORDER_MAX as u64).read_line(&mut order)? > 0 {
        if !order.ends_with('\n') {
            return Ok(());
        }
        writeln!(stream, "{}", answer(order.trim_end()))?;
        order.clear();
    }
    Ok(())
}
