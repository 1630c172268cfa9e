//! A machine in a simulation: its name and addresses, its clock, and the program that it runs.

use super::driver::SimSeed;
use super::{
    engine::Engine,
    net::{HostId, HostLimits, Time},
    network::SimNetwork,
    universe::{Ahead, HostIndex, Tag, Universe},
};
use netwright_core::{
    EventLoop, JoinHandle, Refused,
    driver::DriverSeed,
    world::{self, Common, LoopBody, WorkersBody, World},
};
use std::{
    any::Any,
    cell::RefCell,
    error::Error,
    fmt,
    net::IpAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// Runs when the host starts, and again when it is restarted; what it returns is kept until the host ends.
type Program = Rc<dyn Fn() -> Result<Box<dyn Any>, String>>;

/// Ten thousand years.
const AHEAD_MAX: Duration = Duration::from_secs(10_000 * 365 * 86_400);

thread_local! {
    /// What hosts of this thread's simulation run.
    static PROGRAMS: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

#[derive(Default, Clone)]
struct Slot {
    program: Option<Program>,
    kept: Option<Rc<dyn Any>>,
    event_loop: Option<EventLoop>,
}

/// A host of a simulation: made by [`Sim::host`](super::Sim::host). A handle: clones are the same.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_testkit::sim::Sim;
/// use netwright_transport::Server;
///
/// Sim::seed(1).run(|sim| {
///     let host = sim.host("server");
///     // The program is what it would be on a real machine.
///     host.start(|| Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("0.0.0.0:80").wait()).unwrap();
///     host.crash(); // without a word to anybody
///     host.restart().unwrap(); // and runs the program again
/// });
/// ```
#[derive(Clone)]
pub struct Host {
    universe: Arc<Universe>,
    pub(super) index: HostIndex,
    pub(super) id: HostId,
    name: Arc<str>,
    addresses: Arc<[IpAddr]>,
}

impl Host {
    pub(super) fn new(
        universe: Arc<Universe>,
        index: HostIndex,
        id: HostId,
        name: &str,
        addresses: Vec<IpAddr>,
    ) -> Self {
        PROGRAMS.with_borrow_mut(|programs| programs.resize(index + 1, Slot::default()));
        Self { universe, index, id, name: name.into(), addresses: addresses.into() }
    }

    /// Its name, which others look up.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it runs: it has not crashed, or is back.
    pub fn is_up(&self) -> bool {
        self.universe.lock().net.is_up(self.id)
    }

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.addresses[0]
    }

    /// All of its addresses.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Runs `code` on the host: the loops, servers and clients that it makes are of this host, and it may wait for promises, while which everything goes
    /// on.
    pub fn enter<R>(&self, code: impl FnOnce() -> R) -> R {
        let entered = world::enter(self.engine().world(self.index));
        let result = code();
        drop(entered);
        result
    }

    /// Gives the host its program, and runs it: now, and each time that the host is [restarted](Self::restart). What it returns, a server for example, is
    /// kept until the host ends.
    ///
    /// # Errors
    /// What the program says.
    pub fn start<T, E>(&self, program: impl Fn() -> Result<T, E> + 'static) -> Result<(), String>
    where
        T: 'static,
        E: Into<Box<dyn Error>>,
    {
        let program = move || match program() {
            Ok(kept) => Ok(Box::new(kept) as Box<dyn Any>),
            Err(error) => Err(error.into().to_string()),
        };
        PROGRAMS.with_borrow_mut(|programs| programs[self.index].program = Some(Rc::new(program)));
        self.run_program()
    }

    fn run_program(&self) -> Result<(), String> {
        let program = PROGRAMS.with_borrow(|programs| programs[self.index].program.clone());
        let Some(program) = program else { return Ok(()) };
        let kept: Rc<dyn Any> = self.enter(|| program())?.into();
        let before = PROGRAMS.with_borrow_mut(|programs| programs[self.index].kept.replace(kept));
        self.enter(|| drop(before));
        Ok(())
    }

    /// A loop of the host for whatever a scenario has to do there: made when it is first asked for, and kept until the host ends.
    pub fn event_loop(&self) -> EventLoop {
        if let Some(event_loop) = PROGRAMS.with_borrow(|programs| programs[self.index].event_loop.clone()) {
            return event_loop;
        }
        let event_loop = self.enter(EventLoop::new);
        PROGRAMS.with_borrow_mut(|programs| programs[self.index].event_loop = Some(event_loop.clone()));
        event_loop
    }

    /// A future on [that loop](Self::event_loop).
    ///
    /// # Errors
    /// The future comes back if the host takes no more.
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, Refused<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        self.event_loop().spawn(future)
    }

    /// The power goes: nothing that it had to say is said, and nobody is told. Peers learn of it when they wait in vain, or from the
    /// answers of the host once it is [back](Self::restart).
    ///
    /// Its loops are gone, and so is what its [program](Self::start) has returned. A server or a group that the scenario itself still holds replaces the loops that it has
    /// lost, as it does when they die: it is to be dropped, and the host to crash again, if it is meant to be gone as well.
    pub fn crash(&self) {
        self.universe.with_net(|net, now| net.crash(now, self.id));
        self.note("crashes");
        self.end_program();
    }

    /// The process is killed, and the system, which lives on, closes its sockets.
    pub fn kill(&self) {
        self.universe.with_net(|net, now| net.kill(now, self.id));
        self.note("is killed");
        self.end_program();
    }

    fn end_program(&self) {
        let engine = self.engine();
        engine.cut(self.index);
        self.enter(|| self.let_go());
        engine.world(self.index).common.end();
        engine.cut(self.index); // what the drops have made
    }

    /// Lets go of what the program has returned.
    pub(super) fn let_go(&self) {
        let (kept, event_loop) = PROGRAMS.with_borrow_mut(|programs| {
            let slot = &mut programs[self.index];
            (slot.kept.take(), slot.event_loop.take())
        });
        self.enter(|| drop((kept, event_loop)));
    }

    /// Forgets the program as well.
    pub(super) fn forget(&self) {
        self.let_go();
        self.engine().world(self.index).common.end();
        let slot = PROGRAMS.with_borrow_mut(|programs| std::mem::take(&mut programs[self.index]));
        drop(slot);
    }

    /// After a [crash](Self::crash), or a [kill](Self::kill): the host is back, and runs its program. Nothing happens to one that runs.
    ///
    /// # Errors
    /// What the program says.
    pub fn restart(&self) -> Result<(), String> {
        let runs = PROGRAMS.with_borrow(|programs| programs[self.index].kept.is_some());
        if self.is_up() && runs {
            return Ok(());
        }
        self.universe.with_net(|net, now| net.restart(now, self.id));
        self.note("restarts");
        self.run_program()
    }

    /// What the system of the host allows.
    pub fn limit(&self, change: impl FnOnce(&mut HostLimits)) {
        let mut limits = self.universe.with_net(|net, _| net.limits_mut(self.id).clone());
        change(&mut limits); // may draw, for example
        self.universe.with_net(|net, _| *net.limits_mut(self.id) = limits);
    }

    /// How many cores the host says that it has: by default the number of loops goes by it. Two, if nothing is said.
    pub fn cores(&self, cores: usize) {
        self.universe.lock().hosts[self.index].cores = cores.max(1);
    }

    /// The clock on its wall is ahead of the others.
    ///
    /// # Panics
    /// If that is more than ten thousand years, which systems could not show.
    pub fn clock_ahead(&self, by: Duration) {
        assert!(by <= AHEAD_MAX, "{}: a clock cannot be ahead by {by:?}, only by {AHEAD_MAX:?}", self.name);
        self.universe.lock().hosts[self.index].clock.ahead = Ahead::By(by);
    }

    /// The clock on its wall is behind the others.
    pub fn clock_behind(&self, by: Duration) {
        self.universe.lock().hosts[self.index].clock.ahead = Ahead::Behind(by);
    }

    /// Its clocks go too fast, or too slow, by so many millionths: timers as well. Before anything runs on it.
    pub fn clock_drift_ppm(&self, ppm: i32) {
        self.universe.lock().hosts[self.index].clock.drift_ppm = ppm.clamp(-500_000, 500_000);
    }

    fn note(&self, what: &str) {
        let mut state = self.universe.lock();
        let now = state.moment();
        state.trace.say(now, format!("{} {what}", self.name));
    }

    fn engine(&self) -> Rc<Engine> {
        Engine::current().expect("a host is used within `Sim::run`")
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("name", &self.name)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// No simulation runs on this thread any more. Values of programs are dropped one by one: of a failed run, any of them may panic.
pub(super) fn forget_all() {
    while let Some(Slot { program, kept, event_loop }) = PROGRAMS.with_borrow_mut(Vec::pop) {
        dropped(|| drop(kept));
        dropped(|| drop(event_loop));
        dropped(|| drop(program));
    }
}

/// Drops something of a run that is over. If that panics, the panic hook has told it, and the rest is dropped nevertheless.
pub(super) fn dropped(drop: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(drop)) {
        std::mem::forget(panic); // its own drop may be the next one that panics
    }
}

/// The world of everything that runs on a host.
pub(super) struct HostWorld {
    universe: Arc<Universe>,
    host: HostIndex,
    network: Arc<SimNetwork>,
    pub(super) common: Common,
}

impl HostWorld {
    pub(super) fn new(universe: &Arc<Universe>, host: &Host) -> Arc<Self> {
        let network = SimNetwork::new(universe.clone(), host.index, host.id);
        Arc::new(Self { universe: universe.clone(), host: host.index, network, common: Common::default() })
    }
}

impl World for HostWorld {
    fn now(&self) -> Instant {
        self.universe.instant(self.host)
    }

    fn system_time(&self) -> SystemTime {
        self.universe.system_time(self.host)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.universe.lock().hosts[self.host].draws.fill(bytes);
    }

    fn cores(&self) -> usize {
        self.universe.lock().hosts[self.host].cores
    }

    fn driver(&self) -> (u64, Box<dyn DriverSeed>) {
        let tag: Tag = self.universe.lock().add_loop(self.host);
        (tag, Box::new(SimSeed::new(self.universe.clone(), tag, self.network.clone())))
    }

    fn take_loop(&self, body: LoopBody) {
        self.universe.lock().bodies.push((self.host, body));
    }

    fn take_workers(&self, body: WorkersBody) {
        self.universe.lock().pools.push((self.host, body));
    }

    fn go_on(&self, deadline: Option<Instant>) -> bool {
        let until: Option<Time> = deadline.map(|deadline| self.universe.when(self.host, deadline));
        Engine::current().is_some_and(|engine| engine.step(until))
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn panicked(&self, message: &str) {
        self.universe.lock().panics.add(message);
    }

    fn flaw(&self, what: String) {
        self.universe.lock().flaws.push(what);
    }
}
