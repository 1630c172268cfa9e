//! Pipelines whose rest is exchanged while the connection lives.
//!
//! Most servers here speak lines in upper case until a line says `count`: from then on they speak numbers, the length of all
//! bytes so far. The two take messages of different types.

use super::{
    Behaviour, Need, Setup, behaviour,
    support::{PATIENCE, Running, Soon, expect, expect_end, wait_until},
};
use bytes::{Buf, Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Channel, ChannelGroup, CloseCause, Context, Handler, Leftover, Outgoing, Place,
    Switch, WriteError, WritePromise,
    detect::{Detect, http, prefix},
    pipeline,
};
use std::{
    convert::Infallible,
    io::{Read, Write},
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_protocol_gives_way_to_one_of_another_type_with_what_was_read_already),
    behaviour!(handles_of_an_exchanged_segment_lose_no_write_in_silence),
    behaviour!(a_sealed_client_can_be_closed_and_waited_for),
    behaviour!(one_port_speaks_several_protocols_and_the_first_bytes_decide),
    behaviour!(first_bytes_that_left_it_open_are_read_when_the_peer_sends_no_more)
        .needs(&[Need::HalfClosure]),
];

type Way = Switch<Infallible>;

/// Lines in, lines out.
#[derive(Default)]
pub(super) struct Lines(BytesMut);

impl<P: Place> Handler<P> for Lines {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = String;
    type WriteOut = Outgoing;

    fn read(&mut self, _: &mut Context<'_, Self, P>, bytes: BytesMut) {
        self.0.extend_from_slice(&bytes);
    }
    fn pull(&mut self, _: &mut Context<'_, Self, P>) -> Option<String> {
        let end = self.0.iter().position(|&byte| byte == b'\n')?;
        let line = self.0.split_to(end);
        self.0.advance(1);
        Some(String::from_utf8_lossy(&line).into_owned())
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, line: String, done: WritePromise) {
        cx.write_with(Bytes::from(line + "\n"), done);
    }
    fn leftover(&mut self) -> Leftover<BytesMut> {
        if self.0.is_empty() { Leftover::nothing() } else { Leftover::one(self.0.split()) }
    }
}

struct Talk {
    switch: Way,
    begun: Sender<Channel<String>>,
}

impl Application for Talk {
    type Read = String;
    type Write = String;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.begun.send(cx.channel()).unwrap();
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: String) {
        cx.write_and_flush(line.to_uppercase());
        if line == "count" {
            self.switch.to(pipeline().add(Numbers).app(Count(0)).sealed());
        }
    }
}

/// Numbers out, with a comma behind each.
struct Numbers;

impl Handler for Numbers {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = usize;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, number: usize, done: WritePromise) {
        cx.write_with(Bytes::from(format!("{number},")), done);
    }
}

struct Count(usize);

impl Application for Count {
    type Read = BytesMut;
    type Write = usize;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        for _ in bytes {
            self.0 += 1;
            cx.write(self.0);
        }
        cx.flush();
    }
}

/// The server, and the handle of each connection as the first segment has it.
fn talk(setup: Setup) -> (Running, Receiver<Channel<String>>) {
    let (begun, handles) = mpsc::channel();
    let (builder, loops) = setup.server();
    let mut bound = builder
        .pipeline(move |_| {
            let begun = begun.clone();
            pipeline().joint(|switch| pipeline().add(Lines::default()).app(Talk { switch, begun }).sealed())
        })
        .bind(setup.listen_at());
    (Running { setup, server: bound.soon().unwrap(), loops }, handles)
}

fn a_protocol_gives_way_to_one_of_another_type_with_what_was_read_already(setup: Setup) {
    let (running, handles) = talk(setup);
    let mut stream = running.dial();
    stream.write_all(b"hello\ncount\nabc").unwrap();
    expect(&mut stream, b"HELLO\nCOUNT\n1,2,3,");
    stream.write_all(b"de").unwrap();
    expect(&mut stream, b"4,5,");
    let handle = handles.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(handle.send("late".into()).soon(), Err(WriteError::Exchanged)));
    drop(handle.close());
    expect_end(&mut stream);
    running.wait_for_open(0);
}

