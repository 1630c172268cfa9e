//! The handle: what any thread may ask of a channel.

use super::*;
use netwright_core::{Channel, ChannelState, PromiseError, WaterMarks};
use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Poll, Wake, Waker},
    thread,
};

type Text = EmbeddedChannel<String, String>;

fn text() -> Text {
    EmbeddedChannel::new(pipeline().add(Lines::default()))
}

/// Runs the channel until `done` holds; other threads use it meanwhile.
#[track_caller]
fn run_until(channel: &mut Text, what: &str, mut done: impl FnMut(&mut Text) -> bool) {
    eventually(what, || {
        channel.run();
        done(channel)
    });
}

#[test]
fn a_handle_goes_to_any_thread() {
    fn any_thread<T: Send + Sync + Clone + 'static>(_: &T) {}
    let channel = text();
    any_thread(channel.channel());
    assert_eq!(channel.channel().clone(), *channel.channel());
    assert_ne!(*text().channel(), *channel.channel());
}

#[test]
fn what_one_thread_asks_for_is_done_in_that_order() {
    const THREADS: usize = 4;
    const LINES: usize = 500;
    let mut channel = text();
    let start = Arc::new(Barrier::new(THREADS));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (handle, start) = (channel.channel().clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                for line in 0..LINES {
                    if line % 3 == 0 {
                        handle.write_and_flush(format!("{thread} {line}"));
                    } else {
                        handle.write(format!("{thread} {line}"));
                    }
                }
                handle.send(format!("{thread} {LINES}")).wait().unwrap();
            })
        })
        .collect();
    let mut seen = Vec::new();
    run_until(&mut channel, "all threads have written", |channel| {
        seen.extend(channel.outbound_bytes());
        threads.iter().all(thread::JoinHandle::is_finished)
    });
    seen.extend(channel.outbound_bytes());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let seen = String::from_utf8(seen).unwrap();
    for thread in 0..THREADS {
        let lines = seen.lines().filter_map(|line| line.strip_prefix(&format!("{thread} ")));
        assert!(lines.eq((0..=LINES).map(|line| line.to_string())), "thread {thread}");
    }
}

#[test]
fn waiting_for_the_end_blocks_until_it_comes_and_tells_the_cause() {
    let mut channel = text();
    let closed = channel.channel().closed();
    let waits = thread::spawn(move || closed.wait());
    let (handle, waits_too) = (channel.channel().clone(), AtomicBool::new(false));
    let closer = thread::spawn(move || handle.close_because(CloseCause::TimedOut(ms(3))).wait());
    run_until(&mut channel, "both have heard", |_| {
        waits_too.store(true, Ordering::Relaxed);
        waits.is_finished() && closer.is_finished()
    });
    assert!(matches!(waits.join().unwrap(), Ok(CloseCause::TimedOut(_))));
    assert!(matches!(closer.join().unwrap(), Ok(CloseCause::TimedOut(_))));
    assert!(matches!(channel.channel().closed().wait(), Ok(CloseCause::TimedOut(_))));
}

#[test]
fn waiting_for_the_end_survives_other_news() {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(100, 1000).unwrap();
    let mut channel = EmbeddedChannel::with_settings(pipeline().add(Lines::default()), settings);
    let closed = channel.channel().closed();
    let waits = thread::spawn(move || closed.wait());
    for _ in 0..100 {
        // Writability comes and goes, which wakes everybody who waits for anything.
        channel.block_output(true);
        channel.write_outbound("x".repeat(2000));
        assert!(!channel.channel().is_writable());
        channel.block_output(false);
        assert!(channel.channel().is_writable());
    }
    channel.close_by_peer();
    assert!(matches!(waits.join().unwrap(), Ok(CloseCause::PeerClosed)));
}

