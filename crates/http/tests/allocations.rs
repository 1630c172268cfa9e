//! What a request on a connection that is kept alive may allocate.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use netwright_core::{EmbeddedChannel, pipeline};
use netwright_http::{HttpServer, header_map, respond};
use netwright_testkit::{CountingAllocator, allocations_during};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const GET: &str =
    "GET /plaintext?x=y HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\nUser-Agent: test\r\n\r\n";
const POST: &str = "POST /plaintext HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";

fn hello() -> Response<Bytes> {
    let mut reply = Response::new(Bytes::from_static(b"Hello, World!"));
    *reply.headers_mut() = header_map();
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    reply
}

/// Allocations of a read with so many requests, and of their answers, in steady state.
fn answering(request: &str, requests: usize) -> u64 {
    let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(respond(|_| hello())));
    let read = request.repeat(requests);
    let round = |channel: &mut EmbeddedChannel<_, _>| {
        channel.write_inbound(&read);
        while channel.read_outbound().is_some() {}
    };
    (0..20).for_each(|_| round(&mut channel));
    allocations_during(|| round(&mut channel)).0
}

/// What the test's own channel allocates: the read's buffer, and the bookkeeping of `bytes` that makes it one to share.
const READ: u64 = 2;

#[test]
fn a_request_that_is_answered_by_a_closure_allocates_nothing() {
    let other = "GET /other HTTP/1.1\r\nHost: other\r\nAccept: */*\r\n\r\n";
    for requests in [1, 2, 16] {
        assert!(answering(GET, requests) <= READ, "{requests} requests");
        assert!(answering(POST, requests) <= READ, "{requests} requests with a body");
        assert!(answering(&[GET, other, POST].concat(), requests) <= READ, "{requests} times three requests");
    }
}
