//! hyper on tokio, as its own guide sets it up, on one thread; and the services that both sides run.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use std::{convert::Infallible, io, net::TcpListener};
use tokio::runtime;

/// What every client asks.
pub const REQUEST: &[u8] = b"GET /plaintext HTTP/1.1\r\nhost: localhost\r\naccept: text/plain\r\n\r\n";
/// What it gets, byte by byte.
pub const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 13\r\n\r\nHello, World!";

/// What clients ask who want JSON.
pub const REQUEST_JSON: &[u8] = b"GET /json HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\n\r\n";
/// What they get.
pub const ANSWER_JSON: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 27\r\n\r\n\
    {\"message\":\"Hello, World!\"}";

/// What is serialised for each request for JSON.
#[derive(Debug, Serialize)]
pub struct Greeting {
    message: &'static str,
}

impl Greeting {
    /// A new one, in bytes.
    pub fn to_json() -> Bytes {
        let greeting = Self { message: "Hello, World!" };
        serde_json::to_vec(&greeting).expect("a string is JSON").into()
    }
}

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

/// The same with JSON, made anew for each request.
pub async fn json(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Greeting::to_json()));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Serves on the calling thread until accepting fails.
pub fn serve<S, F>(listener: TcpListener, http1: &http1::Builder, service: S) -> io::Result<()>
where
    S: Fn(Request<Incoming>) -> F + Copy + Send + 'static,
    F: Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send + 'static,
{
    listener.set_nonblocking(true)?;
    let runtime =
        runtime::Builder::new_current_thread().enable_io().event_interval(EVENT_INTERVAL).build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(http1.serve_connection(TokioIo::new(stream), service_fn(service)));
        }
    })
}
