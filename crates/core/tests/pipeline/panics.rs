//! A handler that panics costs its own channel, and nothing else.

use super::*;
use netwright_core::{Carries, Outgoing, WaterMarks};

/// Panics in the method of this name, and writes down every call.
struct Mine {
    method: &'static str,
    log: Log,
}

impl Mine {
    fn step_on(&self, method: &'static str) {
        self.log.add(method);
        if method == self.method {
            std::panic::resume_unwind(Box::new(format!("stepped on {method}"))); // no noise from the hook
        }
    }
}

impl Handler<Here> for Mine {
    type Read = String;
    type ReadOut = String;
    type Write = String;
    type WriteOut = String;

    fn added(&mut self, _: &mut Context<'_, Self, Here>) {
        self.step_on("added");
    }
    fn active(&mut self, cx: &mut Context<'_, Self, Here>) {
        self.step_on("active");
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
        self.step_on("read");
        match line.as_str() {
            "timer" => _ = cx.arm(ms(1)),
            "error" => cx.fire_error(Fault::new("an error")),
            _ => cx.fire_read(line),
        }
    }
    fn pull(&mut self, _: &mut Context<'_, Self, Here>) -> Option<String> {
        self.step_on("pull");
        None
    }
    fn read_complete(&mut self, cx: &mut Context<'_, Self, Here>) {
        self.step_on("read_complete");
        cx.fire_read_complete();
    }
    fn event(&mut self, cx: &mut Context<'_, Self, Here>, event: Event) {
        self.step_on("event");
        cx.fire_event(event);
    }
    fn writability(&mut self, cx: &mut Context<'_, Self, Here>, writable: bool) {
        self.step_on("writability");
        cx.fire_writability(writable);
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self, Here>) {
        self.step_on("input_closed");
        cx.fire_input_closed();
    }
    fn error(&mut self, cx: &mut Context<'_, Self, Here>, fault: Fault) {
        self.step_on("error");
        cx.fire_error(fault);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, Here>, cause: CloseCause) {
        self.step_on("inactive");
        cx.fire_inactive(cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
        self.step_on("write");
        cx.write_with(line, done);
    }
    fn flush(&mut self, cx: &mut Context<'_, Self, Here>) {
        self.step_on("flush");
        cx.flush();
    }
    fn close(&mut self, cx: &mut Context<'_, Self, Here>, cause: CloseCause, done: WritePromise) {
        self.step_on("close");
        cx.close_with(cause, done);
    }
    fn timer(&mut self, _: &mut Context<'_, Self, Here>, _: StageTimer) {
        self.step_on("timer");
    }
}

/// In front of the mine: raises errors and events, which else only come by accident.
struct Provoke;

impl Handler<Here> for Provoke {
    type Read = String;
    type ReadOut = String;
    type Write = String;
    type WriteOut = String;

    fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
        match line.as_str() {
            "raise" => cx.fire_error(Fault::new("provoked")),
            "event" => cx.fire_event(Event::new("provoked")),
            _ => cx.fire_read(line),
        }
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
        cx.write_with(line, done);
    }
}

type Mined = EmbeddedChannel<Infallible, String>;

fn mined(method: &'static str, log: &Log) -> Mined {
    let mine = Mine { method, log: log.clone() };
    let stages = pipeline().add(Lines::default()).add(Provoke).add(mine);
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(100, 1000).unwrap();
    EmbeddedChannel::with_settings(stages.app(watch(&Log::default()).keeping_errors()), settings)
}

/// Lets a chain of calls be one expression.
fn ignore(_: &mut Mined) {}

#[test]
fn a_panic_in_any_method_closes_the_channel_with_what_it_said() {
    type Provocation = fn(&mut Mined);
    let line = |channel: &mut Mined| ignore(channel.write_inbound("line\n"));
    let write = |channel: &mut Mined| ignore(channel.write_outbound("line".into()));
    let methods: [(&str, Provocation); 13] = [
        ("added", |_| ()),
        ("active", |_| ()),
        ("read", line),
        ("pull", line),
        ("read_complete", line),
        ("event", |channel| ignore(channel.write_inbound("event\n"))),
        ("error", |channel| ignore(channel.write_inbound("raise\n"))),
        ("writability", |channel| ignore(channel.block_output(true).write_outbound("x".repeat(2000)))),
        ("input_closed", |channel| ignore(channel.close_input())),
        ("write", write),
        ("flush", write),
        ("close", |channel| {
            drop(channel.channel().close());
            channel.run();
        }),
        ("timer", |channel| ignore(channel.write_inbound("timer\n").advance(ms(1)))),
    ];
    for (method, provoke) in methods {
        let log = Log::default();
        let mut channel = mined(method, &log);
        provoke(&mut channel);
        let cause = channel.channel().close_cause().unwrap_or_else(|| panic!("open after {method} panicked"));
        assert_eq!(cause.to_string(), format!("a handler panicked: stepped on {method}"));
        let calls = log.take();
        assert_eq!(calls.last().unwrap(), method, "called again: {calls:?}");
        // Nothing reaches the broken pipeline any more, whatever happens.
        channel.write_inbound("a\n").close_input().close_by_peer().advance(ms(1000));
        channel.block_output(false);
        let mut late = channel.channel().send("late".into());
        channel.channel().resume();
        drop(channel.channel().close());
        channel.run();
        assert_eq!(log.take(), [""; 0], "after {method}");
        assert_eq!(
            outcome(late.try_take()),
            format!("the channel is closed: a handler panicked: stepped on {method}")
        );
    }
}

