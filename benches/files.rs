//! Question: what does it cost to read a file without blocking, and what do others on the same loop notice of it?
//!
//! ```text
//!   a file of 1 GiB in the system's cache, read by pieces of 64 KiB:
//!     pread in a loop, one buffer ──────────────── the reference
//!     on a ring: read_into, one after the other
//!     on a ring: File::pieces, three read at a time
//!     by workers: File::pieces
//!
//!   one ring: echo for 16 connections ── with and without somebody who reads the file on the same loop, without a pause
//! ```
//! Answer in microseconds of the process's CPU time per piece, threads of the kernel and workers included; and in microseconds until
//! 99 of 100 echoes were back. Targets: by pieces on a ring at most 1.1 of `pread` (one by one nothing is read while the loop
//! looks at what it has, so every read is a turn of its own), and a p99 of at most 1.5 of what it is without the reader.
//!
//! The file is made in a temporary folder and removed at the end; `--quick` makes one of a tenth.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    println!("files: the CPU time of threads is read from /proc, which only Linux has");
}

#[cfg(target_os = "linux")]
mod linux {
    use bytes::{Bytes, BytesMut};
    use netwright::{
        Backend, EventLoop, EventLoopGroup, Server,
        files::{File, OpenOptions},
        pipeline,
    };
    use netwright_benches::{
        Scale, Table, Target, interleave_all,
        server::{cpu_time, load_on_second_core, machine_load},
        stages::Echo,
    };
    use std::{
        fs,
        hint::black_box,
        io::{ErrorKind, Read, Write},
        net::TcpStream,
        os::unix::fs::FileExt,
        path::{Path, PathBuf},
        process,
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicU64, Ordering},
        },
        time::Instant,
    };

    const LEN: usize = 1 << 30;
    const PIECE: usize = 64 * 1024;
    const CONNECTIONS: usize = 16;
    const MESSAGE: usize = 64;
    /// Echoes of one round on each connection.
    const ECHOES: usize = 4_000;
    const CPU_MAX: f64 = 1.1;
    const P99_MAX: f64 = 1.5;

    pub(super) fn main() {
        let Some(scale) = Scale::from_args() else { return };
        let rings = match Backend::Uring.event_loops(1) {
            Ok(rings) => rings,
            Err(error) => return println!("files: skipped, there is no ring: {error}"),
        };
        println!("files: load of the machine before: {}", machine_load());
        let pieces = scale.amount(LEN / PIECE);
        let temporary = Temporary::new(pieces * PIECE);
        let readiness = Backend::Readiness.event_loops(1).expect("every machine has it");
        cost(scale, &temporary.0, pieces, &rings, &readiness);
        latency(scale, &temporary.0, rings);
        println!("files: load of the machine after: {}", machine_load());
    }

    // ---- what it costs ----

    fn cost(scale: Scale, path: &Path, pieces: usize, rings: &EventLoopGroup, readiness: &EventLoopGroup) {
        const SIDES: [&str; 4] = ["pread", "ring, one by one", "ring, pieces", "workers, pieces"];
        let plain = fs::File::open(path).expect("it was just made");
        let sides = interleave_all::<{ SIDES.len() }>(scale.rounds(), |side| {
            let before = cpu_time(process::id());
            match side {
                0 => read_plainly(&plain, pieces),
                1 => run(&rings.next(), one_by_one(path.to_owned())),
                2 => run(&rings.next(), by_pieces(path.to_owned())),
                _ => run(&readiness.next(), by_pieces(path.to_owned())),
            }
            (cpu_time(process::id()) - before).as_secs_f64() * 1e6 / pieces as f64
        });
        let title =
            format!("files: microseconds of CPU time per piece of 64 KiB, {} MiB", (pieces * PIECE) >> 20);
        let mut table = Table::new(title, ["read by", "pread", "own"]);
        for (side, name) in SIDES.iter().enumerate().skip(1) {
            let target = if side == 2 { Target::AtMost(CPU_MAX) } else { Target::None };
            table.row(*name, &sides[0], &sides[side], target);
        }
        println!("{table}");
    }

    fn run(event_loop: &EventLoop, read: impl Future<Output = usize> + Send + 'static) {
        let read = event_loop.spawn(read).expect("open").wait();
        assert!(read.is_ok_and(|bytes| bytes > 0));
    }

    fn read_plainly(file: &fs::File, pieces: usize) {
        let mut buffer = vec![0; PIECE];
        for piece in 0..pieces {
            let read = file.read_at(&mut buffer, (piece * PIECE) as u64).expect("readable");
            assert_eq!(read, PIECE);
            black_box(&buffer);
        }
    }

    async fn one_by_one(path: PathBuf) -> usize {
        let file = File::open(path).await.expect("it is there");
        let mut buffer = BytesMut::with_capacity(PIECE);
        let mut sum = 0;
        loop {
            buffer.clear();
            buffer = file.read_into(sum as u64, buffer).await.expect("readable");
            black_box(&buffer);
            sum += buffer.len();
            if buffer.len() < PIECE || sum as u64 == file.at_open().len() {
                return sum;
            }
        }
    }

    async fn by_pieces(path: PathBuf) -> usize {
        let mut pieces = File::open(path).await.expect("it is there").pieces(..);
        let mut sum = 0;
        while let Some(piece) = pieces.next().await.expect("readable") {
            sum += black_box(piece).len();
        }
        sum
    }

    // ---- what others notice ----

    fn latency(scale: Scale, path: &Path, rings: EventLoopGroup) {
        rings
            .next()
            .spawn(async {})
            .expect("open")
            .wait()
            .expect("it starts before this thread leaves its core");
        load_on_second_core("files");
        let server = Server::builder()
            .group(rings.clone())
            .pipeline(|_| pipeline().app(Echo))
            .bind("127.0.0.1:0")
            .wait()
            .expect("a port is free");
        let address = server.local_addr().expect("on the network");
        let mut streams: Vec<TcpStream> = (0..CONNECTIONS)
            .map(|_| {
                let stream = TcpStream::connect(address).expect("it listens");
                stream.set_nodelay(true).expect("a socket");
                stream.set_nonblocking(true).expect("a socket");
                stream
            })
            .collect();
        let mut reader = Reader::start(&rings.next(), path);
        let mut speed = Vec::new();
        let [alone, beside] = interleave_all::<2>(scale.rounds(), |side| {
            reader.reads(side == 1);
            let (begun, before) = (Instant::now(), reader.pieces.load(Ordering::Relaxed));
            let p99 = p99(&mut streams, scale.amount(ECHOES));
            let read = reader.pieces.load(Ordering::Relaxed) - before;
            reader.reads(false);
            if side == 1 {
                speed.push((read as usize * PIECE) as f64 / begun.elapsed().as_secs_f64() / 1e9);
            }
            p99
        });
        let title = format!("files: p99 of {CONNECTIONS} echoes of {MESSAGE} bytes, microseconds");
        let mut table = Table::new(title, ["on the same ring", "alone", "beside it"]);
        table.row("a file read without a pause", &alone, &beside, Target::AtMost(P99_MAX));
        println!("{table}");
        speed.sort_by(f64::total_cmp);
        println!("files: read beside the echoes at {:.1} GB/s", speed[speed.len() / 2]);
    }

    /// Reads a file again and again on a loop, while it is told to.
    struct Reader {
        on: Arc<AtomicBool>,
        pieces: Arc<AtomicU64>,
        event_loop: EventLoop,
        path: PathBuf,
    }

    impl Reader {
        fn start(event_loop: &EventLoop, path: &Path) -> Self {
            let (on, pieces) = Default::default();
            Self { on, pieces, event_loop: event_loop.clone(), path: path.to_owned() }
        }

        fn reads(&mut self, reads: bool) {
            if self.on.swap(reads, Ordering::Relaxed) == reads || !reads {
                return;
            }
            let (on, count, path) = (self.on.clone(), self.pieces.clone(), self.path.clone());
            let reading = async move {
                let file = File::open(path).await.expect("it is there");
                while on.load(Ordering::Relaxed) {
                    let mut pieces = file.pieces(..);
                    while let Some(piece) = pieces.next().await.expect("readable")
                        && on.load(Ordering::Relaxed)
                    {
                        black_box(piece);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            drop(self.event_loop.spawn(reading).expect("open"));
        }
    }

    /// Microseconds until 99 of 100 messages were back. This thread never sleeps.
    fn p99(streams: &mut [TcpStream], echoes: usize) -> f64 {
        let (message, mut room) = ([7; MESSAGE], [0; MESSAGE]);
        let mut times = Vec::with_capacity(echoes * streams.len());
        let mut sent = vec![Instant::now(); streams.len()];
        for _ in 0..echoes {
            for (stream, sent) in streams.iter_mut().zip(&mut sent) {
                *sent = Instant::now();
                stream.write_all(&message).expect("room for one message");
            }
            for (stream, sent) in streams.iter_mut().zip(&sent) {
                let mut got = 0;
                while got < MESSAGE {
                    match stream.read(&mut room[got..]) {
                        Ok(0) => panic!("the server has gone"),
                        Ok(read) => got += read,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                        Err(error) => panic!("{error}"),
                    }
                }
                times.push(sent.elapsed().as_nanos() as f64 / 1e3);
            }
        }
        times.sort_by(f64::total_cmp);
        times[times.len() * 99 / 100]
    }

    /// A file that goes with its bench.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(len: usize) -> Self {
            let path = std::env::temp_dir().join(format!("netwright-bench-files-{}", process::id()));
            let made = Self(path);
            let options = OpenOptions::new().write(true).create_new(true);
            let file = options.open(&made.0).wait().expect("a temporary folder");
            let part = Bytes::from(vec![7; 1 << 20]);
            for at in (0..len).step_by(part.len()) {
                let rest = part.slice(..part.len().min(len - at));
                file.write_all_at(at as u64, rest).wait().expect("room on the disk");
            }
            made
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }
}
