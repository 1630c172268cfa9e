//! Signals that ask a program to end, and servers that end in order because of them.
//!
//! ```text
//!   Ctrl-C, SIGTERM, SIGHUP ──▶ first   servers drain: no new connections, open ones have until the deadline
//!                           ──▶ second  what is still open is cut
//!                           ──▶ third   the process exits with 130
//! ```
//! Always true:
//! 1. A process has one handler for these signals, however many ask for it; it is set when the first one does.
//! 2. Nothing of ours runs inside a signal handler: a thread of the `ctrlc` crate is told, and calls whoever waits.
//! 3. No lock is held while promises complete, because that runs other people's code.
//!
//! Not here: reloading on a signal, and signals that ask for something else than an end.

use crate::{
    bootstrap::{ListenEnd, Server},
    live::ServerShutdown,
};
use netwright_core::{Promise, PromiseError, Promised, SharedPromised, promise};
use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// What a shell reports for a program that Ctrl-C ended.
const EXIT_INTERRUPTED: i32 = 130;
/// The signal that ends the process at once: the first two were asked for in order, and nothing came of it.
const LAST: u32 = 3;

/// The signals that ask a process to end: Ctrl-C, and on Unix `SIGTERM` and `SIGHUP`.
///
/// The first and the second one are promises that anybody can wait for. The third one ends the process with code 130, so that a program
/// that hangs while it ends can still be ended. [`by_hand`](Self::by_hand) makes signals for tests, which nobody but the test sends.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, Server, signals::{Signals, Until}};
/// use std::time::Duration;
///
/// let server = Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("local:until-a-signal").wait()?;
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// let channel = client.connect(server.address()).wait()?;
///
/// let signals = Signals::by_hand(); // `Signals::listen()?` in a program
/// let mut end = signals.drain(&[&server], Duration::from_secs(3600));
/// signals.raise();                  // Ctrl-C: no new connections, and an hour for those that are open
/// signals.raise();                  // and again: they are cut
/// let end = end.wait()?;
/// assert!(matches!(end.until, Until::SecondSignal));
/// assert_eq!(end.cut, 1);
/// channel.closed().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "SIGINT")]
#[doc(alias = "SIGTERM")]
#[doc(alias = "ctrlc")]
#[derive(Clone)]
pub struct Signals {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    first: SharedPromised<(), PromiseError>,
    second: SharedPromised<(), PromiseError>,
}

struct State {
    times: u32,
    first: Option<Promise>,
    second: Option<Promise>,
}

/// Those of the process, from the moment when somebody asks for them.
static OF_THE_PROCESS: Mutex<Option<Signals>> = Mutex::new(None);

