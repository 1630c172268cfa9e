//! By the embedded clock: every way in which a request comes to its end.

use super::*;
use netwright_codec::{LineFrames, Utf8};
use netwright_core::{
    EmbeddedChannel, Fault, Filter, FilterContext, HalfClosure, Outgoing, Promised, WaterMarks, WritePromise,
    pipeline,
};
use std::{io, sync::mpsc};

type Asks = Ask<String, String>;
type Channel = EmbeddedChannel<(), Asks>;
type Reply = Promised<String, RequestError>;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn channel(requests: Requests<String, String>) -> Channel {
    EmbeddedChannel::of(pipeline().add(LineFrames::max(100)).add(Utf8::strict()).last(requests))
}

fn in_order() -> Requests<String, String> {
    Requests::in_order()
}

/// Requests and replies begin with their id: `7 what`.
fn by_id() -> Requests<String, String> {
    let id = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    Requests::by_id(id, move |line| Some(id(line)))
}

fn ask(channel: &mut Channel, request: &str) -> Reply {
    let reply = Requester::new(channel.channel().clone()).ask(request.to_owned());
    channel.run();
    reply
}

fn ask_within(channel: &mut Channel, limit: Duration, request: &str) -> Reply {
    let reply = Requester::new(channel.channel().clone()).ask_within(limit, request.to_owned());
    channel.run();
    reply
}

fn sent(channel: &mut Channel) -> String {
    String::from_utf8(channel.outbound_bytes()).unwrap()
}

fn reply(reply: &mut Reply) -> String {
    reply.try_take().expect("it is answered").expect("by a reply")
}

fn failure(reply: &mut Reply) -> RequestError {
    reply.try_take().expect("it is answered").expect_err("by an error")
}

fn is_pending(reply: &mut Reply) -> bool {
    !reply.is_done()
}

// ---- matching ----

#[test]
fn replies_go_to_requests_in_order_and_no_request_waits_for_another() {
    let mut channel = channel(in_order());
    let (mut a, mut b) = (ask(&mut channel, "a"), ask(&mut channel, "b"));
    assert_eq!(sent(&mut channel), "a\nb\n");
    channel.write_inbound("A\n");
    assert_eq!((reply(&mut a), is_pending(&mut b)), ("A".into(), true));
    channel.write_inbound("B\n");
    assert_eq!(reply(&mut b), "B");
}

#[test]
fn replies_go_to_requests_by_id_in_whatever_order_they_come() {
    let mut channel = channel(by_id());
    let (mut a, mut b) = (ask(&mut channel, "a ?"), ask(&mut channel, "b ?"));
    channel.write_inbound("b 2\na 1\n");
    assert_eq!((reply(&mut a), reply(&mut b)), ("a 1".into(), "b 2".into()));
}

#[test]
fn numbers_are_given_in_turn_but_for_those_in_use() {
    let number = |line: &String| line.split(' ').next()?.parse().ok();
    let numbered =
        Requests::numbered(1..=3, |line: &mut String, id| line.insert_str(0, &format!("{id} ")), number);
    let mut channel = channel(numbered);
    let mut slow = ask(&mut channel, "slow");
    for round in 0..4 {
        let mut quick = ask(&mut channel, "quick");
        let line = sent(&mut channel).lines().last().unwrap().to_owned();
        assert_eq!(line, format!("{} quick", 2 + round % 2));
        channel.write_inbound(format!("{line}\n"));
        assert_eq!(reply(&mut quick), line);
    }
    let _others = [ask(&mut channel, "a"), ask(&mut channel, "b")];
    assert!(matches!(failure(&mut ask(&mut channel, "c")), RequestError::IdInUse));
    channel.write_inbound("1 done\n");
    assert_eq!(reply(&mut slow), "1 done");
}

#[test]
fn a_peer_that_answers_nothing_uses_no_numbers_up_for_ever() {
    let numbered =
        Requests::numbered(1..=3, |line: &mut String, id| line.insert_str(0, &format!("{id} ")), |_| None);
    let mut channel = channel(numbered.deadline(secs(1)));
    for _ in 0..2 {
        drop(ask(&mut channel, "?"));
    }
    channel.advance(secs(1));
    let mut slow = ask_within(&mut channel, secs(100), "!");
    let mut fourth = ask(&mut channel, "!");
    assert!(matches!(
        failure(&mut fourth),
        RequestError::Closed { cause: CloseCause::Fault(_), written: false }
    ));
    let RequestError::Closed { cause: CloseCause::Fault(fault), written: true } = failure(&mut slow) else {
        panic!("another error")
    };
    assert_eq!(fault.downcast_ref(), Some(&NumbersUsedUp { unanswered: 2 }));
    assert!(!channel.is_open());
}

