//! What is counted: each side does so many rounds of one thing.
//!
//! Everything is in memory and on one thread, with a clock that stands still, so that each run executes the same instructions.

use crate::conversations::{with_child, with_host};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Response, header};
use netwright::{
    codec::LineFrames,
    handler::Idle,
    http::{
        HttpLimits, HttpPart, HttpServer, Received, ReplyPart, RequestPart, header_map, http2::http2_server,
        respond,
    },
    record::FlightRecorder,
    websocket::{
        Config, Message, WebSocket,
        frame::{FrameHead, Opcode, mask},
    },
};
use netwright_benches::{
    Dice,
    stages::{Echo, Pass},
};
use netwright_core::{
    AppContext, Application, Context, EmbeddedChannel, Handler, LocalLoop, ManualLoop, Observer, Outgoing,
    Segment, WritePromise, internal::CarriedBy, observe, pipeline,
};
use netwright_testkit::Wire;
use std::{hint::black_box, time::Duration};

/// Messages of one read, where a side reads several.
pub(super) const BATCH: usize = 16;
/// Tasks that are submitted before the loop runs: with so many it does not look at the clock for each of them.
pub(super) const TASKS: usize = 128;
/// Timers that are pending while others come and go.
const PENDING: usize = 1_000;
const DELAY_MS_MAX: u64 = 4 * 3_600_000;
/// Streams that are open at a time.
pub(super) const STREAMS: usize = 32;
const LINE: &[u8] = b"abcdefghijklmnopqrstuvwxyz\n";
const HEAD: &str = "GET /plaintext HTTP/1.1\r\nHost: host-10\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n\
    Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\nAccept-Encoding: gzip, deflate, br\r\n\r\n";

/// A thing that is done again and again; named on the command line of the program that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// A message of 64 bytes is read, passes this many stages, is written back and flushed. 1 or 17.
    Echo(usize),
    /// The same by an [`EmbeddedChannel`].
    Embedded,
    /// A message of 64 bytes passes a stage that records it, or one that does nothing, and so does its echo.
    Recorded(bool),
    /// The same, where a stage stands that tells idle channels, or none does; the echo writes what that takes, or bytes that it carries.
    Idle {
        watched: bool,
        carried: bool,
    },
    /// A message of 64 bytes is answered by a child that is opened for it and ends with it, or by a channel that is there.
    Conversation {
        with_child: bool,
    },
    TimerCancelled,
    TimerFired,
    TaskOfOwnThread,
    TaskOfOtherThread,
    /// A read of that many lines of 26 bytes.
    Lines(usize),
    /// A read of [`BATCH`] requests.
    Http {
        heads_differ: bool,
        replies: bool,
    },
    /// A read of [`STREAMS`] requests of HTTP/2, each on a new stream, which are answered.
    Http2 {
        heads_differ: bool,
    },
    /// A read of that many masked frames of 64 bytes.
    Frames {
        frames: usize,
        echoed: bool,
    },
}

impl Side {
    /// Does it that often.
    pub(super) fn run(self, rounds: usize) {
        let mut manual = ManualLoop::new();
        match self {
            Self::Echo(1) => {
                manual.enter(|| echo(pipeline().add(Pass).app(Echo).into_segment(), rounds));
            }
            Self::Echo(_) => {
                let four = || pipeline().add(Pass).add(Pass).add(Pass).add(Pass);
                let eight = || four().add(Pass).add(Pass).add(Pass).add(Pass);
                let twelve = || eight().add(Pass).add(Pass).add(Pass).add(Pass);
                let sixteen = twelve().add(Pass).add(Pass).add(Pass).add(Pass);
                manual.enter(|| echo(sixteen.add(Pass).app(Echo).into_segment(), rounds));
            }
            Self::Embedded => embedded(rounds),
            Self::Recorded(on) => {
                let flight = FlightRecorder::builder().build();
                let off = observe(Looks);
                manual.enter(|| match on {
                    true => turns(
                        Wire::new(pipeline().add(flight.stage()).app(Echo).into_segment()),
                        rounds,
                        || &[7; 64],
                        64,
                    ),
                    false => turns(
                        Wire::new(pipeline().add(off).app(Echo).into_segment()),
                        rounds,
                        || &[7; 64],
                        64,
                    ),
                });
            }
            Self::Idle { watched, carried } => manual.enter(|| idle(watched, carried, rounds)),
            Self::Conversation { with_child: true } => {
                manual.enter(|| echo(with_child(), rounds));
            }
            Self::Conversation { with_child: false } => {
                manual.enter(|| echo(with_host(), rounds));
            }
            Self::TimerCancelled => timer_cancelled(&mut manual, rounds),
            Self::TimerFired => timer_fired(&mut manual, rounds),
            Self::TaskOfOwnThread => tasks_of_own_thread(&mut manual, rounds),
            Self::TaskOfOtherThread => tasks_of_other_thread(&mut manual, rounds),
            Self::Lines(lines) => manual.enter(|| {
                let wire = Wire::new(pipeline().add(LineFrames::max(100)).app(Discard).into_segment());
                let read = LINE.repeat(lines);
                turns(wire, rounds, || &read, 0);
            }),
            Self::Http { heads_differ, replies } => manual.enter(|| http(heads_differ, replies, rounds)),
            Self::Http2 { heads_differ } => manual.enter(|| http2(heads_differ, rounds)),
            Self::Frames { frames, echoed } => manual.enter(|| web_socket(frames, echoed, rounds)),
        }
    }
}

