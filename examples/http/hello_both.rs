//! HTTP/1.1 and HTTP/2 from the same closure, on one port: `cargo run --release --example http_hello_both`, then `curl -i 127.0.0.1:7024/ada`,
//! `curl -i --http2-prior-knowledge 127.0.0.1:7024/ada` and `curl -i --http2 127.0.0.1:7024/ada`. With TLS: `-- 127.0.0.1:7024 --tls`, and
//! `curl -ik https://127.0.0.1:7024/ada`.

use http::Response;
use netwright::{
    Server, event_loops,
    http::{HttpVersions, Received, respond},
    pipeline,
    tls::{Acceptor, Certificate, Tls},
};
use std::{error::Error, time::Duration};

fn hello(request: &Received) -> Response<String> {
    let name = request.uri().path().trim_start_matches('/');
    let name = if name.is_empty() { "world" } else { name };
    Response::new(format!("hello, {name}, by {:?}\n", request.version()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7024".to_owned());
    let acceptor = match std::env::args().any(|argument| argument == "--tls") {
        true => {
            let certificate = Certificate::self_signed(["localhost", "127.0.0.1"])?;
            Some(Acceptor::builder().certificate(certificate).alpn(HttpVersions::ALPN).build()?)
        }
        false => None,
    };
    let server = Server::builder()
        .group(event_loops(2)?)
        .pipeline(move |_| {
            // The stages of a connection of HTTP/1.1, and of each stream of HTTP/2.
            let web = HttpVersions::new(|| pipeline().app(respond(hello)));
            pipeline().add(acceptor.as_ref().map(Tls::server)).then(web.pipeline())
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
