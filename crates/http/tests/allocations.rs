//! What a request on a connection that is kept alive may allocate.

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use netwright_core::{Application, ManualLoop, pipeline};
use netwright_http::{Body, HttpServer, ReplyPart, RequestPart, header_map, respond, serve};
use netwright_testkit::{CountingAllocator, Wire, allocations_during};

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
fn answering<A>(app: A, request: &str, requests: usize) -> u64
where
    A: Application<Read = RequestPart, Write = ReplyPart>,
{
    ManualLoop::new().enter(|| {
        let mut wire = Wire::new(pipeline().add(HttpServer::new()).app(app).into_segment());
        let read = request.repeat(requests);
        // What grows once has grown after this.
        (0..100).for_each(|_| assert!(wire.turn(read.as_bytes()) > 0));
        allocations_during(|| wire.turn(read.as_bytes())).0
    })
}

#[test]
fn a_request_that_is_answered_by_a_closure_allocates_nothing() {
    let other = "GET /other HTTP/1.1\r\nHost: other\r\nAccept: */*\r\n\r\n";
    for requests in [1, 2, 16] {
        let three = [GET, other, POST].concat();
        for (what, request) in [("alike", GET), ("with a body", POST), ("that differ", &three)] {
            assert_eq!(answering(respond(|_| hello()), request, requests), 0, "{requests} requests {what}");
        }
    }
}

#[test]
fn a_request_that_is_answered_by_an_async_function_costs_its_future_and_its_head() {
    for requests in [1, 2, 16] {
        for request in [GET, POST] {
            let allocations = answering(serve(async |_: Request<Body>| hello()), request, requests);
            // The future's box; and that of the head and the map of its headers, which is two more, because the function is given
            // them.
            assert_eq!(allocations, 4 * requests as u64, "{requests} requests");
        }
    }
}
