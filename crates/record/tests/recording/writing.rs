//! When recordings are written, and what is in them.

use super::{PATIENCE, bytes_of, echo, flight, read, recorded, so_far, when, written};
use bytes::BytesMut;
use netwright_core::{
    AppContext, Application, CloseCause, Context, EmbeddedChannel, Fault, Handler, Outgoing, Slot,
    StageTimer, WritePromise, pipeline, slot,
};
use netwright_record::{CauseKind, Direction, FlightRecorder, Redaction, Seen, When, Why};
use std::{io, time::Duration};

#[test]
fn an_error_that_nobody_takes_care_of_is_written_with_all_that_led_to_it() {
    let (flight, files) = when(When::TROUBLE);
    let mut channel = recorded(
        &flight,
        pipeline().handle(|cx, bytes: BytesMut| match &bytes[..] {
            b"bad" => cx.fire_error(io::Error::other("no such order")),
            _ => cx.write_and_flush(bytes),
        }),
    );
    channel.write_inbound("good").advance(Duration::from_millis(1500));
    channel.write_inbound("bad");
    let (why, recording) = files.next();
    assert_eq!((why, recording.why()), (Why::Error, Some(Why::Error)));
    let seen: Vec<_> = recording.records().map(|record| (record.at.as_millis(), record.what)).collect();
    assert!(matches!(seen[0], (0, Seen::Active)));
    assert!(matches!(&seen[1], (0, Seen::Read(piece)) if piece.bytes == "good"));
    assert!(matches!(&seen[2], (0, Seen::Written(piece)) if piece.bytes == "good"));
    assert!(matches!(seen[3], (0, Seen::Flush)));
    assert!(matches!(&seen[4], (1500, Seen::Read(piece)) if piece.bytes == "bad"));
    let (1500, Seen::Inactive(cause)) = seen.last().unwrap() else { panic!("{seen:?}") };
    assert_eq!((cause.kind, cause.text.as_str()), (CauseKind::Fault, "unhandled error: no such order"));
}

/// Raises an error in front of the recorder, as a TLS stage would.
struct Raises;

impl Handler for Raises {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        match &bytes[..] {
            b"bad" => cx.fire_error(io::Error::other("bad record")),
            _ => cx.fire_read(bytes),
        }
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, out: Outgoing, done: WritePromise) {
        cx.write_with(out, done);
    }
}

/// Goes on whatever happens.
struct Tolerant;

impl Application for Tolerant {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush(bytes);
    }
    fn error(&mut self, _: &mut AppContext<'_, Self>, _: Fault) {}
}

#[test]
fn an_error_that_passes_is_written_at_once_though_the_channel_goes_on() {
    let (flight, files) = when(When::TROUBLE);
    let mut channel = EmbeddedChannel::of(pipeline().add(Raises).add(flight.stage()).app(Tolerant));
    channel.write_inbound("good").write_inbound("bad");
    let (why, recording) = files.next();
    assert_eq!(why, Why::Error);
    assert!(recording.records().any(|record| record.what == Seen::Error("bad record".into())));
    assert!(channel.is_open());
    channel.close_by_peer();
    files.expect_nothing(&flight);
}

#[test]
fn a_panic_is_written_with_its_message() {
    for behind_joint in [false, true] {
        let (flight, files) = when(When::TROUBLE);
        let panics = || pipeline().handle(|_, bytes: BytesMut| assert!(bytes.len() < 4, "too much"));
        let mut channel = match behind_joint {
            true => recorded(&flight, panics()),
            false => EmbeddedChannel::of(
                pipeline()
                    .add(flight.stage())
                    .handle(|_, bytes: BytesMut| assert!(bytes.len() < 4, "too much")),
            ),
        };
        channel.write_inbound("abc").write_inbound("abcd");
        let (why, recording) = files.next();
        assert_eq!((why, bytes_of(&recording, read)), (Why::Panic, b"abcabcd".to_vec()));
        assert_eq!(recording.records().last().unwrap().what, Seen::Panicked("too much".into()));
        drop(channel);
        files.expect_nothing(&flight);
    }
}

