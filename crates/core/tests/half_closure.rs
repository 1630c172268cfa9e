//! Whether a channel lives on when its peer sends no more is said by its stages, whoever wraps them and whenever they came.
#![cfg(not(loom))]

use bytes::BytesMut;
use netwright_core::{
    AppContext, Application, CloseCause, Context, Either, EmbeddedChannel, HalfClosure, Handler,
    HostSettings, Outgoing, Peer, Place, Workers, WritePromise, pipeline,
};
use std::{cell::RefCell, future::pending, rc::Rc};

use HalfClosure::{Needs, Passes, Refuses};

/// A filter that says this.
struct Says(HalfClosure);

impl<P: Place> Handler<P> for Says {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self, P>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
    fn half_closure(&self) -> HalfClosure {
        self.0
    }
}

/// Has the last word, if it is asked for it.
struct LastWord(HalfClosure);

impl Application for LastWord {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
    fn half_closure(&self) -> HalfClosure {
        self.0
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush("goodbye");
    }
}

/// Whether the channel lived on.
fn lives_on<R: 'static, W: 'static>(channel: &mut EmbeddedChannel<R, W>) -> bool {
    channel.end_input();
    let open = channel.is_open();
    assert!(open || matches!(channel.channel().close_cause(), Some(CloseCause::PeerClosed)));
    open
}

#[test]
fn one_stage_that_needs_it_is_enough_and_one_that_refuses_it_is_too() {
    for (first, last, lives) in [
        (Passes, Passes, false),
        (Needs, Passes, true),
        (Passes, Needs, true),
        (Needs, Refuses, false),
        (Refuses, Needs, false),
    ] {
        let mut channel = EmbeddedChannel::new(pipeline().add(Says(first)).app(LastWord(last)));
        assert_eq!(lives_on(&mut channel), lives, "{first:?}, then {last:?}");
        assert_eq!(channel.outbound_bytes() == b"goodbye", lives);
    }
}

#[test]
fn what_the_settings_say_counts_whatever_the_stages_say() {
    for (allowed, says) in [(true, Refuses), (true, Passes), (false, Needs)] {
        let mut settings = HostSettings::default();
        settings.half_closure = Some(allowed);
        let mut channel = EmbeddedChannel::with_settings(pipeline().add(Says(says)), settings);
        assert_eq!(lives_on(&mut channel), allowed, "{says:?}");
    }
}

#[test]
fn whoever_is_wrapped_is_asked_and_whoever_is_absent_is_not() {
    let workers = Workers::new(1).unwrap();
    let asked = |stages: EmbeddedChannel<BytesMut, Outgoing>| {
        let mut channel = stages;
        while channel.run().is_busy() {
            std::thread::yield_now();
        }
        lives_on(&mut channel)
    };
    assert!(asked(EmbeddedChannel::new(pipeline().add(Some(Says(Needs))))));
    assert!(!asked(EmbeddedChannel::new(pipeline().add(None::<Says>))));
    let either =
        |left: bool| if left { Either::Left(Says(Needs)) } else { Either::Right(Some(Says(Passes))) };
    assert!(asked(EmbeddedChannel::new(pipeline().add(either(true)))));
    assert!(!asked(EmbeddedChannel::new(pipeline().add(either(false)))));
    assert!(asked(EmbeddedChannel::new(pipeline().add_on(&workers, Says(Needs)))));
}

#[test]
fn whoever_came_by_an_exchange_is_asked_and_whoever_has_gone_is_not() {
    for (before, after) in [(Needs, Passes), (Passes, Needs), (Refuses, Needs)] {
        let mut channel = EmbeddedChannel::<(), Outgoing>::with_joint(pipeline().joint(move |switch| {
            pipeline().add(Says(before)).handle(move |_, _| switch.to(pipeline().app(LastWord(after))))
        }));
        channel.write_inbound("go");
        assert_eq!(lives_on(&mut channel), after == Needs, "{before:?}, then {after:?}");
    }
    // In a sealed segment as well.
    let sealed = pipeline().add(Says(Passes)).app(LastWord(Needs)).sealed();
    assert!(lives_on(&mut EmbeddedChannel::<(), _>::with_joint(sealed)));
}

/// What a stage whose protocol has an end of input of its own goes by.
#[test]
fn a_stage_asks_those_behind_it() {
    /// Asks when a message comes.
    struct Asks(Rc<RefCell<Vec<bool>>>);
    impl Handler for Asks {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Outgoing;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut Context<'_, Self>, _: BytesMut) {
            self.0.borrow_mut().push(cx.view().allows_half_closure());
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
            cx.write_with(bytes, done);
        }
    }
    let told = Rc::default();
    for says in [Passes, Needs, Refuses] {
        let asks = Asks(Rc::clone(&told));
        EmbeddedChannel::new(pipeline().add(asks).app(LastWord(says))).write_inbound("?");
    }
    assert_eq!(*told.borrow(), [false, true, false]);
}

#[test]
fn a_tail_that_reads_hears_of_the_end_and_answers() {
    let count = |mut peer: Peer<BytesMut, Outgoing>| async move {
        let mut sum = 0;
        while let Some(bytes) = peer.read().await? {
            sum += bytes.len();
        }
        peer.write(format!("{sum} bytes")).await
    };
    let mut channel = EmbeddedChannel::new(pipeline().serve(count));
    channel.write_inbound("hello, ").write_inbound("world").end_input();
    assert_eq!(channel.outbound_bytes(), b"12 bytes");
    let cause = channel.channel().close_cause();
    assert!(matches!(cause, Some(CloseCause::PeerClosed)), "the peer was the first to end it: {cause:?}");
}

#[test]
fn a_tail_that_never_reads_ends_with_its_peer() {
    let mut channel = EmbeddedChannel::new(pipeline().serve(|peer: Peer<BytesMut, Outgoing>| async move {
        let _peer = peer;
        pending::<()>().await;
    }));
    assert!(!lives_on(&mut channel));
}
