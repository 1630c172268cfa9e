//! What goes wrong in a simulation, and when: said beforehand, or drawn.

use super::{
    chance::Chance,
    engine::Engine,
    net::{Link, Time},
    sim::Sim,
};
use std::{collections::BTreeSet, fmt, ops::RangeInclusive, time::Duration};

/// Something that goes wrong, or is well again. Hosts are told by their names.
///
/// ```
/// use netwright_testkit::sim::{Fault, Sim};
/// use std::time::Duration;
///
/// Sim::seed(3).run(|sim| {
///     sim.host("a");
///     sim.host("b");
///     sim.at(Duration::from_secs(1), Fault::Cut { from: "a".into(), to: "b".into() });
///     sim.at(Duration::from_secs(2), Fault::Heal);
///     sim.run_for(Duration::from_secs(3));
/// });
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing gets from one host to the other; what comes back, comes.
    Cut {
        /// Who is not heard.
        from: String,
        /// Who does not hear.
        to: String,
    },
    /// These hosts and all others hear nothing of each other.
    Partition(Vec<String>),
    /// That cut is over.
    Mend {
        /// Who was not heard.
        from: String,
        /// Who did not hear.
        to: String,
    },
    /// Cuts and partitions are over.
    Heal,
    /// All connections between the two are reset.
    Reset {
        /// One of them.
        a: String,
        /// And the other.
        b: String,
    },
    /// The host is gone without a word ([`Host::crash`](super::Host::crash)).
    Crash(String),
    /// Its process is killed ([`Host::kill`](super::Host::kill)).
    Kill(String),
    /// It is back ([`Host::restart`](super::Host::restart)).
    Restart(String),
    /// What the way from one host to the other is like from now on.
    Link {
        /// Where it begins.
        from: String,
        /// Where it ends.
        to: String,
        /// What it is like.
        link: Link,
    },
}

impl Fault {
    pub(super) fn happen(&self, engine: &Engine) {
        let sim = Sim::of(engine);
        {
            let mut state = engine.universe.lock();
            let now = state.moment();
            state.trace.say(now, self.to_string());
        }
        match self {
            Self::Cut { from, to } => sim.cut(&sim.known(from), &sim.known(to)),
            Self::Mend { from, to } => sim.mend(&sim.known(from), &sim.known(to)),
            Self::Partition(some) => {
                let some: Vec<_> = some.iter().map(|name| sim.known(name)).collect();
                sim.partition(&some.iter().collect::<Vec<_>>());
            }
            Self::Heal => sim.heal(),
            Self::Reset { a, b } => sim.reset(&sim.known(a), &sim.known(b)),
            Self::Crash(name) => sim.known(name).crash(),
            Self::Kill(name) => sim.known(name).kill(),
            Self::Restart(name) => {
                if let Err(error) = sim.known(name).restart() {
                    sim.violation(format!("{name} could not be restarted: {error}"));
                }
            }
            Self::Link { from, to, link } => sim.link_one_way(&sim.known(from), &sim.known(to), link.clone()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { from, to } => write!(f, "nothing gets from {from} to {to}"),
            Self::Mend { from, to } => write!(f, "what comes from {from} gets to {to} again"),
            Self::Partition(some) => write!(f, "{} cut off from all others", some.join(", ")),
            Self::Heal => f.write_str("all cuts are over"),
            Self::Reset { a, b } => write!(f, "connections between {a} and {b} are reset"),
            Self::Crash(name) => write!(f, "{name} crashes"),
            Self::Kill(name) => write!(f, "{name} is killed"),
            Self::Restart(name) => write!(f, "{name} is back"),
            Self::Link { from, to, .. } => write!(f, "the way from {from} to {to} changes"),
        }
    }
}

/// Faults that are drawn by the seed, within a time: each host and each pair of hosts of the simulation may be struck. What is cut is healed and who is
/// gone is back at the end of it, so that everything can come to its end.
///
/// ```
/// use netwright_testkit::sim::{FaultPlan, Sim};
/// use std::time::Duration;
///
/// Sim::seed(5).run(|sim| {
///     sim.host("a");
///     sim.host("b");
///     sim.draw_faults(&FaultPlan::new(Duration::from_secs(10)).crashes(0));
///     sim.run_for(Duration::from_secs(12));
/// });
/// ```
#[derive(Debug, Clone)]
pub struct FaultPlan {
    within: Duration,
    cuts: u32,
    partitions: u32,
    resets: u32,
    crashes: u32,
    kills: u32,
    links: u32,
    lasting: RangeInclusive<Duration>,
    hosts: Vec<String>,
}

impl FaultPlan {
    /// Up to two of each kind within that time, but for killed processes, of which there are none; cuts and absences last between 50 ms and 5 s.
    pub fn new(within: Duration) -> Self {
        let lasting = Duration::from_millis(50)..=Duration::from_secs(5);
        Self {
            within,
            cuts: 2,
            partitions: 2,
            resets: 2,
            crashes: 2,
            kills: 0,
            links: 2,
            lasting,
            hosts: Vec::new(),
        }
    }

    /// Up to so many ways are cut in one direction.
    pub fn cuts(mut self, most: u32) -> Self {
        self.cuts = most;
        self
    }

    /// Up to so many times some hosts are cut off from the others.
    pub fn partitions(mut self, most: u32) -> Self {
        self.partitions = most;
        self
    }