#[test]
fn the_end_by_a_limit_is_written_as_that() {
    let (flight, files) = when(When::TROUBLE);
    let mut channel = recorded(&flight, echo());
    channel.write_inbound("x");
    channel.channel().close_because(CloseCause::TimedOut(Duration::from_secs(30)));
    channel.run();
    let (why, recording) = files.next();
    assert_eq!(why, Why::Limit);
    let ended = recording.records().last().unwrap().what;
    assert!(matches!(ended, Seen::Inactive(cause) if cause.kind == CauseKind::TimedOut));
    // Who asked for it stands before.
    assert!(recording.records().any(|record| matches!(record.what, Seen::Close(_))));
}

#[test]
fn a_reset_is_written_unless_it_is_everyday_life_here() {
    for io in [true, false] {
        let mut resets = When::TROUBLE;
        resets.io = io;
        let (flight, files) = when(resets);
        let mut channel = recorded(&flight, echo());
        channel.write_inbound("x").end_because(CloseCause::io(io::ErrorKind::ConnectionReset.into()));
        match io {
            true => {
                let (why, recording) = files.next();
                assert_eq!(why, Why::Io);
                let ended = recording.records().last().unwrap().what;
                assert!(matches!(ended, Seen::Inactive(cause) if cause.kind == CauseKind::Reset));
            }
            false => files.expect_nothing(&flight),
        }
    }
}

#[test]
fn an_end_in_order_is_written_only_if_all_are() {
    for all in [When::TROUBLE, When::BY_HAND, When::ALWAYS] {
        let (flight, files) = when(all);
        let mut channel = recorded(&flight, echo());
        channel.write_inbound("x").close_by_peer();
        match all.end {
            true => assert_eq!(files.next().0, Why::End),
            false => files.expect_nothing(&flight),
        }
        assert_eq!(flight.figures().live, 0);
    }
}

#[test]
fn any_thread_can_have_a_recording_written_as_often_as_it_likes() {
    let (flight, files) = when(When::BY_HAND);
    let mut channel = recorded(&flight, echo());
    let live = flight.find(channel.channel().id()).expect("it is recorded");
    channel.write_inbound("one");
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(live.write()));
    });
    let (why, recording) = files.next();
    assert_eq!((why, bytes_of(&recording, read)), (Why::ByHand, b"one".to_vec()));
    channel.write_inbound("two");
    assert!(live.write());
    assert_eq!(bytes_of(&files.next().1, written), b"onetwo");
    channel.close_by_peer();
    assert!(!live.is_live() && !live.write());
    files.expect_nothing(&flight);
    assert_eq!(flight.figures().written, 2);
}

fn slotted() -> (EmbeddedChannel<(), Outgoing>, Slot<BytesMut, Outgoing>) {
    let stages = pipeline().add(slot::<BytesMut, Outgoing>("recorder")).joint(|_| echo());
    let channel = EmbeddedChannel::of(stages);
    let slot = channel.channel().slot("recorder").expect("there is one of this name and type");
    (channel, slot)
}

#[test]
fn a_recorder_in_a_slot_is_written_when_it_is_taken_out_and_says_that_it_came_later() {
    let (flight, files) = flight(FlightRecorder::builder().redact(Redaction::none()).when(When::ALWAYS));
    let (mut channel, slot) = slotted();
    channel.write_inbound("before");
    slot.put(flight.recorder());
    channel.write_inbound("one").write_inbound("two");
    assert_eq!(flight.live()[0].channel(), channel.channel().id());
    slot.clear();
    channel.write_inbound("after");
    let (why, recording) = files.next();
    assert_eq!((why, bytes_of(&recording, read)), (Why::Removed, b"onetwo".to_vec()));
    assert!(!recording.is_from_the_start() && recording.lost().is_none());
    assert_eq!(flight.figures().live, 0);
}

