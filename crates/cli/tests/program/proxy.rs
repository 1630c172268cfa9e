use super::{PATIENCE, Peer, Running, numbered};
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener},
    thread,
    time::Duration,
};

fn proxy(target: SocketAddr) -> (Running, SocketAddr) {
    proxy_with(target, &["--loops", "2"])
}

fn proxy_with(target: SocketAddr, further: &[&str]) -> (Running, SocketAddr) {
    let target = target.to_string();
    let arguments = [&["serve", "proxy", "--listen", "127.0.0.1:0", "--to", &target], further].concat();
    let (proxy, addresses) = Running::serve(&arguments, 1);
    (proxy, addresses[0])
}

#[test]
fn what_goes_through_comes_out_unchanged_both_ways_and_ends_with_its_end() {
    let (_echo, target) = Running::echo();
    let bytes = numbered(3_000_000);
    for model in [&["--loops", "2"], &["--model", "blocking"]] {
        let (_proxy, address) = proxy_with(target, model);
        for _ in 0..4 {
            assert!(Peer::connect(address).exchange(&bytes) == bytes, "{model:?}");
        }
    }
}

#[test]
fn the_end_of_one_direction_is_passed_on_and_leaves_the_other_open() {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_proxy, address) = proxy(target.local_addr().unwrap());
    let mut front = Peer::connect(address);
    front.send("question").end_output();
    let mut back = Peer::new(target.accept().unwrap().0);
    assert_eq!(back.rest(), b"question", "and its end");
    back.send("answer\n");
    assert_eq!(front.line(), "answer");
    back.send("the rest").end_output();
    assert_eq!(front.rest(), b"the rest");
}

#[test]
fn when_one_end_is_gone_the_other_is_closed() {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_proxy, address) = proxy(target.local_addr().unwrap());

    let mut front = Peer::connect(address);
    let mut back = Peer::new(target.accept().unwrap().0);
    front.send("x");
    back.stream.read_exact(&mut [0]).unwrap();
    drop(front);
    assert_eq!(back.rest(), b"");

    let mut front = Peer::connect(address);
    drop(target.accept().unwrap());
    assert_eq!(front.rest(), b"");
}

#[test]
fn without_a_target_the_front_is_closed() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_proxy, address) = proxy(nobody);
    assert_eq!(Peer::connect(address).rest(), b"");
}

/// More than the buffers of four sockets hold, however far the system lets them grow.
const TOO_MUCH: usize = 256 << 20;

#[test]
fn a_target_that_does_not_read_stops_who_writes_and_gets_everything_later() {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_proxy, address) = proxy(target.local_addr().unwrap());
    let front = Peer::connect(address);
    let mut back = Peer::new(target.accept().unwrap().0);

    // Until nothing moves any more. A slow machine may stop this early; then less is shown, but nothing wrong.
    front.socket().set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let chunk = numbered(1 << 20);
    let mut written = 0;
    loop {
        match front.socket().write(&chunk[written % chunk.len()..]) {
            Ok(len) => written += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                assert!(
                    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
                    "{error}"
                );
                break;
            }
        }
        assert!(written < TOO_MUCH, "the proxy takes what it cannot pass on");
    }

    // Everything that was taken arrives, and so does what is written once there is room.
    front.socket().set_write_timeout(Some(PATIENCE)).unwrap();
    let total = written.next_multiple_of(chunk.len()) + 8 * chunk.len();
    thread::scope(|scope| {
        scope.spawn(|| {
            while written < total {
                written += front.socket().write(&chunk[written % chunk.len()..]).unwrap();
            }
        });
        let mut piece = vec![0; chunk.len()];
        for _ in 0..total / chunk.len() {
            back.stream.read_exact(&mut piece).unwrap();
            assert!(piece == chunk);
        }
    });
}
