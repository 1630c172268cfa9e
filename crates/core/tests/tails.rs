//! Async tails: `serve` and `service`, on an embedded channel.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    CloseCause, Context, EmbeddedChannel, Event, Fault, Handler, LocalLoop, Outgoing, Peer, Selected,
    ShuttingDown, WriteError, WritePromise, pipeline, select, time,
};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    convert::Infallible,
    future::{pending, poll_fn},
    io,
    num::NonZeroUsize,
    pin::pin,
    rc::Rc,
    task::{Poll, Waker},
    time::Duration,
};

type Bare = Peer;
type Channel = EmbeddedChannel<Infallible, Outgoing>;
type Log = Rc<RefCell<Vec<String>>>;

fn log() -> (Log, Log) {
    let log = Log::default();
    (log.clone(), log)
}

fn note(log: &Log, text: impl ToString) {
    log.borrow_mut().push(text.to_string());
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Cuts what comes into single bytes, to be pulled one by one.
#[derive(Default)]
struct Bytewise(VecDeque<u8>);

impl Handler for Bytewise {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;
    fn read(&mut self, _: &mut Context<'_, Self>, msg: BytesMut) {
        self.0.extend(msg);
    }
    fn pull(&mut self, _: &mut Context<'_, Self>) -> Option<BytesMut> {
        self.0.pop_front().map(|byte| BytesMut::from(&[byte][..]))
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: Outgoing, done: WritePromise) {
        cx.write_with(msg, done);
    }
}

async fn echo(mut peer: Bare) -> Result<(), CloseCause> {
    while let Some(bytes) = peer.read().await? {
        peer.write(bytes.freeze()).await?;
    }
    Ok(())
}

/// Tells when it is dropped.
struct Dropped(Log);

impl Drop for Dropped {
    fn drop(&mut self) {
        note(&self.0, "dropped");
    }
}

#[test]
fn messages_come_one_by_one_and_answers_leave_in_order() {
    let mut channel = EmbeddedChannel::new(pipeline().add(Bytewise::default()).serve(echo));
    channel.write_inbound(b"abc").write_inbound(b"de");
    assert_eq!(channel.outbound_bytes(), b"abcde");
    assert!(channel.wants_read(), "it waits for the next");
    channel.close_by_peer();
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::PeerClosed)));
}

#[test]
fn the_answers_to_one_read_leave_with_one_flush() {
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(echo));
    channel.block_output(true).write_inbound(b"one").write_inbound(b"two").block_output(false);
    assert_eq!(channel.outbound_bytes(), b"onetwo");
}

#[test]
fn nothing_is_read_before_it_is_asked_for() {
    let (seen, told) = log();
    let tail = move |mut peer: Bare| async move {
        time::sleep(Duration::from_secs(1)).await;
        while let Ok(Some(byte)) = peer.read().await {
            note(&told, text(&byte));
            time::sleep(Duration::from_secs(1)).await;
        }
    };
    let mut channel = EmbeddedChannel::new(pipeline().add(Bytewise::default()).serve(tail));
    assert!(!channel.wants_read(), "it sleeps first");
    channel.write_inbound(b"ab"); // as if the peer's bytes had been on their way
    assert!(seen.borrow().is_empty());
    channel.advance(Duration::from_secs(1));
    assert_eq!(*seen.borrow(), ["a"]);
    assert!(!channel.wants_read());
    channel.advance(Duration::from_secs(1));
    assert_eq!(*seen.borrow(), ["a", "b"]);
}

#[test]
fn everything_that_came_is_read_before_the_end_and_the_end_is_none() {
    let (seen, told) = log();
    let tail = move |mut peer: Bare| async move {
        while let Some(byte) = peer.read().await.unwrap() {
            note(&told, text(&byte));
            time::sleep(Duration::from_secs(1)).await;
        }
        note(&told, "end");
    };
    let mut channel = EmbeddedChannel::new(pipeline().add(Bytewise::default()).serve(tail));
    channel.write_inbound(b"abc").close_by_peer();
    channel.advance(Duration::from_secs(10));
    assert_eq!(*seen.borrow(), ["a", "b", "c", "end"]);
}

