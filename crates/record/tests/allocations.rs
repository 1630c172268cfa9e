//! What a recorded message allocates once the ring has grown: nothing.

use bytes::BytesMut;
use netwright_core::{ManualLoop, pipeline};
use netwright_record::FlightRecorder;
use netwright_testkit::{CountingAllocator, Wire, allocations_during};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn a_message_and_its_answer_allocate_nothing_in_a_ring_that_is_full() {
    let flight = FlightRecorder::builder().bytes(4096).build();
    let recorded = |on: bool| {
        ManualLoop::new().enter(|| {
            let echo = pipeline().add(on.then(|| flight.stage()));
            let echo = echo.handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze()));
            let mut wire = Wire::new(echo.into_segment());
            (0..200).for_each(|_| assert_eq!(wire.turn(&[7; 64]), 64));
            allocations_during(|| (0..50).for_each(|_| assert_eq!(wire.turn(&[7; 64]), 64))).0
        })
    };
    assert_eq!(recorded(true), recorded(false));
}
