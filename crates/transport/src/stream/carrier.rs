//! The line between what is compiled here and what is compiled in a user's crate: a channel of a user's pipeline, as a source of its loop.

use super::{Stream, channel::StreamChannel};
use bytes::BytesMut;
use netwright_core::{
    Address, HostOf, Outgoing,
    driver::{Event, Source},
    internal::PipeOf,
};

/// A stream whose channels are compiled here. What is generic is compiled where its last parameter is known, and that is the user's crate; these
/// functions have none.
pub(crate) trait Carrier: Stream + Sized {
    fn begin(channel: &mut StreamChannel<Self>, local: Option<Address>, peer: Option<Address>);
    fn ready(channel: &mut StreamChannel<Self>, event: Event);
    fn signal(channel: &mut StreamChannel<Self>, signal: u64);
    fn panicked(channel: &mut StreamChannel<Self>, message: &str);
    fn shut_down(channel: &mut StreamChannel<Self>);
}

/// Compiles channels over this stream.
macro_rules! carrier {
    ($stream:ty) => {
        impl crate::stream::Carrier for $stream {
            fn begin(
                channel: &mut crate::stream::StreamChannel<Self>,
                local: Option<netwright_core::Address>,
                peer: Option<netwright_core::Address>,
            ) {
                channel.begin(local, peer);
            }
            fn ready(channel: &mut crate::stream::StreamChannel<Self>, event: netwright_core::driver::Event) {
                channel.ready(event);
            }
            fn signal(channel: &mut crate::stream::StreamChannel<Self>, signal: u64) {
                channel.signal(signal);
            }
            fn panicked(channel: &mut crate::stream::StreamChannel<Self>, message: &str) {
                channel.panicked(message);
            }
            fn shut_down(channel: &mut crate::stream::StreamChannel<Self>) {
                channel.shut_down();
            }
        }
    };
}
#[cfg(test)]
pub(crate) use carrier;

carrier!(Box<dyn Stream>);
carrier!(crate::socket::SocketStream);
#[cfg(all(target_os = "linux", feature = "uring"))]
carrier!(crate::uring::UringStream);

impl<S, Q> Source for StreamChannel<S, HostOf<Q>>
where
    S: Carrier,
    Q: PipeOf<BytesMut, Outgoing> + 'static,
{
    fn ready(&mut self, event: Event) {
        S::ready(self, event);
    }
    fn signal(&mut self, signal: u64) {
        S::signal(self, signal);
    }
    fn panicked(&mut self, message: &str) {
        S::panicked(self, message);
    }
    fn shut_down(&mut self) {
        S::shut_down(self);
    }
}
