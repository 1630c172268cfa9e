//! What every listener keeps, however it accepts: whom it tells, what it counts, and its rest when the system has nothing left.
//!
//! ```text
//!   EMFILE, ENFILE …  ─▶ give up the spare descriptor, accept with it, close that connection at once (the peer learns
//!                        it, instead of hanging in the queue), take the spare back, pause for a second, go on
//! ```
//! Which errors are about one connection, and do not make it pause: `mishaps`.

use super::{
    mishaps::{Mishap, Mishaps},
    reception::{Reception, Welcome},
};
use crate::stream::Carried;
use netwright_core::{Address, LocalLoop, SourceTimer, driver::Token};
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
const PAUSE: Duration = Duration::from_secs(1);
/// A listener's timers: the end of a rest, and the moment when the next may come.
const RESUME: u64 = 0;
/// See [`RESUME`].
const PACED: u64 = 1;
/// What a connection that is refused counts for among those of a turn. A refusal is two or three system calls and nobody waits for it, but those whom
/// the loop serves wait for its turn to end: under a flood of refusals a turn is to be short, and the rest of the flood waits in the system's queue.
const REFUSED_COUNTS: usize = 8;

/// What a listener has done.
#[derive(Debug, Default)]
pub(crate) struct ListenerFigures {
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// By loops that have ended.
    pub(crate) refused_ended: AtomicU64,
    /// By loops for which too many wait.
    pub(crate) refused_stalled: AtomicU64,
    /// Because as many as are allowed were open.
    pub(crate) refused_full: AtomicU64,
    /// By their networks.
    pub(crate) refused_denied: AtomicU64,
    /// Because as many of their address as are allowed were open.
    pub(crate) refused_per_address: AtomicU64,
    pub(crate) refused_too_fast: AtomicU64,
    /// By a function of the user's.
    pub(crate) refused_judged: AtomicU64,
    /// Because nobody decided.
    pub(crate) refused_undecided: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) paused: AtomicBool,
    /// Accepting is to rest until somebody says otherwise.
    pub(crate) held: AtomicBool,
}

pub(crate) struct Accepting {
    local: LocalLoop,
    token: Token,
    reception: Box<dyn Reception>,
    figures: Arc<ListenerFigures>,
    /// Given up when there is no other descriptor left.
    spare: Option<File>,
    /// When accepting goes on, while it pauses.
    resume: Option<SourceTimer>,
    /// When the next one may come, while it is too early for that.
    paced: Option<SourceTimer>,
    mishaps: Mishaps,
}

impl Accepting {
    pub(crate) fn new(
        local: &LocalLoop,
        token: Token,
        figures: Arc<ListenerFigures>,
        reception: Box<dyn Reception>,
    ) -> Self {
        let (local, mishaps) = (local.clone(), Mishaps::default());
        Self { local, token, reception, figures, spare: spare(), resume: None, paced: None, mishaps }
    }

    /// Whether nobody is to be accepted, because somebody said so or it is too early for the next.
    pub(crate) fn is_held(&self) -> bool {
        self.paced.is_some() || self.figures.held.load(Ordering::Acquire)
    }

    /// Whether the next one may be accepted. If it is too early for that, the listener is called when it is not.
    pub(crate) fn may_accept(&mut self) -> bool {
        if self.figures.held.load(Ordering::Acquire) {
            return false;
        }
        let wait = self.reception.pace();
        if let Some(timer) = self.paced.take() {
            self.local.disarm(timer);
        }
        self.paced = wait.map(|wait| self.local.arm(self.token, wait, PACED));
        self.paced.is_none()
    }

    /// Whether nobody is accepted, because the system has nothing left.
    pub(crate) fn pauses(&self) -> bool {
        self.resume.is_some()
    }

    #[cfg(all(target_os = "linux", feature = "uring"))] // io_uring alone shuts a socket down
    pub(crate) fn shares_socket(&self) -> bool {
        self.reception.shares_socket()
    }

    /// Returns what it counts for among the [connections of a turn](ACCEPTS_PER_TURN).
    pub(crate) fn accepted(&mut self, connection: Carried, peer: Address) -> usize {
        self.mishaps.forget();
        self.figures.accepted.fetch_add(1, Ordering::Relaxed);
        match self.reception.accepted(connection, peer) {
            Welcome::In => 1,
            Welcome::SentAway => REFUSED_COUNTS,
        }
    }

    /// What is to be done about a failure. Of a connection that was none any more when it was accepted, those who look on have heard.
    pub(crate) fn judge(&mut self, error: &io::Error) -> Mishap {
        let mishap = self.mishaps.judge(error);
        if mishap == Mishap::Next {
            self.figures.failures.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%error, "a connection ended before it was accepted");
            self.reception.failed(error, None);
        }
        mishap
    }

    /// The loop comes back to its listener: there may be more.
    pub(crate) fn call_again(&self) {
        self.local.call(self.token);
    }

    /// Tells one who waits that there is no room, if `accept` finds somebody with the descriptor that was kept for this, and accepts
    /// nobody for a while.
    pub(crate) fn pause(
        &mut self,
        error: &io::Error,
        accept: impl FnOnce() -> io::Result<(Carried, Address)>,
    ) {
        self.figures.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, pause = ?PAUSE, "accepting failed; pausing, still listening");
        self.reception.failed(error, Some(PAUSE));
        if self.spare.take().is_some() {
            if let Ok((connection, peer)) = accept() {
                self.figures.refused.fetch_add(1, Ordering::Relaxed);
                connection.reset();
                self.reception.refused(peer);
            }
            self.spare = spare();
        }
        self.figures.paused.store(true, Ordering::Relaxed);
        self.resume = Some(self.local.arm(self.token, PAUSE, RESUME));
    }

    /// A timer is due: the pause is over, or the next one may come. False if it rests for another reason.
    pub(crate) fn go_on(&mut self, timer: u64) -> bool {
        match timer {
            PACED => self.paced = None,
            _ => self.end_pause(),
        }
        !self.pauses()
    }

    fn end_pause(&mut self) {
        self.resume = None;
        if self.spare.is_none() {
            self.spare = spare(); // another thread was faster when it was given up
        }
        self.figures.paused.store(false, Ordering::Relaxed);
    }

    /// It listens no more. The listener is dropped when this call returns, and the socket with it.
    pub(crate) fn broken(&mut self, error: io::Error) {
        self.figures.failures.fetch_add(1, Ordering::Relaxed);
        self.reception.broken(error);
        self.local.deregister(self.token);
    }

    /// The same because its loop ends.
    pub(crate) fn loop_ends(&mut self) {
        self.reception.loop_ends();
        self.local.deregister(self.token);
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        if let Some(timer) = self.paced.take() {
            self.local.disarm(timer);
        }
        if let Some(timer) = self.resume.take() {
            self.local.disarm(timer);
            self.figures.paused.store(false, Ordering::Relaxed);
        }
    }
}

/// A descriptor to give up when there is none left.
fn spare() -> Option<File> {
    File::open(if cfg!(windows) { "NUL" } else { "/dev/null" }).ok()
}
