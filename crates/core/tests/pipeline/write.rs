//! Writing: order, promises, cancelling, water marks, and what happens to writes around the close.

use super::*;
use netwright_core::{OutboundOnly, OutboundStage, WaterMarks, Written, outbound};
use std::{
    io,
    sync::{Arc, Mutex},
};

type Echo = EmbeddedChannel<String, String>;

fn text() -> Echo {
    EmbeddedChannel::new(pipeline().add(Lines::default()))
}

fn marks(low: usize, high: usize) -> HostSettings {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(low, high).unwrap();
    settings
}

#[test]
fn what_is_written_waits_for_the_flush() {
    let mut channel = text();
    channel.channel().write("a".into());
    channel.channel().write("b".into());
    channel.run();
    assert_eq!(channel.outbound_bytes(), b"");
    channel.channel().flush();
    channel.run();
    assert_eq!(channel.outbound_bytes(), b"a\nb\n");
}

#[test]
fn a_flush_covers_what_was_written_before_it_and_nothing_else() {
    let mut channel = text();
    channel.channel().write("a".into());
    channel.channel().flush();
    channel.channel().write("b".into());
    channel.run();
    assert_eq!(channel.outbound_bytes(), b"a\n");
    channel.channel().flush();
    channel.run();
    assert_eq!(channel.outbound_bytes(), b"b\n");
}

#[test]
fn tracked_writes_complete_in_order_when_the_transport_has_taken_them() {
    let mut channel = text();
    channel.block_output(true);
    let order = Arc::new(Mutex::new(Vec::new()));
    let written: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|line| {
            let written = channel.channel().write_tracked(line.into());
            let order = order.clone();
            written.listen(move |result| order.lock().unwrap().push((line, result.is_ok())));
            written
        })
        .collect();
    channel.channel().flush();
    channel.run();
    assert!(written.iter().all(|written| !written.is_done()), "the peer takes nothing yet");
    channel.block_output(false);
    assert!(written.iter().all(Written::is_done));
    assert_eq!(*order.lock().unwrap(), [("a", true), ("b", true), ("c", true)]);
    assert_eq!(channel.outbound_bytes(), b"a\nb\nc\n");
}

#[test]
fn an_empty_message_completes_in_its_turn() {
    let mut channel = EmbeddedChannel::new(pipeline().add(spy::<BytesMut, Bytes>("spy", &Log::default())));
    channel.block_output(true);
    let mut first = channel.channel().write_tracked(Bytes::from_static(b"x"));
    let mut empty = channel.channel().send(Bytes::new());
    channel.run();
    assert_eq!((first.try_take().is_some(), empty.try_take().is_some()), (false, false));
    channel.block_output(false);
    assert_eq!((outcome(first.try_take()), outcome(empty.try_take())), ("done".into(), "done".into()));
    let mut alone = channel.channel().send(Bytes::new());
    channel.run();
    assert_eq!(outcome(alone.try_take()), "done");
}

#[test]
fn cancelled_writes_are_left_out_and_the_others_stay_in_order() {
    let mut channel = EmbeddedChannel::new(pipeline().add(spy::<BytesMut, Bytes>("spy", &Log::default())));
    let mut written: Vec<_> = ["a", "b", "c", "d", "e"]
        .into_iter()
        .map(|text| channel.channel().write_tracked(Bytes::from_static(text.as_bytes())))
        .collect();
    assert!(written[0].cancel(), "before it reached the loop");
    channel.run();
    assert!(written[3].cancel(), "after it reached the loop");
    channel.channel().flush();
    channel.run();
    assert_eq!(channel.outbound_bytes(), b"bce");
    let outcomes: Vec<_> = written.iter_mut().map(|written| outcome(written.try_take())).collect();
    let cancelled = "the write was cancelled before it was flushed";
    assert_eq!(outcomes, [cancelled, "done", "done", cancelled, "done"]);
}

#[test]
fn a_flushed_write_cannot_be_cancelled() {
    let mut channel = text();
    channel.block_output(true);
    let written = channel.channel().send("a".into());
    channel.run();
    assert!(!written.cancel());
    channel.block_output(false);
    assert_eq!(channel.outbound_bytes(), b"a\n");
}

