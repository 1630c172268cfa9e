//! The pooled client against servers of our own, and of others.
#![cfg(feature = "client")]

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use netwright_core::{ManualClock, pipeline};
use netwright_http::{
    Body, HttpServer,
    client::{WebClient, WebClientError},
    serve,
};
use netwright_transport::{Backend, Server, event_loops};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// What every test here talks to.
async fn answer(mut request: Request<Body>) -> Response<Body> {
    let host = request.headers().get("host").and_then(|host| host.to_str().ok()).unwrap_or("").to_owned();
    let path = request.uri().path().to_owned();
    let redirect = |status: u16, to: String| {
        let mut reply = Response::new(Body::from("moved"));
        *reply.status_mut() = StatusCode::from_u16(status).unwrap();
        reply.headers_mut().insert(header::LOCATION, to.parse().unwrap());
        reply
    };
    match path.as_str() {
        "/moved" => redirect(302, "/seen".into()),
        "/moved/away" => redirect(302, format!("http://localhost:{}/seen", host.rsplit(':').next().unwrap())),
        "/same" => redirect(307, "seen".into()),
        "/round" => redirect(301, "/round".into()),
        "/seen" => {
            let credentials = request.headers().contains_key("authorization");
            let body = std::mem::take(request.body_mut()).collect(1 << 20).await.unwrap();
            let text =
                format!("{} {} {} {credentials}", request.method(), request.uri(), body.escape_ascii());
            Response::new(Body::from(text))
        }
        "/echo" => Response::new(request.into_body()),
        "/never" => std::future::pending().await,
        "/half" => {
            let (mut sender, body) = Body::channel();
            sender.try_send("half".into()).unwrap();
            drop(sender);
            Response::new(body)
        }
        "/last" => {
            let mut reply = Response::new(Body::from("bye"));
            reply.headers_mut().insert(header::CONNECTION, "close".parse().unwrap());
            reply
        }
        other => Response::new(Body::from(format!("hello, {other}"))),
    }
}

struct Serving {
    _server: Server,
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

fn server() -> Serving {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let server = Server::builder()
        .group(event_loops(1).unwrap())
        .pipeline(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            pipeline().add(HttpServer::new()).app(serve(answer))
        })
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let address = server.address().ip().unwrap();
    Serving { _server: server, address, connections }
}

impl Serving {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn client() -> WebClient {
    WebClient::builder().group(event_loops(1).unwrap()).build().unwrap()
}

/// Runs a future to its end on a loop.
fn run<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    event_loops(1).unwrap().next().spawn(future).ok().unwrap().wait().unwrap()
}

fn text(reply: Response<Body>) -> String {
    let body = run(reply.into_body().collect(1 << 20)).unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

#[test]
fn one_connection_serves_one_request_after_the_other() {
    let (server, client) = (server(), client());
    for n in 0..5 {
        let reply = client.get(server.url(&format!("/{n}"))).wait().unwrap();
        assert_eq!(reply.status(), 200);
        assert_eq!(text(reply), format!("hello, /{n}"));
    }
    assert_eq!(client.head(server.url("/x")).wait().unwrap().headers()["content-length"], "9");
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
}

#[test]
fn a_connection_that_the_server_closed_is_replaced() {
    let (server, client) = (server(), client());
    for _ in 0..3 {
        assert_eq!(text(client.get(server.url("/last")).wait().unwrap()), "bye");
        assert_eq!(text(client.get(server.url("/x")).wait().unwrap()), "hello, /x");
    }
}

#[test]
fn a_request_is_sent_again_if_an_idle_connection_ends_under_it() {
    // Answers one request on each connection, then closes it when the second has come.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut buffer = [0; 1024];
            let _ = stream.read(&mut buffer);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
            let _ = stream.read(&mut buffer);
        }
    });
    let client = client();
    for _ in 0..2 {
        assert_eq!(text(client.get(format!("http://{address}/")).wait().unwrap()), "ok");
    }
}

#[test]
fn redirects_are_followed_with_the_right_method_and_without_credentials_to_others() {
    let (server, client) = (server(), client());
    let ask = |path: &str| {
        let request = Request::post(server.url(path)).header("authorization", "secret").body("body").unwrap();
        text(client.request(request).wait().unwrap())
    };
    assert_eq!(ask("/moved"), "GET /seen  true");
    assert_eq!(ask("/moved/away"), "GET /seen  false");
    assert_eq!(ask("/same"), "POST /seen body true");
    let error = client.get(server.url("/round")).wait().unwrap_err();
    assert!(matches!(error, WebClientError::TooManyRedirects { max: 10, .. }), "{error}");
    let patient = WebClient::builder().redirects(0).build().unwrap();
    assert_eq!(patient.get(server.url("/round")).wait().unwrap().status(), 301);
}

