use super::{PATIENCE, Peer, Running};
use std::net::{SocketAddr, UdpSocket};

fn peer() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    socket
}

fn ask(socket: &UdpSocket, server: SocketAddr, question: &[u8]) -> Vec<u8> {
    socket.send_to(question, server).expect("loopback is there");
    let mut room = [0; 2048];
    let (len, from) = socket.recv_from(&mut room).expect("an answer");
    assert_eq!(from, server);
    room[..len].to_vec()
}

#[test]
fn echo_sends_datagrams_back_in_every_reactor_model_with_event_loops() {
    for model in ["single", "workers", "acceptors", "shared-port"] {
        let arguments = ["serve", "echo", "--model", model, "--listen", "udp:127.0.0.1:0"];
        let (_server, addresses) = Running::serve(&arguments, 1);
        for question in [&b"hello"[..], b"", &[7; 1400]] {
            assert!(ask(&peer(), addresses[0], question) == question, "{model}");
        }
    }
}

#[test]
fn streams_and_datagrams_are_served_side_by_side() {
    let arguments = ["serve", "time", "--listen", "udp:127.0.0.1:0", "--listen", "127.0.0.1:0"];
    let (_server, addresses) = Running::serve(&arguments, 2);
    let [stream, datagram] = addresses[..] else { panic!("two addresses") };
    assert!(Peer::connect(stream).send("QUERY TIME ORDER\n").line().ends_with(" GMT"));
    let peer = peer();
    for (order, end) in
        [("QUERY TIME ORDER", " GMT\n"), ("QUERY TIME ORDER\r\n", " GMT\n"), ("", "BAD ORDER\n")]
    {
        let answer = String::from_utf8(ask(&peer, datagram, order.as_bytes())).expect("text");
        assert!(answer.ends_with(end), "{order:?}: {answer:?}");
    }
}

#[test]
fn discard_takes_datagrams_and_answers_nothing() {
    let arguments = ["serve", "discard", "--listen", "udp:127.0.0.1:0"];
    let (mut server, addresses) = Running::serve(&arguments, 1);
    let peer = peer();
    for _ in 0..100 {
        peer.send_to(b"into the void", addresses[0]).expect("loopback is there");
    }
    #[cfg(unix)]
    {
        server.signal(rustix::process::Signal::TERM);
        assert!(server.ended().success());
    }
    peer.set_nonblocking(true).expect("every socket can");
    assert!(peer.recv(&mut [0; 64]).is_err());
    let _ = &mut server;
}
