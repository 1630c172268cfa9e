//! The pooled client over HTTP/2, against servers of our own.
#![cfg(feature = "tls")]

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use netwright_core::{ByteSource, CloseCause, EventLoopGroup, Fault, ManualClock, pipeline};
use netwright_http::{
    Body, HttpLimits, HttpVersions,
    client::{Asking, WebClient, WebClientBuilder, WebClientError},
    serve,
};
use netwright_tls::{Acceptor, Certificate, Connector, Roots, Tls};
use netwright_transport::{Backend, Server, event_loops};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

/// What the server sees.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    /// Requests that are being answered.
    open: AtomicUsize,
    /// Replies whose reader has gone.
    left: AtomicUsize,
    /// How often was asked for what is to be asked for once.
    once: Mutex<BTreeMap<String, usize>>,
    /// What lets `/wait` go on.
    waiting: Mutex<Vec<netwright_core::Promise<(), netwright_core::PromiseError>>>,
}

impl Seen {
    fn let_go(&self) {
        std::mem::take(&mut *self.waiting.lock().unwrap())
            .into_iter()
            .for_each(|waiting| waiting.succeed(()));
    }
}

/// A body without an end.
struct Endless(Arc<Seen>);

impl ByteSource for Endless {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        Poll::Ready(Ok(Some(Bytes::from(vec![7; 1000]))))
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::SeqCst);
    }
}

/// Notes when a request is over, however.
struct Open(Arc<Seen>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn answer(mut request: Request<Body>, seen: Arc<Seen>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let (promise, promised) = netwright_core::promise();
    if path == "/wait" {
        seen.waiting.lock().unwrap().push(promise);
    }
    seen.open.fetch_add(1, Ordering::SeqCst);
    let _open = Open(seen.clone());
    match path.as_str() {
        "/moved" => {
            let mut reply = Response::new(Body::from("moved"));
            *reply.status_mut() = StatusCode::FOUND;
            reply.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/there"));
            reply
        }
        "/echo" => Response::new(request.into_body()),
        "/collect" => {
            let body = std::mem::take(request.body_mut()).collect(1 << 24).await.unwrap();
            let version = request.version();
            Response::new(Body::from(format!("{version:?} {} {}", request.method(), body.len())))
        }
        "/wait" => {
            let _ = promised.await;
            Response::new(Body::from("at last"))
        }
        "/never" => std::future::pending().await,
        "/endless" => Response::new(Body::from_source(Endless(seen.clone()))),
        "/trailers" => {
            let (mut sender, body) = Body::channel();
            sender.try_send("body".into()).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", HeaderValue::from_static("4"));
            sender.end_with(trailers);
            Response::new(body)
        }
        other => {
            if other.starts_with("/once/") {
                *seen.once.lock().unwrap().entry(other.to_owned()).or_default() += 1;
            }
            Response::new(Body::from(format!("{:?} {other}", request.version())))
        }
    }
}

struct Serving {
    server: Server,
    connector: Connector,
    seen: Arc<Seen>,
}

/// A server that speaks what the handshake says, or without TLS.
fn server(tls: bool, alpn: &[&str], limits: HttpLimits) -> Serving {
    let certificate = Certificate::self_signed(["localhost"]).unwrap();
    let connector = Connector::builder().roots(Roots::of(&certificate).unwrap()).build().unwrap();
    let acceptor = Acceptor::builder().certificate(certificate).alpn(alpn).build().unwrap();
    let seen = Arc::new(Seen::default());
    let (counted, limits) = (seen.clone(), Arc::new(limits));
    let builder = Server::builder().group(event_loops(1).unwrap());
    let server = builder.pipeline(move |_| {
        counted.connections.fetch_add(1, Ordering::SeqCst);
        let seen = counted.clone();
        let stages = move || {
            let seen = seen.clone();
            pipeline().app(serve(move |request| answer(request, seen.clone())))
        };
        let versions = HttpVersions::new(stages).limits(limits.clone()).pipeline();
        pipeline().add(tls.then(|| Tls::server(&acceptor))).then(versions)
    });
    Serving { server: server.bind("127.0.0.1:0").wait().unwrap(), connector, seen }
}

fn over_tls() -> Serving {
    server(true, &HttpVersions::ALPN, HttpLimits::default())
}

impl Serving {
    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.server.address().ip().unwrap().port())
    }

    fn plain_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address().ip().unwrap())
    }

    fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    fn builder(&self) -> WebClientBuilder {
        WebClient::builder().group(event_loops(1).unwrap()).connector(self.connector.clone())
    }

    fn client(&self) -> WebClient {
        self.builder().build().unwrap()
    }

    /// Waits until so many requests are being answered.
    fn wait_for(&self, open: usize) {
        until(|| self.seen.open.load(Ordering::SeqCst) == open);
    }
}

