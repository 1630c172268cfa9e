//! Demand is strict: paused means that nothing is delivered, and asking for one message delivers one.

use super::*;
use netwright_core::{Hold, Kept, WaterMarks};
use std::{collections::VecDeque, io, time::Duration};

#[test]
fn pausing_in_read_stops_the_second_frame_of_the_same_chunk() {
    let log = Log::default();
    let mut channel = lines(&log, on_line(&log, |cx, _| cx.pause()));
    channel.write_inbound("a\nb\nc\n");
    assert_eq!(log.take(), ["app read a"]);
    assert!(!channel.wants_read());
    channel.channel().resume();
    channel.run();
    assert_eq!(log.take(), ["app read b"]); // where it pauses again
    channel.channel().resume();
    channel.run();
    assert_eq!(log.take(), ["app read c", "app read_complete"]);
}

#[test]
fn resuming_delivers_what_was_held_in_order_and_before_what_comes_later() {
    let log = Log::default();
    let mut first = true;
    let mut channel = lines(
        &log,
        on_line(&log, move |cx, _| {
            if std::mem::take(&mut first) {
                cx.pause();
            }
        }),
    );
    channel.write_inbound("a\nb\nc");
    channel.write_inbound("\nd\n");
    assert_eq!(log.take(), ["app read a"]);
    channel.channel().resume();
    channel.run();
    assert_eq!(
        log.take(),
        ["app read b", "app read_complete", "app read c", "app read d", "app read_complete"]
    );
    channel.write_inbound("e\n");
    assert_eq!(log.take(), ["app read e", "app read_complete"]);
}

#[test]
fn asking_for_one_message_brings_one_through_two_decoders() {
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).add(Words::default()).app(watch(&log));
    let mut channel = EmbeddedChannel::with_settings(stages, paused_at_first());
    log.take();
    channel.write_inbound("a b\nc\n");
    assert_eq!(log.take(), [""; 0]);
    for word in ["app read a", "app read b"] {
        channel.channel().request();
        channel.run();
        assert_eq!(log.take(), [word]);
    }
    channel.channel().request();
    channel.run();
    assert_eq!(log.take(), ["app read c", "app read_complete"]); // events are not counted
    assert!(!channel.wants_read());
    // Nothing is left: the next one has to come from the wire.
    channel.channel().request();
    channel.run();
    assert!(channel.wants_read());
    channel.write_inbound("d e\n");
    assert_eq!(log.take(), ["app read d"]);
    assert!(!channel.wants_read());
}

#[test]
fn asking_for_one_message_brings_one_to_the_collector_of_an_embedded_channel() {
    let stages = pipeline().add(Lines::default()).add(Words::default());
    let mut channel = EmbeddedChannel::with_settings(stages, paused_at_first());
    channel.write_inbound("a b\nc\n");
    channel.channel().request();
    channel.run();
    assert_eq!(channel.read_inbound().as_deref(), Some("a"));
    assert_eq!(channel.read_inbound(), None);
}

#[test]
fn asking_twice_brings_two_and_a_pause_takes_back_what_was_asked_for() {
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).app(watch(&log));
    let mut channel = EmbeddedChannel::with_settings(stages, paused_at_first());
    log.take();
    channel.channel().request();
    channel.channel().request();
    channel.run();
    channel.write_inbound("a\nb\nc\nd\n");
    assert_eq!(log.take(), ["app read a", "app read b"]);
    channel.channel().resume();
    channel.run();
    log.take();
    channel.channel().pause();
    channel.channel().request();
    channel.channel().pause();
    channel.run();
    assert!(!channel.wants_read());
    channel.write_inbound("e\n");
    assert_eq!(log.take(), [""; 0]);
}

#[test]
fn an_application_that_asks_for_the_next_in_every_read_gets_them_all_one_by_one() {
    let log = Log::default();
    let app = script(&log, |cx, call| {
        if matches!(call, Call::Active | Call::Read(_)) {
            assert!(cx.view().is_paused(), "one was asked for, and that one is here");
            cx.request();
        }
    });
    let mut channel =
        EmbeddedChannel::with_settings(pipeline().add(Lines::default()).app(app), paused_at_first());
    log.take();
    channel.write_inbound("a\nb\nc\n");
    assert_eq!(log.take(), ["app read a", "app read b", "app read c", "app read_complete"]);
}

