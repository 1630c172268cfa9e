//! A whole stage on workers: order, back pressure, the end.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, Context, EmbeddedChannel, Event, Handler, OnWorker, StageTimer,
    Workers, WritePromise, pipeline,
};
use std::{
    sync::{Arc, Mutex, mpsc},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(30);

type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, text: impl ToString) {
    log.lock().unwrap().push(text.to_string());
}

fn told(log: &Log) -> Vec<String> {
    log.lock().unwrap().clone()
}

/// Drives the channel until something is so.
fn until<R: 'static, W: 'static>(
    channel: &mut EmbeddedChannel<R, W>,
    mut done: impl FnMut(&mut EmbeddedChannel<R, W>) -> bool,
) {
    let start = Instant::now();
    while !done(channel) {
        assert!(start.elapsed() < PATIENCE, "waited in vain");
        channel.run();
        thread::yield_now();
    }
}

/// Passes everything on, from a worker, and tells what it saw.
struct Relay {
    log: Log,
    home: ThreadId,
    gate: Option<mpsc::Receiver<()>>,
}

impl Relay {
    fn new(log: &Log) -> Self {
        Self { log: log.clone(), home: thread::current().id(), gate: None }
    }

    fn see(&self, what: impl ToString) {
        assert_ne!(thread::current().id(), self.home, "it runs on a worker");
        note(&self.log, what);
    }
}

impl Handler<OnWorker> for Relay {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn added(&mut self, _: &mut Context<'_, Self, OnWorker>) {
        self.see("added");
    }
    fn active(&mut self, cx: &mut Context<'_, Self, OnWorker>) {
        self.see("active");
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self, OnWorker>, msg: BytesMut) {
        if let Some(gate) = &self.gate {
            gate.recv().unwrap();
        }
        self.see(format!("read {}", msg.len()));
        cx.fire_read(msg);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, OnWorker>, msg: Bytes, done: WritePromise) {
        self.see(format!("write {}", msg.len()));
        cx.write_with(msg, done);
    }
    fn event(&mut self, cx: &mut Context<'_, Self, OnWorker>, event: Event) {
        self.see("event");
        cx.fire_event(event);
    }
    fn timer(&mut self, cx: &mut Context<'_, Self, OnWorker>, _: StageTimer) {
        self.see("timer");
        cx.write_and_flush(Bytes::from("tick"));
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, OnWorker>, cause: CloseCause) {
        self.see(format!("inactive: {cause}"));
        cx.fire_inactive(cause);
    }
    fn removed(&mut self) {
        note(&self.log, "removed");
    }
}

/// Echoes, on the loop, and tells what it saw.
struct Tail {
    log: Log,
    home: ThreadId,
}

impl Application for Tail {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, msg: BytesMut) {
        assert_eq!(thread::current().id(), self.home, "the stage behind is on the loop");
        note(&self.log, format!("tail read {}", msg.len()));
        cx.write_and_flush(msg.freeze());
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, _: CloseCause) {
        note(&self.log, "tail inactive");
    }
    fn removed(&mut self) {
        note(&self.log, "tail removed");
    }
}

fn tail(log: &Log) -> Tail {
    Tail { log: log.clone(), home: thread::current().id() }
}

#[test]
fn everything_passes_through_the_worker_in_order_and_the_stage_behind_hears_of_the_end() {
    let (log, workers) = (Log::default(), Workers::new(2).unwrap());
    let stages = pipeline().add_on(&workers, Relay::new(&log)).app(tail(&log));
    let mut channel = EmbeddedChannel::new(stages);
    for len in 1..=3 {
        channel.write_inbound(vec![b'x'; len]);
    }
    let mut answer = Vec::new();
    until(&mut channel, |channel| {
        answer.extend(channel.outbound_bytes());
        answer.len() == 6
    });
    channel.close_by_peer();
    until(&mut channel, |_| told(&log).iter().any(|line| line == "removed"));
    let seen = told(&log);
    let of = |prefix: &str| seen.iter().filter(|line| line.starts_with(prefix)).cloned().collect::<Vec<_>>();
    assert_eq!(of("read"), ["read 1", "read 2", "read 3"]);
    assert_eq!(of("tail read"), ["tail read 1", "tail read 2", "tail read 3"]);
    assert_eq!(of("write"), ["write 1", "write 2", "write 3"]);
    assert_eq!(&seen[..2], ["added", "active"]);
    let place = |text: &str| seen.iter().position(|line| line == text).unwrap_or_else(|| panic!("no {text}"));
    assert!(place("inactive: closed by the peer") < place("tail inactive"));
    assert!(place("tail inactive") < place("tail removed"));
    assert!(place("inactive: closed by the peer") < place("removed"));
}

