//! A simulation: hosts, the network between them, time, and the end of it all.

use super::{
    engine::Engine,
    failure,
    host::{self, Host, HostWorld},
    net::{Link, NameAnswer, Time},
    outside::Outside,
    script::{Fault, FaultPlan, Script},
    trace::TraceHash,
    universe::Universe,
};
use netwright_core::world;
use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, Ipv4Addr},
    ops::RangeInclusive,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

/// Sets up a simulation; [`Sim::seed`].
///
/// ```
/// use netwright_testkit::sim::Sim;
/// use std::time::Duration;
///
/// let outcome = Sim::seed(7).run(|sim| {
///     sim.run_for(Duration::from_secs(3600)); // takes no time
///     sim.now()
/// });
/// assert!(outcome.value >= Duration::from_secs(3600));
/// ```
#[derive(Debug, Clone)]
#[must_use = "a simulation does nothing until it is run"]
pub struct SimBuilder {
    seed: u64,
    skipped: BTreeSet<usize>,
    panics_allowed: Option<String>,
    trace_lines: usize,
}

impl SimBuilder {
    /// Panics of handlers and tasks are a part of what is tried. Default: a panic that was contained by a loop fails the run.
    pub fn allow_panics(self) -> Self {
        self.allow_panics_with("")
    }

    /// Panics whose message has this text in it are a part of what is tried; any other one that was contained fails the run.
    ///
    /// ```
    /// use netwright_testkit::sim::Sim;
    ///
    /// Sim::seed(1).allow_panics_with("on purpose").run(|sim| {
    ///     let host = sim.host("here");
    ///     let broken = host.event_loop().submit(|| -> u32 { panic!("this one is on purpose") });
    ///     assert!(broken.unwrap().wait().is_err());
    /// });
    /// ```
    pub fn allow_panics_with(mut self, text: &str) -> Self {
        self.panics_allowed = Some(text.to_owned());
        self
    }

    /// How many of the last lines of the trace are shown if the run fails. Default: 40.
    pub fn trace_lines(mut self, lines: usize) -> Self {
        self.trace_lines = lines;
        self
    }

    /// Without some of the faults that the run will ask for, by their number.
    pub(super) fn without(mut self, faults: BTreeSet<usize>) -> Self {
        self.skipped = faults;
        self
    }

    /// Runs it, on this thread: `scenario` builds hosts, starts their programs and lets time pass. When it returns, all programs are told to end, cuts are
    /// healed, and everything is looked at.
    ///
    /// # Panics
    /// If anything did not come to its end or was lost, with what it is, the seed, and the last lines of the trace.
    ///
    /// If the scenario panics, everything on its hosts is cut off first, and a value that panics when it is dropped there changes nothing of what is told. What
    /// the scenario itself holds is dropped by the panic before that: there, as in any program, a second panic ends the process.
    pub fn run<R>(self, scenario: impl FnOnce(&Sim) -> R) -> Outcome<R> {
        assert!(Engine::current().is_none(), "a simulation cannot be run within another one");
        world::forget_promises();
        let universe = Universe::new(self.seed);
        universe.lock().panics.allow(self.panics_allowed.clone());
        let engine = Engine::new(universe.clone(), Script::without(self.skipped.clone()));
        let installed = engine.install();
        let sim = Sim { engine: engine.clone() };
        let mut failing = Failing { sim: &sim, seed: self.seed, lines: self.trace_lines, armed: true };
        let outside = world::enter(Outside::new(universe.clone()));
        // Caught, so that whatever is cut off behind it may panic as well.
        let run = || {
            let value = scenario(&sim);
            drop(outside);
            sim.end();
            value
        };
        let value = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(value) => value,
            Err(panic) => {
                drop(failing);
                resume_unwind(panic);
            }
        };
        let violations = engine.violations.take();
        assert!(violations.is_empty(), "{}", violations.join("\n"));
        failing.armed = false;
        drop(failing);
        let trace = sim.trace();
        drop(sim);
        host::forget_all();
        drop(installed);
        Outcome { value, trace }
    }
}

