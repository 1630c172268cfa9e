//! The pooled client where servers and proxies leave the straight way.
#![cfg(feature = "client")]

use bytes::Bytes;
use http::{Request, Response};
use netwright_core::{ByteSource, Fault};
use netwright_http::{
    Body,
    client::{WebClient, WebClientBuilder, WebClientError},
};
#[cfg(feature = "tls")]
use netwright_transport::ProxyWhy;
use netwright_transport::{Backend, event_loops};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    task::Poll,
    thread,
    time::Duration,
};

/// Longer than anything here takes: what is not over by then hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn builder() -> WebClientBuilder {
    WebClient::builder().group(event_loops(1).unwrap())
}

fn client() -> WebClient {
    builder().build().unwrap()
}

/// The head of the next request; empty if none comes.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Says what was asked for.
fn answer(stream: &mut TcpStream, head: &str, more: &str) {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{more}\r\n{path}", path.len());
}

fn text(reply: Response<Body>) -> String {
    let body = reply.into_body().collect(1 << 20);
    let body = event_loops(1).unwrap().next().spawn(body).ok().unwrap().wait().unwrap().unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

/// What comes of a request, or a failure if nothing does.
#[track_caller]
fn within(asking: netwright_http::client::Asking) -> Result<Response<Body>, WebClientError> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || drop(tell.send(asking.wait())));
    told.recv_timeout(PATIENCE).expect("the request is answered or fails")
}

/// Many threads that each ask for something else, and what went wrong.
fn many(client: &WebClient, address: SocketAddr, threads: usize, requests: usize) -> Vec<String> {
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let client = client.clone();
            thread::spawn(move || {
                let ask = |n: usize| {
                    let path = format!("/{thread}/{n}");
                    match within(client.get(format!("http://{address}{path}"))) {
                        Ok(reply) => {
                            assert_eq!(text(reply), path);
                            None
                        }
                        Err(error) => Some(error.to_string()),
                    }
                };
                (0..requests).filter_map(ask).collect::<Vec<_>>()
            })
        })
        .collect();
    workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
}

#[track_caller]
fn assert_all_answered(errors: &[String]) {
    assert!(errors.is_empty(), "{} requests failed, the first with: {}", errors.len(), errors[0]);
}

/// A server that closes each connection behind its first reply, which has this field.
fn answers_once(field: &'static str) -> SocketAddr {
    let (listener, address) = listen();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let asked = head(&mut stream);
                answer(&mut stream, &asked, field);
            });
        }
    });
    address
}

#[test]
fn no_request_is_lost_to_a_server_that_closes_after_each_reply() {
    let address = answers_once("connection: close\r\n");
    let client = builder().connections(4).build().unwrap();
    assert_all_answered(&many(&client, address, 16, 12));
}

#[test]
fn no_request_that_can_be_repeated_is_lost_to_a_server_that_closes_without_a_word() {
    let address = answers_once("");
    let client = builder().connections(4).build().unwrap();
    assert_all_answered(&many(&client, address, 16, 50));
}

/// As who would not have so much: with most of the request unread, the system breaks the connection off behind the reply.
#[test]
fn a_server_that_refuses_the_rest_of_a_request_and_goes_is_heard() {
    let (listener, address) = listen();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            head(&mut stream);
            let _ = stream
                .write_all(b"HTTP/1.1 413 Too much\r\nconnection: close\r\ncontent-length: 5\r\n\r\nsorry");
        }
    });
    let much = Bytes::from(vec![b'x'; 20 << 20]);
    for backend in [Backend::Readiness, Backend::Auto] {
        let group = backend.event_loops(1).unwrap();
        let client = WebClient::builder().group(group).connections(1).build().unwrap();
        for round in 0..20 {
            let reply = within(client.post(format!("http://{address}/"), much.clone()));
            let reply = reply.unwrap_or_else(|error| panic!("{backend:?}, {round}: {error}"));
            assert_eq!(reply.status(), 413);
            assert_eq!(text(reply), "sorry");
        }
    }
}

