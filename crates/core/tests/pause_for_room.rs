//! An application that writes in `read`, flushes in `read_complete` and pauses for lack of room must not wait for ever.
#![cfg(not(loom))]

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Context, EmbeddedChannel, HostSettings, InboundOnly, InboundStage, WaterMarks,
    inbound, pipeline,
};

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