/// So much time passes for a loop, which sleeps until it is told.
fn pass(clock: &ManualClock, group: &EventLoopGroup, time: Duration) {
    clock.advance(time);
    for _ in 0..3 {
        group.next().execute(|| {}).unwrap();
        group.next().schedule(Duration::ZERO, || {}).unwrap().wait().unwrap();
    }
}

/// Waits for something that another thread brings about.
fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
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
fn all_requests_to_an_origin_share_one_connection_that_speaks_http2() {
    let server = over_tls();
    let client = server.client();
    let asked: Vec<Asking> = (0..100).map(|n| client.get(server.url(&format!("/{n}")))).collect();
    for (n, asking) in asked.into_iter().enumerate() {
        assert_eq!(text(asking.wait().unwrap()), format!("HTTP/2.0 /{n}"));
    }
    assert_eq!(server.connections(), 1);
    until(|| client.figures().streams == 0);
    let figures = client.figures();
    assert_eq!((figures.hosts, figures.shared, figures.idle, figures.in_use), (1, 1, 1, 0));
    assert_eq!(figures.waiting, 0);
}

#[test]
fn the_handshake_says_which_version_it_is_and_the_builder_which_may_be() {
    for (alpn, http1) in [(&["http/1.1"][..], true), (&[], true), (&["h2"], false)] {
        let server = server(true, alpn, HttpLimits::default());
        let version = if http1 { "HTTP/1.1" } else { "HTTP/2.0" };
        for _ in 0..2 {
            assert_eq!(text(server.client().get(server.url("/")).wait().unwrap()), format!("{version} /"));
        }
        let only2 = server.builder().http2_only().build().unwrap().get(server.url("/")).wait();
        assert_eq!(only2.is_err(), http1, "{alpn:?} {only2:?}");
        if let Err(error) = only2 {
            assert!(matches!(error, WebClientError::Closed(CloseCause::Fault(_))), "{error}");
        }
        let only1 = server.builder().http1_only().build().unwrap().get(server.url("/")).wait();
        assert_eq!(only1.is_ok(), http1, "{alpn:?} {only1:?}");
    }
    let server = over_tls();
    let old = server.builder().http1_only().build().unwrap();
    assert_eq!(text(old.get(server.url("/")).wait().unwrap()), "HTTP/1.1 /");
}

#[test]
fn without_tls_http2_is_spoken_by_prior_knowledge() {
    let server = server(false, &[], HttpLimits::default());
    assert_eq!(text(server.client().get(server.plain_url("/")).wait().unwrap()), "HTTP/1.1 /");
    for client in [server.builder().http2_prior_knowledge(), server.builder().http2_only()] {
        let client = client.build().unwrap();
        let before = server.connections();
        let asked: Vec<Asking> = (0..50).map(|_| client.get(server.plain_url("/"))).collect();
        for asking in asked {
            assert_eq!(text(asking.wait().unwrap()), "HTTP/2.0 /");
        }
        assert_eq!(server.connections() - before, 1);
    }
}

