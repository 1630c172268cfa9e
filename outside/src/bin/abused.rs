//! Servers that are slow or trusting, for clients that abuse them: `scripts/soak` runs them.
//!
//! ```text
//!   abused BACKEND      says where each of its servers listens, a line each; then answers every line of its input with
//!                       how many connections are open
//! ```
//! They are written as a user writes them who has read no further than the first page: nothing here looks out for peers
//! that leave, that do not read, or that send without end. The framework has to.

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use netwright::{
    Backend, CloseCause, EventLoopGroup, Peer, Server,
    codec::{LineFrames, Utf8},
    event_loop::ThreadPerChannel,
    http::{Body, HttpServer, serve},
    pipeline,
    server::ServerBuilder,
    time::sleep,
};
use std::{error::Error, io, num::NonZeroUsize, time::Duration};

/// How long a slow answer takes: clients that do not wait have left by then.
const SLOW: Duration = Duration::from_millis(30);

/// Where connections live.
enum Hosts {
    Group(EventLoopGroup),
    Threads(ThreadPerChannel),
}

impl Hosts {
    fn new(backend: &str) -> Result<Self, Box<dyn Error>> {
        let group = |backend: Backend| backend.event_loops(2).map(Self::Group);
        Ok(match backend {
            "readiness" => group(Backend::Readiness)?,
            "uring" => group(Backend::Uring)?,
            // Threads that have nothing to do leave soon: what they hold is no leak.
            "blocking" => {
                let threads = ThreadPerChannel::builder().keep_idle(Duration::from_secs(1));
                Self::Threads(threads.build()?)
            }
            other => return Err(format!("{other} is none of readiness, uring and blocking").into()),
        })
    }

    fn server(&self) -> ServerBuilder {
        match self {
            Self::Group(group) => Server::builder().group(group.clone()),
            Self::Threads(threads) => Server::builder().thread_per_channel(threads.clone()),
        }
    }
}

/// Lines come back one by one, as soon as there is room for each.
async fn echo(mut peer: Peer<Bytes, Bytes>) -> Result<(), CloseCause> {
    while let Some(line) = peer.read().await? {
        peer.write(line).await?;
    }
    Ok(())
}

/// An answer that takes its time.
async fn slowly(line: String) -> String {
    sleep(SLOW).await;
    line
}

async fn slow_page(_: Request<Body>) -> Response<&'static str> {
    sleep(SLOW).await;
    Response::new("here you are\n")
}

fn main() -> Result<(), Box<dyn Error>> {
    let hosts = Hosts::new(&std::env::args().nth(1).unwrap_or_else(|| "readiness".to_owned()))?;
    let one = NonZeroUsize::MIN;
    let servers = [
        (
            "service",
            hosts.server().pipeline(move |_| {
                pipeline().add(LineFrames::max(1024)).add(Utf8::strict()).service(one, slowly)
            }),
        ),
        ("tail", hosts.server().pipeline(|_| pipeline().add(LineFrames::max(1 << 16)).serve(echo))),
        ("http", hosts.server().pipeline(|_| pipeline().add(HttpServer::new()).app(serve(slow_page)))),
        (
            "handler",
            hosts
                .server()
                .pipeline(|_| pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze()))),
        ),
    ];
    let mut running = Vec::new();
    for (name, server) in servers {
        let server = server.bind("127.0.0.1:0").wait()?;
        println!("{name} {}", server.address());
        running.push(server);
    }
    println!("ready");
    for _ in io::stdin().lines() {
        println!("open {}", running.iter().map(|server| server.figures().open).sum::<usize>());
    }
    Ok(())
}
