//! What everything in a simulation shares: the network, the clock, chance, and who has to be told of what.
//!
//! ```text
//!   loops, workers, programs ──lock──▶ State ── net (what is under way), now, chance, the trace
//!                                        │ news: a socket has changed
//!                                        ▼
//!                                      the events of the loop that owns the socket, until it polls
//! ```
//! Always true:
//! 1. Nothing foreign is called while the lock is held: wakers are collected, and woken behind it.
//! 2. All order comes from the seed: no collection is walked that is ordered by chance of the process.

use super::{
    chance::Chance,
    net::{DatagramId, ListenerId, LookupId, Net, News, StreamId, Time},
    trace::{Trace, TraceHash},
};
use netwright_core::{
    driver::{Event, Events, Ready, Token},
    world::{LoopBody, WorkersBody},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::{Duration, Instant, SystemTime},
};

/// Names a loop of a simulation.
pub(super) type Tag = u64;

/// The index of a host.
pub(super) type HostIndex = usize;

/// What one look at a clock takes: time passes also for code that looks at nothing else, so that no loop is for ever in one moment.
const LOOK_NS: u64 = 50;

/// 2026-01-01, 00:00 UTC: when every simulation begins.
const BEGINNING: Duration = Duration::from_secs(1_767_225_600);

pub(super) struct Universe {
    state: Mutex<State>,
    /// The monotonic clock's beginning: differences from it are all that can be seen.
    origin: Instant,
}

impl Universe {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let chance = Chance::seed(seed);
        let state = State {
            net: Net::new(chance.fork("network")),
            order: chance.fork("order"),
            draws: chance.fork("draws"),
            faults: chance.fork("faults"),
            scenario: chance.fork("scenario"),
            running: None,
            now: Time::START,
            spent_ns: 0,
            hosts: Vec::new(),
            loops: BTreeMap::new(),
            woken: BTreeSet::new(),
            owners: BTreeMap::new(),
            bodies: Vec::new(),
            pools: Vec::new(),
            last_tag: 0,
            flaws: Vec::new(),
            trace: Trace::new(),
            panics: Panics::default(),
        };
        Arc::new(Self { state: Mutex::new(state), origin: Instant::now() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a host's monotonic clock shows. Looking at it takes a moment.
    pub(super) fn instant(&self, host: HostIndex) -> Instant {
        let mut state = self.lock();
        state.spent_ns += LOOK_NS;
        let shown = state.hosts[host].clock.shown(state.moment());
        self.origin + Duration::from_nanos(shown)
    }

    /// What its clock on the wall shows.
    pub(super) fn system_time(&self, host: HostIndex) -> SystemTime {
        let state = self.lock();
        let clock = &state.hosts[host].clock;
        let since = BEGINNING + Duration::from_nanos(clock.shown(state.moment()));
        let told = match clock.ahead {
            Ahead::By(time) => since + time,
            Ahead::Behind(time) => since.saturating_sub(time),
        };
        SystemTime::UNIX_EPOCH + told
    }

    /// When a host's clock will show that.
    pub(super) fn when(&self, host: HostIndex, instant: Instant) -> Time {
        let shown = instant.saturating_duration_since(self.origin);
        let shown = u64::try_from(shown.as_nanos()).unwrap_or(u64::MAX);
        Time(self.lock().hosts[host].clock.when(shown))
    }

    /// The present moment, by nobody's clock.
    pub(super) fn instant_outside(&self) -> Instant {
        self.origin + self.lock().moment().since_start()
    }

    /// The same, as a clock on the wall that is right would have it.
    pub(super) fn system_time_outside(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + BEGINNING + self.lock().moment().since_start()
    }

    /// When it will be that moment.
    pub(super) fn when_outside(&self, instant: Instant) -> Time {
        Time::START.after(instant.saturating_duration_since(self.origin))
    }

    /// Does something to the network, at this moment, and tells whom it concerns.
    pub(super) fn with_net<R>(&self, act: impl FnOnce(&mut Net, Time) -> R) -> R {
        let mut state = self.lock();
        let now = state.moment();
        let result = act(&mut state.net, now);
        let wakers = state.spread_news();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        result
    }
}

/// A host, as the simulation sees it.
pub(super) struct HostState {
    pub(super) clock: HostClock,
    pub(super) cores: usize,
    /// Chance of its programs.
    pub(super) draws: Chance,
}

/// How the clock of a host differs from the simulation's.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostClock {
    /// The clock on the wall.
    pub(super) ahead: Ahead,
    /// How much too fast it goes, in millionths; also the monotonic one.
    pub(super) drift_ppm: i32,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Ahead {
    By(Duration),
    Behind(Duration),
}

impl Default for HostClock {
    fn default() -> Self {
        Self { ahead: Ahead::By(Duration::ZERO), drift_ppm: 0 }
    }
}

const MILLION: i128 = 1_000_000;

impl HostClock {
    /// Nanoseconds that it shows since the beginning.
    fn shown(&self, at: Time) -> u64 {
        let at = i128::from(at.0);
        u64::try_from(at + at * i128::from(self.drift_ppm) / MILLION).unwrap_or(u64::MAX)
    }

    /// The first moment at which it shows at least that.
    fn when(&self, shown: u64) -> u64 {
        let rate = MILLION + i128::from(self.drift_ppm);
        let guess = (i128::from(shown) * MILLION).div_euclid(rate).max(0);
        let mut at = u64::try_from(guess).unwrap_or(u64::MAX);
        while at < u64::MAX && self.shown(Time(at)) < shown {
            at += 1;
        }
        at
    }
}

/// What there is news of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Stream(StreamId),
    Listener(ListenerId),
    Datagram(DatagramId),
    Lookup(LookupId),
}

/// Who is told of it.
pub(super) enum Owner {
    Source(Tag, Token),
    Task(Waker),
}

impl Owner {
    fn is_of(&self, tag: Tag) -> bool {
        matches!(self, Self::Source(of, _) if *of == tag)
    }
}

/// What the driver of a loop has to tell.
#[derive(Default)]
pub(super) struct LoopEvents {
    /// By token, one each: what has become possible since the last poll.
    waiting: Vec<Event>,
}

pub(super) struct State {
    pub(super) net: Net,
    /// Who comes first of those who could.
    pub(super) order: Chance,
    draws: Chance,
    faults: Chance,
    scenario: Chance,
    /// The loop that takes its turn.
    pub(super) running: Option<Tag>,
    pub(super) now: Time,
    /// What the turn that runs has taken so far.
    pub(super) spent_ns: u64,
    pub(super) hosts: Vec<HostState>,
    pub(super) loops: BTreeMap<Tag, (HostIndex, LoopEvents)>,
    /// Loops that have been woken since the scheduler looked.
    pub(super) woken: BTreeSet<Tag>,
    owners: BTreeMap<Subject, Owner>,
    /// Loops and workers that nobody drives yet.
    pub(super) bodies: Vec<(HostIndex, LoopBody)>,
    pub(super) pools: Vec<(HostIndex, WorkersBody)>,
    last_tag: Tag,
    /// What programs found out of order in their own books.
    pub(super) flaws: Vec<String>,
    pub(super) trace: Trace,
    pub(super) panics: Panics,
}

/// Panics that were contained and are no part of what is tried: how many, and what the first one said.
#[derive(Default)]
pub(super) struct Panics {
    allowed: Option<String>,
    many: u64,
    first: Option<String>,
}

impl Panics {
    /// Those with this text are a part of it.
    pub(super) fn allow(&mut self, text: Option<String>) {
        self.allowed = text;
    }

