//! The pieces on top of the codec, together with it: bytes in, bytes out.

mod hostile;
#[cfg(feature = "compress")]
mod peers;
#[cfg(feature = "compress")]
mod stack;

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
