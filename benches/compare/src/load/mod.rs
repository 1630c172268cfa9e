//! The load: many connections on one thread, every answer looked at, every request timed.
//!
//! ```text
//!   closed loop   each connection has `depth` requests under way; HTTP sends them in batches, echo one for each that came back
//!   at a rate     a request is due every 1/rate seconds and takes a free connection; its time counts from when it was due
//! ```
//! A load that sleeps would have the server pay for waking it: an interrupt to the other core, which is dear in a virtual machine.
//! So it polls without a timeout, unless it shares its core with the server (`sleeps`).
//!
//! The measured time is cut into slices, each with its own requests and CPU time of the server; medians over them leave out
//! what disturbs the machine for less than half of the time.

mod churn;
pub(crate) mod h2load;
mod histogram;
mod idle;
mod socket;
mod talk;

pub(crate) use churn::churn;
pub(crate) use histogram::Histogram;
pub(crate) use idle::hold;
pub(crate) use talk::Talk;

use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    io::Errno,
};
use rustls::ClientConfig;
use socket::{Moved, SILENCE, Socket, tls_config};
use std::{
    collections::VecDeque,
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};
use talk::{BUFFER, Check, Endless, Progress};

const EVENTS: usize = 1024;
const SLICE: Duration = Duration::from_millis(50);
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const A_WHILE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Connections from one source address: well below the number of its ports.
const PER_SOURCE: usize = 5_000;

/// What the load is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) talk: Talk,
    pub(crate) tls: bool,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    /// Requests a second over all connections; `None`: as fast as answers come.
    pub(crate) rate: Option<f64>,
    /// Sleeps while there is nothing to do, because it shares its core with the server.
    pub(crate) sleeps: bool,
}

/// Part of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slice {
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    /// CPU time of the server.
    pub(crate) cpu: Duration,
}

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) latency: Histogram,
    /// What came after the last whole slice is in none of them.
    pub(crate) slices: Vec<Slice>,
    /// All of it, with the wait for the last answers.
    pub(crate) whole: Slice,
}

struct Connection {
    socket: Socket,
    /// Where in what is asked the next byte to be sent is.
    place: usize,
    /// Bytes that should be sent and were not yet.
    unsent: usize,
    progress: Progress,
    /// When the requests under way were sent, or due: nanoseconds since the load began.
    asked: VecDeque<u64>,
}

/// Connections to one server.
pub(crate) struct Load {
    shape: Shape,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    asked: Endless,
    check: Check,
    buffer: Vec<u8>,
    began: Instant,
}

fn source(number: usize) -> u8 {
    u8::try_from(1 + number / PER_SOURCE).expect("fewer connections than 127.0.0.x has ports")
}

