//! Subjects over sockets, whose loops have a clock that is moved by hand.
//!
//! A loop that waits does not see that the clock was moved, so each step gives it tasks; and since what a peer has sent over
//! loopback is there when the call returns, a loop that has run them has read it, too.

use crate::row::{Seen, Subject};
use bytes::{Bytes, BytesMut};
use netwright::{
    Backend, CloseCause, EventLoopGroup, Observer, Outgoing, Server, pipeline::IntoPipeline,
    testing::ManualClock,
};
use socket2::{Domain, Socket, Type};
use std::{
    fs::File,
    io::{Read, Write},
    net::TcpStream,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

/// How long something that needs no time may take on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// More than systems take for somebody who does not read.
pub(crate) fn much() -> Bytes {
    static MUCH: OnceLock<Bytes> = OnceLock::new();
    MUCH.get_or_init(|| Bytes::from(vec![b'!'; 16 << 20])).clone()
}

/// The same as a file that has no name.
pub(crate) fn large_file() -> File {
    let path = std::env::temp_dir().join(format!("netwright-deadlines-{}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(much().len() as u64).unwrap();
    file
}

#[track_caller]
pub(crate) fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !done() {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// A socket that keeps little of what it does not read, and no more with time.
pub(crate) fn narrow() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket
}

/// One loop, and its clock.
pub(crate) struct Loops {
    clock: ManualClock,
    pub(crate) group: EventLoopGroup,
}

impl Loops {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        // Polls end before the clock says so: that is no fault of the driver.
        let builder = Backend::Readiness.group().loops(1).rebuild_after(0).clock(clock.clone());
        Self { clock, group: builder.build().unwrap() }
    }

    /// The loop has taken some turns, each with a look at the clock and at what there is to read.
    pub(crate) fn settle(&self) {
        let event_loop = self.group.next();
        let enough = event_loop.figures().iterations + 6;
        while event_loop.figures().iterations < enough {
            event_loop.spawn(async {}).unwrap().wait().unwrap();
        }
    }

    /// The systems have moved what they move by themselves for a peer that does not read: nothing more arrives at it.
    pub(crate) fn rest(&self, peer: &TcpStream) {
        let (mut before, mut same) = (0, 0);
        let rested = wait_until(|| {
            self.settle();
            let waiting = peer.peek(&mut [0; 65_536]).unwrap();
            same = if waiting == before { same + 1 } else { 0 };
            before = waiting;
            same == 20
        });
        assert!(rested, "what is not read piles up");
    }

    /// In steps, as time passes: what looks at its peer now and then has to be given the time to.
    pub(crate) fn advance(&self, by: Duration) {
        let step = Duration::from_secs(1).max(by / 200);
        let mut left = by;
        while !left.is_zero() {
            let next = step.min(left);
            self.clock.advance(next);
            self.settle();
            left -= next;
        }
    }
}

/// What happened to a channel of ours, told by a stage next to the wire.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    state: Arc<Mutex<Watched>>,
}

#[derive(Default)]
struct Watched {
    active: bool,
    flushed: bool,
    cause: Option<CloseCause>,
}

pub(crate) struct Onlooker {
    watch: Watch,
}

impl Watch {
    pub(crate) fn onlooker(&self) -> Onlooker {
        Onlooker { watch: self.clone() }
    }
    pub(crate) fn is_active(&self) -> bool {
        self.state.lock().unwrap().active
    }
    pub(crate) fn has_flushed(&self) -> bool {
        self.state.lock().unwrap().flushed
    }
    pub(crate) fn cause(&self) -> Option<CloseCause> {
        self.state.lock().unwrap().cause.clone()
    }
}

impl Observer for Onlooker {
    type Read = BytesMut;
    type Write = Outgoing;
    fn sees_active(&mut self) {
        self.watch.state.lock().unwrap().active = true;
    }
    fn sees_flush(&mut self) {
        self.watch.state.lock().unwrap().flushed = true;
    }
    fn sees_inactive(&mut self, cause: &CloseCause) {
        self.watch.state.lock().unwrap().cause = Some(cause.clone());
    }
}

/// A server of ours, and a peer that reads only when it is told to.
struct Served {
    loops: Loops,
    server: Server,
    watch: Watch,
    peer: TcpStream,
}

/// A server whose peer has sent these bytes, and for whom something waits.
pub(crate) fn serving<F, P, T>(bytes: &[u8], make: F) -> Box<dyn Subject>
where
    F: Fn(&Watch) -> P + Send + Sync + 'static,
    P: IntoPipeline<T>,
    T: Send + 'static,
{
    serving_who(|mut peer| peer.write_all(bytes).unwrap(), make)
}

/// The same for a peer that has more to say before.
pub(crate) fn serving_who<F, P, T>(approach: impl FnOnce(&TcpStream), make: F) -> Box<dyn Subject>
where
    F: Fn(&Watch) -> P + Send + Sync + 'static,
    P: IntoPipeline<T>,
    T: Send + 'static,
{
    let served = serve(make);
    served.peer.set_read_timeout(Some(PATIENCE)).unwrap();
    approach(&served.peer);
    assert!(wait_until(|| served.watch.has_flushed()), "the server has something to say");
    served.loops.rest(&served.peer);
    served
}

/// A server that was asked to end, within ten seconds.
pub(crate) fn ending<F, P, T>(make: F) -> Box<dyn Subject>
where
    F: Fn(&Watch) -> P + Send + Sync + 'static,
    P: IntoPipeline<T>,
    T: Send + 'static,
{
    let served = serve(make);
    drop(served.server.drain(Duration::from_secs(10)));
    served.loops.settle();
    served
}

fn serve<F, P, T>(make: F) -> Box<Served>
where
    F: Fn(&Watch) -> P + Send + Sync + 'static,
    P: IntoPipeline<T>,
    T: Send + 'static,
{
    let (loops, watch) = (Loops::new(), Watch::default());
    let watched = watch.clone();
    let builder = Server::builder().group(loops.group.clone()).pipeline(move |_| make(&watched));
    let server = builder.bind("127.0.0.1:0").wait().unwrap();
    let peer = narrow();
    peer.connect(&server.local_addr().unwrap().into()).unwrap();
    let peer = TcpStream::from(peer);
    assert!(wait_until(|| watch.is_active()), "the connection is accepted");
    Box::new(Served { loops, server, watch, peer })
}

impl Subject for Served {
    fn send(&mut self, byte: u8) {
        let _ = self.peer.write_all(&[byte]); // it may be closed already
        self.loops.settle();
    }

    fn take(&mut self) {
        let _ = self.peer.read(&mut [0]);
        self.loops.settle();
    }

    fn advance(&mut self, by: Duration) {
        self.loops.advance(by);
    }

    fn seen(&mut self) -> Seen {
        self.loops.settle();
        Seen { cause: self.watch.cause(), ..Seen::default() }
    }

    fn is_gone(&mut self) -> bool {
        wait_until(|| self.server.figures().open == 0)
    }
}
