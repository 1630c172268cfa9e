//! A channel whose connection has ended comes to its own end, whatever somebody in it waits for.
#![cfg(not(loom))]

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, Context, EmbeddedChannel, Handler, HostSettings, InboundOnly,
    InboundStage, Outgoing, Peer, StageTimer, WaterMarks, WriteError, WritePromise, inbound, pipeline,
    promise, time,
};
use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    num::NonZeroUsize,
    rc::Rc,
    time::Duration,
};

/// One message for each byte.
#[derive(Default)]
struct Singles(BytesMut);

impl InboundOnly for Singles {
    type Read = BytesMut;
    type ReadOut = u8;
    type Write = Outgoing;

    fn read(&mut self, _: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) {
        self.0.extend_from_slice(&bytes);
    }
    fn pull(&mut self, _: &mut Context<'_, InboundStage<Self>>) -> Option<u8> {
        (!self.0.is_empty()).then(|| self.0.split_to(1)[0])
    }
}

/// Has the end been told, and everything let go?
#[derive(Clone, Default)]
struct Seen(Rc<RefCell<Vec<String>>>);

impl Seen {
    fn say(&self, what: impl ToString) {
        self.0.borrow_mut().push(what.to_string());
    }
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

type Bare = EmbeddedChannel<Infallible, Outgoing>;

fn narrow() -> HostSettings {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(1000, 2000).unwrap();
    settings
}

/// Gets its messages one by one, and each has consequences that take their time.
struct Slow {
    seen: Seen,
    wait: fn(&mut AppContext<'_, Self>),
}

impl Slow {
    fn channel(wait: fn(&mut AppContext<'_, Self>)) -> (Bare, Seen) {
        let seen = Seen::default();
        let slow = Self { seen: seen.clone(), wait };
        let stages = pipeline().add(inbound(Singles::default())).app(slow);
        (EmbeddedChannel::with_settings(stages, narrow()), seen)
    }
}

impl Application for Slow {
    type Read = u8;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, byte: u8) {
        self.seen.say(byte as char);
        cx.pause();
        (self.wait)(cx);
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
        cx.resume();
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.seen.say(cause);
    }
    fn removed(&mut self) {
        self.seen.say("removed");
    }
}

const ENDS: [&str; 5] = ["1", "2", "3", "closed by the peer", "removed"];

#[test]
fn timers_live_until_the_end_was_told() {
    let (mut channel, seen) = Slow::channel(|cx| {
        cx.arm(Duration::from_secs(5));
    });
    channel.write_inbound("123").close_by_peer();
    assert_eq!(seen.take(), ["1"]);
    for _ in 0..3 {
        channel.advance(Duration::from_secs(5));
    }
    assert_eq!(seen.take(), ENDS[1..]);
}

#[test]
fn futures_live_until_the_end_was_told() {
    let (mut channel, seen) = Slow::channel(|cx| {
        cx.spawn(time::sleep(Duration::from_secs(5)), |_, cx, ()| cx.resume());
    });
    channel.write_inbound("123").close_by_peer();
    for _ in 0..3 {
        channel.advance(Duration::from_secs(5));
    }
    assert_eq!(seen.take(), ENDS);
}

#[test]
fn messages_of_a_peer_that_has_gone_wait_a_while_for_who_paused_and_are_dropped_then() {
    let (mut channel, seen) = Slow::channel(|_| {});
    channel.write_inbound("123").close_by_peer();
    channel.advance(Duration::from_secs(59));
    channel.channel().request();
    channel.run().advance(Duration::from_secs(59));
    assert_eq!(seen.take(), ["1", "2"], "one was asked for, so the time begins anew");
    channel.advance(Duration::from_secs(2)).advance(Duration::from_secs(60));
    assert_eq!(seen.take(), ENDS[3..], "nobody asked for the last one");
}

#[test]
fn what_was_not_asked_for_goes_with_a_close_of_our_own() {
    let (mut channel, seen) = Slow::channel(|_| {});
    channel.write_inbound("123").channel().close();
    channel.run();
    assert_eq!(seen.take(), ["1", "closed by our side", "removed"]);
}

#[test]
fn what_is_still_to_be_read_outlives_a_close_by_a_stage_in_front() {
    /// Closes the channel with the first bytes, as a codec does behind the last message of a connection.
    struct ClosesEarly;
    impl Handler for ClosesEarly {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Outgoing;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
            cx.fire_read(bytes);
            cx.close_when_flushed();
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
            cx.write_with(bytes, done);
        }
    }
    let seen = Seen::default();
    let slow = Slow { seen: seen.clone(), wait: |_| {} };
    let stages = pipeline().add(ClosesEarly).add(inbound(Singles::default())).app(slow);
    let mut channel: Bare = EmbeddedChannel::with_settings(stages, narrow());
    channel.write_inbound("123");
    assert!(!channel.is_open());
    assert_eq!(seen.take(), ["1"]);
    for _ in 0..2 {
        channel.channel().request();
        channel.run();
    }
    assert_eq!(seen.take(), ["2", "3", "closed by our side", "removed"]);
}

#[test]
fn a_close_ends_a_channel_that_waits_for_who_paused_it_though_its_peer_has_gone() {
    let (mut channel, seen) = Slow::channel(|_| {});
    channel.write_inbound("123").close_by_peer();
    channel.channel().close();
    channel.run();
    assert_eq!(seen.take(), ["1", "closed by the peer", "removed"]);
}

#[test]
fn the_shutdown_of_its_loop_ends_a_channel_that_waits_for_who_paused_it_though_its_peer_has_gone() {
    let (mut channel, seen) = Slow::channel(|_| {});
    channel.write_inbound("123").close_by_peer();
    let event_loop = channel.event_loop().handle();
    let ended = event_loop.shutdown_gracefully(Duration::ZERO, Duration::from_secs(3600)).unwrap();
    channel.event_loop().run_until_idle();
    assert_eq!(seen.take(), ["1", "closed by the peer", "removed"]);
    drop(ended);
}

/// Waits for room with every message.
struct Full {
    seen: Seen,
}

impl Application for Full {
    type Read = u8;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, byte: u8) {
        self.seen.say(byte as char);
        cx.write_and_flush(Bytes::from_static(&[0; 3000]));
        if !cx.is_writable() {
            cx.pause();
        }
    }
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        if writable {
            cx.resume();
        }
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.seen.say(cause);
    }
    fn removed(&mut self) {
        self.seen.say("removed");
    }
}

