//! What holds on the loop holds for a stage on workers too: demand, the exchange behind a joint, the end.
#![cfg(not(loom))]

use bytes::{Buf, Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, Context, EmbeddedChannel, EventLoop, Fault, Handler, Host,
    HostSettings, Leftover, LocalLoop, OnWorker, Place, Segment, StageTimer, Switch, Workers, WritePromise,
    driver, pipeline,
};
use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// Drives the channel until something is so.
#[track_caller]
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

/// Drives the channel for as long as its workers need for what they have now.
fn rest<R: 'static, W: 'static>(channel: &mut EmbeddedChannel<R, W>, workers: &Workers) {
    for _ in 0..100 {
        workers.submit(|| ()).unwrap().wait().unwrap();
        channel.run();
    }
}

/// Cuts lines out of bytes, and counts those it has given.
#[derive(Default)]
struct Lines {
    rest: BytesMut,
    given: Arc<AtomicUsize>,
}

impl<P: Place> Handler<P> for Lines {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = String;
    type WriteOut = Bytes;

    fn read(&mut self, _: &mut Context<'_, Self, P>, bytes: BytesMut) {
        self.rest.extend_from_slice(&bytes);
    }
    fn pull(&mut self, cx: &mut Context<'_, Self, P>) -> Option<String> {
        if self.rest.first() == Some(&b'!') {
            cx.close_because(CloseCause::Fault(Fault::new("not a line")));
            self.rest.clear();
        }
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        let line = self.rest.split_to(end);
        self.rest.advance(1);
        self.given.fetch_add(1, Ordering::Relaxed);
        Some(String::from_utf8(line.to_vec()).unwrap())
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, line: String, done: WritePromise) {
        cx.write_with(Bytes::from(line + "\n"), done);
    }
    fn leftover(&mut self) -> Leftover<BytesMut> {
        Leftover::one(std::mem::take(&mut self.rest))
    }
}

/// Passes lines on.
struct Pass;

impl Handler<OnWorker> for Pass {
    type Read = String;
    type ReadOut = String;
    type Write = String;
    type WriteOut = String;

    fn read(&mut self, cx: &mut Context<'_, Self, OnWorker>, line: String) {
        cx.fire_read(line);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, OnWorker>, line: String, done: WritePromise) {
        cx.write_with(line, done);
    }
}

/// Sends lines back, and says goodbye.
struct Echo;

impl<P: Place> Application<P> for Echo {
    type Read = String;
    type Write = String;

    fn read(&mut self, cx: &mut AppContext<'_, Self, P>, line: String) {
        cx.write_and_flush(line);
    }
    fn leaving(&mut self, cx: &mut AppContext<'_, Self, P>) {
        cx.write_and_flush("goodbye".into());
    }
}

// ---- demand ----

#[test]
fn a_decoder_on_workers_makes_no_more_messages_than_are_asked_for() {
    let workers = Workers::new(1).unwrap();
    let lines = Lines::default();
    let given = lines.given.clone();
    let mut settings = HostSettings::default();
    settings.auto_read = false;
    let mut channel = EmbeddedChannel::with_settings(pipeline().add_on(&workers, lines), settings);
    channel.write_inbound(b"\n".repeat(10_000));
    channel.channel().request();
    until(&mut channel, |channel| channel.read_inbound().is_some());
    rest(&mut channel, &workers);
    assert_eq!(channel.read_inbound(), None, "one was asked for");
    let made = given.load(Ordering::Relaxed);
    assert!(made <= 2, "the one that was delivered, and the one that an event had to wait for: {made}");
    channel.channel().resume();
    let mut came = 1;
    until(&mut channel, |channel| {
        came += std::iter::from_fn(|| channel.read_inbound()).count();
        came == 10_000
    });
}

// ---- the exchange ----

type ToBytes = Switch<String>;
type Kept = Rc<RefCell<Option<ToBytes>>>;

