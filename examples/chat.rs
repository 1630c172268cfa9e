//! Everybody hears everybody: `cargo run --release --example chat`, then `telnet 127.0.0.1 7002` from several terminals.

use netwright::{
    AppContext, Application, ChannelGroup, CloseCause, Server,
    codec::{LineFrames, Utf8},
    event_loops, pipeline,
};
use std::error::Error;

struct Chat {
    room: ChannelGroup<String>,
    name: String,
}

impl Chat {
    fn tell_others(&self, cx: &AppContext<'_, Self>, line: String) {
        let me = cx.view().id();
        self.room.write_and_flush_if(line, |channel| channel.id() != me && channel.is_writable()); // who does not read misses it
    }
}

impl Application for Chat {
    type Read = String;
    type Write = String;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.name = cx.view().peer_addr().map_or_else(|| cx.view().id().to_string(), |peer| peer.to_string());
        self.room.add(cx.channel()); // it leaves by itself when the channel closes
        cx.write_and_flush(format!("welcome {}, {} here", self.name, self.room.len()));
        self.tell_others(cx, format!("{} has come", self.name));
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: String) {
        if line == "bye" {
            cx.close_when_flushed();
        } else {
            self.tell_others(cx, format!("{}: {line}", self.name));
        }
    }

    fn inactive(&mut self, cx: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.tell_others(cx, format!("{} has left ({cause})", self.name));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7002".to_owned());
    let room = ChannelGroup::new();
    let server = Server::builder()
        .group(event_loops(2)?)
        .pipeline(move |_| {
            let chat = Chat { room: room.clone(), name: String::new() };
            pipeline().add(LineFrames::max(1024)).add(Utf8::strict()).app(chat)
        })
        .bind(address)
        .wait()?;
    println!("chat on {}; `bye` leaves", server.address());
    Ok(server.group().termination().wait()?)
}
