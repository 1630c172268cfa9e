//! Timers of stages: on time, in order, to the stage that armed them, and forgotten with the channel.

use super::*;

/// Arms what its closure says when the channel becomes active, and writes down what comes.
struct Clock {
    name: &'static str,
    log: Log,
    #[allow(clippy::type_complexity)]
    start: Box<dyn FnMut(&mut Context<'_, Clock, Here>) + Send>,
    #[allow(clippy::type_complexity)]
    ring: Box<dyn FnMut(&mut Context<'_, Clock, Here>, StageTimer) + Send>,
}

fn clock(
    name: &'static str,
    log: &Log,
    start: impl FnMut(&mut Context<'_, Clock, Here>) + Send + 'static,
    ring: impl FnMut(&mut Context<'_, Clock, Here>, StageTimer) + Send + 'static,
) -> Clock {
    Clock { name, log: log.clone(), start: Box::new(start), ring: Box::new(ring) }
}

/// Arms timers with these many milliseconds.
fn arming<const N: usize>(delays: [u64; N]) -> impl FnMut(&mut Context<'_, Clock, Here>) + Send + 'static {
    move |cx| {
        for delay in delays {
            cx.arm(ms(delay));
        }
    }
}

impl Handler<Here> for Clock {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn active(&mut self, cx: &mut Context<'_, Self, Here>) {
        (self.start)(cx);
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self, Here>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, bytes: Bytes, done: WritePromise) {
        cx.write_with(bytes, done);
    }
    fn timer(&mut self, cx: &mut Context<'_, Self, Here>, timer: StageTimer) {
        self.log.add(self.name);
        (self.ring)(cx, timer);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, Here>, cause: CloseCause) {
        self.log.add("inactive");
        (self.start)(cx);
        cx.fire_inactive(cause);
    }
}

#[test]
fn a_timer_comes_on_time_and_never_early() {
    let log = Log::default();
    let stage = clock("ring", &log, arming([10]), |_, _| ());
    let mut channel = EmbeddedChannel::new(pipeline().add(stage));
    channel.advance(ms(9));
    assert_eq!(log.take(), [""; 0]);
    channel.advance(ms(1));
    assert_eq!(log.take(), ["ring"]);
    channel.advance(ms(1000));
    assert_eq!(log.take(), [""; 0]);
}

#[test]
fn timers_come_in_the_order_of_their_time_each_to_its_own_stage() {
    let log = Log::default();
    let silent = |_: &mut Context<'_, Clock, Here>, _| ();
    let stages = pipeline()
        .add(clock("one", &log, arming([30, 10]), silent))
        .add(clock("two", &log, arming([20]), silent))
        .add(clock("three", &log, arming([5, 40]), silent));
    let mut channel = EmbeddedChannel::new(stages);
    channel.advance(ms(100));
    assert_eq!(log.take(), ["three", "one", "two", "one", "three"]);
}

#[test]
fn timers_of_the_same_moment_come_in_the_order_in_which_they_were_armed() {
    let log = Log::default();
    let seen = log.clone();
    let armed = Shared::new(Vec::new());
    let known = armed.clone();
    let stage = clock(
        "ring",
        &log,
        move |cx| known.lock().extend((0..5).map(|_| cx.arm(ms(10)))),
        move |_, timer| seen.add(armed.lock().iter().position(|armed| *armed == timer).unwrap()),
    );
    EmbeddedChannel::new(pipeline().add(stage)).advance(ms(10));
    let order: Vec<_> = log.take().into_iter().filter(|entry| entry != "ring").collect();
    assert_eq!(order, ["0", "1", "2", "3", "4"]);
}

#[test]
fn a_disarmed_timer_does_not_come_and_says_whether_it_was_in_time() {
    let log = Log::default();
    let seen = log.clone();
    let armed = Shared::new(None);
    let known = armed.clone();
    let stage = clock(
        "ring",
        &log,
        move |cx| {
            let gone = cx.arm(ms(5));
            assert!(cx.disarm(gone));
            assert!(!cx.disarm(gone), "only once");
            known.set(Some(cx.arm(ms(10))));
        },
        move |cx, timer| {
            assert_eq!(Some(timer), armed.get());
            seen.add(cx.disarm(timer));
        },
    );
    EmbeddedChannel::new(pipeline().add(stage)).advance(ms(100));
    assert_eq!(log.take(), ["ring", "false"]);
}

#[test]
fn a_timer_disarmed_by_another_of_the_same_moment_does_not_come() {
    let log = Log::default();
    let second = Shared::new(None);
    let known = second.clone();
    let stage = clock(
        "ring",
        &log,
        move |cx| {
            cx.arm(ms(10));
            known.set(Some(cx.arm(ms(10))));
        },
        move |cx, _| {
            cx.disarm(second.get().unwrap());
        },
    );
    EmbeddedChannel::new(pipeline().add(stage)).advance(ms(100));
    assert_eq!(log.take(), ["ring"]);
}

#[test]
fn a_timer_armed_again_when_it_comes_ticks_on() {
    let log = Log::default();
    let stage = clock("tick", &log, arming([10]), |cx, _| arming([10])(cx));
    let mut channel = EmbeddedChannel::new(pipeline().add(stage));
    channel.advance(ms(55));
    assert_eq!(log.take(), ["tick"; 5]);
}

#[test]
fn timers_are_forgotten_when_the_channel_ends_and_cannot_be_armed_after() {
    let log = Log::default();
    let stage = clock("ring", &log, arming([10]), |_, _| ());
    let mut channel = EmbeddedChannel::new(pipeline().add(stage));
    channel.close_by_peer();
    assert_eq!(log.take(), ["inactive"]);
    channel.advance(ms(1000));
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(channel.event_loop().handle().figures().timers_pending, 0);
}

#[test]
fn timers_come_while_messages_keep_the_end_from_being_told() {
    let log = Log::default();
    let app = on_line(&log, |cx, line| {
        if line == "a" {
            cx.pause();
            cx.arm(ms(10));
        }
    });
    let mut channel = lines(&log, app);
    channel.write_inbound("a\nb\n");
    channel.close_by_peer();
    channel.advance(ms(100));
    assert_eq!(log.take(), ["app read a", "app writability true", "app timer"]);
    channel.channel().resume();
    channel.run();
    assert_eq!(log.take().len(), 4);
}

#[test]
fn a_timer_comes_while_delivery_is_paused_and_may_resume_it() {
    let log = Log::default();
    let app = script(&log, |cx, call| match call {
        Call::Read(_) => {
            cx.pause();
            cx.arm(ms(10));
        }
        Call::Timer => cx.resume(),
        _ => {}
    });
    let mut channel = lines(&log, app);
    channel.write_inbound("a\nb\n");
    channel.advance(ms(10));
    assert_eq!(log.take(), ["app read a", "app timer", "app read b", "app read_complete"]);
    channel.advance(ms(10));
    assert_eq!(log.take(), ["app timer"]);
}

#[test]
fn what_a_timer_writes_and_fires_goes_its_way() {
    let log = Log::default();
    let stage = clock("ring", &log, arming([10]), |cx, _| {
        cx.write_and_flush(Bytes::from_static(b"ping"));
        cx.fire_read(BytesMut::from("made up\n"));
    });
    let stages =
        pipeline().add(spy::<_, Bytes>("wire", &log)).add(stage).add(Lines::default()).app(watch(&log));
    let mut channel = EmbeddedChannel::new(stages);
    log.take();
    channel.advance(ms(10));
    assert_eq!(log.take(), ["ring", "wire write ping", "wire flush", "app read made up"]);
    assert_eq!(channel.outbound_bytes(), b"ping");
}

#[test]
fn a_decoder_may_have_a_message_ready_when_its_timer_comes() {
    /// Gives out what it has gathered once in a while.
    #[derive(Default)]
    struct Batch {
        gathered: String,
        due: bool,
    }
    impl Handler<Here> for Batch {
        type Read = BytesMut;
        type ReadOut = String;
        type Write = String;
        type WriteOut = Bytes;
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, bytes: BytesMut) {
            if self.gathered.is_empty() {
                cx.arm(ms(10));
            }
            self.gathered += &bytes.show();
        }
        fn pull(&mut self, _: &mut Context<'_, Self, Here>) -> Option<String> {
            std::mem::take(&mut self.due).then(|| std::mem::take(&mut self.gathered))
        }
        fn timer(&mut self, _: &mut Context<'_, Self, Here>, _: StageTimer) {
            self.due = true;
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            cx.write_with(Bytes::from(line), done);
        }
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(Batch::default()));
    channel.write_inbound("a").write_inbound("b").advance(ms(9));
    assert_eq!(channel.read_inbound(), None);
    channel.advance(ms(1));
    assert_eq!(channel.read_inbound().as_deref(), Some("ab"));
}