#[test]
fn asking_for_one_while_everything_flows_changes_nothing() {
    let log = Log::default();
    let mut channel = lines(&log, on_line(&log, |cx, _| cx.request()));
    channel.write_inbound("a\nb\n");
    channel.write_inbound("c\n");
    assert_eq!(log.take().len(), 5);
    assert!(channel.wants_read());
}

#[test]
fn a_pause_that_is_taken_back_in_the_same_call_holds_nothing() {
    let log = Log::default();
    let mut channel = lines(
        &log,
        on_line(&log, |cx, _| {
            cx.pause();
            assert!(cx.view().is_paused());
            cx.resume();
        }),
    );
    channel.write_inbound("a\nb\n");
    assert_eq!(log.take(), ["app read a", "app read b", "app read_complete"]);
}

#[test]
fn messages_fired_from_inside_one_call_are_held_from_the_pause_on() {
    let log = Log::default();
    let mut first = true;
    let app = on_line(&log, move |cx, _| {
        if std::mem::take(&mut first) {
            cx.pause();
        }
    });
    let stages = pipeline().add(Lines::default()).add(Burst).add(spy("spy", &log)).app(app);
    let mut channel = EmbeddedChannel::new(stages);
    log.take();
    channel.write_inbound("a b c\nd e\n");
    assert_eq!(
        log.take(),
        ["spy read a", "app read a", "spy flush"],
        "what was written before a pause goes out"
    );
    channel.write_inbound("f\n");
    channel.channel().request();
    channel.run();
    assert_eq!(log.take(), ["spy read b", "app read b", "spy flush"]);
    channel.channel().resume();
    channel.run();
    assert_eq!(
        log.take(),
        [
            "spy read c",
            "app read c",
            "spy read d",
            "app read d",
            "spy read e",
            "app read e",
            "spy read_complete",
            "app read_complete",
            "spy read f",
            "app read f",
            "spy read_complete",
            "app read_complete",
        ]
    );
}

/// Behind `Lines`: turns some lines into what their name says.
struct Turn;

impl Handler<Here> for Turn {
    type Read = String;
    type ReadOut = String;
    type Write = String;
    type WriteOut = String;

    fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
        match line.as_str() {
            "error" => cx.fire_error(io::Error::other("made")),
            "event" => cx.fire_event(Event::new("made")),
            _ => cx.fire_read(line),
        }
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
        cx.write_with(line, done);
    }
}

#[test]
fn no_event_overtakes_a_message_that_is_held() {
    let log = Log::default();
    let mut first = true;
    let app = on_line(&log, move |cx, _| {
        if std::mem::take(&mut first) {
            cx.pause();
        }
    });
    let stages = pipeline().add(Lines::default()).add(Turn).add(Words::default());
    let mut channel = EmbeddedChannel::new(stages.app(app.keeping_errors()));
    log.take();
    channel.write_inbound("a b\nerror\nevent\nc\n");
    channel.close_input();
    channel.close_by_peer();
    assert_eq!(log.take(), ["app read a", "app writability true"]); // only news of room passes
    assert!(!channel.is_open()); // the outside knows, the pipeline still has to read
    channel.channel().resume();
    channel.run();
    assert_eq!(
        log.take(),
        [
            "app read b",
            "app error made",
            "app event made",
            "app read c",
            "app read_complete",
            "app input_closed",
            "app inactive closed by the peer",
            "app removed",
        ]
    );
}

#[test]
fn each_kind_of_event_alone_waits_for_a_message_that_a_decoder_has_not_given_out() {
    type Cause = fn(&mut AppChannel);
    let kinds: [(&str, Cause); 3] = [
        ("app read_complete", |_| ()),
        ("app input_closed", |channel| _ = channel.close_input()),
        ("app inactive closed by the peer", |channel| _ = channel.close_by_peer()),
    ];
    for (kind, cause) in kinds {
        let log = Log::default();
        let mut channel = lines(
            &log,
            on_line(&log, |cx, line| {
                if line == "a" {
                    cx.pause()
                }
            }),
        );
        channel.write_inbound("a\nb\n");
        cause(&mut channel);
        let before: Vec<_> = log.take().into_iter().filter(|entry| entry != "app writability true").collect();
        assert_eq!(before, ["app read a"], "{kind}");
        channel.channel().resume();
        channel.run();
        let seen = log.take();
        assert_eq!(seen[0], "app read b", "{kind}");
        assert!(seen.iter().any(|entry| entry == kind), "{kind}: {seen:?}");
    }
}

