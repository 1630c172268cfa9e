//! Rewiring live channels.
#![cfg(not(loom))]

use bytes::{Buf, Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Context, EmbeddedChannel, Handler, Leftover, Switch, WritePromise, pipeline,
};
use std::{cell::RefCell, rc::Rc};

type Log = Rc<RefCell<Vec<String>>>;

/// Cuts lines out of bytes; what is left when it leaves goes to its successor.
#[derive(Default)]
struct Lines {
    rest: BytesMut,
}

impl Handler for Lines {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = String;
    type WriteOut = Bytes;

    fn read(&mut self, _: &mut Context<'_, Self>, bytes: BytesMut) {
        self.rest.extend_from_slice(&bytes);
    }
    fn pull(&mut self, _: &mut Context<'_, Self>) -> Option<String> {
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        let line = self.rest.split_to(end);
        self.rest.advance(1);
        Some(String::from_utf8_lossy(&line).into_owned())
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, line: String, done: WritePromise) {
        cx.write_with(Bytes::from(line + "\n"), done);
    }
    fn leftover(&mut self) -> Leftover<BytesMut> {
        if self.rest.is_empty() { Leftover::nothing() } else { Leftover::one(self.rest.split()) }
    }
}

/// Answers lines until `upgrade`, then gives way to raw bytes.
struct Handshake {
    switch: Switch<BytesMut, Bytes, String>,
    log: Log,
}

impl Application for Handshake {
    type Read = String;
    type Write = String;

    fn active(&mut self, _: &mut AppContext<'_, Self>) {
        self.log.borrow_mut().push("handshake active".into());
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: String) {
        cx.write_and_flush(format!("got {line}"));
        if line == "upgrade" {
            let log = self.log.clone();
            self.switch.to(pipeline().add(Shout).app(Raw { log }));
        }
    }
    fn removed(&mut self) {
        self.log.borrow_mut().push("handshake removed".into());
    }
}

/// Passes bytes on as upper-case text.
struct Shout;

impl Handler for Shout {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = String;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(String::from_utf8_lossy(&bytes).to_uppercase());
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, text: String, done: WritePromise) {
        cx.write_with(Bytes::from(text), done);
    }
}

struct Raw {
    log: Log,
}

impl Application for Raw {
    type Read = String;
    type Write = String;

    fn active(&mut self, _: &mut AppContext<'_, Self>) {
        self.log.borrow_mut().push("raw active".into());
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, text: String) {
        cx.write_and_flush(format!("<{text}>"));
    }
}

fn upgradable(log: &Log) -> EmbeddedChannel<(), String> {
    let log = log.clone();
    EmbeddedChannel::with_joint(
        pipeline().joint(|switch| pipeline().add(Lines::default()).app(Handshake { switch, log })),
    )
}

#[test]
fn bytes_behind_the_upgrade_reach_the_new_segment_first() {
    let log = Log::default();
    let mut channel = upgradable(&log);
    channel.write_inbound(b"hello\nupgrade\nab");
    channel.write_inbound(b"cd");
    assert_eq!(channel.outbound_bytes(), b"got hello\ngot upgrade\n<AB><CD>");
    assert_eq!(*log.borrow(), ["handshake active", "handshake removed", "raw active"]);
}

#[test]
fn byte_by_byte_gives_the_same_as_whole() {
    let log = Log::default();
    let mut channel = upgradable(&log);
    for byte in b"upgrade\nxyz" {
        channel.write_inbound([*byte]);
    }
    assert_eq!(channel.outbound_bytes(), b"got upgrade\n<X><Y><Z>");
}

#[test]
fn what_is_left_over_waits_while_delivery_is_paused() {
    let log = Log::default();
    let mut channel = upgradable(&log);
    channel.channel().pause();
    channel.run();
    channel.write_inbound(b"upgrade\nrest");
    assert_eq!(channel.outbound_bytes(), b"");
    channel.channel().request();
    channel.run();
    assert_eq!(channel.outbound_bytes(), b"got upgrade\n");
    channel.channel().resume();
    channel.run();
    assert_eq!(channel.outbound_bytes(), b"<REST>");
}

#[test]
fn writes_from_outside_go_through_the_segment_that_is_there() {
    let log = Log::default();
    let mut channel = upgradable(&log);
    channel.write_outbound("one".into());
    channel.write_inbound(b"upgrade\n");
    channel.write_outbound("two".into());
    assert_eq!(channel.outbound_bytes(), b"one\ngot upgrade\ntwo");
}

#[test]
fn the_stages_that_are_listed_are_those_that_run() {
    let log = Log::default();
    let mut channel = upgradable(&log);
    let names = |channel: &mut EmbeddedChannel<(), String>| {
        let mut stages = channel.channel().stages();
        channel.run();
        stages.try_take().unwrap().unwrap().into_iter().map(|stage| stage.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut channel), ["Lines", "Handshake"]);
    channel.write_inbound(b"upgrade\n");
    assert_eq!(names(&mut channel), ["Shout", "Raw"]);
}