#[test]
fn an_empty_range_of_numbers_refuses_every_request() {
    #[allow(clippy::reversed_empty_ranges)] // that is the question
    let mut channel = channel(Requests::numbered(2..=1, |_, _| {}, |_| Some(1)));
    assert!(matches!(failure(&mut ask(&mut channel, "a")), RequestError::IdInUse));
    assert_eq!(sent(&mut channel), "");
}

#[test]
fn a_request_whose_id_is_in_use_is_refused_and_the_other_one_answered() {
    let figures = RequestFigures::default();
    let mut channel = channel(by_id().counting(&figures));
    let (mut first, mut second) = (ask(&mut channel, "7 one"), ask(&mut channel, "7 two"));
    assert!(matches!(failure(&mut second), RequestError::IdInUse));
    assert_eq!((sent(&mut channel), figures.refused()), ("7 one\n".into(), 1));
    channel.write_inbound("7 done\n");
    assert_eq!(reply(&mut first), "7 done");
    let mut again = ask(&mut channel, "7 three");
    channel.write_inbound("7 again\n");
    assert_eq!(reply(&mut again), "7 again");
}

#[test]
fn a_reply_to_no_request_is_a_fault_that_ends_the_connection_and_tells_everybody() {
    for (requests, unmatched) in [(in_order(), "A\nB\n"), (by_id(), "a A\nb B\n")] {
        let mut channel = channel(requests);
        let mut first = ask(&mut channel, "a ?");
        channel.write_inbound(unmatched);
        assert!(reply(&mut first).ends_with('A'));
        assert!(!channel.is_open());
        let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { panic!("no fault") };
        assert_eq!(fault.downcast_ref(), Some(&UnmatchedReply { in_flight: 0 }));
    }
    let mut channel = channel(by_id());
    let mut waits = ask(&mut channel, "a ?");
    channel.write_inbound("x\n");
    assert!(matches!(
        failure(&mut waits),
        RequestError::Closed { cause: CloseCause::Fault(_), written: true }
    ));
}

#[test]
fn a_reply_without_an_id_is_one_to_no_request() {
    let mut channel = channel(Requests::by_id(|line: &String| line.clone(), |_| None));
    let _waits = ask(&mut channel, "a");
    channel.write_inbound("a\n");
    assert!(!channel.is_open());
}

#[test]
fn pushes_go_on_to_the_next_stage_and_answer_nobody() {
    let (tell, told) = mpsc::channel();
    let requests = in_order().pushes(|line| line.starts_with('>'));
    let stages = pipeline().add(LineFrames::max(100)).add(Utf8::strict()).add(requests);
    let mut channel = Channel::of(stages.handle(move |_, push: String| tell.send(push).unwrap()));
    let mut first = ask(&mut channel, "a");
    channel.write_inbound(">1\nA\n>2\n");
    assert_eq!(reply(&mut first), "A");
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [">1", ">2"]);
    assert!(channel.is_open());
}

// ---- replies in parts ----

/// A line that begins with a plus goes on.
#[allow(clippy::ptr_arg)] // as the stage asks
fn goes_on(line: &String) -> bool {
    line.contains('+')
}

#[test]
fn parts_go_to_whoever_asked_in_order_or_by_id_and_the_last_one_is_the_reply() {
    for (requests, lines) in [(in_order(), "+1\n+2\na\n+3\nb\n"), (by_id(), "a +1\na +2\nb +3\na a\nb b\n")] {
        let mut channel = channel(requests.parts(goes_on));
        let requester = Requester::new(channel.channel().clone());
        let (tell, told) = mpsc::channel();
        let mut replies: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|id| {
                let (tell, (ask, reply)) = (tell.clone(), Ask::new(format!("{id} ?")));
                requester.send(ask.each(move |part| tell.send(format!("{id} {part}")).unwrap()));
                reply
            })
            .collect();
        channel.run().write_inbound(lines);
        let parts: Vec<_> =
            told.try_iter().map(|part| (part[..1].to_owned(), part[part.len() - 2..].to_owned())).collect();
        assert_eq!(parts, [("a", "+1"), ("a", "+2"), ("b", "+3")].map(|(id, part)| (id.into(), part.into())));
        assert!(replies.iter_mut().map(reply).zip(["a", "b"]).all(|(reply, id)| reply.ends_with(id)));
    }
}

