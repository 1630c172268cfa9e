//! Servers in processes of their own, so that their CPU time and memory are theirs alone.
//!
//! ```text
//!   the benchmark ── starts itself with `--serve KIND --core N` ──▶ the server
//!                 ◀──────────────── its port, on a line ───────────
//!                 ── /proc/PID/task/*/schedstat, /proc/PID/status
//!                 ── closes the pipe to it ───────────────────────▶ ends
//! ```

use crate::{
    Rounds, Scale, interleave_all,
    load::Load,
    reference::{
        epoll_echo::{self, Inlined, Libc},
        epoll_http,
        hyper_tokio::{self, Greeting, json as json_by_hyper, plaintext, settings},
        tokio_echo, uring_echo,
    },
    stages::Echo,
};
use bytes::{Bytes, BytesMut};
use hyper::{Request, Response, header, service::service_fn};
use netwright::{
    Backend, CloseCause, Outgoing, Peer, Server, bridge::PeerIo, pipeline, pipeline::slot,
    record::FlightRecorder,
};
use netwright_http::{Body, HttpServer, header_map, respond, serve};
use std::{
    env, fs,
    io::{self, BufRead, BufReader, Read},
    net::{SocketAddr, TcpListener},
    process::{self, Child, ChildStdin, Command, Stdio},
    thread,
    time::Duration,
};

/// Who serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The hand-written loop, in one function with its system calls: [`epoll_echo`].
    Epoll,
    /// The same loop with the system calls of the C library.
    EpollLibc,
    /// [`tokio_echo`].
    Tokio,
    /// Netwright on one loop with the readiness driver.
    Netwright,
    /// The hand-written loop by io_uring: [`uring_echo`].
    Uring,
    /// Netwright on one loop with the io_uring driver.
    NetwrightUring,
    /// Netwright on one loop with the driver that blocks in `poll(2)`.
    NetwrightPoll,
    /// Netwright by readiness with an async tail instead of a handler.
    NetwrightTail,
    /// Plaintext over HTTP: [`hyper_tokio`].
    HyperTokio,
    /// The same, with answers to requests that come together sent together.
    HyperTokioFlush,
    /// JSON instead of plaintext: [`hyper_tokio`].
    HyperTokioJson,
    /// Plaintext by hyper on one loop of ours.
    HyperNetwright,
    /// The hand-written loop with `httparse`: [`epoll_http`].
    EpollHttp,
    /// Netwright's own HTTP, with a closure.
    NetwrightHttp,
    /// The same with an async function.
    NetwrightHttpAsync,
    /// JSON instead of plaintext, with a closure.
    NetwrightHttpJson,
    /// [`Netwright`](Self::Netwright) with a flight recorder on each connection.
    NetwrightRecorded,
    /// [`NetwrightHttp`](Self::NetwrightHttp) with one.
    NetwrightHttpRecorded,
    /// The same with a place for one, and nobody in it.
    NetwrightHttpSlot,
}

impl Kind {
    /// Those that echo, the reference first.
    pub const ALL: [Self; 6] =
        [Self::Epoll, Self::EpollLibc, Self::Tokio, Self::Netwright, Self::Uring, Self::NetwrightUring];

    const KNOWN: [Self; 19] = [
        Self::Epoll,
        Self::EpollLibc,
        Self::Tokio,
        Self::Netwright,
        Self::Uring,
        Self::NetwrightUring,
        Self::NetwrightPoll,
        Self::NetwrightTail,
        Self::HyperTokio,
        Self::HyperTokioFlush,
        Self::HyperTokioJson,
        Self::HyperNetwright,
        Self::EpollHttp,
        Self::NetwrightHttp,
        Self::NetwrightHttpAsync,
        Self::NetwrightHttpJson,
        Self::NetwrightRecorded,
        Self::NetwrightHttpRecorded,
        Self::NetwrightHttpSlot,
    ];

