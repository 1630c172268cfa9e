//! What messages count for while they wait: said by the stage that takes them, known wherever they are written.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Channel, CloseCause, Context, Either, EmbeddedChannel, Handler, InboundOnly,
    InboundStage, Observer, OutboundOnly, OutboundStage, Peer, Place, Switch, WaterMarks, Weight, Workers,
    WritePromise, inbound, observe, outbound, pipeline, slot,
};
use std::{
    cell::RefCell,
    convert::Infallible,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{Arc, Mutex},
    task::Poll,
};

/// As if it held so many bytes.
struct Letter(usize);

/// A tenth of the high mark.
const HEAVY: usize = 6_600;

/// Takes letters, and says what they weigh.
struct Post;

impl<P: Place> Handler<P> for Post {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Letter;
    type WriteOut = Bytes;
    const WEIGHT: Weight<Letter> = Weight::of(|letter| letter.0);

    fn read(&mut self, cx: &mut Context<'_, Self, P>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, _: Letter, done: WritePromise) {
        cx.write_with(Bytes::from_static(b"l"), done);
    }
}

/// Passes everything on, and says nothing.
struct Through;

impl<P: Place> Handler<P> for Through {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Letter;
    type WriteOut = Letter;

    fn read(&mut self, cx: &mut Context<'_, Self, P>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, letter: Letter, done: WritePromise) {
        cx.write_with(letter, done);
    }
}

/// How many heavy letters a handle takes before it says that there is no room.
fn room_of(handle: &Channel<Letter>) -> usize {
    let high = WaterMarks::default().high();
    let mut written = 0;
    while handle.is_writable() && written <= high {
        handle.write(Letter(HEAVY));
        written += 1;
    }
    written
}

/// As many as are more than the high mark.
const FULL: usize = 10;

#[test]
fn what_a_codec_says_counts_where_messages_enter_from_outside() {
    let mut channel = EmbeddedChannel::new(pipeline().add(Post).handle(|_, _| {}));
    assert_eq!(room_of(channel.channel()), FULL);
    channel.channel().flush();
    assert_eq!(channel.outbound_bytes().len(), FULL);
    assert!(channel.channel().is_writable(), "what was counted is given back");
}

#[test]
fn stages_that_take_the_same_type_and_say_nothing_count_it_alike() {
    struct Watch;
    impl Observer for Watch {
        type Read = BytesMut;
        type Write = Letter;
    }
    struct Decodes;
    impl InboundOnly for Decodes {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Letter;
        fn read(&mut self, cx: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
    }
    struct App;
    impl Application for App {
        type Read = BytesMut;
        type Write = Letter;
        fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
    }
    let workers = Workers::new(1).unwrap();
    let stages = pipeline()
        .add(Post)
        .add(Through)
        .add(observe(Watch))
        .add(Some(Through))
        .add(None::<Through>)
        .add(Either::<Through, Option<Through>>::Left(Through))
        .add(slot("anybody"))
        .add(inbound(Decodes))
        .add_on(&workers, Through)
        .app(App);
    let channel = EmbeddedChannel::new(stages);
    assert_eq!(room_of(channel.channel()), FULL);
}

#[test]
fn wrappers_pass_on_what_their_handler_says() {
    struct Encodes;
    impl OutboundOnly for Encodes {
        type Read = BytesMut;
        type Write = Letter;
        type WriteOut = Bytes;
        const WEIGHT: Weight<Letter> = Weight::of(|letter| letter.0);
        fn write(&mut self, cx: &mut Context<'_, OutboundStage<Self>>, _: Letter, done: WritePromise) {
            cx.write_with(Bytes::from_static(b"l"), done);
        }
    }
    let workers = Workers::new(1).unwrap();
    let encoder = EmbeddedChannel::new(pipeline().add(outbound(Encodes)));
    assert_eq!(room_of(encoder.channel()), FULL);
    let away = EmbeddedChannel::new(pipeline().add_on(&workers, Post));
    assert_eq!(room_of(away.channel()), FULL);
    let named = EmbeddedChannel::new(pipeline().add(Post).named("post").handle(|_, _| {}).named("tail"));
    assert_eq!(room_of(named.channel()), FULL);
    assert!(Option::<Heavier>::WEIGHT.is_said());
}

/// Letters to letters, and they weigh twice as much.
struct Heavier;

impl Handler for Heavier {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Letter;
    type WriteOut = Letter;
    const WEIGHT: Weight<Letter> = Weight::of(|letter| 2 * letter.0);

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, letter: Letter, done: WritePromise) {
        cx.write_with(letter, done);
    }
}

