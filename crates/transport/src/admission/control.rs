//! Admission of a server that runs.

use super::{AcceptRate, AccessList, Gate, LiveAccessList};
use std::sync::Arc;

/// The [`Admission`](super::Admission) of a server that runs, to look at and to change: by
/// [`Server::admission`](crate::Server::admission). Cheap to clone. What changes holds for those who come from then on; who is there stays.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Admission, Server};
///
/// let server = Server::builder()
///     .admission(Admission::new().per_address(16))
///     .pipeline(|_| pipeline().handle(|_, _| {}))
///     .bind("127.0.0.1:0")
///     .wait()?;
/// let admission = server.admission();
/// let blocked = admission.access().current().as_ref().clone().deny("198.51.100.0/24")?;
/// admission.access().replace(blocked); // for those who come from now on
/// admission.set_per_address(Some(4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AdmissionControl {
    gate: Arc<Gate>,
    /// Has acceptors that wait look again.
    call: Arc<dyn Fn() + Send + Sync>,
}

impl AdmissionControl {
    pub(crate) fn new(gate: Arc<Gate>, call: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self { gate, call }
    }

    /// The networks that are allowed and denied.
    pub fn access(&self) -> &LiveAccessList {
        &self.gate.access
    }

    /// [`AccessList`] in place of the one that holds.
    pub fn set_access(&self, list: AccessList) {
        self.gate.access.replace(list);
    }

    /// How many connections may be open at a time; see [`ServerBuilder::connections_max`](crate::ServerBuilder::connections_max).
    pub fn set_connections_max(&self, connections: usize) {
        self.gate.set_connections_max(connections);
    }

    /// How many may be open at a time from one address; see [`Admission::per_address`](super::Admission::per_address). Connections that came while there was
    /// no such limit do not count.
    pub fn set_per_address(&self, connections: Option<usize>) {
        self.gate.change(|limits| limits.per_address = connections);
    }

    /// How fast connections may come; see [`Admission::rate`](super::Admission::rate).
    pub fn set_rate(&self, rate: Option<AcceptRate>) {
        self.gate.change(|limits| limits.rate = rate);
    }

    /// How fast they may come from one address; see [`Admission::rate_per_address`](super::Admission::rate_per_address).
    pub fn set_rate_per_address(&self, rate: Option<AcceptRate>) {
        self.gate.change(|limits| limits.rate_per_address = rate);
    }

    /// How fast connections are accepted; see [`Admission::pace`](super::Admission::pace).
    pub fn set_pace(&self, pace: Option<AcceptRate>) {
        self.gate.change(|limits| limits.pace = pace);
        (self.call)();
    }

    /// The numbers that hold: how many may be open in all, and from one address.
    pub fn connections_max(&self) -> (usize, Option<usize>) {
        (self.gate.connections_max(), self.gate.limits().per_address)
    }
}

impl std::fmt::Debug for AdmissionControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdmissionControl").field("limits", &self.gate.limits()).finish_non_exhaustive()
    }
}
