//! A body that does not become what its head says it is ends its connection: nothing behind it is taken for it. Every source of
//! bodies in every way that it can go wrong, on every backend.

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use netwright_core::{AppContext, Application, EventLoop, EventLoopGroup, FileRegion, pipeline};
use netwright_http::{Body, HttpPart, HttpServer, ReplyHead, ReplyPart, RequestPart, serve};
use netwright_transport::{Backend, BoundPipeline, Server};
use std::{
    fs::File,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the head says.
const ANNOUNCED: u64 = 100;

/// An open file with so many bytes, which is gone when it is closed.
fn file_of(len: usize, readable: bool) -> File {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("netwright-broken-{}-{number}", std::process::id()));
    std::fs::write(&path, vec![b'f'; len]).unwrap();
    let file = File::options().read(readable).write(!readable).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

fn head(announced: Option<u64>) -> ReplyHead {
    let mut head = ReplyHead::new();
    if let Some(announced) = announced {
        head.headers.insert("content-length", HeaderValue::from(announced));
    }
    head
}

/// Writes the parts of a broken reply to the first request, and a good one to the others.
struct Parts {
    make: BrokenParts,
    replies: usize,
}

impl Application for Parts {
    type Read = RequestPart;
    type Write = ReplyPart;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, _: RequestPart) {
        self.replies += 1;
        match self.replies {
            1 => (self.make)().into_iter().for_each(|part| cx.write(part)),
            _ => cx.write(Response::new(Bytes::from("behind it")).into()),
        }
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

/// A file of `len` bytes as a whole body.
fn with_file(announced: Option<u64>, len: usize, readable: bool) -> Vec<ReplyPart> {
    let region = FileRegion::new(file_of(len, readable), 0, ANNOUNCED);
    vec![HttpPart::Head(head(announced)), HttpPart::File(region), HttpPart::End(None)]
}

fn in_two_files(first: usize, second: usize) -> Vec<ReplyPart> {
    let region = |len| HttpPart::File(FileRegion::new(file_of(len, true), 0, ANNOUNCED / 2));
    vec![HttpPart::Head(head(Some(ANNOUNCED))), region(first), region(second), HttpPart::End(None)]
}

/// A reply whose body somebody makes piece by piece.
fn made(announced: Option<u64>, make: impl FnOnce(netwright_http::BodySender) + 'static) -> Response<Body> {
    let (sender, body) = Body::channel();
    let later = async move {
        netwright_core::time::sleep(Duration::from_millis(1)).await;
        make(sender);
    };
    drop(EventLoop::current().unwrap().spawn_local(later));
    let mut reply = Response::new(body);
    if let Some(announced) = announced {
        reply.headers_mut().insert("content-length", HeaderValue::from(announced));
    }
    reply
}

type Broken = fn() -> Response<Body>;

type BrokenParts = fn() -> Vec<ReplyPart>;

const BROKEN_PARTS: [(&str, BrokenParts); 10] = [
    ("a file that has become empty", || with_file(Some(ANNOUNCED), 0, true)),
    ("a file that has become shorter", || with_file(Some(ANNOUNCED), 40, true)),
    ("a file that cannot be read", || with_file(Some(ANNOUNCED), 100, false)),
    ("a file that has become empty, in a chunk", || with_file(None, 0, true)),
    ("a file that has become shorter, in a chunk", || with_file(None, 40, true)),
    ("the first of two files", || in_two_files(0, 50)),
    ("the second of two files", || in_two_files(50, 0)),
    ("less than was announced", || {
        vec![HttpPart::Head(head(Some(ANNOUNCED))), HttpPart::Data("short".into()), HttpPart::End(None)]
    }),
    ("more than was announced", || {
        vec![
            HttpPart::Head(head(Some(3))),
            HttpPart::Data("abc".into()),
            HttpPart::Data("d".into()),
            HttpPart::End(None),
        ]
    }),
    ("a head within a body", || {
        vec![HttpPart::Head(head(Some(ANNOUNCED))), HttpPart::Head(head(None)), HttpPart::End(None)]
    }),
];

/// A part of a file that no loop waits for, which becomes shorter when it has been opened.
fn shrinking(announced: Option<u64>, becomes: u64) -> Response<Body> {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("netwright-shrinking-{}-{number}", std::process::id()));
    std::fs::write(&path, [b'f'; ANNOUNCED as usize]).unwrap();
    // Its steps are those of a service that awaits them; here a thread that may block does.
    let file = std::thread::scope(|scope| {
        scope.spawn(|| netwright_transport::files::File::open(&path).wait().unwrap()).join().unwrap()
    });
    File::options().write(true).open(&path).unwrap().set_len(becomes).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut reply = Response::new(Body::from_source(file.pieces(..)));
    if let Some(announced) = announced {
        reply.headers_mut().insert("content-length", HeaderValue::from(announced));
    }
    reply
}

const BROKEN_BODIES: [(&str, Broken); 10] = [
    ("a file in pieces that has become shorter", || shrinking(None, 40)),
    ("a file in pieces that has become empty", || shrinking(Some(ANNOUNCED), 0)),
    ("a file as a body", || Response::new(Body::file(FileRegion::new(file_of(0, true), 0, ANNOUNCED)))),
    ("a sender that is dropped", || made(None, drop)),
    ("a sender that is dropped with a length announced", || {
        made(Some(ANNOUNCED), |mut sender| drop(sender.try_send("some".into())))
    }),
    ("a sender that gives up", || made(None, |sender| sender.abort("no reason"))),
    ("a sender that ends early", || {
        made(Some(ANNOUNCED), |mut sender| {
            let _ = sender.try_send("some".into());
            sender.end();
        })
    }),
    ("a sender that sends too much", || {
        made(Some(3), |mut sender| {
            let _ = sender.try_send("some".into());
            sender.end();
        })
    }),
    ("a sender that never sends what was announced", || made(Some(ANNOUNCED), |sender| sender.end())),
    ("a sender with a forbidden trailer", || {
        made(None, |mut sender| {
            let _ = sender.try_send("some".into());
            let mut trailers = http::HeaderMap::new();
            trailers.insert("content-length", HeaderValue::from(5));
            sender.end_with(trailers);
        })
    }),
];

#[cfg(feature = "tower")]
mod tower_bodies {
    use super::*;
    use http_body::{Frame, SizeHint};
    use std::{
        collections::VecDeque,
        convert::Infallible,
        pin::Pin,
        task::{Context, Poll},
    };

    /// Says that it is so long, and is what it is.
    struct Says(u64, VecDeque<Result<Frame<Bytes>, &'static str>>);

    impl http_body::Body for Says {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            Poll::Ready(self.1.pop_front())
        }
        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0)
        }
    }

    #[derive(Clone)]
    pub(crate) struct Service(pub(crate) Broken);

    impl tower_service::Service<Request<Body>> for Service {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, request: Request<Body>) -> Self::Future {
            std::future::ready(Ok(match request.uri().path() {
                "/1" => (self.0)(),
                _ => Response::new("behind it".into()),
            }))
        }
    }

    fn data(text: &'static str) -> Result<Frame<Bytes>, &'static str> {
        Ok(Frame::data(text.into()))
    }

    fn says(
        len: u64,
        frames: impl IntoIterator<Item = Result<Frame<Bytes>, &'static str>>,
    ) -> Response<Body> {
        Response::new(Body::wrap(Says(len, frames.into_iter().collect())))
    }

    pub(crate) const BROKEN: [(&str, Broken); 4] = [
        ("a foreign body that is empty", || says(ANNOUNCED, [])),
        ("a foreign body that is too short", || says(ANNOUNCED, [data("some")])),
        ("a foreign body that is too long", || says(3, [data("so"), data("me")])),
        ("a foreign body that fails", || says(ANNOUNCED, [data("some"), Err("broken")])),
    ];
}