#[test]
fn whoever_waits_for_room_with_every_message_gets_them_all_after_the_end() {
    let seen = Seen::default();
    let stages = pipeline().add(inbound(Singles::default())).app(Full { seen: seen.clone() });
    let mut channel = EmbeddedChannel::with_settings(stages, narrow());
    channel.block_output(true).write_inbound("123");
    assert_eq!(seen.take(), ["1"]);
    channel.close_by_peer();
    assert_eq!(seen.take(), ENDS[1..]);
}

#[test]
fn who_writes_whenever_there_is_room_is_told_of_the_end_once_and_not_for_ever() {
    struct Endless(Rc<Cell<usize>>);
    impl Application for Endless {
        type Read = u8;
        type Write = Outgoing;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, _: u8) {
            cx.pause();
            self.writability(cx, true);
        }
        fn writability(&mut self, cx: &mut AppContext<'_, Self>, _: bool) {
            while cx.is_writable() {
                self.0.set(self.0.get() + 1);
                cx.write_and_flush(Bytes::from_static(&[0; 500]));
            }
        }
    }
    let writes = Rc::new(Cell::new(0));
    let stages = pipeline().add(inbound(Singles::default())).app(Endless(writes.clone()));
    let mut channel = EmbeddedChannel::with_settings(stages, narrow());
    channel.block_output(true).write_inbound("12");
    channel.close_by_peer();
    assert!(writes.get() < 30, "{} writes", writes.get());
    channel.advance(Duration::from_secs(61)); // paused for good, and so forsaken
    assert!(channel.channel().close_cause().is_some());
}

