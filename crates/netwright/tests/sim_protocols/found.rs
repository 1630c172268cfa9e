//! What seeds have found, as plain scenarios: nothing is drawn but what every simulation draws.

use super::common::{content, millis, secs};
use bytes::Bytes;
use http::{Request, Response};
use netwright::{
    Server,
    http::{
        Body, HttpLimits, HttpServer,
        client::{WebClient, WebClientError},
        serve,
    },
    pipeline,
};
use netwright_testkit::sim::{Link, Sim};
use std::sync::Arc;

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
