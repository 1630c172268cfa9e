//! Handlers, applications, joints, timers, and stages on workers.

use bytes::{Bytes, BytesMut};
use netwright::{
    Address, AppContext, Application, Channel, Client, CloseCause, Context, EventLoopGroup, Handler, Server,
    Workers, WritePromise,
    codec::{LineFrames, Utf8},
    pipeline,
    pipeline::{OnWorker, Place, StageTimer, Switch},
};
use outside::{MANY, assert_same, dial, exchange, in_time, loops, pattern, settle};
use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

/// Turns over every bit, both ways.
struct Veil;

impl<P: Place> Handler<P> for Veil {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self, P>, mut bytes: BytesMut) {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, bytes: Bytes, done: WritePromise) {
        cx.write_with(bytes.iter().map(|byte| !byte).collect::<Bytes>(), done);
    }
}

fn veiled(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}

/// Sends back what it reads, and reads no more while that is not taken.
struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush(bytes.freeze());
        if !cx.is_writable() {
            cx.pause();
        }
    }
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        if writable {
            cx.resume();
        }
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.close_when_flushed();
    }
}

#[test]
fn handlers_see_every_byte_both_ways() {
    in_time(|| {
        let server = Server::builder()
            .group(loops(1))
            .half_closure(true)
            .pipeline(|_| pipeline().add(Veil).add(Veil).add(Veil).app(Echo))
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let sent = pattern(MANY);
        assert_same(&exchange(dial(server.local_addr()), sent.clone()), &sent);
    });
}

#[test]
fn a_segment_behind_a_joint_is_exchanged_while_the_connection_lives() {
    in_time(|| {
        let server = Server::builder()
            .group(loops(1))
            .half_closure(true)
            .pipeline(|_| {
                pipeline().joint(|switch: Switch<Infallible>| {
                    let clear = pipeline().handle(move |cx, bytes: BytesMut| {
                        assert_eq!(bytes, "veil");
                        cx.write_and_flush("veiled from now on");
                        switch.to(pipeline().add(Veil).app(Echo).sealed());
                    });
                    clear.sealed()
                })
            })
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let mut stream = dial(server.local_addr());
        std::io::Write::write_all(&mut stream, b"veil").unwrap();
        let mut said = [0; 18];
        std::io::Read::read_exact(&mut stream, &mut said).unwrap();
        assert_eq!(&said, b"veiled from now on");
        let sent = pattern(MANY);
        assert_same(&exchange(stream, veiled(&sent)), &veiled(&sent));
    });
}

/// Answers each line when its timer is due: a count.
#[derive(Default)]
struct Patient {
    answered: usize,
}

impl Application for Patient {
    type Read = String;
    type Write = String;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, _: String) {
        cx.arm(Duration::from_millis(1));
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
        self.answered += 1;
        cx.write_and_flush(self.answered.to_string());
        if self.answered == 3 {
            cx.close_when_flushed();
        }
    }
}

#[test]
fn timers_of_a_stage_are_due() {
    in_time(|| {
        let server = Server::builder()
            .group(loops(1))
            .half_closure(true)
            .pipeline(|_| pipeline().add(LineFrames::max(64)).add(Utf8::strict()).app(Patient::default()))
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        assert_eq!(exchange(dial(server.local_addr()), b"a\nb\nc\n".to_vec()), b"1\n2\n3\n");
    });
}

/// Has each line answered somewhere else, and closes when all of them are.
struct Elsewhere {
    group: EventLoopGroup,
    how: fn(&mut Self, &mut AppContext<'_, Self>, String),
    answered: usize,
}

impl Elsewhere {
    fn answer(&mut self, cx: &mut AppContext<'_, Self>, line: String) {
        self.answered += 1;
        cx.write_and_flush(line);
        if self.answered == 3 {
            cx.close_when_flushed();
        }
    }
}

impl Application for Elsewhere {
    type Read = String;
    type Write = String;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: String) {
        (self.how)(self, cx, line);
    }
}

