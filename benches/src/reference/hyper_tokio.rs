//! hyper on tokio, as its own guide sets it up, on one thread; and the service that both sides run.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, io, net::TcpListener};
use tokio::runtime;

/// What every client asks.
pub const REQUEST: &[u8] = b"GET /plaintext HTTP/1.1\r\nhost: localhost\r\naccept: text/plain\r\n\r\n";
/// What it gets, byte by byte.
pub const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 13\r\n\r\nHello, World!";

/// More tasks than there are connections, as for the echo server on tokio.
const EVENT_INTERVAL: u32 = 1024;

/// The same for both sides. No date, so that every byte of an answer is known.
pub fn settings() -> http1::Builder {
    let mut http1 = http1::Builder::new();
    http1.auto_date_header(false);
    http1
}

/// The same for both sides.
pub async fn plaintext(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"Hello, World!")));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// Serves on the calling thread until accepting fails.
pub fn serve(listener: TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime =
        runtime::Builder::new_current_thread().enable_io().event_interval(EVENT_INTERVAL).build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(settings().serve_connection(TokioIo::new(stream), service_fn(plaintext)));
        }
    })
}
