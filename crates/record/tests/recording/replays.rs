//! Replays in memory: times, pauses, room to write, files, workers, ends.

use super::{PATIENCE, echo, flight, recorded, so_far};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, FileRegion, HalfClosure, IntoPipeline, Outgoing, Peer, StageTimer,
    pipeline, time::sleep,
};
use netwright_record::{Cause, CauseKind, Difference, FlightRecorder, Recording, Redaction, When};
use std::{io, time::Duration};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Records a conversation with this pipeline, then plays it to another one of its kind.
fn same_again<T: 'static, P: IntoPipeline<T>>(
    make: impl Fn() -> P,
    talk: impl FnOnce(&mut netwright_core::EmbeddedChannel<(), T>),
) -> Recording {
    let (flight, files) = flight(FlightRecorder::builder().bytes(1 << 20).when(When::ALWAYS));
    let mut channel = recorded(&flight, make());
    talk(&mut channel);
    drop(channel);
    let recording = files.next().1;
    let again = recording.replay().patience(PATIENCE).run(make());
    assert_eq!(again.missing(), None);
    again.compare(&recording).in_the_same_pieces().with_the_same_end().assert_same();
    recording
}

/// Says after three seconds without a word that nobody is there, and ends after five.
#[derive(Default)]
struct Impatient {
    timer: Option<StageTimer>,
    words: u32,
}

impl Application for Impatient {
    type Read = BytesMut;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.timer = Some(cx.arm(secs(3)));
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.timer.take().map(|timer| cx.disarm(timer));
        self.timer = Some(cx.arm(secs(3)));
        self.words += 1;
        cx.write_and_flush(format!("{} {}\n", self.words, bytes.len()));
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
        match self.timer.take() {
            Some(_) => {
                cx.write_and_flush("anybody there?\n");
                cx.arm(secs(2));
            }
            None => cx.close_because(CloseCause::TimedOut(secs(5))),
        }
    }
}

#[test]
fn timers_are_due_between_the_same_pieces_and_replies_come_at_the_same_times() {
    let make = || pipeline().app(Impatient::default());
    let recording = same_again(make, |channel| {
        channel.write_inbound("a").advance(secs(2)).write_inbound("bc");
        channel.advance(Duration::from_millis(3999)).write_inbound("def").advance(secs(60));
    });
    let again = recording.replay().run(make());
    let times: Vec<_> = again.sent().iter().map(|sent| sent.at.as_millis()).collect();
    assert_eq!(times, [0, 2000, 5000, 5999, 7000]);
    assert!(matches!(again.cause(), Some(CloseCause::TimedOut(_))));
}

#[test]
fn the_pace_of_a_replay_is_told_piece_by_piece() {
    let (flight, _files) = flight(FlightRecorder::builder());
    let mut channel = recorded(&flight, echo());
    channel.advance(secs(1)).write_inbound("a").advance(secs(2)).write_inbound("b");
    let recording = so_far(&flight);
    let mut waited = Vec::new();
    recording.replay().pace(|by| waited.push(by.as_secs())).run(echo());
    assert_eq!(waited, [1, 2]);
}

async fn slow_echo(mut peer: Peer) -> Result<(), CloseCause> {
    while let Some(bytes) = peer.read().await? {
        sleep(secs(10)).await;
        peer.write(bytes).await?;
    }
    Ok(())
}

#[test]
fn an_async_function_with_sleeps_answers_the_same() {
    same_again(
        || pipeline().serve(slow_echo),
        |channel| {
            channel.write_inbound("one").write_inbound("two").advance(secs(15)).write_inbound("three");
            channel.advance(secs(100)).end_input().advance(secs(1));
        },
    );
}

