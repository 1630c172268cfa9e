//! What a stage holds back is let go when its guard is dropped, wherever that is.
#![cfg(not(loom))]

use bytes::BytesMut;
use netwright_core::{
    Context, EmbeddedChannel, Handler, Hold, Kept, OnWorker, Outgoing, StageCaller, Switch, Workers,
    WritePromise, pipeline,
};
use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, Mutex},
    thread,
};

type Shelf = Arc<Mutex<Vec<Hold>>>;

/// Passes one message on and puts a guard on the shelf with it.
struct Holds {
    what: fn(&mut Context<'_, Self>) -> Hold,
    shelf: Shelf,
}

impl Handler for Holds {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
        let hold = (self.what)(cx);
        self.shelf.lock().unwrap().push(hold);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        if matches!(bytes.as_bytes(), Some(bytes) if bytes == "let go") {
            self.shelf.lock().unwrap().clear(); // in a call of its own stage
        }
        cx.write_with(bytes, done);
    }
}

/// How a guard is taken.
type Take = fn(&mut Context<'_, Holds>) -> Hold;

type Embedded = EmbeddedChannel<BytesMut, Outgoing>;

fn holding(what: Take) -> (Embedded, Shelf) {
    let shelf = Shelf::default();
    let mut channel = EmbeddedChannel::new(pipeline().add(Holds { what, shelf: shelf.clone() }));
    channel.write_inbound("first");
    assert_eq!(channel.read_inbound().unwrap(), "first");
    assert!(!channel.wants_read());
    (channel, shelf)
}

#[test]
fn a_hold_that_is_dropped_anywhere_lets_messages_go_on() {
    let ways: [fn(&mut Embedded, &Shelf); 3] = [
        |_, shelf| shelf.lock().unwrap().clear(), // between two calls of the channel
        |channel, _| {
            channel.write_outbound("let go");
        },
        |_, shelf| {
            let shelf = shelf.clone();
            thread::spawn(move || shelf.lock().unwrap().clear()).join().unwrap();
        },
    ];
    let whats: [Take; 2] = [|cx| cx.hold(), |cx| cx.hold_input()];
    for what in whats {
        for drop_it in ways {
            let (mut channel, shelf) = holding(what);
            drop_it(&mut channel, &shelf);
            assert!(channel.run().wants_read());
            channel.write_inbound("second");
            assert_eq!(channel.read_inbound().unwrap(), "second");
        }
    }
}

#[test]
fn each_of_several_holds_counts() {
    let (mut channel, shelf) = holding(|cx| cx.hold());
    channel.channel().resume(); // the application has no say in it
    shelf.lock().unwrap().clear();
    channel.run().write_inbound("second");
    assert_eq!(shelf.lock().unwrap().len(), 1);
    assert!(!channel.wants_read(), "the guard that came with the second message");
    shelf.lock().unwrap().clear();
    assert!(channel.run().wants_read());
}

#[test]
fn a_guard_outlives_its_channel_and_its_loop() {
    let (channel, shelf) = holding(|cx| cx.hold());
    drop(channel);
    shelf.lock().unwrap().clear();
}

/// What a stage takes when it is called.
struct Plain;

impl Handler for Plain {
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
}

/// Calls a stage that has a name.
fn call(channel: &mut Embedded, name: &str, call: impl FnOnce(&mut Context<'_, Plain>) + Send + 'static) {
    let stage: StageCaller<Plain> = channel.channel().stage(name).unwrap();
    stage.call(|_, cx| call(cx));
    channel.run();
}

#[test]
fn a_guard_that_another_stage_releases_is_that_of_its_own() {
    let mut channel = EmbeddedChannel::new(pipeline().add(Plain).named("one").add(Plain).named("other"));
    let shelf = Shelf::default();
    for name in ["one", "other"] {
        let shelf = shelf.clone();
        call(&mut channel, name, move |cx| shelf.lock().unwrap().push(cx.hold()));
    }
    let of_one = shelf.lock().unwrap().remove(0);
    call(&mut channel, "other", move |cx| of_one.release(cx));
    assert!(!channel.wants_read(), "the other still holds");
    let of_other = shelf.lock().unwrap().remove(0);
    call(&mut channel, "other", move |cx| {
        of_other.release(cx);
        assert!(!cx.view().is_paused(), "at once");
    });
    assert!(channel.wants_read());
}

#[test]
fn kept_bytes_count_until_they_are_passed_on_or_the_guard_is_dropped() {
    let mut channel = EmbeddedChannel::new(pipeline().add(Plain).named("keeps"));
    let shelf: Arc<Mutex<Option<Kept>>> = Arc::default();
    let place = shelf.clone();
    call(&mut channel, "keeps", move |cx| {
        let mut kept = cx.keep(1 << 20);
        assert_eq!(cx.view().pending_bytes(), 1 << 20);
        kept.sub(cx, 1 << 19);
        kept.add(cx, 5);
        kept.sub(cx, 5);
        assert_eq!((kept.bytes(), cx.view().pending_bytes()), (1 << 19, 1 << 19));
        *place.lock().unwrap() = Some(kept);
    });
    assert!(!channel.channel().is_writable());
    *shelf.lock().unwrap() = None;
    assert!(channel.run().channel().is_writable());
    call(&mut channel, "keeps", |cx| assert_eq!(cx.view().pending_bytes(), 0));
}

#[test]
fn the_guards_of_a_stage_that_has_left_change_nothing_any_more() {
    let shelf = Shelf::default();
    let stage = Holds { what: |cx| cx.hold(), shelf: shelf.clone() };
    let kept: Rc<RefCell<Option<Switch<Outgoing>>>> = Rc::default();
    let keep = kept.clone();
    let mut channel = EmbeddedChannel::<(), Outgoing>::with_joint(pipeline().joint(move |switch| {
        keep.replace(Some(switch));
        pipeline().add(stage).handle(|_, _| {})
    }));
    channel.write_inbound("hold");
    assert!(!channel.wants_read());
    let next = Holds { what: |cx| cx.hold(), shelf: Shelf::default() };
    kept.borrow().as_ref().unwrap().to(pipeline().add(next).handle(|_, _| {}));
    channel.channel().flush();
    assert!(channel.run().wants_read(), "what it held went with it");
    channel.write_inbound("hold again");
    assert!(!channel.wants_read());
    shelf.lock().unwrap().clear();
    assert!(!channel.run().wants_read(), "that was not its successor's");
}

/// Takes guards on a worker, and lets some of them go there.
struct Elsewhere {
    kept: Option<Hold>,
}

impl Handler<OnWorker> for Elsewhere {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self, OnWorker>, bytes: BytesMut) {
        drop((cx.hold(), cx.hold_input(), cx.keep(1 << 20)));
        let at_once = cx.hold();
        at_once.release(cx);
        if bytes == "hold" {
            self.kept = Some(cx.hold());
        }
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, OnWorker>, bytes: Outgoing, done: WritePromise) {
        self.kept = None;
        cx.write_with(bytes, done);
    }
}

#[test]
fn guards_that_are_dropped_on_a_worker_let_go_however_early() {
    let workers = Workers::new(1).unwrap();
    let mut channel = EmbeddedChannel::new(pipeline().add_on(&workers, Elsewhere { kept: None }));
    let settle = |channel: &mut Embedded| {
        while channel.run().is_busy() {
            thread::yield_now();
        }
    };
    for round in 0..100 {
        settle(&mut channel);
        assert!(channel.wants_read() && channel.channel().is_writable(), "round {round}");
        channel.write_inbound("hold");
        settle(&mut channel);
        assert_eq!(channel.read_inbound(), None, "round {round}: held");
        assert!(!channel.wants_read());
        channel.write_outbound("let go");
        settle(&mut channel);
        assert_eq!(channel.read_inbound().unwrap(), "hold");
        channel.outbound_bytes();
    }
}