impl Signals {
    /// The signals of this process, which from now on do not end it by themselves. Asking again gives the same ones: what has come is not forgotten.
    ///
    /// # Errors
    /// Another part of the program handles signals by the `ctrlc` crate, or the system refuses.
    pub fn listen() -> Result<Self, SignalsError> {
        let mut known = OF_THE_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signals) = &*known {
            return Ok(signals.clone());
        }
        let signals = Self::by_hand();
        let raised = signals.clone();
        ctrlc::set_handler(move || {
            if raised.count() >= LAST {
                std::process::exit(EXIT_INTERRUPTED);
            }
            raised.tell();
        })?;
        Ok(known.insert(signals).clone())
    }

    /// Signals that only [`raise`](Self::raise) sends: for tests of how a program ends, and for programs that are told otherwise.
    pub fn by_hand() -> Self {
        let ((first, first_came), (second, second_came)) = (promise(), promise());
        let state = State { times: 0, first: Some(first), second: Some(second) };
        let state = Mutex::new(state);
        Self { inner: Arc::new(Inner { state, first: first_came.shared(), second: second_came.shared() }) }
    }

    /// Does what a signal does, but for the third one, which does nothing.
    pub fn raise(&self) {
        self.count();
        self.tell();
    }

    /// Resolves with the first signal: a future, a blocking wait and a callback.
    pub fn first(&self) -> SharedPromised<(), PromiseError> {
        self.inner.first.clone()
    }

    /// Resolves with the second signal: whoever sent it does not want to wait.
    pub fn second(&self) -> SharedPromised<(), PromiseError> {
        self.inner.second.clone()
    }

    /// How many have come.
    pub fn times(&self) -> u32 {
        self.lock().times
    }

    /// [Drains](Server::drain) the servers at the first signal, and [cuts](Server::shutdown_now) what is left at the second one. Resolves
    /// when no connection is open. It also begins when none of them listens any more, whatever the reason, or nobody would ever end it.
    ///
    /// Without any server it ends with the first signal.
    ///
    /// The servers are held until then. Their loops stay: a program that goes on, ends them itself. If nobody can signal any more (the last
    /// `Signals` [made by hand](Self::by_hand) has gone), the servers are drained as well.
    pub fn drain(&self, servers: &[&Server], grace: Duration) -> Promised<Ended, PromiseError> {
        let (promise, ended) = promise();
        let servers: Vec<Server> = servers.iter().map(|server| (*server).clone()).collect();
        let listening = servers.len();
        let state = Ending {
            promise: Some(promise),
            servers: servers.clone(),
            step: Step::Serving,
            listening,
            left: 0,
            cut: 0,
        };
        let ending = Arc::new(Drain { grace, state: Mutex::new(state) });
        for server in &servers {
            let ending = ending.clone();
            server.closed().listen(move |end| {
                ending.stopped_listening(end.clone().unwrap_or(ListenEnd::LoopsEnded));
            });
        }
        let (first, second) = (ending.clone(), ending);
        self.inner.first.listen(move |_| first.begin(Until::Signal));
        self.inner.second.listen(move |came| {
            if came.is_ok() {
                second.cut();
            }
        });
        ended
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> u32 {
        let mut state = self.lock();
        state.times = state.times.saturating_add(1);
        state.times
    }

    /// Completes what is due after as many signals as have come.
    fn tell(&self) {
        let mut state = self.lock();
        let first = state.first.take();
        let second = if state.times > 1 { state.second.take() } else { None };
        drop(state);
        for promise in [first, second].into_iter().flatten() {
            promise.succeed(());
        }
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").field("times", &self.times()).finish_non_exhaustive()
    }
}

impl Server {
    /// Serves until Ctrl-C, `SIGTERM` or `SIGHUP`, then [drains](Self::drain): blocks this thread until no connection is open. A second signal cuts
    /// the connections at once, a third one ends the process. It also returns when the server no longer listens for another reason.
    ///
    /// ```no_run
    /// use netwright_core::pipeline;
    /// use netwright_transport::Server;
    /// use std::time::Duration;
    ///
    /// let server = Server::builder()
    ///     .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
    ///     .bind("127.0.0.1:7007")
    ///     .wait()?;
    /// let end = server.serve_until_signal(Duration::from_secs(30))?;
    /// println!("{}; {} connections did not finish in time", end.until, end.cut);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// For several servers, for async code and for tests: [`Signals::drain`].
    ///
    /// # Errors
    /// The process cannot listen for signals, or this thread is an event loop, which must not block.
    #[cfg_attr(docsrs, doc(cfg(feature = "signals")))]
    pub fn serve_until_signal(&self, grace: Duration) -> Result<Ended, SignalsError> {
        Ok(Signals::listen()?.drain(&[self], grace).wait()?)
    }
}

/// How servers came to their end: the result of [`Signals::drain`] and [`Server::serve_until_signal`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ended {
    /// What ended them.
    pub until: Until,
    /// Connections that were still open at the deadline or at the second signal, and were closed.
    pub cut: usize,
}

/// What ended a server that was to serve until a signal.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Until {
    /// One signal: connections had until the deadline.
    Signal,
    /// A second one came meanwhile: connections were cut.
    SecondSignal,
    /// No signal: it no longer listened. Of several servers, the last one.
    NotListening(ListenEnd),
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal => f.write_str("ended by a signal"),
            Self::SecondSignal => f.write_str("ended at once by a second signal"),
            Self::NotListening(end) => write!(f, "ended because {end}"),
        }
    }
}