    /// What to call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll loop",
            Self::EpollLibc => "epoll loop, libc",
            Self::Tokio => "tokio",
            Self::Netwright => "netwright",
            Self::Uring => "uring loop",
            Self::NetwrightUring => "netwright uring",
            Self::NetwrightPoll => "netwright poll",
            Self::NetwrightTail => "netwright, async tail",
            Self::HyperTokio => "hyper on tokio",
            Self::HyperTokioFlush => "hyper on tokio, pipeline_flush",
            Self::HyperTokioJson => "hyper on tokio, JSON",
            Self::HyperNetwright => "hyper on netwright",
            Self::EpollHttp => "epoll loop with httparse",
            Self::NetwrightHttp => "netwright http",
            Self::NetwrightHttpAsync => "netwright http, async",
            Self::NetwrightHttpJson => "netwright http, JSON",
            Self::NetwrightRecorded => "netwright, recorded",
            Self::NetwrightHttpRecorded => "netwright http, recorded",
            Self::NetwrightHttpSlot => "netwright http, a slot",
        }
    }

    fn serve(self) -> Result<(), Box<dyn std::error::Error>> {
        let listen = || {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            println!("{}", listener.local_addr()?);
            Ok::<_, io::Error>(listener)
        };
        match self {
            Self::Epoll => Ok(epoll_echo::serve::<Inlined>(&listen()?)?),
            Self::EpollLibc => Ok(epoll_echo::serve::<Libc>(&listen()?)?),
            Self::Tokio => Ok(tokio_echo::serve(listen()?)?),
            Self::Uring => Ok(uring_echo::serve(&listen()?)?),
            Self::Netwright | Self::NetwrightUring | Self::NetwrightPoll => {
                let backend = match self {
                    Self::NetwrightUring => Backend::Uring,
                    Self::NetwrightPoll => Backend::Blocking,
                    _ => Backend::Readiness,
                };
                let server = Server::builder()
                    .group(backend.event_loops(1)?)
                    .pipeline(|_| pipeline().app(Echo))
                    .bind("127.0.0.1:0")
                    .wait()?;
                println!("{}", server.address());
                Ok(server.group().termination().wait()?)
            }
            Self::NetwrightTail => {
                let server = Server::builder()
                    .group(Backend::Readiness.event_loops(1)?)
                    .pipeline(|_| pipeline().serve(echo))
                    .bind("127.0.0.1:0")
                    .wait()?;
                println!("{}", server.address());
                Ok(server.group().termination().wait()?)
            }
            Self::EpollHttp => Ok(epoll_http::serve(&listen()?)?),
            Self::NetwrightHttp | Self::NetwrightHttpJson => {
                let answer = if self == Self::NetwrightHttp { hello } else { json };
                let server = Server::builder()
                    .group(Backend::Readiness.event_loops(1)?)
                    .pipeline(move |_| {
                        pipeline().add(HttpServer::new().date(false)).app(respond(move |_| answer()))
                    })
                    .bind("127.0.0.1:0")
                    .wait()?;
                println!("{}", server.address());
                Ok(server.group().termination().wait()?)
            }
            Self::NetwrightRecorded => {
                let flight = FlightRecorder::builder().build();
                let server = Server::builder()
                    .group(Backend::Readiness.event_loops(1)?)
                    .pipeline(move |_| pipeline().add(flight.stage()).app(Echo))
                    .bind("127.0.0.1:0")
                    .wait()?;
                println!("{}", server.address());
                Ok(server.group().termination().wait()?)
            }
            Self::NetwrightHttpRecorded => {
                let flight = FlightRecorder::builder().build();
                let server = Server::builder()
                    .group(Backend::Readiness.event_loops(1)?)
                    .pipeline(move |_| {
                        let codec = HttpServer::new().date(false);
                        pipeline().add(flight.stage()).add(codec).app(respond(|_| hello()))
                    })
                    .bind("127.0.0.1:0")
                    .wait()?;
                println!("{}", server.address());
                Ok(server.group().termination().wait()?)
            }
            Self::NetwrightHttpSlot => {
                let server = Server::builder()
                    .group(Backend::Readiness.event_loops(1)?)
                    .pipeline(move |_| {
                        let codec = HttpServer::new().date(false);
                        let place = slot::<BytesMut, Outgoing>("recorder");
                        pipeline().add(place).add(codec).app(respond(|_| hello()))
                    })
                    .bind("127.0.0.1:0")
                    .wait()?;
                println!("{}", server.address());
                Ok(server.group().termination().wait()?)
            }
            Self::NetwrightHttpAsync => {
                let server = Server::builder()
                    .group(Backend::Readiness.event_loops(1)?)
                    .pipeline(|_| {
                        pipeline()
                            .add(HttpServer::new().date(false))
                            .app(serve(async |_: Request<Body>| hello()))
                    })
                    .bind("127.0.0.1:0")
                    .wait()?;
                println!("{}", server.address());
                Ok(server.group().termination().wait()?)
            }
            Self::HyperTokio => Ok(hyper_tokio::serve(listen()?, &settings(), plaintext)?),
            Self::HyperTokioFlush => {
                Ok(hyper_tokio::serve(listen()?, settings().pipeline_flush(true), plaintext)?)
            }
            Self::HyperTokioJson => Ok(hyper_tokio::serve(listen()?, &settings(), json_by_hyper)?),
            Self::HyperNetwright => {
                let server = Server::builder()
                    .group(Backend::Readiness.event_loops(1)?)
                    .pipeline(|_| {
                        pipeline().serve(|peer| {
                            settings().serve_connection(PeerIo::new(peer), service_fn(plaintext))
                        })
                    })
                    .bind("127.0.0.1:0")
                    .wait()?;
                println!("{}", server.address());
                Ok(server.group().termination().wait()?)
            }
        }
    }
}

