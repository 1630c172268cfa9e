//! Who waits, what is idle, what is under way.

use super::{PoolError, PoolFigures, Pooled, nest, pooled::Member, upkeep::Upkeep};
use crate::bootstrap::ConnectError;
use netwright_core::{
    Channel, ChannelId, ChannelState, EventLoop, Promise, Promised, Scheduled, internal::catch, promise,
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub(super) type Connect<W> = Box<dyn Fn() -> Promised<Channel<W>, ConnectError> + Send + Sync>;
pub(super) type Health<W> = Box<dyn Fn(&Channel<W>) -> bool + Send + Sync>;

pub(super) struct Settings<W> {
    pub(super) connect: Connect<W>,
    pub(super) healthy: Health<W>,
    pub(super) check_on_release: bool,
    pub(super) max_connections: usize,
    pub(super) max_waiting: usize,
    pub(super) acquire_timeout: Duration,
    /// Zero: for ever.
    pub(super) idle_timeout: Duration,
    /// Zero: as old as they get.
    pub(super) max_age: Duration,
    pub(super) min_idle: usize,
    pub(super) timer: EventLoop,
}

pub(super) struct Inner<W: Send + 'static> {
    pub(super) settings: Settings<W>,
    state: Mutex<State<W>>,
}

pub(super) struct State<W: Send + 'static> {
    /// The last one is lent first, so they are in the order in which they came back.
    pub(super) idle: Vec<Resting<W>>,
    pub(super) in_use: usize,
    /// Connects that are under way.
    pub(super) attempts: BTreeMap<u64, Connecting<W>>,
    pub(super) waiting: VecDeque<Waiter<W>>,
    pub(super) upkeep: Upkeep,
    created: u64,
    pub(super) closed: bool,
    /// Names waiters and attempts.
    last_number: u64,
}

/// A connection that waits to be used.
pub(super) struct Resting<W: Send + 'static> {
    pub(super) member: Member<W>,
    pub(super) since: Instant,
    /// Nobody has used it yet.
    pub(super) fresh: bool,
}

/// A connect that is under way.
pub(super) struct Connecting<W: Send + 'static> {
    /// Begun for nobody who waits, so nobody is told if it fails.
    pub(super) spare: bool,
    /// Empty until the future is there, which can be given up.
    attempt: Option<Attempt<W>>,
}

type Attempt<W> = Arc<Promised<Channel<W>, ConnectError>>;

pub(super) struct Waiter<W: Send + 'static> {
    number: u64,
    promise: Promise<Pooled<W>, PoolError>,
    timer: Option<Scheduled<()>>,
}

impl<W: Send + 'static> Waiter<W> {
    fn answer(self, result: Result<Pooled<W>, PoolError>) {
        if let Some(timer) = self.timer {
            timer.cancel();
        }
        self.promise.complete(result);
    }
}

impl<W: Send + 'static> State<W> {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn connections(&self) -> usize {
        self.idle.len() + self.in_use + self.attempts.len()
    }

    /// Where in the line somebody is. Numbers grow from the first to the last.
    fn place_of(&self, number: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&number, |waiter| waiter.number).ok()
    }

    fn take_waiter(&mut self, number: u64) -> Option<Waiter<W>> {
        let place = self.place_of(number)?;
        self.waiting.remove(place)
    }
}