#[test]
fn reading_is_held_up_while_a_worker_is_busy_and_nothing_is_lost() {
    let (log, workers) = (Log::default(), Workers::new(1).unwrap());
    let (open, gate) = mpsc::channel();
    let mut relay = Relay::new(&log);
    relay.gate = Some(gate);
    let mut channel = EmbeddedChannel::new(pipeline().add_on(&workers, relay).app(tail(&log)));
    until(&mut channel, |channel| channel.wants_read());
    channel.write_inbound(b"x");
    assert!(!channel.wants_read(), "one is under way");
    channel.write_inbound(b"xx"); // as if it had been read already: it waits in front of the stage
    (0..2).for_each(|_| open.send(()).unwrap());
    let mut answer = Vec::new();
    until(&mut channel, |channel| {
        answer.extend(channel.outbound_bytes());
        answer.len() == 3
    });
    until(&mut channel, |channel| channel.wants_read());
}

#[test]
fn what_the_application_said_about_demand_stays_as_it_is() {
    let (log, workers) = (Log::default(), Workers::new(1).unwrap());
    let mut channel = EmbeddedChannel::new(pipeline().add_on(&workers, Relay::new(&log)).app(tail(&log)));
    channel.channel().pause();
    channel.run().write_inbound(b"x");
    channel.run();
    assert!(!channel.wants_read());
    channel.channel().resume();
    until(&mut channel, |channel| !channel.outbound_bytes().is_empty());
    until(&mut channel, |channel| channel.wants_read());
}

#[test]
fn writes_from_outside_pass_through_the_worker_before_the_close_behind_them() {
    let (log, workers) = (Log::default(), Workers::new(1).unwrap());
    let mut channel = EmbeddedChannel::new(pipeline().add_on(&workers, Relay::new(&log)).app(tail(&log)));
    let written = channel.channel().send(Bytes::from("last words"));
    let _ = channel.channel().close();
    until(&mut channel, |channel| !channel.is_open());
    assert_eq!(channel.outbound_bytes(), b"last words");
    assert!(written.is_done());
}

/// Blocks, arms a timer, panics: what a handler may do wrong or right there.
struct Trouble;

impl Application<OnWorker> for Trouble {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, msg: BytesMut) {
        match &msg[..] {
            b"panic" => panic!("no such row"),
            b"timer" => drop(cx.arm(Duration::from_secs(1))),
            b"handle" => cx.channel().write_and_flush(Bytes::from("by the handle")),
            b"caller" => cx.caller().call(|_, cx| cx.write_and_flush(Bytes::from("called back"))),
            _ => cx.close(),
        }
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, _: StageTimer) {
        cx.write_and_flush(Bytes::from("tick"));
    }
}

fn trouble(workers: &Workers) -> EmbeddedChannel<std::convert::Infallible, Bytes> {
    EmbeddedChannel::new(pipeline().app_on(workers, Trouble))
}

#[test]
fn a_panic_on_the_worker_closes_the_channel_with_its_message() {
    let mut channel = trouble(&Workers::new(1).unwrap());
    channel.write_inbound(b"panic");
    until(&mut channel, |channel| !channel.is_open());
    let Some(CloseCause::Panicked(message)) = channel.channel().close_cause() else { panic!() };
    assert_eq!(message, "no such row");
}