/// Waits at a gate before each line, then sends it back; says goodbye, and counts what comes after that.
struct Gated {
    gate: mpsc::Receiver<()>,
    left: bool,
    late: Arc<AtomicUsize>,
}

impl Application<OnWorker> for Gated {
    type Read = String;
    type Write = String;

    fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, line: String) {
        self.late.fetch_add(usize::from(self.left), Ordering::Relaxed);
        self.gate.recv().unwrap();
        cx.write_and_flush(line);
    }
    fn timer(&mut self, _: &mut AppContext<'_, Self, OnWorker>, _: StageTimer) {
        self.late.fetch_add(usize::from(self.left), Ordering::Relaxed);
    }
    fn event(&mut self, _: &mut AppContext<'_, Self, OnWorker>, _: netwright_core::Event) {
        self.late.fetch_add(usize::from(self.left), Ordering::Relaxed);
    }
    fn leaving(&mut self, cx: &mut AppContext<'_, Self, OnWorker>) {
        self.left = true;
        cx.arm(Duration::from_secs(1));
        cx.write_and_flush("goodbye".into());
    }
}

/// An application behind a gate, the gate, and how often it was called after it had left.
fn gated() -> (Gated, mpsc::Sender<()>, Arc<AtomicUsize>) {
    let (open, gate) = mpsc::channel();
    let late = Arc::new(AtomicUsize::new(0));
    (Gated { gate, left: false, late: late.clone() }, open, late)
}

/// Takes the place of lines: keeps what it reads.
struct Keeps(Arc<Mutex<Vec<u8>>>);

impl Handler for Keeps {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = String;
    type WriteOut = Bytes;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        cx.write_and_flush("successor,");
    }
    fn read(&mut self, _: &mut Context<'_, Self>, bytes: BytesMut) {
        self.0.lock().unwrap().extend_from_slice(&bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, line: String, done: WritePromise) {
        cx.write_with(Bytes::from(line), done);
    }
}

#[test]
fn an_exchange_loses_neither_replies_on_workers_nor_bytes_that_were_read() {
    let workers = Workers::new(2).unwrap();
    for lines_on_workers in [false, true] {
        let (app, open, late) = gated();
        let (kept, on) = (Kept::default(), workers.clone());
        let keep = kept.clone();
        let joint = pipeline().joint(move |switch: ToBytes| {
            keep.replace(Some(switch));
            let lines = Lines::default();
            let lines = match lines_on_workers {
                true => netwright_core::Either::Left(netwright_core::on_workers(&on, lines)),
                false => netwright_core::Either::Right(lines),
            };
            pipeline().add(lines).add_on(&on, Pass).app_on(&on, app)
        });
        let mut channel = EmbeddedChannel::<(), String>::with_joint(joint);
        channel.write_inbound("one\ntwo\nthree\nfo");
        rest(&mut channel, &workers);
        let read = Arc::new(Mutex::new(Vec::new()));
        kept.borrow().as_ref().unwrap().to(pipeline().add(Keeps(read.clone())).app(Echo));
        channel.channel().write_and_flush("for the old one".into()); // the first thing that passes the joint
        channel.run().channel().write_and_flush("for the new one".into());
        rest(&mut channel, &workers);
        assert!(!channel.wants_read(), "nothing is delivered until the old segment has left");
        channel.write_inbound("ur");
        open.send(()).unwrap();
        let mut sent = Vec::new();
        until(&mut channel, |channel| {
            sent.extend(channel.outbound_bytes());
            read.lock().unwrap().len() == "two\nthree\nfour".len()
        });
        assert_eq!(String::from_utf8(read.lock().unwrap().clone()).unwrap(), "two\nthree\nfour");
        channel.advance(Duration::from_secs(2));
        rest(&mut channel, &workers);
        sent.extend(channel.outbound_bytes());
        let sent = String::from_utf8(sent).unwrap();
        assert_eq!(sent, "one\nfor the old one\ngoodbye\nsuccessor,for the new one");
        assert_eq!(late.load(Ordering::Relaxed), 0, "who has left gets nothing");
    }
}

