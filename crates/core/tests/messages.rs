//! Channels whose wire's end is not bytes: a line of messages of any type, charged to the same account.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, Context, ENTRY_OVERHEAD, EmbeddedChannel, Handler, Host,
    HostSettings, LocalLoop, ManualLoop, Peer, Place, Switch, WaterMarks, Weight, Workers, WriteError,
    WritePromise, Written, pipeline,
};
use std::{
    cell::RefCell,
    convert::Infallible,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

#[derive(Debug, PartialEq)]
struct Question(u32);

/// As if it held so many bytes.
#[derive(Debug, PartialEq)]
struct Answer(usize);

const ANSWER: Weight<Answer> = Weight::of(|answer| answer.0);

/// Answers each question with as much as it asks for, and notes when there is room.
#[derive(Default)]
struct Oracle {
    room: Rc<RefCell<Vec<bool>>>,
}

impl Application for Oracle {
    type Read = Question;
    type Write = Answer;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, question: Question) {
        cx.write(Answer(question.0 as usize));
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
    fn writability(&mut self, _: &mut AppContext<'_, Self>, writable: bool) {
        self.room.borrow_mut().push(writable);
    }
}

type Asked = EmbeddedChannel<Infallible, Answer, Question, Answer>;

fn asked() -> Asked {
    EmbeddedChannel::of_messages_with(pipeline().app(Oracle::default()), HostSettings::default(), ANSWER)
}

/// Passes everything on: what it reads the test reads, what the test writes it writes.
struct Through;

impl<P: Place> Handler<P> for Through {
    type Read = Question;
    type ReadOut = Question;
    type Write = Answer;
    type WriteOut = Answer;

    fn read(&mut self, cx: &mut Context<'_, Self, P>, question: Question) {
        cx.fire_read(question);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, answer: Answer, done: WritePromise) {
        cx.write_with(answer, done);
    }
}

fn through(settings: HostSettings) -> EmbeddedChannel<Question, Answer, Question, Answer> {
    EmbeddedChannel::of_messages_with(pipeline().add(Through), settings, ANSWER)
}

fn fate(written: &mut Written) -> Option<Result<(), String>> {
    written.try_take().map(|result| result.map_err(|error| error.to_string()))
}

#[test]
fn a_pipeline_of_a_users_own_messages_runs_without_a_codec() {
    let mut channel = asked();
    channel.receive(Question(1)).receive(Question(0)).receive(Question(3));
    assert_eq!(channel.read_outbound(), Some(Answer(1)));
    assert_eq!(channel.read_outbound(), Some(Answer(0)), "a message is something, also if it holds nothing");
    let left = channel.finish();
    assert_eq!(left.outbound, [Answer(3)]);
    assert!(left.inbound.is_empty() && matches!(left.cause, Some(CloseCause::Requested)));
}

#[test]
fn messages_pass_both_ways_and_wait_while_reading_is_paused() {
    let mut channel = through(HostSettings::default());
    channel.receive(Question(1)).channel().pause();
    channel.run().receive(Question(2));
    assert_eq!((channel.read_inbound(), channel.read_inbound()), (Some(Question(1)), None));
    assert!(!channel.wants_read());
    channel.channel().resume();
    assert_eq!(channel.read_inbound(), Some(Question(2)));
    channel.write_outbound(Answer(7));
    assert_eq!(channel.read_outbound(), Some(Answer(7)));
    channel.finish().expect_nothing();
}

#[test]
fn a_written_message_is_done_when_it_is_taken_and_not_before() {
    let mut channel = through(HostSettings::default());
    let mut unflushed = channel.channel().write_tracked(Answer(1));
    assert_eq!((channel.read_outbound(), fate(&mut unflushed)), (None, None));
    channel.block_output(true);
    let mut second = channel.channel().send(Answer(2));
    channel.run();
    assert_eq!((fate(&mut unflushed), fate(&mut second)), (None, None), "the peer takes nothing");
    channel.block_output(false);
    assert_eq!((fate(&mut unflushed), fate(&mut second)), (Some(Ok(())), Some(Ok(()))));
    assert_eq!(channel.finish().outbound, [Answer(1), Answer(2)]);
}

#[test]
fn what_is_cancelled_before_the_flush_is_never_sent_and_counts_for_nothing() {
    let mut channel = through(HostSettings::default());
    channel.channel().write(Answer(1));
    let cancelled = channel.channel().write_tracked(Answer(100_000));
    channel.channel().write(Answer(3));
    channel.run();
    assert!(!channel.channel().is_writable(), "it counts until the flush");
    assert!(cancelled.cancel());
    channel.channel().flush();
    channel.run();
    assert!(channel.channel().is_writable() && !cancelled.cancel());
    assert_eq!(channel.finish().outbound, [Answer(1), Answer(3)]);
}

#[test]
fn water_marks_go_by_what_the_messages_weigh() {
    let entry = size_of::<Answer>() + ENTRY_OVERHEAD;
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(entry + 100, 2 * entry + 1000).unwrap();
    settings.hold_back = false;
    let oracle = Oracle::default();
    let room = oracle.room.clone();
    let mut channel: Asked = EmbeddedChannel::of_messages_with(pipeline().app(oracle), settings, ANSWER);
    channel.block_output(true).receive(Question(500)).receive(Question(500));
    assert!(channel.channel().is_writable() && room.borrow().is_empty(), "at the mark is not above it");
    channel.receive(Question(0));
    assert!(!channel.channel().is_writable());
    assert_eq!(*room.borrow(), [false]);
    channel.block_output(false);
    assert!(channel.channel().is_writable());
    assert_eq!(*room.borrow(), [false, true]);
    assert_eq!(channel.finish().outbound, [Answer(500), Answer(500), Answer(0)]);
}

#[test]
fn answers_that_nobody_takes_hold_their_questions_back() {
    let mut channel = asked();
    channel.block_output(true);
    for _ in 0..100 {
        channel.receive(Question(10_000));
    }
    assert!(!channel.wants_read(), "one who only asks cannot make us keep its answers");
    channel.block_output(false);
    let answers = std::iter::from_fn(|| channel.read_outbound()).count();
    assert_eq!(answers, 100);
    assert!(channel.wants_read());
}

#[test]
fn the_end_fails_what_waits_in_order_and_releases_it_first() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    struct Passes;
    impl Handler for Passes {
        type Read = ();
        type ReadOut = ();
        type Write = Counted;
        type WriteOut = Counted;
        fn read(&mut self, cx: &mut Context<'_, Self>, (): ()) {
            cx.fire_read(());
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, msg: Counted, done: WritePromise) {
            cx.write_with(msg, done);
        }
    }
    let (drops, order) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(Vec::new())));
    let mut channel = EmbeddedChannel::of_messages(pipeline().add(Passes));
    channel.block_output(true);
    for number in 0..3 {
        let written = channel.channel().write_tracked(Counted(drops.clone()));
        let (drops, order) = (drops.clone(), order.clone());
        written.listen(move |result| {
            assert!(matches!(result, Err(WriteError::Closed(CloseCause::PeerClosed))), "{result:?}");
            order.lock().unwrap().push((number, drops.load(Ordering::Relaxed)));
        });
        if number == 1 {
            channel.channel().flush();
        }
    }
    channel.run().close_by_peer();
    assert_eq!(*order.lock().unwrap(), [(0, 1), (1, 2), (2, 3)]);
    let mut late = channel.channel().send(Counted(drops.clone()));
    assert!(fate(&mut late).unwrap().is_err());
    assert_eq!(drops.load(Ordering::Relaxed), 4);
}

