//! What `Idle` tells and when, on a clock that is moved by hand.

use bytes::{Bytes, BytesMut};
use netwright_codec::LineFrames;
use netwright_core::{
    AppContext, Application, CloseCause, EmbeddedChannel, Event, IntoPipeline, Outgoing, Peer, Workers,
    filter, pipeline,
};
use netwright_handler::{Chaos, Idle, IdleEvent, IdleKind, ReadTimeout, Shape, shape::Rate};
use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

type Told = Rc<RefCell<Vec<(IdleKind, u32)>>>;

/// Answers nothing, and keeps what it is told.
struct Listens(Told);

impl Application for Listens {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        if bytes == "echo" {
            cx.write_and_flush(bytes);
        }
    }
    fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
        if let Some(event) = event.get::<IdleEvent>() {
            assert_eq!(event.is_first(), event.times == 1);
            self.0.borrow_mut().push((event.kind, event.times));
        }
    }
}

fn listens(idle: Idle) -> (EmbeddedChannel<(), Bytes>, Told) {
    let told = Told::default();
    let stages = pipeline().filter(idle).app(Listens(Rc::clone(&told)));
    (EmbeddedChannel::of(stages), told)
}

fn take(told: &Told) -> Vec<(IdleKind, u32)> {
    std::mem::take(&mut told.borrow_mut())
}

use IdleKind::{All, Read, Write};

#[test]
fn silence_is_told_when_it_is_over_and_again_after_each_further_limit() {
    let (mut channel, told) = listens(Idle::read(secs(10)));
    channel.advance(Duration::from_millis(9999));
    assert_eq!(take(&told), []);
    channel.advance(Duration::from_millis(1));
    assert_eq!(take(&told), [(Read, 1)]);
    channel.advance(secs(20));
    assert_eq!(take(&told), [(Read, 2), (Read, 3)]);
    channel.write_inbound("hello").advance(Duration::from_millis(9999));
    assert_eq!(take(&told), []);
    channel.advance(Duration::from_millis(1));
    assert_eq!(take(&told), [(Read, 1)], "another silence");
}

#[test]
fn silence_begins_with_the_last_message_however_many_there_were() {
    let (mut channel, told) = listens(Idle::read(secs(10)));
    for _ in 0..100 {
        channel.advance(secs(7)).write_inbound("hello");
    }
    channel.advance(Duration::from_millis(9999));
    assert_eq!(take(&told), []);
    channel.advance(Duration::from_millis(1));
    assert_eq!(take(&told), [(Read, 1)]);
}

#[test]
fn reads_and_writes_are_told_apart() {
    let (mut channel, told) = listens(Idle::read(secs(10)).and(Write, secs(10)).and(All, secs(10)));
    for _ in 0..4 {
        channel.advance(secs(3)).write_inbound("hello");
    }
    assert_eq!(take(&told), [(Write, 1)], "only what was written was missing");
    channel.advance(secs(10));
    assert_eq!(take(&told), [(Write, 2), (Read, 1), (All, 1)], "at 20, and at 22");
    channel.write_outbound("hello").advance(Duration::from_millis(9999));
    assert_eq!(take(&told), []);
    channel.advance(Duration::from_millis(1));
    assert_eq!(take(&told), [(Read, 2), (Write, 1), (All, 1)]);
}

#[test]
fn an_answer_counts_as_written_when_it_is_written() {
    let (mut channel, told) = listens(Idle::write(secs(10)));
    channel.advance(secs(6)).write_inbound("echo").advance(secs(9));
    assert_eq!(take(&told), []);
    channel.advance(secs(1));
    assert_eq!(take(&told), [(Write, 1)]);
}

#[test]
fn what_is_written_by_a_handle_counts() {
    let (mut channel, told) = listens(Idle::write(secs(10)));
    channel.advance(secs(6)).channel().write_and_flush("hello");
    channel.run().advance(secs(9));
    assert_eq!(take(&told), []);
    channel.advance(secs(1));
    assert_eq!(take(&told), [(Write, 1)]);
}

#[test]
fn what_is_stuck_is_idle_and_what_leaves_late_is_not() {
    let (mut channel, told) = listens(Idle::write(secs(10)).and(All, secs(10)));
    channel.block_output(true).write_outbound("hello").advance(secs(10));
    assert_eq!(take(&told), [(Write, 1), (All, 1)]);
    channel.block_output(false).advance(secs(10));
    assert_eq!(take(&told), [], "it left meanwhile");
    channel.advance(secs(10));
    assert_eq!(take(&told), [(Write, 1), (All, 1)]);
}

