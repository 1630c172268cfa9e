//! What the socket tests share: servers of every model, a scripted application, peers, and ways to wait.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Channel, CloseCause, EventLoop, EventLoopGroup, Fault, Segment, StageTimer,
    pipeline,
};
use netwright_transport::{Client, ClientBuilder, Server, ServerBuilder, event_loops};
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    fmt,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// Longer than any healthy step of a test takes; only a failing test waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const ANY_PORT: &str = "127.0.0.1:0";

// ---- the models ----

/// How loops share the work of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Model {
    OneLoop,
    OneAcceptor,
    TwoAcceptors,
    SharedPort,
}

impl Model {
    /// What `for_each_model` calls the test of this model.
    pub(crate) fn test_name(self) -> &'static str {
        match self {
            Self::OneLoop => "one_loop",
            Self::OneAcceptor => "one_acceptor_two_workers",
            Self::TwoAcceptors => "two_acceptors_two_workers",
            Self::SharedPort => "shared_port_two_workers",
        }
    }

    /// A server of this model.
    pub(crate) fn builder(self) -> (ServerBuilder, Loops) {
        let workers = group(if self == Self::OneLoop { 1 } else { 2 });
        let acceptors = match self {
            Self::OneLoop | Self::SharedPort => None,
            Self::OneAcceptor => Some(group(1)),
            Self::TwoAcceptors => Some(group(2)),
        };
        let mut builder = Server::builder().group(workers.clone()).shared_port(self == Self::SharedPort);
        if let Some(acceptors) = &acceptors {
            builder = builder.acceptors(acceptors.clone());
        }
        (builder, Loops { acceptors: acceptors.unwrap_or_else(|| workers.clone()), workers })
    }

    /// Has every connection run this script.
    pub(crate) fn serve(self, script: Script) -> Running {
        self.serve_with(script, |builder| builder)
    }

    pub(crate) fn serve_with(
        self,
        script: Script,
        set_up: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Running {
        let (builder, loops) = self.builder();
        let bound = set_up(builder).pipeline(move |_| pipeline().app(script.probe())).bind(ANY_PORT).soon();
        Running { server: bound.unwrap(), loops }
    }

    /// A server that sends everything back.
    pub(crate) fn echo(self) -> Running {
        let (builder, loops) = self.builder();
        let server = builder.pipeline(|_| pipeline().app(Echo)).bind(ANY_PORT).soon().unwrap();
        Running { server, loops }
    }
}

fn group(loops: usize) -> EventLoopGroup {
    event_loops(loops).unwrap()
}

/// Makes one test for each model of a function that takes a [`Model`].
macro_rules! for_each_model {
    ($($name:ident),+ $(,)?) => { $(
        mod $name {
            use crate::support::Model;

            #[test]
            fn one_loop() {
                super::$name(Model::OneLoop);
            }

            #[test]
            fn one_acceptor_two_workers() {
                super::$name(Model::OneAcceptor);
            }

            #[test]
            fn two_acceptors_two_workers() {
                super::$name(Model::TwoAcceptors);
            }

            #[test]
            fn shared_port_two_workers() {
                super::$name(Model::SharedPort);
            }
        }
    )+ };
}

pub(crate) use for_each_model;

/// The loops of a server; where no loop only accepts, both groups are the same.
pub(crate) struct Loops {
    pub(crate) acceptors: EventLoopGroup,
    pub(crate) workers: EventLoopGroup,
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) loops: Loops,
}

impl Running {
    pub(crate) fn addr(&self) -> SocketAddr {
        self.server.local_addr().unwrap()
    }

    pub(crate) fn dial(&self) -> TcpStream {
        dial(self.addr())
    }

    /// Lets every loop take a few turns: what was going to happen by itself has happened then.
    pub(crate) fn settle(&self) {
        settle(self.loops.all());
    }

    /// Stops the loops until the guard is dropped.
    pub(crate) fn hold(&self) -> Vec<Hold> {
        self.loops.all().map(Hold::new).collect()
    }

    /// Fails if a loop turns although nothing happens.
    pub(crate) fn assert_quiet(&self) {
        assert_quiet(self.loops.all());
    }

    /// Waits until so many connections are open.
    pub(crate) fn wait_for_open(&self, open: usize) {
        wait_until(
            || self.server.figures().open == open,
            || format!("{open} open: {:?}", self.server.figures()),
        );
    }
}

impl Loops {
    pub(crate) fn all(&self) -> impl Iterator<Item = &EventLoop> {
        let only_workers =
            self.workers.iter().filter(|worker| !self.acceptors.iter().any(|loop_| loop_ == *worker));
        self.acceptors.iter().chain(only_workers)
    }
}