#[test]
fn a_cancelled_write_no_longer_counts_against_the_marks() {
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).app(watch(&log));
    let mut channel = EmbeddedChannel::with_settings(stages, marks(100, 1000));
    log.take();
    channel.block_output(true);
    let written = channel.channel().write_tracked("x".repeat(2000));
    channel.run();
    assert_eq!(log.take(), ["app writability false"]);
    assert!(written.cancel());
    channel.channel().flush();
    channel.run();
    assert_eq!(log.take(), ["app writability true"]);
}

#[test]
fn above_the_high_mark_it_says_false_once_and_below_the_low_one_true_once() {
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).app(watch(&log));
    let mut channel = EmbeddedChannel::with_settings(stages, marks(500, 1000));
    log.take();
    channel.block_output(true);
    for _ in 0..20 {
        channel.write_outbound("x".repeat(100));
    }
    assert_eq!(log.take(), ["app writability false"]);
    assert!(!channel.channel().is_writable());
    channel.block_output(false);
    assert_eq!(log.take(), ["app writability true"]);
    assert!(channel.channel().is_writable());
    assert_eq!(channel.outbound_bytes().len(), 20 * 101);
}

on_the_loop_only! {
    #[test]
    fn up_to_the_high_mark_nothing_is_said() {
        let log = Log::default();
        let stages = pipeline().add(Lines::default()).app(watch(&log));
        let size = 10 + netwright_core::ENTRY_OVERHEAD;
        let mut channel = EmbeddedChannel::with_settings(stages, marks(size, 3 * size));
        log.take();
        channel.block_output(true);
        for _ in 0..3 {
            channel.write_outbound("123456789".into());
        }
        assert_eq!(log.take(), [""; 0]);
        channel.write_outbound("123456789".into());
        assert_eq!(log.take(), ["app writability false"]);
    }
}

#[test]
fn writability_is_told_at_once_also_in_the_middle_of_a_chunk() {
    let log = Log::default();
    let app = on_line(&log, |cx, _| cx.write("x".repeat(800)));
    let stages = pipeline().add(Lines::default()).app(app);
    let mut channel = EmbeddedChannel::with_settings(stages, marks(500, 1000));
    log.take();
    channel.block_output(true).write_inbound("a\nb\nc\n");
    assert_eq!(log.take(), ["app read a", "app read b", "app writability false"]);
    channel.block_output(false);
    assert_eq!(log.take(), ["app writability true", "app read c", "app read_complete"]);
}

/// Passes a write on, and answers the first few with a flush, each flush with a write.
struct PingPong {
    left: Shared<u32>,
}

impl Handler<Here> for PingPong {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self, Here>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, bytes: Bytes, done: WritePromise) {
        cx.write_with(bytes, done);
        if self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            cx.flush();
        }
    }
    fn flush(&mut self, cx: &mut Context<'_, Self, Here>) {
        if self.left.get() > 0 {
            cx.write(Bytes::from(format!("{} ", self.left.get())));
        }
        cx.flush();
    }
}

#[test]
fn writes_in_flush_and_flushes_in_write_keep_their_order_and_the_stack_flat() {
    let left = Shared::new(5);
    let stage = || PingPong { left: left.clone() };
    let stages = pipeline().add(stage()).add(stage()).add(stage()).add(stage()).add(stage());
    let mut channel = EmbeddedChannel::new(stages);
    channel.channel().write(Bytes::from_static(b"first "));
    channel.channel().flush();
    channel.run();
    assert_eq!(left.get(), 0);
    let text = String::from_utf8(channel.outbound_bytes()).unwrap();
    assert!(text.starts_with("first "), "{text}");

    // A write whose completion writes the next one, many times over.
    let mut channel = text_chain(20_000);
    channel.run();
    let text = channel.outbound_bytes();
    let expected: String = (0..=20_000).rev().map(|n| format!("{n}\n")).collect();
    assert!(text == expected.as_bytes(), "{} bytes", text.len());
}

fn text_chain(links: u32) -> Echo {
    fn link(channel: &netwright_core::Channel<String>, left: u32) {
        let written = channel.send(left.to_string());
        let channel = channel.clone();
        written.listen(move |_| {
            if left > 0 {
                link(&channel, left - 1);
            }
        });
    }
    let channel = text();
    link(channel.channel(), links);
    channel
}

#[test]
fn a_close_asked_for_when_a_write_is_done_comes_after_write_and_flush() {
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).add(spy("spy", &log)).app(watch(&log));
    let mut channel = EmbeddedChannel::new(stages);
    log.take();
    let handle = channel.channel().clone();
    channel.channel().send("a".into()).listen(move |_| drop(handle.close()));
    channel.run();
    assert_eq!(
        log.take(),
        [
            "spy write a",
            "spy flush",
            "spy close",
            "spy inactive closed by our side",
            "app inactive closed by our side",
            "app removed",
            "spy removed",
        ]
    );
    assert_eq!(channel.outbound_bytes(), b"a\n");
}

