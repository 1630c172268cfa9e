//! Stages that may be absent, stages that are one of two, and what a listing of stages shows.

use super::*;
use netwright_core::{Either, Observer, inbound, observe, outbound};

/// Every method of a handler once, through whatever wraps it.
fn tour(channel: &mut EmbeddedChannel<String, String>) {
    channel.write_inbound("a\n");
    channel.write_outbound("b".into());
    channel.close_input();
    channel.block_output(true);
    channel.write_outbound("x".repeat(70_000));
    channel.block_output(false);
    drop(channel.channel().close());
    channel.run();
}

fn bare(log: &Log) -> Vec<String> {
    let stages = pipeline().add(Lines::default()).add(spy("spy", log));
    tour(&mut EmbeddedChannel::new(stages));
    log.take()
}

#[test]
fn a_stage_that_is_there_is_called_as_if_it_stood_alone() {
    let log = Log::default();
    let expected = bare(&log);
    assert!(expected.len() >= 13, "{expected:?}");
    tour(&mut EmbeddedChannel::new(pipeline().add(Lines::default()).add(Some(spy("spy", &log)))));
    assert_eq!(log.take(), expected);
    type Both = Either<Spy<String, String>, Option<Spy<String, String>>>;
    for either in [Both::Left(spy("spy", &log)), Both::Right(Some(spy("spy", &log)))] {
        tour(&mut EmbeddedChannel::new(pipeline().add(Lines::default()).add(either)));
        assert_eq!(log.take(), expected);
    }
}

#[test]
fn a_stage_that_is_absent_passes_everything_on() {
    let log = Log::default();
    let expected = bare(&log);
    let absent: Option<Spy<String, String>> = None;
    let stages = pipeline().add(Lines::default()).add(absent).add(spy("spy", &log));
    tour(&mut EmbeddedChannel::new(stages));
    assert_eq!(log.take(), expected);
}

#[test]
fn errors_and_events_pass_an_absent_stage_too() {
    /// Turns lines into errors and events.
    struct Turn;
    impl Handler<Here> for Turn {
        type Read = String;
        type ReadOut = String;
        type Write = String;
        type WriteOut = String;
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
            cx.fire_event(Event::new("news"));
            cx.fire_error(Fault::new(line));
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            cx.write_with(line, done);
        }
    }
    let log = Log::default();
    let absent: Option<Spy<String, String>> = None;
    let stages = pipeline().add(Lines::default()).add(Turn).add(absent).add(Some(spy("spy", &log)));
    let mut channel = EmbeddedChannel::new(stages.app(watch(&log).keeping_errors()));
    log.take();
    channel.write_inbound("trouble\n");
    assert_eq!(log.take()[..4], ["spy event", "app event news", "spy error trouble", "app error trouble"]);
}

#[test]
fn an_optional_decoder_is_pulled() {
    let stages = pipeline().add(Lines::default()).add(Some(Words::default()));
    let mut channel = EmbeddedChannel::new(stages);
    channel.write_inbound("a b\n");
    assert_eq!(channel.finish().inbound, ["a", "b"]);
    let stages = pipeline().add(Lines::default()).add(None::<Words>);
    let mut channel = EmbeddedChannel::new(stages);
    channel.write_inbound("a b\n");
    assert_eq!(channel.finish().inbound, ["a b"]);
}

#[test]
fn one_of_two_decoders_is_pulled() {
    for (either, expected) in [
        (Either::Left(Words::default()), vec!["a", "b"]),
        (Either::Right(spy("spy", &Log::default())), vec!["a b"]),
    ] {
        let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).add(either));
        channel.write_inbound("a b\n");
        assert_eq!(channel.finish().inbound, expected);
    }
}

#[test]
fn timers_of_an_optional_stage_come_back_to_it() {
    /// Says when its time has come.
    struct Alarm(Log);
    impl Handler<Here> for Alarm {
        type Read = String;
        type ReadOut = String;
        type Write = String;
        type WriteOut = String;
        fn added(&mut self, cx: &mut Context<'_, Self, Here>) {
            cx.arm(ms(5));
        }
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
            cx.fire_read(line);
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            cx.write_with(line, done);
        }
        fn timer(&mut self, _: &mut Context<'_, Self, Here>, _: StageTimer) {
            self.0.add("ring");
        }
    }
    let log = Log::default();
    let right: Either<Option<Alarm>, Alarm> = Either::Right(Alarm(log.clone()));
    let stages = pipeline().add(Lines::default()).add(Some(Alarm(log.clone()))).add(right);
    EmbeddedChannel::new(stages).advance(ms(5));
    assert_eq!(log.take(), ["ring", "ring"]);
}

/// Looks on.
struct Look;

impl Observer for Look {
    type Read = BytesMut;
    type Write = Bytes;
}

#[test]
fn stages_are_listed_from_the_wire_on_with_what_they_have_read_and_written() {
    let log = Log::default();
    let app = on_line(&log, |cx, word| {
        if word != "b" {
            cx.write_and_flush(word.to_owned());
        }
    });
    let stages = pipeline().add(observe(Look)).add(Lines::default()).add(None::<Words>).add(Either::<
        Words,
        Burst,
    >::Left(
        Words::default(),
    ));
    let mut channel = EmbeddedChannel::new(stages.app(app));
    channel.write_inbound("a b\nc\n");
    let mut listed = channel.channel().stages();
    channel.run();
    let listed = listed.try_take().unwrap().unwrap();
    let figures: Vec<_> = listed.iter().map(|stage| (stage.name, stage.reads, stage.writes)).collect();
    assert_eq!(
        figures[..5],
        [
            ("Look", 1, 2),
            ("Lines", 1, 2),
            ("nothing", 2, 2),
            ("Words", 2, 2),
            ("Script", 3, 0), // what it writes itself does not pass it; what others write does
        ]
    );
    channel.write_outbound("from outside".into());
    let mut listed = channel.channel().stages();
    channel.run();
    assert_eq!(listed.try_take().unwrap().unwrap()[4].writes, 1);
}

#[test]
fn names_leave_out_paths_and_types() {
    struct Generic<T>(PhantomData<T>);
    impl<T: 'static> netwright_core::InboundOnly<Here> for Generic<T> {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = String;
        fn read(&mut self, cx: &mut Context<'_, netwright_core::InboundStage<Self>, Here>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
    }
    struct Encode;
    impl netwright_core::OutboundOnly<Here> for Encode {
        type Read = BytesMut;
        type Write = String;
        type WriteOut = Bytes;
        fn write(
            &mut self,
            cx: &mut Context<'_, netwright_core::OutboundStage<Self>, Here>,
            line: String,
            done: WritePromise,
        ) {
            cx.write_with(Bytes::from(line), done);
        }
    }
    let stages = pipeline().add(outbound(Encode)).add(inbound(Generic::<Vec<String>>(PhantomData)));
    let mut channel = EmbeddedChannel::new(stages.handle(|_, _| ()));
    let mut listed = channel.channel().stages();
    channel.run();
    let names: Vec<_> = listed.try_take().unwrap().unwrap().iter().map(|stage| stage.name).collect();
    assert_eq!(names[..3], ["Encode", "Generic", "closure"]);
}