#[test]
fn any_other_end_is_an_error_for_the_reader_and_for_the_writer() {
    let (seen, told) = log();
    let tail = move |mut peer: Bare| async move {
        note(&told, peer.read().await.unwrap_err());
        note(&told, peer.write(Bytes::from("late")).await.unwrap_err());
        note(&told, peer.send(Bytes::from("late")).await.unwrap_err());
        note(&told, peer.closed().await);
    };
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(tail));
    let _ = channel.channel().close_because(CloseCause::TimedOut(Duration::from_secs(5)));
    channel.run();
    let cause = "timed out after 5s";
    assert_eq!(*seen.borrow(), [cause, cause, &format!("the channel is closed: {cause}"), cause]);
}

#[test]
fn the_end_of_the_future_closes_the_channel_after_what_it_wrote() {
    let tail = |mut peer: Bare| async move { peer.write(Bytes::from("bye")).await };
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(tail));
    channel.run();
    assert_eq!(channel.outbound_bytes(), b"bye");
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::Requested)));
}

#[test]
fn an_error_of_the_future_is_the_close_cause() {
    let tail = |_: Bare| async { Err::<(), _>(io::Error::other("no such user")) };
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(tail));
    channel.run();
    assert_eq!(channel.channel().close_cause().unwrap().to_string(), "unhandled error: no such user");
}

#[test]
fn the_end_of_the_channel_drops_the_future() {
    let (seen, told) = log();
    let tail = move |peer: Bare| async move {
        let _guard = (Dropped(told), peer);
        pending::<()>().await;
    };
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(tail));
    channel.run();
    assert!(seen.borrow().is_empty());
    channel.close_by_peer();
    assert_eq!(*seen.borrow(), ["dropped"]);
}

#[test]
fn a_panic_closes_the_channel_with_its_message() {
    let tail = |mut peer: Bare| async move {
        assert!(peer.read().await.unwrap().is_none(), "no more");
    };
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(tail));
    channel.write_inbound(b"x");
    let Some(CloseCause::Panicked(message)) = channel.channel().close_cause() else { panic!() };
    assert_eq!(message, "no more");
}

#[test]
fn a_writer_waits_while_the_peer_does_not_read_and_goes_on_when_it_does() {
    let (seen, told) = log();
    let tail = move |mut peer: Bare| async move {
        peer.read().await?;
        for round in 0..1000 {
            peer.write(Bytes::from(vec![b'x'; 1000])).await?;
            note(&told, round);
        }
        Ok::<_, CloseCause>(())
    };
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(tail));
    channel.block_output(true).write_inbound(b"go");
    let full = seen.borrow().len();
    assert!((40..200).contains(&full), "{full} messages of 1000 bytes against a mark of 64 KiB");
    channel.run();
    assert_eq!(seen.borrow().len(), full, "it waits");
    channel.block_output(false).run();
    assert_eq!(channel.outbound_bytes().len(), 1_000_000);
}

#[test]
fn a_write_resolves_at_once_while_there_is_room_and_a_send_when_it_is_sent() {
    let (seen, told) = log();
    let tail = move |mut peer: Bare| async move {
        peer.read().await.unwrap();
        peer.write(Bytes::from("a")).await.unwrap();
        note(&told, "written");
        peer.send(Bytes::from("b")).await.unwrap();
        note(&told, "sent");
        pending::<()>().await;
    };
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(tail));
    channel.block_output(true).write_inbound(b"go");
    assert_eq!(*seen.borrow(), ["written"]);
    channel.block_output(false).run();
    assert_eq!(*seen.borrow(), ["written", "sent"]);
    assert_eq!(channel.outbound_bytes(), b"ab");
}

