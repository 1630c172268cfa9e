//! The time server as everybody writes it first: a thread for every connection.
//!
//! Simple, and fine for a few peers. A thousand of them are a thousand threads that mostly wait.

use netwright_examples::{ORDER_MAX, answer};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7001".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("time, a thread per connection, on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || serve(stream));
    }
    Ok(())
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut orders = BufReader::new(stream.try_clone()?);
    let mut order = String::new();
    while orders.by_ref().take(ORDER_MAX as u64).read_line(&mut order)? > 0 {
        if !order.ends_with('\n') {
            return Ok(()); // too long, or cut off: nobody to answer
        }
        writeln!(stream, "{}", answer(order.trim_end()))?;
        order.clear();
    }
    Ok(())
}
