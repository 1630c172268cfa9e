//! What a test knows of the channels of a server: who waits, who has ended and why, and what is left.

use super::{
    super::support::{PATIENCE, wait_until},
    End,
};
use bytes::BytesMut;
use netwright_core::{CloseCause, Context, Handler, Outgoing, Workers, WritePromise};
use std::sync::{
    Arc, Condvar, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// Tells a test what becomes of the channels that it watches. Clones are the same.
#[derive(Clone)]
pub struct Watch {
    told: Arc<Mutex<Told>>,
    gate: Arc<(Mutex<bool>, Condvar)>,
    /// How many [`Guard`]s there are.
    alive: Arc<AtomicUsize>,
    workers: Workers,
}

/// Part of a channel: when that is gone, this must be too.
pub struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Default)]
struct Told {
    waiting: usize,
    inactive: Vec<CloseCause>,
    removed: usize,
    closers: Vec<Box<dyn Fn() + Send>>,
    afterwards: Vec<Box<dyn FnOnce() + Send>>,
}

impl Watch {
    pub(super) fn new() -> Self {
        let workers = Workers::new(super::CONNECTIONS).unwrap();
        Self { told: Arc::default(), gate: Arc::default(), alive: Arc::default(), workers }
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- for the server ----

    /// The stage next to the wire, which counts ends.
    pub fn stage(&self) -> Watcher {
        Watcher { watch: self.clone() }
    }

    /// A channel has come to where it waits.
    pub fn waits(&self) {
        self.told().waiting += 1;
    }

    /// Something that must be gone when its channel is.
    pub fn guard(&self) -> Guard {
        self.alive.fetch_add(1, Ordering::AcqRel);
        Guard(self.alive.clone())
    }

    /// How our side closes this channel.
    pub fn closes(&self, close: impl Fn() + Send + 'static) {
        self.told().closers.push(Box::new(close));
    }

    /// What has to be true when all is over. May wait.
    pub fn afterwards(&self, check: impl FnOnce() + Send + 'static) {
        self.told().afterwards.push(Box::new(check));
    }

    /// Threads for those who block.
    pub fn workers(&self) -> Workers {
        self.workers.clone()
    }

    /// Blocks a thread until the connections have ended.
    pub fn wait_at_gate(&self) {
        let (open, opened) = &*self.gate;
        let guard = open.lock().unwrap_or_else(PoisonError::into_inner);
        let (guard, waited) =
            opened.wait_timeout_while(guard, PATIENCE, |open| !*open).unwrap_or_else(PoisonError::into_inner);
        drop(guard);
        assert!(!waited.timed_out(), "the connections end in time");
    }

    // ---- for the test ----

    pub(super) fn open_gate(&self) {
        *self.gate.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.gate.1.notify_all();
    }

    pub(super) fn wait_for(&self, waiting: usize) {
        wait_until(
            || self.told().waiting >= waiting,
            || format!("{waiting} channels that wait, {} do", self.told().waiting),
        );
    }

    pub(super) fn close_all(&self) {
        let closers = std::mem::take(&mut self.told().closers);
        closers.iter().for_each(|close| close());
    }

    /// So many channels have ended, each once and with a cause that fits, and nothing of them is left.
    pub(super) fn expect_ends(&self, channels: usize, end: End) {
        wait_until(|| self.told().removed >= channels, || format!("{channels} to be removed"));
        let alive = || self.alive.load(Ordering::Acquire);
        wait_until(|| alive() == 0, || format!("what channels held to be gone: {} are there", alive()));
        let (inactive, removed, afterwards) = {
            let mut told = self.told();
            (told.inactive.clone(), told.removed, std::mem::take(&mut told.afterwards))
        };
        assert_eq!((inactive.len(), removed), (channels, channels), "{inactive:?}");
        for cause in &inactive {
            let fits = match end {
                // Answers that the peer has not read turn its goodbye into a reset.
                End::PeerLeaves => {
                    matches!(cause, CloseCause::PeerClosed | CloseCause::Io(_) | CloseCause::Fault(_))
                }
                End::PeerResets => {
                    matches!(cause, CloseCause::Io(_) | CloseCause::PeerClosed | CloseCause::Fault(_))
                }
                End::PeerHalfCloses => !matches!(cause, CloseCause::ShutDown | CloseCause::Panicked(_)),
                End::WeClose => matches!(cause, CloseCause::Requested),
                End::LoopShutsDown | End::ServerShutsDown => {
                    matches!(cause, CloseCause::ShutDown | CloseCause::Requested)
                }
            };
            assert!(fits, "{end:?} ended a channel with {cause:?}");
        }
        afterwards.into_iter().for_each(|check| check());
    }
}

/// Counts the ends of channels. Made by [`Watch::stage`].
pub struct Watcher {
    watch: Watch,
}

impl Handler for Watcher {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        let caller = cx.caller();
        self.watch.closes(move || caller.call(|_, cx: &mut Context<'_, Self>| cx.close()));
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.watch.told().inactive.push(cause.clone());
        cx.fire_inactive(cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: Outgoing, done: WritePromise) {
        cx.write_with(msg, done);
    }
    fn removed(&mut self) {
        self.watch.told().removed += 1;
    }
}