#[test]
fn the_deadline_counts_anew_with_each_part() {
    let figures = RequestFigures::default();
    for requests in [in_order(), by_id()] {
        let mut channel =
            channel(requests.parts(goes_on).deadline(secs(5)).stuck_after(secs(20)).counting(&figures));
        let mut slow = ask(&mut channel, "7 ?");
        for _ in 0..4 {
            channel.advance(secs(4)).write_inbound("7 +\n");
        }
        assert!(is_pending(&mut slow));
        channel.advance(secs(5));
        assert!(matches!(failure(&mut slow), RequestError::TimedOut { .. }));
        // What still comes of it is dropped.
        for _ in 0..4 {
            channel.advance(secs(4)).write_inbound("7 +\n");
        }
        channel.write_inbound("7 !\n");
        assert!(channel.is_open());
    }
    assert_eq!(figures.late_replies(), 10);
}

#[test]
fn parts_without_end_of_a_reply_that_nobody_wants_hold_those_behind_for_a_while_and_not_for_ever() {
    type GiveUp = fn(&mut Channel, &Reply);
    let times_out: GiveUp = |channel, _| _ = channel.advance(secs(5));
    let cancels: GiveUp = |_, reply| assert!(reply.cancel());
    for (give_up, limit) in [(times_out, 5), (cancels, 5), (cancels, 0)] {
        let mut channel = channel(in_order().parts(goes_on).stuck_after(secs(20)));
        let first = ask_within(&mut channel, secs(limit), "a");
        let mut behind = ask_within(&mut channel, Duration::ZERO, "b");
        channel.write_inbound("+\n");
        give_up(&mut channel, &first);
        for second in 0..20 {
            channel.write_inbound("+\n").advance(Duration::from_millis(999));
            assert!(channel.is_open(), "{second}");
            channel.advance(Duration::from_millis(1));
        }
        assert!(!channel.is_open());
        let RequestError::Closed { cause: CloseCause::TimedOut(after), written: true } = failure(&mut behind)
        else {
            panic!("another error")
        };
        assert_eq!(after, secs(20));
    }
    // Nobody is held by them where replies have ids.
    let mut channel = channel(by_id().parts(goes_on).deadline(secs(5)).stuck_after(secs(20)));
    drop(ask(&mut channel, "a ?"));
    let mut other = ask_within(&mut channel, Duration::ZERO, "b ?");
    for _ in 0..100 {
        channel.advance(secs(1)).write_inbound("a +\n");
    }
    channel.write_inbound("b !\n");
    assert_eq!(reply(&mut other), "b !");
}

#[test]
fn a_part_of_nobodys_reply_is_a_fault() {
    for requests in [in_order(), by_id()] {
        let mut channel = channel(requests.parts(goes_on));
        channel.write_inbound("7 +\n");
        assert!(!channel.is_open());
    }
}

// ---- limits ----

#[test]
fn requests_beyond_the_most_in_flight_wait_and_those_beyond_the_queue_are_refused() {
    let figures = RequestFigures::default();
    let mut channel = channel(in_order().max_in_flight(2).max_waiting(1).counting(&figures));
    let mut replies: Vec<_> = ["a", "b", "c", "d"].iter().map(|line| ask(&mut channel, line)).collect();
    assert_eq!(sent(&mut channel), "a\nb\n");
    assert!(matches!(failure(&mut replies[3]), RequestError::TooManyWaiting { max_waiting: 1 }));
    assert_eq!(figures.refused(), 1);
    channel.write_inbound("A\n");
    assert_eq!(sent(&mut channel), "c\n");
    channel.write_inbound("B\nC\n");
    assert_eq!(replies[..3].iter_mut().map(reply).collect::<String>(), "ABC");
}

#[test]
fn with_a_queue_of_zero_what_does_not_go_out_at_once_is_refused() {
    let mut channel = channel(in_order().max_in_flight(0).max_waiting(0)); // none in flight would be no client
    let mut first = ask(&mut channel, "a");
    assert!(matches!(failure(&mut ask(&mut channel, "b")), RequestError::TooManyWaiting { max_waiting: 0 }));
    channel.write_inbound("A\n");
    assert_eq!(reply(&mut first), "A");
}

#[test]
fn who_has_cancelled_in_the_queue_makes_room_and_is_not_sent() {
    let mut channel = channel(in_order().max_in_flight(1).max_waiting(1));
    let mut first = ask(&mut channel, "a");
    let cancelled = ask(&mut channel, "b");
    assert!(cancelled.cancel());
    let mut third = ask(&mut channel, "c");
    channel.write_inbound("A\n");
    assert_eq!(sent(&mut channel), "a\nc\n");
    channel.write_inbound("C\n");
    assert_eq!((reply(&mut first), reply(&mut third)), ("A".into(), "C".into()));
}

