//! From `added` to `removed`: each once, in order, with the cause.

use super::*;
use netwright_core::ChannelState;
use std::{
    error::Error,
    io,
    sync::{Arc, Mutex},
};

#[test]
fn every_stage_is_added_once_in_order_and_removed_once_from_the_last_to_the_first() {
    let log = Log::default();
    let stages = pipeline().add(spy::<_, Bytes>("one", &log)).add(Lines::default()).add(spy("two", &log));
    let mut channel = EmbeddedChannel::new(stages.add(spy("three", &log)).app(watch(&log)));
    assert_eq!(
        log.take(),
        ["one added", "two added", "three added", "one active", "two active", "three active", "app active"]
    );
    channel.close_by_peer();
    let ended = log.take();
    assert_eq!(
        ended,
        [
            "one inactive closed by the peer",
            "two inactive closed by the peer",
            "three inactive closed by the peer",
            "app inactive closed by the peer",
            "app removed",
            "three removed",
            "two removed",
            "one removed",
        ]
    );
    drop(channel.channel().close());
    channel.run();
    drop(channel);
    assert_eq!(log.take(), [""; 0]);
}

#[test]
fn active_comes_once_and_after_added() {
    let log = Log::default();
    let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).add(spy("spy", &log)));
    channel.write_inbound("a\n").write_inbound("b\n").close_input();
    channel.advance(ms(1000));
    let seen = log.take();
    assert_eq!(seen[..2], ["spy added", "spy active"]);
    assert_eq!(seen.iter().filter(|entry| entry.ends_with(" active")).count(), 1);
    assert_eq!(channel.channel().state(), ChannelState::Active);
}

#[test]
fn writers_hear_of_the_end_first_then_those_who_wait_for_it_then_the_pipeline() {
    let log = Log::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let app = script(&log, move |cx, call| {
        if let Call::Inactive(_) = call {
            let cause = cx.channel().close_cause().expect("the outside knows before the pipeline");
            told.lock().unwrap().push(format!("inactive, {cause}"));
        }
    });
    let mut channel = lines(&log, app);
    channel.block_output(true);
    let (handle, told) = (channel.channel().clone(), seen.clone());
    channel.channel().send("a".into()).listen(move |result| {
        let state = handle.close_cause().is_none();
        told.lock().unwrap().push(format!("write {}, open: {state}", result.is_err()));
    });
    channel.run();
    channel.close_by_peer();
    assert_eq!(*seen.lock().unwrap(), ["write true, open: true", "inactive, closed by the peer"]);
    assert_eq!(channel.channel().state(), ChannelState::Closed);
}

#[test]
fn closing_twice_ends_once_with_the_first_cause() {
    let log = Log::default();
    let mut channel = lines(&log, watch(&log));
    drop(channel.channel().close_because(CloseCause::TimedOut(ms(7))));
    drop(channel.channel().close());
    channel.run();
    drop(channel.channel().close_because(CloseCause::ShutDown));
    channel.run();
    channel.close_by_peer();
    assert_eq!(log.take(), ["app inactive timed out after 7ms", "app removed"]);
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::TimedOut(_))));
}

#[test]
fn a_close_from_inside_tells_its_promise_when_the_channel_is_closed() {
    let log = Log::default();
    let kept = Shared::new(Vec::new());
    let inner = kept.clone();
    let app = on_line(&log, move |cx, _| {
        for _ in 0..2 {
            let (done, written) = WritePromise::tracked();
            cx.close_with(CloseCause::Requested, done);
            inner.lock().push(written);
        }
    });
    let mut channel = lines(&log, app);
    channel.write_inbound("go\n");
    for written in kept.lock().iter_mut() {
        assert_eq!(outcome(written.try_take()), "done");
    }
    assert!(!channel.is_open());
}

#[test]
fn a_handler_may_say_something_before_the_close_it_was_asked_for() {
    /// Ends every conversation politely.
    struct Polite;
    impl Handler<Here> for Polite {
        type Read = String;
        type ReadOut = String;
        type Write = String;
        type WriteOut = String;
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
            cx.fire_read(line);
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            cx.write_with(line, done);
        }
        fn close(&mut self, cx: &mut Context<'_, Self, Here>, cause: CloseCause, done: WritePromise) {
            cx.write_and_flush("bye".into());
            cx.close_with(cause, done);
        }
    }
    let log = Log::default();
    let stages = pipeline().add(Lines::default()).add(Polite);
    let mut channel = EmbeddedChannel::new(stages.app(on_line(&log, |cx, _| cx.close())));
    channel.write_inbound("go\n");
    assert_eq!(channel.outbound_bytes(), b"bye\n");
    assert!(!channel.is_open());
}