#[test]
fn output_that_is_shut_down_takes_no_more_and_sends_what_it_has() {
    let mut channel = through(HostSettings::default());
    channel.block_output(true);
    let mut first = channel.channel().send(Answer(1));
    let _shut = channel.channel().shut_down_output_tracked();
    let mut late = channel.channel().send(Answer(2));
    channel.run();
    assert_eq!(fate(&mut first), None);
    assert!(matches!(fate(&mut late), Some(Err(_))));
    channel.block_output(false);
    assert_eq!(fate(&mut first), Some(Ok(())));
    assert_eq!(channel.finish().outbound, [Answer(1)]);
}

#[test]
fn an_async_function_a_stage_on_workers_and_a_timer_work_as_on_bytes() {
    let workers = Workers::new(1).unwrap();
    let tail = |mut peer: Peer<Question, Answer>| async move {
        while let Some(question) = peer.read().await? {
            netwright_core::time::sleep(Duration::from_secs(1)).await;
            peer.write(Answer(question.0 as usize)).await?;
        }
        Ok::<(), CloseCause>(())
    };
    let mut channel = EmbeddedChannel::of_messages(pipeline().add_on(&workers, Through).serve(tail));
    channel.receive(Question(5));
    while channel.is_busy() {
        channel.run();
    }
    assert_eq!(channel.read_outbound(), None);
    channel.advance(Duration::from_secs(1));
    while channel.is_busy() {
        channel.run();
    }
    assert_eq!(channel.read_outbound(), Some(Answer(5)));
}

