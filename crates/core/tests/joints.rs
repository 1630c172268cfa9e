//! Rewiring live channels.
#![cfg(not(loom))]

use bytes::{Buf, Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, Context, EmbeddedChannel, Event, Handler, Hold, Kept, Leftover,
    OnWorker, Outgoing, Peer, StageTimer, Switch, Workers, WritePromise, pipeline,
};
use std::{cell::RefCell, rc::Rc, sync::mpsc, time::Duration};

type Log = Rc<RefCell<Vec<String>>>;

/// Cuts lines out of bytes; what is left when it leaves goes to its successor.
#[derive(Default)]
struct Lines {
    rest: BytesMut,
}

impl Handler for Lines {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = String;
    type WriteOut = Bytes;

    fn read(&mut self, _: &mut Context<'_, Self>, bytes: BytesMut) {
        self.rest.extend_from_slice(&bytes);
    }
    fn pull(&mut self, _: &mut Context<'_, Self>) -> Option<String> {
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        let line = self.rest.split_to(end);
        self.rest.advance(1);
        Some(String::from_utf8_lossy(&line).into_owned())
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, line: String, done: WritePromise) {
        cx.write_with(Bytes::from(line + "\n"), done);
    }
    fn leftover(&mut self) -> Leftover<BytesMut> {
        if self.rest.is_empty() { Leftover::nothing() } else { Leftover::one(self.rest.split()) }
    }
}

/// Answers lines until `upgrade`, then gives way to raw bytes.
struct Handshake {
    switch: Switch<String>,
    log: Log,
}

impl Application for Handshake {
    type Read = String;
    type Write = String;

    fn active(&mut self, _: &mut AppContext<'_, Self>) {
        self.log.borrow_mut().push("handshake active".into());
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: String) {
        cx.write_and_flush(format!("got {line}"));
        if line == "upgrade" {
            let log = self.log.clone();
            self.switch.to(pipeline().add(Shout).app(Raw { log }));
        }
    }
    fn removed(&mut self) {
        self.log.borrow_mut().push("handshake removed".into());
    }
}

/// Passes bytes on as upper-case text.
struct Shout;

impl Handler for Shout {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = String;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(String::from_utf8_lossy(&bytes).to_uppercase());
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, text: String, done: WritePromise) {
        cx.write_with(Bytes::from(text), done);
    }
}

struct Raw {
    log: Log,
}

impl Application for Raw {
    type Read = String;
    type Write = String;

    fn active(&mut self, _: &mut AppContext<'_, Self>) {
        self.log.borrow_mut().push("raw active".into());
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, text: String) {
        cx.write_and_flush(format!("<{text}>"));
    }
}

fn upgradable(log: &Log) -> EmbeddedChannel<(), String> {
    let log = log.clone();
    EmbeddedChannel::with_joint(
        pipeline().joint(|switch| pipeline().add(Lines::default()).app(Handshake { switch, log })),
    )
}

#[test]
fn bytes_behind_the_upgrade_reach_the_new_segment_first() {
    let log = Log::default();
    let mut channel = upgradable(&log);
    channel.write_inbound(b"hello\nupgrade\nab");
    channel.write_inbound(b"cd");
    assert_eq!(channel.outbound_bytes(), b"got hello\ngot upgrade\n<AB><CD>");
    assert_eq!(*log.borrow(), ["handshake active", "handshake removed", "raw active"]);
}

#[test]
fn byte_by_byte_gives_the_same_as_whole() {
    let log = Log::default();
    let mut channel = upgradable(&log);
    for byte in b"upgrade\nxyz" {
        channel.write_inbound([*byte]);
    }
    assert_eq!(channel.outbound_bytes(), b"got upgrade\n<X><Y><Z>");
}

#[test]
fn what_is_left_over_waits_while_delivery_is_paused() {
    let log = Log::default();
    let mut channel = upgradable(&log);
    channel.channel().pause();
    channel.run();
    channel.write_inbound(b"upgrade\nrest");
    assert_eq!(channel.outbound_bytes(), b"");
    channel.channel().request();
    channel.run();
    assert_eq!(channel.outbound_bytes(), b"got upgrade\n");
    channel.channel().resume();
    channel.run();
    assert_eq!(channel.outbound_bytes(), b"<REST>");
}

