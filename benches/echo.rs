//! Question: what does an echoed message cost the server?
//!
//! ```text
//!   core 1                                        core 0
//!   load: one thread that never sleeps ─ loopback ─ one of six servers, a process each:
//!         every byte is compared                    a hand-written epoll loop, the same with the
//!                                                   system calls of libc, tokio, Netwright on one loop;
//!                                                   a hand-written io_uring loop, Netwright on one ring
//! ```
//! Answer in microseconds of the server's CPU time per message, which holds when the load is what saturates. Loopback
//! echo is nearly all kernel time, the same for everybody, so what a framework adds shows as a few per cent. Targets: at
//! most 1.04 of the hand-written loop of the same kind (1.08 for a single connection by io_uring, where each message is a
//! turn of the loop), and not above tokio.
//!
//! All servers are there at once and take turns of a fraction of a second, so a machine that changes its speed changes it
//! for all; each turn starts and ends with a server that sleeps, so its CPU time is known to the nanosecond. They are
//! started anew several times, as memory can happen to lie well or badly for the whole life of a process.
//!
//! `--scenario 64x64` measures one scenario alone, `--servers uring` only those with this in their names; `--syscalls` counts system calls instead, with `perf` or `strace`.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    println!("echo: the hand-written server to compare with needs epoll, which only Linux has");
}

#[cfg(target_os = "linux")]
mod linux {
    use netwright_benches::{
        Rounds, Scale, Table, Target, interleave_all,
        load::Load,
        server::{Kind, ServerProcess, load_on_second_core, machine_load, serve_if_asked},
    };
    use std::{
        process::{self, Command, Stdio},
        thread,
        time::Duration,
    };

    struct Scenario {
        name: &'static str,
        connections: usize,
        message: usize,
        depth: usize,
    }

    const SCENARIOS: [Scenario; 4] = [
        Scenario { name: "1x64", connections: 1, message: 64, depth: 1 },
        Scenario { name: "64x64", connections: 64, message: 64, depth: 1 },
        Scenario { name: "256x1k", connections: 256, message: 1024, depth: 1 },
        Scenario { name: "16x16k-d4", connections: 16, message: 16 * 1024, depth: 4 },
    ];

    /// How often servers are started anew.
    const GENERATIONS: usize = 5;
    /// How long one turn of one server is.
    const TURN: Duration = Duration::from_millis(200);

    pub(super) fn main() {
        serve_if_asked();
        let (mut only, mut syscalls, mut part) = (None, false, String::new());
        let scale =
            Scale::from_args_with(", --scenario NAME, --servers PART, --syscalls", |arg, rest| match arg {
                "--servers" => {
                    part = rest.next().unwrap_or_default();
                    true
                }
                "--scenario" => {
                    only = rest.next();
                    true
                }
                "--syscalls" => {
                    syscalls = true;
                    true
                }
                _ => false,
            });
        let Some(scale) = scale else { return };
        let known = |name: &String| SCENARIOS.iter().any(|scenario| scenario.name == name);
        if let Some(unknown) = only.as_ref().filter(|name| !known(name)) {
            eprintln!(
                "unknown scenario {unknown:?}: there are {:?}",
                SCENARIOS.map(|scenario| scenario.name)
            );
            process::exit(2);
        }
        let wanted = |scenario: &&Scenario| only.as_deref().is_none_or(|name| name == scenario.name);
        let scenarios: Vec<&Scenario> = SCENARIOS.iter().filter(wanted).collect();

        let core = load_on_second_core("echo");
        let wanted = |kind: Kind| kind.name().contains(&part);
        if syscalls {
            count_syscalls(&scenarios, core, wanted);
        } else {
            measure(&scenarios, core, scale, wanted);
        }
    }

    /// A server and the connections to it.
    struct Pair {
        server: ServerProcess,
        load: Load,
    }

    impl Pair {
        fn start(kind: Kind, scenario: &Scenario, core: Option<usize>) -> Self {
            let server = ServerProcess::start(kind, core);
            let load =
                Load::connect(server.address(), scenario.connections, scenario.message, scenario.depth);
            Self { server, load }
        }
    }

    fn measure(scenarios: &[&Scenario], core: Option<usize>, scale: Scale, wanted: impl Fn(Kind) -> bool) {
        println!("echo: load of the machine before: {}", machine_load());
        let mut table = Table::new(
            "echo: microseconds of the server's CPU time per message",
            ["scenario, own / reference", "reference", "own"],
        );
        let mut notes = String::new();
        for scenario in scenarios {
            let mut figures = Kind::ALL.map(|_| Rounds::default());
            let (mut busy, mut rate) = (figures.clone(), figures.clone());
            for _ in 0..GENERATIONS {
                let mut pairs = Kind::ALL.map(|kind| wanted(kind).then(|| Pair::start(kind, scenario, core)));
                let rounds = interleave_all::<{ Kind::ALL.len() }>(scale.rounds(), |side| {
                    let Some(Pair { server, load }) = &mut pairs[side] else { return 0.0 };
                    let before = server.cpu_time();
                    let run = load.run(TURN);
                    let cpu = (server.cpu_time() - before).as_secs_f64();
                    busy[side].push(cpu / run.time.as_secs_f64());
                    rate[side].push(run.requests as f64 / run.time.as_secs_f64());
                    cpu * 1e6 / run.requests as f64
                });
                for (all, new) in figures.iter_mut().zip(rounds) {
                    all.append(new);
                }
            }
            let mut row = |own: Kind, reference: Kind, target: Target| {
                if wanted(own) && wanted(reference) {
                    let case = format!("{}, {} / {}", scenario.name, own.name(), reference.name());
                    table.row(case, &figures[reference as usize], &figures[own as usize], target);
                }
            };
            let alone = scenario.connections == 1;
            let large = scenario.message > 4096;
            row(Kind::Netwright, Kind::Epoll, Target::AtMost(1.04));
            row(Kind::Netwright, Kind::EpollLibc, Target::AtMost(1.04));
            row(Kind::Netwright, Kind::Tokio, Target::AtMost(1.0));
            let by_hand = match () {
                () if alone => Target::AtMost(1.08),
                () if large => Target::None,
                () => Target::AtMost(1.04),
            };
            row(Kind::NetwrightUring, Kind::Uring, by_hand);
            let readiness = if alone { Target::None } else { Target::AtMost(1.0) };
            row(Kind::NetwrightUring, Kind::Netwright, readiness);
            notes += &format!("\n{:<10}", scenario.name);
            for (side, kind) in Kind::ALL.into_iter().enumerate().filter(|(_, kind)| wanted(*kind)) {
                let (rate, busy) = (rate[side].median() / 1e3, busy[side].median() * 100.0);
                notes += &format!("  {}: {rate:.0} k/s at {busy:.0} %", kind.name());
            }
        }
        println!("{table}");
        println!("messages per second, and how much of its core the server used:{notes}");
        println!("\necho: load of the machine after: {}", machine_load());
    }

