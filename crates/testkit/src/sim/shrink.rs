//! Which of its faults a failure needs: they are taken away in halves, quarters and so on, as long as it still fails.
//!
//! Always true of what is tried:
//! 1. What goes wrong and what makes it well again come or go together: a cut without its end, or a host that never comes back, is another scenario
//!    than the one that was written, and fails in ways of its own.
//! 2. It ends: after so many runs, after so much time; and a run that does not come to its end without its faults is stopped.

use super::{net::Link, script::Fault};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::{Duration, Instant},
};

/// How often a failure is run again to find out which faults it needs.
const RUNS_MAX: usize = 200;
/// How long that takes at most, unless few runs take that long.
const TIME_MAX: Duration = Duration::from_secs(60);
/// So many runs are worth more time.
const RUNS_MIN: u32 = 10;
/// A run with fewer faults may take so many times what the first one took.
const SLOWER: u32 = 10;
/// And so long at least: the machine may be busy.
const RUN_MIN: Duration = Duration::from_secs(2);

type Said = Vec<(Duration, Fault)>;

/// How much is done to find a shorter script.
pub(super) struct Limits {
    runs: usize,
    until: Instant,
    each: Duration,
}

impl Limits {
    /// For runs of a scenario that took so long when it failed.
    pub(super) fn of_runs_like(first: Duration) -> Self {
        let time = TIME_MAX.max(first.saturating_mul(RUNS_MIN));
        Self { runs: RUNS_MAX, until: Instant::now() + time, each: RUN_MIN.max(first.saturating_mul(SLOWER)) }
    }
}

/// What is left of a script.
#[derive(Debug)]
pub(super) struct Shrunk {
    /// The faults of the shortest run that still failed.
    pub(super) needed: Said,
    /// All has been tried that could make it shorter.
    pub(super) is_over: bool,
    /// It has failed at least once more.
    pub(super) fails_again: bool,
}

/// Looks for the shortest script. `fails` runs without some of the faults, at most until then; if it fails in the same way, it tells what faults were asked for.
pub(super) fn shrink(
    script: Said,
    limits: &Limits,
    fails: impl Fn(&BTreeSet<usize>, Instant) -> Option<Said>,
) -> Shrunk {
    let units = units(&script);
    let skipped = |some: &[&Vec<usize>]| {
        let needed: BTreeSet<usize> = some.iter().copied().flatten().copied().collect();
        (0..script.len()).filter(|number| !needed.contains(number)).collect::<BTreeSet<usize>>()
    };
    let mut runs = 0;
    let mut fails_without = |skipped: &BTreeSet<usize>| -> Result<Option<Said>, NoMore> {
        let now = Instant::now();
        if runs == limits.runs || now >= limits.until {
            return Err(NoMore);
        }
        runs += 1;
        let said = fails(skipped, limits.until.min(now + limits.each));
        // What did happen: faults that depend on what came of others have other numbers now.
        let happened = |said: Said| {
            let with_numbers = said.into_iter().enumerate();
            with_numbers.filter(|(number, _)| !skipped.contains(number)).map(|(_, fault)| fault).collect()
        };
        Ok(said.map(happened))
    };
    let mut needed: Vec<&Vec<usize>> = units.iter().collect();
    let (mut left, mut parts, mut is_over) = (None, 1, true);
    'shorter: while !needed.is_empty() {
        let len = needed.len().div_ceil(parts);
        for begin in (0..needed.len()).step_by(len) {
            let end = (begin + len).min(needed.len());
            let without: Vec<_> = needed[..begin].iter().chain(&needed[end..]).copied().collect();
            match fails_without(&skipped(&without)) {
                Ok(Some(said)) => {
                    (left, needed) = (Some(said), without);
                    parts = parts.saturating_sub(1).max(1);
                    continue 'shorter;
                }
                Ok(None) => {}
                Err(NoMore) => {
                    is_over = false;
                    break 'shorter;
                }
            }
        }
        if len == 1 {
            break;
        }
        parts = (parts * 2).min(needed.len());
    }
    let fails_again = left.is_some() || !matches!(fails_without(&BTreeSet::new()), Ok(None));
    Shrunk { needed: left.unwrap_or(script), is_over, fails_again }
}

/// There is no time for another run.
struct NoMore;