#[test]
fn writes_from_outside_go_through_the_segment_that_is_there() {
    let log = Log::default();
    let mut channel = upgradable(&log);
    channel.write_outbound("one".into());
    channel.write_inbound(b"upgrade\n");
    channel.write_outbound("two".into());
    assert_eq!(channel.outbound_bytes(), b"one\ngot upgrade\ntwo");
}

#[test]
fn the_stages_that_are_listed_are_those_that_run() {
    let log = Log::default();
    let mut channel = upgradable(&log);
    let names = |channel: &mut EmbeddedChannel<(), String>| {
        let mut stages = channel.channel().stages();
        channel.run();
        stages.try_take().unwrap().unwrap().into_iter().map(|stage| stage.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut channel), ["Lines", "Handshake"]);
    channel.write_inbound(b"upgrade\n");
    assert_eq!(names(&mut channel), ["Shout", "Raw"]);
}

// ---- what the new segment is told ----

/// Tells a log what happens to it, and passes it on.
/// Reads, and says nothing.
struct Silent;

impl Application for Silent {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

struct Tell {
    name: &'static str,
    log: Log,
    /// Says this in `added`, to both sides.
    greets: bool,
}

impl Tell {
    fn new(name: &'static str, log: &Log) -> Self {
        Self { name, log: log.clone(), greets: false }
    }
    fn greeting(name: &'static str, log: &Log) -> Self {
        Self { greets: true, ..Self::new(name, log) }
    }
    fn say(&self, what: &str) {
        self.log.borrow_mut().push(format!("{} {what}", self.name));
    }
}

impl Handler for Tell {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn added(&mut self, cx: &mut Context<'_, Self>) {
        self.say("added");
        if self.greets {
            cx.fire_read(BytesMut::from("hello"));
            cx.fire_event(Event::new("hello"));
            cx.write_and_flush(Bytes::from(self.name));
        }
    }
    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.say("active");
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        self.say(&format!("reads {}", String::from_utf8_lossy(&bytes)));
        cx.fire_read(bytes);
    }
    fn read_complete(&mut self, cx: &mut Context<'_, Self>) {
        self.say("read_complete");
        cx.fire_read_complete();
    }
    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        self.say(&format!("hears {:?}", event.get::<&str>()));
        cx.fire_event(event);
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        self.say("input_closed");
        cx.fire_input_closed();
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.say("inactive");
        cx.fire_inactive(cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        self.say(&format!("writes {}", String::from_utf8_lossy(bytes.as_bytes().unwrap())));
        cx.write_with(bytes, done);
    }
    fn leaving(&mut self, cx: &mut Context<'_, Self>) {
        self.say("leaving");
        cx.write_and_flush(Bytes::from("farewell"));
    }
    fn timer(&mut self, _: &mut Context<'_, Self>, _: StageTimer) {
        self.say("timer");
    }
}

type Bare = Switch<Outgoing>;

/// A channel that gives way to [`Tell`] when `when` says so: on a message, on the end of input, or on the end.
struct GiveWay {
    switch: Bare,
    when: When,
    log: Log,
    read: BytesMut,
}

#[derive(PartialEq)]
enum When {
    Read,
    InputClosed,
    Inactive,
    Timer,
}

impl GiveWay {
    fn give_way(&mut self, when: When) {
        if self.when == when {
            let rest = self.take();
            self.switch.to_with(pipeline().add(Tell::new("new", &self.log)).app(Silent), rest);
        }
    }
    fn take(&mut self) -> Leftover<BytesMut> {
        if self.read.is_empty() { Leftover::nothing() } else { Leftover::one(self.read.split()) }
    }
}

