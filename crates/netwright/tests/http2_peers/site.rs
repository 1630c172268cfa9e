//! The server that all peers ask: one site over HTTP/1.1 and HTTP/2, with TLS and without, on one loop.
//!
//! | path | its answer |
//! | --- | --- |
//! | `/` | which version it was asked by |
//! | `/bytes/N` | so many [`numbered`] bytes, as they are taken |
//! | `/file` | the same, as a file |
//! | `/echo` | the body, while it still comes; its trailers behind it |
//! | `/sum` | how many bytes the body had, and their sum |
//! | `/early` | 403, before the body is read |
//! | `/slow/MS` | after so many milliseconds |
//! | `/once` | how often that was asked for; `/once?later` a moment later |
//! | `/page/N`, `/image/N.svg` | a page with so many images, and the images |

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use netwright::{
    Server,
    channel::FileRegion,
    event_loops,
    http::{Body, HttpLimits, HttpVersions, serve},
    pipeline, time,
    tls::{Acceptor, Certificate, Tls},
};
use std::{
    fmt::Write,
    fs::File,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    time::Duration,
};

/// How many bytes `/file` has.
pub(crate) const FILE: usize = 3_000_001;

/// Bytes that show when one is lost, doubled or moved.
pub(crate) fn numbered(len: usize) -> Vec<u8> {
    (0_u32..).flat_map(u32::to_be_bytes).take(len).collect()
}

/// What peers have done here.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// How often `/once` was asked for.
    pub(crate) asked: u32,
    /// Who is to be told when that is so many.
    pub(crate) tell: Option<(u32, mpsc::Sender<()>)>,
}

/// A running site.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) seen: Arc<Mutex<Seen>>,
    scheme: &'static str,
}

impl Site {
    /// In the clear.
    pub(crate) fn plain() -> Self {
        Self::start(false, Self::limits())
    }

    /// Behind TLS.
    pub(crate) fn secure() -> Self {
        Self::start(true, Self::limits())
    }

    pub(crate) fn limits() -> HttpLimits {
        let mut limits = HttpLimits::default();
        limits.body = 1 << 30;
        limits
    }

    pub(crate) fn start(secure: bool, limits: HttpLimits) -> Self {
        let acceptor = secure.then(|| {
            let certificate = Certificate::self_signed(["localhost", "127.0.0.1"]).unwrap();
            Acceptor::builder().certificate(certificate).alpn(HttpVersions::ALPN).build().unwrap()
        });
        let (seen, limits, file) = (Arc::<Mutex<Seen>>::default(), Arc::new(limits), file());
        let noted = seen.clone();
        let server = Server::builder()
            .group(event_loops(1).unwrap())
            .pipeline(move |_| {
                let (seen, file) = (noted.clone(), file.clone());
                let build = move || {
                    let (seen, file) = (seen.clone(), file.clone());
                    pipeline().app(serve(move |request| answer(request, seen.clone(), file.clone())))
                };
                let web = HttpVersions::new(build).limits(limits.clone());
                pipeline().add(acceptor.as_ref().map(Tls::server)).then(web.pipeline())
            })
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        Self { server, seen, scheme: if secure { "https" } else { "http" } }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.local_addr().unwrap()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address())
    }
}

/// A file that has no name any more.
fn file() -> Arc<File> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("netwright-site-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, numbered(FILE)).unwrap();
    let file = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    Arc::new(file)
}