impl Load {
    pub(crate) fn connect(server: SocketAddr, shape: Shape) -> Result<Self, String> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| format!("no epoll: {error}"))?;
        let config: Option<Arc<ClientConfig>> = shape.tls.then(tls_config);
        let mut connections = Vec::with_capacity(shape.connections);
        for number in 0..shape.connections {
            let socket = Socket::connect(server, source(number), config.as_ref(), shape.talk)
                .map_err(|why| format!("connection {number}: {why}"))?;
            let edge = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
            epoll::add(&epoll, &socket, EventData::new_u64(number as u64), edge)
                .map_err(|error| format!("cannot watch connection {number}: {error}"))?;
            let place = shape.talk.start(number);
            let progress = Progress::from(place);
            let asked = VecDeque::with_capacity(shape.depth);
            connections.push(Connection { socket, place, unsent: 0, progress, asked });
        }
        let (asked, check) = (shape.talk.asked(), shape.talk.check());
        Ok(Self { shape, epoll, connections, asked, check, buffer: vec![0; BUFFER], began: Instant::now() })
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Keeps the server busy for `time`, then waits for the last answers. `cpu` reads the server's clock.
    pub(crate) fn run(&mut self, time: Duration, mut cpu: impl FnMut() -> Duration) -> Result<Run, String> {
        let mut run = Run::default();
        let mut free: VecDeque<usize> = VecDeque::new();
        let gap = self.shape.rate.map(|rate| 1e9 / rate);
        // HTTP pipelines in batches, as its clients do; an echo goes on as messages come back.
        let batches = matches!(self.shape.talk, Talk::Http { .. });
        let end = self.now() + time.as_nanos() as u64;
        let mut under_way = 0;
        for at in 0..self.connections.len() {
            match gap {
                Some(_) => free.push_back(at),
                None => {
                    let now = self.now();
                    self.ask(at, self.shape.depth, now)?;
                    under_way += self.shape.depth;
                }
            }
        }
        let (mut now, mut last_answer) = (self.now(), self.now());
        let mut due = now as f64;
        let (start, start_cpu) = (now, cpu());
        let (mut mark, mut mark_cpu, mut counted) = (start, start_cpu, 0);
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let go_on = now < end;
            if go_on && now - mark >= SLICE.as_nanos() as u64 {
                let (cpu, at, total) = (cpu(), self.now(), run.latency.total());
                let seconds = (at - mark) as f64 / 1e9;
                run.slices.push(Slice { seconds, requests: total - counted, cpu: cpu - mark_cpu });
                (mark, mark_cpu, counted) = (at, cpu, total);
            }
            if let Some(gap) = gap {
                while go_on && due <= now as f64 {
                    let Some(at) = free.pop_front() else { break };
                    self.ask(at, 1, due as u64)?;
                    under_way += 1;
                    due += gap;
                }
            }
            if !go_on && under_way == 0 {
                let (cpu, seconds) = (cpu() - start_cpu, (self.now() - start) as f64 / 1e9);
                run.whole = Slice { seconds, requests: run.latency.total(), cpu };
                return Ok(run);
            }
            events.clear();
            let timeout = if self.shape.sleeps && gap.is_none() { &A_WHILE } else { &AT_ONCE };
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(format!("the load cannot poll: {error}")),
            }
            now = self.now();
            if !events.is_empty() {
                last_answer = now;
            } else if under_way > 0 && now - last_answer > SILENCE.as_nanos() as u64 {
                return Err(format!("{under_way} requests have had no answer for {SILENCE:?}"));
            }
            for event in &events {
                let at = event.data.u64() as usize;
                self.send_rest(at)?;
                let answers = self.receive(at, &mut run.latency)?;
                under_way -= answers;
                let idle = self.connections[at].asked.is_empty();
                if gap.is_some() {
                    if answers > 0 && idle {
                        free.push_back(at);
                    }
                } else if go_on {
                    let more = match batches {
                        false => answers,
                        true if idle && answers > 0 => self.shape.depth,
                        true => 0,
                    };
                    if more > 0 {
                        let now = self.now();
                        self.ask(at, more, now)?;
                        under_way += more;
                    }
                }
            }
        }
    }

    /// Sends more requests on a connection.
    #[inline]
    fn ask(&mut self, at: usize, requests: usize, when: u64) -> Result<(), String> {
        let connection = &mut self.connections[at];
        connection.asked.extend(std::iter::repeat_n(when, requests));
        connection.unsent += requests * self.asked.message;
        self.send_rest(at)
    }

    #[inline]
    fn send_rest(&mut self, at: usize) -> Result<(), String> {
        let connection = &mut self.connections[at];
        connection.socket.flush().map_err(|why| format!("connection {at}: {why}"))?;
        while connection.unsent > 0 {
            let bytes = self.asked.at(connection.place, connection.unsent);
            match connection.socket.send(bytes).map_err(|why| format!("connection {at}: {why}"))? {
                Moved::Bytes(sent) => {
                    connection.place = self.asked.after(connection.place, sent);
                    connection.unsent -= sent;
                }
                Moved::Nothing => return Ok(()),
            }
        }
        Ok(())
    }

    /// Takes in what has come, and returns how many answers that completes.
    #[inline]
    fn receive(&mut self, at: usize, latency: &mut Histogram) -> Result<usize, String> {
        let mut answers = 0;
        loop {
            let connection = &mut self.connections[at];
            let failed = |why| format!("connection {at}: {why}");
            let got = match connection.socket.receive(&mut self.buffer).map_err(failed)? {
                Moved::Bytes(got) => got,
                Moved::Nothing => return Ok(answers),
            };
            let complete = self.check.take(&mut connection.progress, &self.buffer[..got]).map_err(failed)?;
            let now = self.began.elapsed().as_nanos() as u64;
            for _ in 0..complete {
                let asked = connection.asked.pop_front().ok_or(failed("an answer to nothing".to_owned()))?;
                latency.add(now.saturating_sub(asked));
            }
            answers += complete;
            if !connection.socket.may_have_more(got) {
                return Ok(answers);
            }
        }
    }
}
