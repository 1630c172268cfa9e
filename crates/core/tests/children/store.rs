use crate::support::{In, Out, Parent, data, echo, end};
use bytes::BytesMut;
use netwright_core::{
    AppContext, Application, ChildSettings, CloseCause, Context, InboundOnly, InboundStage, Outgoing,
    Segment, inbound, pipeline,
};
use std::{cell::RefCell, rc::Rc, time::Duration};

fn again() -> impl Segment<BytesMut, Outgoing, Tail = Outgoing> {
    pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).starts_over().into_segment()
}

fn conversation(parent: &mut Parent, id: u32) {
    parent.say(In::Open(id));
    assert_eq!(parent.say(In::Data(id, "hello")), [data(id, "hello"), Out::Credit(id, 5)]);
    assert_eq!(parent.say(In::End(id)), [end(id, "closed by the peer")]);
}

#[test]
fn stages_that_can_start_over_take_the_next_conversation() {
    let mut parent = Parent::of(|_| again());
    (0..10).for_each(|id| conversation(&mut parent, id));
    assert_eq!((parent.seen.built.get(), parent.sources()), (1, 1));
}

#[test]
fn a_closure_of_which_nothing_is_said_has_one_conversation() {
    let mut parent = Parent::of(|_| echo());
    (0..10).for_each(|id| conversation(&mut parent, id));
    assert_eq!(parent.seen.built.get(), 10);
}

#[test]
fn a_conversation_that_was_broken_off_takes_its_stages_along() {
    let mut parent = Parent::of(|_| again());
    for id in 0..3 {
        parent.say(In::Open(id));
        parent.say(In::Reset(id, 1));
    }
    assert_eq!(parent.seen.built.get(), 3);
}

#[test]
fn a_new_conversation_has_a_number_and_handles_of_its_own() {
    let mut parent = Parent::of_known(|_| again());
    parent.say(In::Open(1));
    let first = parent.seen.last();
    first.set_attribute("of the first");
    parent.say(In::End(1));
    parent.say(In::Open(2));
    let second = parent.seen.last();
    assert_eq!(parent.seen.built.get(), 1);
    assert_ne!(first, second);
    assert!(second.attribute::<&str>().is_none());
    assert!(first.send("late").wait().is_err());
    second.write_and_flush("of the second");
    assert_eq!(parent.heard(), [data(2, "of the second")]);
    assert!(matches!(first.close_cause(), Some(CloseCause::PeerClosed)) && second.close_cause().is_none());
}

/// Keeps half a message, a timer and a pause, and forgets all of it.
#[derive(Default)]
struct Forgets {
    rest: BytesMut,
    log: Rc<RefCell<Vec<String>>>,
}

impl Application for Forgets {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.log.borrow_mut().push(format!("active with {} bytes", self.rest.len()));
        cx.arm(Duration::from_secs(5));
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.rest.extend_from_slice(&bytes);
        cx.pause();
    }
    fn timer(&mut self, _: &mut AppContext<'_, Self>, _: netwright_core::StageTimer) {
        self.log.borrow_mut().push("timer".into());
    }
    fn start_over(&mut self) -> bool {
        self.rest.clear();
        true
    }
    fn removed(&mut self) {
        self.log.borrow_mut().push("removed".into());
    }
}

/// A decoder in front that has nothing to forget.
struct Passes;

impl InboundOnly for Passes {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, cx: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn start_over(&mut self) -> bool {
        true
    }
}

fn forgets() -> (Parent, Rc<RefCell<Vec<String>>>) {
    let log = Rc::<RefCell<Vec<String>>>::default();
    let noted = log.clone();
    let stages = move |_| {
        let forgets = Forgets { rest: BytesMut::new(), log: noted.clone() };
        pipeline().add(inbound(Passes)).app(forgets).into_segment()
    };
    (Parent::of(stages), log)
}

#[test]
fn nothing_of_a_conversation_is_left_in_the_next() {
    let (mut parent, log) = forgets();
    for id in 1..=2 {
        parent.say(In::Open(id));
        assert_eq!(parent.say(In::Data(id, "half")), [Out::Credit(id, 4)], "not paused by the last one");
        parent.say(In::End(id));
    }
    parent.embedded.advance(Duration::from_secs(10));
    assert_eq!(*log.borrow(), ["active with 0 bytes", "active with 0 bytes"], "no timer of either");
    assert_eq!(parent.seen.built.get(), 1);
    parent.embedded.close_by_peer();
    drop(parent);
    assert_eq!(log.borrow().last().unwrap(), "removed");
}

#[test]
fn few_are_kept_and_not_for_long() {
    let mut settings = ChildSettings::default();
    settings.keep = 2;
    let mut parent = Parent::with(settings, |_| again());
    let ten = |parent: &mut Parent| {
        (0..10).for_each(|id| drop(parent.say(In::Open(id))));
        (0..10).for_each(|id| drop(parent.say(In::End(id))));
    };
    ten(&mut parent);
    ten(&mut parent);
    assert_eq!(parent.seen.built.get(), 18, "two of ten were there");
    parent.embedded.advance(Duration::from_secs(130));
    conversation(&mut parent, 1);
    assert_eq!(parent.seen.built.get(), 19, "and gone after a while");
    assert_eq!(parent.embedded.event_loop().handle().figures().timers_pending, 1);
    parent.embedded.advance(Duration::from_secs(130));
    assert_eq!(
        parent.embedded.event_loop().handle().figures().timers_pending,
        0,
        "nobody looks after nothing"
    );
}

#[test]
fn one_that_is_needed_is_kept() {
    let mut parent = Parent::of(|_| again());
    for id in 0..20 {
        conversation(&mut parent, id);
        parent.embedded.advance(Duration::from_secs(30));
    }
    assert_eq!(parent.seen.built.get(), 1);
}
