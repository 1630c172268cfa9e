//! What came of it: a table on the terminal, the same as Markdown, everything as JSON, and plots.

mod goals;
mod json;
mod plot;
mod table;

use crate::{
    machine::{Machine, version_in_lock},
    making::Built,
    measure::{Entry, Outcome, Sample},
    roster::{Side, side},
    scenario::Key,
    stats::{Spread, median},
};
use netwright_benches::text::{figure, thousands};
use std::{fmt::Write as _, fs, path::Path};

/// What is told above the figures.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) machine: Machine,
    pub(crate) when: String,
    pub(crate) command: String,
    /// What was built, and of which version.
    pub(crate) versions: Vec<(String, String)>,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
}

/// Versions of all that was measured, from the lock file and from whoever else knows.
pub(crate) fn versions(built: &[Built], lock: &str) -> Vec<(String, String)> {
    let of = |built: &Built| {
        let crates = built
            .peer
            .crates
            .iter()
            .filter_map(|name| Some(format!("{name} {}", version_in_lock(lock, name)?)));
        let all: Vec<String> = crates.chain(built.version.clone()).collect();
        (!all.is_empty()).then(|| (built.peer.name.to_owned(), all.join(", ")))
    };
    built.iter().filter_map(of).collect()
}

/// Prints the tables, and writes all files into `out`.
pub(crate) fn write(head: &Head, outcomes: &[Outcome], out: &Path) -> Result<(), String> {
    for outcome in outcomes {
        println!("{}", table::terminal(outcome));
    }
    println!("{}", goals::terminal(outcomes));
    let mut files = vec![
        ("compare.md".to_owned(), markdown(head, outcomes)),
        ("compare.json".to_owned(), json::text(head, outcomes)),
    ];
    for (group, svg) in plot::all(outcomes) {
        files.push((format!("{group}.svg"), svg));
    }
    fs::create_dir_all(out).map_err(|error| format!("cannot make {}: {error}", out.display()))?;
    for (name, text) in &files {
        let path = out.join(name);
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
    println!("written to {}: {}", out.display(), names.join(", "));
    Ok(())
}

fn markdown(head: &Head, outcomes: &[Outcome]) -> String {
    let machine = &head.machine;
    let mut text = format!(
        "# Netwright and others, side by side\n\n{}, {} cores, Linux {}, {}. {}.\n\n`{}`\n\n\
         {} rounds of {} s; server on one core, load on the other; medians, and between which values half of the rounds lie. \
         **Bold** is ours, ★ the best framework of a table (loops written by hand, which do nothing else, are not counted as one; \
         monoio and compio have no HTTP server of their own, theirs is the one written by hand).\n\n",
        machine.cpu,
        machine.cores,
        machine.kernel,
        machine.rustc,
        head.when,
        head.command,
        head.rounds,
        head.seconds,
    );
    for (name, versions) in &head.versions {
        let _ = writeln!(text, "- {name}: {versions}");
    }
    text.push('\n');
    text.push_str(&goals::markdown(outcomes));
    let mut group = "";
    for outcome in outcomes {
        if outcome.scenario.group != group {
            group = outcome.scenario.group;
            let _ = write!(text, "![{group}]({group}.svg)\n\n");
        }
        text.push_str(&table::markdown(outcome));
        text.push('\n');
    }
    text
}

/// The figure that decides in a scenario.
fn deciding(key: Key) -> fn(&Sample) -> f64 {
    match key {
        Key::Cpu => |sample| sample.cpu_us,
        Key::P99 => |sample| sample.p99_us,
        Key::Memory => |sample| sample.per_connection.unwrap_or(f64::NAN),
    }
}

/// A scenario's entries with what is made of them: the best first, those that failed last.
struct Ranking<'a> {
    key: Key,
    /// Who the others are compared with.
    reference: Option<&'a Entry>,
    /// The best that is a framework.
    best: Option<&'a str>,
    entries: Vec<&'a Entry>,
}

