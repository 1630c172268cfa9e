//! tokio, on one current-thread runtime for each thread (`--driver current`) or on its multi-thread runtime (`--driver multi`).
//! HTTP is hyper, TLS tokio-rustls, WebSocket tokio-tungstenite.
//!
//! hyper sends each answer to pipelined requests by itself unless `pipeline_flush` is set. A current-thread runtime looks for
//! events after every 61st task unless told otherwise, which costs a poll in the middle of each turn.

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue, SERVER},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kit::{Mode, Task};
use std::{convert::Infallible, io, net::TcpListener, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    runtime::Builder,
};
use tokio_rustls::TlsAcceptor;

/// More tasks than any scenario has active connections.
const EVENT_INTERVAL: u32 = 1024;

fn main() -> io::Result<()> {
    let task = Task::from_args();
    let acceptor = TlsAcceptor::from(Arc::new(kit::tls::config()));
    match &*task.driver {
        "current" => {
            task.on_threads(|listener| {
                let runtime =
                    Builder::new_current_thread().enable_io().event_interval(EVENT_INTERVAL).build()?;
                runtime.block_on(serve(listener, task.mode, acceptor.clone()))
            });
            Ok(())
        }
        "multi" => {
            let runtime = Builder::new_multi_thread().worker_threads(task.threads).enable_io().build()?;
            let listener = kit::one_listener();
            // On a worker: the thread that blocks on a runtime is not one of them.
            runtime.block_on(async { tokio::spawn(serve(listener, task.mode, acceptor)).await? })
        }
        _ => task.refuse(),
    }
}

async fn serve(listener: TcpListener, mode: Mode, acceptor: TlsAcceptor) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        stream.set_nodelay(true)?;
        match mode {
            Mode::Echo => drop(tokio::spawn(echo(stream))),
            Mode::Http => drop(tokio::spawn(pages(stream))),
            Mode::Http2 => drop(tokio::spawn(streams(stream))),
            Mode::Https => {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        pages(stream).await;
                    }
                });
            }
            Mode::WebSocket => drop(tokio::spawn(messages(stream))),
        }
    }
}

/// Ends with the connection, as all of these: there is nobody who would want to know why.
async fn echo(mut stream: TcpStream) {
    let mut buffer = Vec::with_capacity(kit::BUFFER);
    while let Ok(1..) = stream.read_buf(&mut buffer).await {
        if stream.write_all(&buffer).await.is_err() {
            break;
        }
        buffer.clear();
    }
}

async fn pages(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut http1 = http1::Builder::new();
    let _ = http1.pipeline_flush(true).serve_connection(TokioIo::new(stream), service_fn(page)).await;
}

async fn streams(stream: TcpStream) {
    let http2 = http2::Builder::new(TokioExecutor::new());
    let _ = http2.serve_connection(TokioIo::new(stream), service_fn(whole_page)).await;
}

/// Reads what is sent first, as an application would that needs it.
async fn whole_page(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    if !hyper::body::Body::is_end_stream(&body) {
        body.collect().await?;
    }
    Ok(answer(head.uri.path()))
}

async fn page(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(answer(request.uri().path()))
}

fn answer(path: &str) -> Response<Full<Bytes>> {
    let (kind, body) = match path {
        "/" => ("text/plain", Bytes::from_static(kit::http::HELLO.as_bytes())),
        "/64k" => ("text/plain", Bytes::from_static(&kit::http::LONG)),
        "/json" => ("application/json", kit::http::json().into()),
        _ => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        }
    };
    let mut response = Response::new(Full::new(body));
    response.headers_mut().insert(SERVER, HeaderValue::from_static(kit::http::SERVER));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

async fn messages(stream: TcpStream) {
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    while let Some(Ok(message)) = socket.next().await {
        if socket.send(message).await.is_err() {
            break;
        }
    }
}
