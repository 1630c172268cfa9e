//! What the servers in Rust share, so that each of them shows only what is its own.
//!
//! ```text
//!   runner ── --mode http --threads 1 --driver uring ──▶ server
//!          ◀────────────── 127.0.0.1:PORT, on a line ───
//!          ── closes the pipe to its standard input ───▶ ends
//! ```
//! Nothing here stands between a server and its runtime: whoever brings an HTTP stack uses the command line alone.

pub mod http;
#[cfg(feature = "tls")]
pub mod tls;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    env,
    fmt::Display,
    io::{self, Read},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener},
    process, thread,
};

/// As much as one read takes, for those who are free to choose.
pub const BUFFER: usize = 64 * 1024;
/// Connections that wait to be accepted.
pub const BACKLOG: i32 = 4096;

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Every byte goes back.
    Echo,
    /// `/` is a text, `/json` is serialised for each request.
    Http,
    /// The same in TLS.
    Https,
    /// Every message goes back.
    WebSocket,
    /// HTTP/2 in the clear: `/` is a text, `/64k` longer, and what is sent is read before the text is told.
    Http2,
}

/// What a server was started to do.
#[derive(Debug, Clone)]
pub struct Task {
    pub mode: Mode,
    pub threads: usize,
    /// Which of several ways a server has: `readiness`, `uring`, ….
    pub driver: String,
}

impl Task {
    /// From the command line. From here on the process ends with whoever started it.
    pub fn from_args() -> Self {
        let mut task = Self { mode: Mode::Echo, threads: 1, driver: String::new() };
        let mut args = env::args().skip(1);
        while let Some(name) = args.next() {
            let value = args.next().unwrap_or_else(|| end(format!("{name} needs a value")));
            match &*name {
                "--mode" => {
                    task.mode = match &*value {
                        "echo" => Mode::Echo,
                        "http" => Mode::Http,
                        "https" => Mode::Https,
                        "ws" => Mode::WebSocket,
                        "h2" => Mode::Http2,
                        _ => end(format!("unknown mode {value:?}: known are echo, http, https, ws, h2")),
                    }
                }
                "--threads" => {
                    task.threads =
                        value.parse().unwrap_or_else(|_| end(format!("{value:?} threads: not a number")));
                }
                "--driver" => task.driver = value,
                _ => end(format!("unknown argument {name:?}: known are --mode, --threads, --driver")),
            }
        }
        raise_descriptor_limit();
        thread::spawn(|| {
            let _ = io::stdin().read(&mut [0]); // returns when the runner has ended, however it did
            process::exit(0);
        });
        task
    }

    /// This is not among what the server can do.
    pub fn refuse(&self) -> ! {
        end(format!("neither {:?} with driver {:?} here", self.mode, self.driver))
    }

    /// A listening socket for each thread, all on the same port, which is told to the runner.
    pub fn listeners(&self) -> Vec<TcpListener> {
        let first = listener(0, self.threads > 1).unwrap_or_else(|error| end(error));
        let address = first.local_addr().unwrap_or_else(|error| end(error));
        let more =
            (1..self.threads).map(|_| listener(address.port(), true).unwrap_or_else(|error| end(error)));
        let all = [first].into_iter().chain(more).collect();
        announce(address);
        all
    }

    /// Serves on each thread with a listener of its own; the calling thread is one of them.
    pub fn on_threads(&self, serve: impl Fn(TcpListener) -> io::Result<()> + Sync) {
        let mut listeners = self.listeners();
        let own = listeners.pop().expect("there is one for each thread");
        let run = |listener| serve(listener).unwrap_or_else(|error| end(error));
        thread::scope(|scope| {
            for listener in listeners {
                scope.spawn(|| run(listener));
            }
            run(own);
        });
    }
}

/// One listening socket, and its address told to the runner.
pub fn one_listener() -> TcpListener {
    let listener = listener(0, false).unwrap_or_else(|error| end(error));
    announce(listener.local_addr().unwrap_or_else(|error| end(error)));
    listener
}

fn listener(port: u16, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&SocketAddrV4::new(Ipv4Addr::LOCALHOST, port).into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// For a server that wants to bind by itself: a port that nobody has.
pub fn free_address() -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    socket.unwrap_or_else(|error| end(error))
}

/// Tells the runner where it can connect to.
pub fn announce(address: impl Display) {
    println!("{address}");
}

/// Ends the process: nobody is served by a server that could not start.
pub fn end(why: impl Display) -> ! {
    eprintln!("{why}");
    process::exit(1)
}

fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
