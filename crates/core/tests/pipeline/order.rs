//! Who is called when, and in which order things reach the wire.

use super::*;
use netwright_core::{InboundOnly, InboundStage, inbound};

#[test]
fn inbound_calls_go_depth_first() {
    let log = Log::default();
    let burst = pipeline().add(Lines::default()).add(spy("one", &log)).add(Burst).add(spy("two", &log));
    let mut channel = EmbeddedChannel::new(burst.app(watch(&log)));
    log.take();
    channel.write_inbound("a b\n");
    assert_eq!(
        log.take(),
        [
            "one read a b",
            "two read a",
            "app read a",
            "two read b",
            "app read b",
            "one read_complete",
            "two read_complete",
            "app read_complete"
        ]
    );
}

#[test]
fn replies_to_pulled_messages_reach_the_wire_before_the_next_message_is_looked_at() {
    let log = Log::default();
    let lines = pipeline().add(spy::<_, Bytes>("wire", &log)).add(Lines::default()).add(Words::default());
    let app = on_line(&log, |cx, word| cx.write_and_flush(word.to_uppercase()));
    let mut channel = EmbeddedChannel::new(lines.app(app));
    log.take();
    channel.write_inbound("a b\nc\n");
    assert_eq!(
        log.take(),
        [
            "wire read a b|c",
            "app read a",
            "wire write A",
            "wire flush",
            "app read b",
            "wire write B",
            "wire flush",
            "app read c",
            "wire write C",
            "wire flush",
            "wire read_complete",
            "app read_complete",
        ]
    );
    assert_eq!(channel.outbound_bytes(), b"A\nB\nC\n");
}

on_the_loop_only! {
    #[test]
    fn replies_to_messages_fired_from_inside_a_call_wait_until_that_call_has_returned() {
        let log = Log::default();
        let burst = pipeline().add(Lines::default()).add(spy("front", &log)).add(Burst);
        let app = on_line(&log, |cx, word| cx.write_and_flush(word.to_uppercase()));
        let mut channel = EmbeddedChannel::new(burst.app(app));
        log.take();
        channel.write_inbound("a b\n");
        assert_eq!(
            log.take(),
            [
                "front read a b",
                "app read a",
                "app read b",
                "front write A",
                "front flush",
                "front write B",
                "front flush",
                "front read_complete",
                "app read_complete",
            ]
        );
    }
}

#[test]
fn how_much_room_there_is_is_known_from_message_to_message() {
    let log = Log::default();
    let seen = log.clone();
    let app = on_line(&log, move |cx, line| {
        seen.add(cx.view().pending_bytes());
        cx.write(line.to_owned());
    });
    let mut channel = lines(&log, app);
    channel.write_inbound("abc\nabc\nabc\n");
    let (one, two) = (4 + netwright_core::ENTRY_OVERHEAD, 2 * (4 + netwright_core::ENTRY_OVERHEAD));
    assert_eq!(
        log.take(),
        [
            "app read abc",
            "0",
            "app read abc",
            &one.to_string(),
            "app read abc",
            &two.to_string(),
            "app read_complete"
        ]
    );
}

#[test]
fn operations_pass_every_stage_in_the_order_in_which_they_were_issued() {
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).add(spy("one", &log)).add(spy("two", &log));
    let app = on_line(&log, |cx, _| {
        cx.write("a".into());
        cx.flush();
        cx.write("b".into());
        cx.write("c".into());
        cx.flush();
        cx.close();
    });
    let mut channel = EmbeddedChannel::new(stages.app(app));
    log.take();
    channel.write_inbound("go\n");
    let order = ["write a", "flush", "write b", "write c", "flush", "close"];
    let entries = log.take();
    for stage in ["one", "two"] {
        let seen: Vec<_> = entries
            .iter()
            .filter_map(|entry| entry.strip_prefix(stage)?.strip_prefix(' '))
            .filter(|entry| ["write", "flush", "close"].iter().any(|op| entry.starts_with(op)))
            .collect();
        assert_eq!(seen, order, "{stage}");
    }
    assert_eq!(channel.outbound_bytes(), b"a\nb\nc\n");
}

