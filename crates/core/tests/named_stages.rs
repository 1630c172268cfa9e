//! Stages that have a name, and are found by it.
#![cfg(not(loom))]

use bytes::BytesMut;
use netwright_core::{
    AppContext, Application, ApplicationStage, Channel, CloseCause, Context, Either, EmbeddedChannel,
    Handler, Outgoing, Place, PromiseError, StageCaller, StageError, Switch, Workers, WritePromise, pipeline,
};
use std::{thread, time::Duration};

const PATIENCE: Duration = Duration::from_secs(60);

/// Passes everything on, and counts.
#[derive(Default)]
struct Meter {
    read: usize,
}

impl<P: Place> Handler<P> for Meter {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self, P>, bytes: BytesMut) {
        self.read += bytes.len();
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

/// Sends back what it gets, in capital letters if it is told to.
#[derive(Default)]
struct Echo {
    loud: bool,
}

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, mut bytes: BytesMut) {
        if self.loud {
            bytes.make_ascii_uppercase();
        }
        cx.write_and_flush(bytes.freeze());
    }
}

type EchoStage = ApplicationStage<Echo>;

#[test]
fn a_named_stage_is_found_by_name_and_type_and_called_on_its_loop() {
    let stages = pipeline()
        .add(Meter::default())
        .named("wire")
        .add(Meter::default())
        .app(Echo::default())
        .named("echo");
    let mut channel = EmbeddedChannel::new(stages);
    channel.write_inbound("hello");
    let handle = channel.channel().clone();
    let (mut read, mut loud) = thread::spawn(move || {
        let read = handle.stage::<Meter>("wire").unwrap().ask(|meter, _| meter.read);
        let echo = handle.stage::<EchoStage>("echo").unwrap();
        echo.call(|echo, cx| {
            echo.loud = true;
            cx.write_and_flush("!");
        });
        (read, echo.ask(|echo, _| echo.loud))
    })
    .join()
    .unwrap();
    channel.run().write_inbound("hello");
    assert_eq!((read.wait(), loud.wait()), (Ok(5), Ok(true)));
    assert_eq!(channel.outbound_bytes(), b"hello!HELLO");
}

#[test]
fn a_listing_shows_the_name_that_was_given_and_what_the_stage_is() {
    let stages = pipeline()
        .add(Meter::default())
        .named("old")
        .named("wire")
        .add(Meter::default())
        .app(Echo::default());
    let mut channel = EmbeddedChannel::new(stages);
    let mut listed = channel.channel().stages();
    channel.run();
    let listed = listed.wait().unwrap();
    let names: Vec<_> = listed.iter().map(|stage| (stage.name, stage.handler)).collect();
    assert_eq!(names[..3], [("wire", "Meter"), ("Meter", "Meter"), ("Echo", "Echo")]);
    let error = channel.channel().stage::<Meter>("old").unwrap_err();
    assert!(matches!(error, StageError::Unknown { .. }), "the last name counts: {error}");
}

#[test]
fn a_name_that_nobody_has_is_told_with_the_names_that_there_are() {
    let channel = EmbeddedChannel::new(pipeline().add(Meter::default()).app(Echo::default()));
    let error = channel.channel().stage::<Meter>("Meter").unwrap_err();
    assert_eq!(error.to_string(), r#"no stage is named "Meter", nor has any other a name"#);

    let stages = pipeline().add(Meter::default()).named("wire").app(Echo::default()).named("echo");
    let channel = EmbeddedChannel::new(stages);
    let error = channel.channel().stage::<Meter>("wrie").unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            r#"no stage is named "wrie"; there are: "wire" ({}), "echo" ({})"#,
            std::any::type_name::<Meter>(),
            std::any::type_name::<EchoStage>()
        )
    );
}

