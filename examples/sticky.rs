//! Sticky packets, shown and solved: one client asks a hundred times, of two time servers.
//!
//! ```sh
//! cargo run --release --example sticky
//! ```
//! ```text
//!   the client writes:   [QUERY TIME ORDER\n] [QUERY TIME ORDER\n] [QUERY TIME ORDER\n] …      100 times
//!   a server reads:      [QUERY TIME ORDER\nQUERY TIME ORDER\nQUERY TI] [ME ORDER\nQUERY …     as TCP likes it
//! ```
//! TCP is a stream: it keeps the order of bytes, and nothing else. The first server takes each read for an order, and
//! answers as many as there were reads; most of them are bad. The second one has a frame stage in front, and the rest of it is
//! the same.

use bytes::{Bytes, BytesMut};
use netwright::{
    Address, AppContext, Application, Client, Context, Fault, Server,
    codec::{LineEncoder, LineFrames, Utf8, encode},
    event_loops, pipeline,
    pipeline::{InboundOnly, InboundStage, inbound},
};
use netwright_examples::{ORDER_MAX, QUERY, answer};
use std::{
    error::Error,
    sync::mpsc::{self, Sender},
    time::Duration,
};

const ORDERS: usize = 100;

/// Answers orders, the same for both servers.
struct Time;

impl Application for Time {
    type Read = String;
    type Write = String;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, order: String) {
        cx.write_and_flush(answer(&order));
    }

    fn error(&mut self, _: &mut AppContext<'_, Self>, fault: Fault) {
        println!("  the server could not read an order: {fault}");
    }
}

/// What one does before one has met TCP: takes a read for a message.
struct ReadIsOrder;

impl InboundOnly for ReadIsOrder {
    type Read = BytesMut;
    type ReadOut = Bytes;
    type Write = Bytes;

    fn read(&mut self, cx: &mut Context<'_, InboundStage<Self>>, mut bytes: BytesMut) {
        if bytes.ends_with(b"\n") {
            bytes.truncate(bytes.len() - 1);
        }
        cx.fire_read(bytes.freeze());
    }
}

/// Asks all at once, and tells what it hears.
struct Ask(Sender<String>);

impl Application for Ask {
    type Read = String;
    type Write = String;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        (0..ORDERS).for_each(|_| cx.write(QUERY.to_owned()));
        cx.flush();
    }

    fn read(&mut self, _: &mut AppContext<'_, Self>, now: String) {
        let _ = self.0.send(now); // nobody listens any more when all is told
    }
}

/// Asks a server, and says how many answers came, and how many of them are a time.
fn ask(address: &Address) -> Result<(), Box<dyn Error>> {
    let (sender, answers) = mpsc::channel();
    let client = Client::builder().pipeline(move || {
        pipeline().add(LineFrames::max(ORDER_MAX)).add(Utf8::strict()).app(Ask(sender.clone()))
    })?;
    let channel = client.connect(address).wait()?;
    let (mut all, mut good) = (0, 0);
    while all < ORDERS
        && let Ok(answer) = answers.recv_timeout(Duration::from_millis(500))
    {
        all += 1;
        good += usize::from(answer != "BAD ORDER");
    }
    channel.close().wait()?;
    println!("  {ORDERS} orders sent, {all} answers, {good} of them a time");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let group = event_loops(1)?;
    println!("without frames: each read is taken for an order");
    let without = Server::builder()
        .group(group.clone())
        .pipeline(|_| {
            pipeline().add(encode(LineEncoder::lf())).add(inbound(ReadIsOrder)).add(Utf8::strict()).app(Time)
        })
        .bind("127.0.0.1:0")
        .wait()?;
    ask(without.address())?;
    println!("with frames: LineFrames in front, everything else the same");
    let with = Server::builder()
        .group(group)
        .pipeline(|_| pipeline().add(LineFrames::max(ORDER_MAX)).add(Utf8::strict()).app(Time))
        .bind("127.0.0.1:0")
        .wait()?;
    ask(with.address())
}
