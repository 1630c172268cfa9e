//! What works on this machine, found out by doing it: a server and a client on loopback, on a loop of the backend in
//! question.
//!
//! Version numbers say little: containers forbid system calls, limits are too low, kernels are patched. So every operation
//! that a backend stands on is tried once, small, and within a time limit.

use crate::{
    Backend, Server, StreamOptions,
    live::Guard,
    socket::{self, ConnectSettings},
    stream::{Adoption, Carried, adopt},
};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, BuildError, Channel, EventLoopGroup, FileRegion, IntoPipeline, LocalLoop,
    Outgoing, pipeline,
};
use std::{
    collections::VecDeque,
    fmt,
    fs::File,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// Nothing here takes milliseconds unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than a socket takes at once, so that sends end in pieces.
const LARGE: usize = 1 << 20;

/// What was tried with one backend.
///
/// ```
/// use netwright_transport::{Backend, Probe};
///
/// let probe = Probe::run(Backend::Readiness);
/// assert!(probe.works(), "{probe}");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Probe {
    /// Which.
    pub backend: Backend,
    /// In order. The first that failed is the last.
    pub steps: Vec<ProbeStep>,
}

/// One thing that was tried.
///
/// ```
/// use netwright_transport::{Backend, Probe};
///
/// for step in Probe::run(Backend::Readiness).steps {
///     println!("{}: {:?}", step.what, step.result);
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProbeStep {
    /// What.
    pub what: &'static str,
    /// How it went.
    pub result: Result<(), String>,
}

impl Probe {
    /// Tries a backend now. Takes a few milliseconds on loopback; [`Backend::choose`] remembers what came of it.
    pub fn run(backend: Backend) -> Self {
        Self::run_on(backend, Backend::event_loops)
    }

    /// The same on loops that somebody makes.
    pub(crate) fn run_on(backend: Backend, loops: MakeLoops) -> Self {
        let steps = Told::default();
        // A thread of its own: the caller may be an event loop, which must not wait for another.
        let prober = thread::Builder::new().name("netwright-probe".to_owned());
        let trial = Trial { told: steps.clone() };
        let mut probe = Self { backend, steps: Vec::new() };
        if let Err(error) = prober.spawn(move || try_all(|| loops(backend, 1), &trial)) {
            probe.steps.push(ProbeStep { what: "a thread to try it on", result: Err(error.to_string()) });
            return probe;
        }
        let mut trying = "start";
        loop {
            match steps.hear() {
                Some(News::Trying(what)) => trying = what,
                Some(News::Done(result)) => probe.steps.push(ProbeStep { what: trying, result }),
                Some(News::Over) => return probe,
                None => {
                    let result = Err(format!("no answer within {PATIENCE:?}"));
                    probe.steps.push(ProbeStep { what: trying, result });
                    return probe;
                }
            }
        }
    }

    /// Whether everything that was tried works.
    pub fn works(&self) -> bool {
        self.failure().is_none()
    }

    /// What does not work, if anything.
    pub fn failure(&self) -> Option<&ProbeStep> {
        self.steps.iter().find(|step| step.result.is_err())
    }
}

/// A sentence on what does not work, or that everything does.
impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.failure() {
            Some(ProbeStep { what, result: Err(error) }) => write!(f, "{}: {what}: {error}", self.backend),
            _ => write!(f, "{}: all {} operations work", self.backend, self.steps.len()),
        }
    }
}

/// Makes so many loops of a backend.
pub(crate) type MakeLoops = fn(Backend, usize) -> Result<EventLoopGroup, BuildError>;

enum News {
    Trying(&'static str),
    Done(Result<(), String>),
    Over,
}

/// What threads tell one that waits for it. A channel of the standard library is three kinds of channels in every program that asks
/// for the best backend.
struct Told<T>(Arc<(Mutex<VecDeque<T>>, Condvar)>);

impl<T> Told<T> {
    fn say(&self, news: T) {
        self.lock().push_back(news);
        self.0.1.notify_one();
    }

