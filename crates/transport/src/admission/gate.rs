//! What is asked of every connection that comes, by all acceptors of a server: the settings of [`Admission`], and what they have counted.
//!
//! ```text
//!   networks ─▶ a seat (how many are open in all) ─▶ how many of its network ─▶ how fast, of its network and in all ─▶ the user
//! ```
//! Always true:
//! 1. What refuses costs nothing of what comes behind it: one that is refused takes no seat and no token of anybody.
//! 2. No lock is held while the user is asked, nor while anything of the user's is dropped.

use super::{
    Admission, LiveAccessList, Network, Verdict,
    addresses::Addresses,
    farewell,
    incoming::{Decider, Incoming},
    log::RefusalLog,
    rate::Bucket,
    settings::Limits,
};
use crate::{
    bootstrap::Refusal,
    limits,
    live::{Live, Seat},
    stream::Carried,
};
use netwright_core::{Address, LocalLoop, internal::catch, world};
use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub(crate) struct Gate {
    pub(super) access: LiveAccessList,
    state: Mutex<State>,
    /// Whether `state` has something to say of a connection, and of the pace: most servers have no such limit, and take no lock.
    limits_some: AtomicBool,
    paces: AtomicBool,
    connections_max: AtomicUsize,
    reserve: Reserve,
    rules: Admission,
    /// Who waits for a decision.
    undecided: Arc<AtomicUsize>,
    pub(super) farewells: AtomicUsize,
    pub(crate) told_politely: AtomicU64,
    /// Moments are counted from here.
    beginning: OnceLock<Instant>,
    log: Arc<RefusalLog>,
}

#[derive(Default)]
struct State {
    limits: Limits,
    in_all: Bucket,
    pace: Bucket,
    addresses: Addresses,
}