#[test]
fn who_cancels_before_the_loop_has_the_request_is_not_sent() {
    let mut channel = channel(in_order());
    let reply = Requester::new(channel.channel().clone()).ask("a".to_owned());
    assert!(reply.cancel());
    assert_eq!(sent(channel.run()), "");
}

#[test]
fn while_too_much_is_unsent_requests_wait_and_go_out_when_there_is_room() {
    let mut channel = Channel::of(
        pipeline().add(LineFrames::max(1 << 20)).add(Utf8::strict()).last(in_order().max_waiting(5)),
    );
    channel.block_output(true);
    let large = "x".repeat(WaterMarks::default().high() + 1); // more than may wait
    let mut replies: Vec<_> = (0..4).map(|_| ask(&mut channel, &large)).collect();
    channel.end_because(CloseCause::io(io::ErrorKind::ConnectionReset.into()));
    let written: Vec<_> = replies.iter_mut().map(|reply| failure(reply).may_have_been_written()).collect();
    assert_eq!(written, [true, false, false, false]);

    let mut channel =
        Channel::of(pipeline().add(LineFrames::max(1 << 20)).add(Utf8::strict()).last(in_order()));
    channel.block_output(true);
    let mut replies: Vec<_> = (0..4).map(|_| ask(&mut channel, &large)).collect();
    channel.block_output(false).run();
    assert_eq!(sent(&mut channel).len(), 4 * (large.len() + 1));
    channel.write_inbound("a\nb\nc\nd\n");
    assert_eq!(replies.iter_mut().map(reply).collect::<String>(), "abcd");
}

#[test]
fn replies_are_read_while_the_peer_takes_no_requests() {
    // A server that stops reading until its replies are taken would never go on otherwise.
    let mut channel = Channel::of(
        pipeline().add(LineFrames::max(1 << 20)).add(Utf8::strict()).last(in_order().max_in_flight(2)),
    );
    let mut small: Vec<_> = (0..2).map(|_| ask(&mut channel, "s")).collect();
    channel.block_output(true);
    let large = "x".repeat(WaterMarks::default().high() + 1);
    let mut others: Vec<_> = (0..3).map(|_| ask(&mut channel, &large)).collect();
    channel.write_inbound("a\n"); // and the first large one goes out to wait
    channel.write_inbound("b\n");
    assert_eq!(small.iter_mut().map(reply).collect::<String>(), "ab");
    assert!(channel.wants_read());
    channel.block_output(false).run();
    channel.write_inbound("c\n").write_inbound("d\n").write_inbound("e\n");
    assert_eq!(others.iter_mut().map(reply).collect::<String>(), "cde");
}

// ---- deadlines ----

#[test]
fn a_request_fails_at_its_deadline_and_neither_before_nor_later() {
    let figures = RequestFigures::default();
    for requests in [in_order(), by_id()] {
        let mut channel = channel(requests.deadline(secs(10)).counting(&figures));
        let mut slow = ask(&mut channel, "a");
        let mut quick = ask_within(&mut channel, secs(3), "b");
        channel.advance(Duration::from_millis(2_999));
        assert!(is_pending(&mut quick));
        channel.advance(Duration::from_millis(1));
        let RequestError::TimedOut { limit, written } = failure(&mut quick) else { panic!("another error") };
        assert_eq!((limit, written), (secs(3), true));
        channel.advance(Duration::from_millis(6_999));
        assert!(is_pending(&mut slow));
        channel.advance(Duration::from_millis(1));
        assert!(matches!(failure(&mut slow), RequestError::TimedOut { .. }));
        assert!(channel.is_open());
    }
    assert_eq!(figures.timed_out(), 4);
}

#[test]
fn the_time_in_the_queue_counts_and_what_timed_out_there_was_never_written() {
    let mut channel = channel(in_order().max_in_flight(1).deadline(secs(10)));
    let _first = ask_within(&mut channel, Duration::ZERO, "a"); // no limit
    let mut second = ask(&mut channel, "b");
    channel.advance(secs(10));
    assert!(matches!(failure(&mut second), RequestError::TimedOut { written: false, .. }));
    channel.write_inbound("A\n");
    assert_eq!(sent(&mut channel), "a\n");
}

#[test]
fn without_a_limit_a_request_waits_for_ever_and_one_that_never_comes_is_no_overflow() {
    let mut channel = channel(in_order().deadline(Duration::ZERO));
    let mut first = ask(&mut channel, "a");
    let mut second = ask_within(&mut channel, Duration::MAX, "b");
    channel.advance(secs(1_000_000));
    channel.write_inbound("A\nB\n");
    assert_eq!((reply(&mut first), reply(&mut second)), ("A".into(), "B".into()));
}

