//! The PROXY protocol over real connections: every transport, a header in pieces, and what a drain, a reset and a silent proxy come to.

use bytes::BytesMut;
use netwright_core::{Address, Channel, CloseCause, Peer, pipeline};
use netwright_handler::{
    AddressFilter, PerAddress, ProxyHeader, ProxyProtocol, ProxyProtocolError, SendProxyHeader,
    TrustedNetworks,
};
use netwright_transport::{AccessList, Backend, Client, Server};
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::mpsc,
    time::Duration,
};

/// Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(20);

fn header() -> ProxyHeader {
    let (source, destination) = ("192.0.2.7:4711", "198.51.100.1:443");
    let header =
        ProxyHeader::new(source.parse().expect("an address"), destination.parse().expect("an address"));
    header.with_authority("example.org").with_checksum()
}

/// The backends that work here, and where a server listens on each.
fn places() -> Vec<(Backend, &'static str)> {
    let mut places = Vec::new();
    for backend in [Backend::Readiness, Backend::Uring, Backend::Blocking] {
        match backend.event_loops(1) {
            Ok(_) => {
                places.push((backend, "127.0.0.1:0"));
                #[cfg(target_os = "linux")]
                places.push((backend, "unix:@proxy"));
                places.push((backend, "local:proxy"));
            }
            Err(error) => println!("skipped: {backend} does not work here: {error}"),
        }
    }
    places
}

/// Greets its client by the address that it has.
fn greets(backend: Backend, at: &str, trusted: &TrustedNetworks, tell: mpsc::Sender<CloseCause>) -> Server {
    let trusted = trusted.clone();
    // Names are of this process, and tests share it.
    let at = match at.contains("proxy") {
        true => format!("{at}-{backend}-{:?}", std::thread::current().id()),
        false => at.to_owned(),
    };
    let mut bound = Server::builder()
        .group(backend.event_loops(1).expect("it was made before"))
        .pipeline(move |_| {
            let tell = tell.clone();
            pipeline()
                .filter(ProxyProtocol::from(trusted.clone()))
                .filter(AddressFilter::new(AccessList::new()))
                .add(netwright_core::observe(Ends(tell)))
                .handle(|cx, _: BytesMut| {
                    let peer = cx.view().peer().map_or("?".to_owned(), |peer| peer.to_string());
                    cx.write_and_flush(format!("hello, {peer}"));
                })
        })
        .bind(at);
    bound.wait().expect("a free place")
}

/// Tells how a channel has ended.
struct Ends(mpsc::Sender<CloseCause>);

impl netwright_core::Observer for Ends {
    type Read = BytesMut;
    type Write = netwright_core::Outgoing;

    fn sees_inactive(&mut self, cause: &CloseCause) {
        let _ = self.0.send(cause.clone());
    }
}

#[test]
fn a_client_behind_a_proxy_is_greeted_by_its_own_address_on_every_transport() {
    for (backend, at) in places() {
        let (tell, ended) = mpsc::channel();
        let server = greets(backend, at, &TrustedNetworks::everyone(), tell);
        let (told, greetings) = mpsc::channel();
        let client = Client::builder()
            .group(backend.event_loops(1).expect("it was made before"))
            .pipeline(move || {
                let told = told.clone();
                let send = SendProxyHeader::v2(&header()).expect("it can be written");
                pipeline().filter(send).serve(async move |mut peer: Peer| {
                    peer.write_and_flush("hello").await?;
                    let _ = told.send(peer.read().await?.unwrap_or_default());
                    Ok::<(), CloseCause>(())
                })
            })
            .expect("a client");
        let channel: Channel<_> = client.connect(server.address()).wait().expect("it listens");
        let greeting = greetings.recv_timeout(PATIENCE).expect("a greeting");
        assert_eq!(greeting, "hello, 192.0.2.7:4711", "{backend} {at}");
        assert!(!matches!(channel.peer(), Some(Address::Ip(peer)) if peer.ip().to_string() == "192.0.2.7"));
        channel.closed().wait().expect("an end");
        ended.recv_timeout(PATIENCE).expect("the end is told");
    }
}

fn dial(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.local_addr().expect("on the network")).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("an option that every socket has");
    stream.set_nodelay(true).expect("an option that every socket has");
    stream
}

fn networks() -> impl Iterator<Item = Backend> {
    places().into_iter().filter(|(_, at)| at.starts_with("127")).map(|(backend, _)| backend)
}

#[test]
fn a_header_byte_by_byte_is_the_header_and_what_follows_is_the_clients() {
    for backend in networks() {
        let (tell, _ended) = mpsc::channel();
        let server = greets(backend, "127.0.0.1:0", &TrustedNetworks::loopback(), tell);
        let mut stream = dial(&server);
        for byte in header().encode_v2().expect("it can be written") {
            stream.write_all(&[byte]).expect("it reads");
        }
        stream.write_all(b"x").expect("it reads");
        let mut greeting = [0; 21];
        stream.read_exact(&mut greeting).expect("a greeting");
        assert_eq!(&greeting, b"hello, 192.0.2.7:4711");
    }
}

