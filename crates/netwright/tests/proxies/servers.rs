//! What is to be reached.

use crate::toy::PATIENCE;
use bytes::BytesMut;
use http::Response;
use netwright::{
    Backend, Channel, CloseCause, Handler, Outgoing, Peer, Server,
    client::{ClientBuilder, ConnectError, Proxies, ThroughProxies},
    http::{Body, HttpServer, Received, client::WebClient, respond},
    pipeline,
    tls::{Acceptor, Certificate, Connector, Roots, Tls},
    websocket::{Accept, Config, Message, Upgrade},
};
use std::sync::{Arc, mpsc};

pub(crate) fn echo() -> (Server, u16) {
    let server = Server::builder()
        .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let port = server.local_addr().unwrap().port();
    (server, port)
}

/// Answers with the path, and with the proxy's credentials if they have come so far.
fn hello(request: &Received) -> Response<String> {
    let leaked = request.headers().contains_key("proxy-authorization");
    Response::new(format!("hello, {}{}", request.uri().path(), if leaked { " (authorized)" } else { "" }))
}

pub(crate) fn web() -> (Server, u16) {
    let server = Server::builder()
        .pipeline(|_| pipeline().add(HttpServer::new()).app(respond(hello)))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let port = server.local_addr().unwrap().port();
    (server, port)
}

/// The name that certificates are for; proxies know where it is.
pub(crate) const NAME: &str = "secure.test";

pub(crate) struct Secret {
    _server: Server,
    pub(crate) port: u16,
    pub(crate) connector: Connector,
}

/// Trusts this certificate, and nobody else.
pub(crate) fn trusting(certificate: &Certificate) -> Connector {
    Connector::builder().roots(Roots::of(certificate).unwrap()).build().unwrap()
}

impl Secret {
    fn new(server: impl FnOnce(Acceptor) -> Server) -> Self {
        Self::by(&Certificate::self_signed([NAME]).unwrap(), server)
    }

    fn by(certificate: &Certificate, server: impl FnOnce(Acceptor) -> Server) -> Self {
        let server = server(Acceptor::new(certificate).unwrap());
        let connector = trusting(certificate);
        let port = server.local_addr().unwrap().port();
        Self { _server: server, port, connector }
    }

    pub(crate) fn web() -> Self {
        Self::web_by(&Certificate::self_signed([NAME]).unwrap())
    }

    pub(crate) fn web_by(certificate: &Certificate) -> Self {
        Self::by(certificate, |acceptor| {
            let make = move |_: &_| {
                let hello = respond(hello);
                pipeline().add(Tls::server(&acceptor)).add(HttpServer::new()).app(hello)
            };
            Server::builder().pipeline(move |accepted| make(accepted)).bind("127.0.0.1:0").wait().unwrap()
        })
    }

    pub(crate) fn websocket() -> Self {
        Self::new(|acceptor| {
            let accept = Arc::new(Accept::new(Config::default()));
            let builder = Server::builder().pipeline(move |_| {
                let accept = accept.clone();
                pipeline().add(Tls::server(&acceptor)).joint(|switch| {
                    let upgrade =
                        Upgrade::new(switch, accept, |socket, _, _| pipeline().add(socket).serve(echoes));
                    pipeline().add(HttpServer::new()).add(upgrade).handle(|cx, _| cx.close()).sealed()
                })
            });
            builder.bind("127.0.0.1:0").wait().unwrap()
        })
    }
}

pub(crate) fn websocket() -> (Server, u16) {
    let accept = Arc::new(Accept::new(Config::default()));
    let builder = Server::builder().pipeline(move |_| {
        let accept = accept.clone();
        pipeline().joint(|switch| {
            let upgrade = Upgrade::new(switch, accept, |socket, _, _| pipeline().add(socket).serve(echoes));
            pipeline().add(HttpServer::new()).add(upgrade).handle(|cx, _| cx.close()).sealed()
        })
    });
    let server = builder.bind("127.0.0.1:0").wait().unwrap();
    let port = server.local_addr().unwrap().port();
    (server, port)
}

async fn echoes(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
    while let Some(message) = peer.read().await? {
        peer.write(message).await?;
    }
    Ok(())
}

/// Connects, and has `hello` come back.
pub(crate) fn round_trip(
    builder: ClientBuilder,
    proxies: impl Into<Proxies>,
    target: &str,
) -> Result<Channel, ConnectError> {
    round_trip_by(builder.through(proxies), target)
}

pub(crate) fn round_trip_by<S>(
    builder: ClientBuilder<ThroughProxies<S>>,
    target: &str,
) -> Result<Channel, ConnectError>
where
    S: Handler<Read = BytesMut, ReadOut = BytesMut, Write = Outgoing, WriteOut = Outgoing>,
{
    let (tell, told) = mpsc::channel();
    let client = builder.pipeline(move || {
        let tell = tell.clone();
        pipeline().handle(move |_, bytes| tell.send(bytes).unwrap())
    })?;
    let channel = client.connect(target).wait_timeout(PATIENCE).expect("an end within the time")?;
    channel.write_and_flush("hello");
    let mut come = Vec::new();
    while come.len() < 5 {
        come.extend(told.recv_timeout(PATIENCE).expect("what was sent comes back"));
    }
    assert_eq!(come, b"hello");
    Ok(channel)
}

pub(crate) fn get(client: &WebClient, url: &str) -> String {
    let reply = client.get(url).wait().unwrap_or_else(|error| panic!("{url}: {error}"));
    text(reply)
}

pub(crate) fn text(reply: Response<Body>) -> String {
    let status = reply.status();
    let group = netwright::event_loops(1).unwrap();
    let body = group.next().spawn(reply.into_body().collect(1 << 16)).unwrap().wait().unwrap().unwrap();
    assert!(status.is_success(), "{status}: {body:?}");
    String::from_utf8(body.to_vec()).unwrap()
}

/// Every backend that works here.
pub(crate) fn backends() -> Vec<Backend> {
    let mut backends = vec![Backend::Readiness, Backend::Blocking];
    backends.extend(netwright::event_loop::Probe::run(Backend::Uring).works().then_some(Backend::Uring));
    backends
}