#[test]
fn replies_touch_no_timer_and_the_next_deadline_is_found_when_the_last_one_passes() {
    let mut channel = channel(in_order().deadline(secs(10)));
    for _ in 0..50 {
        let mut quick = ask(&mut channel, "a");
        channel.advance(Duration::from_millis(300)).write_inbound("A\n");
        assert_eq!(reply(&mut quick), "A");
    }
    let mut last = ask(&mut channel, "b"); // at 15 s
    channel.advance(Duration::from_millis(9_999));
    assert!(is_pending(&mut last));
    channel.advance(Duration::from_millis(1));
    assert!(matches!(failure(&mut last), RequestError::TimedOut { .. }));
}

// ---- giving up ----

#[test]
fn in_order_the_reply_to_a_request_that_was_given_up_is_swallowed() {
    let figures = RequestFigures::default();
    let mut channel = channel(in_order().deadline(secs(5)).counting(&figures));
    let cancelled = ask_within(&mut channel, secs(20), "a");
    let mut late = ask(&mut channel, "b");
    let mut third = ask_within(&mut channel, secs(20), "c");
    assert!(cancelled.cancel());
    channel.advance(secs(5));
    assert!(matches!(failure(&mut late), RequestError::TimedOut { .. }));
    channel.write_inbound("A\nB\nC\n");
    assert_eq!((reply(&mut third), figures.late_replies()), ("C".into(), 2));
    assert!(channel.is_open());
}

#[test]
fn by_id_a_late_reply_is_dropped_and_counted_and_its_id_can_be_used_again_then() {
    let figures = RequestFigures::default();
    let mut channel = channel(by_id().deadline(secs(5)).counting(&figures));
    let mut late = ask(&mut channel, "7 one");
    channel.advance(secs(5));
    assert!(matches!(failure(&mut late), RequestError::TimedOut { .. }));
    // Its reply may still come, and must not be taken for that of another one.
    assert!(matches!(failure(&mut ask(&mut channel, "7 two")), RequestError::IdInUse));
    channel.write_inbound("7 late\n");
    let mut third = ask(&mut channel, "7 three");
    channel.write_inbound("7 reply\n");
    assert_eq!((reply(&mut third), figures.late_replies()), ("7 reply".into(), 1));
}

#[test]
fn by_id_who_gave_up_leaves_the_flight_and_others_take_the_place() {
    let mut channel = channel(by_id().max_in_flight(1).deadline(secs(5)));
    let _late = ask(&mut channel, "1 a");
    let mut second = ask_within(&mut channel, secs(60), "2 b");
    channel.advance(secs(5));
    assert_eq!(sent(&mut channel), "1 a\n2 b\n");
    let mut third = ask_within(&mut channel, secs(60), "3 c");
    assert!(second.cancel());
    let mut fourth = ask_within(&mut channel, secs(60), "4 d"); // whoever comes looks who has left
    assert_eq!(sent(&mut channel), "3 c\n");
    channel.write_inbound("1 late\n2 late\n3 C\n").write_inbound("4 D\n");
    assert_eq!((reply(&mut third), reply(&mut fourth)), ("3 C".into(), "4 D".into()));
    assert!(matches!(failure(&mut second), RequestError::Cancelled));
}

#[test]
fn marks_of_what_was_given_up_are_bounded() {
    let mut channel = channel(by_id().deadline(secs(1)).max_in_flight(usize::MAX));
    for id in 0..=awaited::MARKS_MAX {
        drop(ask(&mut channel, &format!("{id} ?")));
        channel.advance(secs(1));
    }
    channel.write_inbound("1 late\n"); // still known
    assert!(channel.is_open());
    channel.write_inbound("0 very late\n"); // the oldest is not
    assert!(!channel.is_open());
}

#[test]
fn the_same_id_given_up_and_answered_late_again_and_again_leaves_nothing() {
    let mut channel = channel(by_id().deadline(secs(1)));
    for _ in 0..3 * awaited::MARKS_MAX {
        drop(ask(&mut channel, "7 ?"));
        channel.advance(secs(1)).write_inbound("7 late\n");
    }
    let mut last = ask(&mut channel, "7 ?");
    channel.write_inbound("7 !\n");
    assert_eq!(reply(&mut last), "7 !");
}