fn handles_of_an_exchanged_segment_lose_no_write_in_silence(setup: Setup) {
    const MESSAGES: usize = 200;
    let (running, handles) = talk(setup);
    let mut stream = running.dial();
    let handle = handles.recv_timeout(PATIENCE).unwrap();
    let room = ChannelGroup::new();
    room.add(handle.clone());
    let elsewhere = handle.clone();
    let writer = thread::spawn(move || {
        let write = |_| elsewhere.send("m".into());
        (0..MESSAGES).map(write).collect::<Vec<_>>()
    });
    stream.write_all(b"count\n").unwrap();
    let fates: Vec<_> = writer.join().unwrap().into_iter().map(|mut written| written.soon()).collect();
    let sent = fates.iter().filter(|fate| fate.is_ok()).count();
    let refused = fates.iter().filter(|fate| matches!(fate, Err(WriteError::Exchanged))).count();
    assert_eq!(sent + refused, MESSAGES, "{fates:?}");
    let (mut all, mut byte) = (Vec::new(), [0]);
    while !all.ends_with(b"COUNT\n") {
        stream.read_exact(&mut byte).unwrap();
        all.extend(byte);
    }
    drop(handle.close_when_flushed());
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.windows(2).filter(|line| line == b"m\n").count(), sent);
    wait_until(|| room.is_empty(), || "the member to leave with its channel".to_owned());
}

fn a_sealed_client_can_be_closed_and_waited_for(setup: Setup) {
    let running = setup.echo();
    let (begun, handles) = mpsc::channel();
    let client = setup
        .client_builder()
        .pipeline(move || {
            let begun = begun.clone();
            pipeline().joint(|switch| pipeline().add(Lines::default()).app(Talk { switch, begun }).sealed())
        })
        .unwrap();
    let outside: Channel<Infallible> = client.connect(running.address()).soon().unwrap();
    let inside = handles.recv_timeout(PATIENCE).unwrap();
    assert_eq!(inside.id(), outside.id());
    inside.send("to and fro".into()).soon().unwrap();
    assert!(matches!(outside.close().soon(), CloseCause::Requested));
    assert!(matches!(inside.closed().soon(), CloseCause::Requested));
    running.wait_for_open(0);
}

fn one_port_speaks_several_protocols_and_the_first_bytes_decide(setup: Setup) {
    let (builder, loops) = setup.server();
    let mut bound = builder
        .pipeline(|_| {
            let numbers = || pipeline().add(Numbers).app(Count(0)).sealed();
            let web =
                || pipeline().add(Lines::default()).handle(|cx, line| cx.write_and_flush(line)).sealed();
            pipeline().joint(|switch| {
                pipeline().last(Detect::new(switch).rule(prefix("#"), numbers).rule(http, web))
            })
        })
        .bind(setup.listen_at());
    let running = Running { setup, server: bound.soon().unwrap(), loops };
    let mut numbers = running.dial();
    numbers.write_all(b"#").unwrap();
    expect(&mut numbers, b"1,");
    numbers.write_all(b"abc").unwrap();
    expect(&mut numbers, b"2,3,4,");
    let mut web = running.dial();
    web.write_all(b"GE").unwrap();
    running.settle();
    web.write_all(b"T / HTTP/1.1\r\n").unwrap();
    expect(&mut web, b"GET / HTTP/1.1\r\n");
    let mut other = running.dial();
    other.write_all(b"SSH-2.0-").unwrap();
    expect_end(&mut other);
    drop((numbers, web));
    running.wait_for_open(0);
}

fn first_bytes_that_left_it_open_are_read_when_the_peer_sends_no_more(setup: Setup) {
    let (sender, read) = mpsc::channel();
    let (builder, loops) = setup.server();
    let mut bound = builder
        .pipeline(move |_| {
            let sender = sender.clone();
            let longer = || pipeline().handle(|_, _| {}).sealed();
            let shorter = move || {
                let tell =
                    move |_: &mut Context<'_, _>, bytes: BytesMut| sender.send(bytes.freeze()).unwrap();
                pipeline().handle(tell).sealed()
            };
            pipeline().joint(|switch| {
                pipeline().last(Detect::new(switch).rule(prefix("#count"), longer).rule(prefix("#"), shorter))
            })
        })
        .bind(setup.listen_at());
    let running = Running { setup, server: bound.soon().unwrap(), loops };
    let mut stream = running.dial();
    stream.write_all(b"#co").unwrap();
    stream.shut_down().unwrap();
    assert_eq!(read.recv_timeout(PATIENCE).unwrap(), "#co");
    expect_end(&mut stream);
    running.wait_for_open(0);
}