#[test]
fn events_keep_their_place_among_messages() {
    /// Announces every line.
    struct Announce;
    impl InboundOnly<Here> for Announce {
        type Read = String;
        type ReadOut = String;
        type Write = String;
        fn read(&mut self, cx: &mut Context<'_, InboundStage<Self>, Here>, line: String) {
            cx.fire_event(Event::new("before"));
            cx.fire_read(line);
            cx.fire_event(Event::new("after"));
        }
    }
    let log = Log::default();
    // `Words` behind it gives out what it has only when asked: the events have to wait for that.
    let stages = pipeline().add(Lines::default()).add(inbound(Announce)).add(Words::default());
    let mut channel = EmbeddedChannel::new(stages.app(watch(&log)));
    log.take();
    channel.write_inbound("a b\nc\n");
    assert_eq!(
        log.take(),
        [
            "app event before",
            "app read a",
            "app read b",
            "app event after",
            "app event before",
            "app read c",
            "app event after",
            "app read_complete",
        ]
    );
}

#[test]
fn messages_behind_an_event_do_not_overtake_it_either() {
    /// Tells the number of lines between two words.
    struct Between;
    impl InboundOnly<Here> for Between {
        type Read = String;
        type ReadOut = String;
        type Write = String;
        fn read(&mut self, cx: &mut Context<'_, InboundStage<Self>, Here>, line: String) {
            cx.fire_read(line.clone());
            cx.fire_event(Event::new("between"));
            cx.fire_read(line);
        }
    }
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).add(inbound(Between)).add(Words::default());
    let mut channel = EmbeddedChannel::new(stages.app(watch(&log)));
    log.take();
    channel.write_inbound("a b\n");
    assert_eq!(
        log.take(),
        ["app read a", "app read b", "app event between", "app read a", "app read b", "app read_complete"]
    );
}

#[test]
fn what_a_stage_fires_on_read_complete_comes_before_read_complete() {
    /// Keeps the last line until the transport has no more.
    #[derive(Default)]
    struct Last(Option<String>);
    impl Handler<Here> for Last {
        type Read = String;
        type ReadOut = String;
        type Write = String;
        type WriteOut = String;
        fn read(&mut self, _: &mut Context<'_, Self, Here>, line: String) {
            self.0 = Some(line);
        }
        fn read_complete(&mut self, cx: &mut Context<'_, Self, Here>) {
            if let Some(line) = self.0.take() {
                cx.fire_read(line);
            }
            cx.fire_read_complete();
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            cx.write_with(line, done);
        }
    }
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).add(Last::default()).add(Words::default());
    let mut channel = EmbeddedChannel::new(stages.app(watch(&log)));
    log.take();
    channel.write_inbound("a\nb\nc d\n");
    assert_eq!(log.take(), ["app read c", "app read d", "app read_complete"]);
}