/// Shows where a run that panics has got to.
struct Failing<'a> {
    sim: &'a Sim,
    seed: u64,
    lines: usize,
    armed: bool,
}

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let tail = self.sim.engine.universe.lock().trace.tail(self.lines);
        let said = self.sim.engine.script.take().said;
        failure::has_failed(said.into_iter().map(|(at, fault)| (at.since_start(), fault)).collect());
        if !failure::is_quiet() {
            eprintln!("seed {}, at {:?}; the last of what happened:\n{tail}", self.seed, self.sim.now());
        }
        // What lives in the simulation ends with it, before the thread's locals do. Of what it drops, something may panic: the rest goes nevertheless.
        self.sim.engine.abandon();
        host::forget_all();
    }
}

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome<R> {
    /// What the scenario returned.
    pub value: R,
    /// What happened: equal for two runs of the same program with the same seed.
    pub trace: TraceHash,
}

/// A simulation that runs. Within [`run`](SimBuilder::run); see the [module](super).
pub struct Sim {
    engine: Rc<Engine>,
}

impl Sim {
    /// A simulation in which everything that is left to chance comes from `seed`.
    pub fn seed(seed: u64) -> SimBuilder {
        SimBuilder { seed, skipped: BTreeSet::new(), panics_allowed: None, trace_lines: 40 }
    }

    pub(super) fn of(engine: &Engine) -> Self {
        let engine = Engine::current().filter(|current| std::ptr::eq(&**current, engine));
        Self { engine: engine.expect("the engine that runs is that of this thread") }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    fn universe(&self) -> &Arc<Universe> {
        &self.engine.universe
    }

    // ---- hosts ----

    /// The host of that name; made if there is none, with the addresses 10.0.0.1, 10.0.0.2 and so on.
    pub fn host(&self, name: &str) -> Host {
        let known = self.engine.hosts.borrow().iter().find(|host| host.name() == name).cloned();
        known.unwrap_or_else(|| {
            let number = self.engine.hosts.borrow().len() as u32 + 1;
            let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + number);
            self.host_at(name, &[address.into()])
        })
    }

    /// A new host, at addresses of one's own.
    ///
    /// # Panics
    /// If there is one of that name, or with one of these addresses.
    pub fn host_at(&self, name: &str, addresses: &[IpAddr]) -> Host {
        let taken = self.engine.hosts.borrow().iter().any(|host| host.name() == name);
        assert!(!taken, "there is a host called {name} already");
        let universe = self.universe();
        let (index, id) = {
            let mut state = universe.lock();
            (state.add_host(name, 2), state.net.add_host(name, addresses))
        };
        let host = Host::new(universe.clone(), index, id, name, addresses.to_vec());
        self.engine.add_world(HostWorld::new(universe, &host));
        self.engine.hosts.borrow_mut().push(host.clone());
        host
    }

    pub(super) fn known(&self, name: &str) -> Host {
        let known = self.engine.hosts.borrow().iter().find(|host| host.name() == name).cloned();
        known.unwrap_or_else(|| panic!("there is no host called {name}"))
    }

    pub(super) fn hosts(&self) -> Vec<Host> {
        self.engine.hosts.borrow().clone()
    }

    /// What a lookup of a name finds from now on, for hosts and for names that are none.
    pub fn name(&self, name: &str, addresses: &[IpAddr]) {
        let answer = NameAnswer::Addresses(addresses.to_vec());
        self.universe().with_net(|net, _| net.set_name(None, name, answer));
    }

    /// A name that a lookup does not find from now on.
    pub fn no_name(&self, name: &str) {
        self.universe().with_net(|net, _| net.set_name(None, name, NameAnswer::NoSuchName));
    }

    /// A name for which nobody answers from now on, until whoever asks gives up after that time.
    pub fn silent_name(&self, name: &str, gives_up_after: Duration) {
        self.universe().with_net(|net, _| net.set_name(None, name, NameAnswer::Silence(gives_up_after)));
    }

    /// A name for which the server that should know it has no answer from now on.
    pub fn failing_name(&self, name: &str) {
        self.universe().with_net(|net, _| net.set_name(None, name, NameAnswer::ServerFails));
    }

    /// How long a lookup takes: drawn from that.
    pub fn lookups_take(&self, time: RangeInclusive<Duration>) {
        self.universe().with_net(|net, _| net.set_lookup_latency(time));
    }

    // ---- the network ----