#[test]
fn a_recorder_that_is_exchanged_for_another_one_leaves_that_one_alone() {
    let (flight, files) = flight(FlightRecorder::builder().redact(Redaction::none()).when(When::TROUBLE));
    let (mut channel, slot) = slotted();
    slot.put(flight.recorder());
    channel.write_inbound("one");
    slot.put(flight.recorder());
    channel.write_inbound("two");
    assert_eq!(bytes_of(&so_far(&flight), read), b"two");
    assert_eq!(flight.live().len(), 1);
    channel.end_because(CloseCause::io(io::ErrorKind::ConnectionReset.into()));
    assert_eq!(bytes_of(&files.next().1, read), b"two");
}

#[test]
fn a_panic_is_seen_from_a_slot_too() {
    let (flight, files) = when(When::TROUBLE);
    let stages = pipeline().add(slot::<BytesMut, Outgoing>("recorder"));
    let mut channel = EmbeddedChannel::of(stages.handle(|_, _: BytesMut| panic!("as expected")));
    let slot: Slot<BytesMut, Outgoing> = channel.channel().slot("recorder").unwrap();
    slot.put(flight.recorder());
    channel.write_inbound("x");
    assert_eq!(files.next().1.records().last().unwrap().what, Seen::Panicked("as expected".into()));
}

#[test]
fn a_channel_whose_loop_goes_is_written_if_all_are() {
    let (flight, files) = when(When::ALWAYS);
    let mut channel = recorded(&flight, echo());
    channel.write_inbound("x");
    drop(channel);
    let (why, recording) = files.next();
    assert!(matches!(why, Why::End | Why::Removed), "{why}");
    assert_eq!(bytes_of(&recording, read), b"x");
}

#[test]
fn a_ring_that_is_too_small_keeps_the_end_and_says_what_it_has_lost() {
    let (flight, files) =
        flight(FlightRecorder::builder().bytes(1000).redact(Redaction::none()).when(When::ALWAYS));
    let mut channel = recorded(&flight, pipeline().handle(|_, _: BytesMut| {}));
    for number in 0..100_u8 {
        channel.write_inbound([number; 50]);
    }
    assert!(flight.live()[0].len() <= 1000);
    channel.close_by_peer();
    let recording = files.next().1;
    let kept = bytes_of(&recording, read);
    assert!(kept.len() >= 700 && kept.len() < 1000 && kept.ends_with(&[99; 50]), "{}", kept.len());
    let lost = (5000 - kept.len()) as u64;
    assert_eq!(recording.lost(), Some((1 + lost / 50, lost)), "with the beginning of the channel");
    assert!(!recording.is_from_the_start());
}

#[test]
fn a_text_that_is_longer_than_the_ring_is_cut() {
    let (flight, files) = flight(FlightRecorder::builder().bytes(256).when(When::TROUBLE));
    let mut channel =
        recorded(&flight, pipeline().handle(|_, _: BytesMut| panic!("{}", "long ".repeat(200))));
    channel.write_inbound("x");
    let recording = files.next().1;
    let Seen::Panicked(text) = recording.records().last().unwrap().what else { panic!("{recording:?}") };
    assert!(text.starts_with("long long ") && text.len() > 200 && text.len() < 256, "{text}");
}

#[test]
fn of_what_goes_out_the_beginning_of_each_piece_is_kept_and_all_is_counted() {
    let (flight, _files) = flight(FlightRecorder::builder().written_max(10));
    let mut channel = recorded(
        &flight,
        pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(vec![b'x'; bytes.len()])),
    );
    channel.write_inbound([0; 10]).write_inbound([0; 11]);
    let recording = so_far(&flight);
    let kept = recording.records().filter_map(|record| match record.what {
        Seen::Written(piece) => Some((piece.bytes.len(), piece.len, piece.is_whole())),
        _ => None,
    });
    assert_eq!(kept.collect::<Vec<_>>(), [(10, 10, true), (10, 11, false)]);
    assert_eq!(recording.written_len(), 21);
}

