//! What a flight recorder keeps, what it writes and when, and that a replay gives the same again.

mod directory;
mod format;
mod http;
mod replays;
mod sockets;
mod timers;
mod writing;

use bytes::BytesMut;
use netwright_core::{EmbeddedChannel, IntoPipeline, Outgoing, pipeline};
use netwright_record::{FlightRecorder, FlightRecorderBuilder, NewRecording, Recording, Seen, When, Why};
use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a recorder has written.
struct Written(Receiver<(Why, Recording)>);

impl Written {
    fn next(&self) -> (Why, Recording) {
        self.0.recv_timeout(PATIENCE).expect("a recording is written")
    }
}

/// A recorder that writes to us.
fn flight(builder: FlightRecorderBuilder) -> (FlightRecorder, Written) {
    let (send, files) = channel();
    let flight = builder
        .to(move |file: &NewRecording| {
            let _ = send.send((file.why, file.recording()?));
            Ok(())
        })
        .build();
    (flight, Written(files))
}

fn when(when: When) -> (FlightRecorder, Written) {
    flight(FlightRecorder::builder().when(when))
}

impl Written {
    /// Nothing has been written by a recorder that has nothing left to write.
    fn expect_nothing(&self, flight: &FlightRecorder) {
        assert!(flight.wait_until_written(PATIENCE));
        assert!(matches!(self.0.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout)));
    }
}

fn echo() -> impl IntoPipeline<Outgoing> {
    pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes))
}

/// A channel with a recorder in front of this pipeline.
fn recorded<T: 'static>(flight: &FlightRecorder, behind: impl IntoPipeline<T>) -> EmbeddedChannel<(), T> {
    EmbeddedChannel::of(pipeline().add(flight.stage()).joint(|_| behind))
}

/// What there is of a channel that is recorded.
fn so_far(flight: &FlightRecorder) -> Recording {
    flight.live().pop().expect("somebody is recorded").recording()
}

/// The bytes that went one way.
fn bytes_of(recording: &Recording, wanted: impl Fn(Seen) -> Option<bytes::Bytes>) -> Vec<u8> {
    recording.records().filter_map(|record| wanted(record.what)).flatten().collect()
}

fn read(what: Seen) -> Option<bytes::Bytes> {
    if let Seen::Read(piece) = what { Some(piece.bytes) } else { None }
}

fn written(what: Seen) -> Option<bytes::Bytes> {
    if let Seen::Written(piece) = what { Some(piece.bytes) } else { None }
}