#[test]
fn a_stage_that_is_told_of_room_after_the_end_can_find_out_why() {
    struct Curious(Seen);
    impl Application for Curious {
        type Read = u8;
        type Write = Outgoing;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, _: u8) {
            assert!(cx.view().close_cause().is_none());
            cx.pause();
        }
        fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
            self.0.say(format!("{writable}, {}", cx.view().close_cause().unwrap()));
        }
    }
    let seen = Seen::default();
    let stages = pipeline().add(inbound(Singles::default())).app(Curious(seen.clone()));
    EmbeddedChannel::with_settings(stages, narrow()).write_inbound("12").close_by_peer();
    assert_eq!(seen.take(), ["true, closed by the peer"]);
}

// ---- behind a close ----

#[test]
fn no_message_is_delivered_behind_a_close_of_the_application() {
    let ways: [fn(&mut AppContext<'_, Closes>); 2] = [|cx| cx.close(), |cx| cx.close_when_flushed()];
    for close in ways {
        let seen = Seen::default();
        let app = Closes { seen: seen.clone(), close };
        let mut channel: Bare = EmbeddedChannel::new(pipeline().add(inbound(Singles::default())).app(app));
        channel.write_inbound("a!bc");
        assert_eq!(seen.take(), ["a", "!", "closed by our side"]);
        assert!(!channel.is_open());
    }
}

/// Closes the channel when it is told to.
struct Closes {
    seen: Seen,
    close: fn(&mut AppContext<'_, Self>),
}

impl Application for Closes {
    type Read = u8;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, byte: u8) {
        self.seen.say(byte as char);
        if byte == b'!' {
            (self.close)(cx);
        }
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.seen.say(cause);
    }
}

#[test]
fn no_message_is_delivered_behind_an_error_that_nobody_takes() {
    /// Digits pass; what is none is an error.
    struct Digits;
    impl Handler for Digits {
        type Read = u8;
        type ReadOut = u8;
        type Write = Outgoing;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut Context<'_, Self>, byte: u8) {
            if byte.is_ascii_digit() {
                cx.fire_read(byte);
            } else {
                cx.fire_error(std::io::Error::other("no digit"));
            }
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
            cx.write_with(bytes, done);
        }
    }
    for pieces in [vec!["1x23"], vec!["1", "x", "2", "3"]] {
        let seen = Seen::default();
        let keep = seen.clone();
        let stages = pipeline().add(inbound(Singles::default())).add(Digits);
        let mut channel: Bare =
            EmbeddedChannel::new(stages.handle(move |_, byte: u8| keep.say(byte as char)));
        for piece in pieces {
            channel.write_inbound(piece);
        }
        assert_eq!(seen.take(), ["1"], "however the bytes come");
        assert!(!channel.is_open());
    }
}

// ---- async tails ----

#[test]
fn a_tail_that_runs_out_of_room_while_its_decoder_holds_messages_goes_on() {
    async fn talks(mut peer: Peer<u8>) -> Result<(), CloseCause> {
        while peer.read().await?.is_some() {
            for _ in 0..300 {
                peer.write(Bytes::from_static(&[7; 1000])).await?;
            }
        }
        Ok(())
    }
    let stages = pipeline().add(inbound(Singles::default())).serve(talks);
    let mut channel: Bare = EmbeddedChannel::with_settings(stages, narrow());
    channel.write_inbound("123");
    assert_eq!(channel.outbound_bytes().len(), 3 * 300 * 1000);
}

#[test]
fn a_service_ends_with_its_last_reply_when_the_peer_sends_no_more() {
    let stages = pipeline().add(inbound(Singles::default())).service(NonZeroUsize::MIN, |_: u8| async {
        time::sleep(Duration::from_secs(1)).await;
        Bytes::from("reply ")
    });
    let mut channel: Bare = EmbeddedChannel::new(stages);
    channel.write_inbound("12").close_input();
    channel.advance(Duration::from_secs(1));
    assert!(channel.is_open());
    channel.advance(Duration::from_secs(1));
    assert_eq!(channel.outbound_bytes(), b"reply reply ");
    assert!(!channel.is_open());
}

#[test]
fn the_echo_loop_ends_with_its_peer_though_it_waits_for_room() {
    async fn echo(mut peer: Peer<u8>, seen: Seen) -> Result<(), CloseCause> {
        while let Some(byte) = peer.read().await? {
            seen.say(byte as char);
            if let Err(cause) = peer.write(Bytes::from_static(&[0; 3000])).await {
                seen.say(&cause);
                return Err(cause);
            }
        }
        Ok(())
    }
    let seen = Seen::default();
    let keep = seen.clone();
    let stages = pipeline().add(inbound(Singles::default())).serve(move |peer| echo(peer, keep));
    let mut channel = EmbeddedChannel::with_settings(stages, narrow());
    channel.block_output(true).write_inbound("1234");
    assert_eq!(seen.take(), ["1", "2"]);
    channel.close_by_peer();
    assert_eq!(seen.take(), ["closed by the peer"]);
    assert_eq!(Rc::strong_count(&seen.0), 1, "the function and what it held are gone");
}

#[test]
fn what_a_peer_sent_before_it_went_can_be_read_after_a_write_has_failed() {
    async fn takes_all(mut peer: Peer<u8>, seen: Seen) {
        loop {
            match peer.read().await {
                Ok(Some(byte)) => seen.say(byte as char),
                Ok(None) => return seen.say("end"),
                Err(cause) => return seen.say(cause),
            }
            if let Err(cause) = peer.write(Bytes::from_static(&[0; 3000])).await {
                seen.say(cause);
            }
        }
    }
    let seen = Seen::default();
    let keep = seen.clone();
    let stages = pipeline().add(inbound(Singles::default())).serve(move |peer| takes_all(peer, keep));
    let mut channel = EmbeddedChannel::with_settings(stages, narrow());
    channel.block_output(true).write_inbound("123");
    channel.close_by_peer();
    let gone = "closed by the peer";
    assert_eq!(seen.take(), ["1", "2", gone, "3", gone, "end"]);
}

#[test]
fn a_service_works_through_what_a_peer_sent_before_it_went() {
    let seen = Seen::default();
    let keep = seen.clone();
    let one = NonZeroUsize::MIN;
    let stages = pipeline().add(inbound(Singles::default())).service(one, move |byte| {
        keep.say(byte as char);
        async move {
            time::sleep(Duration::from_secs(1)).await;
            Bytes::from_static(&[0; 3000])
        }
    });
    let mut channel = EmbeddedChannel::with_settings(stages, narrow());
    channel.block_output(true).write_inbound("123").close_by_peer();
    for _ in 0..3 {
        channel.advance(Duration::from_secs(1));
    }
    assert_eq!(seen.take(), ["1", "2", "3"]);
}

#[test]
fn what_is_asked_of_a_peer_after_the_end_is_refused_and_not_kept() {
    type Halves = (netwright_core::PeerReader<u8>, netwright_core::PeerWriter<u8>);
    let halves: Rc<RefCell<Option<Halves>>> = Rc::default();
    let keep = halves.clone();
    let stages = pipeline().add(inbound(Singles::default())).serve(move |peer: Peer<u8>| async move {
        keep.replace(Some(peer.split()));
        std::future::pending::<()>().await;
    });
    let mut channel = EmbeddedChannel::with_settings(stages, narrow());
    channel.close_by_peer();
    let mut halves = halves.take().unwrap();
    let message = Bytes::from(vec![0; 100]);
    for _ in 0..10 {
        halves.1.flush();
        halves.1.close_when_flushed();
        halves.1.shut_down_output();
        let mut written = halves.1.write_now_tracked(message.clone());
        channel.run();
        assert!(matches!(written.wait(), Err(WriteError::Closed(CloseCause::PeerClosed))));
    }
    assert!(message.is_unique(), "none of the messages was kept");
}

#[test]
fn whoever_gives_up_waiting_for_the_end_leaves_nothing_behind() {
    use std::{
        sync::Arc,
        task::{Context, Wake, Waker},
    };
    struct Counted;
    impl Wake for Counted {
        fn wake(self: Arc<Self>) {}
    }
    type Ends = Vec<std::pin::Pin<Box<dyn Future<Output = CloseCause>>>>;
    let ends: Rc<RefCell<Ends>> = Rc::default();
    let keep = ends.clone();
    let stages = pipeline().serve(move |peer: Peer| async move {
        keep.borrow_mut().extend((0..3).map(|_| Box::pin(peer.closed()) as _));
        std::future::pending::<()>().await;
    });
    let mut channel: EmbeddedChannel<Infallible, Outgoing> = EmbeddedChannel::new(stages);
    let outside = channel.channel().clone();
    ends.borrow_mut().extend((0..3).map(|_| Box::pin(outside.closed()) as _));
    let count = Arc::new(Counted);
    for end in ends.borrow_mut().iter_mut() {
        // Every poll with a waker of its own, as executors within executors have them.
        for _ in 0..3 {
            let waker = Waker::from(count.clone());
            assert!(end.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    assert_eq!(Arc::strong_count(&count), 1 + 6, "one waker for each of those who wait");
    ends.borrow_mut().clear();
    assert_eq!(Arc::strong_count(&count), 1);
    channel.close_by_peer();
}

// ---- answers that nobody takes ----

/// Answers everything, and gives no thought to whether the answers are taken.
struct Careless {
    flush: bool,
    read: Rc<Cell<usize>>,
}

impl Application for Careless {
    type Read = u8;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, _: u8) {
        self.read.set(self.read.get() + 1);
        cx.write(Bytes::from_static(&[7; 100]));
        if self.flush {
            cx.flush();
        }
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

fn careless(flush: bool, settings: HostSettings) -> (Bare, Rc<Cell<usize>>) {
    let read = Rc::new(Cell::new(0));
    let app = Careless { flush, read: read.clone() };
    (EmbeddedChannel::with_settings(pipeline().add(inbound(Singles::default())).app(app), settings), read)
}

#[test]
fn a_peer_that_sends_and_does_not_read_is_not_read_from_until_it_takes_its_answers() {
    for flush in [true, false] {
        let (mut channel, read) = careless(flush, narrow());
        channel.block_output(true).write_inbound(vec![1; 1000]);
        assert!(read.get() <= 12, "{} answers for 2,000 bytes", read.get());
        assert!(!channel.wants_read());
        channel.block_output(false);
        assert_eq!(read.get(), 1000);
        assert_eq!(channel.outbound_bytes().len(), 100_000);
        assert!(channel.wants_read());
    }
}

#[test]
fn who_says_so_reads_on_however_many_answers_wait() {
    let mut settings = narrow();
    settings.hold_back = false;
    let (mut channel, read) = careless(true, settings);
    channel.block_output(true).write_inbound(vec![1; 1000]);
    assert_eq!(read.get(), 1000);
    assert!(channel.wants_read());
}

#[test]
fn what_others_write_to_a_channel_does_not_keep_it_from_reading() {
    let read = Rc::new(Cell::new(0));
    let seen = read.clone();
    let stages = pipeline().handle(move |_, bytes| seen.set(seen.get() + bytes.len()));
    let mut channel: Bare = EmbeddedChannel::with_settings(stages, narrow());
    channel.block_output(true);
    channel.write_outbound(Bytes::from(vec![0; 10_000]));
    assert!(!channel.channel().is_writable());
    channel.write_inbound("both directions at a time");
    assert!(channel.wants_read());
    assert_eq!(read.get(), 25);
}

#[test]
fn whoever_answers_later_is_held_back_as_well() {
    struct Later(Rc<Cell<usize>>);
    impl Application for Later {
        type Read = u8;
        type Write = Outgoing;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, _: u8) {
            cx.spawn(std::future::ready(()), |stage, cx, ()| {
                stage.0.set(stage.0.get() + 1);
                cx.write_and_flush(Bytes::from_static(&[7; 500]));
            });
        }
    }
    let answered = Rc::new(Cell::new(0));
    let stages = pipeline().add(inbound(Singles::default())).app(Later(answered.clone()));
    let mut channel: Bare = EmbeddedChannel::with_settings(stages, narrow());
    channel.block_output(true);
    for _ in 0..100 {
        if channel.wants_read() {
            channel.write_inbound("1");
        }
    }
    assert!(answered.get() <= 4, "{} answers of 500 bytes for 2,000", answered.get());
    channel.block_output(false);
    assert!(channel.wants_read());
}

#[test]
fn answers_that_are_cancelled_make_room_for_questions() {
    let written: Rc<RefCell<Vec<netwright_core::Written>>> = Rc::default();
    let keep = written.clone();
    let stages = pipeline().add(inbound(Singles::default())).handle(move |cx, _: u8| {
        let answer = cx.write_tracked(Bytes::from_static(&[7; 3000]));
        answer.cancel(); // before it is flushed
        keep.borrow_mut().push(answer);
    });
    let mut channel: Bare = EmbeddedChannel::with_settings(stages, narrow());
    channel.block_output(true).write_inbound("1234");
    assert_eq!(written.borrow().len(), 4);
    assert!(channel.wants_read());
}

#[test]
fn a_pause_of_the_application_outlasts_the_room_for_answers() {
    let (mut channel, read) = careless(true, narrow());
    channel.block_output(true).write_inbound(vec![1; 1000]);
    let before = read.get();
    channel.channel().pause();
    channel.block_output(false);
    assert_eq!(read.get(), before);
    channel.channel().resume();
    channel.run();
    assert_eq!(read.get(), 1000);
}

#[test]
fn who_is_held_back_hears_of_the_end_behind_everything_that_came() {
    let (mut channel, read) = careless(true, narrow());
    channel.block_output(true).write_inbound(vec![1; 1000]);
    channel.close_by_peer();
    assert_eq!(read.get(), 1000);
    assert!(!channel.is_open());
}

// ---- segments that leave ----

/// Gathers what is written until the flush.
#[derive(Default)]
struct Gathers(BytesMut);

impl Handler for Gathers {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, _: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        self.0.extend_from_slice(bytes.as_bytes().unwrap());
        done.succeed();
    }
    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        cx.write(self.0.split().freeze());
        cx.flush();
    }
}

#[test]
fn a_segment_that_leaves_has_its_unflushed_writes_sent_before_those_of_its_successor() {
    let mut channel = EmbeddedChannel::<(), Outgoing>::with_joint(pipeline().joint(|switch| {
        pipeline().add(Gathers::default()).handle(move |cx, _| {
            cx.write("goodbye ");
            switch.to(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
        })
    }));
    channel.write_inbound("go");
    assert_eq!(channel.outbound_bytes(), b"goodbye ");
    channel.write_inbound("hello");
    assert_eq!(channel.outbound_bytes(), b"hello");
}

// ---- what is dropped ----

#[test]
fn futures_that_panic_when_they_are_dropped_cost_nobody_else_anything() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("dropped on purpose"));
        }
    }
    let dropped = Rc::new(());
    let keep = dropped.clone();
    let mut channel: Bare = EmbeddedChannel::new(pipeline().handle(move |cx, _| {
        for bomb in [Some(Bomb), Some(Bomb), None] {
            let keep = keep.clone();
            let wait = async move {
                std::future::pending::<()>().await;
                drop((bomb, keep));
            };
            cx.spawn(wait, |_, _, ()| {});
        }
    }));
    channel.write_inbound("go").close_by_peer();
    drop(channel);
    assert_eq!(Rc::strong_count(&dropped), 1);
}

#[test]
fn a_wait_for_the_end_that_would_block_a_loop_leaves_nothing_behind() {
    let mut channel: Bare = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
    let outside = channel.channel().clone();
    let refused = channel.event_loop().enter(|| outside.closed().wait());
    assert!(refused.is_err());
    channel.close_by_peer();
    assert!(outside.closed().wait().is_ok());
}

#[test]
fn work_of_others_that_ends_after_the_peer_has_gone_still_comes_back() {
    let (promise, promised) = promise::<(), netwright_core::PromiseError>();
    let promised = RefCell::new(Some(promised));
    let seen = Seen::default();
    let keep = seen.clone();
    let stages = pipeline().add(inbound(Singles::default())).handle(move |cx, byte: u8| {
        keep.say(byte as char);
        if let Some(promised) = promised.take() {
            cx.pause();
            cx.spawn(promised, |_, cx, _| cx.resume());
        }
    });
    let mut channel: Bare = EmbeddedChannel::with_settings(stages, narrow());
    channel.write_inbound("12").close_by_peer();
    assert_eq!(seen.take(), ["1"]);
    std::thread::spawn(move || promise.succeed(())).join().unwrap();
    channel.run();
    assert_eq!(seen.take(), ["2"]);
}
