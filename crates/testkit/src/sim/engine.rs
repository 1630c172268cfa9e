//! What drives a simulation: picks whose turn it is, and lets time pass when nobody has anything to do.
//!
//! ```text
//!   step ─┬─ something in the network is due ───────────▶ it happens, and loops are told
//!         ├─ loops, workers, faults that could go now ──▶ one of them, drawn
//!         └─ nobody ────────────────────────────────────▶ the clock jumps to the next that will
//! ```
//! Always true:
//! 1. One thing happens at a time. What it takes is drawn, and until then its loop or worker is busy; others are not, as if each had a core.
//! 2. Loops live on this thread, in this engine; nothing of it is borrowed while one of them runs, because what runs may ask the engine to go on
//!    (a task of workers that waits).

use super::{
    failure,
    host::{Host, HostWorld, dropped},
    loops::{LoopSlot, Loops},
    net::Time,
    script::Script,
    spin::SPIN_TURNS,
    universe::{HostIndex, Tag, Universe},
};
use netwright_core::world::{self, DrivenLoop, Turned, Worked, WorkersBody};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::Arc,
    task::Waker,
};

/// What a turn takes, beside its looks at the clock.
const TURN_NS: std::ops::RangeInclusive<u64> = 1_000..=20_000;

/// What a task of workers takes: they are for what takes long.
const TASK_NS: std::ops::RangeInclusive<u64> = 5_000..=500_000;

/// Tasks of workers that wait at the same time are on one stack, each within the one before.
const WAITS_MAX: u32 = 200;

/// So many steps are a millisecond or less.
const LOOK_AT_THE_TIME: u32 = 256;

thread_local! {
    static ENGINE: RefCell<Option<Rc<Engine>>> = const { RefCell::new(None) };
}

pub(super) struct Engine {
    pub(super) universe: Arc<Universe>,
    worlds: RefCell<Vec<Arc<HostWorld>>>,
    loops: RefCell<Loops>,
    pools: RefCell<BTreeMap<u64, PoolSlot>>,
    last_pool: Cell<u64>,
    pub(super) script: RefCell<Script>,
    /// How many turns there have been.
    pub(super) turns: Cell<u64>,
    steps: Cell<u32>,
    depth: Cell<u32>,
    pub(super) hosts: RefCell<Vec<Host>>,
    pub(super) violations: RefCell<Vec<String>>,
}

struct PoolSlot {
    host: HostIndex,
    body: Rc<WorkersBody>,
    /// When each worker is free again.
    free_at: Vec<Time>,
    /// For which of them there may be something to do.
    active: Vec<bool>,
}

/// Who could go next.
enum Candidate {
    Loop(Tag),
    Worker(u64, usize),
    Fault,
}

impl Engine {
    pub(super) fn new(universe: Arc<Universe>, script: Script) -> Rc<Self> {
        Rc::new(Self {
            universe,
            worlds: RefCell::default(),
            loops: RefCell::default(),
            pools: RefCell::default(),
            last_pool: Cell::new(0),
            script: RefCell::new(script),
            turns: Cell::new(0),
            steps: Cell::new(0),
            depth: Cell::new(0),
            hosts: RefCell::default(),
            violations: RefCell::default(),
        })
    }

    /// The simulation that this thread runs.
    pub(super) fn current() -> Option<Rc<Self>> {
        ENGINE.with_borrow(Clone::clone)
    }

    /// Makes this the thread's simulation, until it is taken away.
    pub(super) fn install(self: &Rc<Self>) -> Installed {
        Installed { before: ENGINE.replace(Some(self.clone())) }
    }

    pub(super) fn add_world(&self, world: Arc<HostWorld>) {
        self.worlds.borrow_mut().push(world);
    }

    pub(super) fn world(&self, host: HostIndex) -> Arc<HostWorld> {
        self.worlds.borrow()[host].clone()
    }

    /// One thing happens, or time passes up to the next, but not beyond `until`. False if nothing is left that could happen before that; then it is
    /// `until`, if that was said.
    pub(super) fn step(&self, until: Option<Time>) -> bool {
        let _deeper = Deeper::than(&self.depth);
        self.steps.set(self.steps.get().wrapping_add(1));
        if self.steps.get().is_multiple_of(LOOK_AT_THE_TIME) {
            failure::look_at_the_time();
        }
        self.step_once(until)
    }