#[test]
fn in_order_a_reply_that_is_missing_for_too_long_ends_the_connection() {
    let mut channel = channel(in_order().deadline(secs(5)).stuck_after(secs(20)));
    drop(ask(&mut channel, "a"));
    channel.advance(secs(24));
    let mut behind = ask_within(&mut channel, secs(100), "b");
    assert!(channel.is_open());
    channel.advance(secs(1));
    assert!(
        matches!(channel.channel().close_cause(), Some(CloseCause::TimedOut(limit)) if limit == secs(20))
    );
    assert!(failure(&mut behind).may_have_been_written());

    let mut patient = self::channel(in_order().deadline(secs(5)).stuck_after(Duration::ZERO));
    drop(ask(&mut patient, "a"));
    patient.advance(secs(1_000_000)).write_inbound("A\n");
    assert!(patient.is_open());
}

// ---- ends ----

#[test]
fn the_end_tells_everybody_why_and_what_was_written() {
    for requests in [in_order(), by_id()] {
        let mut channel = channel(requests.max_in_flight(1));
        let (mut sent, mut waits) = (ask(&mut channel, "1 a"), ask(&mut channel, "2 b"));
        channel.end_because(CloseCause::io(io::ErrorKind::ConnectionReset.into()));
        assert!(matches!(
            failure(&mut sent),
            RequestError::Closed { cause: CloseCause::Io(_), written: true }
        ));
        assert!(matches!(
            failure(&mut waits),
            RequestError::Closed { cause: CloseCause::Io(_), written: false }
        ));
        let mut late = ask(&mut channel, "3 c");
        assert!(matches!(
            failure(&mut late),
            RequestError::Closed { cause: CloseCause::Io(_), written: false }
        ));
    }
}

#[test]
fn a_peer_that_sends_no_more_has_answered_what_it_has_answered() {
    let mut channel = channel(in_order());
    let (mut first, mut second) = (ask(&mut channel, "a"), ask(&mut channel, "b"));
    channel.one_turn(true).write_inbound("A\n").end_input().one_turn(false);
    assert_eq!(reply(&mut first), "A");
    assert!(matches!(
        failure(&mut second),
        RequestError::Closed { cause: CloseCause::PeerClosed, written: true }
    ));
    assert!(!channel.is_open());
}

#[test]
fn a_half_closed_peer_answers_no_more_even_where_a_stage_needs_the_output() {
    struct Needs;
    impl Filter<bytes::BytesMut, Outgoing> for Needs {
        fn half_closure(&self) -> HalfClosure {
            HalfClosure::Needs
        }
    }
    let stages = pipeline().filter(Needs).add(LineFrames::max(100)).add(Utf8::strict());
    let mut channel = Channel::of(stages.last(in_order()));
    let mut first = ask(&mut channel, "a");
    channel.end_input();
    assert!(matches!(
        failure(&mut first),
        RequestError::Closed { cause: CloseCause::PeerClosed, written: true }
    ));
    assert!(!channel.is_open());
}

#[test]
fn a_pause_holds_replies_and_stops_no_deadline() {
    let mut channel = channel(in_order().deadline(secs(5)));
    let mut first = ask(&mut channel, "a");
    channel.channel().pause();
    channel.run().write_inbound("A\n");
    let mut second = ask(&mut channel, "b");
    assert!(is_pending(&mut first));
    channel.advance(secs(5));
    assert!(matches!(failure(&mut first), RequestError::TimedOut { .. }));
    assert!(matches!(failure(&mut second), RequestError::TimedOut { .. }));
    channel.channel().resume();
    channel.run();
    let mut third = ask(&mut channel, "c");
    channel.write_inbound("B\nC\n");
    assert_eq!(reply(&mut third), "C");
}

#[test]
fn what_cannot_be_encoded_or_decoded_ends_the_connection_and_nobody_gets_another_ones_reply() {
    /// An encoder, but for the bytes.
    struct Picky;
    impl Filter<String, String> for Picky {
        fn write(
            &mut self,
            cx: &mut FilterContext<'_, Self, String, String>,
            line: String,
            done: WritePromise,
        ) {
            match line.contains('\n') {
                true => cx.fire_error(Fault::new("two lines")),
                false => cx.write_with(line, done),
            }
        }
    }
    let stages = pipeline().add(LineFrames::max(100)).add(Utf8::strict()).filter(Picky);
    let mut channel = Channel::of(stages.last(in_order()));
    let (mut first, mut two) = (ask(&mut channel, "a"), ask(&mut channel, "two\nlines"));
    assert!(matches!(failure(&mut two), RequestError::Closed { cause: CloseCause::Fault(_), .. }));
    assert!(matches!(
        failure(&mut first),
        RequestError::Closed { cause: CloseCause::Fault(_), written: true }
    ));
    assert!(!channel.is_open());

    let mut channel = self::channel(in_order());
    let mut first = ask(&mut channel, "a");
    channel.write_inbound(b"\xff\n"); // no UTF-8
    assert!(matches!(
        failure(&mut first),
        RequestError::Closed { cause: CloseCause::Fault(_), written: true }
    ));
    assert!(!channel.is_open());
}

