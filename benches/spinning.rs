//! Question: how much sooner is a small message back if the server's loop does not sleep while it waits?
//!
//! ```text
//!   core 1                                      core 0
//!   client: one connection, 64 bytes ─ loopback ─ one loop that blocks, spins for 50 µs and then blocks, or spins
//! ```
//! Answer in microseconds from a message to its echo, the median of each round. The reference is the loop that blocks. A server is
//! started for each measurement, and ended before the next: one that spins would take the core from another.
//!
//! The client looks for the answer without a pause, so that the server's is the only wake-up on the way; in the rows "client
//! blocks" there are two. Target where the other core is free: at most half for a loop that spins.

use netwright::{
    Backend, Server,
    event_loop::{Probe, WaitStrategy},
    pipeline,
};
use netwright_benches::{Scale, Table, Target, interleave_all};
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

const MESSAGES: usize = 10_000;
const MESSAGE: [u8; 64] = [b'x'; 64];

const STRATEGIES: [WaitStrategy; 3] =
    [WaitStrategy::Block, WaitStrategy::SpinThenBlock(Duration::from_micros(50)), WaitStrategy::Spin];

fn main() {
    let Some(scale) = Scale::from_args() else { return };
    let cores: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
    let [_, second, ..] = cores[..] else {
        println!("waiting: only {} core here, and two are needed", cores.len());
        return;
    };
    let mut table =
        Table::new("waiting: microseconds there and back, 1 x 64 bytes", ["loop", "blocks", "other"]);
    let probe = Probe::run(Backend::Uring);
    for backend in [Backend::Readiness, Backend::Uring] {
        if backend == Backend::Uring && !probe.works() {
            println!("waiting: io_uring does not work here ({probe})");
            continue;
        }
        for spins in [true, false] {
            let client = if spins { "client spins" } else { "client blocks" };
            let [block, while_, spin] = interleave_all::<3>(scale.rounds(), |side| {
                round_trip(backend, STRATEGIES[side], spins, second, scale.amount(MESSAGES))
            });
            table.row(format!("{backend}, {client}: for 50 µs"), &block, &while_, Target::None);
            let target = if spins { Target::AtMost(0.5) } else { Target::None };
            table.row(format!("{backend}, {client}: spins"), &block, &spin, target);
        }
    }
    println!("{table}");
}

/// The median in microseconds.
fn round_trip(backend: Backend, wait: WaitStrategy, spins: bool, core: usize, messages: usize) -> f64 {
    let builder = backend.group().loops(1).pin_to_cores(true).wait_strategy(wait);
    let group = builder.build().expect("the settings are valid");
    let server = Server::builder()
        .group(group.clone())
        .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
        .bind("127.0.0.1:0")
        .wait()
        .expect("there is a free port");
    let address: SocketAddr = server.address().ip().expect("it listens on TCP");
    // On a thread of its own: a loop gets its core from among those of the thread that builds it.
    let client = thread::spawn(move || {
        core_affinity::set_for_current(core_affinity::CoreId { id: core });
        let mut client = Client::connect(address, spins);
        for _ in 0..messages / 10 {
            client.exchange();
        }
        (0..messages).map(|_| client.exchange()).collect()
    });
    let mut times: Vec<u64> = client.join().expect("the server answers");
    group.shutdown_now().wait().expect("the loop ends well");
    let (_, median, _) = times.select_nth_unstable(messages / 2);
    *median as f64 / 1000.0
}

struct Client {
    stream: TcpStream,
}

impl Client {
    fn connect(address: SocketAddr, spins: bool) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("TCP has it");
        stream.set_nonblocking(spins).expect("sockets have it");
        Self { stream }
    }

    /// Nanoseconds from the message to its echo.
    fn exchange(&mut self) -> u64 {
        let begun = Instant::now();
        self.stream.write_all(&MESSAGE).expect("one message fits");
        let (mut answer, mut have) = ([0; MESSAGE.len()], 0);
        while have < answer.len() {
            match self.stream.read(&mut answer[have..]) {
                Ok(0) => panic!("the server has gone"),
                Ok(more) => have += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => panic!("{error}"),
            }
        }
        begun.elapsed().as_nanos() as u64
    }
}