#[test]
fn a_stage_that_says_something_itself_is_believed() {
    let channel = EmbeddedChannel::new(pipeline().add(Post).add(Heavier).add(Through));
    assert_eq!(room_of(channel.channel()), FULL / 2);
}

#[test]
fn of_two_stages_that_may_be_there_the_heavier_word_counts() {
    type OneOfTwo = Either<Through, Heavier>;
    let unsaid_and_said = EmbeddedChannel::new(pipeline().add(Post).add(OneOfTwo::Left(Through)));
    assert_eq!(room_of(unsaid_and_said.channel()), FULL / 2);
    type BothSay = Either<Heavier, Either<Heavier, Heavier>>;
    assert_eq!(BothSay::WEIGHT.held(&Letter(3)), 6);
}

#[test]
fn a_type_of_which_nobody_says_anything_counts_for_its_own_size() {
    struct Silent;
    impl Handler for Silent {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Letter;
        type WriteOut = Bytes;
        fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, _: Letter, done: WritePromise) {
            cx.write_with(Bytes::from_static(b"l"), done);
        }
    }
    let mut channel =
        EmbeddedChannel::new(pipeline().add(Silent).handle(|cx, _| cx.write_and_flush(Letter(1))));
    let many = room_of(channel.channel());
    assert!(many > 100 * FULL, "{many}");
    channel.run().write_inbound("x");
    assert_eq!(channel.outbound_bytes().len(), many + 1);
}

/// Writes heavy letters while there is room.
fn fill<P: Place>(cx: &mut AppContext<'_, Fills, P>) -> usize {
    let mut written = 0;
    while cx.is_writable() && written < 1000 {
        cx.write(Letter(HEAVY));
        written += 1;
    }
    written
}

struct Fills(Arc<Mutex<Vec<usize>>>);

impl<P: Place> Application<P> for Fills {
    type Read = BytesMut;
    type Write = Letter;
    fn read(&mut self, cx: &mut AppContext<'_, Self, P>, _: BytesMut) {
        let written = fill(cx);
        self.0.lock().unwrap().push(written);
    }
}

#[test]
fn a_handler_that_writes_while_there_is_room_stops_at_what_its_letters_hold() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut channel = EmbeddedChannel::new(pipeline().add(Post).add(Through).app(Fills(seen.clone())));
    channel.write_inbound("x");
    assert_eq!(*seen.lock().unwrap(), [FULL]);
}

#[test]
fn a_handler_on_workers_stops_there_as_well() {
    let workers = Workers::new(1).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut channel = EmbeddedChannel::new(pipeline().add(Post).app_on(&workers, Fills(seen.clone())));
    channel.write_inbound("x");
    while channel.is_busy() {
        channel.run();
    }
    assert_eq!(*seen.lock().unwrap(), [FULL]);
}

#[test]
fn an_async_function_waits_when_its_letters_are_too_heavy() {
    let written = Rc::new(RefCell::new(Vec::new()));
    let counts = written.clone();
    let tail = move |mut peer: Peer<BytesMut, Letter>| async move {
        poll_fn(|cx| {
            let (_, writer) = peer.halves();
            let mut written = 0;
            while writer.poll_ready(cx).is_ready() && written < 1000 {
                writer.write_now(Letter(HEAVY));
                written += 1;
            }
            counts.borrow_mut().push(written);
            Poll::Ready(())
        })
        .await;
        Ok::<(), CloseCause>(())
    };
    let mut channel = EmbeddedChannel::new(pipeline().add(Post).serve(tail));
    channel.run();
    assert_eq!(*written.borrow(), [FULL]);
}

