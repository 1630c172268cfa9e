//! The same scenario with many seeds, on all cores; and what is left of a failure when everything that has no part in it is taken away.

use super::{
    failure,
    script::Fault,
    shrink::{Limits, Shrunk, shrink},
    sim::{Sim, SimBuilder},
    trace::TraceHash,
};
use std::{
    collections::BTreeSet,
    env,
    fmt::Write,
    ops::Range,
    panic::{AssertUnwindSafe, Location, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Runs a scenario once for each seed, on all cores, each run on a thread of its own. Returns the traces, in the order of the seeds.
///
/// `NETWRIGHT_SIM_SEED=17` runs that seed alone; `NETWRIGHT_SIM_SEEDS=100000` runs so many, and `NETWRIGHT_SIM_FROM=500` from that one on, whatever the
/// test says. The calling thread's name is taken for the name of the test, as `cargo test` gives its threads those; without one, or with `--test-threads=1`, a
/// failure says where `for_seeds` was called.
///
/// ```
/// use netwright_testkit::sim::for_seeds;
/// use std::time::Duration;
///
/// let traces = for_seeds(0..20, |sim| sim.run_for(Duration::from_millis(sim.below(100))));
/// assert_eq!(traces.len(), 20);
/// ```
///
/// # Panics
/// If one of the runs fails: with the seed, how it failed, the shortest list of faults with which it still does, and how to run it again.
#[track_caller]
pub fn for_seeds(seeds: Range<u64>, scenario: impl Fn(&Sim) + Send + Sync) -> Vec<TraceHash> {
    for_seeds_with(seeds, |builder| builder, scenario)
}

/// As [`for_seeds`], with settings.
///
/// # Panics
/// As [`for_seeds`].
#[track_caller]
pub fn for_seeds_with(
    seeds: Range<u64>,
    settings: impl Fn(SimBuilder) -> SimBuilder + Send + Sync,
    scenario: impl Fn(&Sim) + Send + Sync,
) -> Vec<TraceHash> {
    let seeds = asked_for(seeds);
    let caller = Caller { test: thread::current().name().and_then(name_of_test), place: Location::caller() };
    let next = AtomicU64::new(seeds.start);
    let failed: Mutex<Option<Failed>> = Mutex::new(None);
    let traces = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || failed.lock().is_ok_and(|failed| failed.is_some()) {
                        return;
                    }
                    let begun = Instant::now();
                    let run = || settings(Sim::seed(seed)).run(|sim| scenario(sim)).trace;
                    match on_a_thread(seed, run, None) {
                        Ok(trace) => {
                            traces.lock().unwrap_or_else(PoisonError::into_inner).push((seed, trace))
                        }
                        Err(failure) => {
                            let took = begun.elapsed();
                            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                            // Of several, the first: so that the same range fails in the same way.
                            if failed.as_ref().is_none_or(|other| seed < other.seed) {
                                *failed = Some(Failed { seed, failure, took });
                            }
                            return;
                        }
                    }
                }
            });
        }
    });
    if let Some(failed) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let again = |skipped: &BTreeSet<usize>, until: Instant| {
            let run =
                || settings(Sim::seed(failed.seed)).without(skipped.clone()).run(|sim| scenario(sim)).trace;
            // Not any failure: one of another scenario fails in ways of its own.
            on_a_thread(failed.seed, run, Some(until)).err().filter(|other| other.is_alike(&failed.failure))
        };
        let limits = Limits::of_runs_like(failed.took);
        let script = failed.failure.script.clone();
        let shrunk = shrink(script, &limits, |skipped, until| Some(again(skipped, until)?.script));
        panic!("{}", failed.report(&shrunk, &caller));
    }
    let mut traces = traces.into_inner().unwrap_or_else(PoisonError::into_inner);
    traces.sort_by_key(|(seed, _)| *seed);
    traces.into_iter().map(|(_, trace)| trace).collect()
}

fn asked_for(seeds: Range<u64>) -> Range<u64> {
    let number = |name: &str| {
        env::var(name).ok().map(|text| {
            text.parse::<u64>()
                .unwrap_or_else(|error| panic!("{name} is {text:?}, which is no number of a seed: {error}"))
        })
    };
    if let Some(seed) = number("NETWRIGHT_SIM_SEED") {
        return seed..seed + 1;
    }
    let first = number("NETWRIGHT_SIM_FROM").unwrap_or(seeds.start);
    let many = number("NETWRIGHT_SIM_SEEDS").unwrap_or(seeds.end.saturating_sub(seeds.start));
    first..first.saturating_add(many)
}

/// How a run failed.
struct Failure {
    message: String,
    /// Where the panic was, if that is known.
    place: Option<String>,
    script: Vec<(Duration, Fault)>,
}