    /// Up to so many times connections are reset.
    pub fn resets(mut self, most: u32) -> Self {
        self.resets = most;
        self
    }

    /// Up to so many hosts crash, and are restarted.
    pub fn crashes(mut self, most: u32) -> Self {
        self.crashes = most;
        self
    }

    /// Up to so many processes are killed, and started again.
    pub fn kills(mut self, most: u32) -> Self {
        self.kills = most;
        self
    }

    /// Up to so many ways become slow and lossy.
    pub fn links(mut self, most: u32) -> Self {
        self.links = most;
        self
    }

    /// How long cuts and absences last.
    pub fn lasting(mut self, time: RangeInclusive<Duration>) -> Self {
        self.lasting = time;
        self
    }

    /// Who crashes or is killed: these hosts only. Default: any.
    pub fn only(mut self, hosts: &[&str]) -> Self {
        self.hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        self
    }

    /// The faults, with their times from now on.
    pub(super) fn draw(&self, chance: &mut Chance, hosts: &[String]) -> Vec<(Duration, Fault)> {
        let mut drawn = Vec::new();
        let mut struck: Vec<&String> =
            hosts.iter().filter(|host| self.hosts.is_empty() || self.hosts.contains(host)).collect();
        let within = self.within;
        let span = |chance: &mut Chance| {
            let (least, most) = (nanoseconds(*self.lasting.start()), nanoseconds(*self.lasting.end()));
            let begin = chance.below(nanoseconds(within).max(1));
            let lasts = chance.between(least..=most.max(least));
            (Duration::from_nanos(begin), Duration::from_nanos(begin.saturating_add(lasts)).min(within))
        };
        let pair = |chance: &mut Chance| {
            let a = chance.below(hosts.len() as u64) as usize;
            let b = (a + 1 + chance.below(hosts.len() as u64 - 1) as usize) % hosts.len();
            (hosts[a].clone(), hosts[b].clone())
        };
        if hosts.len() > 1 {
            for _ in 0..chance.below(u64::from(self.cuts) + 1) {
                let ((from, to), (begin, end)) = (pair(chance), span(chance));
                drawn.push((begin, Fault::Cut { from: from.clone(), to: to.clone() }));
                drawn.push((end, Fault::Mend { from, to }));
            }
            for _ in 0..chance.below(u64::from(self.partitions) + 1) {
                let (begin, end) = span(chance);
                let mut some: Vec<String> = hosts.iter().filter(|_| chance.chance(0.5)).cloned().collect();
                if some.is_empty() || some.len() == hosts.len() {
                    some = vec![hosts[0].clone()];
                }
                drawn.push((begin, Fault::Partition(some)));
                drawn.push((end, Fault::Heal));
            }
            for _ in 0..chance.below(u64::from(self.resets) + 1) {
                let ((a, b), (begin, _)) = (pair(chance), span(chance));
                drawn.push((begin, Fault::Reset { a, b }));
            }
            for _ in 0..chance.below(u64::from(self.links) + 1) {
                let ((from, to), (begin, end)) = (pair(chance), span(chance));
                let millis = |chance: &mut Chance, most| Duration::from_millis(chance.below(most));
                let bad = Link::default()
                    .latency(millis(chance, 300))
                    .jitter(millis(chance, 100))
                    .loss(chance.below(20) as f64 / 100.0)
                    .rate(1_000 + chance.below(1_000_000));
                drawn.push((begin, Fault::Link { from: from.clone(), to: to.clone(), link: bad }));
                drawn.push((end, Fault::Link { from, to, link: Link::default() }));
            }
        }
        // Each host is gone once at the most: one that is gone cannot go.
        let mut leave = |chance: &mut Chance, most: u32, gone: fn(String) -> Fault| {
            for _ in 0..chance.below(u64::from(most) + 1) {
                if struck.is_empty() {
                    return;
                }
                let host = struck.remove(chance.below(struck.len() as u64) as usize).clone();
                let (begin, end) = span(chance);
                drawn.push((begin, gone(host.clone())));
                drawn.push((end, Fault::Restart(host)));
            }
        };
        leave(chance, self.crashes, Fault::Crash);
        leave(chance, self.kills, Fault::Kill);
        drawn.push((within, Fault::Heal));
        drawn.sort_by_key(|(at, _)| *at);
        drawn
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The faults of a simulation that are still to come.
#[derive(Default)]
pub(super) struct Script {
    /// In the order of their times; those that are skipped are not among them.
    coming: Vec<(Time, Fault)>,
    /// All that were said, in the order in which they were, for who wants to leave some out.
    pub(super) said: Vec<(Time, Fault)>,
    /// Which of those are left out, by their number.
    skipped: BTreeSet<usize>,
}

impl Script {
    pub(super) fn without(skipped: BTreeSet<usize>) -> Self {
        Self { skipped, ..Self::default() }
    }

    pub(super) fn add(&mut self, at: Time, fault: Fault) {
        let number = self.said.len();
        self.said.push((at, fault.clone()));
        if !self.skipped.contains(&number) {
            let place = self.coming.partition_point(|(other, _)| *other <= at);
            self.coming.insert(place, (at, fault));
        }
    }

    /// Nothing comes any more.
    pub(super) fn stop(&mut self) {
        self.coming.clear();
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.coming.first().map(|(at, _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Time) -> Option<Fault> {
        if self.next_due()? > now {
            return None;
        }
        Some(self.coming.remove(0).1)
    }
}