#[test]
fn a_panic_in_inactive_changes_nothing_about_the_end() {
    let log = Log::default();
    let mut channel = mined("inactive", &log);
    log.take();
    channel.close_by_peer();
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::PeerClosed)));
    assert_eq!(log.take(), ["inactive"]);
    channel.run();
}

#[test]
fn a_panic_while_an_error_is_handled_ends_there() {
    let log = Log::default();
    let mut channel = mined("error", &log);
    log.take();
    channel.write_inbound("raise\nraise\nline\n");
    assert_eq!(log.take(), ["error"]);
    assert_eq!(channel.channel().close_cause().unwrap().to_string(), "a handler panicked: stepped on error");
}

#[test]
fn a_panic_in_the_application_or_in_a_closure_is_no_different() {
    let mut channel = EmbeddedChannel::new(
        pipeline().add(Lines::default()).handle(|_, line| std::panic::resume_unwind(Box::new(line))),
    );
    channel.write_inbound("from a closure\n");
    let cause = channel.channel().close_cause().unwrap();
    assert_eq!(cause.to_string(), "a handler panicked: from a closure");

    let log = Log::default();
    let mut channel = lines(&log, on_line(&log, |_, _| std::panic::resume_unwind(Box::new("from an app"))));
    channel.write_inbound("a\nb\n");
    assert_eq!(channel.channel().close_cause().unwrap().to_string(), "a handler panicked: from an app");
    assert_eq!(log.take()[0], "app read a");
}

#[test]
fn what_was_flushed_before_the_panic_is_still_sent() {
    let log = Log::default();
    let app = on_line(&log, |cx, line| {
        if line == "bad" {
            std::panic::resume_unwind(Box::new("bad line"));
        }
        cx.write_and_flush(line.to_uppercase());
    });
    let mut channel = lines(&log, app);
    channel.block_output(true);
    let mut written = channel.channel().send("first".into());
    channel.run();
    channel.block_output(false);
    channel.write_inbound("good\nbad\nnever\n");
    assert_eq!(channel.outbound_bytes(), b"first\nGOOD\n");
    assert_eq!(outcome(written.try_take()), "done");
}

#[test]
fn writes_that_wait_when_a_handler_panics_fail_with_the_panic() {
    let log = Log::default();
    let mut channel = mined("read", &log);
    channel.block_output(true);
    let mut written = channel.channel().send("waits".into());
    channel.run();
    channel.write_inbound("boom\n");
    assert_eq!(outcome(written.try_take()), "the channel is closed: a handler panicked: stepped on read");
}

on_the_loop_only! {
    #[test]
    fn a_neighbour_on_the_same_loop_lives_on() {
        use netwright_core::{Host, LocalLoop, driver};
        /// Two channels of one loop, driven as a transport would.
        struct Neighbour;
        impl driver::Source for Neighbour {
            fn ready(&mut self, _: driver::Event) {}
            fn shut_down(&mut self) {}
        }
        let mut manual = netwright_core::ManualLoop::new();
        let (bad, good) = manual.enter(|| {
            let local = LocalLoop::current().unwrap();
            let make = |panics: bool| {
                let stages = pipeline().add(Lines::default()).handle(move |cx, line: String| {
                    if panics {
                        std::panic::resume_unwind(Box::new("bad"));
                    }
                    cx.write_and_flush(line);
                });
                let mut host = Host::new(local.clone(), stages.into_segment(), HostSettings::default());
                host.register(local.register(Neighbour).unwrap());
                host.activate(None, None);
                host.received(BytesMut::from("hello\n"));
                host
            };
            (make(true), make(false))
        });
        let (mut bad, mut good) = (bad, good);
        assert_eq!(bad.take_close().unwrap().to_string(), "a handler panicked: bad");
        assert!(!bad.take_flush());
        assert!(good.take_close().is_none());
        assert!(good.take_flush());
        assert_eq!(good.outbound().first_bytes().unwrap(), "hello\n");
    }
}