    /// `None` if there is no news for longer than anything takes.
    fn hear(&self) -> Option<T> {
        let waiting = self.0.1.wait_timeout_while(self.lock(), PATIENCE, |news| news.is_empty());
        waiting.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Told<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Told<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Says what it is about to do, does it, says how it went; and that it is over, however that came about.
struct Trial {
    told: Told<News>,
}

impl Trial {
    fn step<T>(&self, what: &'static str, act: impl FnOnce() -> Result<T, String>) -> Option<T> {
        self.told.say(News::Trying(what));
        let (value, result) = match act() {
            Ok(value) => (Some(value), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.told.say(News::Done(result));
        value
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.told.say(News::Over);
    }
}

fn try_all(make: impl FnOnce() -> Result<EventLoopGroup, BuildError>, trial: &Trial) -> Option<()> {
    let group = trial.step("set up an event loop", || make().map_err(in_words))?;
    trial.step("wake it up", || {
        group.next().submit(|| ()).map_err(|_| "refused")?.wait().map_err(|_| "lost".to_owned())
    })?;
    let server = trial.step("listen", || {
        let echo = |_: &_| pipeline().app(Prober(None));
        Server::builder().group(group.clone()).pipeline(echo).bind("127.0.0.1:0").wait().map_err(in_words)
    })?;
    let (channel, answers) = trial.step("connect and accept", || connect(&group, &server))?;
    trial.step("send and receive", || {
        channel.write_and_flush(Bytes::from_static(b"hello"));
        expect(&answers, 5)
    })?;
    trial.step("send and receive a mebibyte", || {
        channel.write_and_flush(Bytes::from(vec![7; LARGE]));
        expect(&answers, LARGE)
    })?;
    trial.step("pause and resume reading", || {
        channel.pause();
        channel.write_and_flush(Bytes::from_static(b"wait"));
        channel.resume();
        expect(&answers, 4)
    })?;
    trial.step("send a file", || {
        let (region, len) = some_file().map_err(in_words)?;
        channel.write_and_flush(region);
        expect(&answers, len)
    })?;
    trial.step("close", || channel.close().wait().map_err(in_words))?;
    Some(())
}

fn in_words(error: impl fmt::Display) -> String {
    error.to_string()
}

/// How many bytes have come back, or that no more will.
type Answers = Told<Option<usize>>;

/// Both ends of the connection, so that there is one pipeline to be compiled: sends everything back, or counts what comes.
struct Prober(Option<Answers>);

impl Application for Prober {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        match &self.0 {
            Some(answers) => answers.say(Some(bytes.len())),
            None => cx.write_and_flush(bytes.freeze()),
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        if let Some(answers) = &self.0 {
            answers.say(None);
        }
    }
}

/// One attempt at one address that is known: by the means of a client, and without what a client has for names and many addresses, which
/// a program that only listens has no use for.
fn connect(group: &EventLoopGroup, server: &Server) -> Result<(Channel<Outgoing>, Answers), String> {
    let (answers, connected) = (Answers::default(), Told::default());
    let (prober, told, address) =
        (Prober(Some(answers.clone())), connected.clone(), server.address().clone());
    let begun = group.next().execute(move || {
        let Some(local) = LocalLoop::current() else { return };
        let (here, failed, peer) = (local.clone(), told.clone(), address.clone());
        let settings = ConnectSettings { from: None, limit: PATIENCE, options: StreamOptions::default() };
        let done = move |result: io::Result<socket2::Socket>| {
            let channel = result.and_then(|socket| {
                let adoption = Adoption {
                    local: &here,
                    carried: Carried::Socket(socket),
                    peer,
                    #[cfg(unix)]
                    credentials: None,
                    settings: &Arc::default(),
                };
                let pipeline = IntoPipeline::<Outgoing>::into_pipeline(pipeline().app(prober));
                adopt(adoption, pipeline, Guard::default())
            });
            told.say(channel);
        };
        if let Err(error) = socket::connect(&local, address, &settings, Box::new(done)) {
            failed.say(Err(error));
        }
    });
    begun.map_err(in_words)?;
    let channel = connected.hear().ok_or("neither connected nor refused")?.map_err(in_words)?;
    Ok((channel, answers))
}

/// The beginning of a file that is certainly there: this program.
fn some_file() -> io::Result<(FileRegion, usize)> {
    let file = File::open(std::env::current_exe()?)?;
    let len = file.metadata()?.len().min(64 * 1024);
    Ok((FileRegion::new(file, 0, len), len as usize))
}

fn expect(answers: &Answers, mut bytes: usize) -> Result<(), String> {
    while bytes > 0 {
        let came = answers.hear().ok_or_else(|| format!("{bytes} bytes did not come back"))?;
        let came = came.ok_or_else(|| format!("the connection ended {bytes} bytes too early"))?;
        bytes = bytes.checked_sub(came).ok_or("more came back than was sent")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_machine_has_works_in_every_step() {
        let probe = Probe::run(Backend::Readiness);
        assert!(probe.works(), "{probe}");
        assert_eq!(probe.to_string(), format!("readiness: all {} operations work", probe.steps.len()));
        assert!(probe.steps.len() >= 8);
    }

    #[test]
    fn an_event_loop_may_ask_too() {
        let group = Backend::Readiness.event_loops(1).unwrap();
        let mut works = group.next().spawn(async { Probe::run(Backend::Readiness).works() }).unwrap();
        assert_eq!(works.wait(), Ok(true));
    }
}
