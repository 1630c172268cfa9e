//! Two parts of one program that talk in pipelines without any socket: `cargo run --release --example local`

use bytes::Bytes;
use netwright::{
    AppContext, Application, Client, EventLoopGroup, Server,
    codec::{LineFrames, Utf8},
    pipeline,
};
use std::{error::Error, sync::mpsc};

struct Greeter;

impl Application for Greeter {
    type Read = String;
    type Write = String;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, name: String) {
        cx.write_and_flush(format!("hello, {name}"));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let loops = EventLoopGroup::builder().loops(2).build()?; // no driver for sockets is needed
    let server = Server::builder()
        .group(loops.clone())
        .pipeline(|_| pipeline().add(LineFrames::max(1024)).add(Utf8::strict()).app(Greeter))
        .bind("local:greeter")
        .wait()?;

    let (tell, answers) = mpsc::channel();
    let client = Client::builder().group(loops).pipeline(move || {
        let tell = tell.clone();
        pipeline().handle(move |_, bytes| tell.send(bytes).unwrap_or_default())
    })?;
    let channel = client.connect("local:greeter").wait()?;
    let text = |address: Option<netwright::Address>| address.map_or_else(String::new, |it| it.to_string());
    println!("{} is connected to {}", text(channel.local()), text(channel.peer()));

    channel.send(Bytes::from_static(b"local\n")).wait()?;
    print!("{}", String::from_utf8_lossy(&answers.recv()?));
    channel.close().wait()?;
    drop(server); // the name is free again
    Ok(())
}