/// Asks twice at once. All that comes, until the connection ends.
fn asked_twice(bound: BoundPipeline) -> String {
    let server = bound.bind("127.0.0.1:0").wait().unwrap();
    let mut stream = TcpStream::connect(server.address().ip().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) => all.extend_from_slice(format!("[{error}]").as_bytes()),
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// The reply is seen not to be whole, by its own framing and the end of the connection, and nothing is behind it.
#[track_caller]
fn is_cut(backend: Backend, source: &str, text: &str) {
    let what = format!("{backend:?}, {source}: {text:?}");
    assert!(!text.contains("behind it") && !text.contains('['), "{what}");
    assert!(text.matches("HTTP/1.1").count() <= 1, "{what}");
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return };
    let announced = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    match announced {
        Some(announced) if announced.parse() == Ok(body.len()) => {
            // More was written than was announced: the rest is left out, and nobody is misled.
            assert!(
                source.contains("too much") || source.contains("too long") || source.contains("more than"),
                "{what}"
            );
        }
        Some(_) => {}
        None => assert!(!body.ends_with("0\r\n\r\n"), "{what}"),
    }
}

fn on_every_backend(source: &str, serve: impl Fn(EventLoopGroup) -> BoundPipeline) {
    for backend in [Backend::Readiness, Backend::Uring, Backend::Blocking] {
        match backend.event_loops(1) {
            Ok(group) => is_cut(backend, source, &asked_twice(serve(group))),
            Err(error) => println!("skipped: {backend:?} does not work here: {error}"),
        }
    }
}

#[test]
fn nothing_comes_behind_a_body_that_is_not_what_was_announced() {
    for (source, make) in BROKEN_PARTS {
        on_every_backend(source, |group| {
            Server::builder()
                .group(group)
                .pipeline(move |_| pipeline().add(HttpServer::new()).app(Parts { make, replies: 0 }))
        });
    }
    for (source, make) in BROKEN_BODIES {
        let answer = move |request: Request<Body>| async move {
            match request.uri().path() {
                "/1" => make(),
                _ => Response::new("behind it".into()),
            }
        };
        on_every_backend(source, |group| {
            Server::builder()
                .group(group)
                .pipeline(move |_| pipeline().add(HttpServer::new()).app(serve(answer).concurrency(2)))
        });
    }
    #[cfg(feature = "tower")]
    for (source, make) in tower_bodies::BROKEN {
        on_every_backend(source, |group| {
            let service = tower_bodies::Service(make);
            Server::builder().group(group).pipeline(move |_| {
                pipeline().add(HttpServer::new()).app(netwright_http::tower(service.clone()).concurrency(2))
            })
        });
    }
}
