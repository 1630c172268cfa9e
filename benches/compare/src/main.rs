//! Measures Netwright and the servers that one could take instead, side by side: `--help` says how, `README.md` what and why.
//!
//! ```text
//!   args ─▶ making: builds every server ─▶ measure: rounds ─▶ report: tables, JSON, plots
//!                                             │
//!                        process: a server on its core ◀─ load ─▶ every answer verified
//! ```
//! Not here: the servers (`peers/`), each a program of its own.

mod args;
mod load;
mod machine;
mod making;
mod measure;
mod process;
mod report;
mod roster;
mod scenario;
mod stats;
mod system;

use args::{Command, HELP, Options};
use machine::{Cores, Machine};
use measure::Bench;
use report::Head;
use std::{
    env, fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant, SystemTime},
};

/// The server's and the load's ends of all idle connections are in different processes; some more are needed for the rest.
const DESCRIPTORS: u64 = 10_200;

fn main() -> ExitCode {
    let done = match args::parse(env::args().skip(1)) {
        Ok(Command::Help) => {
            print!("{HELP}");
            Ok(())
        }
        Ok(Command::List) => {
            list();
            Ok(())
        }
        Ok(Command::Measure(options)) => measure(&options),
        Err(why) => Err(why),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn list() {
    println!("scenarios:");
    for scenario in scenario::SCENARIOS {
        println!("  {:<15}  {}", scenario.name, scenario.title);
    }
    println!("servers:");
    for peer in roster::PEERS {
        let modes: Vec<&str> = peer.speaks.iter().map(|mode| mode.word()).collect();
        println!("  {:<15}  {} ({})", peer.name, peer.about, modes.join(", "));
    }
}

fn measure(options: &Options) -> Result<(), String> {
    let cores = Cores::find()?;
    let descriptors = machine::raise_descriptor_limit();
    if descriptors < DESCRIPTORS {
        eprintln!(
            "only {descriptors} descriptors, fewer than {DESCRIPTORS}: 10,000 idle connections will fail"
        );
    }
    let built = making::build(&options.peers, options.netty_jars.as_deref());
    if built.is_empty() {
        return Err("no server could be built".to_owned());
    }
    let lock =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock")).unwrap_or_default();
    let head = Head {
        machine: Machine::look(),
        when: httpdate::fmt_http_date(SystemTime::now()),
        command: command(),
        versions: report::versions(&built, &lock),
        rounds: options.rounds,
        seconds: options.time.as_secs_f64(),
    };
    let Cores { server, load } = cores;
    eprintln!(
        "{}, {} cores, Linux {}; {}",
        head.machine.cpu, head.machine.cores, head.machine.kernel, head.machine.rustc
    );
    eprintln!(
        "{} scenarios, {} servers, {} rounds of {} s; server on core {server}, load on core {load}; about {}",
        options.scenarios.len(),
        built.len(),
        options.rounds,
        head.seconds,
        minutes(measure::estimate(options, &built))
    );
    let start = Instant::now();
    let outcomes = Bench::new(options, &built, cores).run()?;
    eprintln!("measured in {}", minutes(start.elapsed()));
    let out = options.out.clone().unwrap_or_else(|| making::target().join("compare"));
    report::write(&head, &outcomes, &out)
}

/// How to do the same again: arguments that name folders of this machine are left out.
fn command() -> String {
    let mut text = "cargo run --release --manifest-path benches/compare/Cargo.toml".to_owned();
    let mut args = env::args().skip(1);
    let mut first = true;
    while let Some(arg) = args.next() {
        text.push_str(if first { " -- " } else { " " });
        first = false;
        match &*arg {
            "--out" | "--netty-jars" => {
                args.next();
                text.push_str(&format!("{arg} DIR"));
            }
            _ => text.push_str(&arg),
        }
    }
    text
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}
