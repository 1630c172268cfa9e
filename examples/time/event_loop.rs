//! The time server with Netwright: two event loops, any number of connections.
//!
//! A silent peer costs a few hundred bytes and no thread. The pipeline cuts lines, makes text of them, and asks the
//! handler; each stage is one job, and their types say that they fit.
//!
//! With the word `uring` behind the address, the loops hand their reads, writes and accepts to the kernel and hear when they are done
//! (io_uring, on Linux); with `blocking`, each connection has a thread instead. Nothing else changes.

use netwright::{
    AppContext, Application, Backend, Server,
    codec::{LineFrames, Utf8},
    event_loops, pipeline,
};
use netwright_examples::{ORDER_MAX, answer};
use std::error::Error;

struct Time;

impl Application for Time {
    type Read = String;
    type Write = String;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, order: String) {
        cx.write_and_flush(answer(&order));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7001".to_owned());
    let (server, how) = match std::env::args().nth(2).as_deref() {
        None => (Server::builder().group(event_loops(2)?), "two event loops"),
        Some("uring") => (Server::builder().group(Backend::Uring.event_loops(2)?), "two io_uring loops"),
        Some("blocking") => (Server::builder().backend(Backend::Blocking), "a thread per connection"),
        Some(other) => return Err(format!("{other:?} is neither uring nor blocking").into()),
    };
    let server = server
        .pipeline(|_| pipeline().add(LineFrames::max(ORDER_MAX)).add(Utf8::strict()).app(Time))
        .bind(address)
        .wait()?;
    println!("time, {how}, on {}", server.address());
    Ok(server.group().termination().wait()?)
}