#[test]
fn timers_the_handle_and_callers_work_from_there() {
    let workers = Workers::new(1).unwrap();
    let mut channel = trouble(&workers);
    channel.write_inbound(b"timer");
    until(&mut channel, |channel| channel.event_loop().handle().figures().timers_pending == 1);
    channel.advance(Duration::from_secs(1));
    let mut answer = Vec::new();
    for (ask, expected) in
        [(&b""[..], &b"tick"[..]), (b"handle", b"by the handle"), (b"caller", b"called back")]
    {
        if !ask.is_empty() {
            channel.write_inbound(ask);
        }
        answer.clear();
        until(&mut channel, |channel| {
            answer.extend(channel.outbound_bytes());
            answer.len() >= expected.len()
        });
        assert_eq!(answer, expected);
    }
}

#[test]
fn workers_that_are_shut_down_close_the_channel_with_the_reason() {
    let workers = Workers::new(1).unwrap();
    let mut channel = trouble(&workers);
    workers.shutdown_gracefully(Duration::MAX).wait().unwrap();
    channel.write_inbound(b"x");
    until(&mut channel, |channel| !channel.is_open());
    let cause = channel.channel().close_cause().unwrap().to_string();
    assert!(cause.contains("the workers refused"), "{cause}");
}

#[test]
fn a_slow_worker_makes_the_channel_unwritable_for_those_outside() {
    let (log, workers) = (Log::default(), Workers::new(1).unwrap());
    let (open, gate) = mpsc::channel();
    let mut relay = Relay::new(&log);
    relay.gate = Some(gate);
    let mut channel = EmbeddedChannel::new(pipeline().add_on(&workers, relay).app(tail(&log)));
    channel.write_inbound(b"x"); // the worker waits at its gate
    for _ in 0..10 {
        channel.channel().write(Bytes::from(vec![0; 10_000]));
    }
    channel.channel().flush();
    channel.run();
    assert!(!channel.channel().is_writable(), "100,000 bytes wait for the worker");
    open.send(()).unwrap();
    until(&mut channel, |channel| channel.channel().is_writable());
}

#[test]
fn a_write_on_its_way_through_a_worker_gets_an_answer_when_the_channel_breaks_down() {
    /// Panics on the loop, behind the stage on workers.
    struct Fragile;
    impl Application for Fragile {
        type Read = BytesMut;
        type Write = Bytes;
        fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
        fn event(&mut self, _: &mut AppContext<'_, Self>, _: Event) {
            panic!("on the loop");
        }
    }
    let (log, workers) = (Log::default(), Workers::new(1).unwrap());
    let (open, gate) = mpsc::channel();
    let mut relay = Relay::new(&log);
    relay.gate = Some(gate);
    let mut channel = EmbeddedChannel::new(pipeline().add_on(&workers, relay).app(Fragile));
    channel.channel().fire_event(Event::new(())); // on its way through the worker, and then the panic
    until(&mut channel, |_| told(&log).iter().any(|line| line == "event"));
    channel.write_inbound(b"x"); // the worker waits at its gate
    let handle = channel.channel().clone(); // kept: what waits must not wait as long as somebody has a handle
    let written = handle.send(Bytes::from("late"));
    until(&mut channel, |channel| !channel.is_open());
    let _ = open.send(()); // nobody waits there if the panic came before the bytes
    until(&mut channel, |_| written.is_done());
}

#[test]
fn writes_behind_a_panic_on_the_worker_fail_with_its_message() {
    let workers = Workers::new(1).unwrap();
    let mut channel = trouble(&workers);
    let lane_busy = workers.lane();
    let (release, wait) = mpsc::channel::<()>();
    lane_busy.execute(move || wait.recv().unwrap()).unwrap(); // the one worker is busy meanwhile
    channel.write_inbound(b"panic");
    let written = channel.channel().send(Bytes::from("behind"));
    channel.run();
    release.send(()).unwrap();
    until(&mut channel, |channel| !channel.is_open() && written.is_done());
}
