//! What seeds have found, as plain scenarios: nothing is drawn but what every simulation draws.

use super::common::{content, in_pieces, millis, secs};
use bytes::Bytes;
use http::{Request, Response};
use netwright::{
    Server,
    http::{
        Body, HttpError, HttpLimits, HttpServer,
        client::{WebClient, WebClientError},
        serve,
    },
    pipeline,
};
use netwright_testkit::sim::{Link, Sim};
use std::{sync::Arc, time::Duration};

/// Requests through TLS, seed 15175: nobody read on a connection whose reply had been over before its request was, so it was lent although the
/// server had closed it long ago.
#[test]
fn a_connection_that_the_server_closes_is_not_lent_although_its_reply_came_before_its_request_was_sent() {
    Sim::seed(1).run(|sim| {
        sim.link(Link::default().latency(millis(20)).rate(100_000));
        let server = sim.host("server");
        server.limit(|limits| limits.receive_buffer = 4_000);
        let start = || {
            let mut limits = HttpLimits::default();
            limits.idle_time = millis(500);
            let limits = Arc::new(limits);
            Server::builder()
                .pipeline(move |_| {
                    let answer = |_: Request<Body>| async { Response::new(Body::from("early")) };
                    pipeline().add(HttpServer::with(limits.clone())).app(serve(answer))
                })
                .bind("0.0.0.0:80")
                .wait()
        };
        server.start(start).unwrap();
        let host = sim.host("client");
        let client = host.enter(|| WebClient::builder().connections(1).build().unwrap());
        let post = |len| {
            let asking = client.post("http://server/", content(1, len));
            let asked =
                host.spawn(async move { asking.await?.into_body().collect(100).await.map_err(Into::into) });
            let said: Result<Bytes, WebClientError> = asked.unwrap().wait().unwrap();
            assert_eq!(said.unwrap(), "early");
        };
        post(60_000);
        sim.run_for(secs(10)); // what was asked for is sent, and then the server closes
        post(10);
        host.enter(|| drop(client));
    });
}

/// Asks for a long reply by a body that the server does not want and that takes long to send, over a link on which the reply takes some five seconds.
fn reply_to_who_still_sends(lingers: Duration) -> Result<Bytes, HttpError> {
    let mut said = None;
    Sim::seed(1).run(|sim| {
        sim.link(Link::default().latency(millis(40)));
        let server = sim.host("server");
        server.limit(|limits| limits.send_buffer = 100_000); // takes all of the reply at once
        let start = move || {
            let mut limits = HttpLimits::default();
            limits.linger_time = lingers;
            let limits = Arc::new(limits);
            Server::builder()
                .pipeline(move |_| {
                    let answer = |_: Request<Body>| async { Response::new(Body::from(content(2, 60_000))) };
                    pipeline().add(HttpServer::with(limits.clone())).app(serve(answer))
                })
                .bind("0.0.0.0:80")
                .wait()
        };
        server.start(start).unwrap();
        let host = sim.host("client");
        host.limit(|limits| limits.receive_buffer = 1_000);
        let client = host.enter(|| WebClient::builder().connections(1).build().unwrap());
        let asks = client.clone();
        let asking = async move {
            let body = in_pieces(content(1, 10_000), 50, millis(50));
            let request =
                Request::post("http://server/").header("expect", "100-continue").body(body).unwrap();
            let reply = asks.request(request).await.expect("the head comes first");
            assert_eq!(reply.headers()["connection"], "close");
            reply.into_body().collect(100_000).await
        };
        said = Some(host.spawn(asking).unwrap().wait().unwrap());
        host.enter(|| drop(client));
    });
    said.unwrap()
}

/// Requests, seed 18661: what a system sends when a socket is closed on which something still comes takes the rest of a reply from its peer.
/// A server cannot know how much of it its peer has; it can wait.
#[test]
fn who_still_sends_what_was_not_wanted_has_its_reply_as_long_as_the_server_lingers() {
    assert!(reply_to_who_still_sends(secs(2)).is_err());
    assert_eq!(reply_to_who_still_sends(secs(10)).unwrap(), content(2, 60_000));
}