/// Reads that often what `read` gives; each read is answered with that many bytes.
fn turns<'a, P, O>(mut wire: Wire<P, O>, rounds: usize, mut read: impl FnMut() -> &'a [u8], answer: usize)
where
    P: Segment<BytesMut, O>,
    O: CarriedBy<Outgoing>,
{
    for _ in 0..rounds {
        assert_eq!(wire.turn(read()), answer);
    }
}

// ---- pipelines ----

fn echo<P: Segment<BytesMut, Bytes>>(pipeline: P, rounds: usize) {
    turns(Wire::new(pipeline), rounds, || &[7; 64], 64);
}

fn idle(watched: bool, carried: bool, rounds: usize) {
    let watch = || pipeline().filter(Idle::all(Duration::from_secs(30)).closing());
    let echo = |cx: &mut Context<'_, _>, bytes: BytesMut| cx.write_and_flush(bytes);
    match (watched, carried) {
        (true, false) => turns(Wire::new(watch().handle(echo).into_segment()), rounds, || &[7; 64], 64),
        (false, false) => turns(Wire::new(pipeline().handle(echo).into_segment()), rounds, || &[7; 64], 64),
        (true, true) => turns(Wire::new(watch().app(Echo).into_segment()), rounds, || &[7; 64], 64),
        (false, true) => turns(Wire::new(pipeline().app(Echo).into_segment()), rounds, || &[7; 64], 64),
    }
}

/// Sees everything and keeps nothing.
struct Looks;

impl Observer for Looks {
    type Read = BytesMut;
    type Write = Outgoing;
}

fn embedded(rounds: usize) {
    let mut channel = EmbeddedChannel::<BytesMut, _>::with_joint(pipeline().add(Pass).app(Echo));
    for _ in 0..rounds {
        channel.write_inbound([7; 64]);
        assert_eq!(channel.read_outbound().map(|bytes| bytes.len()), Some(64));
    }
}

// ---- loops ----

fn timer_cancelled(manual: &mut ManualLoop, rounds: usize) {
    manual.enter(|| {
        let (here, mut dice) = (LocalLoop::current().expect("entered"), Dice::new(7));
        let mut arm = || {
            let delay = Duration::from_millis(1 + dice.below(DELAY_MS_MAX));
            here.schedule(delay, || ()).expect("open")
        };
        let pending: Vec<_> = (0..PENDING).map(|_| arm()).collect();
        for _ in 0..rounds {
            assert!(black_box(arm()).cancel());
        }
        drop(pending);
    });
}

fn timer_fired(manual: &mut ManualLoop, rounds: usize) {
    manual.enter(|| {
        let (here, mut dice) = (LocalLoop::current().expect("entered"), Dice::new(7));
        for _ in 0..rounds {
            let delay = Duration::from_millis(1 + dice.below(DELAY_MS_MAX));
            drop(here.schedule(delay, || ()).expect("open"));
        }
    });
    manual.clock().expect("moved by hand").advance(Duration::from_millis(DELAY_MS_MAX + 1));
    manual.run_until_idle();
}

/// What a task captures: something to own.
fn task(number: usize) -> impl FnOnce() + Send + 'static {
    move || {
        black_box(number);
    }
}

fn tasks_of_own_thread(manual: &mut ManualLoop, rounds: usize) {
    let here = manual.handle().clone();
    for round in 0..rounds {
        manual.enter(|| (0..TASKS).for_each(|number| here.execute(task(round + number)).expect("open")));
        manual.run_until_idle();
    }
}

fn tasks_of_other_thread(manual: &mut ManualLoop, rounds: usize) {
    for round in 0..rounds {
        // Outside of `enter` this thread is any other thread.
        (0..TASKS).for_each(|number| manual.handle().execute(task(round + number)).expect("open"));
        manual.run_until_idle();
    }
}

// ---- codecs ----

struct Discard;

impl Application for Discard {
    type Read = Bytes;
    type Write = Bytes;
    fn read(&mut self, _: &mut AppContext<'_, Self>, line: Bytes) {
        black_box(line.len());
    }
}