#[test]
fn what_a_stage_nearer_to_the_wire_lets_leave_piece_by_piece_is_not_silence() {
    let slow = || Rate::try_from(10).unwrap();
    let chaos: Chaos = "write.rate=10,write.split=10,seed=1".parse().unwrap();
    let stages = pipeline()
        .filter(Shape::bytes().write(slow()))
        .filter(Idle::write(secs(5)).and(All, secs(5)).closing());
    let shaped = EmbeddedChannel::of(stages.app(Listens(Told::default())));
    let stages = pipeline().filter(chaos.stage(1)).filter(Idle::write(secs(5)).and(All, secs(5)).closing());
    let under_way = EmbeddedChannel::of(stages.app(Listens(Told::default())));
    for mut channel in [shaped, under_way] {
        channel.write_outbound(vec![b'x'; 300]);
        let mut left = 0;
        for second in 0..28 {
            left += channel.advance(secs(1)).outbound_bytes().len();
            assert!(channel.is_open(), "cut after {second} s, {left} bytes have left");
        }
        channel.advance(secs(20));
        assert_eq!(left + channel.outbound_bytes().len(), 300);
        assert!(!channel.is_open(), "nothing waits any more");
    }
}

#[test]
fn a_peer_that_is_not_listened_to_is_not_blamed() {
    let (mut channel, told) = listens(Idle::read(secs(10)));
    channel.channel().pause();
    channel.advance(secs(95));
    assert_eq!(take(&told), []);
    channel.channel().resume();
    channel.run().advance(secs(14));
    assert_eq!(take(&told), [], "it has ten seconds from when the resume is found, at a hundred");
    channel.advance(secs(1));
    assert_eq!(take(&told), [(Read, 1)]);
}

#[test]
fn an_application_that_asks_for_each_message_has_exact_times() {
    async fn echo(mut peer: Peer) -> Result<(), CloseCause> {
        while let Some(bytes) = peer.read().await? {
            peer.write(bytes).await?;
        }
        Ok(())
    }
    let mut channel = EmbeddedChannel::of(pipeline().filter(Idle::read(secs(10)).closing()).serve(echo));
    for _ in 0..5 {
        channel.advance(secs(9)).write_inbound("hello");
        assert_eq!(channel.outbound_bytes(), b"hello");
    }
    channel.advance(Duration::from_millis(9999));
    assert!(channel.is_open());
    channel.advance(Duration::from_millis(1));
    assert!(matches!(channel.finish().cause, Some(CloseCause::TimedOut(limit)) if limit == secs(10)));
}

#[test]
fn a_peer_that_has_said_that_it_sends_no_more_is_not_waited_for() {
    let (mut channel, told) = listens(Idle::read(secs(10)).and(All, secs(10)));
    channel.close_input().advance(secs(10));
    assert_eq!(take(&told), [(All, 1)], "nothing was written");
    channel.write_outbound("hello").advance(secs(9));
    assert_eq!(take(&told), []);
    assert!(channel.is_open());
}

#[test]
fn nothing_is_told_of_a_channel_that_has_ended() {
    let (mut channel, told) = listens(Idle::all(secs(10)));
    channel.close_by_peer().advance(secs(100));
    assert_eq!(take(&told), []);
    assert_eq!(channel.channel().event_loop().figures().timers_pending, 0);
}

#[test]
fn what_nobody_takes_while_reading_is_stopped_does_not_pile_up() {
    let (mut channel, told) = listens(Idle::write(secs(1)));
    channel.channel().pause();
    channel.advance(secs(1000));
    assert_eq!(take(&told), [(Write, 1)]);
    channel.channel().resume();
    channel.advance(secs(1));
    assert_eq!(take(&told), [(Write, 2)]);
}

#[test]
fn zero_is_no_limit_and_the_longest_time_never_comes() {
    for limit in [Duration::ZERO, Duration::MAX] {
        let (mut channel, told) = listens(Idle::read(limit).and(Write, limit).and(All, limit));
        channel.advance(secs(1_000_000)).write_inbound("echo").advance(secs(1_000_000));
        assert_eq!(take(&told), []);
        let timers = channel.channel().event_loop().figures().timers_pending;
        assert_eq!(timers, u64::from(!limit.is_zero()), "{limit:?}");
    }
}

#[test]
fn the_shortest_limit_is_told_once_in_a_tick() {
    let (mut channel, told) = listens(Idle::read(Duration::from_nanos(1)));
    channel.advance(Duration::from_millis(50));
    assert!(take(&told).len() <= 50);
}

