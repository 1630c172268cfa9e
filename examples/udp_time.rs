//! The time by datagrams: who asks with `QUERY TIME ORDER` gets it, who asks anything else hears `BAD ORDER`.
//!
//! ```sh
//! cargo run --example udp_time -- serve 127.0.0.1:7008
//! cargo run --example udp_time -- ask 127.0.0.1:7008
//! ```
//! A bound channel reads datagrams with their sender and answers each to where it came from. A connected one needs no
//! addresses. Datagrams get lost, so whoever asks gives up after a while; and a port where nobody receives is an event.

use netwright::{
    AppContext, Application, CloseCause, Datagrams, Event,
    channel::Envelope,
    datagram::{Datagram, PortUnreachable},
    pipeline,
    pipeline::StageTimer,
};
use netwright_examples::{QUERY, answer};
use std::{error::Error, time::Duration};

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

struct Time;

impl Application for Time {
    type Read = Datagram;
    type Write = Envelope;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
        let order = String::from_utf8_lossy(&datagram.bytes);
        cx.write(datagram.answer(answer(order.trim_end())));
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush(); // all that came together is answered together
    }
}

struct Ask;

impl Application for Ask {
    type Read = Datagram;
    type Write = String;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush(QUERY.to_owned());
        cx.arm(PATIENCE);
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
        println!("{} says: {}", datagram.from, String::from_utf8_lossy(&datagram.bytes));
        cx.close();
    }

    fn event(&mut self, cx: &mut AppContext<'_, Self>, event: Event) {
        if let Some(unreachable) = event.get::<PortUnreachable>() {
            println!("{unreachable}");
            cx.close();
        }
    }

    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
        cx.close_because(CloseCause::TimedOut(PATIENCE));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_else(|| "serve".to_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7008".to_owned());
    if what == "ask" {
        let datagrams = Datagrams::builder().pipeline(|| pipeline().app(Ask))?;
        let channel = datagrams.connect(address).wait()?;
        return match channel.closed().wait()? {
            CloseCause::Requested => Ok(()),
            cause => Err(cause.into()),
        };
    }
    let datagrams = Datagrams::builder().pipeline(|| pipeline().app(Time))?;
    let channel = datagrams.bind(address).wait()?;
    println!("time by datagrams at {}", channel.local().ok_or("the channel closed at once")?);
    Err(channel.closed().wait()?.into())
}