    fn step_once(&self, until: Option<Time>) -> bool {
        self.take_in();
        let now = {
            let mut state = self.universe.lock();
            // What a program did outside of any turn has taken time as well.
            state.now = state.moment();
            state.spent_ns = 0;
            state.now
        };
        if until.is_some_and(|until| now >= until) {
            return false;
        }
        self.network_goes_on(now);
        self.look_at_woken();
        let candidates = self.candidates(now);
        if candidates.is_empty() {
            return self.pass_time(now, until);
        }
        let drawn = self.universe.lock().order.below(candidates.len() as u64) as usize;
        match candidates[drawn] {
            Candidate::Loop(tag) => self.turn(tag, now),
            Candidate::Worker(pool, worker) => self.work(pool, worker, now),
            Candidate::Fault => {
                let fault = self.script.borrow_mut().take_due(now);
                if let Some(fault) = fault {
                    fault.happen(self);
                }
            }
        }
        true
    }

    /// What was built since the last step.
    fn take_in(&self) {
        let (bodies, pools) = {
            let mut state = self.universe.lock();
            (std::mem::take(&mut state.bodies), std::mem::take(&mut state.pools))
        };
        for (host, body) in bodies {
            let tag = body.tag();
            let entered = world::enter(self.world(host));
            let driven = body.drive();
            drop(entered);
            let free_at = self.universe.lock().now;
            if let Some(driven) = driven {
                self.loops.borrow_mut().insert(tag, LoopSlot::new(host, driven, free_at));
            }
        }
        for (host, body) in pools {
            self.last_pool.set(self.last_pool.get() + 1);
            let free_at = vec![Time::START; body.len()];
            let active = vec![true; body.len()];
            let slot = PoolSlot { host, body: Rc::new(body), free_at, active };
            self.pools.borrow_mut().insert(self.last_pool.get(), slot);
        }
    }

