//! curl, wrk and raw sockets against our server, over real connections.

use http::{Request, Response};
use netwright_core::pipeline;
use netwright_http::{Body, HttpLimits, HttpServer, serve};
use netwright_transport::{Server, event_loops};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    process::{Command, Stdio},
    sync::Arc,
};

/// Sends bodies back; `/len` tells how long they are.
async fn answer(request: Request<Body>) -> Response<Body> {
    match request.uri().path() {
        "/echo" => Response::new(request.into_body()),
        "/len" => {
            let expects = request.headers().contains_key("expect");
            let chunked = request.headers().contains_key("transfer-encoding");
            let len = request.into_body().collect(1 << 24).await.map_or(0, |body| body.len());
            Response::new(Body::from(format!("{len} chunked={chunked} expects={expects}")))
        }
        "/stream" => {
            let (mut sender, body) = Body::channel();
            let _ = sender.try_send("abc".into());
            let _ = sender.try_send("def".into());
            sender.end();
            Response::new(body)
        }
        other => Response::new(Body::from(format!("hello, {other}"))),
    }
}

fn server() -> (Server, SocketAddr) {
    server_with(HttpLimits::default())
}

fn server_with(limits: HttpLimits) -> (Server, SocketAddr) {
    let limits = Arc::new(limits);
    let server = Server::builder()
        .group(event_loops(1).unwrap())
        .half_closure(true)
        .pipeline(move |_| pipeline().add(HttpServer::with(limits.clone())).app(serve(answer)))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let address = server.address().ip().unwrap();
    (server, address)
}

/// What curl prints. `None`: it is not installed.
fn curl(address: SocketAddr, paths: &[&str], args: &[&str], input: &[u8]) -> Option<String> {
    let urls = paths.iter().map(|path| format!("http://{address}{path}"));
    let mut child = Command::new("curl")
        .args(["-s", "-S", "--noproxy", "*", "--max-time", "20"])
        .args(args)
        .args(urls)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(output.status.success(), "curl {args:?} failed: {}", output.status);
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn curl_gets_posts_and_uploads() {
    let (_server, address) = server();
    let ask = |path: &str, args: &[&str], input: &[u8]| curl(address, &[path], args, input);
    let Some(hello) = ask("/x", &[], b"") else { return println!("skipped: curl is not installed") };
    assert_eq!(hello, "hello, /x");
    assert_eq!(ask("/stream", &[], b"").unwrap(), "abcdef");
    assert_eq!(ask("/stream", &["--http1.0"], b"").unwrap(), "abcdef");
    assert_eq!(ask("/echo", &["-d", "posted"], b"").unwrap(), "posted");
    let head = ask("/x", &["-I"], b"").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("content-length: 9\r\n"), "{head}");

    let large = vec![b'x'; 3 << 20];
    let upload = ask("/len", &["-T", "-", "-H", "Transfer-Encoding: chunked"], &large).unwrap();
    assert!(upload.starts_with("3145728 chunked=true"), "{upload}");
    let posted = ask("/len", &["--data-binary", "@-", "-H", "Expect: 100-continue"], &large).unwrap();
    assert_eq!(posted, "3145728 chunked=false expects=true");
    let echoed = ask("/echo", &["--data-binary", "@-"], &large).unwrap();
    assert!(echoed.as_bytes() == large);
}

#[test]
fn curl_uses_a_connection_again_and_is_refused_in_a_way_that_it_can_read() {
    let (_server, address) = server();
    let count = ["-o", "/dev/null", "-o", "/dev/null", "-w", "%{num_connects} "];
    let Some(connects) = curl(address, &["/a", "/b"], &count, b"") else {
        return println!("skipped: curl is not installed");
    };
    assert_eq!(connects, "1 0 ");
    let closes = ["-o", "/dev/null", "-o", "/dev/null", "-w", "%{num_connects} ", "-H", "Connection: close"];
    assert_eq!(curl(address, &["/a", "/b"], &closes, b"").unwrap(), "1 1 ");
    // More than the limit, sent without waiting: the reply is not lost in a reset.
    let mut limits = HttpLimits::default();
    limits.body = 1 << 20;
    let (_server, address) = server_with(limits);
    let large = vec![b'x'; 3 << 19];
    let status = ["--data-binary", "@-", "-H", "Expect:", "-o", "/dev/null", "-w", "%{http_code}"];
    assert_eq!(curl(address, &["/len"], &status, &large).unwrap(), "413");
}

#[test]
fn requests_that_are_sent_at_once_are_answered_in_order_also_to_a_peer_that_sends_no_more() {
    let (_server, address) = server();
    let mut stream = TcpStream::connect(address).unwrap();
    let requests: String = (0..100).map(|n| format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    stream.write_all(requests.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let order: Vec<String> =
        text.split("hello, /").skip(1).map(|rest| rest.split("HTTP").next().unwrap().into()).collect();
    assert_eq!(order, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn garbage_behind_a_request_is_refused_behind_its_reply_and_the_peer_reads_both() {
    let (_server, address) = server();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n\x16\x03\x01 what is this").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(
        text.starts_with("HTTP/1.1 200 OK") && text.contains("hello, /xHTTP/1.1 400 Bad Request"),
        "{text}"
    );
}

#[test]
fn wrk_finds_no_error() {
    let (_server, address) = server();
    let output = Command::new("wrk").args(["-t1", "-c8", "-d1s", &format!("http://{address}/x")]).output();
    let Ok(output) = output else { return println!("skipped: wrk is not installed") };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("Requests/sec") && !text.contains("Non-2xx") && !text.contains("Socket errors"),
        "{text}"
    );
}
