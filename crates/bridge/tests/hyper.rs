//! Stock hyper servers and clients on our loops.

#![cfg(feature = "hyper")]

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::Incoming,
    client,
    rt::{Executor, Timer},
    server,
    service::service_fn,
};
use netwright_bridge::{LoopExecutor, LoopTimer, PeerIo};
use netwright_core::{EmbeddedChannel, EventLoop, ManualLoop, Outgoing, Peer, pipeline, time};
use netwright_transport::{Client, Server, event_loops};
use std::{
    cell::RefCell,
    convert::Infallible,
    error::Error,
    rc::Rc,
    sync::mpsc::{self, Receiver},
    time::Duration,
};

type Bare = Peer;
type Channel = EmbeddedChannel<Infallible, Outgoing>;
type Body = Full<Bytes>;

/// Answers with what it got, after a rest on the loop's time if asked for one.
async fn echo(request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
    if request.uri().path() == "/slow" {
        time::sleep(Duration::from_millis(1)).await;
    }
    let body = request.into_body().collect().await?.to_bytes();
    Ok(Response::new(Full::new(body)))
}

fn serve_http1() -> Server {
    let tail = |peer: Bare| async move {
        server::conn::http1::Builder::new()
            .timer(LoopTimer::here())
            .serve_connection(PeerIo::new(peer), service_fn(echo))
            .await
    };
    let group = event_loops(1).unwrap();
    Server::builder()
        .group(group)
        .pipeline(move |_| pipeline().serve(tail))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap()
}

fn serve_http2() -> Server {
    let tail = |peer: Bare| async move {
        server::conn::http2::Builder::new(LoopExecutor::new())
            .timer(LoopTimer::here())
            .serve_connection(PeerIo::new(peer), service_fn(echo))
            .await
    };
    let group = event_loops(1).unwrap();
    Server::builder()
        .group(group)
        .pipeline(move |_| pipeline().serve(tail))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap()
}

fn request(path: &str, body: impl Into<Bytes>) -> Request<Body> {
    Request::post(path).header("host", "test").body(Full::new(body.into())).unwrap()
}

fn arrived<T>(receive: &Receiver<T>) -> T {
    receive.recv_timeout(Duration::from_secs(20)).expect("it never came")
}

#[test]
fn a_stock_http1_server_and_client_talk_over_our_loops() {
    let server = serve_http1();
    let (send, receive) = mpsc::channel();
    let client = Client::builder()
        .pipeline(move || {
            let send = send.clone();
            pipeline().serve(move |peer: Bare| async move {
                let (sender, connection) = client::conn::http1::handshake(PeerIo::new(peer)).await?;
                send.send(sender).unwrap();
                connection.await
            })
        })
        .unwrap();
    let channel = client.connect(server.address()).wait().unwrap();
    let mut sender: client::conn::http1::SendRequest<Body> = arrived(&receive);
    let event_loop = EventLoop::new(); // requests come from wherever one likes
    let mut answers = event_loop
        .spawn(async move {
            let large = vec![b'x'; 1 << 20];
            let mut lens = Vec::new();
            for body in [Bytes::from("hello"), Bytes::new(), Bytes::from(large.clone()), Bytes::from("bye")] {
                sender.ready().await?;
                let response = sender.send_request(request("/slow", body.clone())).await?;
                let answer = response.into_body().collect().await?.to_bytes();
                assert!(answer == body);
                lens.push(answer.len());
            }
            Ok::<_, hyper::Error>(lens)
        })
        .unwrap();
    assert_eq!(answers.wait().unwrap().unwrap(), [5, 0, 1 << 20, 3]);
    // The sender is gone, so the connection's future ends, and the channel with it.
    channel.closed().wait().unwrap();
}

#[test]
fn a_stock_http2_server_and_client_talk_over_our_loops() {
    let server = serve_http2();
    let (send, receive) = mpsc::channel();
    let client = Client::builder()
        .pipeline(move || {
            let send = send.clone();
            pipeline().serve(move |peer: Bare| async move {
                let mut http2 = client::conn::http2::Builder::new(LoopExecutor::new());
                http2.timer(LoopTimer::here()).keep_alive_interval(Duration::from_secs(30));
                let (sender, connection) = http2.handshake(PeerIo::new(peer)).await?;
                send.send(sender).unwrap();
                connection.await
            })
        })
        .unwrap();
    let _channel = client.connect(server.address()).wait().unwrap();
    let mut sender: client::conn::http2::SendRequest<Body> = arrived(&receive);
    let event_loop = EventLoop::new();
    let mut answers = event_loop
        .spawn(async move {
            let both = [
                sender.send_request(request("http://test/slow", "first")),
                sender.send_request(request("http://test/", vec![b'x'; 300_000])),
            ];
            let mut lens = Vec::new();
            for answer in both {
                lens.push(answer.await?.into_body().collect().await?.to_bytes().len());
            }
            Ok::<_, hyper::Error>(lens)
        })
        .unwrap();
    assert_eq!(answers.wait().unwrap().unwrap(), [5, 300_000]);
}

