//! What the tests share: a scripted application for datagrams, peers, and ways to wait.

use bytes::Bytes;
use netwright_core::{
    AppContext, Application, Channel, CloseCause, Envelope, Event, EventLoop, EventLoopGroup, Outgoing,
    pipeline,
};
use netwright_transport::{
    Datagram, Datagrams, DatagramsBuilder, PeerCredentials, PortUnreachable, Truncated, Undelivered,
    event_loops,
};
use std::{
    net::{SocketAddr, UdpSocket},
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

/// Longer than any healthy step of a test takes; only a failing test waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const ANY_PORT: &str = "127.0.0.1:0";

// ---- the scripted application ----

/// What happened to a channel, in order.
#[derive(Debug)]
pub(crate) enum Seen {
    Active,
    Read(Received),
    ReadComplete,
    Unreachable(PortUnreachable),
    #[allow(dead_code, reason = "shown if a test fails")]
    Undelivered(Undelivered),
    Truncated(Truncated),
    Inactive(CloseCause),
}

#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) from: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
    pub(crate) credentials: Option<PeerCredentials>,
}

pub(crate) type Cx<'a> = AppContext<'a, Probe>;

type Hook = Arc<dyn Fn(&mut Cx<'_>, &Datagram) + Send + Sync>;

/// Tells what it sees, and does on a read as it was told.
#[derive(Clone)]
pub(crate) struct Probe {
    seen: mpsc::Sender<Seen>,
    read: Hook,
}

pub(crate) struct Events(mpsc::Receiver<Seen>);

/// An application that only tells what it sees.
pub(crate) fn probe() -> (Probe, Events) {
    probe_with(|_, _| ())
}

pub(crate) fn probe_with(read: impl Fn(&mut Cx<'_>, &Datagram) + Send + Sync + 'static) -> (Probe, Events) {
    let (seen, events) = mpsc::channel();
    (Probe { seen, read: Arc::new(read) }, Events(events))
}

/// Sends everything back to where it came from.
pub(crate) fn echo() -> (Probe, Events) {
    probe_with(|cx, datagram| cx.write_and_flush(datagram.answer(Bytes::copy_from_slice(&datagram.bytes))))
}

impl Probe {
    fn tell(&self, seen: Seen) {
        let _ = self.seen.send(seen); // a test that is over does not listen
    }
}

impl Application for Probe {
    type Read = Datagram;
    type Write = Outgoing;

    fn active(&mut self, _: &mut Cx<'_>) {
        self.tell(Seen::Active);
    }
    fn read(&mut self, cx: &mut Cx<'_>, mut datagram: Datagram) {
        (self.read)(cx, &datagram);
        self.tell(Seen::Read(Received {
            from: datagram.from.to_string(),
            bytes: datagram.bytes.to_vec(),
            descriptors: std::mem::take(&mut datagram.descriptors),
            credentials: datagram.credentials,
        }));
    }
    fn read_complete(&mut self, _: &mut Cx<'_>) {
        self.tell(Seen::ReadComplete);
    }
    fn event(&mut self, _: &mut Cx<'_>, event: Event) {
        if let Some(unreachable) = event.get::<PortUnreachable>() {
            self.tell(Seen::Unreachable(unreachable.clone()));
        } else if let Some(undelivered) = event.get::<Undelivered>() {
            self.tell(Seen::Undelivered(undelivered.clone()));
        } else if let Some(truncated) = event.get::<Truncated>() {
            self.tell(Seen::Truncated(truncated.clone()));
        }
    }
    fn inactive(&mut self, _: &mut Cx<'_>, cause: CloseCause) {
        self.tell(Seen::Inactive(cause));
    }
}

impl Events {
    /// The next thing that happens but for `read complete`, which comes as often as batches do.
    #[track_caller]
    pub(crate) fn next(&self) -> Seen {
        loop {
            match self.0.recv_timeout(PATIENCE).expect("something happens to the channel") {
                Seen::ReadComplete => {}
                seen => return seen,
            }
        }
    }

    #[track_caller]
    pub(crate) fn active(&self) {
        match self.next() {
            Seen::Active => {}
            other => panic!("expected active, got {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn read(&self) -> Received {
        match self.next() {
            Seen::Read(received) => received,
            other => panic!("expected a datagram, got {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn inactive(&self) -> CloseCause {
        match self.next() {
            Seen::Inactive(cause) => cause,
            other => panic!("expected inactive, got {other:?}"),
        }
    }

    /// Nothing has happened that was not asked for. Settle the loop before.
    #[track_caller]
    pub(crate) fn nothing(&self) {
        while let Ok(seen) = self.0.try_recv() {
            assert!(matches!(seen, Seen::ReadComplete), "expected nothing, got {seen:?}");
        }
    }

    /// How many ports were told meanwhile to have no receiver, with nothing else.
    #[track_caller]
    pub(crate) fn unreachable(&self) -> usize {
        let told = self.0.try_iter().filter(|seen| !matches!(seen, Seen::ReadComplete));
        told.map(|seen| assert!(matches!(seen, Seen::Unreachable(_)), "{seen:?}")).count()
    }

    /// How often `read complete` has come meanwhile, with nothing else.
    pub(crate) fn completions(&self) -> usize {
        self.0.try_iter().filter(|seen| matches!(seen, Seen::ReadComplete)).count()
    }
}

// ---- channels ----

/// A channel, what holds its loop, and what it sees.
pub(crate) struct Running {
    pub(crate) channel: Channel<Outgoing>,
    pub(crate) events: Events,
    _datagrams: Box<dyn std::any::Any>,
    pub(crate) group: EventLoopGroup,
}

impl Running {
    pub(crate) fn addr(&self) -> SocketAddr {
        self.channel.local_addr().unwrap()
    }

    pub(crate) fn settle(&self) {
        settle(&self.group);
    }

    pub(crate) fn assert_quiet(&self) {
        assert_quiet(&self.group);
    }
}

pub(crate) fn builder() -> (DatagramsBuilder, EventLoopGroup) {
    let group = event_loops(1).unwrap();
    (Datagrams::builder().group(group.clone()), group)
}

/// Channels for one application.
pub(crate) fn datagrams(builder: DatagramsBuilder, probe: Probe) -> Datagrams {
    builder.pipeline(move || pipeline().app(probe.clone())).unwrap()
}

pub(crate) fn bind(application: (Probe, Events)) -> Running {
    bind_with(application, ANY_PORT, |builder| builder)
}

pub(crate) fn bind_with(
    (probe, events): (Probe, Events),
    address: &str,
    set_up: impl FnOnce(DatagramsBuilder) -> DatagramsBuilder,
) -> Running {
    let (builder, _) = builder();
    let datagrams = datagrams(set_up(builder), probe);
    let group = datagrams.group().clone();
    let channel = datagrams.bind(address).wait().unwrap();
    events.active();
    Running { channel, events, _datagrams: Box::new(datagrams), group }
}

pub(crate) fn connect(application: (Probe, Events), to: impl ToString) -> Running {
    connect_with(application, to, |builder| builder)
}

pub(crate) fn connect_with(
    (probe, events): (Probe, Events),
    to: impl ToString,
    set_up: impl FnOnce(DatagramsBuilder) -> DatagramsBuilder,
) -> Running {
    let (builder, _) = builder();
    let datagrams = datagrams(set_up(builder), probe);
    let group = datagrams.group().clone();
    let channel = datagrams.connect(to).wait().unwrap();
    events.active();
    Running { channel, events, _datagrams: Box::new(datagrams), group }
}

pub(crate) fn to(address: SocketAddr, bytes: &[u8]) -> Outgoing {
    Envelope::to(address, Bytes::copy_from_slice(bytes)).into()
}

// ---- peers ----

/// A blocking peer of the standard library, which does not wait for ever.
pub(crate) fn peer() -> UdpSocket {
    let socket = UdpSocket::bind(ANY_PORT).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[track_caller]
pub(crate) fn expect(socket: &UdpSocket, from: SocketAddr, expected: &[u8]) {
    let mut room = vec![0; 70_000];
    let (len, sender) = socket.recv_from(&mut room).unwrap();
    assert_eq!(sender, from);
    assert!(room[..len] == *expected, "{len} bytes came instead of {}, or others", expected.len());
}

/// A port where nobody receives: at an address of loopback that no other test uses.
pub(crate) fn dead_port() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let process = std::process::id().to_le_bytes();
    let address = [127, 128 | process[1], process[0], NEXT.fetch_add(1, Ordering::Relaxed)];
    SocketAddr::from((address, 40_009))
}

// ---- waiting ----

pub(crate) fn settle(group: &EventLoopGroup) {
    for _ in 0..3 {
        for event_loop in group {
            on_loop(&event_loop, || ());
        }
    }
}

pub(crate) fn on_loop<T: Send + 'static>(
    event_loop: &EventLoop,
    task: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, answer) = mpsc::channel();
    event_loop.execute(move || done.send(task()).unwrap()).unwrap();
    answer.recv_timeout(PATIENCE).expect("the loop takes a task")
}

/// A loop that sleeps turns for the timer and little else, however slow the machine is; one that spins turns thousands
/// of times.
pub(crate) fn assert_quiet(group: &EventLoopGroup) {
    for event_loop in group {
        let before = event_loop.figures().iterations;
        event_loop.schedule(Duration::from_millis(20), || ()).unwrap().wait().unwrap();
        let turns = event_loop.figures().iterations - before;
        assert!(turns <= 20, "{} turned {turns} times though nothing happened", event_loop.name());
    }
}

/// Waits until a port can be bound: on io_uring the kernel has a closed socket until its ring has let go of it, a moment later.
pub(crate) fn becomes_free(address: SocketAddr) {
    let begun = Instant::now();
    while let Err(error) = UdpSocket::bind(address) {
        assert!(begun.elapsed() < PATIENCE, "{address}: {error}");
        std::thread::yield_now();
    }
}