/// Plaintext. As anybody would write it, but for a map that was used before.
pub fn hello() -> Response<Bytes> {
    reply("text/plain", Bytes::from_static(b"Hello, World!"))
}

/// JSON, made anew for each request.
fn json() -> Response<Bytes> {
    reply("application/json", Greeting::to_json())
}

#[inline(always)]
fn reply(content_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut reply = Response::new(body);
    *reply.headers_mut() = header_map();
    reply.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    reply
}

/// As anybody would write it.
async fn echo(mut peer: Peer) -> Result<(), CloseCause> {
    while let Some(bytes) = peer.read().await? {
        peer.write(bytes.freeze()).await?;
    }
    Ok(())
}

/// In a process that was started to serve: serves, and does not return. To be called first in `main`.
pub fn serve_if_asked() {
    let Some(kind) = asked_for("--serve") else { return };
    let _ = netwright::server::raise_descriptor_limit();
    let kind = Kind::KNOWN.into_iter().find(|known| known.name() == kind);
    let kind = kind.expect("only this benchmark starts servers, and it knows their names");
    if let Err(error) = kind.serve() {
        eprintln!("the {} server failed: {error}", kind.name());
        process::exit(1);
    }
}

/// What this process was started to serve, if by that word: it is bound to its core then, and ends with the benchmark.
pub fn asked_for(word: &str) -> Option<String> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [serve, kind, core, id] = &args[..] else { return None };
    if serve != word || core != "--core" {
        return None;
    }
    if let Ok(id) = id.parse() {
        core_affinity::set_for_current(core_affinity::CoreId { id });
    }
    thread::spawn(|| {
        let _ = io::stdin().read(&mut [0]); // returns when the benchmark has ended, however it did
        process::exit(0);
    });
    Some(kind.clone())
}

/// A server that uses next to no CPU time for so long is at rest.
const REST: Duration = Duration::from_millis(100);

/// A server that runs; it ends with this value.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
    _alive: ChildStdin,
}

impl ServerProcess {
    /// Starts this program again as a server, bound to that core.
    pub fn start(kind: Kind, core: Option<usize>) -> Self {
        Self::start_with("--serve", kind.name(), core)
    }

