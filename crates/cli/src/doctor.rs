//! `netwright doctor`: what this machine allows, which backends work on it, and what to change.

use crate::{failure::Failure, terminal::say};
use netwright::{Backend, event_loop::Probe, server::descriptor_limit};
use std::{fmt::Write, fs, thread};

/// Tell what this machine allows, which backends work on it, and what to change
///
/// Every backend is tried with real operations on loopback: set up, wake up, listen, connect, send, receive, pause, send a
/// file, close.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

/// Fewer descriptors than this are too few for a server with many connections.
const DESCRIPTORS_WANTED: u64 = 65_536;
/// A shorter queue of connections to be accepted overflows when many come at once.
const LISTEN_QUEUE_WANTED: u64 = 1024;

pub(crate) fn run(_: Arguments) -> Result<(), Failure> {
    let backends = [Backend::Readiness, Backend::Uring, Backend::Blocking];
    let probes: Vec<_> = backends.into_iter().map(Probe::run).collect();
    let choice = Backend::choose();
    let mut advice = Vec::new();

    let mut text = String::new();
    section(&mut text, "System", &system());
    section(&mut text, "Limits", &limits(&mut advice));
    verdicts(&mut text, &probes, &mut advice);
    let _ = writeln!(text, "Auto takes {}: {}.", choice.backend, choice.why);
    if advice.is_empty() {
        let _ = writeln!(text, "\nNothing to change.");
    } else {
        let _ = writeln!(text, "\nWhat to change");
        for line in advice {
            let _ = writeln!(text, "  - {line}");
        }
    }
    say!("{}", text.trim_end());
    match probes.iter().find(|probe| probe.backend == choice.backend) {
        Some(probe) if !probe.works() => Err(Failure::Failed(format!("no backend works here: {probe}"))),
        _ => Ok(()),
    }
}

type Lines = Vec<(String, String)>;

fn section(text: &mut String, title: &str, lines: &Lines) {
    let _ = writeln!(text, "{title}");
    for (name, value) in lines {
        let _ = writeln!(text, "  {name:<22} {value}");
    }
    text.push('\n');
}

/// The first line of one of the kernel's files.
fn kernel(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

fn system() -> Lines {
    let version = kernel("/proc/sys/kernel/osrelease").unwrap_or_else(|| "version unknown".to_owned());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    vec![
        ("kernel".into(), format!("{} {version}, {}", std::env::consts::OS, std::env::consts::ARCH)),
        ("cores".into(), cores.to_string()),
    ]
}

fn limits(advice: &mut Vec<String>) -> Lines {
    let mut lines = Lines::new();
    if let Ok(limit) = descriptor_limit() {
        let value = format!("{}, may be raised to {}", count(limit.soft), count(limit.hard));
        lines.push(("open descriptors".into(), value));
        if limit.hard < DESCRIPTORS_WANTED {
            advice.push(format!(
                "every connection is a descriptor, and {} are the most allowed: raise the hard limit \
                 (`ulimit -Hn`, LimitNOFILE in a systemd unit) to {DESCRIPTORS_WANTED} or more",
                limit.hard
            ));
        }
    }
    if let Some(memory) = locked_memory() {
        lines.push(("locked memory".into(), memory));
    }
    if let Some(queue) = kernel("/proc/sys/net/core/somaxconn") {
        if queue.parse::<u64>().is_ok_and(|queue| queue < LISTEN_QUEUE_WANTED) {
            advice.push(format!(
                "connections that come faster than they are accepted wait in a queue of {queue}: \
                 `sysctl net.core.somaxconn=4096`"
            ));
        }
        lines.push(("listen queue".into(), format!("{queue} (net.core.somaxconn)")));
    }
    if let Some(disabled) = kernel("/proc/sys/kernel/io_uring_disabled") {
        let meaning = match disabled.as_str() {
            "0" => "allowed for everybody",
            "1" => "allowed for a privileged group only",
            _ => "forbidden",
        };
        lines.push(("io_uring".into(), format!("{meaning} (kernel.io_uring_disabled = {disabled})")));
    }
    lines
}

fn count(limit: u64) -> String {
    if limit == u64::MAX { "any number".to_owned() } else { limit.to_string() }
}

fn locked_memory() -> Option<String> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max locked memory"))?;
    let mut fields = line.trim_start_matches("Max locked memory").split_whitespace();
    let (soft, hard) = (fields.next()?, fields.next()?);
    let readable = |text: &str| match text.parse::<u64>() {
        Ok(bytes) => format!("{} KiB", bytes / 1024),
        Err(_) => text.to_owned(),
    };
    Some(format!("{}, may be raised to {}", readable(soft), readable(hard)))
}

/// A table of operations and backends, then what failed and why.
fn verdicts(text: &mut String, probes: &[Probe], advice: &mut Vec<String>) {
    let _ = write!(text, "{:<34}", "Operations, tried on loopback");
    for probe in probes {
        let _ = write!(text, "{:<12}", probe.backend.to_string());
    }
    text.push('\n');
    let longest = probes.iter().max_by_key(|probe| probe.steps.len());
    for (row, step) in longest.into_iter().flat_map(|probe| &probe.steps).enumerate() {
        let _ = write!(text, "  {:<32}", step.what);
        for probe in probes {
            let cell = match probe.steps.get(row) {
                Some(step) if step.result.is_ok() => "ok",
                Some(_) => "FAILED",
                None => "-",
            };
            let _ = write!(text, "{cell:<12}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    for probe in probes.iter().filter(|probe| !probe.works()) {
        let _ = writeln!(text, "  {probe}");
        let why = probe.failure().and_then(|step| step.result.as_ref().err());
        advice.extend(why.and_then(|why| remedy(probe.backend, why)));
    }
    text.push('\n');
}

/// What usually helps.
fn remedy(backend: Backend, why: &str) -> Option<String> {
    let why = why.to_ascii_lowercase();
    let said = |words: &[&str]| words.iter().any(|word| why.contains(word));
    if said(&["too many open files"]) {
        return Some(format!("{backend}: close descriptors or raise their limit"));
    }
    if backend != Backend::Uring {
        return None;
    }
    if said(&["cannot allocate memory", "memlock", "locked"]) {
        return Some(
            "io_uring: raise the limit on locked memory (`ulimit -l`, LimitMEMLOCK in a unit)".to_owned(),
        );
    }
    if said(&["not permitted", "permission"]) {
        return Some(
            "io_uring: it is forbidden here, by `sysctl kernel.io_uring_disabled` or by the seccomp profile of a \
             container; allow io_uring_setup, io_uring_enter and io_uring_register there"
                .to_owned(),
        );
    }
    said(&["not implemented", "only linux"]).then(|| "io_uring: it needs Linux 6.0 or newer".to_owned())
}
