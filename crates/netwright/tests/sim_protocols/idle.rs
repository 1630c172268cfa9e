//! Connections that a server closes because nothing comes on them: what is on its way to one then is lost.

use bytes::BytesMut;
use netwright::{CloseCause, Observer, Outgoing, server::Accepted, time};
use std::{
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Instant,
};

/// When the server closed connections on which nothing came, and whose. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Idle {
    closed: Arc<Mutex<Vec<(IpAddr, Instant)>>>,
}

impl Idle {
    /// Sees how this connection ends.
    pub(super) fn watch(&self, accepted: &Accepted) -> WatchedEnd {
        WatchedEnd { peer: accepted.peer.ip().unwrap().ip(), idle: self.clone() }
    }

    /// Whether a connection of that host was closed since then.
    pub(super) fn closed_since(&self, host: IpAddr, since: Instant) -> bool {
        self.closed.lock().unwrap().iter().any(|(peer, at)| *peer == host && *at >= since)
    }
}

/// Sees how a connection of the server ends.
pub(super) struct WatchedEnd {
    peer: IpAddr,
    idle: Idle,
}

impl Observer for WatchedEnd {
    type Read = BytesMut;
    type Write = Outgoing;

    fn sees_close(&mut self, cause: &CloseCause) {
        if let CloseCause::TimedOut(_) = cause {
            self.idle.closed.lock().unwrap().push((self.peer, time::now()));
        }
    }
}