    pub(super) fn add(&mut self, message: &str) {
        if self.allowed.as_ref().is_some_and(|allowed| message.contains(allowed)) {
            return;
        }
        self.many += 1;
        self.first.get_or_insert_with(|| message.to_owned());
    }

    pub(super) fn take(&mut self) -> (u64, Option<String>) {
        (std::mem::take(&mut self.many), self.first.take())
    }
}

impl State {
    /// The present moment, within a turn.
    pub(super) fn moment(&self) -> Time {
        Time(self.now.0 + self.spent_ns)
    }

    /// What a plan of faults is drawn by.
    pub(super) fn fault_chance(&mut self) -> &mut Chance {
        &mut self.faults
    }

    /// What the scenario draws.
    pub(super) fn scenario_chance(&mut self) -> &mut Chance {
        &mut self.scenario
    }

    /// Takes over what the network has noted.
    pub(super) fn take_net_trace(&mut self) {
        for record in self.net.take_trace() {
            self.trace.net(record);
        }
    }

    /// What has happened, as one number.
    pub(super) fn summary(&self) -> TraceHash {
        self.trace.summary(self.net.trace_hash())
    }

    pub(super) fn add_host(&mut self, name: &str, cores: usize) -> HostIndex {
        let draws = self.draws.fork(name);
        self.hosts.push(HostState { clock: HostClock::default(), cores, draws });
        self.hosts.len() - 1
    }

