//! A server of HTTP/1.1 that answers rightly, wrongly, early, late, in part or not at all, and remembers what it did.
//!
//! ```text
//!   seed, number of the connection ─▶ what is done to it ─┐
//!   request 17 ─▶ its plan ─▶ interim replies, reply to 17 in pieces, whole or cut, what lies behind it ─▶ and then
//!                                                                              keep, close, reset, silence ◀─┘
//! ```
//! Requests have a number, in a header and in every byte of their bodies, and so have replies: whoever asks can tell whether a
//! reply is the one to its request ([`content`]), and the server whether a request is whole.
//!
//! What it remembers ([`Account`]) is what a client has to answer for when all is over:
//! 1. A request came on a connection that cannot be used again, or with bytes that are not its own: the client is wrong.
//! 2. A reply went out whole, on a connection that was ended in order if at all: the client has to have it.
//! 3. Connections that were ended before a request was read: each excuses one request that nobody has seen; but if it had
//!    carried others before, only one that cannot be repeated.
//!
//! | file | what it is |
//! | --- | --- |
//! | `plan` | what is done to a request, by the numbers of a seed |
//! | `wire` | requests out of a socket |
//!
//! Plain sockets of the standard library, a thread for each connection.

mod plan;
mod wire;

use crate::verify::Numbers;
use plan::{Answer, Plan, Reply, Then};
use socket2::SockRef;
use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    io::{self, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use wire::{Incoming, Request};

/// How long the server waits for anything. A client that has time limits is done long before.
const PATIENCE: Duration = Duration::from_secs(20);
/// What its sockets keep unread: little, so that a client feels it when nobody reads.
const UNREAD: usize = 16 * 1024;
/// A body of so many bytes is more than systems keep on the way to a server that does not read.
pub const LARGE: usize = 12 << 20;

/// The bytes of a body that belongs to the request of this number.
///
/// ```
/// use netwright_testkit::hostile::server::content;
///
/// assert_eq!(content(17, 9), b"<17><17><");
/// ```
pub fn content(number: u64, len: usize) -> Vec<u8> {
    let piece = format!("<{number}>").into_bytes();
    let mut all = piece.repeat(len.div_ceil(piece.len()));
    all.truncate(len);
    all
}

/// What became of one request that the server has read the head of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The whole reply went out, and the connection was not broken behind it: whoever asked has it.
    Answered,
    /// It was not answered, not rightly, or the connection was broken so that the reply may be lost.
    Wronged,
}

/// What a server has seen and done.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// What was done to each request, as often as it came.
    pub requests: HashMap<u64, Vec<Outcome>>,
    /// Where the client is wrong.
    pub violations: Vec<String>,
    /// Connections that were ended before the first request on them was read.
    pub cut_before: usize,
    /// Connections that were ended without a word behind a reply, or within a later request.
    pub ended_idle: usize,
    /// Requests that will not be answered: their clients have to give up.
    pub silent: HashSet<u64>,
    /// Connections so far.
    pub accepted: usize,
    /// Those that are open.
    pub open: usize,
    stalls_are_over: bool,
}

/// A hostile server. It listens until it is dropped; its connections end with their clients.
///
/// ```
/// use netwright_testkit::hostile::server::HostileServer;
/// use std::{io::Write, net::TcpStream};
///
/// let server = HostileServer::start(1)?;
/// let mut stream = TcpStream::connect(server.address())?;
/// stream.write_all(b"GET / HTTP/1.1\r\nhost: here\r\nx-number: 17\r\n\r\n")?;
/// // Whatever comes now.
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct HostileServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    account: Mutex<Account>,
    changed: Condvar,
    ends: AtomicBool,
    may_be_silent: bool,
}

