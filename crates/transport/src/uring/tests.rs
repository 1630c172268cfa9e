//! The driver and its registrations over socket pairs, without channels. What channels do on top of it is shown by the
//! contract of `netwright-testkit`.

use super::{UringSeed, UringSettings, driver::UringDriver, extension::Arrival, slot::Key};
use bytes::{Bytes, BytesMut};
use mio::Interest;
use netwright_core::{
    OutboundQueue, WaterMarks, WritePromise,
    driver::{Driver, DriverSeed, Event, Events, Ready, Token},
};
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Ends a test that hangs.
const HANGS: Duration = Duration::from_secs(60);
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

fn token(index: u64) -> Token {
    Token::from_u64((1 << 32) + index)
}

/// A driver on this thread; none where the machine has no io_uring, and then it says so.
fn driver_with(settings: UringSettings) -> Option<UringDriver> {
    match UringSeed::with(settings) {
        Ok(seed) => Some(seed.into_driver().unwrap()),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn driver() -> Option<UringDriver> {
    driver_with(UringSettings::new())
}

/// A stream of the driver, and its peer.
fn stream(driver: &UringDriver, index: u64) -> (Key, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let socket = Socket::from(std::os::fd::OwnedFd::from(near));
    (driver.uring.add_stream(socket, token(index)).unwrap(), far)
}

/// One poll.
fn poll(driver: &mut UringDriver, timeout: Option<Duration>) -> Vec<Event> {
    let mut events = Vec::new();
    match driver.wait(timeout, |event| events.push(event)) {
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {} // as a loop takes it
        result => result.unwrap(),
    }
    events
}

/// Polls until `index` was told all of `ready`.
fn wait_for(driver: &mut UringDriver, index: u64, ready: Ready) {
    let (begun, mut seen) = (Instant::now(), Ready::NONE);
    while !seen.contains(ready) {
        assert!(begun.elapsed() < HANGS, "waited in vain for {ready:?}, saw {seen:?}");
        for event in poll(driver, Some(Duration::from_secs(1))) {
            if event.token == token(index) {
                seen |= event.ready;
            }
        }
    }
}

/// Everything that arrives until there is so much.
fn read(driver: &mut UringDriver, key: Key, index: u64, len: usize) -> Vec<u8> {
    let mut got = Vec::new();
    while got.len() < len {
        match receive(driver, key) {
            Some(bytes) => got.extend_from_slice(&bytes),
            None => wait_for(driver, index, Ready::READ),
        }
    }
    got
}

/// What is there, as a stream would receive it.
fn receive(driver: &UringDriver, key: Key) -> Option<BytesMut> {
    match driver.uring.receive(key) {
        Ok(Arrival::Piece(bytes, _)) => Some(bytes),
        Ok(Arrival::End) => panic!("it ended"),
        Ok(Arrival::Look) => {
            let mut room = [0; 10_000];
            let len = driver.uring.socket(key, |mut socket| socket.read(&mut room)).ok()?;
            Some(BytesMut::from(&room[..len]))
        }
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

/// Sends these bytes by the ring.
fn send(driver: &UringDriver, key: Key, bytes: Bytes) {
    let mut queue = OutboundQueue::new(WaterMarks::default());
    let mut outbound = queue.outbound();
    outbound.push(bytes.into(), WritePromise::untracked());
    outbound.flush();
    driver.uring.send(key, &outbound, usize::MAX).unwrap();
}

fn outbound(pieces: &[&'static [u8]]) -> OutboundQueue {
    let mut queue = OutboundQueue::new(WaterMarks::default());
    let mut outbound = queue.outbound();
    for piece in pieces {
        outbound.push(Bytes::from_static(piece).into(), WritePromise::untracked());
    }
    outbound.flush();
    queue
}

#[test]
fn what_a_peer_sends_arrives_in_order_and_its_end_behind_it() {
    let Some(mut driver) = driver() else { return };
    let (key, mut far) = stream(&driver, 1);
    driver.uring.wants_read(key, true);
    far.write_all(b"hello, ").unwrap();
    assert_eq!(read(&mut driver, key, 1, 7), b"hello, ");
    far.write_all(b"world").unwrap();
    drop(far);
    wait_for(&mut driver, 1, Ready::READ | Ready::READ_CLOSED);
    assert_eq!(driver.uring.receive(key).unwrap(), Arrival::Piece(BytesMut::from("world"), true));
    assert_eq!(driver.uring.receive(key).unwrap(), Arrival::End);
}

#[test]
fn pieces_leave_together_and_the_result_says_how_many_bytes_were_taken() {
    let Some(mut driver) = driver() else { return };
    let (key, mut far) = stream(&driver, 1);
    for (pieces, expected) in [(&[&b"one"[..]][..], "one"), (&[b"a", b"bc", b"def"], "abcdef")] {
        let offered = driver.uring.send(key, &outbound(pieces).outbound(), usize::MAX).unwrap();
        assert_eq!(offered, expected.len());
        assert_eq!(driver.uring.sent(key).unwrap(), None, "not before the kernel was entered");
        wait_for(&mut driver, 1, Ready::WRITE);
        assert_eq!(driver.uring.sent(key).unwrap(), Some(offered));
        assert_eq!(driver.uring.sent(key).unwrap(), None, "told once");
        let mut got = vec![0; expected.len()];
        far.read_exact(&mut got).unwrap();
        assert_eq!(got, expected.as_bytes());
    }
}

#[test]
fn a_send_without_a_copy_keeps_its_memory_until_the_kernel_is_done_with_it() {
    let Some(mut driver) = driver_with(UringSettings::new().zero_copy_from(1)) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let near = listener.accept().unwrap().0;
    near.set_nonblocking(true).unwrap();
    let key = driver.uring.add_stream(near.into(), token(1)).unwrap();
    for round in 0..20_u8 {
        let bytes = Bytes::from(vec![round; 10_000]);
        send(&driver, key, bytes);
        wait_for(&mut driver, 1, Ready::WRITE);
        let taken = driver.uring.sent(key).unwrap().unwrap();
        let mut got = vec![0; taken];
        far.read_exact(&mut got).unwrap();
        assert!(got.iter().all(|byte| *byte == round));
    }
    driver.uring.close(key);
    drop(far);
    settle(&mut driver);
    assert_eq!((driver.uring.figures().registered, driver.uring.figures().strays), (0, 0));
}

/// Polls until nothing but the wake-up is with the kernel.
fn settle(driver: &mut UringDriver) {
    let begun = Instant::now();
    while driver.uring.figures().in_flight > 1 {
        assert!(begun.elapsed() < HANGS, "the kernel keeps {:?}", driver.uring.figures());
        poll(driver, Some(Duration::from_millis(10)));
    }
}

#[test]
fn while_paused_nothing_more_is_taken_what_had_come_stays_and_a_quick_change_of_mind_costs_nothing() {
    let Some(mut driver) = driver() else { return };
    let (key, mut far) = stream(&driver, 1);
    driver.uring.wants_read(key, true);
    far.write_all(b"early").unwrap();
    wait_for(&mut driver, 1, Ready::READ);
    let before = driver.uring.figures().submissions;
    driver.uring.wants_read(key, false);
    driver.uring.wants_read(key, true);
    poll(&mut driver, AT_ONCE);
    assert_eq!(driver.uring.figures().submissions, before, "still the same receive");

    driver.uring.wants_read(key, false);
    while driver.uring.figures().in_flight > 2 || driver.uring.figures().submissions < before + 2 {
        poll(&mut driver, AT_ONCE); // until the receive has ended and the peer is watched instead
    }
    far.write_all(b"late").unwrap();
    assert_eq!(poll(&mut driver, AT_ONCE), []);
    assert_eq!(driver.uring.receive(key).unwrap(), Arrival::Piece(BytesMut::from("early"), false));
    assert!(driver.uring.receive(key).is_err());
    driver.uring.wants_read(key, true);
    assert_eq!(read(&mut driver, key, 1, 4), b"late");
}

#[test]
fn a_peer_that_goes_is_noticed_while_nobody_reads_and_its_last_words_are_kept() {
    let Some(mut driver) = driver() else { return };
    let (talks, mut far) = stream(&driver, 1);
    let (silent, gone) = stream(&driver, 2);
    far.write_all(b"last words").unwrap();
    drop(far);
    drop(gone);
    wait_for(&mut driver, 1, Ready::READ_CLOSED);
    for key in [talks, silent] {
        assert_eq!(driver.uring.has_ended(key).unwrap(), None, "nothing was received, so the socket knows");
    }
    assert_eq!(poll(&mut driver, AT_ONCE), [], "told once");
    driver.uring.wants_read(talks, true);
    assert_eq!(read(&mut driver, talks, 1, 10), b"last words");
}

#[test]
fn when_buffers_run_out_receives_go_on_with_the_next_and_there_are_more_from_then_on() {
    let settings = UringSettings::new().buffer_len(512).buffers(2, 16);
    let Some(mut driver) = driver_with(settings) else { return };
    let (key, mut far) = stream(&driver, 1);
    driver.uring.wants_read(key, true);
    let sent: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
    let writer = thread::spawn({
        let sent = sent.clone();
        move || far.write_all(&sent).map(|()| far)
    });
    assert!(read(&mut driver, key, 1, sent.len()) == sent, "all of it, in order");
    let figures = driver.uring.figures();
    assert!(figures.exhausted > 0 && figures.buffers > 2, "{figures:?}");
    assert!(figures.buffers <= 16, "{figures:?}");
    drop(writer.join().unwrap());
}

#[test]
fn pieces_that_are_kept_keep_their_bytes_and_buffers_come_back_when_they_are_dropped() {
    let settings = UringSettings::new().buffer_len(512).buffers(2, 2);
    let Some(mut driver) = driver_with(settings) else { return };
    let (key, mut far) = stream(&driver, 1);
    driver.uring.wants_read(key, true);
    let mut kept = Vec::new();
    for round in 0..100_u8 {
        far.write_all(&[round; 300]).unwrap();
        let mut left = 300;
        while left > 0 {
            match receive(&driver, key) {
                Some(bytes) => {
                    left -= bytes.len();
                    kept.push((round, bytes));
                }
                None => wait_for(&mut driver, 1, Ready::READ),
            }
        }
    }
    assert!(kept.iter().all(|(round, bytes)| bytes.iter().all(|byte| byte == round)));
    assert!(driver.uring.figures().buffers_lent > 0);
    drop(kept);
    assert_eq!(driver.uring.figures().buffers_lent, 0);
}

#[test]
fn completions_that_find_no_room_wait_and_are_counted() {
    let settings = UringSettings::new().submissions(8).completions(16);
    let Some(mut driver) = driver_with(settings) else { return };
    let streams: Vec<_> = (0..64).map(|index| stream(&driver, index)).collect();
    for (key, _) in &streams {
        driver.uring.wants_read(*key, true);
    }
    poll(&mut driver, AT_ONCE);
    for (_, far) in &streams {
        (&mut &*far).write_all(b"x").unwrap();
    }
    for (index, (key, _)) in (0..).zip(&streams) {
        assert_eq!(read(&mut driver, *key, index, 1), b"x");
    }
    assert!(driver.uring.figures().overflows > 0, "{:?}", driver.uring.figures());
    assert_eq!(driver.uring.figures().strays, 0);
}

#[test]
fn closing_with_everything_under_way_frees_the_place_later_and_the_next_owner_gets_nothing_of_it() {
    let Some(mut driver) = driver() else { return };
    for round in 0..200_u64 {
        let (key, mut far) = stream(&driver, round);
        driver.uring.wants_read(key, true);
        poll(&mut driver, AT_ONCE);
        far.write_all(b"for the one before").unwrap();
        driver.uring.send(key, &outbound(&[b"bye"]).outbound(), usize::MAX).unwrap();
        driver.uring.close(key);
        assert!(driver.uring.receive(key).is_err(), "its registration has ended");
        let (next, mut other) = stream(&driver, round + 1_000_000);
        driver.uring.wants_read(next, true);
        other.write_all(b"mine").unwrap();
        assert_eq!(read(&mut driver, next, round + 1_000_000, 4), b"mine");
        let mut bye = Vec::new();
        far.read_to_end(&mut bye).unwrap_or_default(); // a reset, since not all was read
        assert_eq!(bye, b"bye", "what was queued before went out");
        driver.uring.close(next);
        settle(&mut driver);
    }
    let figures = driver.uring.figures();
    assert_eq!((figures.registered, figures.strays), (0, 0), "{figures:?}");
}

#[test]
fn where_much_comes_the_source_receives_by_itself_until_little_comes_and_bytes_keep_their_order() {
    let Some(mut driver) = driver() else { return };
    let (key, mut far) = stream(&driver, 1);
    driver.uring.wants_read(key, true);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
    let writer = thread::spawn({
        let sent = sent.clone();
        move || far.write_all(&sent).map(|()| far)
    });
    assert!(read(&mut driver, key, 1, sent.len()) == sent, "all of it, in order");
    let mut far = writer.join().unwrap().unwrap();
    assert_eq!(driver.uring.receive(key).unwrap(), Arrival::Look);
    driver.uring.leave_bulk(key);
    for _ in 0..10 {
        far.write_all(b"little").unwrap();
        wait_for(&mut driver, 1, Ready::READ);
        let Arrival::Piece(bytes, _) = driver.uring.receive(key).unwrap() else {
            panic!("the ring receives")
        };
        assert_eq!(bytes, "little");
    }
}

#[test]
fn room_to_send_is_told_like_a_send_that_took_nothing() {
    let Some(mut driver) = driver() else { return };
    let (key, mut far) = stream(&driver, 1);
    while driver.uring.socket(key, |mut socket| socket.write(&[0; 4096])).is_ok() {}
    driver.uring.wait_for_room(key).unwrap();
    assert_eq!(poll(&mut driver, AT_ONCE), []);
    assert!(!driver.uring.finish_sending(key), "a close has nothing to wait for");
    far.set_nonblocking(true).unwrap();
    while far.read(&mut [0; 64 * 1024]).is_ok() {}
    wait_for(&mut driver, 1, Ready::WRITE);
    assert_eq!(driver.uring.sent(key).unwrap(), Some(0));
}

#[test]
fn a_send_that_does_not_fit_is_ended_by_a_close_and_says_what_was_taken() {
    let Some(mut driver) = driver() else { return };
    let (key, far) = stream(&driver, 1);
    let large = Bytes::from(vec![7; 1 << 20]);
    let mut left = large.clone();
    loop {
        send(&driver, key, left.clone());
        assert!(driver.uring.finish_sending(key), "its end will be told");
        wait_for(&mut driver, 1, Ready::WRITE);
        match driver.uring.sent(key).unwrap().unwrap() {
            0 => break, // full
            taken => drop(left.split_to(taken)),
        }
    }
    driver.uring.close(key);
    settle(&mut driver);
    let mut got = Vec::new();
    (&far).read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), large.len() - left.len());
}

#[test]
fn a_listener_gives_out_what_it_accepted_and_rests_when_asked_to() {
    let Some(mut driver) = driver() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let key = driver.uring.add_listener(listener.into(), token(1)).unwrap();
    driver.uring.wants_accept(key, true);
    let peers: Vec<_> = (0..5).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let mut accepted = Vec::new();
    while accepted.len() < peers.len() {
        match driver.uring.accepted(key) {
            Some(socket) => accepted.push(socket.unwrap().peer_addr().unwrap().as_socket().unwrap()),
            None => wait_for(&mut driver, 1, Ready::READ),
        }
    }
    let expected: Vec<_> = peers.iter().map(|peer| peer.local_addr().unwrap()).collect();
    assert_eq!(accepted, expected);
    driver.uring.wants_accept(key, false);
    settle(&mut driver);
    let _waiting = TcpStream::connect(addr).unwrap();
    assert_eq!(poll(&mut driver, AT_ONCE), []);
    driver.uring.close(key);
    settle(&mut driver);
    assert_eq!(driver.uring.figures().registered, 0);
}

#[test]
fn a_connect_ends_with_a_socket_or_with_the_reason_and_can_be_given_up() {
    let Some(mut driver) = driver() else { return };
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let key = driver.uring.add_connect(socket(), addr.into(), token(1)).unwrap();
    wait_for(&mut driver, 1, Ready::WRITE);
    let connected = driver.uring.connected(key).unwrap().unwrap();
    assert_eq!(connected.peer_addr().unwrap().as_socket(), Some(addr));
    assert!(driver.uring.connected(key).is_none(), "told once");

    drop(listener);
    let key = driver.uring.add_connect(socket(), addr.into(), token(2)).unwrap();
    wait_for(&mut driver, 2, Ready::WRITE);
    let error = driver.uring.connected(key).unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);

    let full = socket();
    full.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(1).unwrap();
    let addr = full.local_addr().unwrap();
    let _waiting: Vec<_> = (0..2).map(|_| TcpStream::connect(addr.as_socket().unwrap()).unwrap()).collect();
    let key = driver.uring.add_connect(socket(), addr, token(3)).unwrap();
    assert_eq!(poll(&mut driver, AT_ONCE), []);
    driver.uring.close(key);
    settle(&mut driver);
    assert_eq!(driver.uring.figures().registered, 0);
}

#[test]
fn a_descriptor_of_a_sources_own_is_watched_until_it_is_deregistered() {
    let Some(mut driver) = driver() else { return };
    let (near, mut far) = UnixStream::pair().unwrap();
    driver.uring.register(&near, token(1), Interest::READABLE).unwrap();
    let again = driver.uring.register(&near, token(1), Interest::READABLE).unwrap_err();
    assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(poll(&mut driver, AT_ONCE), []);
    for _ in 0..3 {
        far.write_all(b"x").unwrap();
        wait_for(&mut driver, 1, Ready::READ);
    }
    driver.uring.reregister(&near, token(2), Interest::WRITABLE).unwrap();
    wait_for(&mut driver, 2, Ready::WRITE);
    driver.uring.deregister(&near).unwrap();
    far.write_all(b"x").unwrap();
    settle(&mut driver);
    assert_eq!(poll(&mut driver, AT_ONCE), []);
    assert_eq!(driver.uring.deregister(&near).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_wake_up_before_the_poll_and_one_during_it_end_it() {
    let Some(seed) = UringSeed::new().ok() else { return };
    let waker = seed.waker();
    let mut driver = seed.into_driver().unwrap();
    waker.wake();
    assert_eq!(poll(&mut driver, Some(HANGS)), []);
    let begun = Instant::now();
    let other = thread::spawn(move || waker.wake());
    assert_eq!(poll(&mut driver, Some(HANGS)), []);
    assert!(begun.elapsed() < HANGS);
    other.join().unwrap();
    assert_eq!(poll(&mut driver, Some(Duration::from_millis(1))), [], "the time limit ends it too");
}

#[test]
fn no_wake_up_is_lost_however_it_falls_together_with_rebuilds() {
    let Some(seed) = UringSeed::new().ok() else { return };
    let waker = seed.waker();
    let mut driver = seed.into_driver().unwrap();
    let (sent, received) = mpsc::channel();
    let (seen, acknowledged) = mpsc::channel();
    let other = thread::spawn(move || {
        for round in 0..200 {
            sent.send(round).unwrap(); // as a task is queued before its wake-up
            waker.wake();
            acknowledged.recv().unwrap();
        }
    });
    for round in 0..200 {
        if round % 4 == 0 {
            driver.rebuild().unwrap();
        }
        let message = loop {
            match received.try_recv() {
                Ok(message) => break message,
                Err(_) => {
                    let begun = Instant::now();
                    poll(&mut driver, Some(HANGS));
                    assert!(begun.elapsed() < HANGS, "round {round}");
                }
            }
        };
        assert_eq!(message, round);
        seen.send(()).unwrap();
    }
    other.join().unwrap();
}

#[test]
fn a_rebuild_loses_nothing_of_what_is_under_way() {
    let Some(mut driver) = driver() else { return };
    let (reads, mut far) = stream(&driver, 1);
    driver.uring.wants_read(reads, true);
    far.write_all(b"before").unwrap();
    wait_for(&mut driver, 1, Ready::READ);
    let (sends, mut peer) = stream(&driver, 2);
    let large = Bytes::from(vec![9; 4 << 20]);
    send(&driver, sends, large.clone());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let accepts = driver.uring.add_listener(listener.into(), token(3)).unwrap();
    driver.uring.wants_accept(accepts, true);
    poll(&mut driver, AT_ONCE);

    assert_eq!(driver.rebuild().unwrap(), 3);
    wait_for(&mut driver, 1, Ready::READ); // as if it were new
    far.write_all(b", after").unwrap();
    assert_eq!(read(&mut driver, reads, 1, 13), b"before, after");
    let _client = TcpStream::connect(addr).unwrap();
    wait_for(&mut driver, 3, Ready::READ);
    assert!(driver.uring.accepted(accepts).unwrap().is_ok());

    // The send was cut; what it took is told, and the rest is sent by its source.
    let drain = thread::spawn(move || {
        let mut got = Vec::new();
        peer.read_to_end(&mut got).map(|_| got)
    });
    let mut left = large;
    while !left.is_empty() {
        let taken = match driver.uring.sent(sends).unwrap() {
            Some(taken) => taken,
            None => {
                wait_for(&mut driver, 2, Ready::WRITE);
                continue;
            }
        };
        drop(left.split_to(taken));
        if !left.is_empty() {
            send(&driver, sends, left.clone());
        }
    }
    driver.uring.close(sends);
    poll(&mut driver, AT_ONCE);
    let got = drain.join().unwrap().unwrap();
    assert!(got.len() == 4 << 20 && got.iter().all(|byte| *byte == 9));
}

#[test]
fn a_connect_goes_on_after_a_rebuild() {
    let Some(mut driver) = driver() else { return };
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    full.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(1).unwrap();
    let addr = full.local_addr().unwrap();
    let waiting: Vec<_> = (0..2).map(|_| TcpStream::connect(addr.as_socket().unwrap()).unwrap()).collect();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let key = driver.uring.add_connect(socket, addr, token(1)).unwrap();
    poll(&mut driver, AT_ONCE);
    driver.rebuild().unwrap();
    for _ in waiting {
        drop(full.accept().unwrap()); // makes room in the queue; the next attempt of the system gets in
    }
    wait_for(&mut driver, 1, Ready::WRITE);
    driver.uring.connected(key).unwrap().unwrap();
}

#[test]
fn a_driver_without_registrations_moves_to_another_thread_with_its_waker_and_one_with_some_stays() {
    let Some(driver) = driver() else { return };
    let (key, _far) = stream(&driver, 1);
    let uring = driver.uring.clone();
    let mut driver = Box::new(driver).suspend().err().expect("something is registered");
    driver.poll(AT_ONCE, &mut Events::default()).unwrap();
    uring.close(key);
    driver.poll(AT_ONCE, &mut Events::default()).unwrap();
    let seed = loop {
        // Its last operation may still be on its way back.
        driver = match driver.suspend() {
            Ok(seed) => break seed,
            Err(mut driver) => {
                driver.poll(Some(Duration::from_millis(10)), &mut Events::default()).unwrap();
                driver
            }
        }
    };
    let waker = seed.waker();
    waker.wake();
    let ended = thread::spawn(move || {
        let mut driver = seed.start().unwrap();
        driver.poll(Some(HANGS), &mut Events::default())
    });
    ended.join().unwrap().unwrap();
    assert!(uring.receive(key).is_err(), "it has left this thread");
}

#[test]
fn the_end_takes_everything_back_from_the_kernel() {
    let Some(mut driver) = driver() else { return };
    let streams: Vec<_> = (0..10).map(|index| stream(&driver, index)).collect();
    for (key, _) in &streams {
        driver.uring.wants_read(*key, true);
        send(&driver, *key, Bytes::from(vec![1; 4 << 20]));
    }
    poll(&mut driver, AT_ONCE);
    let uring = driver.uring.clone();
    drop(driver);
    assert!(uring.receive(streams[0].0).is_err());
    for (_, far) in &streams {
        let mut rest = Vec::new();
        (&*far).read_to_end(&mut rest).unwrap(); // ends, because the descriptors were closed
    }
}

#[test]
fn sizes_that_cannot_work_are_refused_with_a_reason() {
    let Some(_) = driver() else { return };
    let error = UringSeed::with(UringSettings { buffers_max: 3, ..UringSettings::new() }).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("registering a ring of buffers") && text.contains("Linux"), "{text}");
}

/// A connection over which nothing more can be sent for now.
fn full_tcp_stream(driver: &UringDriver, index: u64) -> (Key, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    near.set_nonblocking(true).unwrap();
    while near.write(&[7; 65_536]).is_ok() {}
    (driver.uring.add_stream(Socket::from(near), token(index)).unwrap(), far)
}

/// Reads until the end, on a thread of its own.
fn read_everything(mut far: TcpStream) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        far.set_read_timeout(Some(HANGS)).unwrap();
        while far.read(&mut [0; 65_536]).is_ok_and(|len| len > 0) {}
    })
}

