//! A filter that lets messages pass changes nothing: what a pipeline does with it and without it is the same, whatever happens.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    Carries, CloseCause, Context, EmbeddedChannel, Event, Fault, Filter, FilterContext, Glance, Handler,
    HostSettings, IntoPipeline, Outgoing, StageTimer, WaterMarks, WritePromise, pipeline,
};
use std::{cell::RefCell, collections::VecDeque, fmt::Write, marker::PhantomData, rc::Rc, time::Duration};

type Log = Rc<RefCell<String>>;

/// Lets everything pass, and counts what it hears of it.
#[derive(Default)]
struct Passes(Rc<RefCell<(u32, u32)>>);

impl<R: 'static, W: 'static> Filter<R, W> for Passes {
    const PASSES: bool = true;

    fn passed_read(&mut self, _: Glance<'_>, wrote: bool) {
        self.0.borrow_mut().0 += 1;
        self.0.borrow_mut().1 += u32::from(wrote);
    }
    fn passed_write(&mut self, _: Glance<'_>) {
        self.0.borrow_mut().1 += 1;
    }
    fn read(&mut self, _: &mut FilterContext<'_, Self, R, W>, _: R) {
        panic!("it does not look at messages");
    }
    fn pull(&mut self, _: &mut FilterContext<'_, Self, R, W>) -> Option<R> {
        panic!("it has none");
    }
    fn write(&mut self, _: &mut FilterContext<'_, Self, R, W>, _: W, _: WritePromise) {
        panic!("it does not look at messages");
    }
    fn flush(&mut self, _: &mut FilterContext<'_, Self, R, W>) {
        panic!("flushes pass it");
    }
    fn close(&mut self, _: &mut FilterContext<'_, Self, R, W>, _: CloseCause, _: WritePromise) {
        panic!("closes pass it");
    }
}

/// The same as a stage like any other.
struct Plain;

impl<R: 'static, W: 'static> Filter<R, W> for Plain {}

/// Makes a message of each byte, gathers what is written until the flush, and fires an event and an error now and then.
#[derive(Default)]
struct Splits {
    waiting: VecDeque<u8>,
    gathered: Vec<u8>,
}

impl Handler for Splits {
    type Read = BytesMut;
    type ReadOut = u8;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        if bytes.contains(&b'e') {
            cx.fire_event(Event::new("early"));
        }
        self.waiting.extend(bytes);
    }
    fn pull(&mut self, cx: &mut Context<'_, Self>) -> Option<u8> {
        let byte = self.waiting.pop_front()?;
        if byte == b'x' {
            cx.fire_error(Fault::new("odd"));
        }
        Some(byte)
    }
    fn write(&mut self, _: &mut Context<'_, Self>, out: Outgoing, done: WritePromise) {
        self.gathered.extend_from_slice(out.as_bytes().unwrap());
        done.succeed();
    }
    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        if !self.gathered.is_empty() {
            cx.write(std::mem::take(&mut self.gathered));
        }
        cx.flush();
    }
}

/// Does what the bytes say, and notes everything. Writes `W`.
struct Last<W>(Log, PhantomData<W>);

impl<W> Last<W> {
    fn new(log: &Log) -> Self {
        Self(Rc::clone(log), PhantomData)
    }

    fn note(&self, what: impl std::fmt::Display) {
        write!(self.0.borrow_mut(), "{what} ").unwrap();
    }
}

impl<W: Carries<&'static str> + Carries<Vec<u8>> + 'static> Handler for Last<W> {
    type Read = u8;
    type ReadOut = std::convert::Infallible;
    type Write = Outgoing;
    type WriteOut = W;

    fn active(&mut self, _: &mut Context<'_, Self>) {
        self.note("active");
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, byte: u8) {
        self.note(char::from(byte));
        match byte {
            b'w' => cx.write("w"),
            b'f' => cx.flush(),
            b'p' => cx.pause(),
            b't' => drop(cx.arm(Duration::from_secs(1))),
            b's' => cx.shut_down_output(),
            b'c' => cx.close(),
            b'!' => cx.close_because(CloseCause::TimedOut(Duration::ZERO)),
            b'q' => cx.close_when_flushed(),
            _ => cx.write_and_flush(vec![byte; 30]),
        }
    }
    fn read_complete(&mut self, cx: &mut Context<'_, Self>) {
        self.note("complete");
        cx.flush();
    }
    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        self.note(event.get::<&str>().unwrap());
        cx.write("event");
    }
    fn error(&mut self, _: &mut Context<'_, Self>, fault: Fault) {
        self.note(fault);
    }
    fn writability(&mut self, cx: &mut Context<'_, Self>, writable: bool) {
        self.note(writable);
        if writable {
            cx.resume();
        }
    }
    fn input_closed(&mut self, _: &mut Context<'_, Self>) {
        self.note("input_closed");
    }
    fn inactive(&mut self, _: &mut Context<'_, Self>, cause: CloseCause) {
        self.note(cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, out: Outgoing, done: WritePromise) {
        cx.write_with(out.as_bytes().unwrap().to_vec(), done);
    }
    fn timer(&mut self, cx: &mut Context<'_, Self>, _: StageTimer) {
        self.note("timer");
        cx.resume();
    }
    fn removed(&mut self) {
        self.note("removed");
    }
}

