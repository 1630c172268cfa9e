//! The same scenario with many seeds, on all cores; and what is left of a failure when everything that has no part in it is taken away.

use super::{
    script::Fault,
    sim::{Sim, SimBuilder, be_quiet, last_script},
    trace::TraceHash,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write,
    ops::Range,
    panic::{AssertUnwindSafe, Location, catch_unwind},
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
                    let run = || settings(Sim::seed(seed)).run(|sim| scenario(sim)).trace;
                    match on_a_thread(seed, run, false) {
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
            on_a_thread(failed.seed, run, true).is_err_and(|(message, _)| is_alike(&message, &failed.message))
        };
        let needed = shrink(&units(&failed.script), failed.script.len(), fails);
        panic!("{}", failed.report(&needed, &caller));
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

/// A thread for each run: thread-locals are as in a program that has just begun. Its name has the seed, so that a panic tells it also if it ends the process.
fn on_a_thread<T: Send>(
    seed: u64,
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
        match thread::Builder::new().name(format!("seed {seed}")).spawn_scoped(scope, run) {
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

/// Which faults come or go together: a host that goes, and its restart. A restart alone says nothing, and a host that never comes back is another scenario than the
/// one that was written. Numbers of faults, each in one unit.
fn units(script: &[(Duration, Fault)]) -> Vec<Vec<usize>> {
    let mut in_time: Vec<usize> = (0..script.len()).collect();
    in_time.sort_by_key(|number| script[*number].0);
    let mut gone: BTreeMap<&str, usize> = BTreeMap::new(); // hosts that are gone, and the unit with which they went
    let mut units: Vec<Vec<usize>> = Vec::new();
    for number in in_time {
        match &script[number].1 {
            Fault::Crash(host) | Fault::Kill(host) => match gone.get(host.as_str()) {
                Some(unit) => units[*unit].push(number), // cannot go twice: what this one needs, the other one has
                None => {
                    gone.insert(host, units.len());
                    units.push(vec![number]);
                }
            },
            Fault::Restart(host) => match gone.remove(host.as_str()) {
                Some(unit) => units[unit].push(number),
                None => units.push(vec![number]),
            },
            _ => units.push(vec![number]),
        }
    }
    units
}

/// Which of so many faults a failure needs: taken away in halves, quarters and so on, as long as it still fails.
fn shrink(units: &[Vec<usize>], faults: usize, fails: impl Fn(&BTreeSet<usize>) -> bool) -> BTreeSet<usize> {
    let of = |some: &[&Vec<usize>]| some.iter().copied().flatten().copied().collect::<BTreeSet<usize>>();
    let skipped = |some: &[&Vec<usize>]| {
        let needed = of(some);
        (0..faults).filter(|number| !needed.contains(number)).collect()
    };
    let mut needed: Vec<&Vec<usize>> = units.iter().collect();
    let (mut parts, mut tries) = (1, 0);
    while !needed.is_empty() && tries < SHRINKS_MAX {
        let len = needed.len().div_ceil(parts);
        let mut smaller = None;
        for begin in (0..needed.len()).step_by(len) {
            let end = (begin + len).min(needed.len());
            let without: Vec<_> = needed[..begin].iter().chain(&needed[end..]).copied().collect();
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
            None => parts = (parts * 2).min(needed.len()),
        }
    }
    of(&needed)
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
    message: String,
    script: Vec<(Duration, Fault)>,
}

impl Failed {
    fn report(&self, needed: &BTreeSet<usize>, caller: &Caller) -> String {
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
    fn failures_are_alike_if_they_differ_in_numbers_only() {
        assert!(is_alike("12 of 20 replies", "3 of 20 replies"));
        assert!(!is_alike("12 of 20 replies", "the address is in use"));
    }

    fn single(faults: usize) -> Vec<Vec<usize>> {
        (0..faults).map(|number| vec![number]).collect()
    }

    #[test]
    fn what_a_failure_does_not_need_is_left_out() {
        let fails = |skipped: &BTreeSet<usize>| [3, 17].iter().all(|number| !skipped.contains(number));
        assert_eq!(shrink(&single(40), 40, fails), BTreeSet::from([3, 17]));
        assert_eq!(shrink(&single(40), 40, |_| true), BTreeSet::new());
        assert_eq!(shrink(&[], 0, |_| true), BTreeSet::new());
    }

    #[test]
    fn a_host_that_goes_and_its_restart_are_left_out_together_or_not_at_all() {
        let at = |millis, fault| (Duration::from_millis(millis), fault);
        let script = [
            at(30, Fault::Restart("a".into())), // in any order
            at(10, Fault::Crash("a".into())),
            at(20, Fault::Kill("b".into())),
            at(25, Fault::Heal),
            at(40, Fault::Restart("b".into())),
            at(50, Fault::Restart("c".into())), // has gone in another way
            at(60, Fault::Crash("a".into())),   // and stays away
        ];
        let units = units(&script);
        assert_eq!(units, [vec![1, 0], vec![2, 4], vec![3], vec![5], vec![6]]);
        let fails = |skipped: &BTreeSet<usize>| {
            assert_eq!(skipped.contains(&1), skipped.contains(&0));
            assert_eq!(skipped.contains(&2), skipped.contains(&4));
            !skipped.contains(&0)
        };
        assert_eq!(shrink(&units, script.len(), fails), BTreeSet::from([0, 1]));
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