    fn network_goes_on(&self, now: Time) {
        let mut state = self.universe.lock();
        if state.net.next_due().is_none_or(|due| due > now) {
            return;
        }
        state.net.advance(now);
        state.take_net_trace();
        let wakers = state.spread_news();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn look_at_woken(&self) {
        let woken = std::mem::take(&mut self.universe.lock().woken);
        let mut loops = self.loops.borrow_mut();
        for tag in woken {
            loops.change(tag, |slot| slot.busy = true);
        }
        let mut pools = self.pools.borrow_mut();
        for slot in pools.values_mut() {
            if slot.body.take_news() {
                slot.active.fill(true);
            }
        }
    }

    fn candidates(&self, now: Time) -> Vec<Candidate> {
        let mut found: Vec<Candidate> =
            self.loops.borrow_mut().collect(now).iter().map(|tag| Candidate::Loop(*tag)).collect();
        for (id, slot) in &*self.pools.borrow() {
            let timer = self.time_of(slot.host, slot.body.next_timer()).is_some_and(|at| at <= now);
            let free = |worker: &usize| (timer || slot.active[*worker]) && slot.free_at[*worker] <= now;
            let workers = (0..slot.free_at.len()).filter(free);
            found.extend(workers.map(|worker| Candidate::Worker(*id, worker)));
        }
        if self.script.borrow().next_due().is_some_and(|at| at <= now) {
            found.push(Candidate::Fault);
        }
        found
    }

    fn time_of(&self, host: HostIndex, instant: Option<std::time::Instant>) -> Option<Time> {
        instant.map(|instant| self.universe.when(host, instant))
    }

    /// Nobody has anything to do now.
    fn pass_time(&self, now: Time, until: Option<Time>) -> bool {
        let loops = self.loops.borrow().next_due();
        let pools = self.pools.borrow().values().filter_map(|slot| self.pool_due(slot)).min();
        let net = self.universe.lock().net.next_due();
        let fault = self.script.borrow().next_due();
        // A worker that waits within its task is never free before that has ended.
        let next = [loops, pools, net, fault].into_iter().flatten().filter(|at| at.0 < u64::MAX).min();
        let (to, more) = match (next, until) {
            (Some(next), Some(until)) if next < until => (next, true),
            (_, Some(until)) => (until, false),
            (Some(next), None) => (next, true),
            (None, None) => return false,
        };
        assert!(
            to <= Time::LAST,
            "the simulation would have to go on until {:?} after its start, and its clock ends at {:?}",
            to.since_start(),
            Time::LAST.since_start()
        );
        self.universe.lock().now = to.max(now);
        more
    }

    fn pool_due(&self, slot: &PoolSlot) -> Option<Time> {
        let free = slot.free_at.iter().min().copied()?;
        let active =
            slot.free_at.iter().zip(&slot.active).filter(|(_, active)| **active).map(|(at, _)| *at).min();
        let timer = self.time_of(slot.host, slot.body.next_timer()).map(|at| at.max(free));
        active.into_iter().chain(timer).min()
    }

    fn turn(&self, tag: Tag, now: Time) {
        let taken = self.loops.borrow_mut().change(tag, |slot| {
            slot.busy = false;
            Some((slot.driven.take()?, slot.host))
        });
        let Some((mut driven, host)) = taken.flatten() else { return };
        self.turns.set(self.turns.get() + 1);
        let before = driven.figures();
        let entered = world::enter(self.world(host));
        let (ran_before, activity) = {
            let mut state = self.universe.lock();
            (state.running.replace(tag), state.net.activity())
        };
        let turned = driven.turn();
        let timer = driven.next_timer();
        drop(entered);
        let after = driven.figures();
        let timer = self.time_of(host, timer);
        let events = after.events - before.events;
        let (took, moved) = {
            let mut state = self.universe.lock();
            state.running = ran_before;
            state.take_net_trace();
            state.trace.turn(now, tag, events, after.tasks_run - before.tasks_run);
            let took = std::mem::take(&mut state.spent_ns) + state.order.between(TURN_NS);
            if turned == Turned::Over {
                state.forget_loop_unless_back(tag);
            }
            (took, state.net.activity() > activity)
        };
        if turned == Turned::Over {
            self.farewell(&driven);
            let slot = self.loops.borrow_mut().remove(tag);
            return drop((slot, driven));
        }
        let mut driven = Some(driven);
        let spins = self.loops.borrow_mut().change(tag, |slot| {
            slot.free_at = Time(now.0 + took);
            slot.timer = timer;
            slot.busy |= turned == Turned::Busy;
            slot.driven = driven.take();
            let worked = events > 0 || moved || slot.watch.was_given(&before);
            slot.watch.turned(worked, turned, &after)
        });
        drop(driven); // cut meanwhile
        if spins == Some(true) {
            self.spins(tag);
        }
    }

    /// There and then: a loop that spins never lets a run come to its end.
    fn spins(&self, tag: Tag) {
        let name = |slot: &LoopSlot| slot.driven.as_ref().map(|driven| driven.name().to_owned());
        let name = self.loops.borrow_mut().change(tag, |slot| name(slot)).flatten().unwrap_or_default();
        let text = format!("the loop {name} spins: {SPIN_TURNS} turns for nobody but itself");
        self.violations.borrow_mut().push(text.clone());
        panic!("{text}");
    }

    /// What a loop that has ended by itself has to be asked.
    fn farewell(&self, driven: &DrivenLoop) {
        let figures = driven.figures();
        let say = |many: u64, what: &str| {
            if many > 0 {
                let name = driven.name();
                self.violations.borrow_mut().push(format!("the loop {name} has left {many} {what}"));
            }
        };
        say(figures.sources_cut, "sources that did not end");
        say(figures.timers_orphaned, "timers of sources that had gone");
    }

    fn work(&self, pool: u64, worker: usize, now: Time) {
        let Some((body, host)) = self.pools.borrow().get(&pool).map(|slot| (slot.body.clone(), slot.host))
        else {
            return;
        };
        // Until it is known what the task took: another one that waits within it must not get this worker.
        if let Some(slot) = self.pools.borrow_mut().get_mut(&pool) {
            slot.free_at[worker] = Time(u64::MAX);
        }
        let entered = world::enter(self.world(host));
        let worked = body.work(worker);
        let over = body.is_over();
        drop(entered);
        let took = {
            let mut state = self.universe.lock();
            let spent = std::mem::take(&mut state.spent_ns);
            if worked == Worked::Ran {
                state.take_net_trace();
                state.trace.work(now, pool);
                spent + state.order.between(TASK_NS)
            } else {
                0
            }
        };
        let mut pools = self.pools.borrow_mut();
        if over {
            let slot = pools.remove(&pool);
            drop(pools);
            return drop((slot, body));
        }
        let Some(slot) = pools.get_mut(&pool) else {
            drop(pools);
            return drop(body); // cut meanwhile
        };
        match worked {
            Worked::Ran => slot.free_at[worker] = Time(self.universe.lock().now.0.max(now.0) + took),
            // It finds nothing, until there is news. Another one may, which has begun with a lane.
            Worked::Idle => {
                slot.free_at[worker] = now;
                slot.active[worker] = false;
            }
            Worked::Over => {}
        }
    }

    // ---- hosts that end ----

    /// Everything that runs on a host is gone, without another turn.
    pub(super) fn cut(&self, host: HostIndex) {
        self.take_in();
        let entered = world::enter(self.world(host));
        let of_host = |at: HostIndex| at == host;
        let mut loops = self.loops.borrow_mut();
        let tags: Vec<Tag> =
            loops.iter().filter(|(_, slot)| of_host(slot.host)).map(|(tag, _)| tag).collect();
        let gone: Vec<_> = tags.iter().filter_map(|tag| loops.remove(*tag)).collect();
        drop(loops);
        for slot in gone {
            if let Some(driven) = slot.driven {
                driven.cut();
            }
        }
        let mut state = self.universe.lock();
        tags.iter().for_each(|tag| state.forget_loop(*tag));
        drop(state);
        let mut pools = self.pools.borrow_mut();
        let ids: Vec<u64> = pools.iter().filter(|(_, slot)| of_host(slot.host)).map(|(id, _)| *id).collect();
        let gone: Vec<_> = ids.iter().filter_map(|id| pools.remove(id)).collect();
        drop(pools);
        drop(gone);
        drop(entered);
    }

    /// Everything is cut, whatever it was about to do: what is left of a run.
    pub(super) fn abandon(&self) {
        let hosts = self.worlds.borrow().len();
        for host in 0..hosts {
            dropped(|| self.cut(host));
            dropped(|| self.world(host).common.end());
            dropped(|| self.cut(host));
        }
        self.hosts.borrow_mut().clear();
        self.worlds.borrow_mut().clear();
    }

    /// Whether there are loops on any host.
    pub(super) fn has_loops(&self) -> bool {
        self.take_in(); // what was built and not driven yet
        !self.loops.borrow().is_empty()
    }

    /// Whether nothing runs any more, on any host.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_loops() && self.pools.borrow().is_empty()
    }

