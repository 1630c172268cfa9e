//! The pieces on top of the codec, together with it: bytes in, bytes out.

#[cfg(feature = "compress")]
mod both;
mod hostile;
#[cfg(feature = "compress")]
mod peers;
#[cfg(feature = "compress")]
mod stack;
#[cfg(feature = "compress")]
mod versions;

#[cfg(feature = "compress")]
#[test]
fn what_the_stages_in_front_of_a_handler_allocate_for_each_request() {
    use netwright_core::{EmbeddedChannel, pipeline};
    use netwright_http::{
        HttpServer, respond,
        web::{AccessLog, Cors, Reply, ReplyCompression, RequestDecompression},
    };

    const GET: &str =
        "GET /hello/ada HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, br\r\nUser-Agent: test\r\n\r\n";
    // The read of the test's own channel.
    const READ: u64 = 2;
    let router = || Router::new().get("/hello/{name}", "hello").unwrap();
    macro_rules! answering {
        ($($stage:expr),*) => {{
            let router = router();
            let answer = move |request: &netwright_http::Received| match router.find(request.method(), request.uri().path()) {
                Ok(found) => Reply::text(*found.handler),
                Err(miss) => miss.reply(),
            };
            let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new())$(.add($stage))*.app(respond(answer)));
            let mut round = || {
                channel.write_inbound(GET);
                while channel.read_outbound().is_some() {}
            };
            (0..20).for_each(|_| round());
            allocations_during(round).0
        }};
    }
    let cors = Cors::origins(["https://app.example"]).unwrap();
    let log = AccessLog::new(|entry| assert!(entry.complete));
    let alone = answering!();
    assert!(alone <= READ, "{alone}");
    assert_eq!(answering!(cors.stage()), alone);
    assert_eq!(answering!(RequestDecompression::new()), alone);
    assert_eq!(
        answering!(ReplyCompression::new().stage()),
        alone,
        "for a reply that is too short to be compressed"
    );
    assert_eq!(answering!(log.stage()), alone + 1, "what is noted of the request");
}

#[global_allocator]
static ALLOCATOR: netwright_testkit::CountingAllocator = netwright_testkit::CountingAllocator;

use http::{HeaderMap, Method};
use netwright_http::web::{Coding, Router, cookies};
use netwright_testkit::allocations_during;

#[test]
fn finding_a_route_a_coding_or_a_cookie_allocates_nothing() {
    let mut router = Router::new();
    for number in 0..100 {
        router = router.get(&format!("/api/v1/{number}/{{a}}/{{b}}/x/{{d}}"), number).unwrap();
    }
    let mut headers = HeaderMap::new();
    headers.insert("accept-encoding", "gzip, deflate, br;q=0.8, zstd".parse().unwrap());
    headers.insert("cookie", "a=1; b=2; c=3".parse().unwrap());
    let (mut handler, mut value) = (None, 0u8);
    let (allocations, ()) = allocations_during(|| {
        let found = router.find(&Method::HEAD, "/api/v1/73/one/two/x/4").unwrap();
        (handler, value) = (Some(*found.handler), found.params.parse("d").unwrap());
        assert!(router.find(&Method::GET, "/api/v1/73/one/two/y/4").is_err());
        assert!(router.find(&Method::POST, "/api/v1/73/one/two/x/4").is_err());
        assert_eq!(Coding::choose(&headers, &Coding::ALL), Some(Coding::Zstd));
        assert_eq!(cookies(&headers).last(), Some(("c", "3")));
    });
    assert_eq!((handler, value, allocations), (Some(73), 4, 0));
}
