//! Transports of one's own: schemes, and what becomes of servers and clients whose transport does as it likes.

#[allow(unused)]
mod support;

use bytes::{Bytes, BytesMut};
use netwright_core::{Address, CloseCause, EventLoopGroup, LocalLoop, Outbound, driver::Token, pipeline};
use netwright_transport::{
    BindError, Client, ConnectError, ListenEnd, Server, StreamOptions,
    open::{
        Acceptor, Arrival, Backlog, Connect, Connecting, Connection, Listen, Listener, Received, SchemeError,
        Stream, Transport, Wrote,
    },
};
use std::{
    future, io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use support::{Echo, Hold, Soon, script, settle, wait_until};

type Attends = fn(Token) -> io::Result<Box<dyn Acceptor>>;

/// What a transport does; everything else is refused.
#[derive(Default, Clone)]
struct Does {
    listens: Option<Attends>,
    connects: Option<fn() -> Connecting>,
    has_socket_options: bool,
}

impl Transport for Does {
    fn listen(&self, how: &Listen<'_>) -> io::Result<Arc<dyn Listener>> {
        let attends = self.listens.ok_or(io::ErrorKind::Unsupported)?;
        Ok(Arc::new(At { address: how.address.clone(), attends }))
    }
    fn connect(&self, _: &Connect<'_>) -> Connecting {
        self.connects.map_or_else(|| failing(io::ErrorKind::Unsupported), |connects| connects())
    }
    fn has_socket_options(&self) -> bool {
        self.has_socket_options
    }
}

fn failing(kind: io::ErrorKind) -> Connecting {
    Box::pin(future::ready(Err(kind.into())))
}

struct At {
    address: Address,
    attends: Attends,
}

impl Listener for At {
    fn address(&self) -> Address {
        self.address.clone()
    }
    fn attend(self: Arc<Self>, _: &LocalLoop, token: Token) -> io::Result<Box<dyn Acceptor>> {
        (self.attends)(token)
    }
}

/// Accepts by a function.
struct By<F>(F);

impl<F: FnMut() -> io::Result<Arrival> + 'static> Acceptor for By<F> {
    fn accept(&mut self) -> io::Result<Arrival> {
        (self.0)()
    }
}

/// A connection whose stream does this when it is read, and takes all that is sent.
struct Reads(fn() -> io::Result<Received>);