#[test]
fn a_handler_may_put_the_close_off() {
    /// Closes five seconds after it was asked to.
    #[derive(Default)]
    struct Slow(Option<(CloseCause, WritePromise)>);
    impl Handler<Here> for Slow {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Bytes;
        type WriteOut = Bytes;
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, bytes: Bytes, done: WritePromise) {
            cx.write_with(bytes, done);
        }
        fn close(&mut self, cx: &mut Context<'_, Self, Here>, cause: CloseCause, done: WritePromise) {
            self.0 = Some((cause, done));
            cx.arm(ms(5000));
        }
        fn timer(&mut self, cx: &mut Context<'_, Self, Here>, _: StageTimer) {
            let (cause, done) = self.0.take().unwrap();
            cx.close_with(cause, done);
        }
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(Slow::default()).add(Lines::default()));
    drop(channel.channel().close());
    channel.advance(ms(4999));
    assert!(channel.is_open());
    channel.write_outbound("still here".into());
    assert_eq!(channel.outbound_bytes(), b"still here\n");
    channel.advance(ms(1));
    assert!(!channel.is_open());
}

#[test]
fn an_error_that_nobody_takes_care_of_closes_the_channel_with_it() {
    /// Finds fault with everything.
    struct Grumpy;
    impl Handler<Here> for Grumpy {
        type Read = BytesMut;
        type ReadOut = String;
        type Write = String;
        type WriteOut = Bytes;
        fn read(&mut self, cx: &mut Context<'_, Self, Here>, bytes: BytesMut) {
            cx.fire_error(io::Error::new(io::ErrorKind::InvalidData, format!("{} bytes", bytes.len())));
        }
        fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
            cx.write_with(Bytes::from(line), done);
        }
    }
    let log = Log::default();
    let mut channel = EmbeddedChannel::new(pipeline().add(Grumpy).add(spy("spy", &log)).app(watch(&log)));
    log.take();
    channel.write_inbound("abc");
    let cause = channel.channel().close_cause().unwrap();
    let CloseCause::Fault(fault) = &cause else { panic!("{cause}") };
    assert_eq!(fault.downcast_ref::<io::Error>().unwrap().kind(), io::ErrorKind::InvalidData);
    assert_eq!(cause.source().unwrap().to_string(), "3 bytes");
    let seen = log.take();
    assert_eq!(seen[..2], ["spy error 3 bytes", "app error 3 bytes"]);
    assert!(seen.contains(&"app inactive unhandled error: 3 bytes".to_owned()), "{seen:?}");

    let mut kept = EmbeddedChannel::new(pipeline().add(Grumpy).app(watch(&log).keeping_errors()));
    kept.write_inbound("abc");
    assert!(kept.is_open());
}

#[test]
fn an_end_that_the_loop_brings_says_so() {
    let log = Log::default();
    let mut channel = lines(&log, watch(&log));
    let ended = channel.event_loop().handle().shutdown_gracefully(ms(0), ms(1000)).unwrap();
    channel.run();
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::ShutDown)));
    assert_eq!(log.take()[0], "app inactive the event loop was shut down");
    drop(ended);
}

#[test]
fn what_comes_from_the_wire_after_the_end_is_not_delivered() {
    let log = Log::default();
    let mut channel = lines(&log, watch(&log));
    channel.close_by_peer();
    log.take();
    channel.write_inbound("ghost\n").close_input();
    assert_eq!(log.take(), [""; 0]);
}

#[test]
fn a_close_in_active_still_gives_both_active_and_inactive_once() {
    let log = Log::default();
    let app = script(&log, |cx, call| {
        if let Call::Active = call {
            cx.write_and_flush("full".into());
            cx.close();
        }
    });
    let mut channel = EmbeddedChannel::new(pipeline().add(Lines::default()).app(app));
    assert_eq!(log.take(), ["app active", "app inactive closed by our side", "app removed"]);
    assert_eq!(channel.outbound_bytes(), b"full\n");
}

#[test]
fn closing_in_inactive_is_harmless() {
    let log = Log::default();
    let app = script(&log, |cx, call| {
        if let Call::Inactive(_) = call {
            cx.close();
            cx.close_when_flushed();
            cx.shut_down_output();
        }
    });
    let mut channel = lines(&log, app);
    channel.close_by_peer();
    channel.run();
    assert_eq!(log.take(), ["app inactive closed by the peer", "app removed"]);
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::PeerClosed)));
}

#[test]
fn the_end_of_input_reaches_the_application_and_leaves_the_channel_open() {
    let log = Log::default();
    let app = script(&log, |cx, call| {
        if let Call::InputClosed = call {
            cx.write_and_flush("answer".into());
            cx.close_when_flushed();
        }
    });
    let mut channel = lines(&log, app);
    channel.write_inbound("question\n");
    channel.close_input();
    assert_eq!(channel.outbound_bytes(), b"answer\n");
    assert_eq!(
        log.take(),
        [
            "app read question",
            "app read_complete",
            "app input_closed",
            "app inactive closed by our side",
            "app removed"
        ]
    );
}