#[test]
fn a_connection_is_not_lent_while_the_body_of_its_request_is_still_being_sent() {
    let (listener, address) = listen();
    let (go_on, wait) = mpsc::channel::<()>();
    let server = thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        let asked = head(&mut first);
        answer(&mut first, &asked, ""); // and nothing of the body is read for now
        let (mut second, _) = listener.accept().unwrap();
        let asked = head(&mut second);
        answer(&mut second, &asked, "");
        wait.recv().unwrap();
        let mut body = vec![0; 20_000_000];
        first.read_exact(&mut body).unwrap();
        // Now it is free, and lent before the one that came back earlier.
        let asked = head(&mut first);
        answer(&mut first, &asked, "x-connection: first\r\n");
        drop(second);
    });
    let client = builder().connections(2).build().unwrap();
    let large = Bytes::from(vec![7; 20_000_000]);
    assert_eq!(text(within(client.post(format!("http://{address}/large"), large)).unwrap()), "/large");
    assert_eq!(text(within(client.get(format!("http://{address}/meanwhile"))).unwrap()), "/meanwhile");
    go_on.send(()).unwrap();
    let seen = loop {
        // Until the last byte is taken, the other one is lent; it answers nothing more, so wait for the first.
        if client.figures().idle == 2 {
            break within(client.get(format!("http://{address}/then"))).unwrap();
        }
        thread::yield_now();
    };
    assert_eq!(seen.headers()["x-connection"], "first");
    server.join().unwrap();
}

/// Serves two connections with one request each: the second request on the first one would not be answered.
fn one_each(first_reply: &'static str) -> (SocketAddr, thread::JoinHandle<()>) {
    let (listener, address) = listen();
    let server = thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        head(&mut first);
        first.write_all(first_reply.as_bytes()).unwrap();
        let (mut second, _) = listener.accept().unwrap();
        let asked = head(&mut second);
        answer(&mut second, &asked, "");
    });
    (address, server)
}

#[test]
fn a_connection_is_not_used_again_after_it_was_switched_to_another_protocol() {
    let (address, server) =
        one_each("HTTP/1.1 101 Switching Protocols\r\nupgrade: other\r\nconnection: upgrade\r\n\r\n");
    let client = client();
    let upgrade = Request::get(format!("http://{address}/"))
        .header("upgrade", "other")
        .header("connection", "upgrade")
        .body("")
        .unwrap();
    assert_eq!(within(client.request(upgrade)).unwrap().status(), 101);
    assert_eq!(text(within(client.get(format!("http://{address}/next"))).unwrap()), "/next");
    server.join().unwrap();
}

#[test]
fn a_connection_is_not_used_again_after_we_said_that_it_closes() {
    let (address, server) = one_each("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let client = client();
    let last = Request::get(format!("http://{address}/")).header("connection", "close").body("").unwrap();
    assert_eq!(text(within(client.request(last)).unwrap()), "ok");
    assert_eq!(text(within(client.get(format!("http://{address}/next"))).unwrap()), "/next");
    server.join().unwrap();
}

#[test]
fn a_connection_with_bytes_behind_its_reply_is_not_used_again() {
    let (address, server) = one_each(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwrong",
    );
    let client = client();
    assert_eq!(text(within(client.post(format!("http://{address}/"), "")).unwrap()), "ok");
    assert_eq!(text(within(client.post(format!("http://{address}/next"), "")).unwrap()), "/next");
    server.join().unwrap();
}

#[test]
fn a_request_that_is_cancelled_is_told_at_once_and_its_connection_closed_and_the_next_one_gets_another() {
    let (listener, address) = listen();
    let client = builder().connections(1).build().unwrap();
    let silent = client.get(format!("http://{address}/silent"));
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(head(&mut stream).starts_with("GET /silent "));
    let waits = client.get(format!("http://{address}/waits")); // for the one connection that there may be
    let next = client.get(format!("http://{address}/next"));
    assert!(waits.cancel());
    assert!(matches!(within(waits), Err(WebClientError::Cancelled)));
    assert!(silent.cancel() && !silent.cancel());
    assert!(matches!(within(silent), Err(WebClientError::Cancelled)));
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "closed");
    let (mut stream, _) = listener.accept().unwrap();
    let asked = head(&mut stream);
    answer(&mut stream, &asked, "");
    assert_eq!(text(within(next).unwrap()), "/next");
}

