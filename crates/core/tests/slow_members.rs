//! Groups with members that do not read: what each policy does, and that nobody else notices.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Channel, ChannelGroup, CloseCause, EmbeddedChannel, SlowMember, SlowMembers,
    WriteError, pipeline,
};
use std::{convert::Infallible, time::Duration};

type Member = EmbeddedChannel<Infallible, Bytes>;

struct Takes;

impl Application for Takes {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

fn member() -> Member {
    EmbeddedChannel::new(pipeline().app(Takes))
}

/// A member that reads, one that does not, and their group. The second one has no room from the start.
fn group(policy: SlowMembers<Bytes>) -> (Member, Member, ChannelGroup<Bytes>) {
    let (fast, mut slow) = (member(), member());
    slow.block_output(true);
    slow.channel().write_and_flush(Bytes::from(vec![b'.'; 100_000]));
    assert!(!slow.run().channel().is_writable());
    let group = ChannelGroup::new().slow_members(policy);
    assert!(group.add(fast.channel().clone()) && group.add(slow.channel().clone()));
    (fast, slow, group)
}

fn bytes(len: usize) -> Bytes {
    Bytes::from(vec![b'x'; len])
}

/// What came behind the dots.
fn seen(slow: &mut Member) -> String {
    String::from_utf8(slow.run().outbound_bytes()).unwrap().trim_start_matches('.').to_owned()
}

fn why(error: &WriteError) -> SlowMember {
    match error {
        WriteError::Fault(fault) => *fault.downcast_ref().expect("of a slow member"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_member_for_which_too_much_waits_is_closed_with_the_figures_and_nobody_else_notices() {
    let (mut fast, mut slow, group) = group(SlowMembers::close(1000));
    group.write_and_flush(bytes(900));
    assert!(slow.run().is_open());
    let mut written = group.send(bytes(200));
    slow.run();
    let Some(CloseCause::Fault(fault)) = slow.channel().close_cause() else { panic!() };
    assert!(
        matches!(fault.downcast_ref(), Some(SlowMember::Closed { above: 1000, waiting }) if *waiting > 1000),
        "{fault}"
    );
    assert_eq!(fast.run().outbound_bytes().len(), 1100);
    let result = written.wait().unwrap();
    assert!(result.get(fast.channel().id()).unwrap().is_ok());
    assert!(matches!(
        why(result.get(slow.channel().id()).unwrap().as_ref().unwrap_err()),
        SlowMember::Closed { .. }
    ));
    assert_eq!(group.len(), 1);
    assert_eq!((group.slow_figures().closed, group.slow_figures().left_out), (1, 0));
}

#[test]
fn a_slow_member_is_closed_once_however_much_is_written_before_its_loop_comes_to_it() {
    let (_fast, mut slow, group) = group(SlowMembers::close(0));
    for _ in 0..10 {
        group.write_and_flush(bytes(1));
    }
    assert_eq!(group.slow_figures().closed, 1);
    slow.run();
    assert!(!slow.is_open());
}

#[test]
fn by_default_a_member_may_be_slow_for_a_while_but_not_without_a_limit() {
    let (mut fast, mut slow, group) = group(SlowMembers::default());
    for _ in 0..16 {
        group.write_and_flush(bytes((1 << 20) - 64));
        fast.run().outbound_bytes();
    }
    assert!(slow.run().is_open(), "16 MiB may wait");
    group.write_and_flush(bytes(1 << 20));
    assert!(!slow.run().is_open());
    assert!(fast.run().is_open());
}

#[test]
fn the_newest_are_dropped_for_a_member_that_is_full_and_written_again_when_it_has_room() {
    let (mut fast, mut slow, group) = group(SlowMembers::drop_newest(400));
    group.write_and_flush(Bytes::from("kept "));
    let mut dropped = group.send(bytes(390));
    group.write_and_flush(Bytes::from("fits "));
    slow.run();
    fast.run();
    let result = dropped.wait().unwrap();
    let error = result.get(slow.channel().id()).unwrap().as_ref().unwrap_err();
    assert!(matches!(why(error), SlowMember::LeftOut { above: 400, .. }));
    assert_eq!(group.slow_figures_of(slow.channel().id()).unwrap().left_out, 1);
    assert_eq!(group.slow_figures_of(fast.channel().id()).unwrap().left_out, 0);
    assert_eq!(fast.outbound_bytes().len(), 400);

    slow.block_output(false).run();
    assert_eq!(seen(&mut slow), "kept fits ");
    group.write_and_flush(Bytes::from("again"));
    assert_eq!(seen(&mut slow), "again");
    assert!(slow.is_open());
}

#[test]
fn what_counts_for_a_slow_member_starts_anew_when_it_was_fast_in_between() {
    let (_fast, mut slow, group) = group(SlowMembers::drop_newest(400));
    for _ in 0..3 {
        group.write_and_flush(bytes(250));
        slow.run();
        slow.block_output(false).run().outbound_bytes();
        group.write_and_flush(bytes(1)); // to one that is fast
        slow.run();
        slow.block_output(true);
        slow.channel().write_and_flush(bytes(100_000));
        slow.run();
    }
    assert_eq!(group.slow_figures().left_out, 0);
}

#[test]
fn one_that_is_skipped_misses_what_is_written_while_it_has_no_room() {
    let (mut fast, mut slow, group) = group(SlowMembers::skip());
    group.write_and_flush(Bytes::from("one "));
    slow.block_output(false).run();
    group.write_and_flush(Bytes::from("two"));
    assert_eq!(seen(&mut slow), "two");
    assert_eq!(fast.run().outbound_bytes(), b"one two");
}

fn by_letter() -> SlowMembers<Bytes> {
    SlowMembers::conflate(|message: &Bytes| String::from_utf8_lossy(&message[..1]).into_owned())
}

#[test]
fn the_latest_of_each_key_waits_in_the_order_of_the_keys_and_what_comes_next_stands_behind() {
    let (mut fast, mut slow, group) = group(by_letter());
    let mut superseded = group.send(Bytes::from("a1 "));
    for message in ["b1 ", "a2 ", "c1 ", "b2 "] {
        group.write_and_flush(Bytes::from(message));
    }
    let mut last = group.send(Bytes::from("a3 "));
    fast.run();
    slow.run();
    let slow_id = slow.channel().id();
    assert_eq!(
        why(superseded.wait().unwrap().get(slow_id).unwrap().as_ref().unwrap_err()),
        SlowMember::Superseded
    );
    assert_eq!(fast.outbound_bytes(), b"a1 b1 a2 c1 b2 a3 ");

    slow.block_output(false).run();
    group.write_and_flush(Bytes::from("a4"));
    assert_eq!(seen(&mut slow), "a3 b2 c1 a4");
    assert!(last.wait().unwrap().is_success());
    assert_eq!(group.slow_figures_of(slow_id).unwrap().superseded, 3);
    group.write_and_flush(Bytes::from("a5"));
    assert_eq!(slow.outbound_bytes(), b"a5", "nothing waits any more: written at once");
}

#[test]
fn of_too_many_keys_the_one_that_has_waited_longest_is_left_out() {
    let (_fast, mut slow, group) = group(by_letter().keys_max(2));
    for message in ["a1 ", "b1 ", "a2 ", "c1 "] {
        group.write_and_flush(Bytes::from(message));
    }
    slow.block_output(false).run();
    assert_eq!(seen(&mut slow), "b1 c1 ");
    let figures = group.slow_figures();
    assert_eq!((figures.left_out, figures.superseded), (1, 1));
}

#[test]
fn what_waits_for_a_member_fails_with_the_cause_of_its_end() {
    for end in [Member::close_by_peer as fn(&mut Member) -> &mut Member, |member| {
        drop(member.channel().close());
        member.run()
    }] {
        let (mut fast, mut slow, group) = group(by_letter());
        let mut waiting = group.send(Bytes::from("a1"));
        fast.run();
        slow.run();
        let id = slow.channel().id();
        end(&mut slow).run();
        let result = waiting.wait_timeout(Duration::from_secs(60)).expect("told").unwrap();
        assert!(matches!(result.get(id), Some(Err(WriteError::Closed(_)))), "{result:?}");
    }
}

#[test]
fn what_waits_for_a_member_is_told_when_its_channel_is_dropped() {
    let (mut fast, slow, group) = group(by_letter());
    let mut waiting = group.send(Bytes::from("a1"));
    fast.run();
    let id = slow.channel().id();
    drop(slow);
    let result = waiting.wait_timeout(Duration::from_secs(60)).expect("told").unwrap();
    assert!(result.get(id).unwrap().is_err(), "{result:?}");
}

#[test]
fn a_key_that_panics_is_the_writers_panic_and_the_group_goes_on() {
    let (mut fast, mut slow, group) = group(SlowMembers::conflate(|message: &Bytes| match &message[..] {
        b"bad" => panic!("no key"),
        other => u64::from(other[0]),
    }));
    let same = group.clone();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        same.write_and_flush(Bytes::from("bad"))
    }));
    assert!(panicked.is_err());
    group.write_and_flush(Bytes::from("good"));
    slow.block_output(false).run();
    assert!(seen(&mut slow).ends_with("good"));
    assert!(fast.run().outbound_bytes().ends_with(b"good"));
}

#[test]
fn a_member_that_leaves_the_group_still_gets_what_waited_for_it() {
    let (_fast, mut slow, group) = group(by_letter());
    group.write_and_flush(Bytes::from("a1"));
    assert!(group.remove(slow.channel().id()));
    slow.block_output(false).run();
    assert_eq!(seen(&mut slow), "a1");
    let _: &Channel<Bytes> = slow.channel();
}