#[test]
fn a_stage_of_another_type_is_told_with_both_types() {
    let channel = EmbeddedChannel::new(pipeline().add(Meter::default()).named("wire").app(Echo::default()));
    let error = channel.channel().stage::<EchoStage>("wire").unwrap_err();
    assert!(matches!(error, StageError::OtherType { name: "wire", .. }), "{error:?}");
    let (found, wanted) = (std::any::type_name::<Meter>(), std::any::type_name::<EchoStage>());
    assert_eq!(error.to_string(), format!(r#"the stage "wire" is {found}, not {wanted}"#));
}

#[test]
fn two_stages_of_one_name_close_the_channel_and_the_cause_says_which() {
    let stages = pipeline()
        .add(Meter::default())
        .named("twin")
        .add(Meter::default())
        .app(Echo::default())
        .named("twin");
    let mut channel = EmbeddedChannel::new(stages);
    channel.write_inbound("nobody answers");
    assert!(!channel.is_open());
    let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { panic!("no fault") };
    let duplicate = fault.downcast_ref::<StageError>().unwrap();
    assert!(matches!(duplicate, StageError::Duplicate { name: "twin", .. }), "{duplicate}");
    assert!(duplicate.to_string().starts_with(r#"two stages are named "twin": "#), "{duplicate}");
    assert_eq!(channel.outbound_bytes(), b"");
}

#[test]
fn handlers_find_other_stages_and_their_calls_run_when_they_have_returned() {
    let stages = pipeline().add(Meter::default()).named("wire").handle(move |cx, bytes| {
        let wire = cx.view().stage::<Meter>("wire").unwrap();
        let mut total = wire.ask(|meter, _| meter.read);
        assert!(total.try_take().is_none(), "not in the midst of this call");
        assert!(cx.view().stage::<Meter>("none").is_err());
        wire.call(move |meter, cx| {
            meter.read = 0;
            cx.write(bytes.freeze());
            cx.flush();
        });
    });
    let mut channel = EmbeddedChannel::new(stages);
    channel.write_inbound("hello");
    assert_eq!(channel.outbound_bytes(), b"hello");
    let mut total = channel.channel().stage::<Meter>("wire").unwrap().ask(|meter, _| meter.read);
    channel.run();
    assert_eq!(total.wait(), Ok(0));
}

#[test]
fn inside_an_option_an_either_or_workers_it_is_the_handler_that_is_found() {
    /// What the meter has read, by a way to it.
    fn ask<R: 'static, P: Place>(
        channel: &mut EmbeddedChannel<R, Outgoing>,
        find: impl FnOnce(&Channel<Outgoing>, &str) -> Result<StageCaller<Meter, P>, StageError>,
    ) -> usize {
        let mut read = find(channel.channel(), "meter").unwrap().ask(|meter, _| meter.read);
        let begun = std::time::Instant::now();
        loop {
            if let Some(read) = channel.run().channel().is_writable().then(|| read.try_take()).flatten() {
                return read.unwrap();
            }
            assert!(begun.elapsed() < PATIENCE, "an answer comes");
            thread::yield_now();
        }
    }
    let mut there =
        EmbeddedChannel::new(pipeline().add(Some(Meter { read: 1 })).named("meter").app(Echo::default()));
    assert_eq!(ask(&mut there, Channel::stage), 1);
    let either = Either::<Option<Meter>, Meter>::Left(Some(Meter { read: 2 }));
    let mut one_of_two = EmbeddedChannel::new(pipeline().add(either).named("meter").app(Echo::default()));
    assert_eq!(ask(&mut one_of_two, Channel::stage), 2);
    let workers = Workers::new(1).unwrap();
    let on_workers = pipeline().add_on(&workers, Meter { read: 3 }).named("meter").app(Echo::default());
    assert_eq!(ask(&mut EmbeddedChannel::new(on_workers), Channel::stage_on_workers), 3);

    let absent = EmbeddedChannel::new(pipeline().add(None::<Meter>).named("meter").app(Echo::default()));
    let error = absent.channel().stage::<Meter>("meter").unwrap_err().to_string();
    assert!(error.starts_with(r#"the stage "meter" is nothing, not "#), "{error}");
}

#[test]
fn a_stage_that_runs_elsewhere_is_told_from_one_of_another_type() {
    let workers = Workers::new(1).unwrap();
    let stages =
        pipeline().add_on(&workers, Meter { read: 3 }).named("there").add(Meter { read: 4 }).named("here");
    let mut channel = EmbeddedChannel::new(stages.handle(|cx, _| {
        assert!(cx.view().stage_on_workers::<Meter>("there").is_ok());
        let error = cx.view().stage::<Meter>("there").unwrap_err();
        assert_eq!(error, StageError::OtherPlace { name: "there", on_workers: true });
        cx.write_and_flush("looked");
    }));
    let error = channel.channel().stage::<Meter>("there").unwrap_err();
    assert_eq!(error.to_string(), r#"the stage "there" runs on workers: it is found by `stage_on_workers`"#);
    let error = channel.channel().stage_on_workers::<Meter>("here").unwrap_err();
    assert_eq!(error.to_string(), r#"the stage "here" runs on its channel's loop: it is found by `stage`"#);
    channel.write_inbound("look");
    while channel.run().is_busy() {
        thread::yield_now();
    }
    assert_eq!(channel.outbound_bytes(), b"looked");
}

/// Gives way to an echo when it reads `next`.
struct First {
    switch: Switch<Outgoing>,
    successor: &'static str,
}

impl Application for First {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
        if bytes == "next" {
            self.switch.to(pipeline().app(Echo::default()).named(self.successor));
        }
    }
}

fn with_joint(successor: &'static str) -> EmbeddedChannel<(), Outgoing> {
    EmbeddedChannel::<(), _>::with_joint(
        pipeline()
            .add(Meter::default())
            .named("wire")
            .joint(move |switch| pipeline().app(First { switch, successor }).named("behind")),
    )
}

#[test]
fn a_name_leaves_with_its_stage_and_may_be_given_again() {
    let mut channel = with_joint("behind");
    let handle = channel.channel().clone();
    let first = handle.stage::<ApplicationStage<First>>("behind").unwrap();
    assert!(handle.stage::<EchoStage>("behind").is_err());
    channel.write_inbound("next");
    assert!(channel.is_open());
    assert!(handle.stage::<EchoStage>("behind").is_ok());
    assert!(handle.stage::<Meter>("wire").is_ok(), "what stands before the joint stays");
    let mut answer = first.ask(|_, _| ());
    channel.run();
    assert_eq!(answer.wait(), Err(PromiseError::Abandoned), "who has left is not called");
}

#[test]
fn a_segment_that_brings_a_name_which_is_taken_closes_the_channel() {
    let mut channel = with_joint("wire");
    channel.write_inbound("next");
    assert!(!channel.is_open());
    let cause = channel.channel().close_cause().unwrap().to_string();
    assert!(cause.contains(r#"two stages are named "wire""#), "{cause}");
}

#[test]
fn a_channel_that_has_left_its_loop_has_no_stages() {
    let mut channel =
        EmbeddedChannel::new(pipeline().add(Meter::default()).named("wire").app(Echo::default()));
    let handle = channel.channel().clone();
    let wire = handle.stage::<Meter>("wire").unwrap();
    channel.close_by_peer();
    drop(channel);
    assert_eq!(handle.stage::<Meter>("wire").unwrap_err(), StageError::ChannelGone);
    assert_eq!(wire.ask(|_, _| ()).wait(), Err(PromiseError::Abandoned));
}
