//! What an echoed message may allocate on its loop's thread: nothing, once everything has grown to its size.
//!
//! The counter is the loop's own, read by tasks that run on the loop before and after; such a task allocates on the thread
//! that submits it, and answers through an atomic. The client's allocations are on its own thread and do not count.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Context, Envelope, EventLoop, Handler, Observer, Outgoing, WritePromise,
    observe, pipeline,
};
use netwright_testkit::{CountingAllocator, allocations_so_far};
use netwright_transport::{Backend, Datagram, Datagrams, Server};
use std::{
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const MESSAGES: usize = 1000;
const SIZE: usize = 64;

/// Longer than any healthy step takes; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends everything back.
struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

/// Looks on.
struct Look;

impl Observer for Look {
    type Read = BytesMut;
    type Write = Outgoing;
}

/// Cuts what comes into pieces of sixteen bytes, and gives them out one by one.
#[derive(Default)]
struct Sixteen(BytesMut);

impl Handler for Sixteen {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;
    fn read(&mut self, _: &mut Context<'_, Self>, bytes: BytesMut) {
        self.0.unsplit(bytes);
    }
    fn pull(&mut self, _: &mut Context<'_, Self>) -> Option<BytesMut> {
        match self.0.len() {
            // The whole, so that no empty rest keeps the loop's buffer in use.
            16 => Some(std::mem::take(&mut self.0)),
            17.. => Some(self.0.split_to(16)),
            _ => None,
        }
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

/// How often the loop's thread has allocated so far. Asking for it allocates nothing there.
fn allocations_on(event_loop: &EventLoop) -> u64 {
    const NOT_YET: u64 = u64::MAX;
    let answer = Arc::new(AtomicU64::new(NOT_YET));
    let inner = answer.clone();
    event_loop.execute(move || inner.store(allocations_so_far(), Ordering::Release)).unwrap();
    let start = Instant::now();
    loop {
        match answer.load(Ordering::Acquire) {
            NOT_YET => {
                assert!(start.elapsed() < PATIENCE, "the loop runs no task");
                std::thread::yield_now();
            }
            count => return count,
        }
    }
}

/// Sends `messages` of [`SIZE`] bytes, always `depth` of them on their way, and checks what comes back.
fn echo(stream: &mut TcpStream, messages: usize, depth: usize) {
    let (sent, mut back) = (vec![7; SIZE * depth], vec![0; SIZE * depth]);
    for _ in 0..messages.div_ceil(depth) {
        stream.write_all(&sent).unwrap();
        back.fill(0);
        stream.read_exact(&mut back).unwrap();
        assert!(back == sent);
    }
}

/// What the loop's thread allocates for [`MESSAGES`] messages over one connection to this server.
fn allocated_by(server: &Server, depth: usize) -> u64 {
    let event_loop = server.group().iter().next().unwrap().clone();
    let mut stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    echo(&mut stream, 200, depth); // what grows once has grown after this
    let before = allocations_on(&event_loop);
    echo(&mut stream, MESSAGES, depth);
    allocations_on(&event_loop) - before
}

#[test]
fn an_echoed_message_allocates_nothing_on_its_loop() {
    let server = Server::builder()
        .group(Backend::Readiness.event_loops(1).unwrap())
        .pipeline(|_| pipeline().app(Echo));
    let server = server.bind("127.0.0.1:0").wait().unwrap();
    for depth in [1, 16] {
        assert_eq!(allocated_by(&server, depth), 0, "{depth} on their way at once");
    }
}

#[test]
fn a_message_through_several_stages_allocates_nothing_on_its_loop() {
    let server = Server::builder().group(Backend::Readiness.event_loops(1).unwrap()).pipeline(|_| {
        pipeline().add(observe(Look)).add(Some(observe(Look))).add(Sixteen::default()).app(Echo)
    });
    let server = server.bind("127.0.0.1:0").wait().unwrap();
    for depth in [1, 16] {
        assert_eq!(allocated_by(&server, depth), 0, "{depth} on their way at once");
    }
}

/// Sends every datagram back.
struct EchoDatagrams;

impl Application for EchoDatagrams {
    type Read = Datagram;
    type Write = Envelope;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
        cx.write(datagram.into_answer());
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

/// Sends `messages` datagrams, always `depth` of them on their way.
fn echo_datagrams(socket: &UdpSocket, messages: usize, depth: usize) {
    let (sent, mut back) = ([7; SIZE], [0; SIZE]);
    for _ in 0..messages.div_ceil(depth) {
        (0..depth).for_each(|_| assert_eq!(socket.send(&sent).unwrap(), SIZE));
        (0..depth).for_each(|_| assert_eq!(socket.recv(&mut back).unwrap(), SIZE));
        assert!(back == sent);
    }
}

#[test]
fn an_echoed_datagram_allocates_nothing_on_its_loop() {
    let datagrams = Datagrams::builder().pipeline(|| pipeline().app(EchoDatagrams)).unwrap();
    let channel = datagrams.bind("127.0.0.1:0").wait().unwrap();
    let event_loop = datagrams.group().iter().next().unwrap().clone();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(channel.local_addr().unwrap()).unwrap();
    // What grows once has grown after this: so many that wait make the largest batch that there is, twice.
    let hold = hold(&event_loop);
    (0..200).for_each(|_| assert_eq!(socket.send(&[7; SIZE]).unwrap(), SIZE));
    drop(hold);
    (0..200).for_each(|_| assert_eq!(socket.recv(&mut [0; SIZE]).unwrap(), SIZE));
    for depth in [1, 16, 64] {
        echo_datagrams(&socket, 200, depth);
        let before = allocations_on(&event_loop);
        echo_datagrams(&socket, MESSAGES, depth);
        assert_eq!(allocations_on(&event_loop) - before, 0, "{depth} on their way at once");
    }
}

/// Stops the loop until what is returned is dropped.
fn hold(event_loop: &EventLoop) -> std::sync::mpsc::Sender<()> {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (begun, beginning) = std::sync::mpsc::channel();
    let task = move || {
        begun.send(()).unwrap();
        let _ = released.recv_timeout(PATIENCE);
    };
    event_loop.execute(task).unwrap();
    beginning.recv_timeout(PATIENCE).unwrap();
    release
}

#[test]
fn the_counter_would_see_one_allocation_for_each_message() {
    let server = Server::builder().group(Backend::Readiness.event_loops(1).unwrap()).pipeline(|_| {
        pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(Bytes::copy_from_slice(&bytes)))
    });
    let server = server.bind("127.0.0.1:0").wait().unwrap();
    let counted = allocated_by(&server, 1);
    assert!(counted >= MESSAGES as u64, "{counted}");
}
