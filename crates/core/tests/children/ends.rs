use crate::support::{In, Out, Parent, data, echo, end};
use bytes::BytesMut;
use netwright_core::{
    AppContext, Application, ChannelState, Children, CloseCause, Event, OnWorker, Outgoing, Workers,
    WriteError, pipeline,
};
use std::{
    rc::Rc,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

fn panics() -> impl netwright_core::Segment<BytesMut, Outgoing, Tail = Outgoing> {
    pipeline()
        .handle(|cx, bytes| match &bytes[..] {
            b"panic" => panic!("the child"),
            b"close" => cx.close(),
            b"goodbye" => {
                cx.write_and_flush("bye");
                cx.close_when_flushed();
            }
            b"reset" => cx.close_because(CloseCause::Reset(8)),
            _ => cx.write_and_flush(bytes.freeze()),
        })
        .into_segment()
}

#[test]
fn a_panic_ends_its_child_alone_and_the_parent_learns_why() {
    let mut parent = Parent::of_known(|_| panics());
    parent.say(In::Open(1));
    let first = parent.seen.last();
    parent.say(In::Open(2));
    let heard = parent.say(In::Data(1, "panic"));
    assert_eq!(heard, [Out::Credit(1, 5), end(1, "a handler panicked: the child")]);
    assert!(matches!(first.close_cause(), Some(CloseCause::Panicked(why)) if why == "the child"));
    assert_eq!(parent.say(In::Data(2, "lives")), [data(2, "lives"), Out::Credit(2, 5)]);
    assert!(parent.embedded.is_open());
    assert_eq!(parent.sources(), 2);
}

#[test]
fn a_childs_close_and_its_code_reach_the_parent() {
    let mut parent = Parent::of_known(|_| panics());
    (1..=4).for_each(|id| drop(parent.say(In::Open(id))));
    assert_eq!(parent.say(In::Data(1, "close")), [Out::Credit(1, 5), end(1, "closed by our side")]);
    let heard = parent.say(In::Data(2, "goodbye"));
    assert_eq!(heard, [data(2, "bye"), Out::Credit(2, 7), end(2, "closed by our side")]);
    assert_eq!(parent.say(In::Data(3, "reset")), [Out::Credit(3, 5), end(3, "reset with code 8")]);
    let last = parent.seen.last();
    let closed = last.reset(42);
    assert_eq!(parent.heard(), [end(4, "reset with code 42")]);
    assert!(matches!(closed.wait(), Ok(CloseCause::Reset(42))));
    assert_eq!(parent.sources(), 1);
}

#[test]
fn the_end_of_the_parent_is_that_of_all_children_with_its_cause() {
    let mut parent = Parent::of_known(|_| panics());
    (1..=3).for_each(|id| drop(parent.say(In::Open(id))));
    parent.seen.blocked.set(true);
    let channels: Vec<_> = parent.seen.channels.borrow().values().cloned().collect();
    let mut waiting = channels[0].write_tracked("never sent");
    channels[0].flush();
    parent.embedded.run().close_by_peer();
    for channel in &channels {
        assert!(matches!(channel.close_cause(), Some(CloseCause::PeerClosed)));
        assert!(matches!(channel.send("late").wait(), Err(WriteError::Closed(CloseCause::PeerClosed))));
    }
    assert!(matches!(waiting.wait(), Err(WriteError::Closed(CloseCause::PeerClosed))));
    assert_eq!(parent.sources(), 1, "that of the test");
}

#[test]
fn the_panic_of_the_parent_is_the_cause_of_its_childrens_end() {
    let mut parent = Parent::of_known(|_| panics());
    parent.say(In::Open(1));
    let child = parent.seen.last();
    parent.say(In::Panic);
    assert!(matches!(child.close_cause(), Some(CloseCause::Panicked(why)) if why == "the parent"));
    assert_eq!(child.state(), ChannelState::Closed);
}

#[test]
fn a_parent_that_panics_while_it_calls_a_child_takes_it_along_in_order() {
    let mut parent = Parent::of_known(|_| panics());
    parent.say(In::PanicWithChild(1));
    let child = parent.seen.last();
    let why = "the parent, in its child";
    assert!(matches!(child.close_cause(), Some(CloseCause::Panicked(said)) if said == why));
    assert_eq!(parent.sources(), 1);
}

#[test]
fn children_that_end_before_their_parent_looks_are_in_nobodys_way() {
    let mut parent = Parent::of(|_| echo());
    parent.say(In::Open(0));
    let many = (1..=100).flat_map(|id| [In::Open(id), In::Data(id, "answered"), In::Reset(id, 1)]).collect();
    parent.say(In::AtOnce(many));
    assert!(parent.embedded.is_open(), "{:?}", parent.embedded.channel().close_cause());
    assert_eq!(parent.say(In::Data(0, "still here")), [data(0, "still here"), Out::Credit(0, 10)]);
    assert_eq!(parent.sources(), 2, "the parent and one child");
}

#[test]
fn an_introduction_that_panics_takes_the_parent_along_and_leaves_nothing_behind() {
    let children = Children::default().introduce(|_| panic!("not a pleasure"));
    let mut parent = Parent::run(children, Rc::default(), |_| echo());
    parent.say(In::Open(1));
    assert!(matches!(parent.embedded.channel().close_cause(), Some(CloseCause::Panicked(_))));
    assert_eq!(parent.sources(), 1, "that of the test");
}

#[test]
fn a_parent_that_is_dropped_leaves_no_child_behind() {
    let mut parent = Parent::of_known(|_| panics());
    parent.say(In::Open(1));
    let child = parent.seen.last();
    drop(parent);
    assert!(matches!(child.close_cause(), Some(CloseCause::ShutDown)));
}

#[test]
fn a_shutdown_of_the_loop_ends_children_through_their_parent() {
    let mut parent = Parent::of_known(|_| panics());
    parent.say(In::Open(1));
    let child = parent.seen.last();
    let manual = parent.embedded.event_loop();
    drop(manual.handle().shutdown_gracefully(Duration::ZERO, Duration::from_secs(5)));
    manual.run_until_idle();
    assert!(matches!(child.close_cause(), Some(CloseCause::ShutDown)));
}

/// Reads only what it asks for, and says what it heard.
struct Slow(Arc<Mutex<Vec<String>>>);

impl Application for Slow {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.pause();
    }
    fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.0.lock().unwrap().push(String::from_utf8_lossy(&bytes).into_owned());
    }
    fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {
        self.0.lock().unwrap().push("input closed".into());
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.0.lock().unwrap().push(format!("inactive: {cause}"));
    }
    fn event(&mut self, cx: &mut AppContext<'_, Self>, _: Event) {
        cx.request();
    }
}

