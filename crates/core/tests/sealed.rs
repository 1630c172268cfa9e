//! Segments that take messages of different types, behind one joint.
#![cfg(not(loom))]

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Channel, ChannelGroup, CloseCause, Context, EmbeddedChannel, Event, Handler,
    Leftover, OnWorker, Outgoing, Peer, Switch, Workers, WriteError, WritePromise, Written, pipeline,
};
use std::{
    cell::RefCell,
    convert::Infallible,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
    thread,
};

type Way = Switch<Infallible>;
type Outside = EmbeddedChannel<(), Infallible>;

/// Where a stage puts the handle that it got from its channel.
struct Put<W>(Rc<RefCell<Option<Channel<W>>>>);

impl<W> Put<W> {
    fn new() -> Self {
        Self(Rc::default())
    }
    fn taken(&self) -> Channel<W> {
        self.0.borrow().clone().expect("a handle was put here")
    }
}

impl<W> Clone for Put<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Bytes in, text in brackets out.
struct Brackets;

impl Handler for Brackets {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = String;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, text: String, done: WritePromise) {
        cx.write_with(Bytes::from(format!("[{text}]")), done);
    }
}

/// Bytes in, numbers between commas out.
struct Numbers;

impl Handler for Numbers {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = u64;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, number: u64, done: WritePromise) {
        cx.write_with(Bytes::from(format!("{number},")), done);
    }
}

/// Speaks text until a byte comes, then gives way to `Count`.
struct Talk {
    switch: Option<Way>,
    text: Put<String>,
    numbers: Put<u64>,
}

impl Application for Talk {
    type Read = BytesMut;
    type Write = String;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.text.0.replace(Some(cx.channel()));
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
        cx.write_and_flush("bye".into());
        if let Some(switch) = &self.switch {
            switch.to(pipeline().add(Numbers).app(Count { handle: self.numbers.clone() }).sealed());
        }
    }
}

/// Speaks numbers.
struct Count {
    handle: Put<u64>,
}

impl Application for Count {
    type Read = BytesMut;
    type Write = u64;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.handle.0.replace(Some(cx.channel()));
        cx.write_and_flush(1);
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush(bytes.len() as u64);
    }
}

struct Test {
    outside: Outside,
    text: Put<String>,
    numbers: Put<u64>,
}

/// A channel that speaks text and, from the first byte on, numbers.
fn talk() -> Test {
    let (text, numbers) = (Put::new(), Put::new());
    let (inside, count) = (text.clone(), numbers.clone());
    let outside = EmbeddedChannel::with_joint(pipeline().joint(|switch| {
        pipeline().add(Brackets).app(Talk { switch: Some(switch), text: inside, numbers: count }).sealed()
    }));
    Test { outside, text, numbers }
}

fn fate(mut written: Written) -> Option<Result<(), WriteError>> {
    written.try_take()
}

#[test]
fn a_handle_from_inside_writes_to_its_segment_and_is_the_same_channel() {
    fn any_thread<T: Send + Sync + Clone + 'static>(_: &T) {}
    let Test { mut outside, text, numbers } = talk();
    let inside = text.taken();
    any_thread(&inside);
    assert_eq!(inside.id(), outside.channel().id());
    inside.write_and_flush("hello".into());
    assert_eq!(outside.run().outbound_bytes(), b"[hello]");
    outside.write_inbound(b"x");
    numbers.taken().write_and_flush(7);
    assert_eq!(outside.run().outbound_bytes(), b"[bye]1,7,");
}

#[test]
fn attributes_and_stages_are_the_channels_whoever_asks() {
    let Test { mut outside, text, .. } = talk();
    outside.channel().set_attribute(5u8);
    text.taken().set_attribute("inside");
    assert_eq!(text.taken().attribute::<u8>().as_deref(), Some(&5));
    assert_eq!(outside.channel().attribute::<&str>().as_deref(), Some(&"inside"));
    let mut stages = text.taken().stages();
    outside.run();
    let names: Vec<_> = stages.try_take().unwrap().unwrap().into_iter().map(|stage| stage.name).collect();
    assert_eq!(names, ["Brackets", "Talk"]);
}

