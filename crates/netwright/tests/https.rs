//! `https://` with features of this crate alone.

use http::Response;
use netwright::{
    Server,
    http::{HttpServer, client::WebClient, respond},
    pipeline,
    tls::{Acceptor, Certificate, Connector, Roots, Tls},
};

#[test]
fn the_http_client_reaches_https_by_features_of_the_facade() {
    let certificate = Certificate::self_signed(["localhost"]).unwrap();
    let acceptor = Acceptor::new(&certificate).unwrap();
    let server = Server::builder()
        .pipeline(move |_| {
            let hello = respond(|_| Response::new("hello through TLS".to_owned()));
            pipeline().add(Tls::server(&acceptor)).add(HttpServer::new()).app(hello)
        })
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let connector = Connector::builder().roots(Roots::of(&certificate).unwrap()).build().unwrap();
    let client = WebClient::builder().connector(connector).build().unwrap();
    let port = server.local_addr().unwrap().port();
    let reply = client.get(format!("https://localhost:{port}/")).wait().unwrap();
    let body =
        netwright::event_loops(1).unwrap().next().spawn(reply.into_body().collect(100)).unwrap().wait();
    assert_eq!(body.unwrap().unwrap(), "hello through TLS");
}