fn slow() -> (Parent, Arc<Mutex<Vec<String>>>) {
    let log = Arc::<Mutex<Vec<String>>>::default();
    let noted = log.clone();
    (Parent::of_known(move |_| pipeline().app(Slow(noted.clone())).into_segment()), log)
}

#[test]
fn what_came_before_the_end_is_read_as_it_is_asked_for_and_the_end_behind_it() {
    let (mut parent, log) = slow();
    parent.say(In::Open(1));
    let child = parent.seen.last();
    parent.say(In::Data(1, "a"));
    parent.say(In::Data(1, "b"));
    parent.say(In::Fin(1));
    assert_eq!(parent.say(In::End(1)), [Out::Credit(1, 2), end(1, "closed by the peer")]);
    assert!(child.close_cause().is_some(), "known at once");
    assert_eq!((log.lock().unwrap().len(), parent.sources()), (0, 2));
    child.request();
    parent.heard();
    child.request();
    parent.heard();
    let heard = ["a", "b", "input closed", "inactive: closed by the peer"];
    assert_eq!(*log.lock().unwrap(), heard);
    assert_eq!(parent.sources(), 1);
}

#[test]
fn what_nobody_asks_for_is_dropped_after_a_minute_and_by_a_shutdown() {
    let (mut parent, log) = slow();
    parent.say(In::Open(1));
    parent.say(In::Data(1, "a"));
    parent.say(In::End(1));
    parent.embedded.advance(Duration::from_secs(59));
    assert_eq!(parent.sources(), 2);
    parent.embedded.advance(Duration::from_secs(1));
    assert_eq!(parent.sources(), 1);
    assert_eq!(*log.lock().unwrap(), ["inactive: closed by the peer"]);

    parent.say(In::Open(2));
    parent.say(In::Data(2, "a"));
    parent.say(In::End(2));
    let manual = parent.embedded.event_loop();
    drop(manual.handle().shutdown_gracefully(Duration::ZERO, Duration::from_secs(5)));
    manual.run_until_idle();
    assert_eq!(log.lock().unwrap().len(), 2);
}

#[test]
fn a_reset_drops_what_was_not_asked_for_and_gives_its_credit_back() {
    let (mut parent, log) = slow();
    parent.say(In::Open(1));
    parent.say(In::Data(1, "unread"));
    assert_eq!(parent.say(In::Reset(1, 7)), [Out::Credit(1, 6), end(1, "reset with code 7")]);
    assert_eq!(*log.lock().unwrap(), ["inactive: reset with code 7"]);
    assert_eq!(parent.sources(), 1);
}