impl Shared {
    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostileServer {
    /// Starts a server on a free port of this machine.
    ///
    /// # Errors
    /// The system has no port for it.
    pub fn start(seed: u64) -> io::Result<Self> {
        Self::begin(seed, true)
    }

    /// Starts one that is never silent for long, so that nobody has to wait until a time is over.
    ///
    /// # Errors
    /// The system has no port for it.
    pub fn talking(seed: u64) -> io::Result<Self> {
        Self::begin(seed, false)
    }

    fn begin(seed: u64, may_be_silent: bool) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        SockRef::from(&listener).set_recv_buffer_size(UNREAD)?; // what is accepted has it as well
        let (address, shared) =
            (listener.local_addr()?, Arc::new(Shared { may_be_silent, ..Shared::default() }));
        let server = shared.clone();
        let accept = move || {
            for (number, stream) in (0..).zip(listener.incoming()) {
                if server.ends.load(Ordering::Acquire) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let numbers = Numbers::new(seed.wrapping_mul(1_000_003) ^ number);
                let connection = Connection::new(stream, numbers, server.clone());
                thread::spawn(move || connection.run());
            }
        };
        Ok(Self { address, shared, acceptor: Some(thread::spawn(accept)) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has connections end whose requests nobody has read to their end. Until then they stall, whatever the client does.
    pub fn end_stalls(&self) {
        self.shared.account().stalls_are_over = true;
        self.shared.changed.notify_all();
    }

    /// What it has seen and done so far.
    pub fn account(&self) -> Account {
        self.shared.account().clone()
    }
}

impl Drop for HostileServer {
    fn drop(&mut self) {
        self.end_stalls();
        self.shared.ends.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address)); // the acceptor looks up
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// One connection, until it ends.
struct Connection {
    stream: TcpStream,
    incoming: Incoming,
    numbers: Numbers,
    shared: Arc<Shared>,
}

/// The connection is over.
struct Over;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Self {
        Self
    }
}

impl Connection {
    fn new(stream: TcpStream, numbers: Numbers, shared: Arc<Shared>) -> Self {
        let mut account = shared.account();
        account.accepted += 1;
        account.open += 1;
        drop(account);
        Self { stream, incoming: Incoming::default(), numbers, shared }
    }

    fn run(mut self) {
        let timed = self.stream.set_read_timeout(Some(PATIENCE));
        if timed.and_then(|()| self.stream.set_write_timeout(Some(PATIENCE))).is_ok() {
            let _ = self.stream.set_nodelay(true);
            let Err(Over) = self.serve();
        }
    }

    fn serve(&mut self) -> Result<Infallible, Over> {
        if self.numbers.below(40) == 0 {
            self.shared.account().cut_before += 1;
            return Err(self.end());
        }
        for answered in 0.. {
            let plan = Plan::draw(&mut self.numbers);
            if let Some(len) = plan.reads_only {
                match answered {
                    0 => self.shared.account().cut_before += 1,
                    _ => self.shared.account().ended_idle += 1,
                }
                self.incoming.skip(&mut self.stream, len)?;
                return Err(self.end());
            }
            let request = self.incoming.head(&mut self.stream)?;
            self.answer(&plan, &request)?;
        }
        Err(Over)
    }

    fn answer(&mut self, plan: &Plan, request: &Request) -> Result<(), Over> {
        let place = self.begin(request.number);
        let early = plan.early && request.has_body();
        if !early {
            self.take_body(request)?;
        }
        if plan.answer == Answer::Silence && self.shared.may_be_silent {
            self.shared.account().silent.insert(request.number);
            return Err(self.wait_for_end()); // until the client has enough of it
        }
        let reply = plan.reply(request, &mut self.numbers);
        let leaves = early && plan.leaves_body;
        let stalls = early && !leaves && plan.stalls && request.is_large() && self.shared.may_be_silent;
        let lacks_end = stalls && reply.needs_end;
        if lacks_end {
            self.shared.account().silent.insert(request.number);
        }
        self.write(&reply.bytes, plan.piece)?;
        let breaks = plan.then == Then::Reset && !reply.ends || leaves || lacks_end;
        if reply.is_right && !breaks {
            // Whatever the client does from now on, it has its reply.
            self.shared.account().requests.entry(request.number).or_default()[place] = Outcome::Answered;
        }
        if leaves {
            return Err(self.end());
        }
        if stalls {
            return Err(self.stall());
        }
        if early {
            self.take_body(request)?;
        }
        if let Some(why) = reply.spoils.or(request.closes.then_some("that the client had said to close")) {
            return Err(self.expect_nothing(why, &reply));
        }
        self.go_on(plan.then)
    }

    /// What becomes of a connection that could be used again.
    fn go_on(&mut self, then: Then) -> Result<(), Over> {
        if let Then::Keep = then {
            return Ok(());
        }
        if let Then::CloseIdle(wait) = then
            && self.incoming.comes_within(&mut self.stream, wait)?
        {
            return Ok(());
        }
        // Whatever is on its way now comes too late.
        self.shared.account().ended_idle += 1;
        if then == Then::Reset {
            self.reset_when_dropped();
            return Err(Over);
        }
        Err(self.end_in_order())
    }

    /// The connection cannot be used again. Whoever does it all the same is wrong.
    fn expect_nothing(&mut self, why: &'static str, reply: &Reply) -> Over {
        if reply.ends && !reply.is_right {
            return self.end();
        }
        if reply.ends {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        if let Ok(request) = self.incoming.head(&mut self.stream) {
            let violation = format!("request {} came on a connection {why}", request.number);
            self.shared.account().violations.push(violation);
        }
        Over
    }

    /// The client has what it gets of a reply, and nobody takes the rest of its request. Nothing else can be behind that, unless the client
    /// has it in its own memory, where nobody will ever see it.
    fn stall(&mut self) -> Over {
        let mut account = self.shared.account();
        while !account.stalls_are_over {
            account = self.shared.changed.wait(account).unwrap_or_else(PoisonError::into_inner);
        }
        drop(account);
        self.wait_for_end()
    }

    /// A request has come: for now it is not answered.
    fn begin(&self, number: u64) -> usize {
        let mut account = self.shared.account();
        let outcomes = account.requests.entry(number).or_default();
        outcomes.push(Outcome::Wronged);
        outcomes.len() - 1
    }

    fn take_body(&mut self, request: &Request) -> Result<(), Over> {
        match self.incoming.body(&mut self.stream, request) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.shared.account().violations.push(format!("request {}: {error}", request.number));
                Err(Over)
            }
            Err(_) => Err(Over),
        }
    }

    fn write(&mut self, bytes: &[u8], piece: usize) -> io::Result<()> {
        if piece == 0 {
            return self.stream.write_all(bytes);
        }
        let mut left = bytes;
        while !left.is_empty() {
            let len = (1 + self.numbers.below(piece)).min(left.len());
            let (now, later) = left.split_at(len);
            self.stream.write_all(now)?;
            thread::yield_now();
            left = later;
        }
        Ok(())
    }

    /// Ends the connection: by a close, a reset, or the end of our side with the other one going on.
    fn end(&mut self) -> Over {
        match self.numbers.below(3) {
            0 => self.reset_when_dropped(),
            1 => return self.end_in_order(),
            _ => {}
        }
        Over
    }

    fn reset_when_dropped(&self) {
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Says that no more will come, and reads what does, so that nothing that was sent is lost.
    fn end_in_order(&mut self) -> Over {
        let _ = self.stream.shutdown(Shutdown::Write);
        self.wait_for_end()
    }

    fn wait_for_end(&mut self) -> Over {
        let _ = self.incoming.skip(&mut self.stream, usize::MAX);
        Over
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.account().open -= 1;
    }
}
