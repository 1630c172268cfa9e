//! What a stage can see of its channel.

use super::{Context, Handler, OnWorker, Place, StageCaller, StageError, segment::Next};
use crate::{
    channel::{Address, ChannelCore, ChannelId, CloseCause, HalfClosure, ParentChannel},
    event_loop::EventLoop,
};
use std::{any::TypeId, net::SocketAddr, sync::Arc};

/// What a stage can see of its channel: who is at its ends, how much waits, how it ended. Had by [`Context::view`].
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().handle(|cx, bytes: bytes::BytesMut| {
///     let view = cx.view();
///     println!("{} bytes on {} from {:?}, {} on their way", bytes.len(), view.id(), view.peer(), view.pending_bytes());
/// }));
/// channel.write_inbound("hello");
/// ```
pub struct ChannelView<'a, R> {
    pub(super) core: &'a ChannelCore,
    pub(super) next: &'a dyn Next<R>,
}

impl<H: Handler<P>, P: Place> Context<'_, H, P> {
    /// What there is to be seen of the channel: addresses, its number, its loop, figures, how it ended, stages by their names.
    pub fn view(&self) -> ChannelView<'_, H::ReadOut> {
        ChannelView { core: self.core, next: self.next }
    }
}

impl<'a, R> ChannelView<'a, R> {
    // ---- who it is ----

    /// The channel's number, unique in this process.
    pub fn id(&self) -> ChannelId {
        self.core.id
    }

    /// Our host and port, if the channel is on the network.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local().as_ref().and_then(Address::ip)
    }

    /// The peer's host and port, if the channel is on the network.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer().as_ref().and_then(Address::ip)
    }

    /// Our address of any kind; the one that a stage has [set](Context::set_addresses), if any has.
    pub fn local(&self) -> Option<Address> {
        self.core.addresses().0
    }

    /// The peer's address of any kind; the one that a stage has [set](Context::set_addresses), if any has.
    pub fn peer(&self) -> Option<Address> {
        self.core.addresses().1
    }

    /// Our address on the wire, whatever stages have [set](Context::set_addresses).
    pub fn wire_local(&self) -> Option<Address> {
        self.core.wire_addresses().0
    }

    /// Who is at the other end of the wire, whatever stages have [set](Context::set_addresses): the proxy, behind one.
    pub fn wire_peer(&self) -> Option<Address> {
        self.core.wire_addresses().1
    }

    /// The value of this type that is [attached](crate::Channel::set_attribute) to the channel, or else to its parent.
    pub fn attribute<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.core.attribute(TypeId::of::<T>())?.downcast().ok()
    }

    /// Whose child this channel is, if it is one.
    pub fn parent(&self) -> Option<ParentChannel> {
        self.core.parent()
    }

    /// The loop on which the channel lives.
    pub fn event_loop(&self) -> EventLoop {
        self.core.event_loop()
    }

    // ---- how it does ----

    /// Bytes accepted and not yet taken by the transport.
    pub fn pending_bytes(&self) -> usize {
        self.core.account.pending_bytes()
    }

    /// Bytes that were flushed and that the transport has not yet taken, those of files included: to see
    /// whether the peer still reads.
    pub fn unsent_bytes(&self) -> u64 {
        self.core.unsent_bytes()
    }

    /// Bytes that the transport has taken since the channel began: to see whether something of a slow peer's leaves. How much of it the peer has
    /// received, only the system knows.
    pub fn taken_bytes(&self) -> u64 {
        self.core.taken_bytes()
    }

    /// Whether delivery is stopped.
    pub fn is_paused(&self) -> bool {
        self.core.demand.is_paused()
    }

    /// Whether messages come without being asked for, or do so as soon as there is room for their answers. A last stage that asks
    /// for each message itself notes it before it pauses, and [resumes](Context::resume) in [`Handler::leaving`] if so, for
    /// whoever comes in its place.
    pub fn is_flowing(&self) -> bool {
        self.core.demand.is_flowing()
    }

    // ---- its end ----

    /// Why the channel has ended, if it has. Known from the end on, while [`Handler::inactive`] waits until the messages that came
    /// before it are asked for: whoever is told then that there is room can find out that nobody will read what it writes.
    pub fn close_cause(&self) -> Option<&'a CloseCause> {
        self.core.close_cause()
    }

    /// Whether the channel lives on when its peer sends no more, as whoever made it has said, else as the stages behind this one
    /// [say](Handler::half_closure): what a stage goes by whose own protocol has such an end.
    pub fn allows_half_closure(&self) -> bool {
        self.core.given.half_closure.unwrap_or_else(|| self.next.half_closure() == HalfClosure::Needs)
    }

    // ---- its stages ----

    /// The stage that was [given this name](crate::PipelineBuilder::named): what it is called with runs when this call has returned.
    /// See [`Channel::stage`](crate::Channel::stage) for what `K` is, and for the errors.
    pub fn stage<K: Handler>(&self, name: &str) -> Result<StageCaller<K>, StageError> {
        self.core.stage(name)
    }

    /// [`stage`](Self::stage) for one that [runs on workers](crate::PipelineBuilder::add_on).
    pub fn stage_on_workers<K: Handler<OnWorker>>(
        &self,
        name: &str,
    ) -> Result<StageCaller<K, OnWorker>, StageError> {
        self.core.stage(name)
    }
}