#[test]
fn closures_that_panic_end_the_connection_and_everybody_is_told() {
    let mut channel = channel(
        Requests::by_id(|line: &String| line.clone(), |_| -> Option<String> { panic!("no id") })
            .max_in_flight(1),
    );
    let (mut first, mut second) = (ask(&mut channel, "a"), ask(&mut channel, "b"));
    channel.write_inbound("a\n");
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::Panicked(_))));
    drop(channel);
    assert!(failure(&mut first).may_have_been_written());
    assert!(!failure(&mut second).may_have_been_written());
}

#[test]
fn whoever_panics_when_told_ends_neither_the_process_nor_the_others_wait() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    // Of each kind several, so that one of them panics while another does.
    let requests = Requests::<Option<Bomb>, u64>::in_order().max_in_flight(2);
    let mut channel = EmbeddedChannel::of_messages(pipeline().last(requests));
    let requester = Requester::new(channel.channel().clone());
    let mut first = requester.ask(None);
    requester.send(Ask::then(None, |_| panic!("told")));
    let mut queued = requester.ask(Some(Bomb));
    requester.send(Ask::then(None, |_| panic!("told as well")));
    let mut queued_too = requester.ask(Some(Bomb));
    let mut last = requester.ask(None);
    channel.run().end_because(CloseCause::PeerClosed);
    assert!(matches!(first.try_take(), Some(Err(RequestError::Closed { written: true, .. }))));
    for queued in [&mut queued, &mut queued_too] {
        assert!(matches!(queued.try_take(), Some(Err(RequestError::Closed { .. }))));
    }
    assert!(matches!(last.try_take(), Some(Err(RequestError::Closed { written: false, .. }))));
}

#[test]
fn a_closure_that_panics_when_it_is_told_costs_nobody_else_anything() {
    let mut channel = channel(in_order().max_in_flight(2));
    let requester = Requester::new(channel.channel().clone());
    let (tell, told) = mpsc::channel();
    let ask_to_panic = || {
        let tell = tell.clone();
        requester.send(Ask::then("a".to_owned(), move |result| {
            tell.send(result.is_ok()).unwrap();
            panic!("when told");
        }));
    };
    ask_to_panic();
    let mut after = requester.ask("b".to_owned());
    channel.run().write_inbound("A\nB\n");
    assert_eq!(reply(&mut after), "B"); // the connection goes on
    for _ in 0..5 {
        ask_to_panic(); // two are sent, three wait
    }
    channel.run().close_by_peer();
    ask_to_panic(); // too late
    channel.run();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [true, false, false, false, false, false, false]);
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::PeerClosed)));
}

#[test]
fn closing_tells_those_in_the_queue_at_once_and_shutting_the_output_down_refuses_more() {
    let mut channel = channel(in_order().max_in_flight(1));
    let (mut sent, mut waits) = (ask(&mut channel, "a"), ask(&mut channel, "b"));
    channel.channel().shut_down_output();
    channel.run();
    assert!(matches!(
        failure(&mut waits),
        RequestError::Closed { cause: CloseCause::Requested, written: false }
    ));
    assert!(matches!(failure(&mut ask(&mut channel, "c")), RequestError::Closed { written: false, .. }));
    channel.write_inbound("A\n");
    assert_eq!(reply(&mut sent), "A");
}

#[test]
fn finishing_waits_for_replies_and_for_nobody_who_has_given_up() {
    let mut channel = channel(in_order().max_in_flight(1).deadline(secs(5)));
    let (mut first, mut second) = (ask(&mut channel, "a"), ask(&mut channel, "b"));
    let requester = Requester::new(channel.channel().clone());
    let closed = requester.finish();
    channel.run();
    assert!(failure(&mut ask(&mut channel, "c")).to_string().contains("not sent"));
    channel.write_inbound("A\n");
    assert!(channel.is_open());
    channel.advance(secs(5));
    assert!(!channel.is_open());
    assert_eq!(reply(&mut first), "A");
    assert!(matches!(failure(&mut second), RequestError::TimedOut { written: true, .. }));
    assert!(matches!(closed.wait(), Ok(CloseCause::Requested)));

    let mut idle = self::channel(in_order());
    drop(Requester::new(idle.channel().clone()).finish());
    idle.run();
    assert!(!idle.is_open());
}