#[test]
fn responses_to_requests_in_a_row_leave_in_order_and_as_one() {
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(|peer: Bare| async move {
        let mut http1 = server::conn::http1::Builder::new();
        http1.pipeline_flush(true).auto_date_header(false);
        http1.serve_connection(PeerIo::new(peer), service_fn(echo)).await
    }));
    let post = |body: &str| format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    channel.write_inbound(post("one") + &post("two"));
    let first = channel.read_outbound().unwrap();
    let both =
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\noneHTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\ntwo";
    assert_eq!(first, both);
}

#[test]
fn a_client_that_is_slow_with_its_headers_is_cut_by_the_loops_clock() {
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(|peer: Bare| async move {
        server::conn::http1::Builder::new()
            .timer(LoopTimer::here())
            .header_read_timeout(Duration::from_secs(10))
            .serve_connection(PeerIo::new(peer), service_fn(echo))
            .await
    }));
    channel.write_inbound(b"GET / HT");
    channel.advance(Duration::from_secs(9));
    assert!(channel.is_open());
    channel.advance(Duration::from_secs(1));
    assert!(!channel.is_open());
    let cause = channel.channel().close_cause().unwrap().to_string();
    assert_eq!(cause, "unhandled error: read header from client timeout");
}

#[test]
fn a_request_that_breaks_the_protocol_ends_the_connection_with_hypers_answer() {
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(|peer: Bare| async move {
        server::conn::http1::Builder::new().serve_connection(PeerIo::new(peer), service_fn(echo)).await
    }));
    channel.write_inbound(b"\0\0\0\0\r\n\r\n");
    assert!(channel.outbound_bytes().starts_with(b"HTTP/1.1 400 Bad Request\r\n"));
    assert!(!channel.is_open());
}

// ---- executor and timer ----

#[test]
fn the_executor_runs_what_need_not_be_send_on_the_loop_at_hand() {
    let mut event_loop = ManualLoop::new();
    let seen = Rc::new(RefCell::new(0));
    let told = seen.clone();
    event_loop.enter(|| LoopExecutor::new().execute(async move { *told.borrow_mut() = 7 }));
    event_loop.run_until_idle();
    assert_eq!(*seen.borrow(), 7);
}

#[test]
fn a_sleep_may_cross_threads_and_resolves_when_its_loop_ends() -> Result<(), Box<dyn Error>> {
    let (owner, other) = (EventLoop::new(), EventLoop::new());
    let timer = LoopTimer::of(&owner);
    let (short, long) = (timer.sleep(Duration::from_millis(1)), timer.sleep(Duration::from_secs(3600)));
    let mut waiting = other.spawn(async move {
        short.await;
        long.await;
    })?;
    while owner.figures().timers_pending == 0 {
        std::thread::yield_now();
    }
    drop(owner);
    waiting.wait()?;
    timer.sleep(Duration::from_secs(3600)); // not polled: nothing is armed
    Ok(())
}

#[test]
fn a_deadline_can_be_moved_both_ways_and_a_sleep_that_is_dropped_leaves_no_timer() {
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(|peer: Bare| async move {
        let timer = LoopTimer::here();
        let begun = timer.now();
        let elapsed = || timer.now().duration_since(begun);
        let poll_once = |sleep: &mut std::pin::Pin<Box<dyn hyper::rt::Sleep>>| {
            let waker = std::task::Waker::noop();
            sleep.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_ready()
        };
        let mut sleep = timer.sleep(Duration::from_secs(10));
        assert!(!poll_once(&mut sleep));
        timer.reset(&mut sleep, begun + Duration::from_secs(20));
        sleep.as_mut().await;
        assert_eq!(elapsed(), Duration::from_secs(20));
        let mut sleep = timer.sleep(Duration::from_secs(10));
        assert!(!poll_once(&mut sleep));
        timer.reset(&mut sleep, begun + Duration::from_secs(25));
        sleep.as_mut().await;
        assert_eq!(elapsed(), Duration::from_secs(25));
        let mut sleep = timer.sleep(Duration::from_secs(10));
        assert!(!poll_once(&mut sleep));
        drop(sleep);
        peer.closed().await;
    }));
    for _ in 0..25 {
        channel.advance(Duration::from_secs(1));
    }
    assert!(channel.is_open());
    assert_eq!(channel.event_loop().handle().figures().timers_pending, 0);
}

#[test]
fn a_half_closed_client_gets_the_answers_to_all_its_requests_if_hyper_is_told_so() {
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(|peer: Bare| async move {
        let mut http1 = server::conn::http1::Builder::new();
        http1.half_close(true).auto_date_header(false);
        http1.serve_connection(PeerIo::new(peer), service_fn(echo)).await
    }));
    let post = |path: &str, body: &str| {
        format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    channel.write_inbound(post("/", "one") + &post("/slow", "two")).close_input();
    channel.advance(Duration::from_millis(1));
    let answers = channel.outbound_bytes().escape_ascii().to_string();
    assert_eq!(answers.matches("200 OK").count(), 2, "{answers}");
    assert!(answers.ends_with("two") && !channel.is_open());
}