#[test]
fn what_workers_do_is_waited_for() {
    struct Digests;
    impl Application for Digests {
        type Read = BytesMut;
        type Write = Bytes;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
            let sum = move || bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
            cx.offload(sum, |_, cx, sum| cx.write_and_flush(format!("{}\n", sum)));
        }
    }
    let make = || pipeline().app(Digests);
    let (flight, _files) = flight(FlightRecorder::builder());
    let mut channel = recorded(&flight, make());
    for word in ["a", "bc", "def"] {
        channel.write_inbound(word);
        let mut answered = false;
        while !answered {
            std::thread::yield_now();
            channel.run();
            answered = channel.read_outbound().is_some();
        }
    }
    let recording = so_far(&flight);
    let again = recording.replay().patience(PATIENCE).run(make());
    assert_eq!(again.sent_bytes(), b"97\n197\n303\n");
    again.compare(&recording).assert_same();
}

/// Answers each byte by a thousand, and reads only while there is room.
struct Verbose;

impl Application for Verbose {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        for byte in bytes {
            cx.write(vec![byte; 1000]);
        }
        if !cx.is_writable() {
            cx.write("that is much\n");
        }
        cx.flush();
    }
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        if writable {
            cx.write_and_flush("room again\n");
            cx.resume();
        } else {
            cx.pause();
        }
    }
}

#[test]
fn a_peer_that_did_not_read_does_not_read_in_the_replay_until_it_did() {
    same_again(
        || pipeline().app(Verbose),
        |channel| {
            channel.write_inbound("a").advance(secs(1)).block_output(true);
            channel.write_inbound([b'b'; 100]).advance(secs(5)).block_output(false);
            channel.advance(secs(1)).write_inbound("c").advance(secs(1));
        },
    );
}

#[test]
fn pieces_that_came_while_a_stage_paused_come_at_the_same_times_again() {
    struct Pauses;
    impl Application for Pauses {
        type Read = BytesMut;
        type Write = Bytes;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
            cx.write_and_flush(bytes.freeze());
            cx.pause();
            cx.arm(secs(7));
        }
        fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
            cx.write_and_flush("on ");
            cx.resume();
        }
    }
    let recording = same_again(
        || pipeline().app(Pauses),
        |channel| {
            channel
                .write_inbound("one ")
                .write_inbound("two ")
                .advance(secs(10))
                .write_inbound("three ")
                .advance(secs(60));
        },
    );
    assert_eq!(recording.replay().run(pipeline().app(Pauses)).sent_bytes(), b"one on two on three on ");
}

#[test]
fn a_file_counts_by_its_length_and_its_bytes_may_be_any() {
    let path = std::env::current_exe().unwrap();
    let make = |len: u64| {
        let path = path.clone();
        pipeline().handle(move |cx, _: BytesMut| {
            cx.write("file: ");
            cx.write(FileRegion::new(std::fs::File::open(&path).unwrap(), 0, len));
            cx.write_and_flush(" end\n");
        })
    };
    let recording = same_again(|| make(100_000), |channel| _ = channel.write_inbound("x"));
    assert_eq!(recording.written_len(), 100_000 + 6 + 5);
    assert!(recording.to_bytes().len() < 1000, "the recorder reads no files");
    // A program that reads the file itself gives the same.
    let bytes = std::fs::read(&path).unwrap();
    let reads = pipeline().handle(move |cx, _: BytesMut| {
        cx.write("file: ");
        cx.write(Outgoing::from(bytes[..100_000].to_vec()));
        cx.write_and_flush(" end\n");
    });
    recording.replay().run(reads).compare(&recording).assert_same();
    let short = recording.replay().patience(Duration::ZERO).run(make(99_999));
    let difference = short.compare(&recording).check().unwrap_err();
    assert!(matches!(difference, Difference::Byte { .. } | Difference::Missing { .. }), "{difference}");
}