async fn answer(request: Request<Body>, seen: Arc<Mutex<Seen>>, file: Arc<File>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let (what, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match what {
        "" => Response::new(format!("hello by {:?}\n", request.version()).into()),
        "bytes" => rest.parse().map_or_else(|_| status(StatusCode::NOT_FOUND), bytes),
        "file" => Response::new(Body::file(FileRegion::new(file, 0, FILE as u64))),
        "echo" => echo(request),
        "sum" => sum(request.into_body()).await,
        "early" => status(StatusCode::FORBIDDEN),
        "slow" => {
            time::sleep(Duration::from_millis(rest.parse().unwrap_or(0).min(60_000))).await;
            Response::new("at last\n".into())
        }
        "once" => {
            let asked = {
                let mut seen = seen.lock().unwrap();
                seen.asked += 1;
                let asked = seen.asked;
                if let Some((_, tell)) = seen.tell.take_if(|(many, _)| *many == asked) {
                    let _ = tell.send(());
                }
                asked
            };
            if request.uri().query() == Some("later") {
                time::sleep(Duration::from_millis(20)).await;
            }
            Response::new(asked.to_string().into())
        }
        "page" => page(rest.parse().unwrap_or(0)),
        "image" => typed("image/svg+xml", image(rest)),
        _ => status(StatusCode::NOT_FOUND),
    }
}

fn status(status: StatusCode) -> Response<Body> {
    let mut reply = Response::new(format!("{status}\n").into());
    *reply.status_mut() = status;
    reply
}

fn typed(kind: &'static str, body: String) -> Response<Body> {
    let mut reply = Response::new(body.into());
    reply.headers_mut().insert("content-type", HeaderValue::from_static(kind));
    reply
}

/// Written by a task of its own, in pieces of many lengths, each made when there is room for it.
fn bytes(len: usize) -> Response<Body> {
    let (mut sender, body) = Body::channel();
    let writing = async move {
        let (mut from, mut most) = (0, 1);
        while from < len {
            let to = (from + most).min(len);
            let piece: Vec<u8> = (from..to).map(|at| (at as u32 / 4).to_be_bytes()[at % 4]).collect();
            if sender.send(piece).await.is_err() {
                return;
            }
            (from, most) = (to, most % 30_000 * 3 + 1);
        }
        sender.end();
    };
    drop(netwright::EventLoop::current().unwrap().spawn_local(writing));
    Response::new(body)
}

/// What comes goes back at once, so both directions are open at the same time.
fn echo(request: Request<Body>) -> Response<Body> {
    let trailers = request.headers().get("trailer").cloned();
    let (mut sender, body) = Body::channel();
    let echoing = async move {
        let mut incoming = request.into_body();
        while let Ok(Some(piece)) = incoming.read().await {
            if sender.send(piece).await.is_err() {
                return;
            }
        }
        match incoming.trailers() {
            Some(trailers) => sender.end_with(trailers.clone()),
            None => {
                let mut own = HeaderMap::new();
                own.insert("x-end", HeaderValue::from_static("here"));
                sender.end_with(own);
            }
        }
    };
    drop(netwright::EventLoop::current().unwrap().spawn_local(echoing));
    let mut reply = Response::new(body);
    reply.headers_mut().insert("trailer", trailers.unwrap_or(HeaderValue::from_static("x-end")));
    reply
}

async fn sum(mut body: Body) -> Response<Body> {
    let (mut len, mut sum) = (0, 0);
    loop {
        match body.read().await {
            Ok(Some(piece)) => {
                len += piece.len();
                sum += piece.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            }
            Ok(None) => return Response::new(format!("{len} {sum}").into()),
            Err(_) => return status(StatusCode::BAD_REQUEST),
        }
    }
}

/// What `/sum` says of these bytes.
pub(crate) fn sum_of(bytes: &[u8]) -> String {
    format!("{} {}", bytes.len(), bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>())
}

fn page(images: usize) -> Response<Body> {
    let mut html = String::from("<!doctype html><title>images</title>\n");
    for number in 0..images {
        let _ = writeln!(html, "<img src=\"/image/{number}.svg\" alt=\"{number}\">");
    }
    typed("text/html; charset=utf-8", html)
}

/// An image that is wider the higher its number is.
fn image(name: &str) -> String {
    let number: u32 = name.trim_end_matches(".svg").parse().unwrap_or(0);
    let width = number + 1;
    let comment = "x".repeat(number as usize * 100);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"2\"><!--{comment}--><rect width=\"{width}\" height=\"2\"/></svg>"
    )
}