    /// The same for a benchmark with servers of its own, which are asked for by another word than `--serve`.
    pub fn start_with(word: &str, name: &str, core: Option<usize>) -> Self {
        let core = core.map_or("any".to_owned(), |core| core.to_string());
        let mut child = Command::new(env::current_exe().expect("a program has a path"))
            .args([word, name, "--core", &core])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("what runs can be started again");
        let (alive, says) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut line = String::new();
        BufReader::new(says).read_line(&mut line).expect("a server says where it listens");
        let address =
            line.trim().parse().unwrap_or_else(|_| panic!("the server says {line:?}, not an address"));
        Self { child, address, _alive: alive }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of all its threads so far: see [`cpu_time`].
    pub fn cpu_time(&self) -> Duration {
        cpu_time(self.pid())
    }

    /// Microseconds of its CPU time for each request of a load that runs for `time`.
    pub fn cpu_per_request(&self, load: &mut Load, time: Duration) -> f64 {
        let before = self.cpu_time();
        let run = load.run(time);
        (self.cpu_time() - before).as_secs_f64() * 1e6 / run.requests as f64
    }

    /// [`resident`](Self::resident) when the server has nothing left to do: what it has answered it may still be tidying up.
    pub fn resident_at_rest(&self) -> u64 {
        let mut before = self.cpu_time();
        for _ in 0..100 {
            thread::sleep(REST);
            let now = self.cpu_time();
            if now.saturating_sub(before) < REST / 100 {
                break;
            }
            before = now;
        }
        self.resident()
    }

    /// Its memory that is in RAM, in bytes.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("every process has it");
        let kib = line.split_ascii_whitespace().next().and_then(|kib| kib.parse::<u64>().ok());
        kib.expect("a number of kB") * 1024
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of all threads of a process so far. The scheduler adds it up when a thread sleeps or a tick comes, so it is exact
/// when the process has nothing to do: waits a moment for that.
pub fn cpu_time(pid: u32) -> Duration {
    thread::sleep(Duration::from_millis(1));
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs").flatten();
    let ns = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?; // a thread that has just ended
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(ns.sum())
}

/// A core for the server and one for the load, if there are two.
pub fn two_cores() -> Option<[usize; 2]> {
    match core_affinity::get_core_ids().unwrap_or_default()[..] {
        [first, second, ..] => Some([first.id, second.id]),
        _ => None,
    }
}

/// Binds the calling thread, which is the load, to the second core, and returns the first for servers.
pub fn load_on_second_core(bench: &str) -> Option<usize> {
    match two_cores() {
        Some([server, load]) => {
            core_affinity::set_for_current(core_affinity::CoreId { id: load });
            Some(server)
        }
        None => {
            println!("{bench}: only one core here, so server and load share it, and times say little");
            None
        }
    }
}

/// The load of the machine over the last minute, as the system tells it.
pub fn machine_load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

/// How often servers are started anew, as memory can happen to lie well or badly for the whole life of a process.
const GENERATIONS: usize = 5;
/// How long one turn of one server is.
const TURN: Duration = Duration::from_millis(200);

/// Microseconds of each server's CPU time per request. All servers are there at once and take turns.
pub fn measure<const N: usize>(
    kinds: [Kind; N],
    core: Option<usize>,
    scale: Scale,
    connect: impl Fn(&ServerProcess) -> Load,
) -> [Rounds; N] {
    measure_all(scale, |side| {
        let server = ServerProcess::start(kinds[side], core);
        let load = connect(&server);
        (server, load)
    })
}

/// The same for a benchmark with servers of its own: `start` gets the number of a side.
pub fn measure_all<const N: usize>(
    scale: Scale,
    start: impl Fn(usize) -> (ServerProcess, Load),
) -> [Rounds; N] {
    let mut figures = [(); N].map(|()| Rounds::default());
    for _ in 0..GENERATIONS {
        let mut pairs: [_; N] = std::array::from_fn(&start);
        let rounds = interleave_all::<N>(scale.rounds(), |side| {
            let (server, load) = &mut pairs[side];
            server.cpu_per_request(load, TURN)
        });
        for (all, new) in figures.iter_mut().zip(rounds) {
            all.append(new);
        }
    }
    figures
}