/// Blocks a loop for as long as it lives.
pub(crate) struct Hold {
    _release: mpsc::Sender<()>,
}

impl Hold {
    pub(crate) fn new(event_loop: &EventLoop) -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (begun, beginning) = mpsc::channel();
        let task = move || {
            begun.send(()).unwrap();
            let _ = released.recv_timeout(PATIENCE);
        };
        event_loop.execute(task).unwrap();
        beginning.recv_timeout(PATIENCE).expect("the loop takes a task");
        Self { _release: release }
    }
}

pub(crate) fn settle<'a>(loops: impl Iterator<Item = &'a EventLoop>) {
    let loops: Vec<_> = loops.collect();
    for _ in 0..3 {
        for event_loop in &loops {
            let (done, answer) = mpsc::channel();
            event_loop.execute(move || done.send(()).unwrap()).unwrap();
            answer.recv_timeout(PATIENCE).expect("the loop takes a task");
        }
    }
}

/// A loop that sleeps turns for the timer and little else, however slow the machine is; one that spins turns thousands
/// of times.
pub(crate) fn assert_quiet<'a>(loops: impl Iterator<Item = &'a EventLoop>) {
    for event_loop in loops {
        let before = event_loop.figures().iterations;
        event_loop.schedule(Duration::from_millis(20), || ()).unwrap().soon().unwrap();
        let turns = event_loop.figures().iterations - before;
        assert!(turns <= 20, "{} turned {turns} times though nothing happened", event_loop.name());
    }
}

/// Waits for a result, but not for ever.
pub(crate) trait Soon: Future + Unpin {
    #[track_caller]
    fn soon(&mut self) -> Self::Output;
}

impl<F: Future + Unpin> Soon for F {
    fn soon(&mut self) -> Self::Output {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let begun = Instant::now();
        loop {
            if let Poll::Ready(output) = Pin::new(&mut *self).poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            let left = PATIENCE.checked_sub(begun.elapsed()).expect("a result comes in time");
            thread::park_timeout(left);
        }
    }
}

/// For what another thread brings about and nothing announces.
pub(crate) fn wait_until(mut done: impl FnMut() -> bool, what: impl FnOnce() -> String) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {}", what());
        thread::yield_now();
    }
}

// ---- the scripted application ----

/// What happened to a channel, in order.
#[derive(Debug)]
pub(crate) enum Seen {
    Active(Channel<Bytes>),
    Read(Vec<u8>),
    ReadComplete,
    Writability(bool),
    InputClosed,
    Error(String),
    Inactive(CloseCause),
    Removed,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active(_) => f.write_str("active"),
            Self::Read(bytes) => write!(f, "read {} bytes", bytes.len()),
            Self::ReadComplete => f.write_str("read complete"),
            Self::Writability(writable) => write!(f, "writable: {writable}"),
            Self::InputClosed => f.write_str("input closed"),
            Self::Error(text) => write!(f, "error: {text}"),
            Self::Inactive(cause) => write!(f, "inactive: {cause}"),
            Self::Removed => f.write_str("removed"),
        }
    }
}

pub(crate) type Cx<'a> = AppContext<'a, Probe>;
type Hook<T> = Arc<dyn Fn(&mut Cx<'_>, T) + Send + Sync>;

fn nothing<T: 'static>() -> Hook<T> {
    Arc::new(|_, _| ())
}

/// What the channels of a server or a client do; every channel tells the same [`Events`].
#[derive(Clone)]
pub(crate) struct Script {
    seen: mpsc::Sender<Seen>,
    active: Hook<()>,
    read: Hook<BytesMut>,
    read_complete: Hook<()>,
    writability: Hook<bool>,
    input_closed: Hook<()>,
    inactive: Hook<()>,
    timer: Hook<StageTimer>,
    removed: Arc<dyn Fn() + Send + Sync>,
}

/// A script that only tells what it sees.
pub(crate) fn script() -> (Script, Events) {
    let (seen, events) = mpsc::channel();
    let script = Script {
        seen,
        active: nothing(),
        read: nothing(),
        read_complete: nothing(),
        writability: nothing(),
        input_closed: nothing(),
        inactive: nothing(),
        timer: nothing(),
        removed: Arc::new(|| ()),
    };
    (script, Events { seen: Mutex::new(events) })
}

