//! Load for a server: many connections on one thread that never sleeps, and every byte is looked at.
//!
//! ```text
//!   what is sent (endless)      … 7 1 4 9 2 …
//!   what comes back (endless)   … 7 1 4 9 2 …      the same for an echo server; responses without end for one of HTTP
//!                                   ▲     ▲
//!                            received     sent      each connection of an echo starts at a place of its own
//! ```
//! A load that sleeps would have the server pay for waking it: an interrupt to the other core, which is dear in a virtual
//! machine. So the poll has a timeout of 0 here.

use crate::Dice;
use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    fs::{OFlags, fcntl_setfl},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketType, bind, connect, recv, send, socket,
        sockopt::{set_socket_linger, set_tcp_nodelay},
    },
};
use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

/// Length of an echo's pattern: no shorter than a read, and a prime, so that no message meets the same part as the one before.
const PATTERN: usize = 65_537;
/// One read takes at most this much.
const BUFFER: usize = 64 * 1024;
const EVENTS: usize = 1024;
/// Connections from one source address: well below the number of its ports.
const PER_SOURCE: usize = 5_000;
/// A server that answers nothing for so long never will.
const SILENCE: Duration = Duration::from_secs(20);
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

struct Connection {
    socket: OwnedFd,
    /// Where in the pattern the next byte to be sent and the next to be received are.
    sent: usize,
    received: usize,
    /// Bytes that should be sent and the socket did not take yet.
    unsent: usize,
    /// Bytes received of a message that is not complete.
    part: usize,
}

/// Connections to one server.
pub struct Load {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    depth: usize,
    requests: Endless,
    answers: Endless,
    buffer: Vec<u8>,
}

/// Messages without end, all of the same length.
struct Endless {
    message: usize,
    /// After so many bytes it starts anew; no fewer than one read takes.
    period: usize,
    /// Twice the same, so that a slice of it never has to wrap.
    bytes: Vec<u8>,
}

impl Endless {
    /// `start` again and again.
    fn new(start: &[u8], message: usize) -> Self {
        let mut bytes = start.repeat(BUFFER.div_ceil(start.len()));
        let period = bytes.len();
        bytes.extend_from_within(..);
        Self { message, period, bytes }
    }

    fn at(&self, place: usize, len: usize) -> &[u8] {
        &self.bytes[place..place + len]
    }

    fn after(&self, place: usize, len: usize) -> usize {
        (place + len) % self.period
    }
}

/// What a run came to.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Messages that came back.
    pub requests: u64,
    /// From the first byte sent to the last received.
    pub time: Duration,
}

impl Load {
    /// Connects to an echo server; each connection will have `depth` messages of `message` bytes under way.
    pub fn connect(server: SocketAddr, connections: usize, message: usize, depth: usize) -> Self {
        let mut dice = Dice::new(1);
        let pattern: Vec<u8> = (0..PATTERN).map(|_| dice.below(256) as u8).collect();
        let endless = || Endless::new(&pattern, message);
        let start = || dice.below(PATTERN as u64) as usize;
        Self::new(server, connections, depth, endless(), endless(), start)
    }

    /// Connects to a server that answers every `request` with the same `answer`; each connection will have `depth`
    /// requests under way.
    pub fn ask(server: SocketAddr, connections: usize, depth: usize, request: &[u8], answer: &[u8]) -> Self {
        Self::ask_in_turn(server, connections, depth, &[request], answer)
    }

    /// As [`ask`](Self::ask), with several requests of the same length, one after the other.
    pub fn ask_in_turn(
        server: SocketAddr,
        connections: usize,
        depth: usize,
        requests: &[impl AsRef<[u8]>],
        answer: &[u8],
    ) -> Self {
        let message = requests[0].as_ref().len();
        let all: Vec<u8> = requests.iter().flat_map(|request| request.as_ref()).copied().collect();
        assert_eq!(all.len(), message * requests.len(), "requests of the same length");
        let endless = |bytes: &[u8], message| Endless::new(bytes, message);
        Self::new(server, connections, depth, endless(&all, message), endless(answer, answer.len()), || 0)
    }

    fn new(
        server: SocketAddr,
        connections: usize,
        depth: usize,
        requests: Endless,
        answers: Endless,
        mut start: impl FnMut() -> usize,
    ) -> Self {
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("a descriptor is free");
        let connections = (0..connections)
            .map(|number| {
                let socket = connect_from(source(number), server);
                let edge = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                epoll::add(&epoll, &socket, EventData::new_u64(number as u64), edge)
                    .expect("registered once");
                let start = start();
                Connection { socket, sent: start, received: start, unsent: 0, part: 0 }
            })
            .collect();
        Self { epoll, connections, depth, requests, answers, buffer: vec![0; BUFFER] }
    }