impl Connection for Reads {
    fn peer(&self) -> Address {
        Address::other("test", "peer").unwrap()
    }
    fn open(self: Box<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Stream>> {
        local.call(token);
        Ok(self)
    }
}

impl Stream for Reads {
    fn look(&mut self) -> netwright_core::driver::Ready {
        netwright_core::driver::Ready::READ
    }
    fn receive(&mut self) -> io::Result<Received> {
        (self.0)()
    }
    fn has_ended(&mut self) -> io::Result<bool> {
        Ok(false)
    }
    fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
        while let Some(bytes) = netwright_transport::open::next_bytes(outbound, "a test", 1024)? {
            outbound.advance(bytes.len());
        }
        Ok(Wrote::All)
    }
    fn shut_down_output(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn group() -> EventLoopGroup {
    EventLoopGroup::builder().loops(1).build().unwrap()
}

fn bind(does: Does, at: &str) -> Result<Server, BindError> {
    let builder = Server::builder().group(group()).scheme("test", does);
    builder.pipeline(|_| pipeline().app(Echo)).bind(at).soon()
}

fn connect(does: Does, to: &str) -> ConnectError {
    let client = Client::builder().group(group()).scheme("test", does);
    client.pipeline(|| pipeline().app(Echo)).unwrap().connect(to).soon().unwrap_err()
}

#[test]
fn an_unknown_scheme_is_refused_and_the_known_ones_are_named() {
    let known = "only by: local, tcp, test, unix";
    for to in ["vsock:2:5000", "pipe:x", "http://example.org", "localhost:http", "TEST:x", "a.b:c"] {
        let scheme = to.split(':').next().unwrap();
        let Err(BindError::Scheme(error)) = bind(Does::default(), to) else {
            // What cannot be a scheme is a host, which the resolver judges.
            assert_eq!(to, "TEST:x");
            continue;
        };
        assert!(
            matches!(&error, SchemeError::Unknown { scheme: unknown, .. } if unknown == scheme),
            "{error:?}"
        );
        assert!(error.to_string().ends_with(known), "{error}");
        assert!(matches!(connect(Does::default(), to), ConnectError::Scheme(same) if same == error));
    }
}

#[test]
fn hosts_that_look_like_schemes_are_hosts() {
    for to in ["test.invalid:80", "127.0.0.1:1", "[::1]:1", "::1", "abcd:ef01::1", "tcp:test:1"] {
        let error = connect(Does::default(), to);
        assert!(!matches!(error, ConnectError::Scheme(_)), "{to}: {error:?}");
    }
}

#[test]
fn a_scheme_that_is_none_or_built_in_or_there_twice_is_refused_before_anything_happens() {
    let client = |schemes: &[&str]| {
        let builder =
            schemes.iter().fold(Client::builder(), |builder, scheme| builder.scheme(scheme, Does::default()));
        builder.group(group()).pipeline(|| pipeline().app(Echo)).unwrap_err().to_string()
    };
    for scheme in ["local", "unix", "tcp"] {
        assert!(client(&[scheme]).contains("have addresses of their own kind"), "{}", client(&[scheme]));
    }
    assert!(client(&["No"]).contains("a scheme is a small letter"), "{}", client(&["No"]));
    assert_eq!(client(&["a", "b", "a"]), "two transports were given for the scheme \"a\"");
    let server = Server::builder().group(group()).scheme("", Does::default());
    let error = server.pipeline(|_| pipeline().app(Echo)).bind("local:never").soon().unwrap_err();
    assert!(matches!(error, BindError::Scheme(SchemeError::Invalid { .. })), "{error:?}");
}

#[test]
fn a_name_that_is_missing_is_told() {
    let error = bind(Does::default(), "test:").unwrap_err();
    assert!(matches!(&error, BindError::Scheme(SchemeError::Invalid { scheme, .. }) if scheme == "test"));
    assert_eq!(error.to_string(), "\"test:\" is no address: a name is missing behind the scheme");
}

#[test]
fn what_only_sockets_have_is_refused_unless_the_transport_sees_to_it() {
    let options = StreamOptions::new().nodelay(true);
    let bind = |does: Does| {
        let builder = Server::builder().group(group()).options(options.clone()).scheme("test", does);
        builder.pipeline(|_| pipeline().app(Echo)).bind("test:x").soon()
    };
    let listens: Option<Attends> = Some(|_| Ok(Box::new(By(|| Err(io::ErrorKind::WouldBlock.into())))));
    let refused = bind(Does { listens, ..Does::default() }).unwrap_err().to_string();
    assert!(refused.starts_with("cannot listen on test:x: such a connection has no socket"), "{refused}");
    bind(Does { listens, has_socket_options: true, ..Does::default() }).unwrap();
}

#[test]
fn errors_of_a_transport_are_those_of_bind_and_connect() {
    let refusing = Does { connects: Some(|| failing(io::ErrorKind::ConnectionRefused)), ..Does::default() };
    assert!(matches!(connect(refusing, "test:x"), ConnectError::Refused(at) if at.to_string() == "test:x"));
    assert!(matches!(connect(Does::default(), "test:x"), ConnectError::Io { .. }));
    assert!(matches!(bind(Does::default(), "test:x"), Err(BindError::Io { .. })));
    let cannot_attend = Does { listens: Some(|_| Err(io::ErrorKind::AddrInUse.into())), ..Does::default() };
    assert!(matches!(bind(cannot_attend, "test:x"), Err(BindError::InUse(_))));
}

#[test]
fn a_transport_that_panics_costs_what_was_asked_of_it() {
    let panics = Does {
        listens: Some(|_| panic!("on purpose")),
        connects: Some(|| panic!("on purpose")),
        has_socket_options: false,
    };
    let error = bind(panics.clone(), "test:x").unwrap_err().to_string();
    assert!(error.contains("the transport panicked: on purpose"), "{error}");
    let error = connect(panics, "test:x").to_string();
    assert!(error.contains("the transport panicked: on purpose"), "{error}");
    let later = Does { connects: Some(|| Box::pin(async { panic!("on purpose") })), ..Does::default() };
    let error = connect(later, "test:x").to_string();
    assert!(error.contains("the transport panicked: on purpose"), "{error}");
}

#[test]
fn an_acceptor_that_panics_ends_its_listener_and_the_server_says_so() {
    let panics = Does { listens: Some(|_| Ok(Box::new(By(|| panic!("on purpose"))))), ..Does::default() };
    let server = bind(panics, "test:x").unwrap();
    let end = server.closed().wait_timeout(support::PATIENCE).unwrap().unwrap();
    let ListenEnd::Failed { address, error } = end else { panic!("{end:?}") };
    assert_eq!(
        (address.to_string().as_str(), error.to_string().as_str()),
        ("test:x", "accepting panicked: on purpose")
    );
    let hosts = server.group().next();
    assert!(hosts.submit(|| 1).unwrap().wait().is_ok(), "its loop lives");
}

#[test]
fn a_backlog_that_was_closed_is_open_again_as_soon_as_a_loop_accepts() {
    let connection = || Reads(|| Err(io::ErrorKind::WouldBlock.into()));
    netwright_core::ManualLoop::new().enter(|| {
        let (local, backlog) = (LocalLoop::current().unwrap(), Backlog::new(1));
        backlog.close();
        assert!(backlog.is_closed() && backlog.push(connection()).is_err());
        let mut acceptor = backlog.attend(Arc::new(()), &local, Token::from_u64(0));
        assert!(!backlog.is_closed() && backlog.push(connection()).is_ok());
        assert!(backlog.push(connection()).is_err(), "no more than {} wait", backlog.max());
        assert!(acceptor.accept().is_ok());
    });
}

/// Accepts nobody, and panics when it is to come to rest.
struct Restless;

impl Acceptor for Restless {
    fn accept(&mut self) -> io::Result<Arrival> {
        Err(io::ErrorKind::WouldBlock.into())
    }
    fn settle(&mut self, _: bool) {
        panic!("on purpose")
    }
}

#[test]
fn an_acceptor_that_panics_when_it_comes_to_rest_ends_its_listener_too() {
    let server =
        bind(Does { listens: Some(|_| Ok(Box::new(Restless))), ..Does::default() }, "test:x").unwrap();
    let end = server.closed().wait_timeout(support::PATIENCE).unwrap().unwrap();
    let ListenEnd::Failed { error, .. } = end else { panic!("{end:?}") };
    assert_eq!(error.to_string(), "accepting panicked: on purpose");
}

#[test]
fn a_stream_that_panics_costs_its_channel_and_not_its_loop() {
    let (script, events) = script();
    let client = Client::builder().group(group()).pipeline(move || pipeline().app(script.probe())).unwrap();
    let channel = client.adopt(Reads(|| panic!("on purpose"))).soon().unwrap();
    events.active();
    let cause = events.end();
    assert!(matches!(&cause, CloseCause::Panicked(panic) if panic == "on purpose"), "{cause}");
    assert!(matches!(channel.closed().soon(), CloseCause::Panicked(_)));
    let late = channel.send(Bytes::from("late")).soon();
    assert!(late.is_err(), "{late:?}");
    let next = client.adopt(Reads(|| Ok(Received { bytes: BytesMut::new(), more: false }))).soon().unwrap();
    next.closed().soon();
}

#[test]
fn a_stream_that_cannot_send_and_is_always_interrupted_ends() {
    struct Interrupted;
    impl Connection for Interrupted {
        fn peer(&self) -> Address {
            Address::other("test", "peer").unwrap()
        }
        fn open(self: Box<Self>, _: &LocalLoop, _: Token) -> io::Result<Box<dyn Stream>> {
            Ok(self)
        }
    }
    impl Stream for Interrupted {
        fn receive(&mut self) -> io::Result<Received> {
            Err(io::ErrorKind::Interrupted.into())
        }
        fn has_ended(&mut self) -> io::Result<bool> {
            Ok(false)
        }
        fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
            match outbound.has_flushed() {
                true => Err(io::ErrorKind::BrokenPipe.into()),
                false => Ok(Wrote::All),
            }
        }
        fn shut_down_output(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (script, events) = script();
    let client = Client::builder().group(group()).pipeline(move || pipeline().app(script.probe())).unwrap();
    let channel = client.adopt(Interrupted).soon().unwrap();
    events.active();
    assert!(channel.send(Bytes::from("nobody")).soon().is_err());
    assert!(matches!(events.end(), CloseCause::Io(_)));
}

#[test]
fn what_was_sent_and_panics_as_it_is_dropped_ends_its_channel_with_that_panic() {
    struct Grudge;
    impl AsRef<[u8]> for Grudge {
        fn as_ref(&self) -> &[u8] {
            b"grudge"
        }
    }
    impl Drop for Grudge {
        fn drop(&mut self) {
            panic!("on purpose")
        }
    }
    let (script, events) = script();
    let client = Client::builder().group(group()).pipeline(move || pipeline().app(script.probe())).unwrap();
    let channel = client.adopt(Reads(|| Err(io::ErrorKind::WouldBlock.into()))).soon().unwrap();
    events.active();
    channel.write_and_flush(Bytes::from_owner(Grudge));
    let cause = events.end();
    assert!(matches!(&cause, CloseCause::Panicked(panic) if panic == "on purpose"), "{cause}");
}

#[test]
fn a_stream_that_always_has_more_leaves_others_their_turn() {
    let (script, events) = script();
    let client = Client::builder().group(group()).pipeline(move || pipeline().app(script.probe())).unwrap();
    let endless = Reads(|| Ok(Received { bytes: BytesMut::from("more"), more: true }));
    let channel = client.adopt(endless).soon().unwrap();
    events.active();
    settle(client.group().iter());
    channel.close().soon();
    assert!(matches!(events.skip_to_end(), CloseCause::Requested));
}

/// Counts those that are being opened.
static PENDING: AtomicUsize = AtomicUsize::new(0);

struct Pending;

impl Pending {
    fn new() -> Self {
        PENDING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        PENDING.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_connect_that_takes_too_long_or_is_cancelled_is_dropped() {
    let never = Does {
        connects: Some(|| {
            let pending = Pending::new();
            Box::pin(async move {
                future::pending::<()>().await;
                drop(pending);
                Err(io::ErrorKind::Other.into())
            })
        }),
        ..Does::default()
    };
    let builder = Client::builder().group(group()).scheme("test", never.clone());
    let client = builder.connect_timeout(Duration::from_millis(1)).pipeline(|| pipeline().app(Echo)).unwrap();
    let error = client.connect("test:x").soon().unwrap_err();
    assert_eq!(error.to_string(), "no answer from test:x within 1ms");
    wait_until(|| PENDING.load(Ordering::SeqCst) == 0, || "the attempt to be dropped".to_owned());

    let builder = Client::builder().group(group()).scheme("test", never);
    let client = builder.connect_timeout(Duration::ZERO).pipeline(|| pipeline().app(Echo)).unwrap();
    let mut connecting = client.connect("test:x");
    wait_until(|| PENDING.load(Ordering::SeqCst) == 1, || "the attempt to begin".to_owned());
    connecting.cancel();
    assert!(matches!(connecting.soon(), Err(ConnectError::Cancelled)));
    wait_until(|| PENDING.load(Ordering::SeqCst) == 0, || "the attempt to be dropped".to_owned());
}

#[test]
fn an_adoption_that_is_cancelled_drops_the_connection() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    impl Connection for Dropped {
        fn peer(&self) -> Address {
            Address::other("test", "dropped").unwrap()
        }
        fn open(self: Box<Self>, _: &LocalLoop, _: Token) -> io::Result<Box<dyn Stream>> {
            panic!("nobody wants it")
        }
    }
    let client = Client::builder().group(group()).pipeline(|| pipeline().app(Echo)).unwrap();
    let (hold, drops) = (Hold::new(&client.group().next()), Arc::default());
    let mut adopted = client.adopt(Dropped(Arc::clone(&drops)));
    adopted.cancel();
    drop(hold);
    assert!(matches!(adopted.soon(), Err(ConnectError::Cancelled)));
    wait_until(|| drops.load(Ordering::SeqCst) == 1, || "the connection to be dropped".to_owned());
}