#[test]
fn methods_redirects_heads_and_trailers_are_as_in_http1() {
    let server = over_tls();
    let client = server.client();
    assert_eq!(text(client.post(server.url("/collect"), "12345").wait().unwrap()), "HTTP/2.0 POST 5");
    assert_eq!(text(client.get(server.url("/moved")).wait().unwrap()), "HTTP/2.0 /there");
    let reply = client.head(server.url("/x")).wait().unwrap();
    assert_eq!(reply.headers()["content-length"], "11");
    assert_eq!(text(reply), "");
    let mut body = client.get(server.url("/trailers")).wait().unwrap().into_body();
    run(async move {
        assert_eq!(body.read().await.unwrap().unwrap(), "body");
        assert_eq!(body.read().await.unwrap(), None);
        assert_eq!(body.trailers().unwrap()["x-sum"], "4");
    });
    let expecting =
        Request::post(server.url("/collect")).header("expect", "100-continue").body("12").unwrap();
    assert_eq!(text(client.request(expecting).wait().unwrap()), "HTTP/2.0 POST 2");
    assert_eq!(server.connections(), 1);
}

#[test]
fn bodies_are_streamed_both_ways_whatever_their_length() {
    let server = over_tls();
    let client = server.client();
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
    let long: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    let reply = client.post(server.url("/echo"), long.clone()).wait().unwrap();
    assert_eq!(run(reply.into_body().collect(1 << 24)).unwrap(), long);
    assert_eq!(server.connections(), 1);
}

