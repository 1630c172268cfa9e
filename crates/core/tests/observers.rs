//! What observers see, as stages and in slots.
#![cfg(not(loom))]

use bytes::BytesMut;
use netwright_core::{AppContext, Application};
use netwright_core::{
    ChannelView, CloseCause, EmbeddedChannel, Fault, HalfClosure, Observer, Outgoing, Slot, observe,
    pipeline, slot,
};
use std::{
    io,
    sync::{Arc, Mutex},
};

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down what it sees.
struct Looks(Log);

impl Looks {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }
}

impl Observer for Looks {
    type Read = BytesMut;
    type Write = Outgoing;

    fn sees_channel(&mut self, channel: &ChannelView<'_, BytesMut>) {
        let peer = channel.peer().map_or_else(|| "nobody".to_owned(), |peer| peer.to_string());
        self.note(format!("channel of {peer}"));
    }
    fn sees_active(&mut self) {
        self.note("active");
    }
    fn sees_read(&mut self, bytes: &BytesMut) {
        self.note(format!("read {}", bytes.len()));
    }
    fn sees_write(&mut self, out: &Outgoing) {
        self.note(format!("write {}", out.len()));
    }
    fn sees_flush(&mut self) {
        self.note("flush");
    }
    fn sees_writability(&mut self, writable: bool) {
        self.note(format!("writable {writable}"));
    }
    fn sees_input_closed(&mut self) {
        self.note("input closed");
    }
    fn sees_error(&mut self, fault: &Fault) {
        self.note(format!("error {fault}"));
    }
    fn sees_close(&mut self, cause: &CloseCause) {
        self.note(format!("close: {cause}"));
    }
    fn sees_shut_down_output(&mut self) {
        self.note("output shut down");
    }
    fn sees_panicked(&mut self, message: Option<&str>) {
        self.note(format!("panicked {message:?}"));
    }
    fn sees_inactive(&mut self, cause: &CloseCause) {
        self.note(format!("inactive: {cause}"));
    }
}

/// Does what it is told.
struct Obeys;

impl Application for Obeys {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, order: BytesMut) {
        match &order[..] {
            b"much" => cx.write(vec![0; 1 << 20]),
            b"no more" => cx.shut_down_output(),
            b"panic" => panic!("as told"),
            b"fail" => cx.close_because(CloseCause::io(io::ErrorKind::InvalidData.into())),
            _ => cx.write_and_flush(order),
        }
    }
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }
}

fn seen(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

/// Channels with an observer as a stage, and in a slot from before their first message on.
fn observed() -> [(EmbeddedChannel<(), Outgoing>, Log); 2] {
    let peer = || "192.0.2.1:7".parse().ok();
    let log = Log::default();
    let stage =
        EmbeddedChannel::between(pipeline().add(observe(Looks(log.clone()))).app(Obeys), None, peer());
    assert_eq!(seen(&log), ["channel of 192.0.2.1:7", "active"]);
    let in_slot = Log::default();
    let stages = pipeline().add(slot::<BytesMut, Outgoing>("looks")).app(Obeys);
    let mut channel = EmbeddedChannel::between(stages, None, peer());
    let place: Slot<BytesMut, Outgoing> = channel.channel().slot("looks").unwrap();
    place.put(Looks(in_slot.clone()));
    channel.write_inbound("x");
    assert_eq!(seen(&in_slot), ["channel of 192.0.2.1:7", "read 1", "write 1", "flush"]);
    [(stage, log), (channel, in_slot)]
}

#[test]
fn room_to_write_the_end_of_input_and_that_of_output_are_seen() {
    for (mut channel, log) in observed() {
        channel.block_output(true).write_inbound("much");
        assert_eq!(seen(&log), ["read 4", "write 1048576", "flush", "writable false"]);
        channel.block_output(false);
        assert_eq!(seen(&log), ["writable true"]);
        channel.write_inbound("no more").end_input();
        assert_eq!(seen(&log), ["read 7", "output shut down", "input closed"]);
    }
}

#[test]
fn a_close_is_seen_on_its_way_and_at_the_end() {
    for (mut channel, log) in observed() {
        channel.write_inbound("fail");
        let cause = "connection failed: invalid data";
        assert_eq!(
            seen(&log),
            ["read 4".to_owned(), format!("close: {cause}"), format!("inactive: {cause}")]
        );
    }
}

#[test]
fn a_panic_is_seen_with_its_message_and_nothing_behind_it() {
    for (mut channel, log) in observed() {
        channel.write_inbound("panic");
        assert_eq!(seen(&log), ["read 5", r#"panicked Some("as told")"#]);
        let cause = channel.channel().close_cause();
        assert!(matches!(cause, Some(CloseCause::Panicked(message)) if message == "as told"));
    }
}