/// What happens to a channel, drawn from a seed; what it did, and what it sent.
fn live(seed: u64, stages: impl IntoPipeline<Outgoing>, log: &Log) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let marks = WaterMarks::new(20, 60).unwrap();
    let mut settings = HostSettings::default();
    settings.water_marks = marks;
    let mut channel = EmbeddedChannel::<(), _>::with_joint_and_settings(stages, settings);
    let mut sent = Vec::new();
    for _ in 0..40 {
        match draw(14) {
            0..=5 => {
                let len = 1 + draw(6) as usize;
                let bytes: Vec<u8> =
                    (0..len).map(|_| b"abwwfpetxdgabwwfpetxdgabwwfpetxdgsc!q"[draw(37) as usize]).collect();
                channel.write_inbound(bytes);
            }
            6 => drop(channel.advance(Duration::from_millis(700))),
            7 => drop(channel.block_output(true)),
            8 => drop(channel.block_output(false)),
            9 => channel.channel().resume(),
            10 => channel.channel().request(),
            11 => channel.channel().write_and_flush("outside"),
            12 => channel.channel().fire_event(Event::new("asked")),
            _ if draw(12) == 0 => drop(channel.close_by_peer()),
            _ if draw(12) == 0 => drop(channel.close_input()),
            _ => channel.channel().pause(),
        }
        channel.run();
        sent.extend(channel.outbound_bytes());
    }
    channel.block_output(false).channel().resume();
    channel.run();
    sent.extend(channel.outbound_bytes());
    channel.close_by_peer();
    format!("{log}sent {}", String::from_utf8(sent).unwrap(), log = log.borrow())
}

/// What happens is the same with filters that let messages pass, with others, and with none, where the last stage writes this.
macro_rules! passes_unnoticed {
    ($written:ty) => {
        for seed in 1..=1000 {
            let log = Log::default();
            let without =
                live(seed, pipeline().add(Splits::default()).last(Last::<$written>::new(&log)), &log);
            let log = Log::default();
            let plain = pipeline()
                .filter(Plain)
                .add(Splits::default())
                .filter(Plain)
                .filter(Plain)
                .last(Last::<$written>::new(&log));
            let plain = live(seed, plain, &log);
            let (log, passed) = (Log::default(), Rc::default());
            let with = pipeline()
                .filter(Passes::default())
                .filter(Passes::default())
                .add(Splits::default())
                .filter(Passes(Rc::clone(&passed)))
                .filter_if(Some(Passes::default()))
                .last(Last::<$written>::new(&log));
            let with = live(seed, with, &log);
            assert_eq!(with, plain, "seed {seed}");
            assert_eq!(with, without, "seed {seed}");
            let reads =
                with.split(' ').take_while(|word| *word != "sent").filter(|word| word.len() == 1).count();
            assert_eq!(passed.borrow().0 as usize, reads, "seed {seed}");
        }
    };
}

#[test]
fn a_filter_that_lets_messages_pass_changes_nothing() {
    passes_unnoticed!(Outgoing);
}

#[test]
fn nor_where_it_takes_another_type_than_is_written_behind_it() {
    passes_unnoticed!(Bytes);
}

#[test]
fn where_another_type_is_carried_it_passes_as_well() {
    struct Bytewise;
    impl netwright_core::Application for Bytewise {
        type Read = BytesMut;
        type Write = Bytes;
        fn read(&mut self, cx: &mut netwright_core::AppContext<'_, Self>, bytes: BytesMut) {
            cx.write_and_flush(bytes);
        }
    }
    let passed = Rc::default();
    let stages = pipeline().filter(Passes::default()).filter(Passes(Rc::clone(&passed))).app(Bytewise);
    let mut channel = EmbeddedChannel::new(stages);
    assert_eq!(channel.write_inbound("hello").outbound_bytes(), b"hello");
    assert_eq!(passed.borrow().0, 1);
    assert!(passed.borrow().1 >= 1);
}

/// Says something before it passes a message on, and something else when a stage has panicked.
struct Speaks<W>(PhantomData<W>);

impl<W: Carries<&'static str> + 'static> Handler for Speaks<W> {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = W;
    type WriteOut = W;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.write("begun ");
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, message: W, done: WritePromise) {
        cx.write_with::<W>(message, done);
    }
    fn panicked(&mut self, cx: &mut Context<'_, Self>) {
        cx.write("sorry");
        cx.flush();
    }
}

#[test]
fn last_words_follow_what_was_written_in_the_call_that_panicked() {
    fn said<S: IntoPipeline<W>, W: 'static>(stages: S) -> Vec<u8> {
        let mut channel = EmbeddedChannel::<(), W>::of(stages);
        channel.write_inbound("hello");
        assert!(!channel.is_open());
        channel.outbound_bytes()
    }
    macro_rules! behind_filters {
        ($written:ty) => {
            let speaks = || Speaks::<$written>(PhantomData);
            let without = said(pipeline().add(speaks()).handle(|_, _| panic!("no")));
            assert_eq!(without, b"begun sorry");
            let stages = pipeline().filter(Passes::default()).filter(Passes::default());
            assert_eq!(said(stages.add(speaks()).handle(|_, _| panic!("no"))), without);
            assert_eq!(said(pipeline().filter(Plain).add(speaks()).handle(|_, _| panic!("no"))), without);
        };
    }
    behind_filters!(Outgoing);
    behind_filters!(Bytes);
}