/// Replies end here, so that a request is all that the codec has to do with; or pass.
struct Replies {
    pass: bool,
}

impl Handler for Replies {
    type Read = RequestPart;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = ReplyPart;

    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        cx.fire_read(part);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart, done: WritePromise) {
        if self.pass {
            return cx.write_with(part, done);
        }
        if let HttpPart::Whole(head, _) = part {
            head.recycle();
        }
    }
}

fn http(heads_differ: bool, replies: bool, rounds: usize) {
    // Without replies all requests wait for theirs.
    let mut limits = HttpLimits::default();
    limits.in_flight = usize::MAX;
    let hello = |_: &Received| {
        let mut reply = Response::new(Bytes::from_static(b"Hello, World!"));
        *reply.headers_mut() = header_map();
        reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        reply
    };
    let codec = pipeline().add(HttpServer::with(limits)).add(Replies { pass: replies });
    let mut wire = Wire::new(codec.app(respond(hello)).into_segment());
    let heads = |first: usize| -> String {
        let heads = (first..first + BATCH).map(|number| match heads_differ {
            true => HEAD.replace("host-10", &format!("host-{number}")),
            false => HEAD.to_owned(),
        });
        heads.collect()
    };
    let read = heads(10);
    let answer = wire.turn(read.as_bytes());
    assert_eq!(answer > 0, replies);
    turns(wire, rounds, || read.as_bytes(), answer);
}

/// A connection of HTTP/2 as a client begins it, whose first request puts its fields into the table. Each read has that many requests, which
/// are indices, but for a path that differs if that is asked for.
fn http2(heads_differ: bool, rounds: usize) {
    let hello = |_: &Received| {
        let mut reply = Response::new(Bytes::from_static(b"Hello, World!"));
        *reply.headers_mut() = header_map();
        reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        reply
    };
    let server = http2_server(move || pipeline().app(respond(hello)));
    let mut wire = Wire::new(pipeline().last(server).into_segment());
    let text = |index: u8, text: &str| [&[0x40 | index, text.len() as u8], text.as_bytes()].concat();
    let first = [
        vec![0x82, 0x86, 0x84],
        text(1, "example.org"),
        text(58, "Mozilla/5.0 (X11; Linux x86_64)"),
        text(19, "text/html,application/xhtml+xml,*/*;q=0.8"),
    ];
    let head = |stream: u32, block: &[u8]| {
        let [_, a, b, c] = (block.len() as u32).to_be_bytes();
        [&[a, b, c, 1, 5][..], &stream.to_be_bytes(), block].concat()
    };
    let preface = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(),
        &[0, 0, 0, 4, 0, 0, 0, 0, 0],
        &[0, 0, 0, 4, 1, 0, 0, 0, 0],
    ];
    wire.turn(&preface.concat());
    assert!(wire.turn(&head(1, &first.concat())) > 0);
    wire.turn(&[0, 0, 4, 8, 0, 0, 0, 0, 0, 0x40, 0, 0, 0]); // credit for all replies
    let (mut read, mut places) = (Vec::new(), Vec::new());
    for number in 0..STREAMS as u8 {
        let path = [0x04, 3, b'/', b'a' + number % 16, b'a' + number / 16];
        let path = if heads_differ { &path[..] } else { &[0x84] };
        places.push(read.len() + 5);
        read.extend_from_slice(&head(0, &[&[0x82, 0x86], path, &[0xc0, 0xbf, 0xbe]].concat()));
    }
    let mut stream = 3u32;
    let mut turn = || {
        for place in &places {
            read[*place..place + 4].copy_from_slice(&stream.to_be_bytes());
            stream += 2;
        }
        wire.turn(&read)
    };
    turn(); // what is remembered is remembered from here on
    let answer = turn();
    for _ in 0..rounds {
        assert_eq!(turn(), answer);
    }
}

struct EchoMessages {
    echoed: bool,
}

impl Application for EchoMessages {
    type Read = Message;
    type Write = Message;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, message: Message) {
        if self.echoed {
            cx.write(message);
        }
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

fn web_socket(frames: usize, echoed: bool, rounds: usize) {
    let key = [0x12, 0x34, 0x56, 0x78];
    let head = FrameHead { fin: true, compressed: false, opcode: Opcode::Binary, len: 64, mask: Some(key) };
    let (mut frame, mut payload) = (Vec::new(), [7; 64]);
    head.write(&mut frame);
    mask(&mut payload, key);
    frame.extend_from_slice(&payload);
    let read = frame.repeat(frames);
    let stage = WebSocket::server(Config::default());
    let wire = Wire::new(pipeline().add(stage).app(EchoMessages { echoed }).into_segment());
    // Back without masks.
    turns(wire, rounds, || &read, if echoed { frames * (2 + 64) } else { 0 });
}