/// Has everything done that is to be done now.
fn look_round(driver: &mut UringDriver) {
    for _ in 0..20 {
        poll(driver, Some(Duration::from_millis(1)));
    }
}

/// Where completions find no room, the kernel ends an operation that was to last, with whatever it had to tell.
#[test]
fn a_wait_for_room_outlives_completions_that_find_no_room() {
    // How many fit into one go of the kernel is its own business: for some number the wait is among those that find no room.
    for others in 1..40 {
        let Some(mut driver) = driver_with(UringSettings::new().submissions(8).completions(16)) else {
            return;
        };
        let (key, far) = full_tcp_stream(&driver, 1);
        driver.uring.wait_for_room(key).unwrap();
        let others: Vec<_> = (2..2 + others).map(|index| stream(&driver, index)).collect();
        others.iter().for_each(|(key, _)| driver.uring.wants_read(*key, true));
        look_round(&mut driver);

        // All of this is there when the kernel is entered next: first what fills the queue, then an end that is no room.
        for (_, other) in &others {
            (&mut &*other).write_all(b"x").unwrap();
        }
        far.shutdown(std::net::Shutdown::Write).unwrap();
        look_round(&mut driver);
        assert_eq!(driver.uring.sent(key).unwrap(), None, "there is no room yet");

        let reader = read_everything(far);
        wait_for(&mut driver, 1, Ready::WRITE);
        assert_eq!(driver.uring.sent(key).unwrap(), Some(0));
        driver.uring.close(key);
        drop(driver);
        reader.join().unwrap();
    }
}