#[test]
fn events_pass_while_paused_when_no_message_is_held() {
    let log = Log::default();
    let mut channel = lines(&log, on_line(&log, |cx, _| cx.pause()));
    channel.write_inbound("a\nhalf a li");
    assert_eq!(log.take(), ["app read a", "app read_complete"]);
    channel.close_by_peer();
    assert_eq!(log.take(), ["app inactive closed by the peer", "app removed"]);
}

#[test]
fn an_event_that_waited_for_a_message_goes_on_with_it_although_delivery_stays_paused() {
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).add(Words::default()).app(watch(&log));
    let mut channel = EmbeddedChannel::with_settings(stages, paused_at_first());
    log.take();
    channel.write_inbound("a b\nc\n");
    channel.close_by_peer();
    for _ in 0..2 {
        channel.channel().request();
    }
    channel.run();
    let told = |log: &Log| -> Vec<_> {
        log.take().into_iter().filter(|entry| entry != "app writability true").collect()
    };
    assert_eq!(told(&log), ["app read a", "app read b"]);
    channel.channel().request();
    channel.run();
    assert_eq!(
        log.take(),
        ["app read c", "app read_complete", "app inactive closed by the peer", "app removed"]
    );
}

#[test]
fn while_paused_a_decoder_gives_out_one_message_at_most_however_many_events_come() {
    /// Counts how many messages it was asked for.
    struct Asked {
        messages: VecDeque<String>,
        given: Shared<u32>,
    }
    impl Handler<Here> for Asked {
        type Read = String;
        type ReadOut = String;
        type Write = String;
        type WriteOut = String;
        fn read(&mut self, _: &mut Context<'_, Self, Here>, line: String) {
            self.messages.extend(line.split_whitespace().map(str::to_owned));
        }
        fn pull(&mut self, _: &mut Context<'_, Self, Here>) -> Option<String> {
            let message = self.messages.pop_front()?;
            self.given.set(self.given.get() + 1);
            Some(message)
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            cx.write_with(line, done);
        }
    }
    let (log, given) = (Log::default(), Shared::new(0));
    let asked = Asked { messages: VecDeque::new(), given: given.clone() };
    let app = on_line(&log, |cx, line| {
        if line == "a" {
            cx.pause()
        }
    });
    let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).add(asked).app(app));
    log.take();
    channel.channel().pause();
    channel.run();
    channel.write_inbound("a b c d e\n");
    assert_eq!(given.get(), 0, "nothing has come this far");
    channel.channel().request();
    channel.run();
    assert!(given.get() <= 2, "the one that was delivered and the one that is held: {}", given.get());
    for _ in 0..3 {
        channel.close_input();
        channel.channel().flush(); // anything that makes the pipeline run
        channel.run();
    }
    assert!(given.get() <= 2, "{}", given.get());
    channel.channel().resume();
    channel.run();
    assert_eq!(log.take().len(), 5 + 1 + 3);
}

#[test]
fn news_of_room_passes_messages_that_are_held() {
    let log = Log::default();
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(100, 1000).unwrap();
    let app = script(&log, |cx, call| match call {
        Call::Read(line) if line == "a" => cx.write_and_flush("x".repeat(2000)),
        Call::Writability(false) => cx.pause(),
        Call::Writability(true) => cx.resume(),
        _ => {}
    });
    let mut channel = EmbeddedChannel::with_settings(pipeline().add(Lines::default()).app(app), settings);
    log.take();
    channel.block_output(true);
    channel.write_inbound("a\nb\nc\n");
    assert_eq!(log.take(), ["app read a", "app writability false"]);
    channel.block_output(false);
    assert_eq!(log.take(), ["app writability true", "app read b", "app read c", "app read_complete"]);
}