#[test]
fn a_joint_exchanges_segments_of_messages() {
    struct First {
        switch: Switch<Answer, Question, Answer>,
    }
    impl Application for First {
        type Read = Question;
        type Write = Answer;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, _: Question) {
            cx.write_and_flush(Answer(0));
            self.switch.to(pipeline().app(Oracle::default()));
        }
    }
    // Behind a stage a joint is of what the stage passes on.
    let stages = pipeline().add(Through).joint(|switch| pipeline().app(First { switch }));
    let mut channel: EmbeddedChannel<(), Answer, Question, Answer> =
        EmbeddedChannel::of_messages_with_joint(stages, HostSettings::default(), ANSWER);
    channel.receive(Question(1)).receive(Question(2));
    assert_eq!(channel.finish().outbound, [Answer(0), Answer(2)]);
}

#[test]
fn a_weight_that_panics_closes_its_channel_and_nothing_else() {
    const ODD: Weight<Answer> = Weight::of(|answer| match answer.0 {
        13 => panic!("nobody knows"),
        bytes => bytes,
    });
    let stages = pipeline().app(Oracle::default());
    let mut channel: Asked = EmbeddedChannel::of_messages_with(stages, HostSettings::default(), ODD);
    channel.receive(Question(1)).receive(Question(13)).receive(Question(2));
    assert_eq!(channel.read_outbound(), Some(Answer(1)));
    assert!(!channel.is_open());
    assert!(
        matches!(channel.channel().close_cause(), Some(CloseCause::Panicked(what)) if what == "nobody knows")
    );
}

#[test]
fn who_drives_a_host_of_messages_takes_each_with_its_promise_and_may_give_one_up() {
    ManualLoop::new().enter(|| {
        let local = LocalLoop::current().unwrap();
        let mut host =
            Host::of_messages(local, pipeline().add(Through).into_segment(), HostSettings::default(), ANSWER);
        let handle = host.channel();
        host.activate(None, None);
        let mut written: Vec<_> = (1..=3).map(|number| handle.write_tracked(Answer(number))).collect();
        handle.flush();
        host.run_commands();
        assert!(host.take_flush());
        let each = size_of::<Answer>();
        assert_eq!(host.outbound().unsent_bytes(), (3 * each + 6) as u64);

        let (first, done) = host.outbound().take_first().unwrap();
        assert_eq!((first.message, first.weight), (Answer(1), each + 1));
        assert_eq!(fate(&mut written[0]), None, "it is where it should be when its taker says so");
        assert_eq!(host.outbound().pending_bytes(), 2 * (each + ENTRY_OVERHEAD) + 5);
        done.succeed();
        host.outbound().fail_first(WriteError::Cancelled);
        assert_eq!(host.outbound().first().map(|last| last.weight), Some(each + 3));
        host.outbound().first_sent();
        host.wrote();
        assert_eq!(fate(&mut written[0]), Some(Ok(())));
        assert!(matches!(fate(&mut written[1]), Some(Err(_))));
        assert_eq!(fate(&mut written[2]), Some(Ok(())));
        let outbound = host.outbound();
        assert!(outbound.is_empty() && outbound.pending_bytes() == 0 && outbound.unsent_bytes() == 0);
        assert_eq!(outbound.taken_bytes(), (2 * each + 4) as u64);
        host.closed(CloseCause::PeerClosed);
        host.remove();
    });
}

#[test]
fn bytes_as_messages_keep_their_boundaries() {
    struct Echo;
    impl Application for Echo {
        type Read = BytesMut;
        type Write = Bytes;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
            cx.write_and_flush(bytes.freeze());
        }
    }
    let mut channel = EmbeddedChannel::of_messages(pipeline().app(Echo));
    channel.receive(BytesMut::from("a")).receive(BytesMut::new()).receive(BytesMut::from("b"));
    assert_eq!(channel.finish().outbound, ["a", "", "b"]);
}