/// The kernel's own wait for room takes the peer's end for room, again and again: nothing may wait there.
#[test]
fn a_send_that_finds_no_room_is_over_and_room_is_told_also_behind_the_peers_end() {
    const LARGE: &[u8] = &[7; 65_536];
    for zero_copy_from in [usize::MAX, 1] {
        for pieces in [&[LARGE][..], &[LARGE, LARGE]] {
            let settings = UringSettings::new().zero_copy_from(zero_copy_from);
            let Some(mut driver) = driver_with(settings) else { return };
            let (key, far) = full_tcp_stream(&driver, 1);
            far.shutdown(std::net::Shutdown::Write).unwrap();
            let begun = Instant::now();
            loop {
                driver.uring.send(key, &outbound(pieces).outbound(), usize::MAX).unwrap();
                look_round(&mut driver);
                match driver.uring.sent(key).unwrap() {
                    Some(taken) => assert!(taken > 0, "there is no room yet"), // some was left
                    None => break,
                }
                assert!(begun.elapsed() < HANGS, "it becomes full");
            }
            assert!(!driver.uring.finish_sending(key), "a close has nothing to wait for");

            let reader = read_everything(far);
            wait_for(&mut driver, 1, Ready::WRITE);
            assert_eq!(driver.uring.sent(key).unwrap(), Some(0));
            driver.uring.close(key);
            settle(&mut driver);
            assert_eq!(driver.uring.figures().strays, 0);
            reader.join().unwrap();
        }
    }
}

#[test]
fn what_breaks_a_connection_is_not_told_as_the_end_of_a_send() {
    let Some(mut driver) = driver() else { return };
    let (key, far) = full_tcp_stream(&driver, 1);
    far.shutdown(std::net::Shutdown::Write).unwrap();
    driver.uring.set_end(key, None); // as its source does that has read it
    look_round(&mut driver);
    SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
    drop(far);
    let begun = Instant::now();
    loop {
        let events = poll(&mut driver, Some(Duration::from_millis(1)));
        assert!(
            !events.iter().any(|event| event.ready.contains(Ready::WRITE)),
            "{events:?}: no send is under way"
        );
        if events.iter().any(|event| event.ready.contains(Ready::ERROR)) {
            break;
        }
        assert!(begun.elapsed() < HANGS, "the reset is told");
    }
}
