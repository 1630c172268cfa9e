//! Accepts connections of any [`Acceptor`], and keeps listening when the system has no descriptor left.
//!
//! ```text
//!   EMFILE, ENFILE …  ─▶ give up the spare descriptor, accept with it, close that connection at once (the peer learns
//!                        it, instead of hanging in the queue), take the spare back, pause for a second, go on
//! ```
//! Which errors are about one connection, and do not make it pause: `mishaps`. A socket that does not listen any more, because
//! somebody else shut it down, is closed instead; so is whatever panics.
//! While it pauses, a level-triggered loop is told not to mind those who wait.

use super::{
    mishaps::{Mishap, Mishaps},
    reception::Reception,
};
use crate::open::{Acceptor, Arrival, contained};
use netwright_core::{
    LocalLoop, SourceTimer,
    driver::{Event, Source, Token},
    internal::catch,
};
use std::{
    fs::File,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Connections accepted before others get their turn.
pub(crate) const ACCEPTS_PER_TURN: usize = 16;
/// How long to leave a system alone that has no descriptor or memory left.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// The listener's only timer.
const RESUME: u64 = 0;

/// What a listener has done.
#[derive(Debug, Default)]
pub(crate) struct ListenerFigures {
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// By loops that have ended.
    pub(crate) refused_ended: AtomicU64,
    /// By loops for which too many wait.
    pub(crate) refused_stalled: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) paused: AtomicBool,
    /// Accepting is to rest until somebody says otherwise.
    pub(crate) held: AtomicBool,
}

impl ListenerFigures {
    /// A connection was none any more when it was accepted.
    #[cold]
    pub(crate) fn passed_over(&self, error: &io::Error) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%error, "a connection ended before it was accepted");
    }
}

pub(crate) struct Listener {
    local: LocalLoop,
    acceptor: Option<Box<dyn Acceptor>>,
    token: Token,
    reception: Box<dyn Reception>,
    spare: Option<File>,
    figures: Arc<ListenerFigures>,
    resume: Option<SourceTimer>,
    mishaps: Mishaps,
}

impl Listener {
    /// Has the loop of the calling thread accept. Returns the token by which it is deregistered.
    pub(crate) fn start(
        local: &LocalLoop,
        attend: impl FnOnce(Token) -> io::Result<Box<dyn Acceptor>>,
        figures: Arc<ListenerFigures>,
        reception: Box<dyn Reception>,
    ) -> io::Result<Token> {
        let token = local.register_with(|token| {
            let acceptor = contained(|| attend(token)).map_err(StartError)?;
            Ok::<_, StartError>(Self {
                local: local.clone(),
                acceptor: Some(acceptor),
                token,
                reception,
                spare: spare(),
                figures,
                resume: None,
                mishaps: Mishaps::default(),
            })
        });
        let token = token.map_err(|error| error.0)?;
        local.call(token); // for who came before
        Ok(token)
    }

    fn accept_some(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN {
            if self.figures.held.load(Ordering::Acquire) {
                return;
            }
            let Some(acceptor) = &mut self.acceptor else { return };
            match catch(|| acceptor.accept()) {
                Ok(Ok(Arrival { carried, peer })) => {
                    self.mishaps.forget();
                    self.figures.accepted.fetch_add(1, Ordering::Relaxed);
                    self.reception.accepted(carried, peer);
                }
                Ok(Err(error)) => match self.mishaps.judge(&error) {
                    Mishap::Nobody => return,
                    Mishap::Again => {}
                    Mishap::Next => {
                        self.figures.passed_over(&error);
                        self.reception.failed(&error, None);
                    }
                    Mishap::Pause => return self.fail(&error),
                    Mishap::Broken => return self.give_up(error),
                },
                Err(panic) => {
                    return self.give_up(io::Error::other(format!("accepting panicked: {panic}")));
                }
            }
        }
        self.local.call(self.token); // there may be more
    }

    /// Whether the loop is to say that somebody waits.
    fn settle(&mut self) {
        let Some(acceptor) = &mut self.acceptor else { return };
        let wants = self.resume.is_none() && !self.figures.held.load(Ordering::Acquire);
        if let Err(panic) = catch(|| acceptor.settle(wants)) {
            self.give_up(io::Error::other(format!("accepting panicked: {panic}")));
        }
    }

    fn give_up(&mut self, error: io::Error) {
        self.figures.failures.fetch_add(1, Ordering::Relaxed);
        self.reception.broken(error);
        self.close();
        self.local.deregister(self.token);
    }

    fn fail(&mut self, error: &io::Error) {
        self.figures.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, pause = ?PAUSE, "accepting failed; pausing, still listening");
        self.reception.failed(error, Some(PAUSE));
        self.refuse_one();
        self.figures.paused.store(true, Ordering::Relaxed);
        self.resume = Some(self.local.arm(self.token, PAUSE, RESUME));
    }

    /// Tells one waiting peer that there is no room, with the descriptor that was kept for this.
    fn refuse_one(&mut self) {
        if self.spare.take().is_none() {
            return;
        }
        if let Some(acceptor) = &mut self.acceptor
            && let Ok(Arrival { carried, peer }) = contained(|| acceptor.accept())
        {
            self.figures.refused.fetch_add(1, Ordering::Relaxed);
            carried.reset();
            self.reception.refused(peer);
        }
        self.spare = spare();
    }

    fn close(&mut self) {
        self.acceptor = None;
        if let Some(timer) = self.resume.take() {
            self.local.disarm(timer);
            self.figures.paused.store(false, Ordering::Relaxed);
        }
    }
}

/// A descriptor to give up when there is none left.
pub(crate) fn spare() -> Option<File> {
    File::open(if cfg!(windows) { "NUL" } else { "/dev/null" }).ok()
}

impl Source for Listener {
    fn ready(&mut self, _: Event) {
        if self.resume.is_none() {
            self.accept_some();
        }
        self.settle();
    }

    fn signal(&mut self, _: u64) {
        self.resume = None;
        if self.spare.is_none() {
            self.spare = spare(); // another thread was faster when it was given up
        }
        self.figures.paused.store(false, Ordering::Relaxed);
        self.accept_some();
        self.settle();
    }

    fn shut_down(&mut self) {
        self.reception.loop_ends();
        self.close();
        self.local.deregister(self.token);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
    }
}

struct StartError(io::Error);

impl From<netwright_core::RefusedWhy> for StartError {
    fn from(why: netwright_core::RefusedWhy) -> Self {
        Self(io::Error::other(why.to_string()))
    }
}
