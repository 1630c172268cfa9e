//! One port for everything: HTTP, HTTPS, a line protocol, and the line protocol in TLS.
//!
//! ```text
//!                          ┌─ ClientHello ─▶ [ Tls ] ──▶ ( joint ) ─┬─ GET, POST, … ─▶ [ HttpServer ] ──▶ a greeting
//!   socket ──▶ ( joint ) ──┤                                        └─ anything else ─▶ [ LineFrames ] ──▶ lines, reversed
//!                          ├─ GET, POST, … ─▶ [ HttpServer ] ──▶ a greeting
//!                          └─ anything else ─▶ [ LineFrames ] ──▶ lines, reversed
//! ```
//!
//! ```text
//! cargo run --release --example one_port
//! curl http://127.0.0.1:7017/      curl -k https://127.0.0.1:7017/
//! nc 127.0.0.1 7017                openssl s_client -quiet -connect 127.0.0.1:7017
//! ```

use bytes::Bytes;
use http::Response;
use netwright::{
    AppContext, Application, Server,
    codec::LineFrames,
    detect::{Detect, http as looks_like_http, tls as looks_like_tls},
    event_loops,
    http::{HttpServer, respond},
    pipeline,
    tls::{Acceptor, Certificate, Tls},
};
use std::{convert::Infallible, error::Error, time::Duration};

/// What all that may come here has in common: nothing is written to it from outside.
type Protocols = Detect<Infallible>;

/// The protocols in clear.
fn in_clear(detect: Protocols) -> Protocols {
    detect
        .rule(looks_like_http, || {
            let hello =
                respond(|request| Response::new(format!("hello over HTTP, {}\n", request.uri().path())));
            pipeline().add(HttpServer::new()).app(hello).sealed()
        })
        .otherwise(|| pipeline().add(LineFrames::max(1024)).app(Reverse).sealed())
}

/// Answers every line with its letters in the opposite order.
struct Reverse;

impl Application for Reverse {
    type Read = Bytes;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: Bytes) {
        let reversed: String = String::from_utf8_lossy(&line).chars().rev().collect();
        cx.write_and_flush(reversed);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7017".to_owned());
    let acceptor = Acceptor::new(&Certificate::self_signed(["localhost", "127.0.0.1"])?)?;
    let server = Server::builder()
        .group(event_loops(2)?)
        .pipeline(move |_| {
            let acceptor = acceptor.clone();
            pipeline().joint(|switch| {
                let detect = Detect::new(switch).rule(looks_like_tls, move || {
                    let tls = pipeline().add(Tls::server(&acceptor));
                    tls.joint(|switch| pipeline().last(in_clear(Detect::new(switch))))
                });
                pipeline().last(in_clear(detect))
            })
        })
        .bind(address)
        .wait()?;
    println!("everything on {}; Enter ends it", server.address());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let cut = server.drain(Duration::from_secs(10)).wait()?.cut;
    println!("ended; {cut} connections did not finish in time");
    Ok(())
}