    // ---- system calls ----

    /// As `perf` and `strace` name them.
    const CALLS: [(&str, &[&str]); 3] = [
        ("receive", &["recvfrom", "read", "recvmsg", "readv"]),
        ("send", &["sendto", "write", "sendmsg", "writev"]),
        ("poll", &["epoll_wait", "epoll_pwait", "io_uring_enter"]),
    ];

    fn count_syscalls(scenarios: &[&Scenario], core: Option<usize>, wanted: impl Fn(Kind) -> bool) {
        let Some(tool) = [Tool::Perf, Tool::Strace].into_iter().find(|tool| tool.works()) else {
            println!("echo: system calls are not counted: neither perf nor strace works here");
            return;
        };
        println!("\necho: system calls per message, counted by {tool:?}\n");
        println!("{:<10}  {:<16}  receive     send     poll    other", "scenario", "server");
        for scenario in scenarios {
            for kind in Kind::ALL.into_iter().filter(|kind| wanted(*kind)) {
                let mut pair = Pair::start(kind, scenario, core);
                pair.load.run(TURN);
                let mut counter = tool.command(pair.server.pid());
                let mut counter =
                    counter.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it works");
                thread::sleep(Duration::from_millis(300)); // until it has attached itself
                let run = pair.load.run(TURN * 5);
                drop(pair); // the server ends, and the counter with it
                let mut text = String::new();
                let mut says = counter.stderr.take().expect("piped");
                std::io::Read::read_to_string(&mut says, &mut text).expect("it speaks UTF-8");
                let _ = counter.wait();
                let counts = Counts::parse(&text);
                let per_message = |calls: f64| calls / run.requests as f64;
                let known = CALLS.map(|(_, names)| names.iter().map(|name| counts.of(name)).sum::<f64>());
                let other = per_message(counts.total() - known.iter().sum::<f64>());
                let [receive, send, poll] = known.map(per_message);
                println!(
                    "{:<10}  {:<16}  {receive:>7.3}  {send:>7.3}  {poll:>7.3}  {other:>7.3}",
                    scenario.name,
                    kind.name()
                );
            }
        }
    }

    #[derive(Debug, Clone, Copy)]
    enum Tool {
        Perf,
        Strace,
    }

    impl Tool {
        /// Counts until the process ends, then writes the counts to its standard error.
        fn command(self, pid: u32) -> Command {
            let pid = pid.to_string();
            match self {
                Self::Perf => {
                    let mut command = Command::new("perf");
                    command.args(["stat", "-x,", "-e", "raw_syscalls:sys_enter"]);
                    for name in CALLS.iter().flat_map(|(_, names)| *names) {
                        command.args(["-e", &format!("syscalls:sys_enter_{name}")]);
                    }
                    command.args(["-p", &pid]);
                    command
                }
                Self::Strace => {
                    let mut command = Command::new("strace");
                    command.args(["-c", "-f", "-q", "-p", &pid]);
                    command
                }
            }
        }

        fn works(self) -> bool {
            let mut try_out = match self {
                Self::Perf => Command::new("perf"),
                Self::Strace => Command::new("strace"),
            };
            match self {
                Self::Perf => try_out.args(["stat", "-e", "raw_syscalls:sys_enter", "true"]),
                Self::Strace => try_out.args(["-c", "true"]),
            };
            try_out.output().is_ok_and(|output| output.status.success())
        }
    }

    /// System calls by name.
    struct Counts(Vec<(String, f64)>);

    impl Counts {
        /// Both tools write a line for each: `38273,,syscalls:sys_enter_recvfrom,…` the one, and
        /// `% seconds usecs/call calls [errors] name` the other.
        fn parse(text: &str) -> Self {
            let line = |line: &str| {
                let (name, count) = match line.split(',').collect::<Vec<_>>()[..] {
                    [count, _, name, ..] => (name.trim_start_matches("syscalls:sys_enter_"), count),
                    _ => match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
                        [_, _, _, count, name] | [_, _, _, count, _, name] => (name, count),
                        _ => return None,
                    },
                };
                Some((name.to_owned(), count.parse().ok()?))
            };
            Self(text.lines().filter_map(line).collect())
        }

        fn of(&self, name: &str) -> f64 {
            self.0.iter().find(|(known, _)| known == name).map_or(0.0, |(_, count)| *count)
        }

        fn total(&self) -> f64 {
            match self.of("raw_syscalls:sys_enter") {
                0.0 => self.0.iter().filter(|(name, _)| name != "total").map(|(_, count)| count).sum(),
                total => total,
            }
        }
    }
}
