//! The pooled client of HTTP/1.1, from the connection to the end of a reply.

use crate::{
    row::{
        Drip::{Alive, Byte, Nothing, Takes},
        Limit::Ours,
        Seen, Subject, Table, at, between, never, rows,
    },
    wire::{Loops, PATIENCE, much, narrow, wait_until},
};
use http::Request;
use netwright::http::{
    Body,
    client::{Asking, WebClient, WebClientBuilder},
};
use netwright_testkit::hostile::Unanswering;
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

pub(crate) const TABLE: Table = (
    "http_client",
    rows! {
        connecting []
            by connecting() => "WebClientBuilder::connect_timeout" at(10), not_connected, Nothing("nobody is there");
        waiting_for_a_connection_to_be_free []
            by waiting() => "PoolBuilder::acquire_timeout" at(30), none_free, Nothing("it concerns another request");
        a_proxy_has_not_answered []
            by proxied(b"") => "WebClientBuilder::connect_timeout" at(10), no_way, Nothing("a byte begins a reply");
        within_the_head_of_a_proxys_answer []
            by proxied(b"HTTP/1.1 200 OK\r\nX: ") => "WebClientBuilder::connect_timeout" at(10), no_way, Byte(b'a');
        a_server_says_nothing_in_the_handshake_of_tls []
            by secure(b"") => "tls::TlsLimits::handshake_deadline" at(10), no_handshake, Nothing("a byte begins a record");
        a_server_says_nothing_in_the_handshake_behind_a_proxy []
            by proxied(b"HTTP/1.1 200 OK\r\n\r\n") => "tls::TlsLimits::handshake_deadline" at(10), no_handshake, Nothing("a byte begins a record");
        no_reply_has_come ["http/src/codec/h1/client.rs Phase::Reading"]
            by asks(b"") => "WebClientBuilder::head_timeout" at(30), no_reply, Nothing("a byte begins a reply");
        within_the_head_of_a_reply []
            by asks(b"HTTP/1.1 200 OK\r\nX: ") => "WebClientBuilder::head_timeout" at(30), no_reply, Byte(b'a');
        behind_an_answer_before_the_answer []
            by asks(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: ") => "WebClientBuilder::head_timeout" at(30), no_reply, Byte(b'a');
        within_a_body_of_known_length []
            by asks(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\nx") => "WebClientBuilder::piece_timeout" at(300), no_piece, Alive(b'x');
        within_the_size_of_a_chunk []
            by asks(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0") => "WebClientBuilder::piece_timeout" at(300), no_piece, Nothing("its line has a limit, which ends before");
        within_trailers []
            by asks(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ") => "WebClientBuilder::piece_timeout" at(300), no_piece, Byte(b'a');
        within_a_body_of_known_length_with_a_limit_for_all []
            by asks_in_all(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\nx") => "WebClientBuilder::total_timeout" at(60), no_end, Byte(b'x');
        within_the_size_of_a_chunk_with_a_limit_for_all []
            by asks_in_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0") => "WebClientBuilder::total_timeout" at(60), no_end, Byte(b'0');
        within_trailers_with_a_limit_for_all []
            by asks_in_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ") => "WebClientBuilder::total_timeout" at(60), no_end, Byte(b'a');
        within_a_body_until_the_end_with_a_limit_for_all ["http/src/codec/h1/decode/body.rs Body::UntilClose"]
            by asks_in_all(b"HTTP/1.1 200 OK\r\n\r\nx") => "WebClientBuilder::total_timeout" at(60), no_end, Byte(b'x');
        a_request_waits_to_be_taken ["http/src/body/sending.rs Sending::Body"]
            by uploads(Body::from(much())) => "LeastRate" between(60, 140), not_taken, Takes;
        a_streamed_request_waits_to_be_taken []
            by uploads(stream()) => "LeastRate" between(60, 140), not_taken, Takes;
        a_request_is_made_slowly ["http/src/body/sending.rs Sending::Waiting"]
            by uploads_slowly() => "application" Ours("it makes the body"), never, Nothing("the reply is waited for when the request is sent");
        behind_a_101_that_nobody_takes_over ["http/src/codec/h1/client.rs Phase::Switched"]
            by switched() => "application" Ours("it has the reply"), never, Nothing("the reply is there");
    },
);

// ---- ends ----

fn told(seen: &Seen, what: &str) -> bool {
    seen.told.as_ref().is_some_and(|told| told.contains(what))
}

fn not_connected(seen: &Seen) -> bool {
    told(seen, "TimedOut { address:") && told(seen, "limit: 10s }")
}

fn none_free(seen: &Seen) -> bool {
    told(seen, "Pool(TimedOut { waited: 30s, max_connections: 1")
}

fn no_reply(seen: &Seen) -> bool {
    told(seen, "TimedOut { what: \"the reply\", limit: 30s }")
}

fn no_way(seen: &Seen) -> bool {
    told(seen, "why: TimedOut(10s) }")
}

fn no_handshake(seen: &Seen) -> bool {
    told(seen, "HandshakeTimedOut { limit: 10s }")
}

fn no_piece(seen: &Seen) -> bool {
    told(seen, "the next piece of the reply") && told(seen, "300s")
}

fn no_end(seen: &Seen) -> bool {
    told(seen, "the end of the reply") && told(seen, "60s")
}

fn not_taken(seen: &Seen) -> bool {
    told(seen, "Closed(TooSlow(LeastRate { bytes_per_second: 240, grace: 60s }))")
}

// ---- ways ----

/// A client, what it asked, and its server, played by hand.
struct Asked {
    loops: Loops,
    _client: WebClient,
    server: Option<TcpStream>,
    asking: Option<Asking>,
    body: Option<Body>,
    told: Option<String>,
    _kept: Vec<Box<dyn std::any::Any>>,
}

fn begin(set: impl FnOnce(WebClientBuilder) -> WebClientBuilder) -> (Loops, WebClient) {
    let loops = Loops::new();
    let builder = WebClient::builder().group(loops.group.clone());
    (loops, set(builder).build().unwrap())
}

fn listener() -> (TcpListener, String) {
    let socket = narrow();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(16).unwrap();
    let listener = TcpListener::from(socket);
    let url = format!("http://{}/", listener.local_addr().unwrap());
    (listener, url)
}

impl Asked {
    fn new(loops: Loops, client: WebClient, asking: Asking) -> Self {
        let (server, body, told) = (None, None, None);
        Self { loops, _client: client, server, asking: Some(asking), body, told, _kept: Vec::new() }
    }

    /// Accepts, reads what was asked up to where this ends, and says something.
    fn meets(mut self, listener: &TcpListener, ends: &[u8], says: &[u8]) -> Box<Self> {
        let (mut server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut got = Vec::new();
        while !got.ends_with(ends) {
            let mut byte = [0];
            server.read_exact(&mut byte).unwrap();
            got.extend(byte);
        }
        server.write_all(says).unwrap();
        self.server = Some(server);
        self.loops.settle();
        Box::new(self)
    }
}

impl Subject for Asked {
    fn send(&mut self, byte: u8) {
        if let Some(server) = &mut self.server {
            let _ = server.write_all(&[byte]); // it may be closed already
        }
        self.seen(); // whoever asked reads
    }

    fn take(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.read(&mut [0]);
        }
        self.loops.settle();
    }

    fn advance(&mut self, by: Duration) {
        self.loops.advance(by);
    }

    fn seen(&mut self) -> Seen {
        self.loops.settle();
        let mut cx = Context::from_waker(Waker::noop());
        if let Some(asking) = &mut self.asking
            && let Poll::Ready(reply) = Pin::new(asking).poll(&mut cx)
        {
            self.asking = None;
            match reply {
                Ok(reply) => self.body = Some(reply.into_body()),
                Err(error) => self.told = Some(format!("{error:?}")),
            }
        }
        // What is asked for now may be there already.
        for _ in 0..2 {
            while let Some(body) = &mut self.body
                && let Poll::Ready(piece) = body.poll_read(&mut cx)
            {
                match piece {
                    Ok(Some(_)) => {}
                    Ok(None) => self.body = None,
                    Err(error) => {
                        self.body = None;
                        self.told = Some(format!("{error:?}"));
                    }
                }
                self.loops.settle();
            }
            self.loops.settle();
        }
        Seen { told: self.told.clone(), ..Seen::default() }
    }

    /// The server sees the end of the connection.
    fn is_gone(&mut self) -> bool {
        let Some(server) = &mut self.server else { return true };
        server.set_nonblocking(true).unwrap();
        wait_until(|| {
            loop {
                match server.read(&mut [0; 65_536]) {
                    Ok(0) => return true,
                    Ok(_) => {}
                    Err(error) => return error.kind() != ErrorKind::WouldBlock,
                }
            }
        })
    }
}

fn connecting() -> Box<dyn Subject> {
    let ((loops, client), silent) = (begin(|builder| builder), Unanswering::new().unwrap());
    let asking = client.get(format!("http://{}/", silent.addr()));
    let mut asked = Asked::new(loops, client, asking);
    asked._kept.push(Box::new(silent));
    asked.loops.settle();
    Box::new(asked)
}

fn waiting() -> Box<dyn Subject> {
    let ((loops, client), (listener, url)) =
        (begin(|builder| builder.connections(1).head_timeout(Duration::ZERO)), listener());
    let first = client.get(&url);
    let (mut taken, _) = listener.accept().unwrap();
    taken.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(taken.read(&mut [0; 1000]).unwrap() > 0);
    let asking = client.get(&url);
    let mut asked = Asked::new(loops, client, asking);
    asked._kept = vec![Box::new(first), Box::new(taken), Box::new(listener)];
    asked.loops.settle();
    Box::new(asked)
}

fn asks_with(set: impl FnOnce(WebClientBuilder) -> WebClientBuilder, says: &[u8]) -> Box<dyn Subject> {
    let ((loops, client), (listener, url)) = (begin(set), listener());
    let asking = client.get(url);
    let mut asked = Asked::new(loops, client, asking).meets(&listener, b"\r\n\r\n", says);
    let is_reply = says.starts_with(b"HTTP/1.1 200") && says.windows(4).any(|end| end == b"\r\n\r\n");
    assert!(wait_until(|| asked.seen().is_open() && asked.body.is_some() == is_reply));
    asked
}

fn asks(says: &[u8]) -> Box<dyn Subject> {
    asks_with(|builder| builder, says)
}

fn asks_in_all(says: &[u8]) -> Box<dyn Subject> {
    asks_with(|builder| builder.total_timeout(Duration::from_secs(60)), says)
}

/// TLS is asked for; whom to trust does not matter to who is not answered.
fn secure_client(builder: WebClientBuilder) -> WebClientBuilder {
    use netwright::tls::{Certificate, Connector, Roots};
    let certificate = Certificate::self_signed(["localhost"]).unwrap();
    builder.connector(Connector::builder().roots(Roots::of(&certificate).unwrap()).build().unwrap())
}

fn secure(says: &[u8]) -> Box<dyn Subject> {
    let ((loops, client), (listener, url)) = (begin(secure_client), listener());
    let asking = client.get(url.replace("http://", "https://"));
    Asked::new(loops, client, asking).meets(&listener, b"\x16\x03\x01", says)
}

fn proxied(says: &[u8]) -> Box<dyn Subject> {
    let (listener, url) = listener();
    let (loops, client) = begin(|builder| secure_client(builder).proxy(&url).unwrap());
    let asking = client.get("https://localhost/");
    Asked::new(loops, client, asking).meets(&listener, b"\r\n\r\n", says)
}

fn uploads(body: Body) -> Box<dyn Subject> {
    let ((loops, client), (listener, url)) = (begin(|builder| builder), listener());
    let asking = client.post(url, body);
    let asked = Asked::new(loops, client, asking).meets(&listener, b"\r\n\r\n", b"");
    asked.loops.rest(asked.server.as_ref().unwrap());
    asked
}

/// A body that is made as fast as it is taken.
fn stream() -> Body {
    let (mut sender, body) = Body::channel();
    std::thread::spawn(move || {
        let mut cx = Context::from_waker(Waker::noop());
        let mut sending =
            std::pin::pin!(async { while sender.send(much().slice(..100_000)).await.is_ok() {} });
        while sending.as_mut().poll(&mut cx).is_pending() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    body
}

fn uploads_slowly() -> Box<dyn Subject> {
    let ((loops, client), (listener, url)) = (begin(|builder| builder), listener());
    let (sender, body) = Body::channel();
    let asking = client.post(url, body);
    let mut asked = Asked::new(loops, client, asking);
    asked._kept.push(Box::new(sender));
    asked.meets(&listener, b"\r\n\r\n", b"")
}

fn switched() -> Box<dyn Subject> {
    let ((loops, client), (listener, url)) = (begin(|builder| builder), listener());
    let request = Request::get(url).header("connection", "upgrade").header("upgrade", "x");
    let asking = client.request(request.body(Body::empty()).unwrap());
    let says = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    Asked::new(loops, client, asking).meets(&listener, b"\r\n\r\n", says)
}