on_the_loop_only! {
    #[test]
    fn what_is_written_on_news_of_room_is_carried_out_although_delivery_is_paused() {
        let log = Log::default();
        let mut settings = HostSettings::default();
        settings.water_marks = WaterMarks::new(100, 1000).unwrap();
        let app = script(&log, |cx, call| match call {
            Call::Read(_) => cx.write("x".repeat(2000)),
            Call::Writability(false) => {
                cx.pause();
                cx.flush();
            }
            _ => {}
        });
        let mut channel = EmbeddedChannel::with_settings(pipeline().add(Lines::default()).app(app), settings);
        log.take();
        channel.write_inbound("a\n");
        assert_eq!(channel.outbound_bytes().len(), 2001);
        assert_eq!(
            log.take(),
            ["app read a", "app writability false", "app read_complete", "app writability true"]
        );
    }
}

#[test]
fn nothing_is_read_before_it_is_asked_for_if_reading_does_not_start_by_itself() {
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).app(watch(&log));
    let mut channel = EmbeddedChannel::with_settings(stages, paused_at_first());
    assert!(!channel.wants_read());
    assert_eq!(log.take(), ["app active"]);
    channel.channel().request();
    channel.run();
    assert!(channel.wants_read());
    channel.channel().resume();
    channel.run();
    channel.write_inbound("a\nb\n");
    assert_eq!(log.take(), ["app read a", "app read b", "app read_complete"]);
}

#[test]
fn a_stage_in_the_middle_may_pause_too() {
    /// Lets one line through for each `resume` from outside.
    struct Gate;
    impl Handler<Here> for Gate {
        type Read = String;
        type ReadOut = String;
        type Write = String;
        type WriteOut = String;
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
            cx.fire_read(line);
            cx.pause();
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            cx.write_with(line, done);
        }
    }
    let log = Log::default();
    let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).add(Gate).app(watch(&log)));
    log.take();
    channel.write_inbound("a\nb\n");
    assert_eq!(log.take(), ["app read a"]);
    channel.channel().resume();
    channel.run();
    assert_eq!(log.take(), ["app read b", "app read_complete"]);
}

#[test]
fn a_message_passed_on_after_the_pause_of_the_same_call_is_held() {
    /// Pauses first, then passes on.
    struct Late;
    impl Handler<Here> for Late {
        type Read = String;
        type ReadOut = String;
        type Write = String;
        type WriteOut = String;
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
            cx.pause();
            cx.fire_read(line);
            cx.fire_event(Event::new("passed on"));
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            cx.write_with(line, done);
        }
    }
    let log = Log::default();
    let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).add(Late).app(watch(&log)));
    log.take();
    channel.write_inbound("a\nb\n");
    assert_eq!(log.take(), [""; 0]);
    channel.channel().request();
    channel.run();
    assert_eq!(log.take(), ["app read a", "app event passed on"]);
    channel.channel().resume();
    channel.run();
    assert_eq!(log.take(), [""; 0]); // `b` came in, and paused again
    channel.channel().request();
    channel.run();
    assert_eq!(log.take(), ["app read b", "app event passed on", "app read_complete"]);
}

#[test]
fn a_channel_that_ends_while_paused_still_delivers_what_it_has_when_resumed() {
    let log = Log::default();
    let mut channel = lines(
        &log,
        on_line(&log, |cx, line| {
            if line == "a" {
                cx.pause()
            }
        }),
    );
    channel.write_inbound("a\nb\n");
    channel.close_by_peer();
    assert!(!channel.is_open());
    assert_eq!(log.take(), ["app read a", "app writability true"]);
    channel.channel().resume();
    channel.run();
    assert_eq!(
        log.take(),
        ["app read b", "app read_complete", "app inactive closed by the peer", "app removed"]
    );
}