impl Application for GiveWay {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.arm(Duration::from_secs(1));
    }
    fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.read.extend_from_slice(&bytes);
        self.give_way(When::Read);
    }
    fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {
        self.give_way(When::InputClosed);
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, _: CloseCause) {
        self.give_way(When::Inactive);
    }
    fn timer(&mut self, _: &mut AppContext<'_, Self>, _: StageTimer) {
        self.give_way(When::Timer);
    }
}

fn giving_way(log: &Log, when: When) -> EmbeddedChannel<(), Outgoing> {
    let log = log.clone();
    EmbeddedChannel::with_joint(
        pipeline().joint(|switch| pipeline().app(GiveWay { switch, when, log, read: BytesMut::new() })),
    )
}

#[test]
fn what_a_stage_fires_when_it_is_added_reaches_stages_that_have_been_added() {
    let log = Log::default();
    let stages = pipeline().add(Tell::new("first", &log)).add(Tell::greeting("second", &log));
    let mut channel = EmbeddedChannel::new(stages.add(Tell::new("third", &log)));
    assert_eq!(channel.outbound_bytes(), b"second");
    assert_eq!(channel.read_inbound().unwrap(), "hello");
    let expected = [
        "first added",
        "second added",
        "third added",
        "first writes second",
        "third reads hello",
        "third hears Some(\"hello\")",
        "first active",
        "second active",
        "third active",
    ];
    assert_eq!(*log.borrow(), expected);
}

#[test]
fn what_a_new_segment_fires_when_it_is_added_comes_before_what_was_left_over() {
    let log = Log::default();
    let (greeting, behind) = (Tell::greeting("greeting", &log), Tell::new("behind", &log));
    let mut segment = Some((greeting, behind));
    let mut channel = EmbeddedChannel::<(), Outgoing>::with_joint(pipeline().joint(move |switch: Bare| {
        pipeline().handle(move |_, bytes| {
            let (greeting, behind) = segment.take().unwrap();
            switch.to_with(pipeline().add(greeting).add(behind).handle(|_, _| ()), Leftover::one(bytes));
        })
    }));
    channel.write_inbound(b"rest");
    let heard: Vec<_> = log.borrow().iter().filter(|what| what.starts_with("behind")).cloned().collect();
    let expected = ["added", "reads hello", "hears Some(\"hello\")", "active", "reads rest", "read_complete"];
    assert_eq!(heard, expected.map(|what| format!("behind {what}")));
    assert_eq!(channel.outbound_bytes(), b"greeting");
}

#[test]
fn a_new_segment_hears_of_the_end_of_input_behind_what_was_left_over() {
    let log = Log::default();
    let mut channel = giving_way(&log, When::InputClosed);
    channel.write_inbound(b"rest").close_input();
    let expected = ["new added", "new active", "new reads rest", "new read_complete", "new input_closed"];
    assert_eq!(*log.borrow(), expected);
}

#[test]
fn a_segment_that_comes_after_the_end_hears_of_it() {
    let log = Log::default();
    let mut channel = giving_way(&log, When::Inactive);
    channel.write_inbound(b"rest").close_by_peer();
    let expected = ["new added", "new active", "new reads rest", "new read_complete", "new inactive"];
    assert_eq!(*log.borrow(), expected);
}

#[test]
fn leftovers_are_read_to_the_end_also_when_the_read_they_came_with_is_long_over() {
    let log = Log::default();
    let mut channel = giving_way(&log, When::Timer);
    channel.write_inbound(b"rest").advance(Duration::from_secs(1));
    assert_eq!(*log.borrow(), ["new added", "new active", "new reads rest", "new read_complete"]);
}

#[test]
fn the_transport_says_once_that_a_read_is_complete() {
    let log = Log::default();
    let mut channel = giving_way(&log, When::Read);
    channel.write_inbound(b"rest");
    assert_eq!(*log.borrow(), ["new added", "new active", "new reads rest", "new read_complete"]);
    channel.advance(Duration::from_secs(1));
    assert_eq!(log.borrow().len(), 4, "the old segment's timer went with it");
}

