//! Clients that send what they want, say that they send no more, and read: everything that was asked is answered, then the
//! connection ends. With every last stage, on every backend.

use bytes::Bytes;
use http::{Request, Response};
use netwright_core::{EventLoop, EventLoopGroup, pipeline, time};
use netwright_http::{Body, HttpServer, Received, respond, serve, web::Files};
use netwright_transport::{Backend, Server};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    path::PathBuf,
    time::Duration,
};

/// Far more than anything here takes: a test that waits so long has found a connection that stays.
const PATIENCE: Duration = Duration::from_secs(20);

/// Many of these are more than a channel takes before it stops to read.
const LARGE: usize = 20_000;

#[derive(Debug, Clone, Copy)]
enum Last {
    Respond,
    Serve,
    ServeMany,
    Stream,
    Files,
}

const LAST: [Last; 5] = [Last::Respond, Last::Serve, Last::ServeMany, Last::Stream, Last::Files];

fn directory() -> PathBuf {
    let path = std::env::temp_dir().join(format!("netwright-half-closed-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("0"), [b'x'; LARGE]).unwrap();
    path
}

async fn whole(_: Request<Body>) -> Response<Bytes> {
    time::sleep(Duration::from_millis(1)).await;
    Response::new(vec![b'x'; LARGE].into())
}

async fn stream(_: Request<Body>) -> Response<Body> {
    let (mut sender, body) = Body::channel();
    let making = async move {
        for _ in 0..10 {
            if sender.send(vec![b'x'; LARGE / 10]).await.is_err() {
                return;
            }
        }
        sender.end();
    };
    drop(EventLoop::current().unwrap().spawn_local(making));
    Response::new(body)
}

fn server(last: Last, group: EventLoopGroup) -> Server {
    let builder = Server::builder().group(group).half_closure(true);
    let http = || pipeline().add(HttpServer::new());
    let bound = match last {
        Last::Respond => builder.pipeline(move |_| {
            http().app(respond(|_: &Received| Response::new(Bytes::from(vec![b'x'; LARGE]))))
        }),
        Last::Serve => builder.pipeline(move |_| http().app(serve(whole))),
        Last::ServeMany => builder.pipeline(move |_| http().app(serve(whole).concurrency(64))),
        Last::Stream => builder.pipeline(move |_| http().app(serve(stream))),
        Last::Files => {
            let files = Files::below(directory()).unwrap();
            builder.pipeline(move |_| http().app(files.server()))
        }
    };
    bound.bind("127.0.0.1:0").wait().unwrap()
}

/// Sends so many requests and says that these are all, then reads to the end. `late` clients let the server fill up first. How
/// many replies came.
fn ask(address: SocketAddr, requests: usize, late: bool) -> Result<usize, String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all("GET /0 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(requests).as_bytes()).unwrap();
    let mut all = vec![0];
    if late {
        stream.read_exact(&mut all).unwrap(); // it answers
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let end = stream.read_to_end(&mut all);
    let replies = memchr::memmem::find_iter(&all, b"TTP/1.1 200 OK").count();
    match end {
        Ok(_) => Ok(replies),
        Err(error) => Err(format!("{replies} replies, {} bytes, then {error}", all.len())),
    }
}

#[test]
fn everything_that_was_asked_is_answered_and_then_the_connection_ends() {
    for backend in [Backend::Readiness, Backend::Uring, Backend::Blocking] {
        for last in LAST {
            let group = match backend.event_loops(1) {
                Ok(group) => group,
                Err(error) => {
                    println!("skipped: {backend:?} does not work here: {error}");
                    break;
                }
            };
            let server = server(last, group);
            let address = server.address().ip().unwrap();
            for requests in [1, 33, 200] {
                for late in [false, true] {
                    let got = ask(address, requests, late);
                    assert_eq!(got, Ok(requests), "{backend:?}, {last:?}, late: {late}");
                }
            }
        }
    }
    std::fs::remove_dir_all(directory()).unwrap();
}
