//! What timeouts take: nothing for a message, and little for an idle connection.

use bytes::BytesMut;
use netwright_core::{
    Host, HostSettings, LocalLoop, ManualLoop, Outgoing, RefusedWhy, Segment,
    driver::{Event, Source},
    pipeline,
};
use netwright_handler::{Idle, ReadTimeout, WriteTimeout};
use netwright_testkit::{CountingAllocator, Wire, allocations_during, bytes_in_use};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const LIMIT: Duration = Duration::from_secs(30);

/// A channel on its loop, without a socket.
struct Channel<P: Segment<BytesMut, Outgoing>>(Host<P, Outgoing>);

impl<P: Segment<BytesMut, Outgoing>> Source for Channel<P> {
    fn ready(&mut self, _: Event) {}
    fn signal(&mut self, signal: u64) {
        self.0.signal(signal);
    }
    fn shut_down(&mut self) {}
}

/// Bytes that each of so many idle channels holds.
fn each<P: Segment<BytesMut, Outgoing>>(count: usize, make: impl Fn() -> P) -> f64 {
    let mut manual = ManualLoop::new();
    let before = bytes_in_use();
    manual.enter(|| {
        let local = LocalLoop::current().unwrap();
        for _ in 0..count {
            let registered = local.register_with(|token| {
                let mut host = Host::new(local.clone(), make(), HostSettings::default());
                host.register(token);
                host.activate(None, None);
                Ok::<_, RefusedWhy>(Channel(host))
            });
            registered.expect("a new loop takes sources");
        }
    });
    (bytes_in_use() - before) as f64 / count as f64
}

#[test]
fn a_message_allocates_nothing() {
    ManualLoop::new().enter(|| {
        let stages = pipeline()
            .filter(Idle::all(LIMIT).closing())
            .filter(ReadTimeout::after(LIMIT))
            .filter(WriteTimeout::after(LIMIT));
        let echo = stages.handle(|cx, bytes| cx.write_and_flush(bytes));
        let mut wire = Wire::new(echo.into_segment());
        wire.turn(&[7; 64]);
        let (count, ()) = allocations_during(|| (0..1000).for_each(|_| assert_eq!(wire.turn(&[7; 64]), 64)));
        assert_eq!(count, 0);
    });
}

/// As many as fill the tables of a loop, which double.
const CHANNELS: usize = 8192;

#[test]
fn an_idle_connection_with_a_timeout_takes_little_more_than_one_without() {
    let plain = each(CHANNELS, || pipeline().handle(|cx, bytes| cx.write_and_flush(bytes)).into_segment());
    let idle = each(CHANNELS, || {
        let stages = pipeline().filter(Idle::all(LIMIT).closing());
        stages.handle(|cx, bytes| cx.write_and_flush(bytes)).into_segment()
    });
    println!("{plain:.0} bytes each without a timeout, {idle:.0} with one");
    assert!(idle - plain < 73.0, "{idle} - {plain}: 72, and what all of them share");
}