#[test]
fn the_close_fails_what_was_not_sent_with_its_cause() {
    let mut channel = text();
    channel.block_output(true);
    let mut flushed = channel.channel().send("flushed".into());
    let mut waiting = channel.channel().write_tracked("not flushed".into());
    drop(channel.channel().close_because(CloseCause::TimedOut(ms(5))));
    channel.run();
    let error = "the channel is closed: timed out after 5ms";
    assert_eq!([outcome(flushed.try_take()), outcome(waiting.try_take())], [error, error]);
    channel.block_output(false);
    assert_eq!(channel.outbound_bytes(), b"");
}

#[test]
fn what_was_flushed_before_the_close_is_sent_and_what_was_not_fails() {
    let mut channel = text();
    let mut flushed = channel.channel().send("flushed".into());
    let mut waiting = channel.channel().write_tracked("not flushed".into());
    drop(channel.channel().close());
    channel.run();
    assert_eq!(outcome(flushed.try_take()), "done");
    assert_eq!(outcome(waiting.try_take()), "the channel is closed: closed by our side");
    assert_eq!(channel.outbound_bytes(), b"flushed\n");
}

#[test]
fn what_is_written_and_flushed_behind_a_close_is_not_sent() {
    let log = Log::default();
    let outcomes = Shared::new(Vec::new());
    let kept = outcomes.clone();
    let app = on_line(&log, move |cx, _| {
        cx.write("flushed".into());
        cx.flush();
        kept.lock().push(cx.write_tracked("not flushed".into()));
        cx.close();
        kept.lock().push(cx.write_tracked("behind".into()));
        cx.flush();
    });
    let mut channel = lines(&log, app);
    channel.write_inbound("go\n");
    assert_eq!(channel.outbound_bytes(), b"flushed\n");
    for written in outcomes.lock().iter_mut() {
        assert_eq!(outcome(written.try_take()), "the channel is closed: closed by our side");
    }
}

#[test]
fn a_goodbye_written_before_an_error_is_passed_on_is_sent() {
    let log = Log::default();
    let app = script(&log, |cx, call| {
        if let Call::Error(_) = call {
            cx.write_and_flush("goodbye".into());
        }
    });
    /// Finds everything wrong.
    struct Strict;
    impl Handler<Here> for Strict {
        type Read = BytesMut;
        type ReadOut = String;
        type Write = String;
        type WriteOut = Bytes;
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, _: BytesMut) {
            cx.fire_error(io::Error::other("not understood"));
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            cx.write_with(Bytes::from(line), done);
        }
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(Strict).app(app));
    channel.write_inbound("?");
    assert_eq!(channel.outbound_bytes(), b"goodbye");
    assert!(!channel.is_open());
}

#[test]
fn a_write_after_the_close_fails_at_once_and_lets_its_message_go() {
    let mut channel = EmbeddedChannel::new(pipeline().add(spy::<BytesMut, Bytes>("spy", &Log::default())));
    channel.close_by_peer();
    let owner = Arc::new([7_u8; 4]);
    struct Owned(Arc<[u8; 4]>);
    impl AsRef<[u8]> for Owned {
        fn as_ref(&self) -> &[u8] {
            &*self.0
        }
    }
    let mut written = channel.channel().send(Bytes::from_owner(Owned(owner.clone())));
    assert_eq!(outcome(written.try_take()), "the channel is closed: closed by the peer");
    assert_eq!(Arc::strong_count(&owner), 1);
    let mut shut = channel.channel().shut_down_output_tracked();
    assert_eq!(outcome(shut.try_take()), "the channel is closed: closed by the peer");
}

#[test]
fn a_write_in_inactive_fails_with_the_cause() {
    let log = Log::default();
    let outcomes = Shared::new(None);
    let kept = outcomes.clone();
    let app = script(&log, move |cx, call| {
        if let Call::Inactive(_) = call {
            *kept.lock() = Some(cx.write_tracked("late".into()));
            cx.flush();
        }
    });
    let mut channel = lines(&log, app);
    channel.close_by_peer();
    let mut written = outcomes.lock().take().unwrap();
    assert_eq!(outcome(written.try_take()), "the channel is closed: closed by the peer");
    assert_eq!(channel.outbound_bytes(), b"");
}