#[test]
fn a_segment_that_leaves_may_have_last_words_and_the_new_one_speaks_after_it() {
    let log = Log::default();
    let switch: Rc<RefCell<Option<Bare>>> = Rc::default();
    let (keep, old) = (switch.clone(), Tell::new("old", &log));
    let mut channel = EmbeddedChannel::<(), Outgoing>::with_joint(pipeline().joint(move |switch: Bare| {
        keep.replace(Some(switch));
        pipeline().add(old).handle(|_, _| ())
    }));
    let new = Tell::greeting("greeting", &log);
    switch.borrow().as_ref().unwrap().to(pipeline().add(new).handle(|_, _| ()));
    channel.write_inbound(b"for the old one");
    assert_eq!(channel.outbound_bytes(), b"farewellgreeting");
}

#[test]
fn a_tail_that_reads_when_it_likes_gives_way_to_one_that_takes_what_comes() {
    async fn once(mut peer: Peer, switch: Bare) -> Result<(), CloseCause> {
        let first = peer.read().await?.unwrap();
        peer.write(first.freeze()).await?;
        switch.to(pipeline().handle(|cx, bytes| {
            cx.write_and_flush(Bytes::from(bytes.to_ascii_uppercase()));
        }));
        Ok(())
    }
    let mut channel = EmbeddedChannel::<(), Outgoing>::with_joint(
        pipeline().joint(|switch| pipeline().serve(move |peer| once(peer, switch))),
    );
    channel.write_inbound(b"one ").write_inbound(b"two ").write_inbound(b"three");
    assert_eq!(channel.outbound_bytes(), b"one TWO THREE");
    assert!(channel.is_open(), "the end of a tail that gave way is not the channel's");
    drop(channel.channel().close_when_flushed());
    assert!(!channel.run().is_open());
}

#[test]
fn a_tail_that_gives_way_and_closes_the_channel_has_closed_it() {
    async fn close(mut peer: Peer, switch: Bare) -> Result<(), CloseCause> {
        peer.read().await?;
        switch.to(pipeline().handle(|_, _| ()));
        peer.close_when_flushed();
        Ok(())
    }
    let mut channel = EmbeddedChannel::<(), Outgoing>::with_joint(
        pipeline().joint(|switch| pipeline().serve(move |peer| close(peer, switch))),
    );
    assert!(!channel.write_inbound(b"x").is_open());
}

#[test]
fn a_stage_on_workers_that_is_full_does_not_hold_up_the_segment_that_takes_its_place() {
    struct Slow(mpsc::Receiver<()>);
    impl Application<OnWorker> for Slow {
        type Read = BytesMut;
        type Write = Outgoing;
        fn read(&mut self, _: &mut AppContext<'_, Self, OnWorker>, _: BytesMut) {
            self.0.recv().ok(); // until it is let go
        }
    }
    let (end, until) = mpsc::channel();
    let workers = Workers::new(1).unwrap();
    let slow = pipeline().add(Tell::new("old", &Log::default())).app_on(&workers, Slow(until));
    let switch: Rc<RefCell<Option<Bare>>> = Rc::default();
    let keep = switch.clone();
    let mut channel = EmbeddedChannel::<(), Outgoing>::with_joint(pipeline().joint(move |switch: Bare| {
        keep.replace(Some(switch));
        slow
    }));
    let settle = |channel: &mut EmbeddedChannel<(), Outgoing>| {
        while channel.is_busy() {
            channel.run();
        }
    };
    settle(&mut channel);
    channel.write_inbound(vec![0; 1 << 20]);
    assert!(!channel.wants_read(), "the stage is full");
    channel.channel().write_and_flush(Bytes::from(vec![0; 1 << 20]));
    channel.run();
    assert!(!channel.channel().is_writable(), "and so is its way out");
    let echo = pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
    switch.borrow().as_ref().unwrap().to(echo);
    channel.channel().flush(); // passes the joint
    channel.run();
    assert!(!channel.wants_read(), "it leaves when it is done");
    drop(end);
    settle(&mut channel);
    assert!(channel.wants_read());
    assert!(channel.channel().is_writable());
    let sent = channel.outbound_bytes();
    assert_eq!(sent.len(), (1 << 20) + "farewell".len(), "what had been written to it comes out");
    channel.write_inbound(b"new");
    assert_eq!(channel.outbound_bytes(), b"new");
}

