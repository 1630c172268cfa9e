//! What works on this machine, found out by doing it: a server and a client on loopback, on a loop of the backend in
//! question.
//!
//! Version numbers say little: containers forbid system calls, limits are too low, kernels are patched. So every operation
//! that a backend stands on is tried once, small, and within a time limit.

use crate::{Backend, Client, ConnectError, Server};
use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, Channel, EventLoopGroup, FileRegion, Outgoing, pipeline};
use std::{fmt, fs::File, io, sync::mpsc, thread, time::Duration};

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
        let (told, steps) = mpsc::channel();
        // A thread of its own: the caller may be an event loop, which must not wait for another.
        let prober = thread::Builder::new().name("netwright-probe".to_owned());
        let started = prober.spawn(move || try_all(backend, &told));
        let mut probe = Self { backend, steps: Vec::new() };
        if let Err(error) = started {
            probe.steps.push(ProbeStep { what: "a thread to try it on", result: Err(error.to_string()) });
            return probe;
        }
        let mut trying = "start";
        loop {
            match steps.recv_timeout(PATIENCE) {
                Ok(News::Trying(what)) => trying = what,
                Ok(News::Done(result)) => probe.steps.push(ProbeStep { what: trying, result }),
                Err(mpsc::RecvTimeoutError::Disconnected) => return probe,
                Err(mpsc::RecvTimeoutError::Timeout) => {
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

enum News {
    Trying(&'static str),
    Done(Result<(), String>),
}

/// Says what it is about to do, does it, says how it went.
struct Trial<'a> {
    told: &'a mpsc::Sender<News>,
}

impl Trial<'_> {
    fn step<T, E: fmt::Display>(&self, what: &'static str, act: impl FnOnce() -> Result<T, E>) -> Option<T> {
        let _ = self.told.send(News::Trying(what));
        match act() {
            Ok(value) => {
                let _ = self.told.send(News::Done(Ok(())));
                Some(value)
            }
            Err(error) => {
                let _ = self.told.send(News::Done(Err(error.to_string())));
                None
            }
        }
    }
}

fn try_all(backend: Backend, told: &mpsc::Sender<News>) -> Option<()> {
    let trial = Trial { told };
    let group = trial.step("set up an event loop", || backend.event_loops(1))?;
    trial.step("wake it up", || {
        group.next().spawn(async {}).map_err(|_| "refused")?.wait().map_err(|_| "lost")
    })?;
    let server = trial.step("listen", || {
        let echo = |_: &_| pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze()));
        Server::builder().group(group.clone()).pipeline(echo).bind("127.0.0.1:0").wait()
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
        let (region, len) = some_file().map_err(|error| error.to_string())?;
        channel.write_and_flush(region);
        expect(&answers, len)
    })?;
    trial.step("close", || channel.close().wait())?;
    Some(())
}

/// Counts what comes back.
struct Hears(mpsc::Sender<usize>);

impl Application for Hears {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
        let _ = self.0.send(bytes.len());
    }
}

type Connected = (Channel<Outgoing>, mpsc::Receiver<usize>);

fn connect(group: &EventLoopGroup, server: &Server) -> Result<Connected, ConnectError> {
    let (told, answers) = mpsc::channel();
    let client =
        Client::builder().group(group.clone()).pipeline(move || pipeline().app(Hears(told.clone())))?;
    let channel = client.connect(server.address()).wait()?;
    Ok((channel, answers))
}

/// The beginning of a file that is certainly there: this program.
fn some_file() -> io::Result<(FileRegion, usize)> {
    let file = File::open(std::env::current_exe()?)?;
    let len = file.metadata()?.len().min(64 * 1024);
    Ok((FileRegion::new(file, 0, len), len as usize))
}

fn expect(answers: &mpsc::Receiver<usize>, mut bytes: usize) -> Result<(), String> {
    while bytes > 0 {
        let came = answers.recv().map_err(|_| format!("the connection ended {bytes} bytes too early"))?;
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
