//! What an observer of the listening side is told.

use super::PATIENCE;
use netwright_core::{Address, EventLoop};
use netwright_transport::{ListenEnd, Refusal, ServerObserver};
use std::{
    io,
    sync::mpsc::{self, Receiver, Sender},
    time::Duration,
};

/// One call, with the address that is listened on.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Bound(Address),
    Accepted(Address, Address),
    Refused(Address, Address, Refusal),
    AcceptFailed(Option<Duration>),
    Closed(Address, ListenEnd),
}

/// Reads what the observer has been told, in order.
pub(crate) struct Guestbook {
    entries: Receiver<(Told, Option<EventLoop>)>,
}

pub(crate) struct Writer {
    entries: Sender<(Told, Option<EventLoop>)>,
}

/// An observer, and what it has been told.
pub(crate) fn guestbook() -> (Writer, Guestbook) {
    let (sender, entries) = mpsc::channel();
    (Writer { entries: sender }, Guestbook { entries })
}

impl Guestbook {
    /// The next entry, and the loop on which it was told, if it was one.
    #[track_caller]
    pub(crate) fn next(&self) -> (Told, Option<EventLoop>) {
        self.entries.recv_timeout(PATIENCE).expect("the observer is told something")
    }

    /// All that has been told so far.
    pub(crate) fn rest(&self) -> Vec<Told> {
        self.entries.try_iter().map(|(told, _)| told).collect()
    }
}

impl Writer {
    fn write(&self, told: Told) {
        let _ = self.entries.send((told, EventLoop::current()));
    }
}

impl ServerObserver for Writer {
    fn bound(&self, at: &Address) {
        self.write(Told::Bound(at.clone()));
    }
    fn accepted(&self, at: &Address, peer: &Address) {
        self.write(Told::Accepted(at.clone(), peer.clone()));
    }
    fn refused(&self, at: &Address, peer: &Address, why: &Refusal) {
        self.write(Told::Refused(at.clone(), peer.clone(), why.clone()));
    }
    fn accept_failed(&self, _: &Address, _: &io::Error, pause: Option<Duration>) {
        self.write(Told::AcceptFailed(pause));
    }
    fn closed(&self, at: &Address, cause: &ListenEnd) {
        self.write(Told::Closed(at.clone(), cause.clone()));
    }
}