// ---- the close ----

/// Closes after a second, whoever is busy.
struct Closes;

impl Handler for Closes {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        cx.arm(Duration::from_secs(1));
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Bytes, done: WritePromise) {
        cx.write_with(bytes, done);
    }
    fn timer(&mut self, cx: &mut Context<'_, Self>, _: StageTimer) {
        cx.close_because(CloseCause::Fault(Fault::new("enough")));
    }
}

#[test]
fn a_fatal_error_of_a_decoder_comes_after_the_replies_to_what_it_decoded_before() {
    let workers = Workers::new(1).unwrap();
    let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).app_on(&workers, Echo));
    channel.write_inbound("a\nb\nc\n!");
    until(&mut channel, |channel| !channel.is_open());
    assert_eq!(channel.outbound_bytes(), b"a\nb\nc\n");
    assert_eq!(channel.channel().close_cause().unwrap().to_string(), "unhandled error: not a line");
}

#[test]
fn a_close_by_a_stage_in_front_lets_what_is_on_workers_come_out_first() {
    let workers = Workers::new(1).unwrap();
    let (app, open, _) = gated();
    let stages = pipeline().add(Closes).add_on(&workers, Lines::default()).app_on(&workers, app);
    let mut channel = EmbeddedChannel::new(stages);
    rest(&mut channel, &workers);
    channel.write_inbound("a\nb\n");
    channel.advance(Duration::from_secs(1));
    assert!(channel.is_open(), "both lines are on their way");
    (0..2).for_each(|_| open.send(()).unwrap());
    until(&mut channel, |channel| !channel.is_open());
    assert_eq!(channel.outbound_bytes(), b"a\nb\n");
    assert_eq!(channel.channel().close_cause().unwrap().to_string(), "unhandled error: enough");
}

#[test]
fn a_peer_that_is_gone_is_not_waited_for() {
    let workers = Workers::new(1).unwrap();
    let (app, open, _) = gated();
    let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).app_on(&workers, app));
    channel.write_inbound("a\n").close_by_peer();
    assert!(!channel.is_open());
    open.send(()).unwrap();
}

// ---- workers that take no more ----

/// Tells when it is removed.
struct Tells(Arc<Mutex<Vec<&'static str>>>);

impl Handler for Tells {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Bytes, done: WritePromise) {
        cx.write_with(bytes, done);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.0.lock().unwrap().push("inactive");
        cx.fire_inactive(cause);
    }
    fn removed(&mut self) {
        self.0.lock().unwrap().push("removed");
    }
}

#[test]
fn a_full_pool_ends_the_channels_whose_stages_it_cannot_run() {
    let workers = Workers::builder().threads(1).max_pending(1).build().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let (app, open, _) = gated();
    let stages = pipeline().add(Tells(told.clone())).add(Lines::default()).app_on(&workers, app);
    let mut channel = EmbeddedChannel::new(stages);
    until(&mut channel, |channel| !channel.is_busy());
    channel.write_inbound("a\n");
    until(&mut channel, |_| workers.figures().pending == 0); // at its gate
    let (go_on, wait) = mpsc::channel::<()>();
    workers.execute(move || wait.recv().unwrap()).unwrap(); // the pool is full
    channel.run();
    let written: Vec<_> = (0..200).map(|_| channel.channel().send("x".into())).collect();
    channel.run();
    open.send(()).unwrap();
    let start = Instant::now();
    while workers.execute(|| ()).is_err() {
        assert!(start.elapsed() < PATIENCE, "the other task does not run");
        thread::yield_now(); // until it does; then the pool is full again
    }
    until(&mut channel, |_| told.lock().unwrap().contains(&"removed"));
    assert!(!channel.is_open());
    assert!(written.iter().all(|written| written.is_done()), "nobody waits for what is lost");
    let cause = channel.channel().close_cause().unwrap().to_string();
    assert!(cause.contains("the workers refused"), "{cause}");
    go_on.send(()).unwrap();
}

