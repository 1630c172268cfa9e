use crate::support::{In, Out, Parent, data, echo, end};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, ChannelGroup, CloseCause, Outgoing, Peer, PromiseError, StageCaller, pipeline,
};
use std::{sync::Arc, sync::Mutex, thread};

#[test]
fn a_handle_is_made_when_it_is_asked_for_and_works_from_any_thread() {
    let mut parent = Parent::of_known(|_| echo());
    parent.say(In::Open(1));
    let child = parent.seen.last();
    let other = child.clone();
    let mut written = thread::spawn(move || other.send("from elsewhere")).join().unwrap();
    assert_eq!(parent.heard(), [data(1, "from elsewhere")]);
    assert!(written.wait().is_ok());
    assert_eq!(parent.seen.pokes.get(), 1);
}

#[test]
fn a_child_knows_its_parent_and_its_parent_its_children() {
    let mut parent = Parent::of_known(|_| echo());
    parent.say(In::Open(1));
    parent.say(In::Open(2));
    let child = parent.seen.last();
    assert!(parent.embedded.channel().parent().is_none());
    let its = child.parent().unwrap();
    assert_eq!(its.id(), parent.embedded.channel().id());
    assert_eq!((child.local(), child.peer()), (its.local(), its.peer()));
    assert!(!its.is_closing() && its.close_cause().is_none());

    let mut ids = parent.embedded.channel().children();
    parent.embedded.run();
    let known: Vec<_> = parent.seen.channels.borrow().keys().copied().collect();
    assert_eq!(ids.wait().unwrap(), known);

    let closed = its.close();
    assert!(its.is_closing());
    parent.embedded.run();
    assert!(matches!(closed.wait(), Ok(CloseCause::Requested)));
    assert!(matches!(child.close_cause(), Some(CloseCause::Requested)));
    assert_eq!(parent.embedded.channel().children().wait(), Err(PromiseError::Abandoned));
}

#[test]
fn what_is_attached_to_the_parent_is_found_from_its_child_unless_it_has_its_own() {
    let mut parent = Parent::of_known(|_| echo());
    parent.say(In::Open(1));
    let child = parent.seen.last();
    parent.embedded.channel().set_attribute(7_u32);
    assert_eq!(child.attribute::<u32>().as_deref(), Some(&7));
    child.set_attribute(8_u32);
    assert_eq!(child.attribute::<u32>().as_deref(), Some(&8));
    assert_eq!(child.parent().unwrap().attribute::<u32>().as_deref(), Some(&7));
    parent.say(In::End(1));
    assert_eq!(child.attribute::<u32>().as_deref(), Some(&8), "also afterwards");
}

#[test]
fn groups_hold_children_until_they_end() {
    let mut parent = Parent::of_known(|_| echo());
    let group = ChannelGroup::new();
    for id in 1..=3 {
        parent.say(In::Open(id));
        group.add(parent.seen.last());
    }
    group.write_and_flush(Bytes::from("all"));
    assert_eq!(parent.heard(), [data(1, "all"), data(2, "all"), data(3, "all")]);
    assert_eq!(parent.seen.pokes.get(), 1);
    parent.say(In::End(2));
    assert_eq!(group.len(), 2);
    let mut closed = group.close();
    assert_eq!(parent.heard().len(), 2);
    assert!(closed.wait().unwrap().is_success() && group.is_empty());
}

#[test]
fn an_async_function_is_a_child_like_any_other() {
    async fn talk(mut peer: Peer) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        while let Some(bytes) = peer.read().await? {
            peer.send(bytes.freeze()).await?;
        }
        peer.send("that was all").await?;
        Ok(())
    }
    let mut parent = Parent::of(|_| pipeline().serve(talk).into_segment());
    parent.say(In::Open(1));
    assert_eq!(parent.say(In::Data(1, "one")), [data(1, "one"), Out::Credit(1, 3)]);
    assert_eq!(parent.say(In::Data(1, "two")), [data(1, "two"), Out::Credit(1, 3)]);
    assert_eq!(parent.say(In::Fin(1)), [data(1, "that was all"), end(1, "closed by the peer")]);
    assert_eq!(parent.sources(), 1);
}

#[test]
fn handles_of_a_child_that_has_ended_answer_at_once() {
    let mut parent = Parent::of_known(|_| echo());
    parent.say(In::Open(1));
    let child = parent.seen.last();
    parent.say(In::Reset(1, 3));
    assert!(child.send("late").wait().is_err());
    assert!(matches!(child.closed().wait(), Ok(CloseCause::Reset(3))));
    assert!(child.stages().wait().is_err() && child.children().wait().is_err());
    assert!(child.is_closing());
    assert!(child.parent().is_some(), "whose child it was");
    child.close();
    child.pause();
    assert_eq!(parent.heard(), []);
}

#[test]
fn a_caller_of_a_childs_stage_reaches_it_and_nobody_after_it() {
    type Back = Arc<Mutex<Option<StageCaller<netwright_core::ApplicationStage<Calls>>>>>;
    struct Calls(Back);
    impl Application for Calls {
        type Read = BytesMut;
        type Write = Outgoing;
        fn active(&mut self, cx: &mut AppContext<'_, Self>) {
            *self.0.lock().unwrap() = Some(cx.caller());
        }
        fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
        fn start_over(&mut self) -> bool {
            true
        }
    }
    let back = Back::default();
    let its = back.clone();
    let mut parent = Parent::of(move |_| pipeline().app(Calls(its.clone())).into_segment());
    parent.say(In::Open(1));
    let first = back.lock().unwrap().clone().unwrap();
    first.call(|_, cx| cx.write_and_flush("called"));
    assert_eq!(parent.heard(), [data(1, "called")]);
    parent.say(In::End(1));
    parent.say(In::Open(2));
    assert_eq!(parent.seen.built.get(), 1, "the same stages");
    first.call(|_, cx| cx.write_and_flush("to a stranger"));
    assert_eq!(parent.heard(), []);
    let second = back.lock().unwrap().clone().unwrap();
    second.call(|_, cx| cx.write_and_flush("to whom it is for"));
    assert_eq!(parent.heard(), [data(2, "to whom it is for")]);
}
