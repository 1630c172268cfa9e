//! Question: what does a message cost when many other sockets of the same loop are silent?
//!
//! ```text
//!   core 1                                        core 0
//!   load: 4 connections that never rest ─ loopback ─ an echo server with one loop, by poll(2), epoll or io_uring
//!         1 to 10,000 that say nothing
//! ```
//! Answer in microseconds of the server's CPU time per message. The servers are the same program but for the loop's driver, so
//! what differs is how a loop learns which socket has something. Each server is started anew for each figure, with its own silent
//! connections, and the three take turns.
//!
//! A silent connection takes a descriptor at both ends. The soft limit is raised to the hard one first; where that is not enough
//! for the largest numbers, the series ends before them and says so.
//!
//! `cargo bench -p netwright-benches --bench waiting -- --write` writes the figures into `docs/io-models.md` and draws
//! `docs/performance/waiting.svg`.

#[cfg(target_os = "linux")]
mod plot;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(target_os = "linux")]
    return linux::main();
    #[cfg(not(target_os = "linux"))]
    {
        println!("waiting: the load needs epoll, which only Linux has");
        Ok(())
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use crate::plot::{self, Line};
    use netwright::server::{descriptor_limit, raise_descriptor_limit};
    use netwright_benches::{
        Rounds, Scale, interleave_all,
        load::Load,
        server::{Kind, ServerProcess, load_on_second_core, machine_load, serve_if_asked},
        text::{figure, rewrite, thousands},
    };
    use std::{error::Error, fmt::Write as _, fs, path::Path, time::Duration};

    const KINDS: [Kind; 3] = [Kind::NetwrightPoll, Kind::Netwright, Kind::NetwrightUring];
    const NAMES: [&str; 3] = ["poll", "epoll", "io_uring"];
    const SILENT: [usize; 9] = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000];
    const ACTIVE: usize = 4;
    const MESSAGE: usize = 64;
    /// Descriptors that are not silent connections.
    const SPARE: u64 = 64;
    /// How long a server is asked for one figure.
    const TURN: Duration = Duration::from_millis(400);
    /// Before it counts: all silent ones are accepted by then, and the code is warm.
    const WARM_UP: Duration = Duration::from_millis(100);

    pub(super) fn main() -> Result<(), Box<dyn Error>> {
        serve_if_asked();
        let mut write = false;
        let own = |arg: &str, _: &mut dyn Iterator<Item = String>| {
            write |= arg == "--write";
            arg == "--write"
        };
        let Some(scale) = Scale::from_args_with(", --write, to write the page", own) else { return Ok(()) };
        let _ = raise_descriptor_limit(); // the limit that counts is looked at next
        let allowed = descriptor_limit().map_or(u64::MAX, |limit| limit.soft).saturating_sub(SPARE);
        let core = load_on_second_core("waiting");
        println!("waiting: load of the machine before: {}", machine_load());
        let mut rows: Vec<(usize, [Rounds; 3])> = Vec::new();
        for silent in SILENT {
            if silent as u64 > allowed {
                println!(
                    "waiting: not with {silent} silent sockets: the system allows {allowed} descriptors"
                );
                break;
            }
            let figures = interleave_all(scale.rounds().div_ceil(3), |side| {
                let server = ServerProcess::start(KINDS[side], core);
                let _silent = Load::connect(server.address(), silent, MESSAGE, 1);
                let mut active = Load::connect(server.address(), ACTIVE, MESSAGE, 1);
                active.run(WARM_UP);
                server.cpu_per_request(&mut active, TURN)
            });
            println!("waiting: {silent} done");
            rows.push((silent, figures));
        }
        let table = table(&rows);
        println!("\nwaiting: microseconds of CPU time per message, {ACTIVE} busy sockets\n\n{table}");
        println!("waiting: load of the machine after: {}", machine_load());
        if write {
            let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
            fs::write(docs.join("performance/waiting.svg"), plot::svg(&lines(&rows)))?;
            rewrite(&docs.join("io-models.md"), &table)?;
        }
        Ok(())
    }

    fn lines(rows: &[(usize, [Rounds; 3])]) -> Vec<Line> {
        let points = |side: usize| rows.iter().map(move |(silent, of)| (*silent as f64, of[side].median()));
        NAMES.iter().enumerate().map(|(side, name)| Line { name, points: points(side).collect() }).collect()
    }

    fn table(rows: &[(usize, [Rounds; 3])]) -> String {
        let mut text = "| silent sockets | poll | epoll | io_uring | poll to epoll | io_uring to epoll |\n\
                        | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
        for (silent, [poll, epoll, ring]) in rows {
            let _ = write!(text, "| {} |", thousands(*silent as f64));
            for side in [poll, epoll, ring] {
                let _ = write!(text, " {} µs |", figure(side.median()));
            }
            let (of_poll, of_ring) = (poll.over(epoll).median, ring.over(epoll).median);
            let _ = writeln!(text, " {} | {of_ring:.2} |", figure(of_poll));
        }
        text
    }
}
