//! The same scenario with many seeds, on all cores; and what is left of a failure when everything that has no part in it is taken away.

use super::{
    script::Fault,
    sim::{Sim, SimBuilder, be_quiet, last_script},
    trace::TraceHash,
};
use std::{
    collections::BTreeSet,
    env,
    fmt::Write,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// How often a failure is run again to find out which faults it needs.
const SHRINKS_MAX: usize = 200;

/// Runs a scenario once for each seed, on all cores, each run on a thread of its own. Returns the traces, in the order of the seeds.
///
/// `NETWRIGHT_SIM_SEED=17` runs that seed alone; `NETWRIGHT_SIM_SEEDS=100000` runs so many, and `NETWRIGHT_SIM_FROM=500` from that one on, whatever the
/// test says.
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
/// If one of the runs fails: with the seed, how it failed, the shortest list of faults with which it still does, and the command that runs it again.
pub fn for_seeds(seeds: Range<u64>, scenario: impl Fn(&Sim) + Send + Sync) -> Vec<TraceHash> {
    for_seeds_with(seeds, |builder| builder, scenario)
}

/// As [`for_seeds`], with settings.
///
/// # Panics
/// As [`for_seeds`].
pub fn for_seeds_with(
    seeds: Range<u64>,
    settings: impl Fn(SimBuilder) -> SimBuilder + Send + Sync,
    scenario: impl Fn(&Sim) + Send + Sync,
) -> Vec<TraceHash> {
    let seeds = asked_for(seeds);
    let test = thread::current().name().unwrap_or("TEST").to_owned();
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
                    let run = || settings(Sim::seed(seed)).run(|sim| scenario(sim)).trace;
                    match on_a_thread(run, false) {
                        Ok(trace) => {
                            traces.lock().unwrap_or_else(PoisonError::into_inner).push((seed, trace))
                        }
                        Err((message, script)) => {
                            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                            // Of several, the first: so that the same range fails in the same way.
                            if failed.as_ref().is_none_or(|other| seed < other.seed) {
                                *failed = Some(Failed { seed, message, script });
                            }
                            return;
                        }
                    }
                }
            });
        }
    });
    if let Some(failed) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let fails = |skipped: &BTreeSet<usize>| {
            let run =
                || settings(Sim::seed(failed.seed)).without(skipped.clone()).run(|sim| scenario(sim)).trace;
            // Not any failure: a host that is never restarted fails in ways of its own.
            on_a_thread(run, true).is_err_and(|(message, _)| is_alike(&message, &failed.message))
        };
        let needed = shrink(failed.script.len(), fails);
        panic!("{}", failed.report(&needed, &test));
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

/// A thread for each run: thread-locals are as in a program that has just begun.
fn on_a_thread<T: Send>(
    run: impl FnOnce() -> T + Send,
    quiet: bool,
) -> Result<T, (String, Vec<(Duration, Fault)>)> {
    thread::scope(|scope| {
        let run = move || {
            if quiet {
                be_quiet();
            }
            catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                (text.unwrap_or_else(|| "a panic without words".into()), last_script())
            })
        };
        let name = "simulation".to_owned();
        match thread::Builder::new().name(name).spawn_scoped(scope, run) {
            Ok(run) => run
                .join()
                .unwrap_or_else(|_| Err(("the run's thread panicked at its end".into(), Vec::new()))),
            Err(error) => Err((format!("no thread for a run: {error}"), Vec::new())),
        }
    })
}

/// Whether two failures say the same, but for numbers.
fn is_alike(one: &str, other: &str) -> bool {
    let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    words(one) == words(other)
}

/// Which of so many faults a failure needs: taken away in halves, quarters and so on, as long as it still fails.
fn shrink(faults: usize, fails: impl Fn(&BTreeSet<usize>) -> bool) -> BTreeSet<usize> {
    let mut needed: BTreeSet<usize> = (0..faults).collect();
    let skipped = |needed: &BTreeSet<usize>| (0..faults).filter(|number| !needed.contains(number)).collect();
    let (mut parts, mut tries) = (1, 0);
    while !needed.is_empty() && tries < SHRINKS_MAX {
        let list: Vec<usize> = needed.iter().copied().collect();
        let len = list.len().div_ceil(parts);
        let mut smaller = None;
        for part in list.chunks(len) {
            let without: BTreeSet<usize> =
                needed.iter().copied().filter(|number| !part.contains(number)).collect();
            tries += 1;
            if fails(&skipped(&without)) {
                smaller = Some(without);
                break;
            }
            if tries == SHRINKS_MAX {
                break;
            }
        }
        match smaller {
            Some(without) => {
                needed = without;
                parts = parts.saturating_sub(1).max(1);
            }
            None if len == 1 => break,
            None => parts = (parts * 2).min(list.len()),
        }
    }
    needed
}

struct Failed {
    seed: u64,
    message: String,
    script: Vec<(Duration, Fault)>,
}

impl Failed {
    fn report(&self, needed: &BTreeSet<usize>, test: &str) -> String {
        let Self { seed, message, script } = self;
        let mut text = format!("seed {seed} failed: {message}\n");
        if script.is_empty() {
            text.push_str("no faults were asked for\n");
        } else if needed.is_empty() {
            text.push_str("it fails without any fault as well\n");
        } else {
            let _ = writeln!(text, "it still fails with these {} of {} faults:", needed.len(), script.len());
            for number in needed {
                let (at, fault) = &script[*number];
                let _ = writeln!(text, "  {at:>12.3?}  {fault}");
            }
        }
        let _ = write!(text, "again: NETWRIGHT_SIM_SEED={seed} cargo test {test}");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_alike_if_they_differ_in_numbers_only() {
        assert!(is_alike("12 of 20 replies", "3 of 20 replies"));
        assert!(!is_alike("12 of 20 replies", "the address is in use"));
    }

    #[test]
    fn what_a_failure_does_not_need_is_left_out() {
        let fails = |skipped: &BTreeSet<usize>| [3, 17].iter().all(|number| !skipped.contains(number));
        assert_eq!(shrink(40, fails), BTreeSet::from([3, 17]));
        assert_eq!(shrink(40, |_| true), BTreeSet::new());
        assert_eq!(shrink(0, |_| true), BTreeSet::new());
    }
}