#[test]
fn who_somebody_is_does_not_show_in_a_file_unless_that_is_wanted() {
    let head = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\nx-key: 7\r\n\r\n";
    let shown = |redaction: Option<Redaction>| {
        let builder = FlightRecorder::builder().addresses(false);
        let builder = match redaction {
            Some(redaction) => builder.redact(redaction),
            None => builder,
        };
        let (flight, files) = flight(builder.when(When::ALWAYS));
        let mut channel = recorded(&flight, echo());
        let (first, second) = head.split_at(40); // within the value
        channel.write_inbound(first).write_inbound(second).close_by_peer();
        let recording = files.next().1;
        assert!(recording.peer().is_none());
        assert_eq!(bytes_of(&recording, read), bytes_of(&recording, written));
        String::from_utf8(bytes_of(&recording, read)).unwrap()
    };
    let covered = head.replace("Basic YTpi", "**********");
    assert_eq!(shown(None), covered);
    assert_eq!(shown(Some(Redaction::none())), head);
    assert_eq!(shown(Some(Redaction::http().header("X-Key"))), covered.replace("x-key: 7", "x-key: *"));
    let own = Redaction::none().and(|way, bytes| {
        assert!(matches!(way, Direction::In | Direction::Out));
        bytes.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte = b'#');
    });
    assert_eq!(shown(Some(own)), head.replace("1.1", "#.#").replace('7', "#"));
}

#[test]
fn a_recorder_that_comes_while_a_secret_is_on_its_way_does_not_show_the_rest_of_it() {
    let (flight, files) = when(When::ALWAYS);
    let (mut channel, slot) = slotted();
    channel.write_inbound("GET / HTTP/1.1\r\nCookie: the first half, ");
    slot.put(flight.recorder());
    channel.write_inbound("the second half\r\nHost: a\r\n\r\n");
    assert_eq!(bytes_of(&so_far(&flight), read), b"***************\r\nHost: a\r\n\r\n");
    slot.clear();
    channel.write_inbound("after");
    let recording = files.next().1;
    for way in [read, written] {
        assert_eq!(bytes_of(&recording, way), b"***************\r\nHost: a\r\n\r\n");
    }
}

/// What the last text of a recording says.
fn last_text(recording: &netwright_record::Recording) -> String {
    let texts = recording.records().filter_map(|record| match record.what {
        Seen::Panicked(text) | Seen::Error(text) => Some(text),
        Seen::Inactive(cause) | Seen::Close(cause) => Some(cause.text),
        _ => None,
    });
    texts.last().expect("it ended")
}