impl<W: Send + 'static> Inner<W> {
    pub(super) fn new(settings: Settings<W>) -> Arc<Self> {
        let state = State {
            idle: Vec::new(),
            in_use: 0,
            attempts: BTreeMap::new(),
            waiting: VecDeque::new(),
            upkeep: Upkeep::default(),
            created: 0,
            closed: false,
            last_number: 0,
        };
        Arc::new(Self { settings, state: Mutex::new(state) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- acquire ----

    pub(super) fn acquire(self: &Arc<Self>) -> Promised<Pooled<W>, PoolError> {
        loop {
            let mut state = self.lock();
            if state.closed {
                return Promised::ready(Err(PoolError::Closed));
            }
            let Some(resting) = state.idle.pop() else { return self.wait_in_line(state) };
            state.in_use += 1;
            // A timer may be late.
            let is_over = self.is_over(&resting, self.settings.timer.now(), state.idle.len() + 1);
            drop(state);
            let pooled = Pooled::new(self.clone(), resting.member, false);
            if !is_over && self.is_healthy(&pooled) {
                if self.settings.min_idle > 0 {
                    self.lock().upkeep.stood();
                    self.connect_as_needed();
                }
                return Promised::ready(Ok(pooled));
            }
            pooled.discard();
        }
    }

    fn wait_in_line(self: &Arc<Self>, mut state: MutexGuard<'_, State<W>>) -> Promised<Pooled<W>, PoolError> {
        let Settings { max_connections, max_waiting, .. } = self.settings;
        let full = state.connections() >= max_connections;
        if full && state.waiting.len().saturating_sub(state.attempts.len()) >= max_waiting {
            return Promised::ready(Err(PoolError::TooManyWaiting { max_waiting, max_connections }));
        }
        let (promise, promised) = promise();
        let number = state.next_number();
        state.waiting.push_back(Waiter { number, promise, timer: None });
        drop(state);
        let pool = Arc::downgrade(self);
        promised.listen(move |result| {
            if let (Err(PoolError::Cancelled), Some(inner)) = (result, pool.upgrade()) {
                inner.answer(number, || PoolError::Cancelled);
            }
        });
        self.connect_as_needed();
        self.arm_timeout(number);
        promised
    }

    fn arm_timeout(self: &Arc<Self>, number: u64) {
        let limit = self.settings.acquire_timeout;
        if limit.is_zero() || !self.is_waiting(number) {
            return;
        }
        let pool = Arc::downgrade(self);
        let expire = move || {
            if let Some(inner) = pool.upgrade() {
                inner.expire(number);
            }
        };
        let Ok(timer) = self.settings.timer.schedule(limit, expire) else {
            return self.answer(number, || PoolError::LoopEnded);
        };
        let mut state = self.lock();
        match state.place_of(number) {
            Some(place) => state.waiting[place].timer = Some(timer),
            None => {
                drop(state);
                timer.cancel();
            }
        }
    }

    fn is_waiting(&self, number: u64) -> bool {
        self.lock().place_of(number).is_some()
    }

    fn expire(&self, number: u64) {
        let Settings { max_connections, acquire_timeout: waited, .. } = self.settings;
        let PoolFigures { in_use, connecting, .. } = self.figures();
        self.answer(number, || PoolError::TimedOut { waited, max_connections, in_use, connecting });
    }

    /// Ends the wait of one who is still in the line.
    fn answer(&self, number: u64, error: impl FnOnce() -> PoolError) {
        let waiter = self.lock().take_waiter(number);
        if let Some(waiter) = waiter {
            waiter.answer(Err(error()));
        }
    }

    // ---- connect ----

    /// Starts as many connects as waiters need, and as are to be kept ready, and the limit allows.
    pub(super) fn connect_as_needed(self: &Arc<Self>) {
        loop {
            let mut state = self.lock();
            let spare = state.waiting.len() <= state.attempts.len();
            let needed = !spare || self.lacks(&mut state);
            if state.closed || !needed || state.connections() >= self.settings.max_connections {
                return;
            }
            let number = state.next_number();
            state.attempts.insert(number, Connecting { spare, attempt: None });
            drop(state);
            self.connect(number);
        }
    }

    fn connect(self: &Arc<Self>, number: u64) {
        let attempt = catch(|| (self.settings.connect)());
        let attempt = Arc::new(attempt.unwrap_or_else(|panic| {
            Promised::ready(Err(ConnectError::Setup(format!("the pool's way to connect panicked: {panic}"))))
        }));
        let mut state = self.lock();
        let wanted = match state.attempts.get_mut(&number) {
            Some(connecting) => {
                connecting.attempt = Some(attempt.clone());
                true
            }
            None => false, // the pool was closed meanwhile
        };
        drop(state);
        let pool = Arc::downgrade(self);
        attempt.listen(move |result| match (pool.upgrade(), result) {
            (Some(inner), result) => inner.connected(number, result.clone()),
            (None, Ok(channel)) => drop(channel.close()),
            (None, Err(_)) => {}
        });
        if !wanted {
            attempt.cancel();
        }
    }

    fn connected(self: &Arc<Self>, number: u64, result: Result<Channel<W>, ConnectError>) {
        let mut state = self.lock();
        let attempt = state.attempts.remove(&number);
        match result {
            Ok(channel) if attempt.is_none() => {
                drop(state);
                channel.close();
            }
            Ok(channel) => {
                state.created += 1;
                state.in_use += 1;
                state.upkeep.connected();
                drop(state);
                let (pool, id) = (Arc::downgrade(self), channel.id());
                channel.on_close(move |_| {
                    if let Some(inner) = pool.upgrade() {
                        inner.ended(id);
                    }
                });
                let dies = self.dies();
                self.give(Member { channel, dies }, Given::New);
                self.tell_warmed();
            }
            Err(error) if attempt.as_ref().is_some_and(|attempt| attempt.spare) => {
                drop(state);
                self.spare_failed(error);
            }
            Err(error) => {
                let waiter = if attempt.is_some() { state.waiting.pop_front() } else { None };
                drop(state);
                if let Some(waiter) = waiter {
                    waiter.answer(Err(PoolError::Connect(error)));
                }
                self.connect_as_needed();
            }
        }
        drop(attempt);
    }

    // ---- release ----

    /// A connection comes back.
    pub(super) fn release(self: &Arc<Self>, member: Member<W>, discarded: bool) {
        // Whoever waits gets it without a further look, so that this is also the look before it is lent.
        let looked_at = self.settings.check_on_release || !self.lock().waiting.is_empty();
        let channel = &member.channel;
        let usable = || if looked_at { self.is_healthy(channel) } else { is_alive(channel) };
        if discarded || self.is_old(&member) || !usable() {
            return self.put_away(channel);
        }
        let inner = self.clone();
        nest::run(move || match inner.give(member, Given::Back { looked_at }) {
            None => {}
            // Somebody has come to wait between the two looks.
            Some(member) if inner.is_healthy(&member.channel) => {
                inner.give(member, Given::Back { looked_at: true });
            }
            Some(member) => inner.put_away(&member.channel),
        });
    }

    /// A connection on loan is of no use any more, and its place is free.
    fn put_away(self: &Arc<Self>, channel: &Channel<W>) {
        channel.close();
        self.lock().in_use -= 1;
        self.connect_as_needed();
    }

    /// Passes a connection that counts as in use to the first waiter, or lays it down. It comes back if it has to be looked at
    /// before.
    fn give(self: &Arc<Self>, member: Member<W>, given: Given) -> Option<Member<W>> {
        let since = self.settings.timer.now();
        let mut state = self.lock();
        if matches!(given, Given::Back { looked_at: false }) && !state.waiting.is_empty() {
            return Some(member);
        }
        if let Some(waiter) = state.waiting.pop_front() {
            drop(state);
            waiter.answer(Ok(Pooled::new(self.clone(), member, matches!(given, Given::New))));
            return None;
        }
        state.in_use -= 1;
        if state.closed {
            drop(state);
            member.channel.close();
            return None;
        }
        let channel = member.channel.clone();
        state.idle.push(Resting { member, since, fresh: matches!(given, Given::New) });
        self.look_after(state);
        if channel.state() == ChannelState::Closed {
            self.ended(channel.id()); // it ended before it was idle, so nobody has looked for it here
        }
        None
    }

    /// A connection has ended: if it is idle, it leaves.
    fn ended(self: &Arc<Self>, id: ChannelId) {
        let now = self.settings.timer.now();
        let mut state = self.lock();
        let Some(index) = state.idle.iter().position(|resting| resting.member.channel.id() == id) else {
            return;
        };
        let gone = state.idle.remove(index);
        self.spare_ended(state, &gone, now);
    }

    fn is_healthy(&self, channel: &Channel<W>) -> bool {
        is_alive(channel)
            && catch(|| (self.settings.healthy)(channel)).unwrap_or_else(|panic| {
                tracing::error!(channel = %channel.id(), panic, "a pool's health check panicked, closing the connection");
                false
            })
    }

    // ---- the end, and what there is to see ----

    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let idle = std::mem::take(&mut state.idle);
        let waiting = std::mem::take(&mut state.waiting);
        let attempts = std::mem::take(&mut state.attempts);
        let upkeep = std::mem::take(&mut state.upkeep);
        drop(state);
        for waiter in waiting {
            waiter.answer(Err(PoolError::Closed));
        }
        upkeep.end();
        for attempt in attempts.into_values().filter_map(|connecting| connecting.attempt) {
            attempt.cancel();
        }
        for resting in idle {
            resting.member.channel.close();
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(super) fn figures(&self) -> PoolFigures {
        let state = self.lock();
        PoolFigures {
            idle: state.idle.len(),
            in_use: state.in_use,
            connecting: state.attempts.len(),
            waiting: state.waiting.len(),
            created: state.created,
        }
    }
}

/// Where a connection comes from that is to be given to somebody.
#[derive(Clone, Copy)]
enum Given {
    /// It was just made.
    New,
    /// It was on loan.
    Back {
        /// Whether it was asked after its health.
        looked_at: bool,
    },
}

/// Whether a connection can be lent at all, whatever its users think of it: it is there, and nobody has asked for its end.
fn is_alive<W: 'static>(channel: &Channel<W>) -> bool {
    channel.state() == ChannelState::Active && !channel.is_closing()
}