#[test]
fn a_get_that_a_waiting_connection_took_with_it_is_repeated_also_while_another_one_connects() {
    let (listener, address) = listen();
    let (third_waits, wait) = mpsc::channel::<()>();
    let server = thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        let asked = head(&mut first);
        let (second, _) = listener.accept().unwrap(); // for whoever asked next; the third waits in line
        wait.recv().unwrap();
        answer(&mut first, &asked, "");
        head(&mut first); // the third, which finds its connection closed
        drop(first);
        let (mut last, _) = listener.accept().unwrap();
        let asked = head(&mut last);
        answer(&mut last, &asked, "");
        drop(second);
    });
    let client = builder().connections(2).build().unwrap();
    let ask = |path: &str| client.get(format!("http://{address}{path}"));
    let first = ask("/first");
    let figures = |waiting: usize, in_use: usize| {
        let now = client.figures();
        (now.waiting, now.in_use) == (waiting, in_use)
    };
    while !figures(0, 1) {
        thread::yield_now();
    }
    // Both begin to wait before the second connection is there.
    let (second, third) = (ask("/second"), ask("/third"));
    while !figures(1, 2) {
        thread::yield_now();
    }
    third_waits.send(()).unwrap();
    assert_eq!(text(within(first).unwrap()), "/first");
    assert_eq!(text(within(third).unwrap()), "/third");
    server.join().unwrap();
    drop(second);
}

#[test]
fn a_query_without_a_path_is_asked_for_at_the_root() {
    let (listener, address) = listen();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for _ in 0..2 {
            let asked = head(&mut stream);
            answer(&mut stream, &asked, "");
        }
    });
    let asked = within(client().get(format!("http://{address}?x=1"))).unwrap();
    assert_eq!(text(asked), "/?x=1");
}

#[test]
fn a_port_that_is_none_is_refused_by_its_name_and_not_replaced() {
    let client = client();
    for port in ["65536", "99999", "4294967376", "x"] {
        let url = format!("http://127.0.0.1:{port}/");
        let error = within(client.get(&url)).unwrap_err();
        assert!(!matches!(error, WebClientError::Connect(_)), "{url}: {error}");
        if port != "x" {
            assert!(matches!(error, WebClientError::Port { .. }), "{url}: {error:?}");
            assert!(error.to_string().contains(port) && error.to_string().contains("65535"), "{error}");
        }
    }
}

#[test]
fn what_is_no_proxy_is_refused_without_telling_its_credentials() {
    for proxy in ["http://user:secret@127.0.0.1:99999", "user:secret@", "ftp://user:secret@proxy:1"] {
        let error = WebClient::builder().proxy(proxy).expect_err("it is refused").to_string();
        assert!(error.contains("credentials") && !error.contains("secret"), "{error}");
    }
    let error = WebClient::builder().proxy("proxy:99999").expect_err("it is refused").to_string();
    assert!(error.contains("99999") && error.contains("65535"), "{error}");
    let shown = format!("{:?}", WebClient::builder().proxy("http://user:secret@proxy").unwrap());
    assert!(shown.contains("proxy:80") && !shown.contains("secret"), "{shown}");
}

#[cfg(feature = "tls")]
#[test]
fn a_proxy_that_does_not_answer_connect_costs_its_time_and_no_connection() {
    let (listener, address) = listen();
    thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            held.push(stream); // and not a word
        }
    });
    let client = builder()
        .connections(1)
        .connect_timeout(Duration::from_millis(50))
        .head_timeout(Duration::from_millis(50))
        .proxy(&address.to_string())
        .unwrap()
        .build()
        .unwrap();
    for _ in 0..2 {
        let error = within(client.get("https://example.invalid/")).unwrap_err();
        let WebClientError::Proxy(error) = error else { panic!("{error}") };
        assert!(matches!(error.why, ProxyWhy::TimedOut(_)), "{error}");
    }
}

/// Gives a piece, and panics when it is asked for another one: at once, or when it is asked again.
struct Panics {
    asked: usize,
    waits: bool,
}

impl ByteSource for Panics {
    fn poll_piece(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        self.asked += 1;
        match (self.asked, self.waits) {
            (1, _) => Poll::Ready(Ok(Some(Bytes::from("a part")))),
            (2, true) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            // The first word of the empty piece is that there is none yet.
            (2, false) => Poll::Ready(Ok(Some(Bytes::new()))),
            _ => panic!("no such page"),
        }
    }
}

#[test]
fn a_body_that_panics_is_told_in_its_own_words_and_the_client_goes_on() {
    let (listener, address) = listen();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let head = head(&mut stream);
                match head.starts_with("GET") {
                    true => answer(&mut stream, &head, ""),
                    false => drop(stream.read_to_end(&mut Vec::new())),
                }
            });
        }
    });
    let (client, url) = (client(), format!("http://{address}/"));
    for waits in [false, true] {
        let error = within(client.post(&url, Body::from_source(Panics { asked: 0, waits }))).unwrap_err();
        assert!(matches!(&error, WebClientError::Panicked(words) if words == "no such page"), "{error:?}");
        assert_eq!(within(client.get(&url)).unwrap().status(), 200);
    }
}