#[test]
fn what_arrives_for_a_child_that_is_closing_gives_its_credit_back_at_once() {
    let (mut parent, _) = slow();
    parent.say(In::Open(1));
    let child = parent.seen.last();
    parent.say(In::Data(1, "before"));
    parent.seen.blocked.set(true);
    child.write_and_flush("not taken yet");
    child.close_when_flushed();
    parent.heard();
    child.close_now(CloseCause::Requested);
    assert_eq!(parent.heard(), [Out::Credit(1, 6), end(1, "closed by our side")]);
}

/// Says on its worker that it is there, and waits to be let go.
struct Heavy {
    arrived: mpsc::Sender<()>,
    go: mpsc::Receiver<()>,
}

impl Application<OnWorker> for Heavy {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, bytes: BytesMut) {
        self.arrived.send(()).unwrap();
        self.go.recv().unwrap();
        cx.write_and_flush(bytes.freeze());
    }
}

#[test]
fn a_child_with_work_on_workers_ends_with_its_parent_and_all_promises_with_it() {
    let workers = Workers::new(1).unwrap();
    let (arrived, arrives) = mpsc::channel();
    let (let_go, go) = mpsc::channel();
    let mut heavy = Some(Heavy { arrived, go });
    let on = workers.clone();
    let mut parent = Parent::of_known(move |_| pipeline().app_on(&on, heavy.take().unwrap()).into_segment());
    parent.say(In::Open(1));
    while parent.embedded.run().is_busy() {}
    let child = parent.seen.last();
    // What the child has on workers keeps the child busy, not its parent.
    parent.say(In::Data(1, "work"));
    while arrives.try_recv().is_err() {
        parent.heard();
    }
    let mut written = child.write_tracked("behind it");
    child.flush();
    let closed = child.closed();
    parent.say(In::Close);
    assert!(!parent.embedded.is_open());
    assert!(matches!(closed.wait(), Ok(CloseCause::Requested)));
    let_go.send(()).unwrap();
    while parent.sources() > 1 {
        parent.embedded.run();
    }
    assert!(written.wait().is_err());
}

#[test]
fn a_child_of_a_child_ends_with_it() {
    use netwright_core::{ChildKey, Children, Context, Handler, Segment, WritePromise};
    use std::convert::Infallible;

    /// Has one child, to whom it says everything.
    struct Between<P: Segment<BytesMut, Outgoing, Tail = Outgoing>> {
        children: Children<P, BytesMut, Outgoing>,
        key: Option<ChildKey>,
        build: Option<P>,
    }
    impl<P: Segment<BytesMut, Outgoing, Tail = Outgoing>> Between<P> {
        fn look(&mut self, cx: &mut Context<'_, Self>) {
            while let Some(key) = self.children.next_ready() {
                self.children.with(key, |child| {
                    while let Some((bytes, done)) = child.take_first() {
                        cx.write_with(bytes, done);
                    }
                });
                cx.flush();
            }
        }
    }
    impl<P: Segment<BytesMut, Outgoing, Tail = Outgoing>> Handler for Between<P> {
        type Read = BytesMut;
        type ReadOut = Infallible;
        type Write = Outgoing;
        type WriteOut = Outgoing;
        fn active(&mut self, cx: &mut Context<'_, Self>) {
            let build = self.build.take().unwrap();
            self.key = self.children.open(cx, || build).ok();
        }
        fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
            self.children.with(self.key.unwrap(), |child| child.received(bytes, 0));
            self.look(cx);
        }
        fn children_ready(&mut self, cx: &mut Context<'_, Self>) {
            self.look(cx);
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
            cx.write_with(bytes, done);
        }
    }
    let innermost = Arc::<Mutex<Option<netwright_core::Channel>>>::default();
    let keep = innermost.clone();
    let mut parent = Parent::of(move |_| {
        let keep = keep.clone();
        let children =
            Children::default().introduce(move |channel| *keep.lock().unwrap() = Some(channel.clone()));
        pipeline().last(Between { children, key: None, build: Some(echo()) }).into_segment()
    });
    parent.say(In::Open(1));
    assert_eq!(parent.say(In::Data(1, "down and up")), [data(1, "down and up"), Out::Credit(1, 11)]);
    let inner = innermost.lock().unwrap().clone().unwrap();
    inner.write_and_flush("by itself");
    assert_eq!(parent.heard(), [data(1, "by itself")]);
    let grandparent = inner.parent().and_then(|parent| parent.parent()).unwrap();
    assert_eq!(grandparent.id(), parent.embedded.channel().id());
    assert_eq!(parent.sources(), 3);
    parent.say(In::Reset(1, 9));
    assert!(matches!(inner.close_cause(), Some(CloseCause::Reset(9))));
    assert_eq!(parent.sources(), 1);
}