/// Why a process cannot serve until a signal.
#[derive(Debug)]
#[non_exhaustive]
pub enum SignalsError {
    /// Another part of the program handles these signals by the `ctrlc` crate, which a process can do once.
    Taken,
    /// The system does not let it listen.
    Io(io::Error),
    /// Nothing can be waited for here.
    Wait(PromiseError),
}

impl fmt::Display for SignalsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str("another part of the program handles Ctrl-C already"),
            Self::Io(error) => write!(f, "cannot listen for signals: {error}"),
            Self::Wait(error) => write!(f, "cannot wait for a signal: {error}"),
        }
    }
}

impl std::error::Error for SignalsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Taken => None,
            Self::Io(error) => Some(error),
            Self::Wait(error) => Some(error),
        }
    }
}

impl From<ctrlc::Error> for SignalsError {
    fn from(error: ctrlc::Error) -> Self {
        match error {
            ctrlc::Error::MultipleHandlers => Self::Taken,
            ctrlc::Error::System(error) => Self::Io(error),
            error => Self::Io(io::Error::other(error)),
        }
    }
}

impl From<PromiseError> for SignalsError {
    fn from(error: PromiseError) -> Self {
        Self::Wait(error)
    }
}

/// Servers that wait for their end, or are at it.
struct Drain {
    grace: Duration,
    state: Mutex<Ending>,
}

struct Ending {
    promise: Option<Promise<Ended, PromiseError>>,
    /// None when they have ended: signals of the process never go, and with them whoever waits for one.
    servers: Vec<Server>,
    step: Step,
    /// Servers that still listen.
    listening: usize,
    /// Servers that have not told yet how they ended in this step.
    left: usize,
    cut: usize,
}

#[derive(Clone)]
enum Step {
    Serving,
    Draining(Until),
    /// Drains may still tell of their end; that of the cut is what counts.
    Cut,
}

