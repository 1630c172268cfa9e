//! An axum application on our loops: `cargo run --release --example axum_server`, then `curl 127.0.0.1:7013/hello/world`.
//!
//! Nothing in the application knows where it runs. hyper speaks HTTP on the peer of an async tail, and keeps the loop's time.

use axum::{Router, extract::Path, http::StatusCode, routing::get};
use hyper::server::conn::http1;
use hyper_util::service::TowerToHyperService;
use netwright::{
    Server,
    bridge::{LoopTimer, PeerIo},
    event_loops, pipeline,
    promise::{Selected, select},
    time,
};
use std::{error::Error, pin::pin, time::Duration};

/// Waits on the loop's own time, as any future of ours can be awaited in a handler of axum's.
async fn nap(Path(ms): Path<u64>) -> Result<String, StatusCode> {
    if ms > 10_000 {
        return Err(StatusCode::BAD_REQUEST);
    }
    time::sleep(Duration::from_millis(ms)).await;
    Ok(format!("{ms} ms later\n"))
}

fn application() -> Router {
    Router::new()
        .route("/", get(|| async { "hello from an event loop\n" }))
        .route("/hello/{name}", get(|Path(name): Path<String>| async move { format!("hello, {name}\n") }))
        .route("/nap/{ms}", get(nap))
        .route(
            "/upload",
            axum::routing::post(|body: String| async move { format!("{} bytes\n", body.len()) }),
        )
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7013".to_owned());
    let loops = std::thread::available_parallelism().map_or(1, usize::from);
    let application = application();
    let server = Server::builder()
        .group(event_loops(loops)?)
        .pipeline(move |_| {
            let service = TowerToHyperService::new(application.clone());
            pipeline().serve(|peer| async move {
                let ending = peer.shutting_down();
                let mut http1 = http1::Builder::new();
                http1.timer(LoopTimer::here()).half_close(true);
                let mut connection = pin!(http1.serve_connection(PeerIo::new(peer), service));
                match select(connection.as_mut(), ending).await {
                    Selected::First(result) => result,
                    Selected::Second(()) => {
                        connection.as_mut().graceful_shutdown(); // the request under way is answered
                        connection.await
                    }
                }
            })
        })
        .bind(address)
        .wait()?;
    println!("axum on {}; Enter ends it", server.address());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let cut = server.drain(Duration::from_secs(10)).wait()?.cut;
    println!("ended; {cut} connections did not finish in time");
    Ok(())
}