/// Which faults come or go together: what goes wrong, and what ends it. What ends several belongs to each of them. Numbers of faults, each in one unit at least.
fn units(script: &[(Duration, Fault)]) -> Vec<Vec<usize>> {
    let mut in_time: Vec<usize> = (0..script.len()).collect();
    in_time.sort_by_key(|number| script[*number].0);
    let mut units: Vec<Vec<usize>> = Vec::new();
    // By units: hosts that are gone, ways that are cut (of a partition all), ways that are not what they were.
    let mut gone: BTreeMap<&str, usize> = BTreeMap::new();
    let mut cut: Vec<(usize, Option<(&str, &str)>)> = Vec::new();
    let mut changed: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for number in in_time {
        let unit = units.len();
        let (mut ended, mut begins) = (Vec::new(), false);
        match &script[number].1 {
            Fault::Crash(host) | Fault::Kill(host) => match gone.get(host.as_str()) {
                Some(unit) => ended.push(*unit), // cannot go twice: what this one needs, the other one has
                None => _ = gone.insert(host, unit),
            },
            Fault::Restart(host) => ended.extend(gone.remove(host.as_str())),
            Fault::Cut { from, to } => cut.push((unit, Some((from, to)))),
            Fault::Partition(_) => cut.push((unit, None)),
            Fault::Mend { from, to } => {
                let way: Option<(&str, &str)> = Some((from, to));
                let concerned = cut.iter().filter(|(_, other)| other.is_none() || *other == way);
                ended.extend(concerned.map(|(unit, _)| *unit));
                cut.retain(|(_, other)| *other != way); // of a partition, more is cut
            }
            Fault::Heal => ended.extend(mem::take(&mut cut).into_iter().map(|(unit, _)| unit)),
            Fault::Link { from, to, link } => {
                let open = changed.entry((from, to)).or_default();
                ended.extend_from_slice(open);
                // Another change takes the place of the one before, and may be what is wrong as well.
                match *link == Link::default() {
                    true => open.clear(),
                    false => (begins, _) = (true, open.push(unit)),
                }
            }
            Fault::Reset { .. } => {}
        }
        if begins || ended.is_empty() {
            units.push(vec![number]);
        }
        ended.into_iter().for_each(|unit| units[unit].push(number));
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits::of_runs_like(Duration::ZERO)
    }

    fn at(millis: u64, fault: Fault) -> (Duration, Fault) {
        (Duration::from_millis(millis), fault)
    }

    fn resets(many: u64) -> Said {
        (0..many).map(|number| at(number, Fault::Reset { a: "a".into(), b: "b".into() })).collect()
    }

    /// Which faults of resets are left, by their times.
    fn needed(many: u64, limits: &Limits, fails: impl Fn(&BTreeSet<usize>) -> bool) -> (Vec<u128>, Shrunk) {
        let script = resets(many);
        let shrunk = shrink(script.clone(), limits, |skipped, _| fails(skipped).then(|| script.clone()));
        (shrunk.needed.iter().map(|(at, _)| at.as_millis()).collect(), shrunk)
    }

    #[test]
    fn what_a_failure_does_not_need_is_left_out() {
        let both = |skipped: &BTreeSet<usize>| [3, 17].iter().all(|number| !skipped.contains(number));
        let (left, shrunk) = needed(40, &limits(), both);
        assert!(left == [3, 17] && shrunk.is_over && shrunk.fails_again, "{shrunk:?}");
        assert_eq!(needed(40, &limits(), |_| true).0, []);
        assert_eq!(needed(0, &limits(), |_| true).0, []);
    }

    #[test]
    fn what_does_not_fail_again_is_told_apart_from_what_needs_all_its_faults() {
        let (left, shrunk) = needed(3, &limits(), |skipped| skipped.is_empty());
        assert!(left.len() == 3 && shrunk.is_over && shrunk.fails_again, "{shrunk:?}");
        let (left, shrunk) = needed(3, &limits(), |_| false);
        assert!(left.len() == 3 && shrunk.is_over && !shrunk.fails_again, "{shrunk:?}");
    }

    #[test]
    fn it_ends_after_so_many_runs_and_so_much_time() {
        let hard = |skipped: &BTreeSet<usize>| skipped.len() < 100; // any 100 of them can be left out
        let (left, shrunk) = needed(300, &Limits { runs: 20, ..limits() }, hard);
        assert!(left.len() > 200 && !shrunk.is_over && shrunk.fails_again, "{shrunk:?}");
        let (left, shrunk) = needed(300, &Limits { until: Instant::now(), ..limits() }, hard);
        assert!(left.len() == 300 && !shrunk.is_over && shrunk.fails_again, "{shrunk:?}");
    }

    #[test]
    fn faults_that_depend_on_others_are_told_as_they_happened() {
        let script = resets(2);
        // Without the first one, something else comes second.
        let shrunk = shrink(script.clone(), &limits(), |skipped, _| {
            let second = if skipped.contains(&0) { at(5, Fault::Heal) } else { script[1].clone() };
            (!skipped.contains(&1)).then(|| vec![script[0].clone(), second])
        });
        assert_eq!(shrunk.needed, [at(5, Fault::Heal)]);
    }

    #[test]
    fn what_goes_wrong_and_what_ends_it_are_left_out_together_or_not_at_all() {
        let cut = |from: &str, to: &str| Fault::Cut { from: from.into(), to: to.into() };
        let mend = |from: &str, to: &str| Fault::Mend { from: from.into(), to: to.into() };
        let link = |link: Link| Fault::Link { from: "a".into(), to: "b".into(), link };
        let slow = || link(Link::default().latency(Duration::from_secs(1)));
        for (script, expected) in [
            (
                vec![
                    at(30, Fault::Restart("a".into())), // in any order
                    at(10, Fault::Crash("a".into())),
                    at(20, Fault::Kill("b".into())),
                    at(25, Fault::Reset { a: "a".into(), b: "b".into() }),
                    at(40, Fault::Restart("b".into())),
                    at(50, Fault::Restart("c".into())), // has gone in another way
                    at(60, Fault::Crash("a".into())),   // and stays away
                ],
                vec![vec![1, 0], vec![2, 4], vec![3], vec![5], vec![6]],
            ),
            (
                vec![
                    at(10, cut("a", "b")),
                    at(20, cut("b", "a")),
                    at(30, mend("a", "b")),
                    at(40, Fault::Partition(vec!["a".into()])),
                    at(50, mend("b", "a")), // ends that cut, and a part of the partition
                    at(60, Fault::Heal),
                    at(70, Fault::Heal), // of nothing
                ],
                vec![vec![0, 2], vec![1, 4], vec![3, 4, 5], vec![6]],
            ),
            (
                vec![at(10, slow()), at(20, slow()), at(30, link(Link::default())), at(40, slow())],
                vec![vec![0, 1, 2], vec![1, 2], vec![3]],
            ),
        ] {
            assert_eq!(units(&script), expected);
        }
    }
}
