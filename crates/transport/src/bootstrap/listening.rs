//! The listening side of a server over time: what listens where, on which loop, and until when.
//!
//! ```text
//!   opened on a loop ──▶ listens ──┬─ asked to stop ────────────────▶ closed: Asked
//!          ▲                       ├─ the socket ceased to listen ──▶ closed: Failed
//!          │                       ├─ its loop was shut down ───────▶ closed: LoopsEnded
//!          │                       └─ its loop died ─┬─ no successor ▶ closed: LoopDied
//!          └─── opened again, at the same address ◀──┴─ a successor
//! ```
//! Always true:
//! 1. `Ends` counts a listener once: when it is closed and will not be opened again.
//! 2. A listener belongs to its loop. Its [`Desk`] is dropped with it, when the socket is closed; a desk that knows no cause by then
//!    was dropped by a loop that died, and the end of that loop tells what is next.
//! 3. Once the server was asked to stop nothing is opened again; what is about to be is closed at once.
//!
//! Loops hold their desks, and desks know the server weakly: a server that nobody holds any more stops listening.

use super::{
    BindError, ListenEnd, ServerObserver,
    deciding::Deciding,
    entrance::{Belongings, Entrance, EntranceSettings, Kept, Site},
    handover::{Adopt, Handover, Onward, Waiting},
    hosts::Homes,
    observer::{Refusal, Watch},
};
use crate::{
    admission::Gate,
    live::Live,
    socket::{ListenerFigures, Reception, Welcome},
    stream::Carried,
};
use netwright_core::{
    Address, EventLoop, EventLoopGroup, LocalLoop, Promise, PromiseError, Promised, SharedPromised,
    Termination, driver::Token, promise,
};
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

/// A listener whose loops died so often within [`DEATHS_WITHIN`] is not opened again: whatever kills them would go on.
const DEATHS_MAX: usize = 5;
/// See [`DEATHS_MAX`].
const DEATHS_WITHIN: Duration = Duration::from_secs(60);

/// All that is needed to open a listener, now or again.
pub(super) struct Plan {
    /// The loops of which the first `entrances.acceptors` accept.
    pub(super) acceptors: EventLoopGroup,
    pub(super) shared_port: bool,
    pub(super) hosts: Homes,
    pub(super) entrances: EntranceSettings,
    pub(super) waiting_max: usize,
    pub(super) gate: Arc<Gate>,
    pub(super) live: Live,
    pub(super) adopt: Adopt,
    pub(super) observer: Option<Arc<dyn ServerObserver>>,
    pub(super) figures: Arc<ListenerFigures>,
}

pub(super) struct Listening {
    plan: Plan,
    list: Mutex<List>,
    /// What the acceptors of each address share.
    kept: Mutex<Vec<(Site, Kept)>>,
    reopening: Mutex<Reopening>,
    ends: Arc<Ends>,
}

#[derive(Default)]
struct List {
    open: Vec<Open>,
    /// The server was asked to stop listening.
    asked: bool,
}

/// Listeners that are to be opened again, one after the other: of two that died together the second finds what the first has
/// opened. No lock is held meanwhile, as a transport of somebody else may do it.
#[derive(Default)]
struct Reopening {
    waiting: VecDeque<(Post, EventLoop)>,
    busy: bool,
}

/// A listener that is open.
struct Open {
    event_loop: EventLoop,
    token: Token,
    fate: Arc<Fate>,
    address: Address,
}

/// Where a listener belongs, whichever loop it is on.
#[derive(Clone)]
struct Post {
    /// Its loop's index among those that accept.
    place: usize,
    address: Address,
    /// When the last loops died under it.
    deaths: VecDeque<Instant>,
}

impl Post {
    /// Counts a death. False if there were too many of late.
    fn survives(&mut self, now: Instant) -> bool {
        self.deaths.retain(|death| now.saturating_duration_since(*death) < DEATHS_WITHIN);
        self.deaths.push_back(now);
        self.deaths.len() <= DEATHS_MAX
    }
}

