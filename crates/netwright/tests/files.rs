//! Files that no loop waits for, as bodies of replies through TLS: byte for byte, or broken off.

use http::Response;
use netwright::{
    Backend, Server,
    files::File,
    http::{Body, HttpError, HttpServer, client::WebClient, serve},
    pipeline,
    tls::{Acceptor, Certificate, Connector, Roots, Tls},
};
use std::path::{Path, PathBuf};

/// Where no other test writes.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("netwright-{name}-{}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Serves a file through TLS, fetches it, and gives its announced length and its content. When the file is open, `then` is called.
fn fetch(backend: Backend, path: &Path, then: fn(&Path)) -> Option<(u64, Result<Vec<u8>, HttpError>)> {
    let Ok(group) = backend.event_loops(1) else {
        eprintln!("skipped on {backend}: it does not work here");
        return None;
    };
    let certificate = Certificate::self_signed(["localhost"]).unwrap();
    let acceptor = Acceptor::new(&certificate).unwrap();
    let path = path.to_owned();
    let server = Server::builder()
        .group(group)
        .pipeline(move |_| {
            let path = path.clone();
            let app = serve(move |_| {
                let path = path.clone();
                async move {
                    let file = File::open(&path).await.unwrap();
                    then(&path);
                    Response::new(Body::from_source(file.pieces(..)))
                }
            });
            pipeline().add(Tls::server(&acceptor)).add(HttpServer::new()).app(app)
        })
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let connector = Connector::builder().roots(Roots::of(&certificate).unwrap()).build().unwrap();
    let client = WebClient::builder().connector(connector).build().unwrap();
    let port = server.local_addr().unwrap().port();
    let reply = client.get(format!("https://localhost:{port}/")).wait().unwrap();
    let announced = reply.headers()["content-length"].to_str().unwrap().parse().unwrap();
    let collecting = reply.into_body().collect(64 << 20);
    let got = netwright::event_loops(1).unwrap().next().spawn(collecting).unwrap().wait().unwrap();
    Some((announced, got.map(Vec::from)))
}

const BACKENDS: [Backend; 3] = [Backend::Readiness, Backend::Uring, Backend::Blocking];

#[test]
fn a_file_in_pieces_is_the_body_of_a_reply_through_tls() {
    let content: Vec<u8> = (0..3_000_001).map(|at| (at % 251) as u8).collect();
    let file = Temporary::new("body", &content);
    for backend in BACKENDS {
        if let Some((announced, got)) = fetch(backend, &file.0, |_| ()) {
            assert_eq!(announced, 3_000_001, "{backend}");
            assert!(got.unwrap() == content, "{backend}");
        }
    }
}

#[test]
fn a_file_that_shrinks_breaks_the_body_off_and_never_looks_like_its_end() {
    for backend in BACKENDS {
        let file = Temporary::new("shrinks", &[7; 300_000]);
        let shrink =
            |path: &Path| std::fs::File::options().write(true).open(path).unwrap().set_len(100_000).unwrap();
        if let Some((announced, got)) = fetch(backend, &file.0, shrink) {
            assert_eq!(announced, 300_000, "{backend}");
            assert!(got.is_err(), "{backend}: {} bytes", got.unwrap().len());
        }
    }
}
