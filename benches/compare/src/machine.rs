//! The machine: its cores, what else it does, and what it is.
//!
//! The host of a virtual machine may move its cores between cache domains; what passes from one core to the other gets dearer then,
//! for everybody. How far the two are is measured by a cache line that goes to and fro between them.

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// A core for the server and one for the load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores {
    pub(crate) server: usize,
    pub(crate) load: usize,
}

impl Cores {
    /// The first two that this process may use.
    pub(crate) fn find() -> Result<Self, String> {
        let set = sched_getaffinity(Pid::from_raw(0)).map_err(|error| format!("no cores: {error}"))?;
        let mut cores = (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false));
        match (cores.next(), cores.next()) {
            (Some(server), Some(load)) => Ok(Self { server, load }),
            _ => Err("fewer than two cores: server and load would take time from each other".to_owned()),
        }
    }

    /// Where the load runs.
    pub(crate) fn stand_on_load(&self) -> Result<(), String> {
        stand_on(&[self.load])
    }

    /// Where a server with so many threads runs; one with several shares the load's core.
    pub(crate) fn stand_on_servers(&self, threads: usize) -> Result<(), String> {
        if threads == 1 { stand_on(&[self.server]) } else { stand_on(&[self.server, self.load]) }
    }

    /// Nanoseconds for which a cache line is on its way from one core to the other and back: the best of some tries.
    pub(crate) fn distance(&self) -> f64 {
        let (line, done) = (Line(AtomicU64::new(0)), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let _ = stand_on(&[self.server]);
                let mut wanted = 1;
                while !done.load(Ordering::Relaxed) {
                    if line.0.load(Ordering::Acquire) == wanted {
                        line.0.store(wanted + 1, Ordering::Release);
                        wanted += 2;
                    }
                }
            });
            let (mut turn, mut best) = (0, f64::INFINITY);
            for _ in 0..TRIES {
                let start = Instant::now();
                let mut trips = 0;
                while start.elapsed() < TRY {
                    line.0.store(turn + 1, Ordering::Release);
                    while line.0.load(Ordering::Acquire) != turn + 2 {
                        std::hint::spin_loop();
                    }
                    turn += 2;
                    trips += 1;
                }
                best = best.min(start.elapsed().as_nanos() as f64 / f64::from(trips));
            }
            done.store(true, Ordering::Relaxed);
            best
        })
    }
}

#[repr(align(128))]
struct Line(AtomicU64);

const TRIES: usize = 4;
const TRY: Duration = Duration::from_millis(2);

fn stand_on(cores: &[usize]) -> Result<(), String> {
    let mut set = CpuSet::new();
    let set_all = cores.iter().try_for_each(|core| set.set(*core));
    set_all
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|error| format!("cannot use cores {cores:?}: {error}"))
}

/// How long all cores together were busy since the machine started, stolen time included.
pub(crate) fn busy() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.lines().next().unwrap_or_default().split_ascii_whitespace().skip(1);
    let ticks: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
    // user, nice, system, (idle, iowait), irq, softirq, steal; in hundredths
    let busy: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|at| ticks.get(*at)).sum();
    Duration::from_millis(busy * 10)
}

/// CPU time of this process.
pub(crate) fn own_cpu() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Into::into)
}

/// As many descriptors as the system allows; how many these are.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// What the figures were measured on.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu =
            info.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
        let rustc = Command::new("rustc").arg("--version").output();
        Self {
            cpu: cpu.map_or("unknown", |(_, name)| name.trim()).to_owned(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            rustc: rustc
                .map_or("unknown".to_owned(), |said| String::from_utf8_lossy(&said.stdout).trim().to_owned()),
        }
    }
}

/// The version of a crate in the text of a Cargo.lock; several if there are several.
pub(crate) fn version_in_lock(lock: &str, name: &str) -> Option<String> {
    let mut lines = lock.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.strip_prefix("name = \"").and_then(|rest| rest.strip_suffix('"')) == Some(name) {
            let version = lines.peek().and_then(|line| line.strip_prefix("version = \""));
            found.extend(version.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned));
        }
    }
    (!found.is_empty()).then(|| found.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_all_of_them() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.2.3\"\n\n[[package]]\nname = \"ab\"\nversion = \"7.0.0\"\n\n\
                    [[package]]\nname = \"a\"\nversion = \"2.0.0\"\n";
        assert_eq!(version_in_lock(lock, "a").as_deref(), Some("1.2.3, 2.0.0"));
        assert_eq!(version_in_lock(lock, "ab").as_deref(), Some("7.0.0"));
        assert_eq!(version_in_lock(lock, "b"), None);
    }
}