#[test]
fn another_connection_is_opened_when_the_streams_of_the_first_are_in_use() {
    let mut limits = HttpLimits::default();
    limits.http2.streams = 2;
    let server = server(true, &["h2"], limits);
    let client = server.builder().connections(2).build().unwrap();
    let mut asked: Vec<Asking> = (0..4).map(|_| client.get(server.url("/wait"))).collect();
    server.wait_for(4);
    assert_eq!(server.connections(), 2);
    let figures = client.figures();
    assert_eq!((figures.shared, figures.streams, figures.idle), (2, 4, 0));
    // Two connections are the most: the rest waits for a stream, and gets one in turn.
    asked.extend((0..3).map(|n| client.get(server.url(&format!("/{n}")))));
    until(|| client.figures().waiting == 3);
    server.seen.let_go();
    for (n, asking) in asked.into_iter().enumerate() {
        let expected = if n < 4 { "at last".to_owned() } else { format!("HTTP/2.0 /{}", n - 4) };
        assert_eq!(text(asking.wait().unwrap()), expected);
    }
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_body_that_nobody_reads_to_its_end_ends_its_stream_and_no_other() {
    let server = over_tls();
    let client = server.client();
    let waiting = client.get(server.url("/wait"));
    let mut endless = client.get(server.url("/endless")).wait().unwrap().into_body();
    let piece = run(async move {
        let piece = endless.read().await;
        drop(endless);
        piece
    });
    assert!(piece.unwrap().is_some());
    until(|| server.seen.left.load(Ordering::SeqCst) == 1);
    until(|| client.figures().streams == 1);
    server.seen.let_go();
    assert_eq!(text(waiting.wait().unwrap()), "at last");
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_reader_that_stands_still_holds_up_its_own_stream_alone() {
    let server = over_tls();
    let client = server.client();
    let endless = client.get(server.url("/endless")).wait().unwrap();
    for n in 0..100 {
        let reply = client.get(server.url(&format!("/{n}"))).wait().unwrap();
        assert_eq!(text(reply), format!("HTTP/2.0 /{n}"));
    }
    let long = vec![1; 3_000_000];
    let reply = client.post(server.url("/echo"), long.clone()).wait().unwrap();
    assert_eq!(run(reply.into_body().collect(1 << 24)).unwrap(), long);
    drop(endless);
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_reply_that_does_not_come_in_time_ends_its_stream_and_no_other() {
    let server = over_tls();
    for total in [false, true] {
        let clock = ManualClock::new();
        let group = Backend::Readiness.group().loops(1).clock(clock.clone()).build().unwrap();
        let builder = WebClient::builder().group(group.clone()).connector(server.connector.clone());
        let limit = Duration::from_secs(5);
        let builder = if total { builder.total_timeout(limit) } else { builder.head_timeout(limit) };
        let client = builder.build().unwrap();
        assert_eq!(client.get(server.url("/")).wait().unwrap().status(), 200);
        let never = client.get(server.url("/never"));
        server.wait_for(1);
        pass(&clock, &group, limit);
        let error = never.wait().unwrap_err();
        assert!(matches!(error, WebClientError::TimedOut { limit: said, .. } if said == limit), "{error}");
        server.wait_for(0);
        assert_eq!(client.get(server.url("/")).wait().unwrap().status(), 200);
    }
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_server_that_shuts_down_answers_what_it_has_and_nothing_is_lost() {
    let first = over_tls();
    let client = first.client();
    let waiting: Vec<Asking> = (0..10).map(|_| client.get(first.url("/wait"))).collect();
    first.wait_for(10);
    let seen = first.seen.clone();
    let over = first.server.drain(Duration::from_secs(30));
    until(|| client.figures().shared == 0);
    seen.let_go();
    for asking in waiting {
        assert_eq!(text(asking.wait().unwrap()), "at last");
    }
    assert_eq!({ over }.wait().unwrap().cut, 0);
}

#[test]
fn a_connection_that_nobody_uses_is_closed_after_a_while() {
    let server = over_tls();
    let clock = ManualClock::new();
    let group = Backend::Readiness.group().loops(1).clock(clock.clone()).build().unwrap();
    let client = WebClient::builder().group(group.clone()).connector(server.connector.clone());
    let client = client.idle_timeout(Duration::from_secs(20)).build().unwrap();
    assert_eq!(text(client.get(server.url("/")).wait().unwrap()), "HTTP/2.0 /");
    assert_eq!(client.figures().shared, 1);
    // It is noticed within ten seconds that nobody uses it, and from then on it counts.
    for _ in 0..19 {
        pass(&clock, &group, Duration::from_secs(1));
        assert_eq!(server.seen.open.load(Ordering::SeqCst), 0);
        assert_eq!(client.figures().shared, 1);
    }
    until(|| {
        pass(&clock, &group, Duration::from_millis(100));
        client.figures().shared == 0
    });
    assert_eq!(text(client.get(server.url("/")).wait().unwrap()), "HTTP/2.0 /");
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_client_that_is_dropped_closes_its_connections() {
    let server = over_tls();
    let client = server.client();
    let asking = client.get(server.url("/wait"));
    server.wait_for(1);
    drop(client);
    server.seen.let_go();
    assert_eq!(text(asking.wait().unwrap()), "at last", "what is under way is finished");
}

#[test]
fn nothing_is_lost_or_asked_twice_while_a_server_ends_its_connections_in_order_again_and_again() {
    let mut limits = HttpLimits::default();
    (limits.requests, limits.http2.streams) = (7, 3);
    let server = server(true, &["h2"], limits);
    let client = server.builder().group(event_loops(2).unwrap()).connections(4).build().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let (client, url) = (client.clone(), server.url(""));
            std::thread::spawn(move || {
                for round in 0..20 {
                    let path = |n: usize| format!("/once/{thread}/{round}/{n}");
                    let asked: Vec<Asking> =
                        (0..5).map(|n| client.post(format!("{url}{}", path(n)), "body")).collect();
                    for (n, asking) in asked.into_iter().enumerate() {
                        assert_eq!(text(asking.wait().unwrap()), format!("HTTP/2.0 {}", path(n)));
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let once = server.seen.once.lock().unwrap();
    assert_eq!(once.len(), 400);
    assert!(once.values().all(|times| *times == 1), "{once:?}");
    assert!(server.connections() > 10, "{}", server.connections());
    assert_eq!(client.figures().waiting, 0);
}