#[test]
fn a_message_that_cannot_be_turned_into_bytes_without_a_panic_costs_its_channel_too() {
    /// Refuses to be sent.
    struct Stubborn;
    impl Carries<Stubborn> for Outgoing {
        fn carry(_: Stubborn) -> Self {
            std::panic::resume_unwind(Box::new("I stay"));
        }
    }
    /// Writes stubborn messages.
    struct Sender;
    impl Handler<Here> for Sender {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = String;
        type WriteOut = Stubborn;
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, _: String, done: WritePromise) {
            cx.write_with(Stubborn, done);
        }
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(Sender));
    channel.write_outbound("go".into());
    assert_eq!(channel.channel().close_cause().unwrap().to_string(), "a handler panicked: I stay");
}

#[test]
fn the_stages_of_a_broken_pipeline_still_hear_that_they_leave() {
    let log = Log::default();
    let app = on_line(&log, |_, _| std::panic::resume_unwind(Box::new("boom")));
    let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).add(spy("spy", &log)).app(app));
    log.take();
    channel.write_inbound("a\n");
    assert_eq!(log.take(), ["spy read a", "app read a", "app removed", "spy removed"]);
}

#[test]
fn a_panic_in_removed_does_not_keep_the_others_from_leaving() {
    struct Clings;
    impl Handler<Here> for Clings {
        type Read = String;
        type ReadOut = String;
        type Write = String;
        type WriteOut = String;
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
            cx.fire_read(line);
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            cx.write_with(line, done);
        }
        fn removed(&mut self) {
            std::panic::resume_unwind(Box::new("not me"));
        }
    }
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).add(spy("spy", &log)).add(Clings).app(watch(&log));
    let mut channel = EmbeddedChannel::new(stages);
    log.take();
    channel.close_by_peer();
    let seen = log.take();
    assert_eq!(seen[2..], ["app removed", "spy removed"], "{seen:?}");
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::PeerClosed)));
}

/// Has something to say when a stage panics.
struct Speaks(&'static str, Log);

impl Handler<Here> for Speaks {
    type Read = String;
    type ReadOut = String;
    type Write = String;
    type WriteOut = String;

    fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
        cx.fire_read(line);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
        cx.write_with(format!("{}({line})", self.0), done);
    }
    fn panicked(&mut self, cx: &mut Context<'_, Self, Here>) {
        self.1.add(self.0);
        cx.write(format!("{} is sorry", self.0));
        cx.flush();
    }
}

#[test]
fn stages_may_say_something_when_one_has_panicked_and_what_the_one_wrote_is_not_sent() {
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).add(Speaks("a", log.clone())).add(Speaks("b", log.clone()));
    let mut channel = EmbeddedChannel::<Infallible, _>::new(stages.handle(|cx, line: String| {
        cx.write_and_flush(line);
        std::panic::resume_unwind(Box::new("stumbled"))
    }));
    let written = channel.channel().write_tracked("before".to_owned());
    channel.run().write_inbound(b"boo\n");
    assert!(!channel.is_open());
    assert_eq!(log.take(), ["b", "a"], "the one nearest to the application first");
    let text = String::from_utf8(channel.outbound_bytes()).unwrap();
    assert_eq!(text, "a(b(before))\na(b is sorry)\na is sorry\n");
    assert!(written.is_done());
    assert_eq!(channel.channel().close_cause().unwrap().to_string(), "a handler panicked: stumbled");
}

#[test]
fn a_panic_in_last_words_ends_there() {
    struct Worse;
    impl Handler<Here> for Worse {
        type Read = String;
        type ReadOut = String;
        type Write = String;
        type WriteOut = String;
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
            cx.fire_read(line);
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            cx.write_with(line, done);
        }
        fn panicked(&mut self, _: &mut Context<'_, Self, Here>) {
            std::panic::resume_unwind(Box::new("and again"))
        }
    }
    let stages = pipeline().add(Lines::default()).add(Worse);
    let mut channel = EmbeddedChannel::<Infallible, _>::new(
        stages.handle(|_, _: String| std::panic::resume_unwind(Box::new("stumbled"))),
    );
    channel.write_inbound(b"boo\n");
    assert_eq!(channel.channel().close_cause().unwrap().to_string(), "a handler panicked: stumbled");
}
