//! Sources of bytes on an embedded channel: written as there is room, whole or with the end of the channel.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    ByteSource, CloseCause, EmbeddedChannel, Fault, HostSettings, Outgoing, Peer, WaterMarks, pipeline,
};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    pin::pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

type Bare = Peer;

enum Give {
    Piece(&'static str),
    Wait,
    Fail(&'static str),
}

/// Gives what it was told to, and says how often it was asked.
#[derive(Clone, Default)]
struct Scripted {
    script: Rc<RefCell<VecDeque<Give>>>,
    asked: Rc<Cell<usize>>,
    waker: Rc<RefCell<Option<Waker>>>,
}

impl Scripted {
    fn new(script: impl IntoIterator<Item = Give>) -> Self {
        let source = Self::default();
        source.script.borrow_mut().extend(script);
        source
    }

    fn go_on(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl ByteSource for Scripted {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        self.asked.set(self.asked.get() + 1);
        let next = self.script.borrow_mut().pop_front();
        Poll::Ready(match next {
            None => Ok(None),
            Some(Give::Piece(text)) => Ok(Some(Bytes::from(text))),
            Some(Give::Fail(why)) => Err(Fault::new(why)),
            Some(Give::Wait) => {
                self.waker.replace(Some(cx.waker().clone()));
                return Poll::Pending;
            }
        })
    }
}

type Sent = Rc<RefCell<Option<Result<u64, CloseCause>>>>;

/// A channel whose tail writes from this source, and what came of it.
fn tail(
    source: &Scripted,
    settings: HostSettings,
) -> (EmbeddedChannel<std::convert::Infallible, Outgoing>, Sent) {
    let (source, sent) = (source.clone(), Sent::default());
    let told = sent.clone();
    let serve = pipeline().serve(move |mut peer: Bare| {
        let (source, told) = (source.clone(), told.clone());
        async move {
            let result = peer.write_from(source).await;
            told.replace(Some(result));
            peer.write(Bytes::from(" behind it")).await?;
            peer.read().await.map(drop)
        }
    });
    (EmbeddedChannel::with_settings(serve, settings), sent)
}

#[test]
fn pieces_leave_in_order_as_they_come_and_what_is_written_next_stands_behind_them() {
    let source = Scripted::new([Give::Piece("one "), Give::Wait, Give::Piece("two "), Give::Piece("three")]);
    let (mut channel, sent) = tail(&source, HostSettings::default());
    assert_eq!(channel.outbound_bytes(), b"one ");
    assert!(sent.borrow().is_none());
    source.go_on();
    assert_eq!(channel.run().outbound_bytes(), b"two three behind it");
    assert!(matches!(*sent.borrow(), Some(Ok(13))));
}

#[test]
fn a_source_is_asked_for_one_piece_beyond_the_room_and_for_no_more() {
    let pieces = (0..100).map(|_| Give::Piece("0123456789"));
    let source = Scripted::new([Give::Wait].into_iter().chain(pieces));
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(10, 30).unwrap();
    let (mut channel, sent) = tail(&source, settings);
    channel.block_output(true);
    source.go_on();
    channel.run();
    let asked = source.asked.get();
    channel.run().run();
    assert_eq!(source.asked.get(), asked, "nobody asks while there is no room");
    assert!(asked < 100, "{asked}");
    channel.block_output(false);
    assert_eq!(channel.run().outbound_bytes().len(), 1000 + " behind it".len());
    assert!(matches!(*sent.borrow(), Some(Ok(1000))));
}

#[test]
fn a_source_that_fails_ends_the_channel_with_its_reason_and_nothing_stands_behind_what_went_out() {
    for begun in [true, false] {
        let first = begun.then_some(Give::Piece("part"));
        let source = Scripted::new(first.into_iter().chain([Give::Fail("no more paper")]));
        let (mut channel, sent) = tail(&source, HostSettings::default());
        assert_eq!(channel.outbound_bytes(), if begun { &b"part"[..] } else { b"" });
        assert!(!channel.is_open());
        let cause = channel.channel().close_cause();
        assert!(
            matches!(&cause, Some(CloseCause::Fault(fault)) if fault.to_string() == "no more paper"),
            "{cause:?}"
        );
        assert!(sent.borrow().as_ref().is_none_or(Result::is_err), "its tail may have gone with it");
    }
}

#[test]
fn the_end_of_the_channel_ends_the_wait_for_a_source_that_gives_nothing() {
    let source = Scripted::new([Give::Piece("one")].into_iter().chain((0..9).map(|_| Give::Wait)));
    let (mut channel, sent) = tail(&source, HostSettings::default());
    channel.close_by_peer();
    channel.run();
    // A tail is dropped with its channel, or sees its cause: in both cases nothing waits.
    assert!(!channel.is_open());
    assert!(sent.borrow().as_ref().is_none_or(Result::is_err));
    assert_eq!(Rc::strong_count(&source.asked), 1, "nobody holds the source any more");
}

#[test]
fn who_gives_up_in_the_middle_closes_the_channel_and_who_gives_up_before_does_not() {
    for (script, open) in
        [(vec![Give::Wait, Give::Wait], true), (vec![Give::Piece("part"), Give::Wait, Give::Wait], false)]
    {
        let source = Scripted::new(script);
        let mut embedded = EmbeddedChannel::new(pipeline().handle(|_, _: BytesMut| {}));
        let channel = embedded.channel().clone();
        {
            let mut sending = Box::pin(channel.write_from(source));
            for _ in 0..2 {
                assert!(sending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                embedded.run();
            }
        }
        assert_eq!(embedded.run().is_open(), open);
        if !open {
            let cause = channel.close_cause().unwrap().to_string();
            assert!(cause.ends_with("was given up before its end"), "{cause}");
        }
    }
}

#[test]
fn nothing_that_a_tail_writes_later_stands_behind_what_it_gave_up_in_the_middle() {
    let source = Scripted::new([Give::Piece("first half"), Give::Wait, Give::Wait]);
    let (given, told) = (source.clone(), Sent::default());
    let later = told.clone();
    let mut channel = EmbeddedChannel::new(pipeline().serve(move |mut peer: Bare| async move {
        let mut polls = 0;
        let mut sending = Box::pin(peer.write_from(given));
        std::future::poll_fn(|cx| {
            assert!(sending.as_mut().poll(cx).is_pending());
            polls += 1;
            if polls == 2 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        drop(sending);
        let _ = peer.write(Bytes::from("<next message>")).await;
        let again = peer.write_from(Scripted::new([Give::Piece("first half")])).await;
        later.replace(Some(again));
    }));
    assert_eq!(channel.outbound_bytes(), b"first half");
    source.go_on();
    assert_eq!(channel.run().outbound_bytes(), b"");
    assert!(!channel.is_open());
    let cause = channel.channel().close_cause().unwrap().to_string();
    assert!(cause.ends_with("was given up before its end"), "{cause}");
    assert!(told.borrow().as_ref().is_none_or(Result::is_err), "its tail may have gone with it");
}

#[test]
fn empty_pieces_are_not_sent_and_each_ends_the_turn_of_its_source() {
    let empty = (0..5).map(|_| Give::Piece(""));
    let source = Scripted::new(empty.chain([Give::Piece("something")]));
    let mut embedded = EmbeddedChannel::new(pipeline().handle(|_, _: BytesMut| {}));
    let channel = embedded.channel().clone();
    let mut sending = Box::pin(channel.write_from(source.clone()));
    for asked in 1..=5 {
        assert!(sending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(source.asked.get(), asked);
    }
    assert!(sending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(embedded.run().outbound_bytes(), b"something");
}

#[test]
fn a_source_gets_its_room_although_what_fills_the_channel_was_never_flushed() {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(10, 30).unwrap();
    let mut embedded = EmbeddedChannel::with_settings(pipeline().handle(|_, _| {}), settings);
    let channel = embedded.channel().clone();
    channel.write(Bytes::from(vec![b'.'; 100]));
    embedded.run();
    assert!(!channel.is_writable());
    let mut sending = pin!(channel.write_from(Scripted::new([Give::Piece("piece")])));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        if let Poll::Ready(sent) = sending.as_mut().poll(&mut cx) {
            assert!(matches!(sent, Ok(5)));
            return assert_eq!(embedded.outbound_bytes().len(), 105);
        }
        embedded.run();
    }
    panic!("it waits for ever");
}
