//! What io_uring holds when clients vanish: the ring's own figures, beside what the contract shows of it.

#![cfg(target_os = "linux")]

use bytes::BytesMut;
use netwright_core::{AppContext, Application, Envelope, EventLoop, LocalLoop, Outgoing, pipeline};
use netwright_transport::{
    Backend, Datagram, Datagrams, Server,
    uring::{Uring, UringFigures, UringSeed},
};
use socket2::SockRef;
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::mpsc,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(30);

struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

struct Answer;

impl Application for Answer {
    type Read = Datagram;
    type Write = Envelope;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
        cx.write_and_flush(datagram.into_answer());
    }
}

fn figures(event_loop: &EventLoop) -> UringFigures {
    let (tell, told) = mpsc::channel();
    let ask = move || tell.send(LocalLoop::current().unwrap().driver::<Uring>().unwrap().figures()).unwrap();
    event_loop.execute(ask).unwrap();
    told.recv_timeout(PATIENCE).unwrap()
}

/// Small messages: these are the ring's own to receive and send.
#[test]
fn clients_killed_while_small_messages_fly_leave_no_operation_and_no_buffer_behind() {
    if let Err(error) = UringSeed::new() {
        return println!("ignored: {error}");
    }
    let kills = std::env::var("NETWRIGHT_KILLS").map_or(300, |text| text.parse().unwrap());
    let group = Backend::Uring.event_loops(1).unwrap();
    let server = Server::builder().group(group.clone()).pipeline(|_| pipeline().app(Echo));
    let server = server.bind("127.0.0.1:0").wait().unwrap();
    let addr = server.local_addr().unwrap();
    for round in 0..kills {
        let own = round as u8;
        let mut peer = TcpStream::connect(addr).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        for len in [1, 100, 1000, 4000] {
            peer.write_all(&vec![own; len]).unwrap();
        }
        if round % 3 > 0 {
            let mut got = vec![0; 1 + round % 5000];
            peer.read_exact(&mut got).unwrap();
            assert!(got.iter().all(|byte| *byte == own), "client {round} got what was meant for another");
        }
        if round % 2 == 0 {
            SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap(); // a reset
        }
    }
    let event_loop = group.iter().next().unwrap();
    let begun = Instant::now();
    let left = loop {
        let figures = figures(&event_loop);
        // The listener, with its accept; and the wake-up.
        if (figures.registered, figures.in_flight, figures.buffers_lent) == (1, 2, 0) {
            break figures;
        }
        assert!(begun.elapsed() < PATIENCE, "{figures:?}");
    };
    assert_eq!(left.strays, 0, "{left:?}");
    assert_eq!(left.overflows, 0, "{left:?}");
    assert_eq!(server.figures().accepted, kills as u64);
}

#[test]
fn a_loop_with_io_uring_hosts_unix_sockets_and_datagrams_too() {
    if let Err(error) = UringSeed::new() {
        return println!("ignored: {error}");
    }
    let group = Backend::Uring.event_loops(1).unwrap();
    let path = format!("unix:@netwright-uring-{}", std::process::id());
    let server =
        Server::builder().group(group).pipeline(|_| pipeline().app(Echo)).bind(&path).wait().unwrap();
    let address = server.address().to_string();
    let name = socket2::SockAddr::unix(format!("\0netwright-uring-{}", std::process::id())).unwrap();
    let mut peer = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    peer.connect(&name).unwrap_or_else(|error| panic!("{address}: {error}"));
    peer.write_all(b"hello").unwrap();
    let mut got = [0; 5];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"hello");

    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.set_read_timeout(Some(PATIENCE)).unwrap();
    let datagrams = Datagrams::builder().backend(Backend::Uring).pipeline(|| pipeline().app(Answer)).unwrap();
    let channel = datagrams.bind("127.0.0.1:0").wait().unwrap();
    sender.send_to(b"hello", channel.local_addr().unwrap()).unwrap();
    let (len, _) = sender.recv_from(&mut got).unwrap();
    assert_eq!(&got[..len], b"hello");
}
