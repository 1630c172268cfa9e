//! Question: what do connections that are refused cost those that are served?
//!
//! ```text
//!   core 1                                             core 0
//!   one echo after the other, its time measured ─┐
//!   in a row: some attempts, then an echo       ─┼──▶  a server, one loop for all; attempts come from 127.0.0.2, which is denied
//!   at will: two threads that only attempt      ─┘
//! ```
//! Answer: the median of an echo's time while nobody is refused, behind a row of attempts, and beside threads that attempt as often as they can.
//! The three take turns of a fraction of a second. Target: at most 1.3 of the undisturbed time in a row. What threads at will add is for information where
//! there are two cores: they take the core of the load, and the kernel's work for each attempt is done in their name.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    println!("admission: a second address on loopback is there without asking for it on Linux only");
}

#[cfg(target_os = "linux")]
mod linux {
    use netwright::{
        Backend, Server, pipeline,
        server::{Admission, ServerFigures},
    };
    use netwright_benches::{Ratio, Rounds, Scale, server::two_cores};
    use socket2::{Domain, Socket, Type};
    use std::{
        io::{Read, Write},
        net::{SocketAddr, TcpStream},
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        thread,
        time::{Duration, Instant},
    };

    const MESSAGE: usize = 64;
    /// Attempts before an echo.
    const ROW: usize = 16;
    const TURN: Duration = Duration::from_millis(100);
    const RATIO_MAX: f64 = 1.3;

    pub(super) fn main() {
        let Some(scale) = Scale::from_args() else { return };
        let cores = two_cores();
        if cores.is_none() {
            println!("admission: only one core here, so server and load share it, and times say little");
        }
        println!("\nadmission: an echo of {MESSAGE} bytes on one loop, while others are refused\n");
        println!(
            "backend    alone, us  behind {ROW} in a row, us  ratio              beside threads, us  refused/s"
        );
        for backend in [Backend::Readiness, Backend::Uring] {
            match backend.event_loops(1) {
                Ok(_) => measure(backend, scale, cores),
                Err(error) => println!("{backend:<9}  {error}"),
            }
        }
    }

    fn measure(backend: Backend, scale: Scale, cores: Option<[usize; 2]>) {
        let bind = |which: usize| {
            if let Some(cores) = cores {
                core_affinity::set_for_current(core_affinity::CoreId { id: cores[which] });
            }
        };
        bind(0); // the server's threads take it over from this one
        let server = Server::builder()
            .group(backend.event_loops(1).expect("it was made before"))
            .admission(Admission::new().deny("127.0.0.2").expect("an address"))
            .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
            .bind("127.0.0.1:0")
            .wait()
            .expect("a free port");
        bind(1);
        let address = server.local_addr().expect("on the network");
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("an option that every socket has");
        let attacks = Arc::new(AtomicBool::new(false));
        let over = Arc::new(AtomicBool::new(false));
        let attackers: Vec<_> = (0..2).map(|_| attacker(address, attacks.clone(), over.clone())).collect();

        let (mut alone, mut row, mut beside) = (Rounds::default(), Rounds::default(), Rounds::default());
        let mut per_second = Rounds::default();
        echoes(&mut stream, || {});
        for _ in 0..scale.rounds() {
            alone.push(echoes(&mut stream, || {}));
            row.push(echoes(&mut stream, || (0..ROW).for_each(|_| attempt(address))));
            let before = refused(&server.figures());
            attacks.store(true, Ordering::Relaxed);
            attackers.iter().for_each(|attacker| attacker.thread().unpark());
            beside.push(echoes(&mut stream, || {}));
            attacks.store(false, Ordering::Relaxed);
            per_second.push((refused(&server.figures()) - before) / TURN.as_secs_f64());
        }
        over.store(true, Ordering::Relaxed);
        for attacker in attackers {
            attacker.thread().unpark();
            attacker.join().expect("it does not panic");
        }
        let Ratio { median, low, high } = row.over(&alone);
        let verdict = if median <= RATIO_MAX { "met" } else { "MISSED" };
        println!(
            "{:<9}  {:>9.1}  {:>22.1}  {median:.2} ({low:.2} to {high:.2}) <= {RATIO_MAX} {verdict}  {:>10.1} ({:.2})  {:>9.0}",
            backend.to_string(),
            alone.median(),
            row.median(),
            beside.median(),
            beside.over(&alone).median,
            per_second.median(),
        );
    }

    fn refused(figures: &ServerFigures) -> f64 {
        figures.refused_denied as f64
    }

    /// The median time of an echo in microseconds, with something before each.
    fn echoes(stream: &mut TcpStream, mut before: impl FnMut()) -> f64 {
        let (end, mut times, mut got) = (Instant::now() + TURN, Vec::new(), [0; MESSAGE]);
        while Instant::now() < end {
            before();
            let begun = Instant::now();
            stream.write_all(&[7; MESSAGE]).expect("the server lives");
            stream.read_exact(&mut got).expect("the server lives");
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e6
    }

    /// Connects from a denied address. Over loopback the connection waits to be accepted when the call returns.
    fn attempt(address: SocketAddr) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None).expect("a descriptor");
        socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).expect("a port");
        let _ = socket.connect(&address.into());
        let _ = socket.set_linger(Some(Duration::ZERO)); // no port is left behind
    }

    fn attacker(
        address: SocketAddr,
        attacks: Arc<AtomicBool>,
        over: Arc<AtomicBool>,
    ) -> thread::JoinHandle<()> {
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                match attacks.load(Ordering::Relaxed) {
                    true => attempt(address),
                    false => thread::park(),
                }
            }
        })
    }
}