#[test]
fn what_one_thread_asks_of_a_handle_from_inside_is_done_in_that_order() {
    let Test { mut outside, text, .. } = talk();
    let inside = text.taken();
    outside.block_output(true);
    let first = inside.send("one".into());
    let second = inside.write_tracked("two".into());
    inside.shut_down_output();
    let third = inside.write_tracked("three".into());
    outside.block_output(false);
    assert_eq!(outside.outbound_bytes(), b"[one]");
    assert!(matches!(fate(first), Some(Ok(()))));
    assert!(matches!(fate(second), Some(Err(WriteError::OutputShutDown))));
    assert!(matches!(fate(third), Some(Err(WriteError::OutputShutDown))));
    assert!(outside.is_open());
    let late = inside.write_tracked("four".into());
    inside.close();
    outside.run();
    assert!(!outside.is_open());
    assert!(fate(late).unwrap().is_err());
}

#[test]
fn what_was_accepted_before_the_exchange_is_carried_out_and_what_comes_later_says_why_not() {
    let Test { mut outside, text, numbers } = talk();
    let inside = text.taken();
    let early = inside.send("early".into());
    inside.write("untracked".into());
    exchange_before_commands(&mut outside);
    assert!(matches!(fate(early), Some(Ok(()))));
    assert_eq!(outside.outbound_bytes(), b"[bye][early][untracked]1,");
    let late = inside.send("late".into());
    outside.run();
    assert!(matches!(fate(late), Some(Err(WriteError::Exchanged))));
    numbers.taken().write_and_flush(2);
    assert_eq!(outside.run().outbound_bytes(), b"2,");
}

/// Delivers a byte before the loop carries out what was asked of the channel.
fn exchange_before_commands(outside: &mut Outside) {
    outside.write_inbound(b"x");
}

#[test]
fn an_exchanged_handle_is_still_the_channels_but_for_writes() {
    let Test { mut outside, text, .. } = talk();
    let inside = text.taken();
    outside.write_inbound(b"x").outbound_bytes();
    assert!(!inside.is_writable());
    let mut room = Box::pin(inside.writable());
    let polled = room.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
    let Poll::Ready(Err(CloseCause::Fault(fault))) = polled else { panic!("{polled:?}") };
    assert!(matches!(fault.downcast_ref(), Some(WriteError::Exchanged)));
    inside.pause();
    assert!(!outside.run().wants_read());
    inside.resume();
    assert!(outside.run().wants_read());
    inside.fire_event(Event::new("for the new segment"));
    let mut closed = Box::pin(inside.closed());
    let mut poll = || closed.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    inside.close();
    outside.run();
    assert!(matches!(poll(), Poll::Ready(CloseCause::Requested)));
}