#[test]
fn what_a_stage_took_of_its_channel_is_given_back_when_it_leaves_and_only_that() {
    /// Takes all it can, and gives nothing back.
    #[derive(Default)]
    struct Greedy(Vec<Hold>, Option<Kept>);
    impl Handler for Greedy {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Outgoing;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut Context<'_, Self>, _: BytesMut) {
            self.0.extend([cx.hold(), cx.hold(), cx.hold_input(), cx.insist()]);
            self.1 = Some(cx.keep(1 << 20));
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
            cx.write_with(bytes, done);
        }
    }
    /// In front of the joint: holds once, and is not to be let go by others.
    #[derive(Default)]
    struct Front(Option<Hold>);
    impl Handler for Front {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Outgoing;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
            cx.fire_read(bytes);
            self.0 = Some(cx.hold());
            cx.arm(Duration::from_secs(1));
        }
        fn timer(&mut self, cx: &mut Context<'_, Self>, _: StageTimer) {
            if let Some(hold) = self.0.take() {
                hold.release(cx);
            }
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
            cx.write_with(bytes, done);
        }
    }
    let switch: Rc<RefCell<Option<Bare>>> = Rc::default();
    let keep = switch.clone();
    let mut channel = EmbeddedChannel::<(), Outgoing>::with_joint(pipeline().add(Front::default()).joint(
        move |switch: Bare| {
            keep.replace(Some(switch));
            pipeline().add(Greedy::default()).handle(|_, _| ())
        },
    ));
    channel.write_inbound(b"x");
    assert!(!channel.channel().is_writable());
    channel.advance(Duration::from_secs(1));
    assert!(!channel.wants_read(), "what one stage says too often does not let another one's hold go");
    let echo = pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
    switch.borrow().as_ref().unwrap().to(echo);
    channel.channel().flush(); // passes the joint
    channel.run();
    assert!(channel.wants_read());
    assert!(channel.channel().is_writable());
    channel.channel().pause();
    assert!(!channel.run().wants_read(), "nobody insists");
}

#[test]
fn the_end_of_output_passes_the_stages_of_the_segment_that_is_there() {
    /// Has something to say before the output ends.
    struct Notify;
    impl Handler for Notify {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Outgoing;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
            cx.write_with(bytes, done);
        }
        fn shut_down_output(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
            cx.write_and_flush(Bytes::from("over"));
            cx.shut_down_output_with(done);
        }
    }
    let mut channel = EmbeddedChannel::<(), Outgoing>::with_joint(pipeline().joint(|switch: Bare| {
        pipeline().handle(move |_, _| switch.to(pipeline().add(Notify).handle(|cx, _| cx.shut_down_output())))
    }));
    channel.write_inbound(b"exchange").write_inbound(b"end");
    assert_eq!(channel.outbound_bytes(), b"over");
    assert!(channel.is_open());
    let mut late = channel.channel().send(Bytes::from("late"));
    channel.run();
    assert!(late.try_take().unwrap().is_err());
}

#[test]
fn messages_that_wait_deeper_in_a_segment_leave_with_it_and_the_channel_goes_on() {
    /// Makes two messages of each.
    struct Twice;
    impl Handler for Twice {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Outgoing;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
            cx.fire_read(bytes.clone());
            cx.fire_read(bytes);
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
            cx.write_with(bytes, done);
        }
    }
    let mut channel = EmbeddedChannel::<(), Outgoing>::with_joint(pipeline().joint(|switch: Bare| {
        pipeline().add(Twice).handle(move |cx, _| {
            cx.pause(); // the second one waits behind `Twice`, and nobody else can read it
            switch.to(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
        })
    }));
    channel.write_inbound(b"x");
    assert!(!channel.wants_read(), "demand is as it was left");
    channel.channel().resume();
    channel.run().write_inbound(b"y");
    assert_eq!(channel.outbound_bytes(), b"y");
}