macro_rules! hooks {
    ($($method:ident $field:ident $with:ty),+ $(,)?) => { $(
        pub(crate) fn $method(mut self, hook: impl Fn(&mut Cx<'_>, $with) + Send + Sync + 'static) -> Self {
            self.$field = Arc::new(hook);
            self
        }
    )+ };
}

impl Script {
    hooks! {
        on_active active (),
        on_read read BytesMut,
        on_read_complete read_complete (),
        on_writability writability bool,
        on_input_closed input_closed (),
        on_inactive inactive (),
        on_timer timer StageTimer,
    }

    pub(crate) fn on_removed(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.removed = Arc::new(hook);
        self
    }

    pub(crate) fn probe(&self) -> Probe {
        Probe(self.clone())
    }
}

/// An application that does as its script says.
pub(crate) struct Probe(Script);

impl Probe {
    fn tell(&self, seen: Seen) {
        let _ = self.0.seen.send(seen); // a test that is over does not listen
    }
}

impl Application for Probe {
    type Read = BytesMut;
    type Write = Bytes;

    fn active(&mut self, cx: &mut Cx<'_>) {
        self.tell(Seen::Active(cx.channel()));
        (self.0.active)(cx, ());
    }
    fn read(&mut self, cx: &mut Cx<'_>, bytes: BytesMut) {
        self.tell(Seen::Read(bytes.to_vec()));
        (self.0.read)(cx, bytes);
    }
    fn read_complete(&mut self, cx: &mut Cx<'_>) {
        self.tell(Seen::ReadComplete);
        (self.0.read_complete)(cx, ());
    }
    fn writability(&mut self, cx: &mut Cx<'_>, writable: bool) {
        self.tell(Seen::Writability(writable));
        (self.0.writability)(cx, writable);
    }
    fn input_closed(&mut self, cx: &mut Cx<'_>) {
        self.tell(Seen::InputClosed);
        (self.0.input_closed)(cx, ());
    }
    fn error(&mut self, cx: &mut Cx<'_>, fault: Fault) {
        self.tell(Seen::Error(fault.to_string()));
        cx.fire_error(fault);
    }
    fn inactive(&mut self, cx: &mut Cx<'_>, cause: CloseCause) {
        self.tell(Seen::Inactive(cause));
        (self.0.inactive)(cx, ());
    }
    fn timer(&mut self, cx: &mut Cx<'_>, timer: StageTimer) {
        (self.0.timer)(cx, timer);
    }
    fn removed(&mut self) {
        self.tell(Seen::Removed);
        (self.0.removed)();
    }
}

/// What the channels of a script have seen.
pub(crate) struct Events {
    seen: Mutex<mpsc::Receiver<Seen>>,
}

impl Events {
    /// The next thing that happens, `read complete` included.
    #[track_caller]
    pub(crate) fn next_of_all(&self) -> Seen {
        self.seen.lock().unwrap().recv_timeout(PATIENCE).expect("something happens to the channel")
    }

    /// The next thing that happens but for `read complete`, which comes as often as the system likes.
    #[track_caller]
    pub(crate) fn next(&self) -> Seen {
        loop {
            match self.next_of_all() {
                Seen::ReadComplete => {}
                seen => return seen,
            }
        }
    }

    /// What has happened and was not asked for yet.
    pub(crate) fn try_next(&self) -> Option<Seen> {
        self.seen.lock().unwrap().try_recv().ok()
    }

    #[track_caller]
    pub(crate) fn active(&self) -> Channel<Bytes> {
        match self.next() {
            Seen::Active(channel) => channel,
            other => panic!("expected active, got {other}"),
        }
    }

    /// Bytes, in however many pieces.
    #[track_caller]
    pub(crate) fn read(&self, expected: &[u8]) {
        let mut got = Vec::new();
        while got.len() < expected.len() {
            match self.next() {
                Seen::Read(bytes) => got.extend(bytes),
                Seen::Writability(_) => {} // large messages make them
                other => panic!("expected {} bytes, got {} and then {other}", expected.len(), got.len()),
            }
        }
        assert!(got == expected, "{} bytes came, as many as expected, but others", got.len());
    }

    #[track_caller]
    pub(crate) fn input_closed(&self) {
        match self.next() {
            Seen::InputClosed => {}
            other => panic!("expected the end of input, got {other}"),
        }
    }

    #[track_caller]
    pub(crate) fn inactive(&self) -> CloseCause {
        match self.next() {
            Seen::Inactive(cause) => cause,
            other => panic!("expected inactive, got {other}"),
        }
    }

    /// The end: `inactive`, then `removed`.
    #[track_caller]
    pub(crate) fn end(&self) -> CloseCause {
        let cause = self.inactive();
        match self.next() {
            Seen::Removed => cause,
            other => panic!("expected removed, got {other}"),
        }
    }

    /// Skips all that comes before the end.
    #[track_caller]
    pub(crate) fn skip_to_end(&self) -> CloseCause {
        loop {
            if let Seen::Inactive(cause) = self.next() {
                match self.next() {
                    Seen::Removed => return cause,
                    other => panic!("expected removed, got {other}"),
                }
            }
        }
    }

    /// Nothing has happened that was not asked for. Settle the loops before.
    #[track_caller]
    pub(crate) fn nothing(&self) {
        loop {
            match self.seen.lock().unwrap().try_recv() {
                Ok(Seen::ReadComplete) => {}
                Ok(seen) => panic!("expected nothing, got {seen}"),
                Err(_) => return,
            }
        }
    }
}

/// Sends everything back: written as it is read, flushed when all is read.
pub(crate) struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

// ---- peers ----

/// A blocking peer of the standard library, which does not wait for ever.
pub(crate) fn dial(addr: SocketAddr) -> TcpStream {
    patient(TcpStream::connect(addr).unwrap())
}

pub(crate) fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A peer for which the system holds little, so that it does not take long to fill.
pub(crate) fn dial_narrow(addr: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    socket.connect(&addr.into()).unwrap();
    patient(socket.into())
}

/// Ends a connection with a reset.
pub(crate) fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// Sends a message to an echo and expects it back.
#[track_caller]
pub(crate) fn round_trip(stream: &mut TcpStream, message: &[u8]) {
    stream.write_all(message).unwrap();
    expect(stream, message);
}

#[track_caller]
pub(crate) fn expect(stream: &mut TcpStream, expected: &[u8]) {
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).unwrap();
    assert!(got == expected, "{} bytes came, as many as expected, but others", got.len());
}