#[test]
fn closing_a_channel_that_has_ended_drops_what_it_holds() {
    let log = Log::default();
    let mut channel = lines(
        &log,
        on_line(&log, |cx, line| {
            if line == "a" {
                cx.pause()
            }
        }),
    );
    channel.write_inbound("a\nb\n");
    channel.close_by_peer();
    assert_eq!(log.take(), ["app read a", "app writability true"]);
    drop(channel.channel().close());
    channel.run();
    assert_eq!(log.take(), ["app read_complete", "app inactive closed by the peer", "app removed"]);
}

#[test]
fn finish_reports_what_was_held_as_well() {
    let mut channel = EmbeddedChannel::with_settings(pipeline().add(Lines::default()), paused_at_first());
    channel.write_inbound("a\nb\n");
    assert_eq!(channel.finish().inbound, ["a", "b"]);
}

/// Never more than asked for, never out of order, nothing lost: with two decoders, a burst and events in between.
#[test]
fn whatever_is_paused_and_asked_for_messages_come_in_order_and_never_too_many() {
    for seed in 1..=300_u64 {
        let mut state = seed;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let log = Log::default();
        let stages = pipeline().add(Lines::default()).add(Burst).add(Words::default()).app(watch(&log));
        let mut channel = EmbeddedChannel::with_settings(stages, paused_at_first());
        log.take();
        let (mut sent, mut text, mut permits, mut seen) = (0, String::new(), Some(0), Vec::new());
        let mut came = Vec::new();
        for _ in 0..60 {
            match random(6) {
                0 | 1 => {
                    for _ in 0..random(4) {
                        text.push_str(&format!("m{sent}{}", if random(2) == 0 { " " } else { "\n" }));
                        sent += 1;
                    }
                    let cut = random(text.len() as u64 + 1) as usize;
                    channel.write_inbound(text.drain(..cut).collect::<String>());
                }
                2 | 3 => {
                    channel.channel().request();
                    permits = permits.map(|permits| permits + 1);
                }
                4 => {
                    channel.channel().pause();
                    permits = Some(0);
                }
                _ => {
                    channel.channel().resume();
                    permits = None;
                }
            }
            channel.run();
            let new: Vec<_> =
                log.take().into_iter().filter(|entry| entry.starts_with("app read m")).collect();
            if let Some(permits) = &mut permits {
                assert!(new.len() <= *permits, "seed {seed}: {new:?} came, {permits} were asked for");
                *permits -= new.len();
            }
            came.extend(new);
        }
        text.push('\n');
        channel.channel().resume();
        channel.run();
        channel.write_inbound(&text);
        came.extend(log.take().into_iter().filter(|entry| entry.starts_with("app read m")));
        seen.extend((0..sent).map(|n| format!("app read m{n}")));
        assert_eq!(came, seen, "seed {seed}");
    }
}

/// Swallows what comes until it has seen `ready`, whoever asks; then holds everything up until `go` is due.
struct Settles {
    settled: bool,
    hold: bool,
    guard: Option<Hold>,
}

impl Handler<Here> for Settles {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn active(&mut self, cx: &mut Context<'_, Self, Here>) {
        self.guard = Some(cx.insist());
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self, Here>, bytes: BytesMut) {
        if self.settled {
            return cx.fire_read(bytes);
        }
        if bytes == "ready" {
            self.settled = true;
            self.guard.take().unwrap().release(cx);
            if self.hold {
                self.guard = Some(cx.hold());
                cx.arm(Duration::from_secs(1));
            }
        }
    }
    fn timer(&mut self, cx: &mut Context<'_, Self, Here>, _: netwright_core::StageTimer) {
        self.guard.take().unwrap().release(cx);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, msg: Bytes, done: WritePromise) {
        cx.write_with(msg, done);
    }
}

#[test]
fn a_stage_that_insists_gets_what_it_needs_and_no_more_than_was_asked_for_passes_it() {
    let mut channel = EmbeddedChannel::with_settings(
        pipeline().add(Settles { settled: false, hold: false, guard: None }),
        paused_at_first(),
    );
    assert!(channel.wants_read(), "the stage wants to read, though nobody behind it does");
    channel.write_inbound("not").write_inbound("yet").write_inbound("ready");
    assert!(!channel.wants_read(), "settled: from here on it is the application's demand that counts");
    channel.write_inbound("first").write_inbound("second");
    assert_eq!(channel.read_inbound(), None);
    channel.channel().request();
    assert_eq!(channel.run().read_inbound().unwrap(), "first");
    assert_eq!(channel.read_inbound(), None);
}