#[test]
fn both_halves_live_in_tasks_of_their_own() {
    let tail = |peer: Bare| async move {
        let (mut reader, mut writer) = peer.split();
        let queue: Rc<RefCell<VecDeque<BytesMut>>> = Rc::default();
        let (from, to) = (queue.clone(), queue);
        let waiting = Rc::new(RefCell::new(None::<Waker>));
        let (wake, wait) = (waiting.clone(), waiting);
        let local = LocalLoop::current().unwrap();
        let other = local.spawn(async move {
            loop {
                let next = poll_fn(|cx| match from.borrow_mut().pop_front() {
                    Some(bytes) => Poll::Ready(bytes),
                    None => {
                        *wait.borrow_mut() = Some(cx.waker().clone());
                        Poll::Pending
                    }
                });
                let bytes = next.await;
                if writer.write(bytes.freeze()).await.is_err() {
                    return;
                }
            }
        });
        while let Ok(Some(bytes)) = reader.read().await {
            to.borrow_mut().push_back(bytes);
            let waker = wake.borrow_mut().take();
            waker.into_iter().for_each(Waker::wake);
        }
        other.unwrap().abort();
    };
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(tail));
    channel.write_inbound(b"one").write_inbound(b"two");
    assert_eq!(channel.outbound_bytes(), b"onetwo");
}

#[test]
fn a_read_that_is_given_up_loses_no_message() {
    let (seen, told) = log();
    let tail = move |mut peer: Bare| async move {
        loop {
            match time::timeout(Duration::from_secs(1), peer.read()).await {
                Ok(Ok(Some(bytes))) => note(&told, text(&bytes)),
                Ok(_) => return,
                Err(_) => note(&told, "waited"),
            }
        }
    };
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(tail));
    channel.run().advance(Duration::from_secs(1));
    channel.write_inbound(b"a");
    channel.advance(Duration::from_secs(1)).write_inbound(b"b");
    assert_eq!(*seen.borrow(), ["waited", "a", "waited", "b"]);
}

#[test]
fn a_tail_learns_of_a_shutdown_and_finishes_early() {
    let (seen, told) = log();
    let tail = move |mut peer: Bare| async move {
        peer.shutting_down().await;
        assert!(peer.is_shutting_down());
        note(&told, "finishing");
        peer.write(Bytes::from("goodbye")).await.unwrap();
    };
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(tail));
    channel.run();
    assert!(seen.borrow().is_empty() && channel.is_open());
    channel.channel().fire_event(Event::new(ShuttingDown));
    channel.run();
    assert_eq!(*seen.borrow(), ["finishing"]);
    assert_eq!(channel.outbound_bytes(), b"goodbye");
    assert!(!channel.is_open());
}

#[test]
fn a_tail_waits_for_a_message_and_for_a_shutdown_at_once_and_loses_none() {
    let (seen, told) = log();
    let tail = move |mut peer: Bare| async move {
        let mut ending = pin!(peer.shutting_down());
        while let Selected::First(byte) = select(peer.read(), ending.as_mut()).await {
            let Some(byte) = byte.unwrap() else { return };
            note(&told, text(&byte));
        }
        note(&told, "ending");
        // The read that was given up had asked for a message: that one is not lost.
        note(&told, text(&peer.read().await.unwrap().unwrap()));
    };
    let mut channel = EmbeddedChannel::new(pipeline().add(Bytewise::default()).serve(tail));
    channel.write_inbound(b"ab").channel().fire_event(Event::new(ShuttingDown));
    channel.run();
    assert_eq!(*seen.borrow(), ["a", "b", "ending"]);
    channel.write_inbound(b"c");
    assert_eq!(*seen.borrow(), ["a", "b", "ending", "c"]);
    assert!(!channel.is_open());
}

#[test]
fn a_half_closed_peer_still_gets_its_answer() {
    let tail = |mut peer: Bare| async move {
        let mut all = BytesMut::new();
        while let Ok(Some(bytes)) = peer.read().await {
            all.extend_from_slice(&bytes);
        }
        time::sleep(Duration::from_secs(1)).await;
        peer.write(all.freeze()).await
    };
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(tail));
    channel.write_inbound(b"question").close_input();
    assert!(channel.is_open());
    channel.advance(Duration::from_secs(1));
    assert_eq!(channel.outbound_bytes(), b"question");
    assert!(!channel.is_open());
}

