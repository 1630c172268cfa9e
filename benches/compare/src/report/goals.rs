//! What Netwright wants to reach, and whether it did: losses as plainly as wins.
//!
//! The better of its two drivers is judged; tables have both. Ratios are taken round by round.

use super::{deciding, ratio};
use crate::{
    measure::{Entry, Outcome},
    roster::{Side, side},
};
use std::fmt::Write as _;

/// With whom we are compared.
#[derive(Debug, Clone, Copy)]
enum Rival {
    /// The better loop without a framework.
    ByHand,
    /// Whoever is best of all others.
    BestFramework,
    Named(&'static str),
}

struct Goal {
    scenario: &'static str,
    rival: Rival,
    at_most: f64,
}

const fn goal(scenario: &'static str, rival: Rival, at_most: f64) -> Goal {
    Goal { scenario, rival, at_most }
}

const GOALS: [Goal; 30] = [
    goal("echo-1x64", Rival::ByHand, 1.03),
    goal("echo-1x64", Rival::BestFramework, 1.0),
    goal("echo-64x64", Rival::ByHand, 1.03),
    goal("echo-64x64", Rival::BestFramework, 1.0),
    goal("echo-256x1k", Rival::ByHand, 1.03),
    goal("echo-256x1k", Rival::BestFramework, 1.0),
    goal("echo-16x16k-d4", Rival::ByHand, 1.03),
    goal("echo-16x16k-d4", Rival::BestFramework, 1.0),
    goal("http-d1", Rival::BestFramework, 1.0),
    goal("http-d16", Rival::ByHand, 1.15),
    goal("http-d16", Rival::Named("tokio"), 0.7),
    goal("http-d16", Rival::Named("may_minihttp"), 1.1),
    goal("json", Rival::Named("tokio"), 1.0),
    goal("json", Rival::Named("netty"), 1.0),
    goal("h2-8x32", Rival::Named("tokio"), 0.5),
    goal("h2-8x32", Rival::Named("netty"), 0.7),
    goal("h2-8x32", Rival::Named("nghttpd"), 1.2),
    goal("h2-8x32", Rival::Named("nginx"), 1.0),
    goal("h2-8x32", Rival::Named("h2o"), 1.0),
    goal("h2-8x1", Rival::Named("tokio"), 0.8),
    goal("h2-64k", Rival::Named("tokio"), 0.9),
    goal("h2-post", Rival::Named("tokio"), 1.0),
    goal("h2-post", Rival::Named("netty"), 1.0),
    goal("tls", Rival::Named("tokio"), 1.0),
    goal("tls", Rival::Named("netty"), 1.0),
    goal("idle-10k", Rival::BestFramework, 1.0),
    goal("idle-http-10k", Rival::BestFramework, 1.0),
    goal("idle-ws-1k", Rival::BestFramework, 1.0),
    goal("echo-half", Rival::BestFramework, 1.1),
    goal("http-half", Rival::BestFramework, 1.1),
];

struct Verdict {
    scenario: &'static str,
    own: &'static str,
    rival: &'static str,
    ratio: f64,
    at_most: f64,
}

impl Verdict {
    fn met(&self) -> bool {
        self.ratio <= self.at_most
    }

    fn word(&self) -> String {
        match self.met() {
            true => "met".to_owned(),
            false => format!("MISSED by {:.0} %", (self.ratio / self.at_most - 1.0) * 100.0),
        }
    }
}

/// One for each goal whose two sides were measured.
fn verdicts(outcomes: &[Outcome]) -> Vec<Verdict> {
    GOALS.iter().filter_map(|goal| judge(goal, outcomes)).collect()
}

fn judge(goal: &Goal, outcomes: &[Outcome]) -> Option<Verdict> {
    let outcome = outcomes.iter().find(|outcome| outcome.scenario.name == goal.scenario)?;
    let figure = deciding(outcome.scenario.key());
    let best = |wanted: &dyn Fn(&Entry) -> bool| {
        let measured = outcome.entries.iter().filter(|entry| !entry.samples.is_empty() && wanted(entry));
        measured.min_by(|one, other| one.median(figure).total_cmp(&other.median(figure)))
    };
    let own = best(&|entry| side(entry.peer) == Side::Ours)?;
    let rival = match goal.rival {
        Rival::ByHand => best(&|entry| side(entry.peer) == Side::ByHand),
        Rival::BestFramework => best(&|entry| side(entry.peer) == Side::Other),
        Rival::Named(name) => best(&|entry| entry.peer == name),
    }?;
    let ratio = ratio(own, rival, figure)?.median;
    Some(Verdict { scenario: goal.scenario, own: own.peer, rival: rival.peer, ratio, at_most: goal.at_most })
}

pub(super) fn terminal(outcomes: &[Outcome]) -> String {
    let mut text = "\nWhat Netwright wants to reach, by the better of its drivers\n\n".to_owned();
    for verdict in verdicts(outcomes) {
        let sides = format!("{} / {}", verdict.own, verdict.rival);
        let _ = writeln!(
            text,
            "{:<15}  {sides:<32}  {:>5.2}  at most {:.2}  {}",
            verdict.scenario,
            verdict.ratio,
            verdict.at_most,
            verdict.word()
        );
    }
    text
}

pub(super) fn markdown(outcomes: &[Outcome]) -> String {
    let verdicts = verdicts(outcomes);
    if verdicts.is_empty() {
        return String::new();
    }
    let missed = verdicts.iter().filter(|verdict| !verdict.met()).count();
    let mut text = format!(
        "## What Netwright wants to reach\n\n{} of {} met, by the better of its two drivers.\n\n\
         | scenario | sides | ratio | at most | |\n| --- | --- | ---: | ---: | --- |\n",
        verdicts.len() - missed,
        verdicts.len()
    );
    for verdict in verdicts {
        let _ = writeln!(
            text,
            "| {} | {} / {} | {:.2} | {:.2} | {} |",
            verdict.scenario,
            verdict.own,
            verdict.rival,
            verdict.ratio,
            verdict.at_most,
            verdict.word()
        );
    }
    text + "\n## All figures\n\n"
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcome;
    use super::*;
    use crate::{roster::PEERS, scenario};

    #[test]
    fn goals_name_scenarios_and_servers_that_exist() {
        for goal in GOALS {
            assert!(scenario::find(goal.scenario).is_some(), "{}", goal.scenario);
            if let Rival::Named(name) = goal.rival {
                assert!(PEERS.iter().any(|peer| peer.name == name), "{name}");
            }
        }
    }

    #[test]
    fn a_loss_is_told_with_its_size() {
        let servers = [("netwright", 5.0), ("netwright-uring", 4.4), ("epoll-by-hand", 4.0), ("tokio", 5.0)];
        let text = markdown(&[outcome(1, &servers)]);
        assert!(text.contains("1 of 2 met"), "{text}");
        assert!(
            text.contains("| echo-64x64 | netwright-uring / epoll-by-hand | 1.10 | 1.03 | MISSED by 7 % |"),
            "{text}"
        );
        assert!(text.contains("| echo-64x64 | netwright-uring / tokio | 0.88 | 1.00 | met |"), "{text}");
    }
}