#[test]
fn a_stage_that_holds_stops_delivery_whatever_the_application_asks_for() {
    let mut channel =
        EmbeddedChannel::new(pipeline().add(Settles { settled: false, hold: true, guard: None }));
    channel.write_inbound("ready");
    assert!(!channel.wants_read());
    channel.channel().resume();
    channel.run().write_inbound("later");
    assert_eq!(channel.read_inbound(), None);
    channel.advance(Duration::from_secs(1));
    assert!(channel.wants_read());
    assert_eq!(channel.read_inbound().unwrap(), "later");
}

/// Keeps what is written until it is flushed, and says how much that is.
#[derive(Default)]
struct Keeps(Vec<Bytes>, Option<Kept>);

impl Handler<Here> for Keeps {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self, Here>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, msg: Bytes, _: WritePromise) {
        self.1.get_or_insert_with(|| cx.keep(0)).add(cx, msg.len());
        self.0.push(msg);
    }
    fn flush(&mut self, cx: &mut Context<'_, Self, Here>) {
        for msg in self.0.drain(..) {
            self.1.as_mut().unwrap().sub(cx, msg.len());
            cx.write(msg);
        }
        cx.flush();
    }
}

#[test]
fn what_a_stage_keeps_counts_as_pending() {
    let mut channel = EmbeddedChannel::new(pipeline().add(Keeps::default()));
    channel.channel().write(Bytes::from(vec![0; 60_000]));
    assert!(channel.run().channel().is_writable());
    channel.channel().write(Bytes::from(vec![0; 60_000]));
    assert!(!channel.run().channel().is_writable());
    channel.channel().flush();
    assert!(channel.run().channel().is_writable());
    assert_eq!(channel.outbound_bytes().len(), 120_000);
}

/// Passes bytes on, and has enough of them from the first until something is written.
#[derive(Default)]
struct Enough(Option<Hold>);

impl Handler<Here> for Enough {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self, Here>, bytes: BytesMut) {
        self.0 = Some(cx.hold_input());
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, bytes: Bytes, done: WritePromise) {
        if let Some(hold) = self.0.take() {
            hold.release(cx);
        }
        cx.write_with(bytes, done);
    }
}

#[test]
fn a_stage_that_holds_input_stops_the_transport_and_not_what_is_inside() {
    let mut channel = EmbeddedChannel::new(pipeline().add(Enough::default()));
    assert!(channel.wants_read());
    channel.write_inbound("a");
    assert!(!channel.wants_read());
    assert_eq!(channel.read_inbound().unwrap(), "a");
    channel.channel().pause();
    channel.run().channel().resume();
    assert!(!channel.run().wants_read(), "what the application says is another matter");
    channel.write_outbound(Bytes::from("b"));
    assert!(channel.wants_read());
}

/// Gives what it read, then has nothing to give and says so, if messages are wanted at all.
#[derive(Default)]
struct SaysWhenEmpty(Option<BytesMut>);

impl Handler<Here> for SaysWhenEmpty {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn read(&mut self, _: &mut Context<'_, Self, Here>, bytes: BytesMut) {
        self.0 = Some(bytes);
    }
    fn pull(&mut self, cx: &mut Context<'_, Self, Here>) -> Option<BytesMut> {
        if self.0.is_none() && !cx.view().is_paused() {
            cx.write_and_flush(Bytes::from_static(b"go on"));
        }
        self.0.take()
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, bytes: Bytes, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

#[test]
fn a_decoder_that_was_asked_for_the_sake_of_an_event_is_asked_again_when_messages_are_wanted() {
    let mut channel = EmbeddedChannel::new(pipeline().add(SaysWhenEmpty::default()));
    channel.channel().pause();
    channel.run().write_inbound("a");
    channel.channel().request();
    assert_eq!(channel.run().read_inbound().unwrap(), "a");
    assert_eq!(channel.outbound_bytes(), b"", "one was asked for, and came");
    channel.channel().request();
    assert_eq!(channel.run().outbound_bytes(), b"go on");
}
