//! A peer that says that it sends no more is answered all the same, whoever makes the answers; and nobody waits for what cannot come.

use bytes::Bytes;
use http::{Request, Response};
use netwright::{
    Backend, CloseCause, Peer, Server,
    codec::{LineFrames, Utf8},
    http::{Body, HttpServer, Received, respond, serve, web::Files},
    pipeline,
    server::ServerBuilder,
    time::sleep,
    websocket::{
        Accept, Config, Message, Upgrade,
        frame::{FrameHead, Opcode, mask},
    },
};
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    num::NonZeroUsize,
    time::Duration,
};

/// What is not over by then hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// More than any system takes for a peer at once.
const LARGE: usize = 3 << 20;

/// Messages are kept for so long that whoever waits for that is seen to hang.
fn on_every_backend(check: impl Fn(fn(Backend) -> ServerBuilder, Backend)) {
    for backend in [Backend::Readiness, Backend::Auto] {
        let builder = |backend: Backend| {
            let forever = Duration::from_secs(3600);
            Server::builder().group(backend.event_loops(1).unwrap()).forsaken_after(forever)
        };
        check(builder, backend);
    }
}

/// Everything that comes of what is said at once, by somebody who has nothing more to say.
fn hear(server: &Server, said: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address().to_string()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(said).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    heard
}

fn count(heard: &[u8], what: &[u8]) -> usize {
    heard.windows(what.len()).filter(|window| *window == what).count()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn page(path: &str) -> Response<Bytes> {
    Response::new(match path {
        "/large" => vec![b'x'; LARGE].into(),
        _ => Bytes::from("behind it"),
    })
}

async fn slow_page(request: Request<Body>) -> Response<Bytes> {
    if request.uri().path() != "/large" {
        sleep(Duration::from_millis(5)).await;
    }
    page(request.uri().path())
}

#[test]
fn a_client_that_sends_no_more_gets_every_reply() {
    let said = get("/large") + &get("/small").repeat(5);
    on_every_backend(|builder, backend| {
        let files = Files::below(env!("CARGO_MANIFEST_DIR")).unwrap();
        let servers = [
            ("respond", {
                let page = |request: &Received| page(request.uri().path());
                builder(backend).pipeline(move |_| pipeline().add(HttpServer::new()).app(respond(page)))
            }),
            ("serve", builder(backend).pipeline(|_| pipeline().add(HttpServer::new()).app(serve(slow_page)))),
            (
                "serve, several at a time",
                builder(backend)
                    .pipeline(|_| pipeline().add(HttpServer::new()).app(serve(slow_page).concurrency(4))),
            ),
            (
                "files",
                builder(backend).pipeline(move |_| pipeline().add(HttpServer::new()).app(files.server())),
            ),
        ];
        for (name, server) in servers {
            let server = server.bind("127.0.0.1:0").wait().unwrap();
            let heard = hear(&server, said.as_bytes());
            assert_eq!(count(&heard, b"HTTP/1.1 "), 6, "{name} on {backend:?}");
        }
    });
}

#[test]
fn a_client_that_leaves_within_a_request_ends_it_at_once() {
    async fn length(request: Request<Body>) -> Response<Bytes> {
        let body = request.into_body().collect(1 << 20).await;
        Response::new(Bytes::from(format!("{:?}", body.map(|body| body.len()))))
    }
    on_every_backend(|builder, backend| {
        let server = builder(backend).pipeline(|_| pipeline().add(HttpServer::new()).app(serve(length)));
        let server = server.bind("127.0.0.1:0").wait().unwrap();
        let half = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n123";
        assert_eq!(count(&hear(&server, half.as_bytes()), b" 200 "), 0);
        // And who was answered before has its reply.
        let heard = hear(&server, (get("/") + half).as_bytes());
        assert_eq!(count(&heard, b" 200 "), 1, "{}", String::from_utf8_lossy(&heard));
    });
}

#[test]
fn a_client_of_a_service_that_sends_no_more_gets_every_answer() {
    async fn slowly(line: String) -> String {
        sleep(Duration::from_millis(5)).await;
        line
    }
    on_every_backend(|builder, backend| {
        for at_once in [1, 3] {
            let at_once = NonZeroUsize::new(at_once).unwrap();
            let server = builder(backend).pipeline(move |_| {
                pipeline().add(LineFrames::max(1024)).add(Utf8::strict()).service(at_once, slowly)
            });
            let server = server.bind("127.0.0.1:0").wait().unwrap();
            let said = "one\ntwo\nthree\nfour\nfive\n";
            assert_eq!(hear(&server, said.as_bytes()), said.as_bytes(), "{backend:?}");
        }
    });
}

fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let (mut bytes, key) = (Vec::new(), [1, 2, 3, 4]);
    let head = FrameHead { fin: true, compressed: false, opcode, len: payload.len() as u64, mask: Some(key) };
    head.write(&mut bytes);
    let at = bytes.len();
    bytes.extend_from_slice(payload);
    mask(&mut bytes[at..], key);
    bytes
}

#[test]
fn a_websocket_client_that_sends_no_more_gets_every_message_back() {
    async fn echo(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
        while let Some(message) = peer.read().await? {
            peer.write(message).await?;
        }
        Ok(())
    }
    let mut said = "GET /socket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        .as_bytes()
        .to_vec();
    for _ in 0..5 {
        said.extend(frame(Opcode::Text, b"hey"));
    }
    said.extend(frame(Opcode::Close, &1000_u16.to_be_bytes()));
    let before = get("/large").into_bytes();
    on_every_backend(|builder, backend| {
        let server = builder(backend).pipeline(|_| {
            pipeline().joint(|switch| {
                let accept = Accept::new(Config::default()).path("/socket");
                let upgrade = Upgrade::new(switch, accept, |socket, _, _| pipeline().add(socket).serve(echo));
                pipeline().add(HttpServer::new()).add(upgrade).app(serve(slow_page)).sealed()
            })
        });
        let server = server.bind("127.0.0.1:0").wait().unwrap();
        for said in [said.clone(), [before.clone(), said.clone()].concat()] {
            let heard = hear(&server, &said);
            assert_eq!(count(&heard, b"HTTP/1.1 101"), 1, "{backend:?}");
            assert_eq!(count(&heard, b"\x81\x03hey"), 5, "{backend:?}");
            assert!(heard.ends_with(b"\x88\x02\x03\xe8"), "{backend:?}");
        }
    });
}
