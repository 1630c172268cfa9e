//! An application that writes in `read`, flushes in `read_complete` and pauses for lack of room must not wait for ever.
#![cfg(not(loom))]

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, Context, EmbeddedChannel, HostSettings, InboundOnly, InboundStage,
    Outgoing, Peer, WaterMarks, WriteError, inbound, pipeline,
};
use std::{cell::Cell, pin::pin, rc::Rc, task::Poll};

/// One message for each byte.
#[derive(Default)]
struct Singles(BytesMut);

impl InboundOnly for Singles {
    type Read = BytesMut;
    type ReadOut = u8;
    type Write = Bytes;

    fn read(&mut self, _: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) {
        self.0.extend_from_slice(&bytes);
    }
    fn pull(&mut self, _: &mut Context<'_, InboundStage<Self>>) -> Option<u8> {
        (!self.0.is_empty()).then(|| self.0.split_to(1)[0])
    }
}

struct Careful;

impl Application for Careful {
    type Read = u8;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, byte: u8) {
        cx.write(Bytes::copy_from_slice(&[byte; 10]));
        if !cx.is_writable() {
            cx.pause();
        }
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        if writable {
            cx.resume();
        }
    }
}

fn careful() -> EmbeddedChannel<std::convert::Infallible, Bytes> {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(1000, 2000).unwrap();
    EmbeddedChannel::with_settings(pipeline().add(inbound(Singles::default())).app(Careful), settings)
}

#[test]
fn everything_is_answered_although_reading_paused_many_times_on_the_way() {
    let mut channel = careful();
    channel.write_inbound(vec![7; 10_000]);
    let answer = channel.outbound_bytes();
    assert_eq!(answer.len(), 100_000);
    assert!(answer.iter().all(|&byte| byte == 7));
}

#[test]
fn a_channel_that_ends_while_it_waits_for_room_is_told_everything() {
    let mut channel = careful();
    channel.block_output(true).write_inbound(vec![7; 10_000]);
    assert!(!channel.wants_read());
    channel.close_by_peer();
    assert!(!channel.is_open());
    let finished = channel.finish();
    assert!(finished.inbound.is_empty());
}

/// Writes as long as there is room, as users of other frameworks do.
struct Flood {
    left: usize,
}

impl Flood {
    fn fill(&mut self, cx: &mut AppContext<'_, Self>) {
        while self.left > 0 && cx.is_writable() {
            cx.write(Bytes::from_static(&[7; 100]));
            self.left -= 1;
        }
        cx.flush();
    }
}

impl Application for Flood {
    type Read = BytesMut;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.fill(cx);
    }
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        if writable {
            self.fill(cx);
        }
    }
}

#[test]
fn a_loop_that_writes_while_there_is_room_ends_and_goes_on_when_there_is_room_again() {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(1000, 2000).unwrap();
    let mut channel = EmbeddedChannel::with_settings(pipeline().app(Flood { left: 10_000 }), settings);
    assert_eq!(channel.outbound_bytes().len(), 1_000_000);
}

#[test]
fn a_peer_that_does_not_read_costs_no_more_than_the_mark_and_one_message() {
    let pending = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = pending.clone();
    let mut settings = HostSettings::default();
    settings.hold_back = false; // so that it is asked again and again
    let flood = pipeline().handle(move |cx, _| {
        while cx.is_writable() {
            cx.write(Bytes::from_static(&[7; 1000]));
        }
        cx.flush();
        seen.set(cx.view().pending_bytes());
    });
    let mut channel = EmbeddedChannel::with_settings(flood, settings);
    channel.block_output(true);
    for _ in 0..100 {
        channel.write_inbound(b"more");
    }
    assert!(!channel.channel().is_writable());
    let (mark, message) = (WaterMarks::default().high(), 1000 + 96 + 32);
    assert!((mark..=mark + message).contains(&pending.get()), "{} bytes wait", pending.get());
}

/// Writes whenever it may, also behind its own close.
struct Insatiable;

impl Application for Insatiable {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
        self.writability(cx, true);
        cx.close();
    }
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, _: bool) {
        let mut writes = 0;
        while cx.is_writable() {
            cx.write(Bytes::from_static(&[0; 16 * 1024]));
            writes += 1;
            assert!(writes < 1000, "there is room for ever");
        }
        cx.flush();
    }
}

#[test]
fn who_writes_whenever_there_is_room_is_not_told_of_room_behind_a_close() {
    let mut channel = EmbeddedChannel::new(pipeline().app(Insatiable));
    channel.write_inbound(b"close");
    assert!(!channel.is_open());
}

// ---- an output that is shut down: what is written only fails, so there is room for it ----

#[test]
fn messages_go_on_when_the_output_is_shut_down_before_there_is_room() {
    let mut channel = careful();
    channel.block_output(true).write_inbound(vec![7; 10_000]);
    assert!(!channel.wants_read());
    channel.channel().shut_down_output();
    channel.run().block_output(false).run();
    assert!(channel.wants_read(), "nobody waits for room that does not come");
}

#[test]
fn an_async_function_that_writes_goes_on_when_its_output_is_shut_down() {
    let read = Rc::new(Cell::new(0));
    let seen = read.clone();
    let mut channel =
        EmbeddedChannel::new(pipeline().serve(|mut peer: Peer<BytesMut, Outgoing>| async move {
            while let Some(bytes) = peer.read().await? {
                seen.set(seen.get() + bytes.len());
                peer.write(bytes).await?;
            }
            Ok::<(), CloseCause>(())
        }));
    channel.write_inbound("1").channel().shut_down_output();
    channel.run();
    for _ in 0..10 {
        channel.write_inbound("1");
    }
    assert_eq!(read.get(), 11);
    channel.end_input();
    assert!(!channel.is_open());
}

#[test]
fn a_handle_that_waits_for_room_goes_on_when_the_output_is_shut_down() {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(1000, 2000).unwrap();
    let mut channel = EmbeddedChannel::with_settings(pipeline().handle(|_, _| {}), settings);
    let handle = channel.block_output(true).channel().clone();
    handle.write(vec![0; 5000]); // never flushed
    channel.run();
    let mut room = pin!(handle.writable());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(room.as_mut().poll(&mut cx).is_pending());
    handle.shut_down_output();
    channel.run();
    assert!(matches!(room.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
    let mut late = handle.send("late");
    channel.run();
    assert!(matches!(late.try_take(), Some(Err(WriteError::OutputShutDown))));
}