    pub(super) fn add_loop(&mut self, host: HostIndex) -> Tag {
        self.last_tag += 1;
        self.loops.insert(self.last_tag, (host, LoopEvents::default()));
        self.last_tag
    }

    pub(super) fn wake(&mut self, tag: Tag) {
        self.woken.insert(tag);
    }

    // ---- from the network to loops ----

    pub(super) fn own(&mut self, subject: Subject, owner: Owner) {
        self.owners.insert(subject, owner);
    }

    pub(super) fn disown(&mut self, subject: Subject) {
        self.owners.remove(&subject);
    }

    /// What is possible now.
    pub(super) fn look(&self, subject: Subject) -> Ready {
        let when = |is: bool, ready| if is { ready } else { Ready::NONE };
        match subject {
            Subject::Stream(id) => {
                let now = self.net.look(id);
                when(now.read, Ready::READ)
                    | when(now.write, Ready::WRITE)
                    | when(now.read_closed, Ready::READ_CLOSED)
                    | when(now.error.is_some(), Ready::ERROR)
            }
            Subject::Listener(id) => when(self.net.can_accept(id), Ready::READ),
            Subject::Datagram(_) => Ready::READ | Ready::WRITE,
            Subject::Lookup(_) => Ready::NONE,
        }
    }

    /// Tells a source something, in its loop's next turn.
    pub(super) fn tell(&mut self, tag: Tag, token: Token, ready: Ready) {
        let Some((_, events)) = self.loops.get_mut(&tag) else { return };
        match events.waiting.iter_mut().find(|event| event.token == token) {
            Some(event) => event.ready |= ready,
            None => events.waiting.push(Event { token, ready }),
        }
        self.woken.insert(tag);
    }

    /// Passes on what has changed in the network. Returns who is to be woken, without the lock.
    #[must_use]
    pub(super) fn spread_news(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for news in self.net.take_news() {
            let (subject, ready) = match news {
                News::Outcome(id) => (Subject::Stream(id), Ready::WRITE),
                News::Readable(id) => (Subject::Stream(id), Ready::READ),
                News::Writable(id) => (Subject::Stream(id), Ready::WRITE),
                News::Ended(id) => (Subject::Stream(id), Ready::READ | Ready::READ_CLOSED),
                News::Broken(id) => {
                    (Subject::Stream(id), Ready::READ | Ready::WRITE | Ready::READ_CLOSED | Ready::ERROR)
                }
                News::Acceptable(id) => (Subject::Listener(id), Ready::READ),
                News::Datagram(id) => (Subject::Datagram(id), Ready::READ | Ready::WRITE),
                News::Answered(id) => (Subject::Lookup(id), Ready::NONE),
            };
            match self.owners.get(&subject) {
                Some(Owner::Source(tag, token)) => {
                    let (tag, token) = (*tag, *token);
                    self.tell(tag, token, ready);
                }
                Some(Owner::Task(waker)) => wakers.push(waker.clone()),
                None => {}
            }
        }
        wakers
    }

    /// What a poll brings: in an order that is drawn.
    pub(super) fn take_events(&mut self, tag: Tag, into: &mut Events) {
        let Some((_, events)) = self.loops.get_mut(&tag) else { return };
        let mut waiting = mem::take(&mut events.waiting);
        for at in (1..waiting.len()).rev() {
            waiting.swap(at, self.order.below(at as u64 + 1) as usize);
        }
        waiting.into_iter().for_each(|event| into.push(event));
    }

    /// Everything that is ready on every registration, as if it were new. Returns how many there are.
    pub(super) fn tell_all_again(&mut self, tag: Tag) -> usize {
        let mine = |(subject, owner): (&Subject, &Owner)| match owner {
            Owner::Source(of, token) if *of == tag => Some((*subject, *token)),
            _ => None,
        };
        let registered: Vec<_> = self.owners.iter().filter_map(mine).collect();
        for (subject, token) in &registered {
            let ready = self.look(*subject);
            self.tell(tag, *token, ready);
        }
        registered.len()
    }

    /// A loop that has given its thread back may have got it again meanwhile; one that has ended has not.
    pub(super) fn forget_loop_unless_back(&mut self, tag: Tag) {
        if self.bodies.iter().all(|(_, body)| body.tag() != tag)
            && self.owners.values().all(|owner| !owner.is_of(tag))
        {
            self.woken.remove(&tag);
        }
    }

    /// A loop is gone: nobody is told any more.
    pub(super) fn forget_loop(&mut self, tag: Tag) {
        self.loops.remove(&tag);
        self.woken.remove(&tag);
        self.owners.retain(|_, owner| !owner.is_of(tag));
    }
}