impl Listening {
    pub(super) fn new(plan: Plan) -> Arc<Self> {
        let (list, kept, reopening) = Default::default();
        Arc::new(Self { plan, list, kept, reopening, ends: Ends::new() })
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Resolves when nothing listens any more.
    pub(super) fn closed(&self) -> SharedPromised<ListenEnd, PromiseError> {
        self.ends.closed.clone()
    }

    /// Opens an address on every loop that accepts. Returns what it has become.
    pub(super) async fn bind(self: &Arc<Self>, site: Site) -> Result<Address, BindError> {
        let (entrances, site) = self.plan.entrances.open(site)?;
        let kept = entrances.first().map_or(Kept::Nothing, Entrance::keep);
        let address = site.address.clone();
        lock(&self.kept).push((site, kept));
        let acceptors: Vec<EventLoop> = self.plan.acceptors.iter().collect();
        for (place, (acceptor, entrance)) in acceptors.iter().zip(entrances).enumerate() {
            self.ends.expect_one();
            let post = Post { place, address: address.clone(), deaths: VecDeque::new() };
            self.open(acceptor, entrance, post).await?;
        }
        Ok(address)
    }

    /// All addresses are bound: from now on the last listener that closes is the end.
    pub(super) fn is_bound(&self) {
        self.ends.count(None);
    }

    /// Has a loop listen.
    fn open(self: &Arc<Self>, target: &EventLoop, entrance: Entrance, post: Post) -> Promised<(), BindError> {
        let (promise, promised) = promise();
        let listening = Arc::downgrade(self);
        let start = move || {
            let Some(local) = LocalLoop::current() else { return };
            let Some(listening) = listening.upgrade() else { return };
            promise.complete(listening.open_here(&local, entrance, post));
        };
        let _ = target.order(start); // a loop that has ended drops the promise, and with it the entrance
        promised
    }

    fn open_here(
        self: &Arc<Self>,
        local: &LocalLoop,
        entrance: Entrance,
        post: Post,
    ) -> Result<(), BindError> {
        let (plan, address) = (&self.plan, post.address.clone());
        // Only the network spreads connections over acceptors by itself.
        let stay = plan.shared_port && entrance.is_on_the_network();
        let event_loop = local.handle();
        let watch =
            |observer: &Arc<_>| Watch::new(Arc::clone(observer), address.clone(), event_loop.downgrade());
        let watch = plan.observer.as_ref().map(watch);
        let fate = Arc::new(Fate::default());
        let handover = Handover {
            at: address.clone(),
            figures: plan.figures.clone(),
            live: plan.live.clone(),
            gate: plan.gate.clone(),
            adopt: plan.adopt.clone(),
            onward: Onward {
                local: local.clone(),
                hosts: (!stay).then(|| plan.hosts.clone()),
                waiting: Waiting::at_most(plan.waiting_max),
            },
            deciding: Deciding::default(),
            watch: watch.clone(),
        };
        let desk = Desk {
            handover,
            watch: watch.clone(),
            #[cfg(all(target_os = "linux", feature = "uring"))]
            shares_socket: entrance.shares_socket(),
            belongings: Some(entrance.belongings()),
            fate: fate.clone(),
            post,
            termination: event_loop.termination(),
            listening: Arc::downgrade(self),
            ends: self.ends.clone(),
        };
        let started = entrance.start(local, plan.figures.clone(), Box::new(desk));
        let token = started.map_err(|error| match event_loop.is_shutting_down() {
            true => BindError::LoopEnded, // it takes nothing any more, whatever the error says
            false => BindError::io(address.clone(), error),
        })?;
        fate.begin();
        if let Some(watch) = watch {
            watch.tell(|observer, at| observer.bound(at));
        }
        let mut list = lock(&self.list);
        if list.asked {
            drop(list);
            fate.end(ListenEnd::Asked);
            local.deregister(token);
        } else {
            list.open.push(Open { event_loop, token, fate, address });
        }
        Ok(())
    }

    /// A listener was lost with its loop: another one takes its place, if there is a loop for it.
    fn lost(self: &Arc<Self>, mut post: Post, cause: ListenEnd) {
        lock(&self.list).open.retain(|open| open.fate.is_open());
        // By the clock of the loops, which need not be the system's.
        let now = self.plan.acceptors.iter().next().map_or_else(Instant::now, |acceptor| acceptor.now());
        let target = match post.survives(now) {
            true if !lock(&self.list).asked => self.successor(&post),
            _ => None,
        };
        let Some(target) = target else {
            let asked = lock(&self.list).asked;
            return self.ends.count(Some(if asked { ListenEnd::Asked } else { cause }));
        };
        lock(&self.reopening).waiting.push_back((post, target));
        loop {
            let mut reopening = lock(&self.reopening);
            if reopening.busy {
                return; // whoever is at it goes on with this one
            }
            let Some((post, target)) = reopening.waiting.pop_front() else { return };
            reopening.busy = true;
            drop(reopening);
            self.reopen(post, target);
            lock(&self.reopening).busy = false;
        }
    }

    fn reopen(self: &Arc<Self>, post: Post, target: EventLoop) {
        let entrance = match self.open_again(&post.address) {
            Ok(entrance) => entrance,
            Err(error) => return self.gave_up(&post.address, &error),
        };
        tracing::warn!(at = %post.address, event_loop = %target.name(), "a loop that accepted died; listening on another one");
        let (listening, ends, termination) = (Arc::downgrade(self), self.ends.clone(), target.termination());
        let opened = self.open(&target, entrance, post.clone());
        opened.listen(move |opened| match (opened, listening.upgrade()) {
            (Ok(()), _) => {}
            (Err(_), None) => ends.count(Some(ListenEnd::Asked)),
            // It was on its way out already; when it has gone there may be another one.
            (Err(BindError::LoopEnded), Some(_)) => {
                lost_at_the_end(&termination, listening, post, ends, None)
            }
            (Err(error), Some(listening)) => listening.gave_up(&post.address, error),
        });
    }

    /// The loop in whose place the last one was, or another one if nobody else listens on that address.
    fn successor(&self, post: &Post) -> Option<EventLoop> {
        let alive = |event_loop: &EventLoop| !event_loop.is_shutting_down();
        let acceptors = &self.plan.acceptors;
        if let Some(successor) = acceptors.iter().nth(post.place).filter(alive) {
            return Some(successor);
        }
        let others =
            lock(&self.list).open.iter().any(|open| open.address == post.address && open.fate.is_open());
        if others { None } else { Some(acceptors.next()).filter(alive) }
    }

    fn open_again(&self, address: &Address) -> Result<Entrance, BindError> {
        let known = lock(&self.kept).iter().find(|(site, _)| site.address == *address).cloned();
        let (site, kept) = known.ok_or(BindError::LoopEnded)?; // every listener was bound once
        let entrance = self.plan.entrances.open_again(&site, &kept)?;
        if let Some((_, kept)) = lock(&self.kept).iter_mut().find(|(site, _)| site.address == *address) {
            *kept = entrance.keep();
        }
        Ok(entrance)
    }

    fn gave_up(&self, address: &Address, error: &BindError) {
        tracing::error!(at = %address, %error, "a loop that accepted died, and listening on another one failed");
        let error = match error {
            BindError::Io { error, .. } => error.clone(),
            error => Arc::new(io::Error::other(error.to_string())),
        };
        self.ends.count(Some(ListenEnd::Failed { address: address.clone(), error }));
    }

    /// Closes all listeners, each on its loop. Resolves one by one, also for a loop that has ended.
    pub(super) fn close(&self) -> Vec<Promised<(), PromiseError>> {
        let mut list = lock(&self.list);
        list.asked = true;
        let open = std::mem::take(&mut list.open);
        drop(list);
        let close = |Open { event_loop, token, fate, .. }: Open| {
            let (promise, closed) = promise();
            let _ = event_loop.order(move || {
                fate.end(ListenEnd::Asked);
                if let Some(local) = LocalLoop::current() {
                    local.deregister(token);
                }
                promise.succeed(());
            });
            closed
        };
        open.into_iter().map(close).collect()
    }

    /// Has every listener look at what it may do.
    pub(super) fn call(&self) {
        for open in &lock(&self.list).open {
            let token = open.token;
            let _ = open.event_loop.order(move || {
                if let Some(local) = LocalLoop::current() {
                    local.call(token);
                }
            });
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        drop(self.close());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known about a listener's end before it comes.
#[derive(Default)]
struct Fate(Mutex<FateState>);

#[derive(Default)]
struct FateState {
    /// It is open: its end will be one.
    began: bool,
    cause: Option<ListenEnd>,
}

impl Fate {
    fn begin(&self) {
        lock(&self.0).began = true;
    }

    fn is_open(&self) -> bool {
        lock(&self.0).began
    }

    /// The first cause counts.
    fn end(&self, cause: ListenEnd) {
        lock(&self.0).cause.get_or_insert(cause);
    }
}

/// What a listener tells, and what becomes of it.
struct Desk {
    handover: Handover,
    watch: Option<Arc<Watch>>,
    #[cfg(all(target_os = "linux", feature = "uring"))]
    shares_socket: bool,
    belongings: Option<Belongings>,
    fate: Arc<Fate>,
    post: Post,
    termination: Termination,
    listening: Weak<Listening>,
    ends: Arc<Ends>,
}

impl Reception for Desk {
    fn accepted(&mut self, connection: Carried, peer: Address) -> Welcome {
        if let Some(watch) = &self.watch {
            watch.tell(|observer, at| observer.accepted(at, &peer));
        }
        self.handover.accepted(connection, peer)
    }

    fn pace(&mut self) -> Option<Duration> {
        self.handover.gate.pace()
    }

    fn refused(&mut self, peer: Address) {
        if let Some(watch) = &self.watch {
            watch.tell(|observer, at| observer.refused(at, &peer, &Refusal::NoDescriptor));
        }
    }

    fn failed(&mut self, error: &io::Error, pause: Option<Duration>) {
        if let Some(watch) = &self.watch {
            watch.tell(|observer, at| observer.accept_failed(at, error, pause));
        }
    }

    fn broken(&mut self, error: io::Error) {
        tracing::error!(at = %self.post.address, %error, "a socket has ceased to listen, and is closed");
        self.failed(&error, None);
        let address = self.post.address.clone();
        self.fate.end(ListenEnd::Failed { address, error: Arc::new(error) });
    }

    fn loop_ends(&mut self) {
        self.fate.end(ListenEnd::LoopsEnded);
    }

    #[cfg(all(target_os = "linux", feature = "uring"))]
    fn shares_socket(&self) -> bool {
        self.shares_socket
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.belongings = None;
        let fate = std::mem::take(&mut *lock(&self.fate.0));
        if !fate.began {
            return; // whoever tried to open it knows
        }
        let (watch, ends) = (self.watch.take(), self.ends.clone());
        if let Some(cause) = fate.cause {
            if let Some(watch) = &watch {
                watch.tell(|observer, at| observer.closed(at, &cause));
            }
            return ends.count(Some(cause));
        }
        lost_at_the_end(&self.termination, self.listening.clone(), self.post.clone(), ends, watch);
    }
}

/// A listener was lost with a loop: when that has ended, and its group has seen to its place, it is opened again.
fn lost_at_the_end(
    termination: &Termination,
    listening: Weak<Listening>,
    post: Post,
    ends: Arc<Ends>,
    watch: Option<Arc<Watch>>,
) {
    termination.listen(move |end| {
        let cause = match end {
            Ok(()) => ListenEnd::LoopsEnded,
            Err(error) => ListenEnd::LoopDied(error.clone()),
        };
        if let Some(watch) = &watch {
            watch.tell(|observer, at| observer.closed(at, &cause));
        }
        match listening.upgrade() {
            Some(listening) => listening.lost(post, cause),
            None => ends.count(Some(ListenEnd::Asked)),
        }
    });
}

/// Counts the listeners that are open or will be again.
struct Ends {
    state: Mutex<EndsState>,
    closed: SharedPromised<ListenEnd, PromiseError>,
}

struct EndsState {
    left: usize,
    last: ListenEnd,
    promise: Option<Promise<ListenEnd, PromiseError>>,
}

impl Ends {
    /// One is expected from the beginning: that all are bound.
    fn new() -> Arc<Self> {
        let (promise, promised) = promise();
        let state = EndsState { left: 1, last: ListenEnd::Asked, promise: Some(promise) };
        Arc::new(Self { state: Mutex::new(state), closed: promised.shared() })
    }

    fn expect_one(&self) {
        lock(&self.state).left += 1;
    }

    /// One has come to its end. The last one's cause is that of all.
    fn count(&self, cause: Option<ListenEnd>) {
        let mut state = lock(&self.state);
        state.left -= 1;
        if let Some(cause) = cause {
            state.last = cause;
        }
        let finished = if state.left == 0 { state.promise.take() } else { None };
        let cause = state.last.clone();
        drop(state);
        if let Some(promise) = finished {
            promise.succeed(cause);
        }
    }
}