#[test]
fn behind_a_decoder_whole_messages_count() {
    let stages = pipeline().add(LineFrames::max(80)).filter(Idle::read(secs(10)).closing());
    let mut channel = EmbeddedChannel::of(stages.handle(|_, _| {}));
    for _ in 0..9 {
        channel.advance(secs(1)).write_inbound("x");
    }
    channel.advance(Duration::from_millis(999));
    assert!(channel.is_open());
    channel.advance(Duration::from_millis(1));
    assert!(!channel.is_open());
}

#[test]
fn lines_of_one_read_pass_one_by_one_and_in_order() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let keeps = Rc::clone(&seen);
    let stages = pipeline().filter(Idle::read(secs(9))).add(LineFrames::max(80)).filter(Idle::all(secs(9)));
    let mut channel = EmbeddedChannel::of(stages.handle(move |cx, line: Bytes| {
        keeps.borrow_mut().push(line.clone());
        cx.write_and_flush(line);
        cx.pause();
    }));
    channel.write_inbound("one\ntwo\nthree\n");
    assert_eq!(seen.borrow().len(), 1);
    for _ in 0..2 {
        channel.channel().request();
        channel.run();
    }
    assert_eq!(*seen.borrow(), ["one", "two", "three"]);
    assert_eq!(channel.outbound_bytes(), b"one\ntwo\nthree\n");
}

/// Exchanges the segment that it stands in with the first message.
fn exchanged(idle: Idle, after: Option<Idle>) -> impl IntoPipeline<Outgoing> {
    pipeline().joint(move |switch| {
        let mut after = Some(after);
        pipeline().filter(idle).handle(move |cx, bytes| {
            cx.write_and_flush(bytes);
            if let Some(after) = after.take() {
                switch.to(pipeline().filter_if(after).handle(|cx, bytes| cx.write_and_flush(bytes)));
            }
        })
    })
}

#[test]
fn a_timer_leaves_with_its_stage() {
    let mut channel = EmbeddedChannel::of(exchanged(Idle::all(secs(10)).closing(), None));
    assert_eq!(channel.channel().event_loop().figures().timers_pending, 1);
    channel.write_inbound("exchange").advance(secs(100));
    assert!(channel.is_open());
    assert_eq!(channel.channel().event_loop().figures().timers_pending, 0);
}

#[test]
fn a_stage_that_comes_to_a_live_channel_measures_from_then_on() {
    let idle = Idle::all(secs(10)).closing();
    let mut channel = EmbeddedChannel::of(exchanged(Idle::read(Duration::ZERO), Some(idle)));
    channel.advance(secs(50)).write_inbound("exchange").advance(secs(9));
    assert!(channel.is_open());
    channel.write_inbound("hello").advance(secs(9));
    assert!(channel.is_open());
    channel.advance(secs(1));
    assert!(!channel.is_open());
}

#[test]
fn several_of_them_do_not_disturb_each_other() {
    let told = Told::default();
    let stages = pipeline()
        .filter(ReadTimeout::after(secs(30)))
        .filter(Idle::write(secs(10)))
        .filter(Idle::read(secs(25)))
        .app(Listens(Rc::clone(&told)));
    let mut channel = EmbeddedChannel::of(stages);
    channel.advance(secs(29));
    assert_eq!(take(&told), [(Write, 1), (Write, 2), (Read, 1)]);
    channel.advance(secs(1));
    assert!(matches!(channel.finish().cause, Some(CloseCause::TimedOut(limit)) if limit == secs(30)));
}

#[test]
fn on_workers_it_measures_the_same() {
    let workers = Workers::new(1).unwrap();
    let told = Arc::new(Mutex::new(0));
    let count = Arc::clone(&told);
    let stages = pipeline().add_on(&workers, filter::<_, BytesMut, Outgoing>(Idle::read(secs(10))));
    let mut channel = EmbeddedChannel::of(stages.app(Counts(count)));
    let settle = |channel: &mut EmbeddedChannel<(), Bytes>| {
        while channel.run().is_busy() {
            thread::yield_now();
        }
    };
    settle(&mut channel);
    channel.advance(secs(9)).write_inbound("hello");
    settle(&mut channel);
    for (second, times) in (10..30).zip([0; 9].into_iter().chain([1; 10]).chain([2])) {
        channel.advance(secs(1));
        settle(&mut channel);
        assert_eq!(*told.lock().unwrap(), times, "at second {second}");
    }

    struct Counts(Arc<Mutex<u32>>);
    impl Application for Counts {
        type Read = BytesMut;
        type Write = Bytes;
        fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
        fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
            *self.0.lock().unwrap() += u32::from(event.get::<IdleEvent>().is_some());
        }
    }
}
