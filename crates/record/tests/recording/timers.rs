//! Replays of what timers did in a loop whose ticks lie elsewhere than those of the replay.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, EmbeddedChannel, IntoPipeline, Outgoing, Peer, StageTimer, pipeline,
    slot, time::sleep,
};
use netwright_record::{CauseKind, FlightRecorder, Recording, Redaction, When};
use std::time::Duration;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A recording that begins 0.6 ms behind a tick of its loop, with a word, and goes on 4.3 ms later.
fn off_the_ticks<T: 'static>(
    behind: impl IntoPipeline<T>,
    talk: impl FnOnce(&mut EmbeddedChannel<(), T>),
) -> Recording {
    let flight = FlightRecorder::builder().redact(Redaction::none()).when(When::BY_HAND).build();
    let whole = pipeline().add(slot::<BytesMut, Outgoing>("recorder")).joint(|_| behind);
    let mut channel = EmbeddedChannel::of(whole);
    channel.advance(micros(600));
    let place = channel.channel().slot::<BytesMut, Outgoing>("recorder").expect("it has one");
    place.put(flight.recorder());
    channel.write_inbound("hello");
    let live = flight.live().pop().expect("it is recorded");
    channel.advance(micros(4300));
    talk(&mut channel);
    live.recording()
}

async fn answers_after_a_pause(mut peer: Peer) -> Result<(), CloseCause> {
    while let Some(bytes) = peer.read().await? {
        sleep(millis(3)).await;
        peer.write_and_flush(bytes).await?;
    }
    Ok(())
}

/// A word at 4.3 ms of the recording is answered at 8 ms of its loop, which is 7.4 ms of the recording; in the replay at 8 ms of that.
#[test]
fn what_a_timer_sent_is_sent_again_before_the_next_piece_comes() {
    let make = || pipeline().serve(answers_after_a_pause);
    let recording = off_the_ticks(make(), |channel| {
        for word in ["how", "are", "you"] {
            channel.write_inbound(word).advance(millis(4));
        }
    });
    assert_eq!(recording.written_len(), 14);
    let again = recording.replay().patience(Duration::ZERO).run(make());
    again.compare(&recording).in_the_same_pieces().assert_same();
    assert_eq!(again.sent()[1].at, millis(8));
}

/// Ends three milliseconds after it was told to.
struct Ends;

impl Application for Ends {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        if bytes == "end" {
            cx.arm(millis(3));
        }
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
        cx.close_because(CloseCause::TimedOut(millis(3)));
    }
}

#[test]
fn a_timer_that_ended_the_channel_ends_it_again() {
    let make = || pipeline().app(Ends);
    let recording = off_the_ticks(make(), |channel| {
        channel.write_inbound("end").advance(micros(3200));
        assert!(!channel.is_open());
    });
    let again = recording.replay().patience(Duration::ZERO).run(make());
    assert_eq!(again.end().map(|cause| cause.kind), Some(CauseKind::TimedOut));
    again.compare(&recording).with_the_same_end().assert_same();
}

#[test]
fn a_timer_that_was_not_due_when_the_recording_was_written_is_not_due_in_its_replay() {
    let make = || pipeline().serve(answers_after_a_pause);
    let recording = off_the_ticks(make(), |channel| _ = channel.write_inbound("how").advance(millis(3)));
    assert_eq!(recording.written_len(), 5);
    let again = recording.replay().run(make());
    assert_eq!(again.sent_bytes(), b"hello");
}

#[test]
fn the_clock_does_not_wait_long_for_replies_that_do_not_come() {
    let make = || pipeline().serve(answers_after_a_pause);
    let recording = off_the_ticks(make(), |channel| _ = channel.write_inbound("how").advance(millis(4)));
    let mut moved = Duration::ZERO;
    let silent = pipeline().handle(|_, _: BytesMut| {});
    let again = recording.replay().patience(Duration::ZERO).pace(|by| moved += by).run(silent);
    assert!(again.compare(&recording).check().is_err());
    assert!(moved <= micros(7400) + millis(2), "{moved:?}");
}
