//! What the network does, behaviour by behaviour.

mod datagrams;
mod drawn;
mod ends;
mod faults;
mod handshake;
mod links;
mod names;
mod scale;
mod streams;

use super::*;
use bytes::Bytes;
use std::{net::SocketAddr, time::Duration};

/// A network and its time.
struct World {
    net: Net,
    now: Time,
    /// The news since they were taken last.
    news: Vec<News>,
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The hosts of [`World::of_two`].
const A: HostId = HostId(0);
const B: HostId = HostId(1);

impl World {
    fn new(seed: u64) -> Self {
        Self { net: Net::new(Chance::seed(seed)), now: Time::START, news: Vec::new() }
    }

    /// Two hosts, each with an address of both families, 10 ms apart, without anything drawn.
    fn of_two() -> Self {
        let mut world = Self::new(1);
        world.net.add_host("a", &[ip("10.0.0.1"), ip("fd00::1")]);
        world.net.add_host("b", &[ip("10.0.0.2"), ip("fd00::2")]);
        for host in [A, B] {
            *world.net.limits_mut(host) = HostLimits::default().short_sends(0.0).short_receives(0.0);
        }
        *world.net.default_link_mut() = Link::default().latency(ms(10)).jitter(Duration::ZERO);
        world
    }

    /// Lets that time pass, event by event.
    fn pass(&mut self, time: Duration) -> &mut Self {
        let end = self.now + time;
        while let Some(at) = self.net.next_due().filter(|at| *at <= end) {
            self.now = at;
            self.net.advance(at);
            self.news.extend(self.net.take_news());
        }
        self.now = end;
        self.net.advance(end);
        self
    }

    fn news(&mut self) -> Vec<News> {
        self.news.extend(self.net.take_news());
        std::mem::take(&mut self.news)
    }

    fn listen(&mut self, host: HostId, at: &str) -> ListenerId {
        self.net.listen(self.now, host, Listen::at(address(at))).expect("listens")
    }

    fn connect(&mut self, host: HostId, to: &str) -> StreamId {
        self.net.connect(self.now, host, address(to), None).expect("connects")
    }

    /// A connection from A to B: its two ends, and the listener.
    fn connected(&mut self) -> (StreamId, StreamId, ListenerId) {
        let listener = self.listen(B, "0.0.0.0:80");
        let client = self.connect(A, "10.0.0.2:80");
        self.pass(ms(40));
        let (server, _) = self.net.accept(self.now, listener).expect("has come");
        assert_eq!(self.net.outcome(client), Some(Ok(())));
        self.news();
        (client, server, listener)
    }

    fn send(&mut self, id: StreamId, bytes: &[u8]) -> Result<usize, Failure> {
        self.net.send(self.now, id, &mut &bytes[..])
    }

    fn receive(&mut self, id: StreamId) -> Result<Bytes, Failure> {
        self.net.receive(self.now, id, usize::MAX).map(|received| received.bytes)
    }

    /// Everything that can be read at once.
    fn read_all(&mut self, id: StreamId) -> Vec<u8> {
        let mut all = Vec::new();
        while let Ok(bytes) = self.receive(id) {
            if bytes.is_empty() {
                break;
            }
            all.extend_from_slice(&bytes);
        }
        all
    }

    fn close(&mut self, id: StreamId) {
        self.net.close(self.now, id, false).expect("was open");
    }

    /// The lines of the trace that have `part` in them.
    fn traced(&mut self, part: &str) -> Vec<String> {
        let lines = self.net.take_trace().into_iter().map(|record| record.to_string());
        lines.filter(|line| line.contains(part)).collect()
    }
}