#[test]
fn bodies_are_streamed_both_ways() {
    let (server, client) = (server(), client());
    let (mut sender, body) = Body::channel();
    let asking = client.request(Request::post(server.url("/echo")).body(body).unwrap());
    run(async move {
        let mut reply = asking.await.unwrap().into_body();
        for piece in ["one", "two", "three"] {
            sender.send(piece).await.unwrap();
            let mut back = Vec::new();
            while back.len() < piece.len() {
                back.extend_from_slice(&reply.read().await.unwrap().unwrap());
            }
            assert_eq!(back, piece.as_bytes());
        }
        sender.end();
        assert_eq!(reply.read().await, Ok(None));
    });

    let large = Bytes::from(vec![7; 3_000_000]);
    let reply = client.post(server.url("/echo"), large.clone()).wait().unwrap();
    assert_eq!(run(reply.into_body().collect(4_000_000)).unwrap(), large);
}

#[test]
fn a_connection_that_nobody_uses_is_closed_and_an_exchange_is_no_idle_time() {
    const IDLE: Duration = Duration::from_secs(90);
    let server = server();
    let clock = ManualClock::new();
    let group = Backend::Readiness.group().loops(1).clock(clock.clone()).build().unwrap();
    let client = WebClient::builder().group(group.clone()).head_timeout(Duration::ZERO).build().unwrap();
    let pass = |time: Duration| {
        clock.advance(time);
        for _ in 0..3 {
            group.next().execute(|| {}).unwrap();
            group.next().schedule(Duration::ZERO, || {}).unwrap().wait().unwrap();
        }
    };
    let asking = client.get(server.url("/never"));
    while client.figures().in_use < 1 {
        thread::yield_now();
    }
    for _ in 0..5 {
        assert_eq!(text(client.get(server.url("/x")).wait().unwrap()), "hello, /x");
        while client.figures().idle < 1 {
            thread::yield_now();
        }
        pass(IDLE - Duration::from_millis(1));
        assert_eq!((client.figures().idle, client.figures().in_use), (1, 1));
    }
    pass(Duration::from_millis(1));
    assert_eq!((client.figures().idle, client.figures().in_use), (0, 1));
    drop(asking);
}

#[test]
fn the_time_for_all_of_a_request_counts_its_wait_for_a_connection_and_its_redirects() {
    const TOTAL: Duration = Duration::from_secs(20);
    let server = server();
    let clock = ManualClock::new();
    let group = Backend::Readiness.group().loops(1).clock(clock.clone()).build().unwrap();
    let builder = WebClient::builder().group(group.clone()).connections(1);
    let client = builder.total_timeout(TOTAL).head_timeout(Duration::ZERO).build().unwrap();
    let waits: Vec<_> = (0..3).map(|_| client.get(server.url("/never"))).collect();
    while client.figures().waiting + client.figures().in_use < 3 {
        thread::yield_now();
    }
    clock.advance(TOTAL);
    let (done, over) = std::sync::mpsc::channel();
    thread::spawn(move || waits.into_iter().for_each(|asking| done.send(asking.wait()).unwrap()));
    // One of them may be on its way to its connection only now.
    for _ in 0..3 {
        let result = loop {
            clock.advance(Duration::from_millis(1));
            group.next().execute(|| {}).unwrap();
            match over.recv_timeout(Duration::from_millis(1)) {
                Ok(result) => break result,
                Err(error) => assert_eq!(error, std::sync::mpsc::RecvTimeoutError::Timeout),
            }
        };
        let error = result.unwrap_err();
        assert!(matches!(error, WebClientError::TimedOut { limit: TOTAL, .. }), "{error}");
    }
}

#[test]
fn a_host_is_one_whatever_it_is_called() {
    let reached = Arc::new(AtomicUsize::new(0));
    let counted = reached.clone();
    let inside = move |_: &netwright_transport::Accepted| {
        counted.fetch_add(1, Ordering::Relaxed);
        pipeline().add(HttpServer::new()).app(serve(answer))
    };
    let _local = Server::builder().pipeline(inside).bind("local:80").wait().unwrap();
    let client = WebClient::builder().connect_timeout(Duration::from_secs(1)).build().unwrap();
    let error = client.get("http://local/").wait().unwrap_err();
    assert!(matches!(error, WebClientError::Connect(_) | WebClientError::Pool(_)), "{error:?}");
    let error = client.get("http://unix:81/").wait().unwrap_err();
    assert!(!error.to_string().contains("unix:81:"), "{error}");
    assert_eq!(reached.load(Ordering::Relaxed), 0);
}

#[test]
fn what_takes_too_long_or_breaks_off_is_an_error_that_says_so() {
    let server = server();
    let client = WebClient::builder().head_timeout(Duration::from_millis(50)).build().unwrap();
    let error = client.get(server.url("/never")).wait().unwrap_err();
    assert!(matches!(error, WebClientError::TimedOut { what: "the reply", .. }), "{error}");
    let reply = client.get(server.url("/half")).wait().unwrap();
    let error = run(reply.into_body().collect(100)).unwrap_err();
    assert!(error.to_string().contains("within a body"), "{error}");
    for (url, why) in [
        ("nonsense", "it has no scheme"),
        ("ftp://a/", "only http and https"),
        ("http://", "not a URL"),
        ("http://127.0.0.1:1/", "127.0.0.1:1"),
    ] {
        let error = client.get(url).wait().unwrap_err().to_string();
        assert!(error.contains(why), "{url}: {error}");
    }
    assert_eq!(text(client.get(server.url("/x")).wait().unwrap()), "hello, /x");
}

