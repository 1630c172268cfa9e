//! Question: are several serial loops cheaper than one pool that all connections share, for the same work?
//!
//! ```text
//!   loops    64 connections ─▶ 2 loops: decode, work, answer, one after the other on the connection's own thread
//!
//!   pool     64 connections ─▶ 2 loops: decode ─▶ one queue ─▶ 2 threads: work ─▶ one of the loops: answer
//!            add_on    the whole handler lives on the workers, in order for each connection
//!            offload   the handler stays on its loop and sends the work away
//! ```
//! Answer in microseconds of the server's CPU time per message, for work of 0 to about 100 µs. The work is the same number of
//! rounds of the same function everywhere; what it takes alone is printed. The difference is the price of the hand-over: below
//! it, work is cheaper done on the loop, wherever the loop's other connections stand that wait for it.
//!
//! Nothing is bound to a core here, because threads that hand work over should have several. The load never sleeps and takes one.
//!
//! Second question: what do more loops than cores cost? 1, 2 and 4 loops, all of them on one core, with no work beside the echo.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    println!("serial: the load needs epoll, which only Linux has");
}

#[cfg(target_os = "linux")]
mod linux {
    use bytes::{Bytes, BytesMut};
    use netwright::{AppContext, Application, Server, Workers, event_loops, pipeline, pipeline::Place};
    use netwright_benches::{
        Rounds, Scale, Table, Target,
        load::Load,
        server::{ServerProcess, asked_for, load_on_second_core, machine_load, measure_all},
    };
    use std::{error::Error, hint::black_box, process, time::Instant};

    const WORD: &str = "--serve-serial";
    const LOOPS: usize = 2;
    const THREADS: usize = 2;
    const CONNECTIONS: usize = 64;
    const MESSAGE: usize = 64;
    /// Rounds of [`work`] for a message: nothing, and about 1, 10 and 100 µs on a machine of these years.
    const ROUNDS: [u32; 4] = [0, 350, 3_500, 35_000];

    /// Where the work is done; the reference first.
    const PLACES: [&str; 3] = ["loops", "add_on", "offload"];

    pub(super) fn main() {
        if let Some(asked) = asked_for(WORD) {
            if let Err(error) = serve(&asked) {
                eprintln!("the {asked} server failed: {error}");
                process::exit(1);
            }
            return;
        }
        let Some(scale) = Scale::from_args() else { return };
        println!("serial: load of the machine before: {}", machine_load());
        println!("{}", loops_and_pool(scale));
        println!("{}", loops_on_one_core(scale));
        println!("serial: load of the machine after: {}", machine_load());
    }

    fn loops_and_pool(scale: Scale) -> Table {
        let mut table = Table::new(
            format!(
                "serial: microseconds of CPU time per message, {CONNECTIONS} connections of {MESSAGE} bytes"
            ),
            ["work of a message", "loops", "pool"],
        );
        for rounds in ROUNDS {
            let figures: [Rounds; 3] =
                measure_all(scale, |side| start(&format!("{} {LOOPS} {rounds}", PLACES[side]), None));
            let [loops, pools @ ..] = &figures;
            let alone = alone(rounds);
            for (place, pool) in PLACES[1..].iter().zip(pools) {
                table.row(format!("{alone:.1} µs, {place}"), loops, pool, Target::None);
            }
        }
        table
    }

    fn loops_on_one_core(scale: Scale) -> Table {
        const LOOPS: [usize; 3] = [1, 2, 4];
        let core = load_on_second_core("serial");
        let figures: [Rounds; 3] =
            measure_all(scale, |side| start(&format!("{} {} 0", PLACES[0], LOOPS[side]), core));
        let [one, more @ ..] = &figures;
        let mut table = Table::new(
            format!(
                "serial: microseconds of CPU time per message, {CONNECTIONS} connections, all loops on one core"
            ),
            ["loops", "one loop", "more"],
        );
        for (loops, figures) in LOOPS[1..].iter().zip(more) {
            table.row(loops.to_string(), one, figures, Target::None);
        }
        table
    }

    fn start(asked: &str, core: Option<usize>) -> (ServerProcess, Load) {
        let server = ServerProcess::start_with(WORD, asked, core);
        let load = Load::connect(server.address(), CONNECTIONS, MESSAGE, 1);
        (server, load)
    }

    /// Stands for what an application does with a message: computes, and touches nothing but its connection's state.
    fn work(state: u64, rounds: u32) -> u64 {
        (0..rounds).fold(state, |state, round| {
            let mixed = (state ^ u64::from(round)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        })
    }

    /// Microseconds that the work takes with nothing around it: the fastest of many attempts, each of which is over before
    /// the system takes the core away.
    fn alone(rounds: u32) -> f64 {
        const TIMES: u32 = 10;
        let attempt = |_| {
            let start = Instant::now();
            black_box((0..TIMES).fold(1, |state, _| work(black_box(state), rounds)));
            start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES)
        };
        (0..300).map(attempt).fold(f64::INFINITY, f64::min)
    }

    /// Does its work where it is called: on the loop, or on workers if the whole of it is put there.
    struct Here {
        state: u64,
        rounds: u32,
    }

    impl<P: Place> Application<P> for Here {
        type Read = BytesMut;
        type Write = Bytes;

        fn read(&mut self, cx: &mut AppContext<'_, Self, P>, bytes: BytesMut) {
            self.state = black_box(work(self.state, self.rounds));
            cx.write_and_flush(bytes.freeze());
        }
    }

    /// Sends its work away and answers when it comes back.
    struct Away {
        state: u64,
        rounds: u32,
        workers: Workers,
    }

    impl Application for Away {
        type Read = BytesMut;
        type Write = Bytes;

        fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
            let (state, rounds) = (self.state, self.rounds);
            cx.offload_to(
                &self.workers,
                move || work(state, rounds),
                |away, cx, state| {
                    away.state = black_box(state);
                    cx.write_and_flush(bytes.freeze());
                },
            );
        }
    }

    fn serve(asked: &str) -> Result<(), Box<dyn Error>> {
        let [place, loops, rounds] = asked.split(' ').collect::<Vec<_>>()[..] else {
            return Err("a place, loops and rounds are expected".into());
        };
        let (rounds, state) = (rounds.parse()?, 1);
        let server = Server::builder().group(event_loops(loops.parse()?)?);
        let workers = || Workers::new(THREADS);
        let mut bound = match place {
            "add_on" => {
                let workers = workers()?;
                let stages = move |_: &_| pipeline().app_on(&workers, Here { state, rounds });
                server.pipeline(stages).bind("127.0.0.1:0")
            }
            "offload" => {
                let workers = workers()?;
                let stages = move |_: &_| pipeline().app(Away { state, rounds, workers: workers.clone() });
                server.pipeline(stages).bind("127.0.0.1:0")
            }
            _ => server.pipeline(move |_: &_| pipeline().app(Here { state, rounds })).bind("127.0.0.1:0"),
        };
        let server = bound.wait()?;
        println!("{}", server.address());
        Ok(server.group().termination().wait()?)
    }
}