/// The peer has closed in order, with nothing left to read.
#[track_caller]
pub(crate) fn expect_end(stream: &mut TcpStream) {
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "expected the end of the stream");
}

/// A client whose channels run a script.
pub(crate) fn client(script: Script) -> Client<impl Segment<BytesMut, Bytes, Tail = Bytes>, Bytes> {
    client_with(script, |builder| builder)
}

pub(crate) fn client_with(
    script: Script,
    set_up: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Client<impl Segment<BytesMut, Bytes, Tail = Bytes>, Bytes> {
    set_up(Client::builder()).pipeline(move || pipeline().app(script.probe())).unwrap()
}

/// An address where a connect is neither answered nor refused: the queue of a listener that nobody serves is full, and
/// the system lets further attempts wait.
pub(crate) struct Unanswering {
    listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl Unanswering {
    pub(crate) fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(1).unwrap();
        let listener = TcpListener::from(socket);
        let addr = listener.local_addr().unwrap();
        // Linux lets one more wait than asked for.
        let waiting = (0..2).map(|_| TcpStream::connect(addr).unwrap()).collect();
        Self { listener, _waiting: waiting }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }
}

/// An address that refuses: bound, so that nobody else takes it, and not listening.
pub(crate) struct Refusing(Socket);

impl Refusing {
    pub(crate) fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }
}

// ---- chance ----

/// Random numbers (SplitMix64). The seed is printed if the test fails; `NETWRIGHT_SEED` repeats it.
pub(crate) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    pub(crate) fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let given = std::env::var("NETWRIGHT_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        Self { seed, state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `bound`, without it.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(len).collect()
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the test failed with NETWRIGHT_SEED={}", self.seed);
        }
    }
}

/// Bytes that tell where they belong: the position, in a pattern that no buffer size divides.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(pattern_at).collect()
}

pub(crate) fn pattern_at(position: usize) -> u8 {
    (position % 251) as u8 ^ (position / 65_521) as u8
}

// ---- a process of one's own ----

/// Whether this process was started by [`in_own_process`] for this test.
const CHILD: &str = "NETWRIGHT_SOCKET_TEST_CHILD";

/// Runs `body` in a process where nothing else runs: for what counts or limits the descriptors of a process. `test` is
/// the full name of the test that calls it.
pub(crate) fn in_own_process(test: &str, body: impl FnOnce()) {
    if is_child() {
        return body();
    }
    let output = child(test).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "no such test: {test}");
}

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// This test binary again, for one test.
pub(crate) fn child(test: &str) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    command
}

/// Waits until this process has so many sockets open.
pub(crate) fn wait_for_sockets(open: usize) {
    wait_until(|| open_sockets() == open, || format!("{open} sockets, there are {}", open_sockets()));
}

/// How many descriptors of this process are sockets.
pub(crate) fn open_sockets() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let is_socket = |path: std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    descriptors.filter(|entry| entry.as_ref().is_ok_and(|entry| is_socket(entry.path()))).count()
}