#[test]
fn whoever_waits_for_room_is_told_when_there_is_and_when_the_segment_leaves() {
    struct Flag(AtomicBool);
    impl std::task::Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let Test { mut outside, text, .. } = talk();
    let inside = text.taken();
    outside.block_output(true);
    assert!(inside.is_writable());
    let written = inside.send("x".repeat(1 << 20));
    assert!(!inside.is_writable(), "counted while it is on its way");
    outside.run();
    assert!(!inside.is_writable(), "counted while it waits to be sent");

    let woken = Arc::new(Flag(AtomicBool::new(false)));
    let waker = Waker::from(woken.clone());
    let mut room = Box::pin(inside.writable());
    assert!(room.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    outside.block_output(false);
    assert!(woken.0.swap(false, Ordering::SeqCst));
    assert!(matches!(room.as_mut().poll(&mut std::task::Context::from_waker(&waker)), Poll::Ready(Ok(()))));
    assert!(matches!(fate(written), Some(Ok(()))));

    outside.block_output(true);
    inside.write_and_flush("x".repeat(1 << 20));
    outside.run();
    let mut room = Box::pin(inside.writable());
    assert!(room.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    outside.write_inbound(b"x");
    assert!(woken.0.load(Ordering::SeqCst));
    assert!(matches!(
        room.as_mut().poll(&mut std::task::Context::from_waker(&waker)),
        Poll::Ready(Err(CloseCause::Fault(_)))
    ));
}

#[test]
fn marks_of_a_segment_that_left_give_their_room_back() {
    let Test { mut outside, text, numbers } = talk();
    text.taken().write_and_flush("x".repeat(1 << 20));
    exchange_before_commands(&mut outside);
    outside.run().outbound_bytes();
    assert!(outside.channel().is_writable());
    assert!(numbers.taken().is_writable());
}

#[test]
fn the_end_of_the_channel_fails_what_is_on_its_way_and_resolves_every_handle() {
    let Test { mut outside, text, numbers } = talk();
    let old = text.taken();
    outside.write_inbound(b"x").outbound_bytes();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (first, second) = (heard.clone(), heard.clone());
    old.on_close(move |cause| first.lock().unwrap().push(cause.to_string()));
    numbers.taken().on_close(move |cause| second.lock().unwrap().push(cause.to_string()));
    outside.channel().close_because(CloseCause::ShutDown);
    let behind = numbers.taken().send(3);
    outside.run();
    assert!(matches!(fate(behind), Some(Err(WriteError::Closed(CloseCause::ShutDown)))));
    assert_eq!(heard.lock().unwrap().len(), 2);
    for cause in [old.close_cause(), numbers.taken().close_cause()] {
        assert!(matches!(cause, Some(CloseCause::ShutDown)));
    }
    let late = numbers.taken().send(4);
    assert!(matches!(fate(late), Some(Err(WriteError::Closed(CloseCause::ShutDown)))));
}

#[test]
fn a_loop_that_goes_away_fails_what_is_on_its_way() {
    let Test { outside, text, .. } = talk();
    let inside = text.taken();
    let written = inside.send("never".into());
    drop(outside);
    assert!(matches!(fate(written), Some(Err(WriteError::Closed(_)))));
    assert!(matches!(fate(inside.send("late".into())), Some(Err(WriteError::Closed(_)))));
}

#[test]
fn a_panic_in_the_segment_fails_what_waits_for_it() {
    let text = Put::new();
    let inside = text.clone();
    let mut outside: Outside = EmbeddedChannel::with_joint(
        pipeline()
            .add(Brackets)
            .handle(move |cx, _| {
                inside.0.replace(Some(cx.channel()));
                cx.channel().write_and_flush("behind".into());
                panic!("for a test")
            })
            .sealed(),
    );
    outside.write_inbound(b"x");
    assert_eq!(outside.outbound_bytes(), b"");
    assert!(matches!(text.taken().close_cause(), Some(CloseCause::Panicked(_))));
}

#[test]
fn groups_take_handles_from_inside_and_members_leave_with_their_channels() {
    let room = ChannelGroup::new();
    let (mut ann, mut bob) = (talk(), talk());
    room.add(ann.text.taken());
    room.add(bob.text.taken());
    room.write_and_flush("all".to_owned());
    assert_eq!(ann.outside.run().outbound_bytes(), b"[all]");
    assert_eq!(bob.outside.run().outbound_bytes(), b"[all]");
    bob.outside.close_by_peer();
    assert_eq!(room.len(), 1);
    let everybody = ChannelGroup::new();
    everybody.add(ann.outside.channel().clone());
    drop(everybody.close());
    ann.outside.run();
    assert!(!ann.outside.is_open());
    assert!(room.is_empty());
}

#[test]
fn async_tails_have_handles_of_their_own_type() {
    async fn shout(mut peer: Peer<BytesMut, String>) -> Result<(), CloseCause> {
        let others = peer.channel();
        while let Some(bytes) = peer.read().await? {
            peer.write(String::from_utf8_lossy(&bytes).to_uppercase()).await?;
            others.write_and_flush("from elsewhere".into());
        }
        Ok(())
    }
    let mut outside: Outside = EmbeddedChannel::with_joint(pipeline().add(Brackets).serve(shout).sealed());
    outside.write_inbound(b"hi");
    assert_eq!(outside.outbound_bytes(), b"[HI][from elsewhere]");
    outside.close_input();
    assert!(!outside.is_open());
}

#[test]
fn a_stage_on_workers_has_a_handle_of_its_own_type() {
    struct Far;
    impl Application<OnWorker> for Far {
        type Read = BytesMut;
        type Write = String;
        fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, bytes: BytesMut) {
            cx.channel().write_and_flush(format!("{} far away", bytes.len()));
        }
    }
    let workers = Workers::new(1).unwrap();
    let mut outside: Outside =
        EmbeddedChannel::with_joint(pipeline().add(Brackets).app_on(&workers, Far).sealed());
    outside.write_inbound(b"abc");
    let sent = loop {
        match outside.run().read_outbound() {
            Some(sent) => break sent,
            None => thread::yield_now(),
        }
    };
    assert_eq!(sent, "[3 far away]");
}

#[test]
fn sealed_segments_nest() {
    let inner = Put::new();
    let handle = inner.clone();
    let mut outside: Outside = EmbeddedChannel::with_joint(pipeline().joint(|outer: Way| {
        drop(outer);
        pipeline()
            .add(PassBytes)
            .joint(|switch: Way| {
                let talk = Talk { switch: Some(switch), text: handle, numbers: Put::new() };
                pipeline().add(Brackets).app(talk).sealed()
            })
            .sealed()
    }));
    inner.taken().write_and_flush("deep".into());
    assert_eq!(outside.run().outbound_bytes(), b"[deep]");
    outside.write_inbound(b"x");
    assert_eq!(outside.outbound_bytes(), b"[bye]1,");
    outside.channel().close();
    assert!(!outside.run().is_open());
}

#[test]
fn an_outer_exchange_takes_what_the_segments_inside_had_accepted() {
    let inner = Put::new();
    let way: Rc<RefCell<Option<Way>>> = Rc::default();
    let (handle, keep) = (inner.clone(), way.clone());
    let mut outside: Outside = EmbeddedChannel::with_joint(pipeline().joint(|outer: Way| {
        keep.replace(Some(outer));
        pipeline()
            .add(PassBytes)
            .joint(|_: Way| {
                let talk = Talk { switch: None, text: handle, numbers: Put::new() };
                pipeline().add(Brackets).app(talk).sealed()
            })
            .sealed()
    }));
    let early = inner.taken().send("early".into());
    way.borrow().as_ref().unwrap().to(pipeline().add(Numbers).app(Count { handle: Put::new() }).sealed());
    outside.write_inbound(b"abc");
    assert_eq!(outside.outbound_bytes(), b"[bye][early]1,");
    assert!(matches!(fate(early), Some(Ok(()))));
    let late = inner.taken().send("late".into());
    assert!(matches!(fate(late), Some(Err(WriteError::Exchanged))));
    outside.write_inbound(b"abc");
    assert_eq!(outside.outbound_bytes(), b"3,");
}

struct PassBytes;

impl Handler for PassBytes {
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

#[test]
fn no_write_is_lost_in_silence_while_the_segment_is_exchanged() {
    const THREADS: usize = 4;
    const EACH: usize = 300;
    let Test { mut outside, text, .. } = talk();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let inside = text.taken();
            thread::spawn(move || (0..EACH).map(|_| inside.send("m".into())).collect::<Vec<_>>())
        })
        .collect();
    let mut sent = outside.run().outbound_bytes();
    while !threads.iter().any(thread::JoinHandle::is_finished) {
        sent.extend(outside.run().outbound_bytes());
        thread::yield_now();
    }
    sent.extend(outside.write_inbound(b"x").outbound_bytes());
    let written: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    sent.extend(outside.run().outbound_bytes());
    let mut taken = 0;
    for written in written {
        match fate(written) {
            Some(Ok(())) => taken += 1,
            Some(Err(WriteError::Exchanged)) => {}
            other => panic!("{other:?}"),
        }
    }
    let on_the_wire = sent.windows(3).filter(|piece| piece == b"[m]").count();
    assert_eq!(on_the_wire, taken);
    assert!(outside.channel().is_writable());
}

