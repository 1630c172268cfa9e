//! HTTP servers and clients, with bodies that come from other loops and threads.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use netwright::{
    EventLoopGroup, Server, Workers,
    http::{Body, HttpLimits, HttpServer, client::WebClient, serve},
    pipeline,
};
use outside::{MANY, PATIENCE, ask, assert_same, dial, in_time, loops, pattern, settle, slow_thread};
use std::{
    io::{Read, Write},
    sync::Arc,
};

/// How much of a body is sent at a time.
const PIECE: usize = 20_000;

/// A server on these loops that answers with this function.
fn web<F, T>(group: &EventLoopGroup, call: F) -> Server
where
    F: Fn(Request<Body>) -> T + Clone + Send + Sync + 'static,
    T: Future<Output = Response<Body>> + 'static,
{
    let mut limits = HttpLimits::default();
    limits.body = 1 << 30;
    let limits = Arc::new(limits);
    Server::builder()
        .group(group.clone())
        .half_closure(true)
        .pipeline(move |_| pipeline().add(HttpServer::with(limits.clone())).app(serve(call.clone())))
        .bind("127.0.0.1:0")
        .wait()
        .expect("it listens")
}

fn client(group: &EventLoopGroup) -> WebClient {
    let mut limits = HttpLimits::client();
    limits.body = 1 << 30;
    WebClient::builder().group(group.clone()).limits(limits).total_timeout(PATIENCE).build().expect("loops")
}

fn url(server: &Server) -> String {
    format!("http://{}/", server.address())
}

/// All of a body, read on a loop and waited for here.
fn whole(group: &EventLoopGroup, body: Body) -> Bytes {
    let Ok(mut reading) = group.next().spawn(body.collect(2 * MANY)) else { panic!("the loop runs") };
    reading.wait().expect("it does not panic").expect("it is whole")
}

/// A body that a task of another loop sends, piece by piece, as it is taken.
fn sent_by(group: &EventLoopGroup, bytes: Vec<u8>) -> Body {
    let (mut sender, body) = Body::channel();
    let sending = async move {
        for piece in bytes.chunks(PIECE) {
            sender.send(piece.to_vec()).await.expect("it is wanted");
        }
        sender.end();
    };
    assert!(group.next().spawn(sending).is_ok(), "the loop runs");
    body
}

#[test]
fn an_http_service_is_woken_by_another_thread() {
    in_time(|| {
        let group = loops(1);
        let other = slow_thread(&group);
        let server = web(&group, move |request| {
            let answered = ask(&other, request.uri().path());
            async move { Response::new(answered.await.expect("it is kept").into()) }
        });
        let (client, others) = (client(&loops(1)), loops(1));
        for _ in 0..3 {
            let reply = client.get(url(&server) + "path").wait().expect("a reply");
            assert_eq!(whole(&others, reply.into_body()), "/PATH");
        }
    });
}

#[test]
fn an_http_service_is_woken_by_a_worker() {
    in_time(|| {
        let group = loops(1);
        let (workers, home) = (Workers::new(1).unwrap(), group.clone());
        let server = web(&group, move |_| {
            let home = home.clone();
            let work = move || {
                settle(&home);
                "worked on"
            };
            let Ok(done) = workers.submit(work) else { panic!("there is room") };
            async move { Response::new(done.await.expect("it does not panic").into()) }
        });
        let reply = client(&loops(1)).get(url(&server)).wait().expect("a reply");
        assert_eq!(whole(&loops(1), reply.into_body()), "worked on");
    });
}

#[test]
fn a_long_body_comes_from_another_loop_piece_by_piece() {
    in_time(|| {
        let (group, others) = (loops(1), loops(1));
        let (sent, home) = (pattern(MANY), others.clone());
        let sends = sent.clone();
        let server = web(&group, move |_| {
            let body = sent_by(&home, sends.clone());
            async move { Response::new(body) }
        });
        let mut stream = dial(server.local_addr());
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).expect("all of it");
        let head = reply.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
        assert_same(&reply[head..], &sent);
        let reply = client(&others).get(url(&server)).wait().expect("a reply");
        assert_same(&whole(&others, reply.into_body()), &sent);
    });
}

#[test]
fn a_long_body_goes_there_and_comes_back_while_it_is_still_sent() {
    in_time(|| {
        let (group, others) = (loops(1), loops(2));
        let server = web(&group, async |request| Response::new(request.into_body()));
        let sent = pattern(MANY);
        let client = client(&others);
        let reply = client.post(url(&server), sent_by(&others, sent.clone())).wait().expect("a reply");
        assert_same(&whole(&others, reply.into_body()), &sent);
        let reply = client.post(url(&server), sent.clone()).wait().expect("a reply");
        assert_same(&whole(&others, reply.into_body()), &sent);
    });
}

#[test]
fn a_reverse_proxy_passes_on_long_bodies_both_ways() {
    in_time(|| {
        let group = loops(2);
        let upstream = web(&group, async |request| Response::new(request.into_body()));
        let (asking, target) = (client(&loops(1)), url(&upstream));
        let proxy = web(&group, move |request: Request<Body>| {
            let asked = asking.post(&target, request.into_body());
            async move {
                match asked.await {
                    Ok(reply) => Response::new(reply.into_body()),
                    Err(error) => {
                        let mut reply = Response::new(error.to_string().into());
                        *reply.status_mut() = StatusCode::BAD_GATEWAY;
                        reply
                    }
                }
            }
        });
        let (others, sent) = (loops(2), pattern(MANY));
        let body = sent_by(&others, sent.clone());
        let reply = client(&others).post(url(&proxy), body).wait().expect("a reply");
        assert_eq!(reply.status(), StatusCode::OK);
        assert_same(&whole(&others, reply.into_body()), &sent);
    });
}
