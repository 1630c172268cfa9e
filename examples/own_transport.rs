//! A transport of one's own, found by its scheme: `cargo run --release --example own_transport`

#[cfg(unix)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use bytes::Bytes;
    use netwright::{
        Client, Server,
        codec::{LineFrames, Utf8},
        pipeline,
    };
    use netwright_examples::pipe_transport::PipeTransport;
    use std::sync::mpsc;

    let transport = PipeTransport::new(); // its names are known to those who are told of it
    let server = Server::builder()
        .scheme("pipe", transport.clone())
        .listen("127.0.0.1:0") // beside others, as any address
        .pipeline(|_| {
            pipeline()
                .add(LineFrames::max(1024))
                .add(Utf8::strict())
                .handle(|cx, name: String| cx.write_and_flush(format!("hello, {name}")))
        })
        .bind("pipe:greeter")
        .wait()?;

    let (tell, answers) = mpsc::channel();
    let client = Client::builder().scheme("pipe", transport).pipeline(move || {
        let tell = tell.clone();
        pipeline().handle(move |_, bytes| tell.send(bytes).unwrap_or_default())
    })?;
    for address in server.addresses() {
        let channel = client.connect(address).wait()?;
        channel.write_and_flush(Bytes::from(format!("{address}\n")));
        print!("{}", String::from_utf8_lossy(&answers.recv()?));
        channel.close().wait()?;
    }

    // Who was not told of the scheme learns what there is instead.
    let stranger = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
    let Err(error) = stranger.connect("pipe:greeter").wait() else { return Err("nobody told it".into()) };
    println!("{error}");
    Ok(())
}

#[cfg(not(unix))]
fn main() {
    println!("this transport is made of pipes, which only Unix lets us wait for");
}