/// What three lines become that are answered so.
fn answered(how: fn(&mut Elsewhere, &mut AppContext<'_, Elsewhere>, String)) -> Vec<u8> {
    let group = loops(1);
    let home = group.clone();
    let server = Server::builder()
        .group(group)
        .half_closure(true)
        .pipeline(move |_| {
            let app = Elsewhere { group: home.clone(), how, answered: 0 };
            pipeline().add(LineFrames::max(64)).add(Utf8::strict()).app(app)
        })
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut lines = exchange(dial(server.local_addr()), b"a\nb\nc\n".to_vec());
    lines.sort_unstable(); // workers take turns as they like
    lines
}

#[test]
fn work_comes_back_from_workers_with_the_handler_in_hand() {
    in_time(|| {
        let lines = answered(|this, cx, line| {
            let group = this.group.clone();
            let work = move || {
                settle(&group);
                line.to_uppercase()
            };
            cx.offload(work, |this, cx, line| this.answer(cx, line));
        });
        assert_eq!(lines, b"\n\n\nABC");
    });
}

#[test]
fn a_future_of_a_stage_is_woken_by_another_thread() {
    in_time(|| {
        let lines = answered(|this, cx, line| {
            let other = outside::slow_thread(&this.group);
            let answered = outside::ask(&other, line);
            cx.spawn(answered, |this, cx, line| this.answer(cx, line.expect("it is kept")));
        });
        assert_eq!(lines, b"\n\n\nABC");
    });
}

#[test]
fn a_handler_is_called_from_another_thread() {
    in_time(|| {
        let lines = answered(|_, cx, line| {
            let back = cx.caller();
            thread::spawn(move || back.call(move |this, cx| this.answer(cx, line.to_uppercase())));
        });
        assert_eq!(lines, b"\n\n\nABC");
    });
}

#[test]
fn a_stage_on_workers_passes_on_every_byte_in_order() {
    in_time(|| {
        let workers = Workers::new(2).unwrap();
        let server = Server::builder()
            .group(loops(1))
            .half_closure(true)
            .pipeline(move |_| pipeline().add_on(&workers, Veil).add(Veil).app(Echo))
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let sent = pattern(MANY);
        assert_same(&exchange(dial(server.local_addr()), sent.clone()), &sent);
    });
}

#[test]
fn an_application_on_workers_answers_in_order() {
    in_time(|| {
        let workers = Workers::new(2).unwrap();
        let server = Server::builder()
            .group(loops(1))
            .half_closure(true)
            .pipeline(move |_| pipeline().add(LineFrames::max(64)).app_on(&workers, Capitals))
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let lines: String = (0..10_000).map(|n| format!("line {n}\n")).collect();
        let came = exchange(dial(server.local_addr()), lines.clone().into_bytes());
        assert_same(&came, lines.to_uppercase().as_bytes());
    });
}

struct Capitals;

impl Application<OnWorker> for Capitals {
    type Read = Bytes;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, line: Bytes) {
        cx.write_and_flush(line.to_ascii_uppercase());
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self, OnWorker>) {
        cx.close_when_flushed();
    }
}

/// One side of a pair: what it reads, the other one writes. Reads nothing before the other one is there.
struct Side {
    other: Arc<OnceLock<Channel<Bytes>>>,
    /// Where to find the other one, and on which loops.
    connect: Option<(Address, EventLoopGroup)>,
}

impl Application for Side {
    type Read = BytesMut;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        let Some((address, group)) = self.connect.take() else { return };
        let (front, to_back) = (cx.channel(), self.other.clone());
        let to_front = Arc::new(OnceLock::from(front.clone()));
        let client = Client::builder()
            .group(group)
            .half_closure(true)
            .pipeline(move || pipeline().app(Side { other: to_front.clone(), connect: None }));
        client.expect("loops").connect(address).listen(move |back| {
            let _ = to_back.set(back.as_ref().expect("it listens").clone());
            front.resume();
        });
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        let other = self.other.get().expect("nothing is read before it is there");
        other.write_and_flush(bytes.freeze());
        if !other.is_writable() {
            cx.pause();
        }
    }
    fn writability(&mut self, _: &mut AppContext<'_, Self>, writable: bool) {
        if let (true, Some(other)) = (writable, self.other.get()) {
            other.resume();
        }
    }
    fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {
        if let Some(other) = self.other.get() {
            other.shut_down_output();
        }
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, _: CloseCause) {
        if let Some(other) = self.other.get() {
            drop(other.close_when_flushed());
        }
    }
}

#[test]
fn a_proxy_of_two_handlers_passes_on_every_byte_both_ways() {
    in_time(|| {
        let group = loops(2);
        let echo = Server::builder()
            .group(group.clone())
            .half_closure(true)
            .pipeline(|_| pipeline().app(Echo))
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let (target, home) = (echo.address().clone(), group.clone());
        let proxy = Server::builder()
            .group(group)
            .auto_read(false)
            .half_closure(true)
            .pipeline(move |_| {
                let connect = Some((target.clone(), home.clone()));
                pipeline().app(Side { other: Arc::default(), connect })
            })
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let sent = pattern(MANY);
        assert_same(&exchange(dial(proxy.local_addr()), sent.clone()), &sent);
    });
}
