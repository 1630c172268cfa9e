//! What a recorded message allocates once the ring has grown: nothing.

use bytes::BytesMut;
use netwright_core::{EmbeddedChannel, IntoPipeline, ManualLoop, Outgoing, pipeline};
use netwright_record::{FlightRecorder, Recording};
use netwright_testkit::{CountingAllocator, Wire, allocations_during, peak_during};
use std::time::Duration;

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

/// A recording of pieces of one byte, at one time or with a millisecond between them, that are answered or not.
fn single_bytes(pieces: usize, apart: bool, answered: bool) -> Recording {
    let flight = FlightRecorder::builder().bytes(usize::MAX).records(usize::MAX).build();
    let mut channel = EmbeddedChannel::of(pipeline().add(flight.stage()).joint(move |_| answers(answered)));
    for _ in 0..pieces {
        channel.write_inbound("x");
        if apart {
            channel.advance(Duration::from_millis(1));
        }
        channel.read_outbound();
    }
    flight.live().pop().expect("it is recorded").recording()
}

fn answers(answered: bool) -> impl IntoPipeline<Outgoing> {
    pipeline().handle(move |cx, bytes: BytesMut| {
        if answered {
            cx.write_and_flush(bytes);
        }
    })
}

#[test]
fn a_replay_takes_memory_in_proportion_to_the_file() {
    for (apart, answered) in [(false, false), (false, true), (true, false), (true, true)] {
        let recording = single_bytes(20_000, apart, answered);
        let file = recording.to_bytes().len() as u64;
        let (peak, again) = peak_during(|| recording.replay().run(answers(answered)));
        again.compare(&recording).assert_same();
        assert!(
            peak <= 8 * file + 64 * 1024,
            "{peak} bytes for {file}, apart: {apart}, answered: {answered}"
        );
    }
}