#[test]
fn waiting_for_the_end_on_a_loop_is_an_error_unless_it_is_over() {
    let mut channel = text();
    let closed = channel.channel().closed();
    let refused = channel.event_loop().enter(|| closed.wait());
    assert_eq!(refused.unwrap_err(), PromiseError::WouldBlockLoop);
    channel.close_by_peer();
    let over = channel.event_loop().enter(|| closed.wait());
    assert!(matches!(over, Ok(CloseCause::PeerClosed)));
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_end_can_be_awaited() {
    let mut channel = text();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut closed = Box::pin(channel.channel().closed());
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(closed.as_mut().poll(&mut cx).is_pending());
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    channel.close_by_peer();
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(matches!(closed.as_mut().poll(&mut cx), Poll::Ready(CloseCause::PeerClosed)));
}

#[test]
fn room_to_write_can_be_awaited() {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(100, 1000).unwrap();
    let mut channel = EmbeddedChannel::with_settings(pipeline().add(Lines::default()), settings);
    let handle = channel.channel().clone();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(matches!(Box::pin(handle.writable()).as_mut().poll(&mut cx), Poll::Ready(Ok(()))));

    channel.block_output(true);
    channel.write_outbound("x".repeat(2000));
    let mut writable = Box::pin(handle.writable());
    assert!(writable.as_mut().poll(&mut cx).is_pending());
    let before = woken.0.load(Ordering::SeqCst);
    channel.block_output(false);
    assert!(woken.0.load(Ordering::SeqCst) > before);
    assert!(matches!(writable.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));

    channel.block_output(true);
    channel.write_outbound("x".repeat(2000));
    let mut writable = Box::pin(handle.writable());
    assert!(writable.as_mut().poll(&mut cx).is_pending());
    let before = woken.0.load(Ordering::SeqCst);
    channel.close_by_peer();
    assert!(woken.0.load(Ordering::SeqCst) > before);
    assert!(matches!(writable.as_mut().poll(&mut cx), Poll::Ready(Err(CloseCause::PeerClosed))));
}

#[test]
fn asking_for_room_that_is_there_leaves_nothing_behind() {
    let channel = text();
    let handle = channel.channel().clone();
    let woken = Arc::new(Woken::default());
    for _ in 0..3 {
        let waker = Waker::from(woken.clone());
        let mut cx = std::task::Context::from_waker(&waker);
        assert!(matches!(Box::pin(handle.writable()).as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
    }
    assert_eq!(Arc::strong_count(&woken), 1);
}

#[test]
fn what_is_on_its_way_to_the_loop_counts_as_waiting_to_be_sent() {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(100, 1000).unwrap();
    let mut channel = EmbeddedChannel::with_settings(pipeline().add(Lines::default()), settings);
    for _ in 0..100 {
        channel.channel().write(String::new());
    }
    assert!(!channel.channel().is_writable(), "the loop has not even seen them");
    channel.channel().flush();
    channel.run();
    assert!(channel.channel().is_writable());
    assert_eq!(channel.outbound_bytes().len(), 100);
}

#[test]
fn attributes_are_kept_by_type() {
    #[derive(Debug, PartialEq)]
    struct User(&'static str);
    let channel = text();
    let handle = channel.channel().clone();
    assert_eq!(handle.attribute::<User>(), None);
    assert_eq!(handle.set_attribute(User("ada")), None);
    assert_eq!(handle.set_attribute(7_u32), None);
    assert_eq!(
        thread::spawn(move || handle.set_attribute(User("grace"))).join().unwrap().as_deref(),
        Some(&User("ada"))
    );
    assert_eq!(channel.channel().attribute::<User>().as_deref(), Some(&User("grace")));
    assert_eq!(channel.channel().attribute::<u32>().as_deref(), Some(&7));
}

#[test]
fn an_application_can_hand_out_its_own_channel() {
    let log = Log::default();
    let (hand_out, handed_out) = mpsc::channel::<Channel<String>>();
    let app = script(&log, move |cx, call| {
        if let Call::Active = call {
            cx.channel().set_attribute("from the inside");
            hand_out.send(cx.channel()).unwrap();
        }
    });
    let mut channel = lines(&log, app);
    let handle = handed_out.recv().unwrap();
    assert_eq!(handle, *channel.channel());
    assert_eq!(channel.channel().attribute::<&'static str>().as_deref(), Some(&"from the inside"));
    thread::spawn(move || handle.write_and_flush("from a friend".into())).join().unwrap();
    channel.run();
    assert_eq!(channel.outbound_bytes(), b"from a friend\n");
}

#[test]
fn a_handle_knows_how_far_its_channel_is() {
    let mut channel = text();
    let handle = channel.channel().clone();
    assert_eq!(handle.state(), ChannelState::Active);
    assert!(handle.close_cause().is_none());
    assert_eq!((handle.local_addr(), handle.peer_addr()), (None, None));
    channel.close_by_peer();
    assert_eq!(handle.state(), ChannelState::Closed);
    assert!(matches!(handle.close_cause(), Some(CloseCause::PeerClosed)));
    assert!(format!("{handle:?}").contains("Closed"));
}

on_the_loop_only! {
    #[test]
    fn a_handle_that_outlives_its_channel_answers_everything() {
        let channel = text();
        let handle = channel.channel().clone();
        let mut waiting = handle.write_tracked("never arrives".into());
        drop(channel);
        assert!(matches!(handle.closed().wait(), Ok(CloseCause::ShutDown)), "{:?}", handle.close_cause());
        assert_eq!(outcome(waiting.try_take()), "the channel is closed: the event loop was shut down");
        let mut late = handle.send("late".into());
        assert_eq!(outcome(late.try_take()), "the channel is closed: the event loop was shut down");
        assert_eq!(handle.stages().wait().unwrap_err(), PromiseError::Abandoned);
        handle.pause();
        handle.resume();
        assert!(matches!(handle.close().wait(), Ok(CloseCause::ShutDown)));
    }
}

#[test]
fn asking_a_channel_that_is_over_for_its_stages_does_not_wait_for_ever() {
    let mut channel = text();
    channel.close_by_peer();
    let mut stages = channel.channel().stages();
    channel.run();
    assert_eq!(stages.try_take(), Some(Err(PromiseError::Abandoned)));
}

/// However a write races with the close, it is sent or it fails; nobody waits for ever.
#[test]
fn a_write_in_the_race_with_the_close_gets_an_answer() {
    for round in 0..200 {
        let mut channel = text();
        let handle = channel.channel().clone();
        let writer = thread::spawn(move || {
            let mut written = Vec::new();
            while handle.state() != ChannelState::Closed && written.len() < 100 {
                written.push(handle.send("x".into()));
            }
            written.push(handle.send("x".into()));
            written
        });
        run_until(&mut channel, "something was written", |channel| {
            channel.read_outbound().is_some() || round % 2 == 0
        });
        channel.close_by_peer();
        let written = writer.join().unwrap();
        let count = written.len();
        for (n, mut written) in written.into_iter().enumerate() {
            let outcome = outcome(written.try_take());
            assert_ne!(outcome, "pending", "write {n} of {count} in round {round}");
        }
    }
}

#[test]
fn pausing_and_resuming_from_another_thread_works_in_the_order_asked() {
    let log = Log::default();
    let mut channel = lines(&log, watch(&log));
    let handle = channel.channel().clone();
    thread::spawn(move || {
        handle.pause();
        handle.request();
        handle.request();
        handle.pause();
        handle.request();
    })
    .join()
    .unwrap();
    channel.run();
    channel.write_inbound("a\nb\n");
    assert_eq!(log.take(), ["app read a"]);
    let handle = channel.channel().clone();
    thread::spawn(move || handle.resume()).join().unwrap();
    channel.run();
    assert_eq!(log.take(), ["app read b", "app read_complete"]);
}