#[test]
fn handles_of_a_sealed_segment_know_what_their_letters_weigh() {
    let handle = Rc::new(RefCell::new(None));
    let place = handle.clone();
    let mut channel = EmbeddedChannel::<(), Infallible>::with_joint(pipeline().joint(|_| {
        pipeline().add(Post).handle(move |cx, _| *place.borrow_mut() = Some(cx.channel())).sealed()
    }));
    channel.write_inbound("x");
    let handle = handle.take().expect("the closure was called");
    assert_eq!(room_of(&handle), FULL);
}

/// Gives way to a segment that takes letters, and takes none itself.
struct GivesWay {
    switch: Switch<Letter>,
}

impl Handler for GivesWay {
    type Read = BytesMut;
    type ReadOut = Infallible;
    type Write = Letter;
    type WriteOut = Bytes;
    fn read(&mut self, _: &mut Context<'_, Self>, _: BytesMut) {
        self.switch.to(pipeline().add(Post).handle(|_, _| {}));
    }
    fn write(&mut self, _: &mut Context<'_, Self>, _: Letter, done: WritePromise) {
        drop(done);
    }
}

#[test]
fn a_segment_that_comes_later_may_be_the_first_to_say_it() {
    let mut channel = EmbeddedChannel::<(), Letter>::with_joint(
        pipeline().joint(|switch| pipeline().last(GivesWay { switch })),
    );
    let handle = channel.channel().clone();
    assert!(room_of(&handle) > 100 * FULL);
    channel.run().write_inbound("x");
    assert_eq!(room_of(&handle), FULL);
}

#[test]
fn behind_a_joint_letters_weigh_what_the_stage_before_it_says() {
    let tail = |_: Switch<Letter, BytesMut, Letter>| pipeline().add(Through).handle(|_, _| {});
    let channel = EmbeddedChannel::<(), Letter>::with_joint(pipeline().add(Post).joint(tail));
    assert_eq!(room_of(channel.channel()), FULL);
}

#[test]
fn a_weight_that_panics_leaves_nothing_counted_and_its_channel_as_it_was() {
    struct Odd;
    impl Handler for Odd {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Letter;
        type WriteOut = Bytes;
        const WEIGHT: Weight<Letter> = Weight::of(|letter| match letter.0 {
            0 => panic!("no letter is empty"),
            bytes => bytes,
        });
        fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, _: Letter, done: WritePromise) {
            cx.write_with(Bytes::from_static(b"l"), done);
        }
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(Odd).handle(|_, _| {}));
    let handle = channel.channel().clone();
    assert!(catch_unwind(AssertUnwindSafe(|| handle.write(Letter(0)))).is_err());
    assert_eq!(room_of(&handle), FULL);
    handle.flush();
    assert_eq!(channel.outbound_bytes().len(), FULL);
}

#[test]
fn a_listing_shows_of_which_messages_nobody_has_said_what_they_hold() {
    struct Words;
    impl OutboundOnly for Words {
        type Read = BytesMut;
        type Write = Vec<String>;
        type WriteOut = Bytes;
        fn write(
            &mut self,
            cx: &mut Context<'_, OutboundStage<Self>>,
            words: Vec<String>,
            done: WritePromise,
        ) {
            cx.write_with(words.concat(), done);
        }
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(outbound(Words)).handle(|_, _| {}));
    let mut stages = channel.channel().stages();
    channel.run();
    assert!(stages.wait().unwrap().iter().take(2).all(|stage| !stage.weighed));

    let mut channel = EmbeddedChannel::new(pipeline().add(Post).handle(|_, _| {}));
    let mut stages = channel.channel().stages();
    channel.run();
    assert!(stages.wait().unwrap().iter().all(|stage| stage.weighed));
}
