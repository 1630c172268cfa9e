//! What a server's listeners do.

use super::{Log, emit::event, told::Lifecycle};
use netwright_core::{Address, internal::catch};
use netwright_transport::{ListenEnd, Refusal, ServerObserver};
use std::{io, time::Duration};
use tracing::Level;

impl Log<Lifecycle> {
    /// The level of what should not happen.
    fn warns(&self) -> Level {
        self.level.min(Level::WARN)
    }
}

impl ServerObserver for Log<Lifecycle> {
    fn bound(&self, at: &Address) {
        event!(self.level, %at, "listening");
    }
    fn accepted(&self, at: &Address, peer: &Address) {
        event!(self.level, %at, %peer, "accepted");
    }
    fn refused(&self, at: &Address, peer: &Address, why: &Refusal) {
        event!(self.warns(), %at, %peer, %why, "refused");
    }
    fn accept_failed(&self, at: &Address, error: &io::Error, pause: Option<Duration>) {
        event!(self.warns(), %at, %error, ?pause, "accepting failed");
    }
    fn closed(&self, at: &Address, cause: &ListenEnd) {
        event!(self.level, %at, ?cause, "listening no more");
    }
}