// ---- services ----

#[test]
fn replies_leave_in_the_order_of_their_requests_however_long_each_takes() {
    let service = |request: BytesMut| async move {
        time::sleep(Duration::from_secs(10 - u64::from(request[0] - b'0'))).await;
        request.freeze()
    };
    let three = NonZeroUsize::new(3).unwrap();
    let mut channel = EmbeddedChannel::new(pipeline().add(Bytewise::default()).service(three, service));
    channel.write_inbound(b"12345");
    channel.advance(Duration::from_secs(8));
    assert_eq!(channel.outbound_bytes(), b"", "3 and 2 are done, but 1 goes first");
    channel.advance(Duration::from_secs(1));
    assert_eq!(channel.outbound_bytes(), b"123");
    channel.advance(Duration::from_secs(9));
    assert_eq!(channel.outbound_bytes(), b"45");
}

#[test]
fn unordered_replies_leave_as_they_are_ready_and_no_more_than_may_be_are_under_way() {
    let (running, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (now, peak) = (running.clone(), most.clone());
    let service = move |request: BytesMut| {
        let (now, peak) = (now.clone(), peak.clone());
        async move {
            now.set(now.get() + 1);
            peak.set(peak.get().max(now.get()));
            time::sleep(Duration::from_secs(u64::from(request[0] - b'0'))).await;
            now.set(now.get() - 1);
            request.freeze()
        }
    };
    let three = NonZeroUsize::new(3).unwrap();
    let mut channel =
        EmbeddedChannel::new(pipeline().add(Bytewise::default()).service_unordered(three, service));
    channel.write_inbound(b"95205");
    assert!(!channel.wants_read());
    assert_eq!((channel.outbound_bytes(), running.get()), (b"".to_vec(), 3));
    channel.advance(Duration::from_secs(2));
    assert_eq!(channel.outbound_bytes(), b"20", "0 was ready at once when its turn came");
    channel.advance(Duration::from_secs(3));
    assert_eq!(channel.outbound_bytes(), b"5");
    channel.advance(Duration::from_secs(2)).advance(Duration::from_secs(2));
    assert_eq!(channel.outbound_bytes(), b"59");
    assert_eq!((running.get(), most.get()), (0, 3));
}

#[test]
fn unordered_replies_are_all_given_behind_the_end_of_input_and_then_the_channel_ends() {
    let service = |request: BytesMut| async move {
        time::sleep(Duration::from_secs(u64::from(request[0] - b'0'))).await;
        request.freeze()
    };
    let four = NonZeroUsize::new(4).unwrap();
    let mut channel =
        EmbeddedChannel::new(pipeline().add(Bytewise::default()).service_unordered(four, service));
    channel.write_inbound(b"312").close_input();
    for _ in 0..3 {
        assert!(channel.is_open());
        channel.advance(Duration::from_secs(1));
    }
    assert_eq!(channel.outbound_bytes(), b"123");
    assert!(!channel.is_open());
}

#[test]
fn an_unordered_request_that_panics_ends_its_channel_and_the_others_are_dropped() {
    let held = Rc::new(());
    let hold = held.clone();
    let service = move |request: BytesMut| {
        let hold = hold.clone();
        async move {
            time::sleep(Duration::from_secs(1)).await;
            assert_ne!(request[0], b'!', "cannot be done");
            drop(hold);
            request.freeze()
        }
    };
    let four = NonZeroUsize::new(4).unwrap();
    let mut channel =
        EmbeddedChannel::new(pipeline().add(Bytewise::default()).service_unordered(four, service));
    channel.write_inbound(b"1!2").advance(Duration::from_secs(1));
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::Panicked(_))));
    drop(channel);
    assert_eq!(Rc::strong_count(&held), 1);
}