/// Keeps what it reads for whoever comes next.
struct Keeps {
    switch: Way,
    kept: BytesMut,
}

impl Handler for Keeps {
    type Read = BytesMut;
    type ReadOut = Infallible;
    type Write = String;
    type WriteOut = Outgoing;

    fn read(&mut self, _: &mut Context<'_, Self>, bytes: BytesMut) {
        self.kept.unsplit(bytes);
    }
    fn event(&mut self, _: &mut Context<'_, Self>, _: Event) {
        self.switch.to(pipeline()
            .serve(|mut peer: Peer| async move {
                while let Ok(Some(bytes)) = peer.read().await {
                    let _ = peer.write(bytes.freeze()).await;
                }
            })
            .sealed());
    }
    fn write(&mut self, _: &mut Context<'_, Self>, _: String, done: WritePromise) {
        done.succeed();
    }
    fn leftover(&mut self) -> Leftover<BytesMut> {
        Leftover::one(std::mem::take(&mut self.kept))
    }
}

#[test]
fn what_is_left_over_is_followed_by_read_complete_whoever_asked_for_the_exchange() {
    let first = |switch| pipeline().add(Keeps { switch, kept: BytesMut::new() }).handle(|_, _| {}).sealed();
    let mut channel = Outside::with_joint(pipeline().joint(first));
    channel.write_inbound(b"hello");
    channel.channel().fire_event(Event::new(())); // no read, so the transport says nothing behind it
    assert_eq!(channel.run().outbound_bytes(), b"hello", "an answer waits for its flush");
}