    /// What all ways are like of which nothing else is said.
    pub fn link(&self, link: Link) {
        self.universe().with_net(|net, _| *net.default_link_mut() = link);
    }

    /// What the ways between two hosts are like.
    pub fn link_between(&self, a: &Host, b: &Host, link: Link) {
        self.link_one_way(a, b, link.clone());
        self.link_one_way(b, a, link);
    }

    /// What the way from one host to another is like.
    pub fn link_one_way(&self, from: &Host, to: &Host, link: Link) {
        self.universe().with_net(|net, _| *net.link_mut(from.id, to.id) = link);
    }

    /// Nothing gets from one host to the other from now on; what comes back, comes.
    pub fn cut(&self, from: &Host, to: &Host) {
        self.universe().with_net(|net, now| net.cut(now, from.id, to.id));
    }

    /// What a [cut](Self::cut) kept away gets there again, or what a partition did.
    pub fn mend(&self, from: &Host, to: &Host) {
        self.universe().with_net(|net, now| net.mend(now, from.id, to.id));
    }

    /// These hosts and all others hear nothing of each other from now on.
    pub fn partition(&self, some: &[&Host]) {
        let others: Vec<_> = self
            .hosts()
            .iter()
            .map(|host| host.id)
            .filter(|id| some.iter().all(|host| host.id != *id))
            .collect();
        let some: Vec<_> = some.iter().map(|host| host.id).collect();
        self.universe().with_net(|net, now| net.partition(now, &[&some, &others]));
    }

    /// All cuts and partitions are over.
    pub fn heal(&self) {
        self.universe().with_net(|net, now| net.heal(now));
    }

    /// Resets all connections between two hosts: both sides are told.
    pub fn reset(&self, a: &Host, b: &Host) {
        self.universe().with_net(|net, now| net.reset_between(now, a.id, b.id));
    }

    // ---- faults ----

    /// Has something go wrong, so long from now.
    pub fn at(&self, after: Duration, fault: Fault) {
        let at = self.universe().lock().moment().after(after);
        self.engine.script.borrow_mut().add(at, fault);
    }

    /// Draws faults, and has them happen.
    pub fn draw_faults(&self, plan: &FaultPlan) {
        let names: Vec<String> = self.hosts().iter().map(|host| host.name().to_owned()).collect();
        let drawn = {
            let mut state = self.universe().lock();
            plan.draw(state.fault_chance(), &names)
        };
        for (after, fault) in drawn {
            self.at(after, fault);
        }
    }

    // ---- time ----

    /// How long the simulation has lasted.
    pub fn now(&self) -> Duration {
        self.universe().lock().moment().since_start()
    }

    /// Lets time pass, and everything happen in it.
    pub fn run_for(&self, time: Duration) {
        let end = self.universe().lock().moment().after(time);
        while self.engine.step(Some(end)) {}
    }

    /// Lets everything happen until `done`, or for `most`. Returns whether it came about.
    pub fn run_until(&self, most: Duration, mut done: impl FnMut() -> bool) -> bool {
        let end = self.universe().lock().moment().after(most);
        loop {
            if done() {
                return true;
            }
            if !self.engine.step(Some(end)) {
                return done();
            }
        }
    }

    /// A number that the seed draws, below `bound`: for what a scenario leaves to chance.
    pub fn below(&self, bound: u64) -> u64 {
        self.universe().lock().scenario_chance().below(bound)
    }

    /// Something that belongs into the trace.
    pub fn note(&self, text: impl fmt::Display) {
        let mut state = self.universe().lock();
        let now = state.moment();
        state.trace.say(now, text.to_string());
    }

    /// What has happened so far.
    pub fn trace(&self) -> TraceHash {
        self.universe().lock().summary()
    }

    /// How many turns loops have taken.
    pub fn turns(&self) -> u64 {
        self.engine.turns.get()
    }

    // ---- the end ----

    /// Something is not as it must be: told at the end of the run.
    pub fn violation(&self, text: impl Into<String>) {
        self.engine.violations.borrow_mut().push(text.into());
    }
}

impl Time {
    /// So much later.
    pub(super) fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long after the start of the simulation.
    pub(super) fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("now", &self.now()).field("hosts", &self.hosts()).finish_non_exhaustive()
    }
}