#[test]
fn a_write_in_inactive_fails_with_the_cause_that_our_side_gave() {
    let log = Log::default();
    let outcomes = Shared::new(None);
    let kept = outcomes.clone();
    let app = script(&log, move |cx, call| match call {
        Call::Read(_) => cx.close_because(CloseCause::TimedOut(ms(5))),
        Call::Inactive(_) => *kept.lock() = Some(cx.write_tracked("late".into())),
        _ => {}
    });
    lines(&log, app).write_inbound("go\n");
    let mut written = outcomes.lock().take().unwrap();
    assert_eq!(outcome(written.try_take()), "the channel is closed: timed out after 5ms");
}

#[test]
fn writes_that_fail_with_the_close_fail_in_order_and_so_do_those_that_this_causes() {
    let mut channel = text();
    channel.block_output(true);
    let order = Arc::new(Mutex::new(Vec::new()));
    for n in 0..3 {
        let (handle, order) = (channel.channel().clone(), order.clone());
        channel.channel().send("x".into()).listen(move |result| {
            assert!(matches!(result, Err(WriteError::Closed(CloseCause::PeerClosed))));
            order.lock().unwrap().push(n);
            let order = order.clone();
            handle.send("again".into()).listen(move |result| {
                assert!(matches!(result, Err(WriteError::Closed(_))), "{result:?}");
                order.lock().unwrap().push(n + 10);
            });
        });
    }
    channel.run();
    channel.close_by_peer();
    let mut seen = order.lock().unwrap().clone();
    assert_eq!(seen.iter().filter(|n| **n < 10).copied().collect::<Vec<_>>(), [0, 1, 2]);
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 10, 11, 12]);
}

#[test]
fn close_when_flushed_waits_for_the_peer_and_sends_everything_that_was_flushed() {
    let mut channel = text();
    channel.block_output(true);
    channel.write_outbound("a".into());
    let mut waiting = channel.channel().write_tracked("not flushed".into());
    drop(channel.channel().close_when_flushed());
    channel.run();
    assert!(channel.is_open());
    channel.block_output(false);
    assert!(!channel.is_open());
    assert_eq!(channel.outbound_bytes(), b"a\n");
    assert_eq!(outcome(waiting.try_take()), "the channel is closed: closed by our side");
}

#[test]
fn shutting_down_the_output_sends_what_was_flushed_and_refuses_what_comes_later() {
    let log = Log::default();
    let mut channel = lines(&log, watch(&log));
    channel.block_output(true);
    channel.write_outbound("before".into());
    let mut shut = channel.channel().shut_down_output_tracked();
    let mut later = channel.channel().send("later".into());
    channel.run();
    assert_eq!(outcome(shut.try_take()), "pending");
    channel.block_output(false);
    assert_eq!(outcome(shut.try_take()), "done");
    assert_eq!(outcome(later.try_take()), "the output side of the channel was shut down");
    assert_eq!(channel.outbound_bytes(), b"before\n");
    channel.write_inbound("still reading\n");
    assert_eq!(log.take(), ["app read still reading", "app read_complete"]);
    let mut too_late = channel.channel().send("too late".into());
    channel.run();
    assert_eq!(outcome(too_late.try_take()), "the output side of the channel was shut down");
    assert!(channel.is_open());
}

#[test]
fn a_handler_that_drops_a_message_abandons_its_promise() {
    /// Lets only short lines through.
    struct Short;
    impl OutboundOnly<Here> for Short {
        type Read = String;
        type Write = String;
        type WriteOut = String;
        fn write(
            &mut self,
            cx: &mut Context<'_, OutboundStage<Self>, Here>,
            line: String,
            done: WritePromise,
        ) {
            if line.len() < 5 {
                cx.write_with(line, done);
            }
        }
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).add(outbound(Short)));
    let mut long = channel.channel().send("too long".into());
    let mut short = channel.channel().send("ok".into());
    channel.run();
    assert_eq!(outcome(long.try_take()), "the message was dropped by a handler");
    assert_eq!(outcome(short.try_take()), "done");
    assert_eq!(channel.outbound_bytes(), b"ok\n");
}