#[test]
fn a_reset_comes_again_and_so_does_the_end_of_input() {
    struct Counts(usize);
    impl Application for Counts {
        type Read = BytesMut;
        type Write = Bytes;
        fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
            self.0 += bytes.len();
        }
        fn half_closure(&self) -> HalfClosure {
            HalfClosure::Needs
        }
        fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
            cx.write_and_flush(format!("{} bytes", self.0));
            cx.close_when_flushed();
        }
    }
    same_again(|| pipeline().app(Counts(0)), |channel| _ = channel.write_inbound("abc").end_input());
    let recording = same_again(
        || pipeline().app(Counts(0)),
        |channel| {
            channel.write_inbound("abc").advance(secs(1));
            channel.end_because(CloseCause::io(io::ErrorKind::ConnectionReset.into()));
        },
    );
    let again = recording.replay().run(pipeline().app(Counts(0)));
    assert_eq!(again.end().unwrap().kind, CauseKind::Reset);
}

#[test]
fn a_panic_comes_again() {
    let recording = same_again(
        || {
            pipeline().handle(|cx, bytes: BytesMut| {
                assert!(bytes.len() < 4, "too much");
                cx.write_and_flush(bytes);
            })
        },
        |channel| _ = channel.write_inbound("abc").write_inbound("abcd"),
    );
    // And is gone once it is mended.
    let mended = recording.replay().run(echo());
    let difference = mended.compare(&recording).with_the_same_end().check().unwrap_err();
    assert!(matches!(difference, Difference::More { recorded: 3, now: 7, .. }), "{difference}");
}

#[test]
fn addresses_are_those_of_the_recording() {
    let make = || {
        pipeline().handle(|cx, _: BytesMut| {
            let peer = cx.view().peer().map_or_else(|| "nobody".to_owned(), |peer| peer.to_string());
            cx.write_and_flush(peer);
        })
    };
    let (flight, _files) = flight(FlightRecorder::builder());
    let whole = pipeline().add(flight.stage()).joint(|_| make());
    let peer = "192.0.2.7:4711".parse().ok();
    let mut channel = netwright_core::EmbeddedChannel::between(whole, None, peer);
    channel.write_inbound("x");
    let recording = so_far(&flight);
    let again = recording.replay().run(make());
    assert_eq!(again.sent_bytes(), b"192.0.2.7:4711");
    again.compare(&recording).assert_same();
}

#[test]
fn a_piece_that_is_missing_ends_the_replay_there() {
    let (flight, _files) = flight(FlightRecorder::builder().bytes(300).redact(Redaction::none()));
    let mut channel = recorded(&flight, echo());
    channel.write_inbound([b'x'; 100]).write_inbound([b'x'; 1000]);
    let recording = so_far(&flight);
    let again = recording.replay().patience(Duration::ZERO).run(echo());
    assert!(again.missing().is_none_or(|missing| missing > 700));
    assert!(recording.lost().is_some() && !recording.is_from_the_start());
}

// ---- comparing ----

