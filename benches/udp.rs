//! Question: what does an echoed datagram cost the server?
//!
//! ```text
//!   core 1                                          core 0
//!   load: one thread that never sleeps ─ loopback ─ a hand-written loop of recvmmsg and sendmmsg, or Netwright on
//!         every datagram is compared                one loop, also without runs cut by the system
//! ```
//! Answer in microseconds of the server's CPU time per datagram. Target: at most 1.15 of the hand-written loop. Servers
//! take turns and are started anew as in `echo`.
//!
//! `--scenario 8x16` measures one scenario alone: so many sockets, each with so many datagrams on their way.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    println!("udp: the hand-written server to compare with needs recvmmsg, which only Linux has");
}

#[cfg(target_os = "linux")]
mod linux {
    use netwright::{
        AppContext, Application, Datagrams, channel::Envelope, datagram::Datagram, event_loops, pipeline,
    };
    use netwright_benches::{
        Rounds, Scale, Table, Target, interleave_all,
        reference::udp_echo,
        server::{ServerProcess, asked_for, two_cores},
        udp_load::UdpLoad,
    };
    use std::{error::Error, net::UdpSocket, process, time::Duration};

    struct Scenario {
        name: &'static str,
        sockets: usize,
        window: usize,
        length: usize,
    }

    const SCENARIOS: [Scenario; 4] = [
        Scenario { name: "8x16", sockets: 8, window: 16, length: 64 },
        Scenario { name: "1x64", sockets: 1, window: 64, length: 64 },
        Scenario { name: "64x1", sockets: 64, window: 1, length: 64 },
        Scenario { name: "8x16-1k", sockets: 8, window: 16, length: 1200 },
    ];

    const KINDS: [&str; 3] = ["hand-written", "netwright", "netwright, not cut"];
    /// What this program is started with to serve.
    const SERVE: &str = "--serve-udp";
    /// How often servers are started anew.
    const GENERATIONS: usize = 5;
    /// How long one turn of one server is.
    const TURN: Duration = Duration::from_millis(200);

    pub(super) fn main() {
        if let Some(kind) = asked_for(SERVE) {
            if let Err(error) = serve(&kind) {
                eprintln!("the {kind} server failed: {error}");
                process::exit(1);
            }
            return;
        }
        let mut only = None;
        let scale = Scale::from_args_with(", --scenario NAME", |arg, rest| match arg {
            "--scenario" => {
                only = rest.next();
                true
            }
            _ => false,
        });
        let Some(scale) = scale else { return };
        let core = two_cores().map(|[server, load]| {
            core_affinity::set_for_current(core_affinity::CoreId { id: load });
            server
        });
        if core.is_none() {
            println!("udp: only one core here, so server and load share it, and times say little");
        }
        let mut table = Table::new(
            "udp: microseconds of the server's CPU time per datagram",
            ["scenario", KINDS[0], KINDS[1]],
        );
        let mut notes = String::new();
        for scenario in
            SCENARIOS.iter().filter(|scenario| only.as_ref().is_none_or(|name| name == scenario.name))
        {
            measure(scenario, core, scale, &mut table, &mut notes);
        }
        println!("{table}");
        println!("datagrams per second, how much of its core the server used, and what was lost:{notes}");
    }

    fn measure(
        scenario: &Scenario,
        core: Option<usize>,
        scale: Scale,
        table: &mut Table,
        notes: &mut String,
    ) {
        let Scenario { name, sockets, window, length } = *scenario;
        let mut figures = KINDS.map(|_| Rounds::default());
        let (mut busy, mut rate) = (figures.clone(), figures.clone());
        let mut lost = KINDS.map(|_| 0);
        for _ in 0..GENERATIONS {
            let mut pairs = KINDS.map(|kind| {
                let server = ServerProcess::start_with(SERVE, kind, core);
                let load = UdpLoad::connect(server.address(), sockets, window, length);
                (server, load)
            });
            let rounds = interleave_all::<3>(scale.rounds(), |side| {
                let (server, load) = &mut pairs[side];
                let before = server.cpu_time();
                let run = load.run(TURN);
                let cpu = (server.cpu_time() - before).as_secs_f64();
                busy[side].push(cpu / run.time.as_secs_f64());
                rate[side].push(run.requests as f64 / run.time.as_secs_f64());
                lost[side] += run.lost;
                cpu * 1e6 / run.requests as f64
            });
            for (all, new) in figures.iter_mut().zip(rounds) {
                all.append(new);
            }
        }
        let [reference, own, plain] = &figures;
        table.row(format!("{name}, {length} bytes"), reference, own, Target::AtMost(1.15));
        table.row(format!("{name}, {length} bytes, not cut"), reference, plain, Target::AtMost(1.15));
        *notes += &format!("\n{name:<10}");
        for (side, kind) in KINDS.into_iter().enumerate() {
            let (rate, busy) = (rate[side].median() / 1e3, busy[side].median() * 100.0);
            *notes += &format!("  {kind}: {rate:.0} k/s at {busy:.0} %, {} lost", lost[side]);
        }
    }

    fn serve(kind: &str) -> Result<(), Box<dyn Error>> {
        if kind == KINDS[0] {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            println!("{}", socket.local_addr()?);
            return Ok(udp_echo::serve(&socket)?);
        }
        let datagrams = Datagrams::builder().group(event_loops(1)?).cut_sent(kind == KINDS[1]);
        let datagrams = datagrams.pipeline(|| pipeline().app(Echo))?;
        let channel = datagrams.bind("127.0.0.1:0").wait()?;
        println!("{}", channel.local_addr().expect("it is bound"));
        Ok(datagrams.group().termination().wait()?)
    }

    struct Echo;

    impl Application for Echo {
        type Read = Datagram;
        type Write = Envelope;

        fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
            cx.write(datagram.into_answer());
        }

        fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
            cx.flush(); // all that came together is answered together
        }
    }
}