impl Gate {
    pub(crate) fn new(rules: Admission, connections_max: usize) -> Arc<Self> {
        let gate = Self {
            access: rules.access.clone(),
            state: Mutex::default(),
            limits_some: AtomicBool::new(false),
            paces: AtomicBool::new(false),
            connections_max: AtomicUsize::new(connections_max),
            reserve: Reserve::new(rules.reserve),
            undecided: Arc::default(),
            farewells: AtomicUsize::new(0),
            told_politely: AtomicU64::new(0),
            beginning: OnceLock::new(),
            log: Arc::default(),
            rules,
        };
        gate.change(|limits| *limits = gate.rules.limits);
        Arc::new(gate)
    }

    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::Relaxed)
    }

    pub(super) fn set_connections_max(&self, connections: usize) {
        self.connections_max.store(connections, Ordering::Relaxed);
    }

    pub(super) fn limits(&self) -> Limits {
        self.lock().limits
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Limits)) {
        let mut state = self.lock();
        let before = state.limits;
        change(&mut state.limits);
        // What is left of one rate means nothing to another.
        if before.rate != state.limits.rate {
            state.in_all = Bucket::default();
        }
        if before.pace != state.limits.pace {
            state.pace = Bucket::default();
        }
        if before.rate_per_address != state.limits.rate_per_address {
            state.addresses.fill_buckets();
        }
        let Limits { per_address, rate, rate_per_address, pace, .. } = state.limits;
        let some = per_address.is_some() || rate.is_some() || rate_per_address.is_some();
        self.limits_some.store(some, Ordering::Relaxed);
        self.paces.store(pace.is_some(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present moment as a number, by the clock of the loop that asks.
    fn now(&self) -> u64 {
        let now = LocalLoop::turn_time_here().unwrap_or_else(world::now);
        let since = now.saturating_duration_since(*self.beginning.get_or_init(|| now));
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// How long the next connection has to wait in the system's queue, if it has to.
    pub(crate) fn pace(&self) -> Option<Duration> {
        if !self.paces.load(Ordering::Relaxed) {
            return None;
        }
        let now = self.now();
        let state = self.lock();
        state.pace.wait(&state.limits.pace?, now)
    }

    /// One has been accepted. Two acceptors may have found that one more may come; then the next waits longer.
    pub(crate) fn accepted(&self) {
        if self.paces.load(Ordering::Relaxed) {
            let now = self.now();
            let mut state = self.lock();
            if let Some(pace) = state.limits.pace {
                state.pace.take(&pace, now);
            }
        }
    }

    /// All that is asked without the user.
    pub(crate) fn judge(
        self: &Arc<Self>,
        connection: &Carried,
        peer: &Address,
        live: &Live,
    ) -> Result<(Seat, Option<Counted>), Refusal> {
        self.access.judge(peer).map_err(Refusal::Denied)?;
        self.reserve.judge(connection)?;
        let connections_max = self.connections_max();
        let seat = live.seat(connections_max).ok_or(Refusal::Full { connections_max })?;
        if !self.limits_some.load(Ordering::Relaxed) {
            return Ok((seat, None));
        }
        let counted = self.count(peer)?;
        Ok((seat, counted))
    }

    fn count(self: &Arc<Self>, peer: &Address) -> Result<Option<Counted>, Refusal> {
        let now = self.now();
        let mut state = self.lock();
        let state = &mut *state;
        let limits = state.limits;
        let (v4, v6) = limits.prefixes;
        let network = peer.ip().map(|peer| Network::around(peer.ip(), v4, v6));
        if let Some(network) = network {
            let entry = state.addresses.get(&network);
            if let Some(connections_max) = limits.per_address
                && entry.open >= connections_max
            {
                return Err(Refusal::AddressFull { network, connections_max });
            }
            if let Some(rate) = limits.rate_per_address
                && entry.bucket.wait(&rate, now).is_some()
            {
                return Err(Refusal::TooFast { rate, network: Some(network) });
            }
        }
        if let Some(rate) = limits.rate {
            if state.in_all.wait(&rate, now).is_some() {
                return Err(Refusal::TooFast { rate, network: None });
            }
            state.in_all.take(&rate, now);
        }
        let Some(network) = network else { return Ok(None) };
        let (counts, rate) = (limits.per_address.is_some(), limits.rate_per_address);
        if counts || rate.is_some() {
            state.addresses.change(network, now, |entry| {
                entry.open += usize::from(counts);
                if let Some(rate) = rate {
                    entry.bucket.take(&rate, now);
                }
            });
        }
        Ok(counts.then(|| Counted { gate: self.clone(), network }))
    }

    /// What the user says at once.
    pub(crate) fn ask(&self, incoming: &Incoming) -> Result<(), Refusal> {
        let Some(judge) = &self.rules.judge else { return Ok(()) };
        match catch(|| judge(incoming)) {
            Ok(Verdict::Admit) => Ok(()),
            Ok(Verdict::Refuse(reason)) => Err(Refusal::Judged(reason)),
            Err(panic) => Err(Refusal::Judged(format!("the function that judges panicked: {panic}").into())),
        }
    }

    /// Whether the user is asked at all, at once or later.
    pub(crate) fn asks(&self) -> bool {
        self.rules.judge.is_some() || self.rules.decider.is_some()
    }

    /// Who says something later, if anybody.
    pub(crate) fn decider(&self) -> Option<&Decider> {
        self.rules.decider.as_ref()
    }

    /// A place among those who wait for a decision.
    pub(crate) fn undecided(&self) -> Result<Undecided, Refusal> {
        let undecided_max = self.rules.undecided_max;
        let one_more = |waiting: usize| (waiting < undecided_max).then_some(waiting + 1);
        match self.undecided.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Undecided(self.undecided.clone())),
            Err(_) => Err(Refusal::UndecidedFull { undecided_max }),
        }
    }

    /// How many wait for a decision.
    pub(crate) fn undecided_now(&self) -> usize {
        self.undecided.load(Ordering::Relaxed)
    }

    /// The end of a connection that is refused: in words if there are any for this and there is time, else by a reset.
    pub(crate) fn send_away(self: &Arc<Self>, connection: Carried, peer: &Address, why: &Refusal) {
        let Some(words) = self.words(why) else { return connection.reset() };
        let here = LocalLoop::current().filter(|local| !local.handle().is_shutting_down());
        let Some(local) = here else { return connection.reset() };
        if let Err(connection) = farewell::say(self, &local, connection, peer, words) {
            connection.reset();
        }
    }

    fn words(&self, why: &Refusal) -> Option<bytes::Bytes> {
        // Nobody is told of these: there is no loop for it, or no descriptor to spare for a second.
        if matches!(
            why,
            Refusal::LoopsEnded
                | Refusal::StoppedListening
                | Refusal::NoDescriptor
                | Refusal::Reserved { .. }
        ) {
            return None;
        }
        let words = self.rules.words.as_ref()?;
        catch(|| words(why)).unwrap_or_else(|panic| {
            tracing::error!(panic, "the function that has words for refused connections panicked");
            None
        })
    }

    /// A line in the log, unless there were many of late.
    pub(crate) fn log(&self, peer: &Address, why: &Refusal) {
        self.log.note(peer, why);
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// A connection that counts for its network. Given back when it is dropped.
pub(crate) struct Counted {
    gate: Arc<Gate>,
    network: Network,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let now = self.gate.now();
        self.gate.lock().addresses.left(&self.network, now);
    }
}

/// A connection that waits for a decision. Given back when it is dropped.
pub(crate) struct Undecided(Arc<AtomicUsize>);

impl Drop for Undecided {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Descriptors that connections leave to the rest of the process.
///
/// Every new descriptor gets the lowest number that is free: a connection with the number n says that n others are open, whoever has them. So
/// nothing has to be counted, and files, clients and other servers of the process count too.
#[derive(Debug)]
struct Reserve {
    /// None: what the limit allows for.
    descriptors: Option<u64>,
    /// From this number on the limit is looked at, which may have been raised.
    #[cfg_attr(not(unix), allow(dead_code))]
    look_at: AtomicU64,
}

impl Reserve {
    fn new(descriptors: Option<u64>) -> Self {
        Self { descriptors, look_at: AtomicU64::new(0) }
    }

    #[cfg(unix)]
    fn judge(&self, connection: &Carried) -> Result<(), Refusal> {
        use std::os::fd::AsRawFd;
        let Carried::Socket(socket) = connection else { return Ok(()) };
        let number = u64::try_from(socket.as_raw_fd()).unwrap_or(0);
        if number < self.look_at.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Ok(limit) = limits::descriptor_limit() else { return Ok(()) };
        let reserve = self.descriptors.unwrap_or_else(|| limits::default_reserve(limit.soft));
        let below = limit.soft.saturating_sub(reserve);
        self.look_at.store(below, Ordering::Relaxed);
        match number < below || reserve == 0 {
            true => Ok(()),
            false => Err(Refusal::Reserved { limit: limit.soft, reserve }),
        }
    }

    /// Where sockets are no small numbers there is no such limit.
    #[cfg(not(unix))]
    fn judge(&self, _: &Carried) -> Result<(), Refusal> {
        let _ = (self.descriptors, limits::default_reserve);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::AcceptRate, *};
    use netwright_core::ManualLoop;

    fn gate(rules: Admission) -> Arc<Gate> {
        Gate::new(rules, usize::MAX)
    }

    fn count(gate: &Arc<Gate>, manual: &mut ManualLoop, peer: &str) -> Result<Option<Counted>, String> {
        let peer = peer.parse().unwrap();
        manual.enter(|| gate.count(&peer)).map_err(|why| why.to_string())
    }

    #[test]
    fn a_rate_of_one_address_is_that_of_its_network_and_comes_back_with_time() {
        let gate = gate(Admission::new().rate_per_address(AcceptRate::per_second(2)));
        let mut manual = ManualLoop::new();
        for address in ["[2001:db8::1]:1", "[2001:db8::ffff:1]:2"] {
            assert!(count(&gate, &mut manual, address).is_ok());
        }
        let error = count(&gate, &mut manual, "[2001:db8::2]:3").err().unwrap();
        assert_eq!(error, "connections of 2001:db8::/64 come faster than 2 in 1s, 2 at once");
        assert!(count(&gate, &mut manual, "[2001:db8:0:1::1]:1").is_ok(), "another network");
        manual.advance(Duration::from_millis(500));
        assert!(count(&gate, &mut manual, "[2001:db8::3]:4").is_ok());
        assert!(count(&gate, &mut manual, "[2001:db8::3]:5").is_err());
    }

    #[test]
    fn who_is_refused_takes_nothing_from_others() {
        let rates =
            Admission::new().rate_per_address(AcceptRate::per_second(1)).rate(AcceptRate::per_second(3));
        let gate = gate(rates.per_address(1));
        let mut manual = ManualLoop::new();
        let _first = count(&gate, &mut manual, "192.0.2.1:1").ok().unwrap();
        for port in 2..100 {
            assert!(count(&gate, &mut manual, &format!("192.0.2.1:{port}")).is_err());
        }
        let others = ["192.0.2.2:1", "[::ffff:192.0.2.3]:1"].map(|peer| count(&gate, &mut manual, peer));
        assert!(others.iter().all(Result::is_ok), "two tokens of all are left");
        assert!(count(&gate, &mut manual, "192.0.2.4:1").is_err(), "and no third");
        assert!(count(&gate, &mut manual, "local:x").is_err(), "which holds for who has no address as well");
        manual.advance(Duration::from_secs(10));
        assert!(count(&gate, &mut manual, "192.0.2.3:2").err().unwrap().contains("no more are allowed"));
        drop(others);
        assert!(count(&gate, &mut manual, "192.0.2.3:2").is_ok());
    }

    #[test]
    fn prefixes_say_what_one_address_is() {
        let gate = gate(Admission::new().per_address(1).prefixes(24, 200));
        let mut manual = ManualLoop::new();
        let _first = count(&gate, &mut manual, "192.0.2.1:1").ok().unwrap();
        assert!(count(&gate, &mut manual, "192.0.2.200:1").is_err());
        let _second = count(&gate, &mut manual, "[::1]:1").ok().unwrap();
        assert!(count(&gate, &mut manual, "[::2]:1").is_ok());
    }

    #[test]
    fn a_pace_lets_the_next_one_come_when_it_is_time() {
        let gate = gate(Admission::new().pace(AcceptRate::per_second(10).burst(1)));
        let mut manual = ManualLoop::new();
        assert_eq!(manual.enter(|| gate.pace()), None);
        manual.enter(|| gate.accepted());
        assert_eq!(manual.enter(|| gate.pace()), Some(Duration::from_millis(100)));
        manual.enter(|| gate.accepted()); // another acceptor had asked before
        assert_eq!(manual.enter(|| gate.pace()), Some(Duration::from_millis(200)));
        manual.advance(Duration::from_millis(200));
        assert_eq!(manual.enter(|| gate.pace()), None);
        gate.change(|limits| limits.pace = Some(AcceptRate::per_second(0)));
        assert!(manual.enter(|| gate.pace()).is_some(), "nobody may come");
        gate.change(|limits| limits.pace = None);
        assert_eq!(manual.enter(|| gate.pace()), None);
    }
}
