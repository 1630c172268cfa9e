//! What a group of channels promises.

use super::*;
use crate::{ChannelState, CloseCause, EmbeddedChannel, pipeline};
use bytes::Bytes;
use std::{
    convert::Infallible,
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

type Member = EmbeddedChannel<Infallible, Outgoing>;

fn member() -> Member {
    EmbeddedChannel::new(pipeline().handle(|_, _| ()))
}

fn group_of<const N: usize>(members: &[Member; N]) -> ChannelGroup<Outgoing> {
    let group = ChannelGroup::new();
    for member in members {
        assert!(group.add(member.channel().clone()));
    }
    group
}

fn listeners(member: &Member) -> usize {
    member.channel().listeners()
}

#[test]
fn a_channel_is_a_member_once_until_it_is_removed() {
    let members = [member(), member()];
    let group = group_of(&members);
    let id = members[0].channel().id();
    assert!(!group.add(members[0].channel().clone()), "a second time");
    assert_eq!((group.len(), group.contains(id), group.is_empty()), (2, true, false));
    assert_eq!(group.get(id).as_ref(), Some(members[0].channel()));
    assert!(group.remove(id));
    assert!(!group.remove(id));
    assert_eq!((group.len(), group.contains(id)), (1, false));
    assert!(members[0].is_open(), "removing closes nothing");
    assert!(group.get(id).is_none());
}

#[test]
fn members_are_listed_by_number_and_the_list_does_not_change_under_the_reader() {
    let members = [member(), member(), member()];
    let group = ChannelGroup::new();
    for member in members.iter().rev() {
        group.add(member.channel().clone());
    }
    let seen = group.members();
    group.remove(seen[1].id());
    let ids: Vec<_> = members.iter().map(|member| member.channel().id()).collect();
    assert_eq!(seen.iter().map(Channel::id).collect::<Vec<_>>(), ids);
    assert_eq!(group.members().iter().map(Channel::id).collect::<Vec<_>>(), [ids[0], ids[2]]);
}

#[test]
fn a_broadcast_reaches_every_member_in_order_and_a_filter_picks() {
    let mut members = [member(), member(), member()];
    let group = group_of(&members);
    let first = members[0].channel().id();
    group.write(Bytes::from("a"));
    group.write_if(Bytes::from("b"), |channel| channel.id() == first);
    assert!(members.iter_mut().all(|member| member.outbound_bytes().is_empty()), "nothing is flushed yet");
    group.flush_if(|channel| channel.id() != first);
    assert_eq!(members.each_mut().map(Member::outbound_bytes), [&b""[..], b"a", b"a"]);
    group.flush();
    group.write_and_flush(Bytes::from("c"));
    group.write_and_flush_if(Bytes::from("d"), |channel| channel.id() != first);
    assert_eq!(members.each_mut().map(Member::outbound_bytes), [&b"abc"[..], b"cd", b"cd"]);
}

#[test]
fn a_message_is_cloned_for_all_but_the_last_that_gets_it() {
    static CLONES: AtomicUsize = AtomicUsize::new(0);
    struct Message;
    impl Clone for Message {
        fn clone(&self) -> Self {
            CLONES.fetch_add(1, Ordering::Relaxed);
            Self
        }
    }
    struct Encode;
    impl crate::Handler for Encode {
        type Read = bytes::BytesMut;
        type ReadOut = bytes::BytesMut;
        type Write = Message;
        type WriteOut = Outgoing;
        fn read(&mut self, _: &mut crate::Context<'_, Self>, _: bytes::BytesMut) {}
        fn write(&mut self, cx: &mut crate::Context<'_, Self>, _: Message, done: crate::WritePromise) {
            cx.write_with(Bytes::from("m"), done);
        }
    }
    let mut members = [0; 5].map(|_| EmbeddedChannel::new(pipeline().add(Encode)));
    let group = ChannelGroup::new();
    for member in &members {
        group.add(member.channel().clone());
    }
    group.write_and_flush(Message);
    assert_eq!(CLONES.load(Ordering::Relaxed), 4);
    group.write_and_flush_if(Message, |channel| channel == members[2].channel());
    assert_eq!(CLONES.load(Ordering::Relaxed), 4);
    group.write_and_flush_if(Message, |_| false);
    assert_eq!(members.each_mut().map(|member| member.outbound_bytes().len()), [1, 1, 2, 1, 1]);
}

#[test]
fn a_member_leaves_when_its_channel_ends_whoever_ends_it() {
    let mut members = [member(), member(), member(), member()];
    let group = group_of(&members);
    members[0].close_by_peer();
    assert_eq!(group.len(), 3);
    members[1].channel().close();
    members[1].run();
    assert_eq!(group.len(), 2);
    members[2].channel().close_because(CloseCause::TimedOut(std::time::Duration::from_secs(1)));
    members[2].run();
    assert_eq!(group.members().iter().map(Channel::id).collect::<Vec<_>>(), [members[3].channel().id()]);
    assert!(!group.add(members[0].channel().clone()), "a channel that has ended is not taken in");
}

#[test]
fn a_member_has_left_before_its_own_pipeline_hears_of_the_end() {
    struct Leaver(ChannelGroup<Outgoing>, mpsc::Sender<usize>);
    impl crate::Application for Leaver {
        type Read = bytes::BytesMut;
        type Write = Outgoing;
        fn active(&mut self, cx: &mut crate::AppContext<'_, Self>) {
            self.0.add(cx.channel());
        }
        fn read(&mut self, _: &mut crate::AppContext<'_, Self>, _: bytes::BytesMut) {}
        fn inactive(&mut self, _: &mut crate::AppContext<'_, Self>, _: CloseCause) {
            self.1.send(self.0.len()).unwrap();
        }
    }
    let group = ChannelGroup::new();
    let (send, receive) = mpsc::channel();
    let mut member = EmbeddedChannel::new(pipeline().app(Leaver(group.clone(), send)));
    assert_eq!(group.len(), 1);
    member.close_by_peer();
    assert_eq!(receive.try_recv(), Ok(0));
}

#[test]
fn results_come_for_each_member_when_all_are_known() {
    let mut members = [member(), member(), member()];
    let group = group_of(&members);
    for member in &mut members[..2] {
        member.block_output(true);
    }
    let mut written = group.send(Bytes::from("news"));
    assert!(!written.cancel(), "it is on its way to some");
    for member in &mut members {
        member.run();
    }
    members[0].close_by_peer();
    assert!(!written.is_done(), "one of them still has it in its queue");
    members[1].block_output(false);
    let result = written.try_take().unwrap().unwrap();
    let ids = members.each_ref().map(|member| member.channel().id());
    assert!(!result.is_success() && !result.is_empty());
    assert!(matches!(result.get(ids[0]), Some(Err(WriteError::Closed(CloseCause::PeerClosed)))));
    assert!(matches!(result.get(ids[1]), Some(Ok(()))));
    assert_eq!(result.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    assert_eq!(result.failures().map(|(id, _)| id).collect::<Vec<_>>(), [ids[0]]);
    let mut picked = group.send_if(Bytes::from("more"), |channel| channel.id() == ids[2]);
    members[2].run();
    let picked = picked.try_take().unwrap().unwrap();
    assert!(picked.is_success() && picked.len() == 1 && picked.get(ids[1]).is_none());
}

#[test]
fn an_operation_on_nobody_has_succeeded_at_once() {
    let group = ChannelGroup::<Outgoing>::new();
    assert!(group.send(Bytes::new()).try_take().unwrap().unwrap().is_empty());
    assert!(group.close().try_take().unwrap().unwrap().is_success());
}

#[test]
fn closing_resolves_when_every_member_is_closed_and_members_may_come_again() {
    let mut members = [member(), member(), member()];
    let group = group_of(&members);
    let spared = members[2].channel().id();
    let mut closed = group.close_if(|channel| channel.id() != spared);
    members[0].run();
    assert!(!closed.is_done());
    members[1].run();
    assert_eq!(closed.try_take().unwrap().unwrap().len(), 2);
    assert!(members[2].is_open() && group.len() == 1);
    let mut closed = group.close();
    members[2].run();
    assert!(closed.try_take().unwrap().unwrap().is_success());
    let late = member();
    assert!(group.add(late.channel().clone()) && late.is_open());
}

#[test]
fn a_group_that_stays_closed_closes_whoever_comes_late() {
    let group = ChannelGroup::new().stay_closed();
    let mut early = member();
    assert!(group.add(early.channel().clone()));
    drop(group.close_if(|_| false));
    let mut late = member();
    let mut closed = group.close();
    early.run();
    assert!(closed.try_take().unwrap().is_ok());
    assert!(!group.clone().add(late.channel().clone()));
    late.run();
    assert_eq!(late.channel().state(), ChannelState::Closed);
    assert!(group.is_empty());
}

#[test]
fn a_channel_keeps_nothing_of_groups_that_it_left_or_that_are_gone() {
    let member = member();
    let group = ChannelGroup::new();
    for _ in 0..100 {
        group.add(member.channel().clone());
        group.remove(member.channel().id());
        ChannelGroup::new().add(member.channel().clone());
    }
    assert_eq!(listeners(&member), 0);
    group.add(member.channel().clone());
    assert_eq!(listeners(&member), 1);
}

#[test]
fn a_listener_that_panics_keeps_nobody_from_leaving() {
    let mut member = member();
    member.channel().on_close(|_| panic!("not today"));
    let group = ChannelGroup::new();
    group.add(member.channel().clone());
    member.close_by_peer();
    assert!(group.is_empty());
    let (send, receive) = mpsc::channel();
    member.channel().on_close(move |cause| send.send(cause.to_string()).unwrap());
    assert_eq!(receive.try_recv().as_deref(), Ok("closed by the peer"), "at once, for it has ended");
}

#[test]
fn members_come_go_and_end_on_their_own_threads_while_others_broadcast() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 200;
    let group = ChannelGroup::<Outgoing>::new();
    let start = Arc::new(Barrier::new(THREADS + 1));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (group, start) = (group.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                for round in 0..ROUNDS {
                    let mut member = member();
                    let id = member.channel().id();
                    assert!(group.add(member.channel().clone()));
                    member.run();
                    if round % 2 == 0 {
                        assert!(group.remove(id));
                    }
                    member.close_by_peer();
                    assert!(!group.contains(id));
                    assert!(member.outbound_bytes().iter().all(|&byte| byte == b'x'));
                }
            })
        })
        .collect();
    start.wait();
    while threads.iter().any(|thread| !thread.is_finished()) {
        group.write_and_flush(Bytes::from("x"));
        // Each waits for its members, or they would never have done with what comes.
        assert!(group.send(Bytes::from("x")).wait().is_ok());
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(group.is_empty());
}