impl Drain {
    fn lock(&self) -> MutexGuard<'_, Ending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stopped_listening(self: &Arc<Self>, end: ListenEnd) {
        let mut state = self.lock();
        state.listening -= 1;
        let last = state.listening == 0;
        drop(state);
        if last {
            self.begin(Until::NotListening(end));
        }
    }

    fn begin(self: &Arc<Self>, why: Until) {
        let mut state = self.lock();
        if !matches!(state.step, Step::Serving) {
            return;
        }
        let servers = state.servers.clone();
        (state.step, state.left) = (Step::Draining(why), servers.len());
        drop(state);
        self.end(&servers, false, |server| server.drain(self.grace));
    }

    fn cut(self: &Arc<Self>) {
        let mut state = self.lock();
        let servers = state.servers.clone();
        (state.step, state.left, state.cut) = (Step::Cut, servers.len(), 0);
        drop(state);
        self.end(&servers, true, Server::shutdown_now);
    }

    fn end(
        self: &Arc<Self>,
        servers: &[Server],
        cutting: bool,
        how: impl Fn(&Server) -> Promised<ServerShutdown, PromiseError>,
    ) {
        for server in servers {
            let ending = self.clone();
            how(server).listen(move |end| {
                let cut = end.as_ref().map_or(0, |end| end.cut); // an error: its loops have ended, with all that was on them
                ending.has_ended(cutting, 1, cut);
            });
        }
        self.has_ended(cutting, 0, 0); // there may be none
    }

    /// So many servers have ended, of those that had to in this step.
    fn has_ended(&self, cutting: bool, servers: usize, cut: usize) {
        let mut state = self.lock();
        if cutting != matches!(state.step, Step::Cut) {
            return;
        }
        state.left -= servers;
        state.cut += cut;
        if state.left > 0 {
            return;
        }
        let (promise, step, cut) = (state.promise.take(), state.step.clone(), state.cut);
        let servers = std::mem::take(&mut state.servers);
        drop(state);
        drop(servers);
        if let Some(promise) = promise {
            let until = match step {
                Step::Draining(why) => why,
                Step::Cut | Step::Serving => Until::SecondSignal,
            };
            promise.succeed(Ended { until, cut });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;
    use netwright_core::{Channel, Outgoing, pipeline};

    fn server(address: &str) -> Server {
        Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind(address).wait().unwrap()
    }

    /// A connection to each of them, when each server has it.
    fn connected(servers: &[&Server]) -> (Client<Outgoing>, Vec<Channel<Outgoing>>) {
        let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {})).unwrap();
        let channels =
            servers.iter().map(|server| client.connect(server.address()).wait().unwrap()).collect();
        // Connected means that a server has accepted, not that its channel is there.
        while servers.iter().any(|server| server.figures().open == 0) {
            std::thread::yield_now();
        }
        (client, channels)
    }

    #[test]
    fn a_signal_before_the_wait_is_not_forgotten_and_no_server_is_no_wait() {
        let signals = Signals::by_hand();
        assert!(!signals.first().is_done());
        signals.raise();
        assert_eq!(
            (signals.times(), signals.first().is_done(), signals.second().is_done()),
            (1, true, false)
        );
        let end = signals.drain(&[], Duration::from_secs(3600)).wait().unwrap();
        assert!(matches!(end.until, Until::Signal));
    }

    #[test]
    fn all_servers_drain_at_the_first_signal_and_the_deadline_cuts_what_is_left() {
        let (one, two) = (server("local:signals-one"), server("local:signals-two"));
        let (_client, channels) = connected(&[&one]);
        let signals = Signals::by_hand();
        let mut end = signals.drain(&[&one, &two], Duration::ZERO);
        assert!(end.try_take().is_none());
        signals.raise();
        let end = end.wait().unwrap();
        assert!(matches!(end.until, Until::Signal), "{end:?}");
        assert_eq!(end.cut, 1);
        channels[0].closed().wait().unwrap();
        assert!(one.closed().is_done() && two.closed().is_done());
    }

    #[test]
    fn a_second_signal_cuts_every_server_however_long_the_deadline_is() {
        let (one, two) = (server("local:signals-three"), server("local:signals-four"));
        let (_client, channels) = connected(&[&one, &two]);
        let signals = Signals::by_hand();
        let mut end = signals.drain(&[&one, &two], Duration::from_secs(3600));
        for _ in 0..4 {
            signals.raise(); // the third and the fourth by hand do nothing
        }
        let end = end.wait().unwrap();
        assert!(matches!(end.until, Until::SecondSignal), "{end:?}");
        assert_eq!(end.cut, 2);
        for channel in channels {
            channel.closed().wait().unwrap();
        }
    }

    #[test]
    fn servers_that_no_longer_listen_are_not_waited_with_for_a_signal_that_nobody_sends() {
        let (one, two) = (server("local:signals-five"), server("local:signals-six"));
        let signals = Signals::by_hand();
        let mut end = signals.drain(&[&one, &two], Duration::ZERO);
        one.stop_listening();
        one.closed().wait().unwrap();
        assert!(end.try_take().is_none(), "one still listens");
        two.stop_listening();
        let end = end.wait().unwrap();
        assert!(matches!(end.until, Until::NotListening(ListenEnd::Asked)), "{end:?}");
        signals.raise();
        signals.raise();
    }

    #[test]
    fn servers_that_have_ended_are_not_held_by_signals_that_go_on() {
        let kept = Arc::new(());
        let held = kept.clone();
        let one = Server::builder()
            .attribute(held)
            .pipeline(|_| pipeline().handle(|_, _| {}))
            .bind("local:signals-nine")
            .wait()
            .unwrap();
        let signals = Signals::by_hand();
        let mut end = signals.drain(&[&one], Duration::ZERO);
        one.stop_listening();
        end.wait().unwrap();
        drop(one);
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while Arc::strong_count(&kept) > 1 && std::time::Instant::now() < until {
            std::thread::yield_now(); // its loops may still be at it
        }
        assert_eq!(Arc::strong_count(&kept), 1);
        signals.raise();
        signals.raise();
    }

    #[test]
    fn servers_are_drained_when_nobody_is_left_who_could_signal() {
        let one = server("local:signals-seven");
        let signals = Signals::by_hand();
        let mut end = signals.drain(&[&one], Duration::ZERO);
        drop(signals);
        end.wait().unwrap();
        assert!(one.closed().is_done());
    }
}