#[test]
fn texts_do_not_show_what_is_covered_elsewhere() {
    let request = "GET / HTTP/1.1\r\nCookie: id=secret7\r\n\r\n";
    type Say = fn(&str) -> String;
    let says: [(Say, &str); 3] = [
        (
            |request| format!("no such head: {request:?}"),
            "no such head: \"GET / HTTP/1.1\\r\\nCookie: *******************",
        ),
        (|request| format!("no such id: {}", &request[27..34]), "no such id: *******"),
        (|request| format!("no such cookie: {}", &request[24..34]), "no such cookie: **********"),
    ];
    for (say, shown) in says {
        for panics in [true, false] {
            let (flight, files) = when(When::TROUBLE);
            let handler = pipeline().handle(move |cx, bytes: BytesMut| {
                let text = say(std::str::from_utf8(&bytes).unwrap());
                assert!(!panics, "{text}");
                cx.fire_error(io::Error::other(text));
            });
            recorded(&flight, handler).write_inbound(request);
            let text = last_text(&files.next().1);
            assert!(text.ends_with(shown), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }
    // Unless that is wanted, or nothing of any text is.
    for (redaction, shown) in [
        (Redaction::none(), "no such id: secret7"),
        (Redaction::none().without_texts(), "*******************"),
    ] {
        let (flight, files) = flight(FlightRecorder::builder().redact(redaction));
        let panics = pipeline().handle(|_, bytes: BytesMut| {
            panic!("no such id: {}", std::str::from_utf8(&bytes[27..34]).unwrap())
        });
        recorded(&flight, panics).write_inbound(request);
        assert_eq!(last_text(&files.next().1), shown);
    }
}

#[test]
fn what_a_function_has_covered_is_covered_in_texts() {
    let digits = Redaction::none().and(|_, bytes| {
        bytes.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte = b'#');
    });
    let (flight, files) = flight(FlightRecorder::builder().redact(digits));
    let panics = pipeline().handle(|_, _: BytesMut| panic!("no account 47114711 in 2 tries"));
    recorded(&flight, panics).write_inbound("PAY 47114711");
    assert_eq!(last_text(&files.next().1), "no account ******** in 2 tries");
}

#[test]
fn a_sink_that_fails_is_counted_and_the_channel_goes_on() {
    let full = |_: &netwright_record::NewRecording| Err(io::ErrorKind::StorageFull.into());
    let flight = FlightRecorder::builder().to(full).build();
    let mut channel = recorded(&flight, echo());
    channel.write_inbound("x");
    assert!(flight.live()[0].write());
    assert!(flight.wait_until_written(PATIENCE));
    let figures = flight.figures();
    assert_eq!((figures.written, figures.failed, figures.live), (0, 1, 1));
    channel.read_outbound();
    assert_eq!(channel.write_inbound("y").outbound_bytes(), b"y");
}

#[test]
fn more_recordings_than_may_wait_are_dropped_and_counted() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let workers = netwright_core::Workers::new(1).unwrap();
    let slow = move |_: &netwright_record::NewRecording| {
        let _ = wait.lock().unwrap().recv();
        Ok(())
    };
    let flight = FlightRecorder::builder().workers(workers).to(slow).build();
    let channel = recorded(&flight, echo());
    let live = flight.find(channel.channel().id()).unwrap();
    for _ in 0..65 {
        assert!(live.write());
    }
    assert_eq!(flight.figures().dropped, 1);
    assert!(!flight.wait_until_written(Duration::ZERO));
    drop(go);
    assert!(flight.wait_until_written(PATIENCE));
    assert_eq!(flight.figures().written, 64);
}

/// Flushes what it answers a second later.
struct FlushesLater;

impl Application for FlushesLater {
    type Read = BytesMut;
    type Write = bytes::Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
        cx.arm(Duration::from_secs(1));
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
        cx.flush();
    }
}

#[test]
fn a_flush_that_comes_later_than_a_long_piece_moves_no_time_of_what_follows() {
    for len in [10, 512, 513, 1000, 4000] {
        let (flight, _files) = when(When::BY_HAND);
        let mut channel = recorded(&flight, pipeline().app(FlushesLater));
        for _ in 0..3 {
            channel.write_inbound(vec![b'x'; len]).advance(Duration::from_secs(10));
            channel.write_inbound("short").advance(Duration::from_secs(10));
        }
        let recording = so_far(&flight);
        let reads = recording.records().filter(|record| matches!(record.what, Seen::Read(_)));
        let times: Vec<_> = reads.map(|record| record.at.as_secs()).collect();
        assert_eq!(times, [0, 10, 20, 30, 40, 50], "{len}");
        let flushes = recording.records().filter(|record| record.what == Seen::Flush);
        let times: Vec<_> = flushes.map(|record| record.at.as_secs()).collect();
        assert_eq!(times, [1, 11, 21, 31, 41, 51], "{len}");
    }
}