impl Failure {
    fn saying(message: impl Into<String>) -> Self {
        Self { message: message.into(), place: None, script: Vec::new() }
    }

    /// Whether two failures say the same, but for numbers, in the same place.
    fn is_alike(&self, other: &Self) -> bool {
        let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        self.place == other.place && words(&self.message) == words(&other.message)
    }
}

/// A thread for each run: thread-locals are as in a program that has just begun. Its name has the seed, so that a panic tells it also if it ends the process.
/// `until`: this run looks for faults, says nothing, and ends then.
fn on_a_thread<T: Send>(
    seed: u64,
    run: impl FnOnce() -> T + Send,
    until: Option<Instant>,
) -> Result<T, Failure> {
    thread::scope(|scope| {
        let run = move || {
            failure::listen();
            if let Some(until) = until {
                failure::be_quiet(until);
            }
            catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                let (place, script) = failure::last();
                Failure { message: text.unwrap_or_else(|| "a panic without words".into()), place, script }
            })
        };
        match thread::Builder::new().name(format!("seed {seed}")).spawn_scoped(scope, run) {
            Ok(run) => {
                run.join().unwrap_or_else(|_| Err(Failure::saying("the run's thread panicked at its end")))
            }
            Err(error) => Err(Failure::saying(format!("no thread for a run: {error}"))),
        }
    })
}

/// Who asked for the runs.
struct Caller {
    test: Option<String>,
    place: &'static Location<'static>,
}

/// A thread's name is that of its test, unless it is the program's first thread.
fn name_of_test(thread: &str) -> Option<String> {
    (thread != "main").then(|| thread.to_owned())
}

struct Failed {
    seed: u64,
    failure: Failure,
    /// By the clock on the wall.
    took: Duration,
}

impl Failed {
    fn report(&self, shrunk: &Shrunk, caller: &Caller) -> String {
        let Self { seed, failure, .. } = self;
        let mut text = format!("seed {seed} failed: {}\n", failure.message);
        let all = failure.script.len();
        if !shrunk.fails_again {
            text.push_str(
                "run again, it did not fail like that: something in it does not come from the seed\n",
            );
        } else if all == 0 {
            text.push_str("no faults were asked for\n");
        } else if shrunk.needed.is_empty() {
            text.push_str("it fails without any fault as well\n");
        } else {
            let many = shrunk.needed.len();
            let perhaps =
                if shrunk.is_over { "" } else { ", perhaps with fewer: there was no time to try all" };
            let _ = writeln!(text, "it still fails with these {many} of {all} faults{perhaps}:");
            for (at, fault) in &shrunk.needed {
                let _ = writeln!(text, "  {at:>12.3?}  {fault}");
            }
        }
        let Caller { test, place } = caller;
        let (file, line) = (place.file(), place.line());
        let _ = match test {
            Some(test) => {
                write!(text, "again: NETWRIGHT_SIM_SEED={seed} cargo test {test} (runs of {file}:{line})")
            }
            None => write!(
                text,
                "again: with NETWRIGHT_SIM_SEED={seed} in the environment {file}:{line} runs this seed alone"
            ),
        };
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_alike_if_they_differ_in_numbers_only_and_are_in_the_same_place() {
        let failure =
            |message: &str, place: &str| Failure { place: Some(place.into()), ..Failure::saying(message) };
        let one = failure("12 of 20 replies", "shop.rs:10:5");
        assert!(one.is_alike(&failure("3 of 20 replies", "shop.rs:10:5")));
        assert!(!one.is_alike(&failure("the address is in use", "shop.rs:10:5")));
        assert!(!one.is_alike(&failure("3 of 20 replies", "shop.rs:11:5")));
    }

    #[test]
    fn a_failure_says_how_to_run_its_seed_again_also_on_a_thread_without_a_tests_name() {
        let failed = || for_seeds(7..9, |sim| assert!(sim.below(1) > 0, "always"));
        let said = |name: Option<&str>| {
            let builder =
                name.map_or_else(thread::Builder::new, |name| thread::Builder::new().name(name.into()));
            let panic = thread::scope(|scope| {
                builder.spawn_scoped(scope, || drop(failed())).unwrap().join().unwrap_err()
            });
            panic.downcast_ref::<String>().unwrap().lines().last().unwrap().to_owned()
        };
        let of_test = said(Some("a_test"));
        assert!(of_test.starts_with("again: NETWRIGHT_SIM_SEED=7 cargo test a_test (runs of "), "{of_test}");
        for name in [None, Some("main")] {
            let text = said(name);
            assert!(text.contains("NETWRIGHT_SIM_SEED=7 in the environment"), "{text}");
            assert!(text.contains("seeds.rs:") && text.ends_with("runs this seed alone"), "{text}");
        }
    }
}