    /// Says `hello` on each connection and waits for what ends with `end`: what a protocol begins with, and what is no answer.
    pub fn greet(&mut self, hello: &[u8], end: &[u8]) {
        for (at, connection) in self.connections.iter().enumerate() {
            let sent = send(&connection.socket, hello, SendFlags::NOSIGNAL);
            assert_eq!(sent, Ok(hello.len()), "connection {at}: a greeting fits into an empty socket");
            let (mut said, start) = (Vec::new(), Instant::now());
            while !said.ends_with(end) {
                match recv(&connection.socket, &mut self.buffer[..], RecvFlags::empty()) {
                    Ok((0, _)) => panic!("the server has closed connection {at}"),
                    Ok((got, _)) => said.extend_from_slice(&self.buffer[..got]),
                    Err(Errno::INTR | Errno::AGAIN) => {
                        assert!(start.elapsed() < SILENCE, "connection {at}: no answer to the greeting");
                    }
                    Err(error) => panic!("connection {at} cannot receive: {error}"),
                }
            }
        }
    }

    /// Keeps all connections busy for `time`, then waits for the last answers.
    pub fn run(&mut self, time: Duration) -> Run {
        let start = Instant::now();
        let (mut requests, mut last_answer) = (0, start);
        let mut under_way = self.connections.len() * self.depth;
        for at in 0..self.connections.len() {
            self.order(at, self.depth);
        }
        let mut events = Vec::with_capacity(EVENTS);
        while under_way > 0 {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&AT_ONCE)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("the load cannot poll: {error}"),
            }
            let now = Instant::now();
            if !events.is_empty() {
                last_answer = now;
            }
            assert!(now - last_answer < SILENCE, "{under_way} messages have not come back for {SILENCE:?}");
            let go_on = now - start < time;
            for event in &events {
                let at = event.data.u64() as usize;
                let answers = self.receive(at);
                requests += answers as u64;
                if go_on {
                    self.order(at, answers);
                } else {
                    under_way -= answers;
                    self.order(at, 0);
                }
            }
        }
        Run { requests, time: start.elapsed() }
    }

    /// Has `messages` sent on a connection, and what could not be sent before.
    fn order(&mut self, at: usize, messages: usize) {
        let connection = &mut self.connections[at];
        connection.unsent += messages * self.requests.message;
        while connection.unsent > 0 {
            let len = connection.unsent.min(self.requests.period);
            let bytes = self.requests.at(connection.sent, len);
            match send(&connection.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    connection.sent = self.requests.after(connection.sent, sent);
                    connection.unsent -= sent;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(error) => panic!("connection {at} cannot send: {error}"),
            }
        }
    }

    /// Takes in what has come, and returns how many messages that completes.
    fn receive(&mut self, at: usize) -> usize {
        let (connection, mut bytes) = (&mut self.connections[at], 0);
        loop {
            let got = match recv(&connection.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => panic!("the server has closed connection {at}"),
                Ok((got, _)) => got,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Err(error) => panic!("connection {at} cannot receive: {error}"),
            };
            let right = &self.buffer[..got] == self.answers.at(connection.received, got);
            assert!(right, "connection {at}: the {got} bytes that came are not those that should come back");
            connection.received = self.answers.after(connection.received, got);
            bytes += got;
            if got < self.buffer.len() {
                break;
            }
        }
        connection.part += bytes;
        let complete = connection.part / self.answers.message;
        connection.part %= self.answers.message;
        complete
    }
}

/// Ports of one address run out: then the next address of this machine.
fn source(number: usize) -> SocketAddrV4 {
    let host = u8::try_from(1 + number / PER_SOURCE).expect("fewer connections than 127.0.0.x has ports");
    SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, host), 0)
}

fn connect_from(source: SocketAddrV4, server: SocketAddr) -> OwnedFd {
    let own = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a descriptor is free");
    bind(&own, &source).unwrap_or_else(|error| panic!("no port left on {source}: {error}"));
    connect(&own, &server).unwrap_or_else(|error| panic!("cannot connect to {server}: {error}"));
    set_tcp_nodelay(&own, true).expect("a TCP socket");
    // Closed by a reset, which leaves no port behind that waits for its time to pass.
    set_socket_linger(&own, Some(Duration::ZERO)).expect("a TCP socket");
    fcntl_setfl(&own, OFlags::NONBLOCK).expect("an open socket");
    own
}