impl<'a> Ranking<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        let key = outcome.scenario.key();
        let figure = deciding(key);
        let value = |entry: &&Entry| entry.spread(figure).map_or(f64::INFINITY, |spread| spread.median);
        let mut entries: Vec<&Entry> = outcome.entries.iter().collect();
        entries.sort_by(|one, other| value(one).total_cmp(&value(other)));
        let measured = || entries.iter().copied().filter(|entry| !entry.samples.is_empty());
        let tokio = measured().find(|entry| entry.peer == "tokio");
        // The better of the loops by hand, if there is one: next to nothing is what their connections hold.
        let by_hand = measured().find(|entry| side(entry.peer) == Side::ByHand && key != Key::Memory);
        let reference = by_hand.or(tokio);
        let best = measured().find(|entry| side(entry.peer) != Side::ByHand).map(|entry| entry.peer);
        Self { key, reference, best, entries }
    }

    /// Round by round an entry through the reference.
    fn ratio(&self, entry: &Entry) -> Option<Spread> {
        ratio(entry, self.reference?, deciding(self.key))
    }
}

/// Round by round one entry through another; where no round has both, the one median through the other.
fn ratio(own: &Entry, other: &Entry, figure: fn(&Sample) -> f64) -> Option<Spread> {
    if own.samples.is_empty() || other.samples.is_empty() {
        return None;
    }
    let in_round = |sample: &Sample| {
        let same = other.counted().find(|candidate| candidate.round == sample.round)?;
        Some(figure(sample) / figure(same))
    };
    let whole = || median(own.counted().map(figure)) / median(other.counted().map(figure));
    Spread::of(own.counted().filter_map(in_round)).or_else(|| Spread::of([whole()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::SCENARIOS;

    /// A scenario in which each server has the given CPU time, in two rounds of which the second is twice as slow.
    pub(super) fn outcome(at: usize, servers: &[(&'static str, f64)]) -> Outcome {
        let sample = |round: usize, cpu_us: f64| Sample {
            round,
            cpu_us: cpu_us * (round + 1) as f64,
            rate: 1e6 / cpu_us,
            busy: 1.0,
            p50_us: 10.0,
            p99_us: cpu_us * 10.0,
            p999_us: cpu_us * 20.0,
            resident: 1e6,
            per_connection: Some(cpu_us * 100.0),
            other: 0.0,
            distance: 60.0,
            disturbed: false,
        };
        let entry = |(peer, cpu_us): &(&'static str, f64)| Entry {
            peer,
            samples: if cpu_us.is_finite() {
                vec![sample(0, *cpu_us), sample(1, *cpu_us)]
            } else {
                Vec::new()
            },
            failures: if cpu_us.is_finite() { Vec::new() } else { vec!["it & others <fail>".to_owned()] },
        };
        Outcome { scenario: &SCENARIOS[at], rate: None, entries: servers.iter().map(entry).collect() }
    }

    #[test]
    fn everybody_is_compared_with_the_better_loop_by_hand_and_no_such_loop_is_the_best_framework() {
        let outcome =
            outcome(1, &[("netwright", 4.4), ("epoll-by-hand", 5.0), ("uring-by-hand", 4.0), ("tokio", 6.0)]);
        let ranking = Ranking::of(&outcome);
        assert_eq!(ranking.reference.unwrap().peer, "uring-by-hand");
        assert_eq!(ranking.best, Some("netwright"));
        let order: Vec<&str> = ranking.entries.iter().map(|entry| entry.peer).collect();
        assert_eq!(order, ["uring-by-hand", "netwright", "epoll-by-hand", "tokio"]);
        let ratio = ranking.ratio(ranking.entries[1]).unwrap();
        assert!(
            (ratio.median - 1.1).abs() < 1e-9 && (ratio.high - 1.1).abs() < 1e-9,
            "taken round by round: {ratio:?}"
        );
    }

    #[test]
    fn without_a_loop_by_hand_tokio_is_the_measure_and_failures_come_last() {
        let outcome = outcome(8, &[("netty", f64::NAN), ("tokio", 6.0), ("netwright", 9.0)]);
        let ranking = Ranking::of(&outcome);
        assert_eq!((ranking.reference.unwrap().peer, ranking.best), ("tokio", Some("tokio")));
        assert_eq!(ranking.entries[2].peer, "netty");
    }

    #[test]
    fn disturbed_rounds_count_only_where_there_are_no_others() {
        let mut outcome = outcome(1, &[("tokio", 3.0)]);
        let entry = &mut outcome.entries[0];
        entry.samples[1].disturbed = true;
        assert_eq!(entry.median(|sample| sample.cpu_us), 3.0);
        entry.samples[0].disturbed = true;
        assert_eq!(entry.median(|sample| sample.cpu_us), 4.5);
    }
}