#[test]
fn a_stage_that_cannot_encode_fails_the_promise_and_raises_the_error_itself() {
    /// Knows letters only.
    struct Letters;
    impl OutboundOnly<Here> for Letters {
        type Read = String;
        type Write = String;
        type WriteOut = String;
        fn write(
            &mut self,
            cx: &mut Context<'_, OutboundStage<Self>, Here>,
            line: String,
            done: WritePromise,
        ) {
            if line.chars().all(char::is_alphabetic) {
                return cx.write_with(line, done);
            }
            let fault = Fault::new(format!("`{line}` is not a word"));
            done.fail(WriteError::Fault(fault.clone()));
            cx.fire_error(fault);
        }
    }
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).add(outbound(Letters));
    let mut channel = EmbeddedChannel::new(stages.app(watch(&log).keeping_errors()));
    log.take();
    let mut written = channel.channel().send("7".into());
    channel.run();
    assert_eq!(outcome(written.try_take()), "the message could not be written: `7` is not a word");
    channel.write_outbound("8".into()); // nobody tracks this one: the pipeline hears of it all the same
    assert_eq!(log.take(), ["app error `7` is not a word", "app error `8` is not a word"]);
    assert!(channel.is_open());
}

#[test]
fn an_encoder_may_gather_many_messages_into_one_piece_at_the_flush() {
    /// One piece for each flush.
    #[derive(Default)]
    struct Gather {
        batch: BytesMut,
        done: Vec<WritePromise>,
    }
    impl OutboundOnly<Here> for Gather {
        type Read = BytesMut;
        type Write = String;
        type WriteOut = Bytes;
        fn write(
            &mut self,
            _: &mut Context<'_, OutboundStage<Self>, Here>,
            line: String,
            done: WritePromise,
        ) {
            self.batch.extend_from_slice(line.as_bytes());
            self.done.push(done);
        }
        fn flush(&mut self, cx: &mut Context<'_, OutboundStage<Self>, Here>) {
            if !self.batch.is_empty() {
                let written = cx.write_tracked(self.batch.split().freeze());
                let done = std::mem::take(&mut self.done);
                written.listen(move |result| {
                    for done in done {
                        match result {
                            Ok(()) => done.succeed(),
                            Err(error) => done.fail(error.clone()),
                        }
                    }
                });
            }
            cx.flush();
        }
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(outbound(Gather::default())));
    let mut written: Vec<_> =
        ["a", "b", "c"].into_iter().map(|text| channel.channel().write_tracked(text.into())).collect();
    channel.channel().flush();
    channel.run();
    assert_eq!(channel.read_outbound().unwrap(), "abc");
    assert_eq!(channel.read_outbound(), None);
    assert!(written.iter_mut().all(|written| outcome(written.try_take()) == "done"));
}

/// Says something when it is asked to close.
struct LastWords;

impl Handler<Here> for LastWords {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;
    fn read(&mut self, cx: &mut Context<'_, Self, Here>, msg: BytesMut) {
        cx.fire_read(msg);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, msg: Bytes, done: WritePromise) {
        cx.write_with(msg, done);
    }
    fn close(&mut self, cx: &mut Context<'_, Self, Here>, cause: CloseCause, done: WritePromise) {
        cx.write_and_flush(Bytes::from(", goodbye"));
        cx.close_with(cause, done);
    }
}

#[test]
fn what_a_stage_sends_when_it_is_asked_to_close_goes_out_before_a_close_when_flushed() {
    let stages = pipeline().add(LastWords).handle(|cx, _| {
        cx.write_and_flush(Bytes::from("hello"));
        cx.close_when_flushed();
    });
    let mut channel = EmbeddedChannel::new(stages);
    channel.block_output(true).write_inbound(b"x");
    assert!(channel.is_open(), "nothing is sent yet");
    channel.block_output(false).run();
    assert_eq!(channel.outbound_bytes(), b"hello, goodbye");
    assert!(!channel.is_open());
}

#[test]
fn unsent_bytes_are_those_that_were_flushed_and_not_taken() {
    let seen = Shared::new(u64::MAX);
    let mut channel = EmbeddedChannel::new(pipeline().handle({
        let seen = seen.clone();
        move |cx, bytes: BytesMut| {
            seen.set(cx.view().unsent_bytes());
            cx.write_and_flush(bytes.freeze());
        }
    }));
    channel.block_output(true).write_inbound(b"abc");
    assert_eq!(seen.get(), 0);
    channel.write_inbound(b"de");
    assert_eq!(seen.get(), 3);
    channel.block_output(false).write_inbound(b"f");
    assert_eq!(seen.get(), 0);
}
