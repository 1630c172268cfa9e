//! A server for people with `telnet`, on a network that is not friendly: `cargo run --release --example filtered_telnet`, then `telnet 127.0.0.1 7017`.
//!
//! Who may come in is judged before a connection costs anything: by network, by how many an address has open already, by how fast it comes. Whoever is
//! refused reads why. Whoever is let in has a minute between two lines and an hour in all, and reads what there is to read.

use netwright::{
    AppContext, Application, Server,
    channel::ShuttingDown,
    codec::{LineFrames, Utf8},
    event_loops,
    handler::{Lifetime, Log, ReadTimeout, WriteTimeout},
    pipeline,
    server::{AcceptRate, Admission},
};
use std::{error::Error, time::Duration};

struct Commands;

impl Application for Commands {
    type Read = String;
    type Write = String;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        let who = cx.view().peer().map_or_else(String::new, |peer| peer.to_string());
        cx.write_and_flush(format!("hello, {who}; `who`, `time` and `bye` are known\r"));
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: String) {
        match line.trim_end() {
            "who" => cx.write_and_flush(format!("channel {}\r", cx.view().id())),
            "time" => cx.write_and_flush(format!("{:?}\r", std::time::SystemTime::now())),
            "bye" => cx.close_when_flushed(),
            other => {
                cx.write_and_flush(format!("{:?} is not known\r", other.chars().take(40).collect::<String>()))
            }
        }
    }

    fn event(&mut self, cx: &mut AppContext<'_, Self>, event: netwright::Event) {
        if event.get::<ShuttingDown>().is_some() {
            cx.write_and_flush("that is all for today; come again\r".to_owned());
            cx.close_when_flushed();
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7017".to_owned());
    let admission = Admission::new()
        .allow("127.0.0.0/8")?
        .allow("::1")?
        .deny("127.6.6.0/24")?
        .per_address(2)
        .rate_per_address(AcceptRate::per_second(5))
        .farewell("421 not now, or not you\r\n");

    let server = Server::builder()
        .group(event_loops(1)?)
        .admission(admission)
        .observer(Log::lifecycle())
        .pipeline(|_| {
            pipeline()
                .filter(Log::lifecycle())
                .filter(ReadTimeout::after(Duration::from_secs(60)))
                .filter(WriteTimeout::after(Duration::from_secs(10)))
                .filter(Lifetime::of(Duration::from_secs(3600)))
                .add(LineFrames::max(256))
                .add(Utf8::strict())
                .app(Commands)
        })
        .bind(address)
        .wait()?;
    println!("telnet on {}; Ctrl-C ends it", server.address());
    let end = server.serve_until_signal(Duration::from_secs(5))?;
    println!("{}; {} connections were cut", end.until, end.cut);
    Ok(())
}
