//! gRPC services made by tonic, and pages made by axum, on one port of ours: `cargo run --release --example grpc_server`, then
//! `curl 127.0.0.1:7025/` or any gRPC client with `grpc/text.proto`.
//!
//! ```text
//!   socket ─▶ HttpVersions ─▶ tower(axum's router) ─▶ /netwright.text.Text/… ─▶ TextServer (tonic, generated) ─▶ Words
//!                                                  └▶ /                      ─▶ a page
//! ```
//! Nothing in the service knows where it runs. tonic is used without its transport (`default-features = false`, features `codegen` and
//! `router`), and the loops are ours: no runtime of tokio's is started. `grpc/text.rs` was generated without `protoc`, by what a build script does with
//!
//! ```text
//! let files = protox::compile(["text.proto"], ["."])?;
//! tonic_prost_build::configure().build_transport(false).build_client(false).compile_fds(files)?;
//! ```

use netwright::{
    Server, event_loops,
    http::{HttpLimits, HttpVersions, tower},
    pipeline,
};
use std::{error::Error, pin::Pin, sync::Arc, time::Duration};
use tonic::{
    Code, Request, Response, Status, Streaming,
    codegen::tokio_stream::{self, Stream, StreamExt},
    service::Routes,
};

#[allow(unreachable_pub, missing_docs)] // as it was generated
#[path = "grpc/text.rs"]
mod text;

use text::{
    Line,
    text_server::{Text, TextServer},
};

/// The service.
struct Words;

type Lines = Pin<Box<dyn Stream<Item = Result<Line, Status>> + Send>>;

#[tonic::async_trait]
impl Text for Words {
    type SplitStream = Lines;
    type EchoStream = Lines;

    async fn upper(&self, request: Request<Line>) -> Result<Response<Line>, Status> {
        let asked = request.get_ref();
        if asked.text.is_empty() {
            return Err(Status::new(Code::InvalidArgument, "an empty line has no capitals"));
        }
        let mut reply = Response::new(Line { text: asked.text.to_uppercase() });
        if let Some(tag) = request.metadata().get("x-tag") {
            reply.metadata_mut().insert("x-tag", tag.clone()); // sent in the head
        }
        Ok(reply)
    }

    async fn split(&self, request: Request<Line>) -> Result<Response<Lines>, Status> {
        let text = request.into_inner().text;
        let words: Vec<_> = text.split(' ').map(|word| answer(word.to_owned())).collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(words))))
    }

    async fn join(&self, request: Request<Streaming<Line>>) -> Result<Response<Line>, Status> {
        let (mut lines, mut all) = (request.into_inner(), String::new());
        while let Some(line) = lines.message().await? {
            all += &line.text;
        }
        Ok(Response::new(Line { text: all }))
    }

    /// Each line is answered before the next one has come, and the client may wait for that.
    async fn echo(&self, request: Request<Streaming<Line>>) -> Result<Response<Lines>, Status> {
        let lines = request.into_inner().map(|line| answer(line?.text));
        Ok(Response::new(Box::pin(lines)))
    }
}

fn answer(text: String) -> Result<Line, Status> {
    if text == "stop" {
        return Err(Status::aborted("as you wish"));
    }
    Ok(Line { text })
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7025".to_owned());
    let loops = std::thread::available_parallelism().map_or(1, usize::from);

    // axum's router answers what is no call of a service.
    let page = axum::routing::get(|| async { "ask in gRPC\n" });
    let router = Routes::new(TextServer::new(Words)).into_axum_router().route("/", page);

    let mut limits = HttpLimits::default();
    limits.body_rate = 0; // a stream of calls may be silent for as long as it likes
    limits.body = u64::MAX; // and as long: tonic limits each message, to 4 MiB
    limits.http2.ping_time = Duration::from_secs(60); // who does not answer is gone
    let limits = Arc::new(limits);

    let server = Server::builder()
        .group(event_loops(loops)?)
        .pipeline(move |_| {
            let router = router.clone();
            HttpVersions::new(move || pipeline().app(tower(router.clone()))).limits(limits.clone()).pipeline()
        })
        .bind(address)
        .wait()?;
    println!("grpc on {}; Enter ends it", server.address());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let cut = server.drain(Duration::from_secs(10)).wait()?.cut;
    println!("ended; {cut} connections did not finish in time");
    Ok(())
}