#[test]
fn workers_that_drop_what_they_took_end_the_channels_that_wait_for_it() {
    let workers = Workers::new(1).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let stages = pipeline().add(Tells(told.clone())).add(Lines::default()).app_on(&workers, Echo);
    let mut channel = EmbeddedChannel::new(stages);
    rest(&mut channel, &workers);
    let (go_on, wait) = mpsc::channel::<()>();
    workers.execute(move || wait.recv().unwrap()).unwrap();
    channel.write_inbound("a\n"); // waits in the pool
    let ended = workers.shutdown_gracefully(Duration::ZERO);
    go_on.send(()).unwrap();
    drop(ended.wait());
    until(&mut channel, |_| told.lock().unwrap().contains(&"removed"));
    assert!(!channel.is_open());
}

#[test]
fn a_write_that_is_on_a_worker_when_its_loop_goes_away_gets_an_answer() {
    let workers = Workers::new(1).unwrap();
    let (app, open, _) = gated();
    let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).app_on(&workers, app));
    until(&mut channel, |channel| !channel.is_busy());
    channel.write_inbound("a\n"); // at the gate
    let handle = channel.channel().clone();
    let mut waits = handle.send("behind it".into());
    channel.run();
    drop(channel);
    open.send(()).unwrap();
    let start = Instant::now();
    while !waits.is_done() {
        assert!(start.elapsed() < PATIENCE, "it is forgotten");
        thread::yield_now();
    }
    assert!(waits.wait().is_err(), "nobody is left to send it");
}

// ---- the loop ----

/// A channel on a loop, without a socket.
struct Hosted<P: Segment<BytesMut, Bytes>> {
    host: Host<P, Bytes>,
    local: LocalLoop,
    token: driver::Token,
}

impl<P: Segment<BytesMut, Bytes>> Hosted<P> {
    fn act(&mut self) {
        if self.host.is_finished() {
            self.host.remove();
            self.local.deregister(self.token);
        }
    }
}

impl<P: Segment<BytesMut, Bytes>> driver::Source for Hosted<P> {
    fn ready(&mut self, _: driver::Event) {
        self.host.run_commands();
        self.act();
    }
    fn shut_down(&mut self) {
        self.host.closed(CloseCause::ShutDown);
        self.act();
    }
}

/// Tells on which loop its channel is.
struct Where(mpsc::Sender<String>);

impl Application<OnWorker> for Where {
    type Read = BytesMut;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self, OnWorker>) {
        self.0.send(cx.view().event_loop().name().to_owned()).unwrap();
    }
    fn read(&mut self, _: &mut AppContext<'_, Self, OnWorker>, _: BytesMut) {}
}

#[test]
fn a_stage_on_workers_knows_its_loop_and_does_not_keep_it_alive() {
    let workers = Workers::new(1).unwrap();
    let event_loop = EventLoop::builder().name("home").build().unwrap();
    let (tell, told) = mpsc::channel();
    event_loop
        .execute(move || {
            let local = LocalLoop::current().unwrap();
            let stages = pipeline().app_on(&workers, Where(tell)).into_segment();
            let mut host = Host::new(local.clone(), stages, HostSettings::default());
            let registered = local.register_with(|token| {
                host.register(token);
                host.activate(None, None);
                Ok::<_, netwright_core::RefusedWhy>(Hosted { host, local: local.clone(), token })
            });
            registered.unwrap();
        })
        .unwrap();
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "home");
    let ended = event_loop.termination();
    drop(event_loop);
    let start = Instant::now();
    while !ended.is_done() {
        assert!(start.elapsed() < PATIENCE, "the loop lives on without a handle");
        thread::yield_now();
    }
}