#[test]
fn who_may_not_say_it_who_says_nonsense_and_who_leaves_in_the_middle_are_closed_and_others_are_served() {
    for backend in networks() {
        let (tell, ended) = mpsc::channel();
        let elsewhere: TrustedNetworks = "192.0.2.0/24".parse().expect("a network");
        let server = greets(backend, "127.0.0.1:0", &elsewhere, tell.clone());
        let read = dial(&server).read(&mut [0; 1]);
        assert!(!matches!(read, Ok(1..)), "{backend}: it was served");

        let server = greets(backend, "127.0.0.1:0", &TrustedNetworks::loopback(), tell);
        for nonsense in
            ["GET / HTTP/1.1\r\n\r\n", "PROXY TCP4 1.2.3.4\r\n", "\r\n\r\n\0\r\nQUIT\n\x21\x11\x7f\x7f"]
        {
            let mut stream = dial(&server);
            stream.write_all(nonsense.as_bytes()).expect("it reads");
            assert!(!matches!(stream.read(&mut [0; 1]), Ok(1..)), "{backend}: {nonsense:?} was served");
        }
        let mut stream = dial(&server);
        stream.write_all(b"PROXY TCP4 1").expect("it reads");
        drop(stream);
        drop(dial(&server)); // a look whether it lives
        let mut stream = dial(&server);
        let line = header().encode_v1().expect("it can be written");
        stream.write_all(&line).expect("it reads");
        stream.write_all(b"x").expect("it reads");
        stream.read_exact(&mut [0; 21]).expect("a greeting");
        assert!(ended.try_recv().is_err(), "{backend}: what never began has no end");
        server.shutdown_now().wait().expect("an end");
        assert_eq!(server.figures().open, 0);
    }
}

#[test]
fn a_header_that_does_not_come_ends_the_connection_at_its_deadline() {
    for backend in networks() {
        let (tell, told) = mpsc::channel();
        let server = Server::builder()
            .group(backend.event_loops(1).expect("it was made before"))
            .pipeline(move |_| {
                let tell = tell.clone();
                let stage =
                    ProxyProtocol::from(TrustedNetworks::loopback()).deadline(Duration::from_millis(30));
                pipeline().filter(stage).app(Errors(tell))
            })
            .bind("127.0.0.1:0")
            .wait()
            .expect("a free port");
        let mut stream = dial(&server);
        stream.write_all(b"PROX").expect("it reads");
        let error = told.recv_timeout(PATIENCE).expect("an error");
        assert!(matches!(error, Some(ProxyProtocolError::TooLate { read: 0..=4, .. })), "{error:?}");
        assert!(!matches!(stream.read(&mut [0; 1]), Ok(1..)));
    }
}

/// Tells what went wrong.
struct Errors(mpsc::Sender<Option<ProxyProtocolError>>);

impl netwright_core::Application for Errors {
    type Read = BytesMut;
    type Write = netwright_core::Outgoing;

    fn read(&mut self, _: &mut netwright_core::AppContext<'_, Self>, _: BytesMut) {}
    fn error(&mut self, _: &mut netwright_core::AppContext<'_, Self>, fault: netwright_core::Fault) {
        let _ = self.0.send(fault.downcast_ref().cloned());
    }
}

#[test]
fn a_client_that_is_refused_behind_a_proxy_is_counted_by_its_reason_in_the_figures_of_its_server() {
    for backend in networks() {
        let list = AccessList::new().deny("203.0.113.0/24").expect("a network");
        let seats = PerAddress::new(1);
        let server = Server::builder()
            .group(backend.event_loops(1).expect("it was made before"))
            .pipeline(move |_| {
                pipeline()
                    .filter(ProxyProtocol::from(TrustedNetworks::loopback()))
                    .filter(AddressFilter::new(list.clone()))
                    .filter(seats.stage().farewell("one of you\n"))
                    .handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes))
            })
            .bind("127.0.0.1:0")
            .wait()
            .expect("a free place");
        let come = |client: &str| {
            let mut stream = dial(&server);
            let header = format!("PROXY TCP4 {client} 198.51.100.1 4711 80\r\nx");
            stream.write_all(header.as_bytes()).expect("it listens");
            let mut byte = [0];
            let answered = matches!(stream.read(&mut byte), Ok(1));
            (stream, answered.then_some(byte[0]))
        };
        let (served, answer) = come("192.0.2.7");
        assert_eq!(answer, Some(b'x'));
        assert_eq!(come("203.0.113.9").1, None);
        let (_again, answer) = come("192.0.2.7");
        assert_eq!(answer, Some(b'o'));
        let figures = server.figures();
        let refused = (figures.refused_denied, figures.refused_per_address, figures.told_politely);
        assert_eq!((figures.accepted, refused), (3, (1, 1, 1)), "{backend}");
        drop(served);
    }
}
