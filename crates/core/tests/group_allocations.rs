//! What a broadcast may allocate: what the members' own channels need to take a message, and nothing beside.
#![cfg(not(loom))]

use bytes::Bytes;
use netwright_core::{ChannelGroup, EmbeddedChannel, Outgoing, pipeline};
use netwright_testkit::{CountingAllocator, allocations_during};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn an_untracked_broadcast_allocates_what_its_members_need_and_nothing_beside() {
    let mut members: Vec<_> = (0..16).map(|_| EmbeddedChannel::new(pipeline().handle(|_, _| ()))).collect();
    let group = ChannelGroup::new();
    for member in &members {
        group.add(member.channel().clone());
    }
    let news = Bytes::from_static(b"news");
    let mut rounds = |send: &dyn Fn(&[EmbeddedChannel<_, Outgoing>])| {
        let mut allocations = 0;
        for _ in 0..1000 {
            allocations += allocations_during(|| send(&members)).0;
            for member in &mut members {
                assert_eq!(member.read_outbound().as_ref(), Some(&news));
            }
        }
        allocations
    };
    let broadcast = |_: &[_]| group.write_and_flush(news.clone());
    let one_by_one = |members: &[EmbeddedChannel<_, Outgoing>]| {
        members.iter().for_each(|member| member.channel().write_and_flush(news.clone()));
    };
    rounds(&broadcast); // fills what grows once
    assert_eq!(rounds(&broadcast), rounds(&one_by_one));
}
