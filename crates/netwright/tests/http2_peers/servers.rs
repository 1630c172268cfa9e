//! Other people's servers, which our client asks by HTTP/2: nghttpd, Node's `http2`, and the proxies of `fronts`, behind which is our own site.

use super::{
    fronts::{certificate, local},
    site::{numbered, sum_of},
    support::{Background, Folder, free_port, node, program},
};
use bytes::Bytes;
use http::{Request, Response, Version};
use netwright::{
    event_loops,
    http::{
        Body,
        client::{Asking, WebClient},
    },
    tls::Connector,
};
use std::process::Command;

pub(crate) fn client() -> WebClient {
    let connector = Connector::builder().dangerously_accept_any_certificate().build().unwrap();
    let builder = WebClient::builder().group(event_loops(1).unwrap()).connector(connector);
    builder.connections(2).http2_prior_knowledge().build().unwrap()
}

/// Runs a future to its end on a loop.
fn on_a_loop<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    event_loops(1).unwrap().next().spawn(future).ok().unwrap().wait().unwrap()
}

#[track_caller]
fn body(asking: Asking) -> Bytes {
    let reply: Response<Body> = asking.wait().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((reply.version(), reply.status().as_u16()), (Version::HTTP_2, 200));
    on_a_loop(reply.into_body().collect(1 << 26)).unwrap_or_else(|error| panic!("{error}"))
}

/// Our client asks for everything that a site of ours has, through whatever stands in front of it. `duplex`: that passes on both directions of
/// a stream at the same time, and a stream beside one that nobody reads.
pub(crate) fn our_client_asks(front: &str, duplex: bool) {
    let client = client();
    let url = |path: &str| format!("{front}{path}");
    assert!(body(client.get(url("/bytes/3000000"))) == numbered(3_000_000));
    let long = numbered(3_000_000);
    assert_eq!(body(client.post(url("/sum"), long.clone())), sum_of(&long));
    if duplex {
        assert!(body(client.post(url("/echo"), long.clone())) == long);
    }
    // More than one connection takes at a time.
    let asked: Vec<_> = (0..300).map(|number| client.get(url(&format!("/bytes/{number}00")))).collect();
    for (number, asking) in asked.into_iter().enumerate() {
        assert!(body(asking) == numbered(number * 100), "{number}00 bytes");
    }
    // What nobody wants any more costs nobody else anything.
    let given_up: Vec<_> = (0..50).map(|_| client.get(url("/slow/50000"))).collect();
    drop(given_up);
    let unread = client.get(url("/bytes/3000000")).wait().unwrap();
    if duplex {
        assert!(body(client.get(url("/bytes/1000"))) == numbered(1000));
    }
    drop(unread);
    assert!(body(client.get(url("/bytes/1000"))) == numbered(1000));
}

#[test]
fn nghttpd_answers_our_client() {
    let Some(nghttpd) = program("nghttpd", "nghttp2-server") else { return };
    let folder = Folder::new("nghttpd");
    let Some((chain, key)) = certificate(&folder) else { return };
    let bytes = numbered(2_000_000);
    folder.write("large", &bytes);
    folder.write("small", "from nghttpd");
    for secure in [false, true] {
        let port = free_port();
        let mut command = Command::new(&nghttpd);
        command.arg("--htdocs").arg(folder.join("")).args(["--echo-upload", "--trailer", "x-end: here"]);
        command.args(["-a", "127.0.0.1"]);
        match secure {
            true => command.arg(port.to_string()).args([&key, &chain]),
            false => command.arg("--no-tls").arg(port.to_string()),
        };
        let _nghttpd = Background::start(&mut command, local(port));
        let scheme = if secure { "https" } else { "http" };
        let url = |path: &str| format!("{scheme}://127.0.0.1:{port}{path}");
        let client = client();
        assert!(body(client.get(url("/large"))) == bytes);
        assert!(body(client.post(url("/"), bytes.clone())) == bytes);
        let asked: Vec<_> = (0..300).map(|_| client.get(url("/small"))).collect();
        for asking in asked {
            assert_eq!(body(asking), "from nghttpd");
        }
        assert_eq!(client.get(url("/nothing")).wait().unwrap().status(), 404);
        let head = client.head(url("/large")).wait().unwrap();
        assert_eq!(head.headers()["content-length"], "2000000");
        let mut trailing = client.get(url("/small")).wait().unwrap().into_body();
        let trailers = on_a_loop(async move {
            while trailing.read().await.unwrap().is_some() {}
            trailing.trailers().cloned()
        });
        assert_eq!(trailers.unwrap()["x-end"], "here");
    }
}

#[test]
fn node_http2_answers_our_client() {
    let folder = Folder::new("node");
    let Some((chain, key)) = certificate(&folder) else { return };
    for secure in [false, true] {
        let Some(mut node) = node("http2_server.js", &[]) else { return };
        let port = free_port();
        node.arg(port.to_string());
        if secure {
            node.args([&key, &chain]);
        }
        let _node = Background::start(&mut node, local(port));
        let scheme = if secure { "https" } else { "http" };
        let url = |path: &str| format!("{scheme}://127.0.0.1:{port}{path}");
        let client = client();
        let long = numbered(2_000_000);
        assert!(body(client.post(url("/echo"), long.clone())) == long);
        // It takes ten streams at a time, and refuses some requests before it does anything for them.
        let asked: Vec<_> = (0..100).map(|number| client.get(url(&format!("/{number}")))).collect();
        for (number, asking) in asked.into_iter().enumerate() {
            assert_eq!(body(asking), format!("/{number}"));
        }
        // It answers before the body has come, and wants none of it.
        let early = client.request(Request::post(url("/early")).body(Body::from(long.clone())).unwrap());
        assert_eq!(early.wait().unwrap().status(), 403);
        assert!(client.get(url("/reset")).wait().is_err(), "a reply that is reset is none");
        // It goes away, and the next request finds another connection.
        assert_eq!(body(client.get(url("/goodbye"))), "/goodbye");
        assert_eq!(body(client.get(url("/after"))), "/after");
    }
}