    /// What of a host is still there.
    pub(super) fn left_on(&self, host: HostIndex) -> Vec<String> {
        self.take_in(); // what was built and not driven yet
        let mut left = Vec::new();
        for (_, slot) in self.loops.borrow().iter().filter(|(_, slot)| slot.host == host) {
            if let Some(driven) = &slot.driven {
                let figures = driven.figures();
                left.push(format!(
                    "loop {} with {} sources, {} timers, {} tasks",
                    driven.name(),
                    figures.sources,
                    figures.timers_pending,
                    figures.tasks_pending,
                ));
            }
        }
        for slot in self.pools.borrow().values().filter(|slot| slot.host == host) {
            left.push(format!("workers {}", slot.body.name()));
        }
        left
    }
}

/// Gives the thread back the simulation that it ran before.
pub(super) struct Installed {
    before: Option<Rc<Engine>>,
}

impl Drop for Installed {
    fn drop(&mut self) {
        let ours = ENGINE.replace(self.before.take());
        drop(ours);
    }
}

/// Steps within steps: tasks of workers that wait.
struct Deeper<'a>(&'a Cell<u32>);

impl<'a> Deeper<'a> {
    fn than(depth: &'a Cell<u32>) -> Self {
        let most = WAITS_MAX;
        assert!(depth.get() < most, "{most} tasks of workers wait at the same time, each within the next");
        depth.set(depth.get() + 1);
        Self(depth)
    }
}

impl Drop for Deeper<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