#[test]
fn a_handler_is_never_called_while_it_runs() {
    /// Notices if it is.
    struct Alone {
        running: Shared<bool>,
        calls: Shared<u32>,
    }
    impl Alone {
        fn alone<H: Handler<Here>>(
            &self,
            cx: &mut Context<'_, H, Here>,
            call: impl FnOnce(&mut Context<'_, H, Here>),
        ) {
            assert!(!std::mem::replace(&mut *self.running.lock(), true), "called while it runs");
            call(cx);
            self.running.set(false);
            self.calls.set(self.calls.get() + 1);
        }
    }
    impl Handler<Here> for Alone {
        type Read = String;
        type ReadOut = String;
        type Write = String;
        type WriteOut = String;
        fn active(&mut self, cx: &mut Context<'_, Self, Here>) {
            self.alone(cx, |cx| cx.fire_active());
        }
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
            self.alone(cx, |cx| cx.fire_read(line));
        }
        fn read_complete(&mut self, cx: &mut Context<'_, Self, Here>) {
            self.alone(cx, |cx| cx.fire_read_complete());
        }
        fn writability(&mut self, cx: &mut Context<'_, Self, Here>, writable: bool) {
            self.alone(cx, |cx| cx.fire_writability(writable));
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            self.alone(cx, |cx| cx.write_with(line, done));
        }
        fn flush(&mut self, cx: &mut Context<'_, Self, Here>) {
            self.alone(cx, |cx| cx.flush());
        }
        fn close(&mut self, cx: &mut Context<'_, Self, Here>, cause: CloseCause, done: WritePromise) {
            self.alone(cx, |cx| cx.close_with(cause, done));
        }
        fn inactive(&mut self, cx: &mut Context<'_, Self, Here>, cause: CloseCause) {
            self.alone(cx, |cx| cx.fire_inactive(cause));
        }
    }
    let (log, calls) = (Log::default(), Shared::new(0));
    let alone = Alone { running: Shared::default(), calls: calls.clone() };
    let app = script(&log, |cx, call| match call {
        Call::Read(line) => {
            for _ in 0..3 {
                cx.write_and_flush(line.repeat(20_000)); // over the high mark: writability flips meanwhile
            }
            if line == "b" {
                cx.close();
            }
        }
        _ => cx.write_and_flush("x".into()),
    });
    let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).add(alone).add(Burst).app(app));
    channel.write_inbound("a a a\nb\n");
    assert_eq!(channel.channel().close_cause().map(|cause| cause.to_string()).unwrap(), "closed by our side");
    assert!(calls.get() > 25, "{}", calls.get());
}

#[test]
fn writes_in_added_and_active_reach_the_wire_in_that_order_from_the_first_stage_on() {
    /// Introduces itself.
    struct Eager(&'static str);
    impl Handler<Here> for Eager {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Bytes;
        type WriteOut = Bytes;
        fn added(&mut self, cx: &mut Context<'_, Self, Here>) {
            cx.write_and_flush(Bytes::from(format!("{} added, ", self.0)));
        }
        fn active(&mut self, cx: &mut Context<'_, Self, Here>) {
            cx.write_and_flush(Bytes::from(format!("{} active, ", self.0)));
            cx.fire_active();
        }
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, bytes: Bytes, done: WritePromise) {
            cx.write_with(bytes, done);
        }
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(Eager("one")).add(Eager("two")));
    let text = String::from_utf8(channel.outbound_bytes()).unwrap();
    assert_eq!(text, "one added, two added, one active, two active, ");
}

#[test]
fn a_message_that_no_stage_took_ends_quietly_at_the_end() {
    let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).add(Words::default()));
    channel.write_inbound("a b\n");
    let left = channel.finish();
    assert_eq!(left.inbound, ["a", "b"]); // the embedded channel's collector is the last stage here
    assert!(left.outbound.is_empty());
}

#[test]
fn what_a_stage_writes_when_asked_for_a_message_is_carried_out_although_it_has_none() {
    /// Wakes up once, and then refuses instead of giving a message.
    struct Refuses {
        due: bool,
    }
    impl Handler<Here> for Refuses {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Bytes;
        type WriteOut = Bytes;
        fn active(&mut self, cx: &mut Context<'_, Self, Here>) {
            cx.arm(ms(10));
            cx.fire_active();
        }
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
        fn timer(&mut self, _: &mut Context<'_, Self, Here>, _: StageTimer) {
            self.due = true;
        }
        fn pull(&mut self, cx: &mut Context<'_, Self, Here>) -> Option<BytesMut> {
            if std::mem::take(&mut self.due) {
                cx.write_and_flush(Bytes::from_static(b"too slow"));
                cx.close();
            }
            None
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, bytes: Bytes, done: WritePromise) {
            cx.write_with(bytes, done);
        }
    }
    let log = Log::default();
    let stages = pipeline()
        .add(spy::<_, Bytes>("one", &log))
        .add(spy::<_, Bytes>("two", &log))
        .add(Refuses { due: false });
    let mut channel = EmbeddedChannel::new(stages);
    channel.advance(ms(10));
    assert_eq!(channel.outbound_bytes(), b"too slow");
    assert!(!channel.is_open());
}
