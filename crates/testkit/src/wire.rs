//! A channel in memory that is driven as a transport drives one: no socket, no turn of a loop.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    Host, HostSettings, LocalLoop, Outgoing, Segment,
    driver::{Event, Source},
    internal::CarriedBy,
};

/// As large as what loops read into.
const SCRATCH: usize = 64 * 1024;

/// A channel without a socket, and the one buffer that a transport would read into: nothing is allocated or copied for a message
/// beside what the pipeline does. It lives inside of a loop ([`ManualLoop::enter`](netwright_core::ManualLoop::enter)).
///
/// ```
/// use netwright_core::{ManualLoop, pipeline};
/// use netwright_testkit::Wire;
///
/// ManualLoop::new().enter(|| {
///     let echo = pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
///     assert_eq!(Wire::new(echo.into_segment()).turn(b"hello"), 5);
/// });
/// ```
pub struct Wire<P: Segment<BytesMut, O>, O: CarriedBy<Outgoing>> {
    host: Host<P, O>,
    scratch: BytesMut,
}

/// Stands for a transport: a channel has to have a place on its loop.
struct Place;

impl Source for Place {
    fn ready(&mut self, _: Event) {}
    fn shut_down(&mut self) {}
}

impl<P: Segment<BytesMut, O>, O: CarriedBy<Outgoing>> Wire<P, O> {
    /// A connected channel that runs this pipeline.
    pub fn new(pipeline: P) -> Self {
        let local = LocalLoop::current().expect("inside the loop");
        let token = local.register(Place).expect("a new loop takes sources");
        let mut host = Host::new(local, pipeline, HostSettings::default());
        host.register(token);
        host.activate(None, None);
        host.run_commands(); // a transport's first turn: async tails begin
        Self { host, scratch: BytesMut::with_capacity(SCRATCH) }
    }

    /// A read of these bytes, and its end; what it makes the pipeline flush is taken at once. Tells how many bytes that was.
    #[inline]
    pub fn turn(&mut self, read: &[u8]) -> usize {
        assert!(self.scratch.try_reclaim(read.len()), "somebody keeps what was read");
        self.scratch.extend_from_slice(read);
        self.host.received(self.scratch.split());
        self.host.read_complete();
        let mut sent = 0;
        if self.host.take_flush() {
            let mut outbound = self.host.outbound();
            while let Some(len) = outbound.first_bytes().map(Bytes::len) {
                outbound.advance(len);
                sent += len;
            }
        }
        self.host.wrote();
        sent
    }
}
