//! The smallest web server: `cargo run --release --example http_hello`, then `curl -i 127.0.0.1:7016/ada`.

use http::Response;
use netwright::{
    Server, event_loops,
    http::{HttpServer, respond},
    pipeline,
};
use std::{error::Error, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7016".to_owned());
    let server = Server::builder()
        .group(event_loops(2)?)
        .pipeline(|_| {
            pipeline().add(HttpServer::new()).app(respond(|request| {
                let name = request.uri().path().trim_start_matches('/');
                Response::new(format!("hello, {}\n", if name.is_empty() { "world" } else { name }))
            }))
        })
        .bind(address)
        .wait()?;
    println!("hello on {}; Enter ends it", server.address());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let cut = server.drain(Duration::from_secs(10)).wait()?.cut;
    println!("ended; {cut} connections did not finish in time");
    Ok(())
}
