//! A parent, as its children's handles see it.

use super::super::{
    Address, ChannelId, CloseCause,
    core::{Addresses, Side, SideTable},
    host::HOST,
    shared::Attribute,
};
use crate::{
    event_loop::SourceCaller,
    promise::{Promise, PromiseError, SharedPromised, promise},
};
use std::{
    any::{Any, TypeId},
    fmt,
    net::SocketAddr,
    sync::{Arc, PoisonError},
};

/// The channel that another one is a child of, whatever it takes: what there is to know of it, and its end. For any thread.
///
/// See [`Channel::parent`](crate::Channel::parent).
#[derive(Clone)]
pub struct ParentChannel {
    shared: Arc<Shared>,
}

struct Shared {
    id: ChannelId,
    side: SideTable,
    caller: SourceCaller,
    closed: SharedPromised<CloseCause, PromiseError>,
}

impl ParentChannel {
    /// Also returns what to tell of its end.
    pub(in crate::channel) fn new(
        id: ChannelId,
        side: SideTable,
        caller: SourceCaller,
    ) -> (Self, Promise<CloseCause, PromiseError>) {
        let (ended, closed) = promise();
        let closed = closed.shared();
        (Self { shared: Arc::new(Shared { id, side, caller, closed }) }, ended)
    }

    /// The channel's number, unique in this process.
    pub fn id(&self) -> ChannelId {
        self.shared.id
    }

    /// Our address of any kind.
    pub fn local(&self) -> Option<Address> {
        self.addresses().0
    }

    /// The peer's address of any kind.
    pub fn peer(&self) -> Option<Address> {
        self.addresses().1
    }

    /// Our host and port, if the channel is on the network.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local().as_ref().and_then(Address::ip)
    }

    /// The peer's host and port, if the channel is on the network.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer().as_ref().and_then(Address::ip)
    }

    /// Whether its end has come or was asked for.
    pub fn is_closing(&self) -> bool {
        self.shared.closed.is_done() || self.lock().closing
    }

    /// The parent of the parent, if that is a child too: a stream's connection may be one of a socket.
    pub fn parent(&self) -> Option<Self> {
        self.lock().parent().cloned()
    }

    /// The value of this type that is attached to the channel, or else to its own parent.
    pub fn attribute<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.any_attribute(TypeId::of::<T>())?.downcast().ok()
    }

    /// Closes the channel, and so all of its children. The future resolves when it is closed.
    pub fn close(&self) -> SharedPromised<CloseCause, PromiseError> {
        self.close_because(CloseCause::Requested)
    }

    /// Closes the channel for a reason that everybody will be told.
    pub fn close_because(&self, cause: CloseCause) -> SharedPromised<CloseCause, PromiseError> {
        let call: Box<dyn Any + Send> = Box::new(cause);
        let mut side = self.lock();
        side.closing = true;
        let left = side.call((HOST, call), |rare, call| rare.calls.push(call));
        drop(side);
        if let Ok(true) = left {
            self.shared.caller.call();
        }
        self.closed()
    }

    /// The end of the channel: a future of its cause, and a blocking wait.
    pub fn closed(&self) -> SharedPromised<CloseCause, PromiseError> {
        self.shared.closed.clone()
    }

    /// Why the channel ended, if it has.
    pub fn close_cause(&self) -> Option<CloseCause> {
        self.shared.closed.peek()?.ok()
    }

    pub(in crate::channel) fn addresses(&self) -> Addresses {
        Side::addresses(&self.shared.side)
    }

    pub(in crate::channel) fn wire_addresses(&self) -> Addresses {
        Side::wire_addresses(&self.shared.side)
    }

    pub(in crate::channel) fn any_attribute(&self, key: TypeId) -> Option<Attribute> {
        Side::attribute(&self.shared.side, key)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Side> {
        self.shared.side.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for ParentChannel {
    fn eq(&self, other: &Self) -> bool {
        self.shared.id == other.shared.id
    }
}

impl Eq for ParentChannel {}

impl fmt::Debug for ParentChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParentChannel")
            .field("id", &self.id())
            .field("peer", &self.peer_addr())
            .finish_non_exhaustive()
    }
}