#[test]
fn a_proxy_is_asked_with_whole_urls() {
    let server = server();
    let proxied = WebClient::builder().proxy(&server.address.to_string()).unwrap().build().unwrap();
    assert_eq!(text(proxied.get("http://somewhere.invalid/else").wait().unwrap()), "hello, /else");
    assert!(WebClient::builder().proxy("no where").is_err());
}

#[test]
fn a_body_that_is_dropped_ends_its_connection_and_no_other() {
    let (server, client) = (server(), client());
    let (sender, body) = Body::channel();
    let reply = client.request(Request::post(server.url("/echo")).body(body).unwrap()).wait().unwrap();
    drop(reply);
    drop(sender);
    assert_eq!(text(client.get(server.url("/x")).wait().unwrap()), "hello, /x");
}

#[test]
fn python_serves_files_to_us() {
    let directory = std::env::temp_dir().join(format!("netwright-http-python-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("file.txt"), "from python").unwrap();
    let python = Command::new("python3")
        .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1"])
        .current_dir(&directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut python) = python else { return eprintln!("SKIPPED python3: it is not installed") };
    // "Serving HTTP on 127.0.0.1 port 40123 (…", once it listens.
    let mut line = String::new();
    BufReader::new(python.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.split_ascii_whitespace().skip_while(|word| *word != "port").nth(1).unwrap_or_default();
    let client = client();
    let status = |path| client.get(format!("http://127.0.0.1:{port}/{path}")).wait();
    let (got, missing) = (status("file.txt").map(text), status("none").map(|reply| reply.status().as_u16()));
    let _ = python.kill();
    let _ = python.wait();
    let _ = std::fs::remove_dir_all(&directory);
    assert_eq!((got.unwrap().as_str(), missing.unwrap()), ("from python", 404), "{line}");
}

#[cfg(feature = "tls")]
mod tls {
    use super::*;

    use netwright_tls::{Acceptor, Certificate, Connector, Roots, Tls};
    use netwright_transport::ProxyWhy;
    use std::net::{Shutdown, TcpStream};

    fn secured() -> (Server, u16, Connector) {
        let certificate = Certificate::self_signed(["localhost"]).unwrap();
        let connector = Connector::builder().roots(Roots::of(&certificate).unwrap()).build().unwrap();
        let acceptor = Acceptor::builder().certificate(certificate).build().unwrap();
        let server = Server::builder()
            .group(event_loops(1).unwrap())
            .pipeline(move |_| {
                pipeline().add(Tls::server(&acceptor)).add(HttpServer::new()).app(serve(answer))
            })
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let port = server.address().ip().unwrap().port();
        (server, port, connector)
    }

    #[test]
    fn https_is_http_in_tls() {
        let (_server, port, connector) = secured();
        let client = WebClient::builder().connector(connector).build().unwrap();
        for _ in 0..2 {
            let reply = client.get(format!("https://localhost:{port}/tls")).wait().unwrap();
            assert_eq!(text(reply), "hello, /tls");
        }
        let stranger = WebClient::builder()
            .connector(
                Connector::builder()
                    .roots(Roots::of(&Certificate::self_signed(["x"]).unwrap()).unwrap())
                    .build()
                    .unwrap(),
            )
            .build()
            .unwrap();
        assert!(stranger.get(format!("https://localhost:{port}/tls")).wait().is_err());
    }

    /// A proxy that connects to whatever it is asked for, once, or refuses.
    fn proxy(refuse: bool) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            let target = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned();
            if refuse {
                return client.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").unwrap();
            }
            let mut server = TcpStream::connect(target).unwrap();
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
            let _ = std::io::copy(&mut server, &mut client);
        });
        address
    }

    #[test]
    fn https_goes_through_a_tunnel_of_the_proxy() {
        let (_server, port, connector) = secured();
        let through = |refuse| {
            let proxy = proxy(refuse).to_string();
            WebClient::builder().connector(connector.clone()).proxy(&proxy).unwrap().build().unwrap()
        };
        let client = through(false);
        for _ in 0..2 {
            let reply = client.get(format!("https://localhost:{port}/tunnel")).wait().unwrap();
            assert_eq!(text(reply), "hello, /tunnel");
        }
        let error = through(true).get(format!("https://localhost:{port}/tunnel")).wait().unwrap_err();
        let WebClientError::Proxy(error) = error else { panic!("{error}") };
        assert!(matches!(error.why, ProxyWhy::Status(403)), "{error}");
    }
}