#[test]
fn a_request_that_was_never_written_comes_back_to_whoever_tries_again() {
    let mut channel = channel(in_order().max_in_flight(1));
    let (tell, told) = mpsc::channel();
    let requester = Requester::new(channel.channel().clone());
    for line in ["a", "b"] {
        let tell = tell.clone();
        requester.send(Ask::then(line.to_owned(), move |result| tell.send(result).unwrap()));
    }
    channel.run().close_by_peer();
    let tell = tell.clone();
    requester.send(Ask::then("c".to_owned(), move |result| tell.send(result).unwrap()));
    let back: Vec<_> = told.try_iter().map(|result| result.unwrap_err().request).collect();
    assert_eq!(back.len(), 3);
    assert_eq!(back.into_iter().flatten().collect::<Vec<_>>(), ["b", "c"]);
}

#[test]
fn whoever_asks_again_on_a_connection_that_has_ended_is_told_again_and_needs_no_more_stack_for_it() {
    fn again(requester: Requester<String, String>, left: u32, told: mpsc::Sender<u32>) {
        let to = requester.clone();
        requester.send(Ask::then("a".to_owned(), move |result| {
            assert!(result.unwrap_err().request.is_some());
            told.send(left).unwrap();
            if left > 0 {
                again(to, left - 1, told);
            }
        }));
    }
    const TIMES: u32 = 200_000;
    let mut channel = channel(in_order().max_in_flight(1));
    let requester = Requester::new(channel.channel().clone());
    let _first = requester.ask("first".to_owned());
    let (tell, told) = mpsc::channel();
    again(requester.clone(), 10, tell.clone()); // waits, and is told by the stage
    channel.run().close_by_peer();
    again(requester, TIMES, tell);
    assert_eq!(told.try_iter().count() as u32, 11 + TIMES + 1);
}

// ---- a stage in front that logs in ----

/// Says who it is, and lets nothing go on before it is let in.
struct Login {
    is_in: bool,
}

impl<W: From<&'static str> + 'static> Filter<String, W> for Login {
    fn active(&mut self, cx: &mut FilterContext<'_, Self, String, W>) {
        cx.write_and_flush(W::from("login"));
    }

    fn read(&mut self, cx: &mut FilterContext<'_, Self, String, W>, line: String) {
        if self.is_in {
            cx.fire_read(line);
        } else if line == "welcome" {
            self.is_in = true;
            cx.fire_active();
        } else {
            cx.close();
        }
    }
}

fn behind_login(requests: Requests<String, String>) -> Channel {
    let lines = pipeline().add(LineFrames::max(100)).add(Utf8::strict());
    Channel::of(lines.filter(Login { is_in: false }).last(requests))
}

#[test]
fn a_stage_in_front_that_holds_active_back_holds_requests_back() {
    let mut channel = behind_login(in_order());
    let (mut a, mut b) = (ask(&mut channel, "a"), ask(&mut channel, "b"));
    assert_eq!(sent(&mut channel), "login\n");
    channel.write_inbound("welcome\n");
    assert_eq!(sent(&mut channel), "a\nb\n");
    channel.write_inbound("A\nB\n");
    assert_eq!((reply(&mut a), reply(&mut b)), ("A".into(), "B".into()));
}

#[test]
fn requests_that_are_held_back_have_deadlines_and_are_bounded_and_told_as_not_written() {
    let mut channel = behind_login(in_order().deadline(secs(5)).max_waiting(2));
    let (mut early, cancelled) = (ask(&mut channel, "a"), ask(&mut channel, "b"));
    assert!(matches!(failure(&mut ask(&mut channel, "c")), RequestError::TooManyWaiting { max_waiting: 2 }));
    assert!(cancelled.cancel());
    channel.advance(secs(5));
    assert!(matches!(failure(&mut early), RequestError::TimedOut { written: false, .. }));
    let mut late = ask(&mut channel, "d");
    channel.write_inbound("go away\n");
    assert!(matches!(failure(&mut late), RequestError::Closed { written: false, .. }));
    assert_eq!(sent(&mut channel), "login\n");
    assert!(cancelled.is_done());
}

#[test]
fn what_is_dropped_on_its_way_is_answered() {
    let (ask, mut reply) = Asks::new("a".into());
    drop(ask);
    assert!(matches!(failure(&mut reply), RequestError::Closed { written: false, .. }));
    let mut channel = channel(in_order());
    let mut waits = ask_within(&mut channel, secs(1), "a");
    drop(channel); // its loop goes
    assert!(failure(&mut waits).may_have_been_written());
}