fn record(pieces: &[&'static str]) -> Recording {
    let (flight, _files) = flight(FlightRecorder::builder());
    let pieces: Vec<&'static str> = pieces.to_vec();
    let mut channel = recorded(
        &flight,
        pipeline().handle(move |cx, _: BytesMut| {
            pieces.iter().for_each(|piece| cx.write(*piece));
            cx.flush();
        }),
    );
    channel.write_inbound("?");
    so_far(&flight)
}

#[test]
fn how_output_is_cut_matters_only_if_that_is_asked_for() {
    let (one, two) = (record(&["hello, ", "world"]), record(&["hello", ", world"]));
    one.compare(&two).assert_same();
    let difference = one.compare(&two).in_the_same_pieces().check().unwrap_err();
    assert_eq!(difference, Difference::Pieces { index: 0, recorded: Some(7), now: Some(5) });
    assert_eq!(
        difference.to_string(),
        "the same bytes in other pieces: number 0 was of 7 bytes, and is of 5 bytes"
    );
}

#[test]
fn values_of_headers_may_differ_in_length_and_in_how_they_are_cut() {
    let then = record(&["HTTP/1.1 200 OK\r\nda", "te: Thu\r\nx: 1\r\n\r\nbody"]);
    let now = record(&["HTTP/1.1 200 OK\r\nDate: Wednesday\r\nx: 1\r\n\r\nbo", "dy"]);
    assert!(then.compare(&now).check().is_err());
    then.compare(&now).ignore_header("date").assert_same();
    let other = record(&["HTTP/1.1 200 OK\r\nDate: Wednesday\r\nx: 2\r\n\r\nbody"]);
    let difference = then.compare(&other).ignore_header("date").check().unwrap_err();
    assert!(matches!(difference, Difference::Byte { at: 31, now_at: 37, .. }), "{difference:?}");
}

#[test]
fn less_and_more_are_told_with_what_is_there() {
    let (short, long) = (record(&["one"]), record(&["one", " two\r\n"]));
    let missing = long.compare(&short).check().unwrap_err();
    assert_eq!(
        missing.to_string(),
        "3 bytes went out, in the recording 9:\n  recorded: one▸ two\\r\\n\n  now:      one▸"
    );
    let more = short.compare(&long).check().unwrap_err();
    assert_eq!(
        more.to_string(),
        "9 bytes went out, in the recording only 3:\n  recorded: one▸\n  now:      one▸ two\\r\\n"
    );
    short.compare(&long).as_far_as_recorded().assert_same();
}

#[test]
fn texts_of_ends_do_not_command_a_terminal() {
    let text = "\x1b[2J\u{9b}31m".to_owned();
    let cause = Cause { kind: CauseKind::Panicked, text: text.clone() };
    assert_eq!(cause.to_string(), "\\u{1b}[2J\\u{9b}31m");
    let difference = Difference::End { recorded: Some(text), now: None };
    assert_eq!(
        difference.to_string(),
        "another end\n  recorded: \\u{1b}[2J\\u{9b}31m\n  now:      it did not end"
    );
}

/// Answers each piece with a megabyte, of which the recorder keeps four kilobytes.
fn a_megabyte_for_each(first: u8) -> impl IntoPipeline<Outgoing> {
    let mut answer = vec![b'x'; 1 << 20];
    answer[0] = first;
    let answer = Bytes::from(answer);
    pipeline().handle(move |cx, _: BytesMut| cx.write_and_flush(answer.clone()))
}

#[test]
fn of_answers_without_end_a_replay_keeps_the_beginning_and_compares_that() {
    const PIECES: usize = 150;
    let (flight, _files) = flight(FlightRecorder::builder().bytes(1 << 20).when(When::BY_HAND));
    let mut channel = recorded(&flight, a_megabyte_for_each(b'x'));
    for _ in 0..PIECES {
        channel.write_inbound("?");
        channel.read_outbound();
    }
    let recording = so_far(&flight);
    assert!(recording.is_from_the_start());

    let again = recording.replay().run(a_megabyte_for_each(b'x'));
    again.compare(&recording).in_the_same_pieces().assert_same();
    assert!(again.recording().to_bytes().len() <= recording.to_bytes().len(), "the same gaps");
    assert_eq!((again.sent_len(), again.sent_bytes().len()), ((PIECES << 20) as u64, 128 << 20));
    let other = recording.replay().run(a_megabyte_for_each(b'y'));
    let difference = other.compare(&recording).check().unwrap_err();
    assert!(matches!(difference, Difference::Byte { at: 0, .. }), "{difference}");

    // Where the recording knows of no answers, and so of no gaps.
    let (flight, _files) = super::flight(FlightRecorder::builder());
    let mut channel = recorded(&flight, pipeline().handle(|_, _: BytesMut| {}));
    (0..PIECES).for_each(|_| _ = channel.write_inbound("?"));
    let recording = so_far(&flight);
    let again = recording.replay().run(a_megabyte_for_each(b'x'));
    let difference = again.compare(&recording).check().unwrap_err();
    assert!(
        matches!(&difference, Difference::More { recorded: 0, context, .. } if context.now.starts_with(b"xxx"))
    );
}