#[test]
fn no_more_requests_are_read_than_may_be_worked_on() {
    let (running, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (now, peak) = (running.clone(), most.clone());
    let service = move |request: BytesMut| {
        let (now, peak) = (now.clone(), peak.clone());
        async move {
            now.set(now.get() + 1);
            peak.set(peak.get().max(now.get()));
            time::sleep(Duration::from_secs(1)).await;
            now.set(now.get() - 1);
            request.freeze()
        }
    };
    let two = NonZeroUsize::new(2).unwrap();
    let mut channel = EmbeddedChannel::new(pipeline().add(Bytewise::default()).service(two, service));
    channel.write_inbound(b"abcdefgh");
    assert_eq!(running.get(), 2);
    assert!(!channel.wants_read());
    channel.advance(Duration::from_secs(60));
    assert_eq!((running.get(), most.get()), (0, 2));
    assert_eq!(channel.outbound_bytes(), b"abcdefgh");
}

#[test]
fn a_peer_that_takes_no_replies_is_not_asked_for_requests() {
    let one = NonZeroUsize::new(1).unwrap();
    let calls = Rc::new(Cell::new(0));
    let counted = calls.clone();
    let large = move |_: BytesMut| {
        counted.set(counted.get() + 1);
        async { Bytes::from(vec![0; 10_000]) }
    };
    let mut channel = EmbeddedChannel::new(pipeline().add(Bytewise::default()).service(one, large));
    channel.block_output(true).write_inbound([b'x'; 100]);
    assert!(!channel.wants_read());
    assert!(calls.get() < 10, "{} calls against a mark of 64 KiB", calls.get());
    channel.block_output(false).run();
    assert_eq!(channel.outbound_bytes().len(), 100 * 10_000);
}

/// Takes every message apart, and knows better than the transport why it ended.
#[derive(Default)]
struct KnowsWhy(Bytewise);

impl Handler for KnowsWhy {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;
    fn read(&mut self, _: &mut Context<'_, Self>, msg: BytesMut) {
        self.0.0.extend(msg);
    }
    fn pull(&mut self, _: &mut Context<'_, Self>) -> Option<BytesMut> {
        self.0.0.pop_front().map(|byte| BytesMut::from(&[byte][..]))
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: Outgoing, done: WritePromise) {
        cx.write_with(msg, done);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self>, _: CloseCause) {
        cx.fire_inactive(CloseCause::Fault(netwright_core::Fault::new("something was missing")));
    }
}

#[test]
fn a_read_tells_the_cause_that_came_through_the_pipeline_also_if_writers_heard_another_one_before() {
    let (log, seen) = log();
    let tail = async move |mut peer: Bare| {
        time::sleep(Duration::from_secs(1)).await; // what comes meanwhile waits, and the end behind it
        loop {
            match peer.read().await {
                Ok(Some(bytes)) => note(&log, text(&bytes)),
                Ok(None) => return note(&log, "nothing was missing"),
                Err(cause) => return note(&log, cause),
            }
        }
    };
    let mut channel = EmbeddedChannel::new(pipeline().add(KnowsWhy::default()).serve(tail));
    channel.run().write_inbound(b"ab").close_by_peer();
    channel.advance(Duration::from_secs(1));
    assert_eq!(*seen.borrow(), ["a", "b", "unhandled error: something was missing"]);
}

#[test]
fn a_send_that_fails_ends_the_function_with_what_ended_the_channel() {
    async fn greet(mut peer: Bare) -> Result<(), CloseCause> {
        peer.send("hello").await?;
        peer.shut_down_output();
        peer.send("too late").await?; // not because of an end: the error itself is the cause
        Ok(())
    }
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(greet));
    assert_eq!(channel.run().outbound_bytes(), b"hello");
    match channel.channel().close_cause() {
        Some(CloseCause::Fault(fault)) => {
            assert!(
                matches!(fault.downcast_ref::<WriteError>(), Some(WriteError::OutputShutDown)),
                "{fault}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(CloseCause::from(WriteError::Closed(CloseCause::Reset(7))), CloseCause::Reset(7)));
    let fault = Fault::new("not so");
    assert!(
        matches!(CloseCause::from(WriteError::Fault(fault)), CloseCause::Fault(fault) if fault.to_string() == "not so")
    );
}
