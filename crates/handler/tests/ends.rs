//! Timeouts and lifetimes at the ends of channels, over connections of the transport and on an embedded channel.

use bytes::BytesMut;
use netwright_core::{
    AppContext, Application, CloseCause, EmbeddedChannel, Event, HalfClosure, ShuttingDown, pipeline,
};
use netwright_handler::{Idle, IdleKind, Lifetime, LifetimeOver, Log, ReadTimeout, WriteTimeout};
use netwright_transport::{Client, Server};
use std::{cell::Cell, rc::Rc, time::Duration};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Counts how often it is asked to finish; with `obeys`, it does so.
struct Hears {
    asked: Rc<Cell<u32>>,
    obeys: bool,
}

impl Application for Hears {
    type Read = BytesMut;
    type Write = bytes::Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush(bytes);
    }
    fn event(&mut self, cx: &mut AppContext<'_, Self>, event: Event) {
        if event.get::<ShuttingDown>().is_some() {
            self.asked.set(self.asked.get() + 1);
            if self.obeys {
                cx.write_and_flush("goodbye");
                cx.close_when_flushed();
            }
        }
    }
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }
    fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {}
}

fn old(lifetime: Lifetime, obeys: bool) -> (EmbeddedChannel<(), bytes::Bytes>, Rc<Cell<u32>>) {
    let asked = Rc::default();
    let hears = Hears { asked: Rc::clone(&asked), obeys };
    (EmbeddedChannel::of(pipeline().filter(lifetime).app(hears)), asked)
}

#[test]
fn who_is_old_is_asked_to_finish_once_and_may_do_so_in_order() {
    let (mut channel, asked) = old(Lifetime::of(secs(60)).jitter(0.0), true);
    channel.advance(Duration::from_millis(59_999));
    assert_eq!(asked.get(), 0);
    channel.advance(Duration::from_millis(1));
    assert_eq!((asked.get(), channel.outbound_bytes()), (1, b"goodbye".to_vec()));
    assert!(matches!(channel.finish().cause, Some(CloseCause::Requested)));
}

#[test]
fn who_does_not_finish_is_closed_after_the_grace_however_busy_it_is() {
    let (mut channel, asked) = old(Lifetime::of(secs(60)).jitter(0.0).grace(secs(5)), false);
    for _ in 0..64 {
        channel.advance(secs(1)).write_inbound("hello");
    }
    assert_eq!(asked.get(), 1);
    assert!(channel.is_open());
    channel.advance(secs(1));
    let Some(CloseCause::Fault(fault)) = channel.finish().cause else { panic!("another cause") };
    let over = fault.downcast_ref::<LifetimeOver>().unwrap();
    assert_eq!((over.age, over.grace), (secs(60), secs(5)));
    assert!(over.to_string().contains("60s") && over.to_string().contains("5s"));
}

#[test]
fn without_grace_it_is_told_and_closed_and_without_an_age_it_lives_on() {
    let (mut channel, asked) = old(Lifetime::of(secs(60)).jitter(0.0).grace(Duration::ZERO), false);
    channel.advance(secs(61));
    assert_eq!(asked.get(), 1);
    assert!(!channel.is_open());
    let (mut channel, asked) = old(Lifetime::of(Duration::ZERO), false);
    channel.advance(secs(10_000_000));
    assert_eq!(asked.get(), 0);
    assert!(channel.is_open());
}

#[test]
fn half_closed_channels_are_not_timed_out_for_what_their_peer_does_not_send() {
    let asked = Rc::default();
    let stages = pipeline().filter(ReadTimeout::after(secs(10))).filter(Idle::read(secs(10)).closing());
    let mut channel = EmbeddedChannel::of(stages.app(Hears { asked, obeys: false }));
    channel.end_input().advance(secs(1000));
    assert!(channel.is_open());
    channel.write_outbound("the answer");
    assert_eq!(channel.outbound_bytes(), b"the answer");
}

#[test]
fn a_read_timeout_excuses_a_pause_and_a_write_timeout_does_not() {
    let stages =
        pipeline().filter(ReadTimeout::after(secs(10))).handle(|cx, bytes| cx.write_and_flush(bytes));
    let mut channel = EmbeddedChannel::of(stages);
    channel.channel().pause();
    channel.advance(secs(1000));
    assert!(channel.is_open());

    let stages =
        pipeline().filter(WriteTimeout::after(secs(10))).handle(|cx, bytes| cx.write_and_flush(bytes));
    let mut channel = EmbeddedChannel::of(stages);
    channel.block_output(true).write_inbound("hello").channel().pause();
    channel.advance(secs(15));
    assert!(matches!(channel.finish().cause, Some(CloseCause::TimedOut(limit)) if limit == secs(10)));
}

#[test]
fn no_timer_is_left_by_a_channel_that_has_ended() {
    let asked = Rc::default();
    let stages = pipeline()
        .filter(Lifetime::of(secs(60)))
        .filter(ReadTimeout::after(secs(60)))
        .filter(WriteTimeout::after(secs(60)))
        .filter(Idle::all(secs(60)).and(IdleKind::Write, secs(7)))
        .filter(Log::lifecycle());
    let mut channel = EmbeddedChannel::of(stages.app(Hears { asked, obeys: false }));
    let timers = channel.channel().event_loop().figures().timers_pending;
    assert_eq!(timers, 4, "one for each stage, whatever limits it has");
    channel.close_by_peer().advance(secs(1));
    assert_eq!(channel.channel().event_loop().figures().timers_pending, 0);
}

#[test]
fn a_server_closes_a_connection_on_which_nothing_happens() {
    let server = Server::builder()
        .observer(Log::lifecycle())
        .pipeline(|_| {
            let stages = pipeline().filter(Idle::all(Duration::from_millis(50)).closing());
            stages.filter(Log::lifecycle()).handle(|cx, bytes| cx.write_and_flush(bytes))
        })
        .bind("local:idle-ends")
        .wait()
        .unwrap();
    let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {})).unwrap();
    let channel = client.connect(server.address()).wait().unwrap();
    assert!(matches!(channel.closed().wait(), Ok(CloseCause::PeerClosed)));
    server.shutdown_now().wait().unwrap();
}
