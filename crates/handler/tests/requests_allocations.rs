//! What a request may allocate: its promise, and nothing else, however replies are matched and whether it waits before it is sent.

use netwright_core::{EmbeddedChannel, pipeline};
use netwright_handler::{Requester, Requests};
use netwright_testkit::{CountingAllocator, allocations_during};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Allocations for so many requests one behind the other, and their replies, where that has happened before.
fn asking(requests: Requests<u64, u64>, count: u64) -> u64 {
    let mut channel = EmbeddedChannel::of_messages(pipeline().last(requests));
    let requester = Requester::new(channel.channel().clone());
    let mut replies = Vec::with_capacity(count as usize);
    let mut round = || {
        replies.extend((0..count).map(|number| requester.ask(number)));
        channel.run();
        for number in 0..count {
            channel.receive(number);
            while channel.read_outbound().is_some() {}
        }
        for (number, mut reply) in replies.drain(..).enumerate() {
            assert_eq!(reply.try_take().unwrap().unwrap(), number as u64);
        }
    };
    (0..5).for_each(|_| round()); // what grows has grown
    allocations_during(round).0
}

#[test]
fn a_request_allocates_its_promise_and_nothing_else() {
    let makes: [fn() -> Requests<u64, u64>; 4] = [
        Requests::in_order,
        || Requests::in_order().max_in_flight(3),
        || Requests::by_id(|request| *request, |reply| Some(*reply)),
        || Requests::by_id(|request| *request, |reply| Some(*reply)).max_in_flight(3),
    ];
    for (at, make) in makes.into_iter().enumerate() {
        let (few, many) = (asking(make(), 10), asking(make(), 30));
        assert_eq!((few, many), (10, 30), "made as {at}");
    }
}