#[test]
fn a_recording_that_was_written_by_hand_is_written_again_if_trouble_comes_without_another_piece() {
    struct PanicsLater;
    impl Application for PanicsLater {
        type Read = BytesMut;
        type Write = bytes::Bytes;

        fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
            cx.arm(Duration::from_secs(1));
        }
        fn timer(&mut self, _: &mut AppContext<'_, Self>, _: StageTimer) {
            panic!("later");
        }
    }
    let (flight, files) = when(When::TROUBLE);
    let mut channel = recorded(&flight, pipeline().app(PanicsLater));
    channel.write_inbound("x");
    assert!(flight.live()[0].write());
    assert_eq!(files.next().0, Why::ByHand);
    channel.advance(Duration::from_secs(2));
    let (why, recording) = files.next();
    assert_eq!((why, last_text(&recording).as_str()), (Why::Panic, "later"));
}

#[test]
fn a_panic_behind_an_error_that_was_written_is_written_too() {
    struct Panics;
    impl Application for Panics {
        type Read = BytesMut;
        type Write = bytes::Bytes;

        fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
        fn error(&mut self, _: &mut AppContext<'_, Self>, fault: Fault) {
            panic!("cannot live with: {fault}");
        }
    }
    let (flight, files) = when(When::TROUBLE);
    let stages = pipeline().add(Raises).add(flight.stage()).app(Panics);
    EmbeddedChannel::of(stages).write_inbound("bad");
    assert_eq!(files.next().0, Why::Error);
    let (why, recording) = files.next();
    assert_eq!((why, last_text(&recording).as_str()), (Why::Panic, "cannot live with: bad record"));
    files.expect_nothing(&flight);
}

#[test]
fn a_text_that_is_cut_within_a_secret_does_not_show_its_beginning() {
    let secret = "0123456789abcdef";
    for shown in 0..=secret.len() {
        let (flight, files) = when(When::TROUBLE);
        let panics = pipeline().handle(move |_, _: BytesMut| {
            panic!("{}{secret} and much more behind it", " ".repeat(4096 - shown));
        });
        recorded(&flight, panics).write_inbound(format!("GET / HTTP/1.1\r\nCookie: {secret}\r\n\r\n"));
        let text = last_text(&files.next().1);
        assert_eq!(text.len(), 4096);
        let seen = text.trim_start().trim_end_matches('*');
        assert!(seen.len() < 4, "{shown} bytes of a secret, of which {seen:?} are seen");
    }
}

#[test]
fn a_secret_behind_the_first_kilobytes_of_a_value_is_covered_in_texts_too() {
    for before in [100, 4090, 5000, 20_000] {
        let cookie = format!("{}; id=secret7", "a=b; ".repeat(before / 5));
        let (flight, files) = when(When::TROUBLE);
        let panics = pipeline().handle(move |_, _: BytesMut| panic!("no such id: secret7"));
        recorded(&flight, panics).write_inbound(format!("GET / HTTP/1.1\r\nCookie: {cookie}\r\n\r\n"));
        let text = last_text(&files.next().1);
        assert!(!text.contains("secret"), "{before}: {text}");
    }
}

#[test]
fn a_sink_or_a_redaction_that_panics_is_counted_as_failed_and_the_next_file_is_written() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static PANICS: AtomicBool = AtomicBool::new(true);
    let panics = || assert!(!PANICS.load(Ordering::Relaxed), "on purpose");
    let sink = move |_: &netwright_record::NewRecording| {
        panics();
        Ok(())
    };
    let redaction = Redaction::http().and(move |_, _| panics());
    let builder = FlightRecorder::builder();
    for builder in [builder.to(sink), FlightRecorder::builder().redact(redaction).to(|_: &_| Ok(()))] {
        PANICS.store(true, Ordering::Relaxed);
        let flight = builder.build();
        let mut channel = recorded(&flight, echo());
        channel.write_inbound("x");
        for _ in 0..3 {
            assert!(flight.live()[0].write());
            assert!(flight.wait_until_written(PATIENCE));
        }
        assert_eq!((flight.figures().written, flight.figures().failed), (0, 3));
        PANICS.store(false, Ordering::Relaxed);
        assert!(flight.live()[0].write());
        assert!(flight.wait_until_written(PATIENCE));
        assert_eq!((flight.figures().written, flight.figures().failed), (1, 3));
        assert!(channel.is_open());
    }
}
