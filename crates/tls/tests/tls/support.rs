//! Two ends and what carries bytes between them.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    CloseCause, Context, EmbeddedChannel, Event, Fault, Handler, HostSettings, Outgoing, SharedPromised,
    WritePromise, pipeline,
};
use netwright_tls::{Acceptor, Certificate, Connector, Handshake, Roots, Tls, TlsError, rustls};
use std::{cell::RefCell, rc::Rc, sync::OnceLock};

pub(crate) type Version = &'static [&'static rustls::SupportedProtocolVersion];

pub(crate) static TLS12: Version = &[&rustls::version::TLS12];
pub(crate) static TLS13: Version = &[&rustls::version::TLS13];
pub(crate) const VERSIONS: [Version; 2] = [TLS12, TLS13];

/// One certificate for all tests: making keys takes time.
pub(crate) fn certificate() -> &'static Certificate {
    static CERTIFICATE: OnceLock<Certificate> = OnceLock::new();
    CERTIFICATE.get_or_init(|| Certificate::self_signed(["localhost"]).unwrap())
}

pub(crate) fn acceptor() -> Acceptor {
    Acceptor::new(certificate()).unwrap()
}

pub(crate) fn connector() -> Connector {
    Connector::builder().roots(Roots::of(certificate()).unwrap()).build().unwrap()
}

pub(crate) fn of_version(version: Version) -> (Acceptor, Connector) {
    (
        Acceptor::builder().certificate(certificate()).versions(version).build().unwrap(),
        Connector::builder().roots(Roots::of(certificate()).unwrap()).versions(version).build().unwrap(),
    )
}

/// What happened behind the TLS stage.
#[derive(Clone, Default)]
pub(crate) struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    pub(crate) fn push(&self, line: impl Into<String>) {
        self.0.borrow_mut().push(line.into());
    }
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.borrow().clone()
    }
    pub(crate) fn has(&self, part: &str) -> bool {
        self.0.borrow().iter().any(|line| line.contains(part))
    }
    pub(crate) fn count(&self, part: &str) -> usize {
        self.0.borrow().iter().filter(|line| line.starts_with(part)).count()
    }
}

/// Looks on, and takes care of errors so that the TLS stage's own close shows.
pub(crate) struct Watch {
    log: Log,
    /// Errors end here.
    takes_errors: bool,
}

impl Handler for Watch {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.log.push("active");
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        self.log.push(format!("read {}", bytes.len()));
        cx.fire_read(bytes);
    }
    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        if event.get::<Handshake>().is_some() {
            self.log.push("handshake");
        }
        cx.fire_event(event);
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        self.log.push("input closed");
        cx.fire_input_closed();
    }
    fn error(&mut self, cx: &mut Context<'_, Self>, fault: Fault) {
        self.log.push(format!("error: {fault}"));
        if !self.takes_errors {
            cx.fire_error(fault);
        }
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.log.push(format!("inactive: {cause}"));
        cx.fire_inactive(cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: Outgoing, done: WritePromise) {
        cx.write_with(msg, done);
    }
}

/// One end: a TLS stage, an onlooker behind it, and the handshake's future.
pub(crate) struct End {
    pub(crate) channel: EmbeddedChannel<BytesMut, Outgoing>,
    pub(crate) log: Log,
    pub(crate) handshake: SharedPromised<Handshake, TlsError>,
}

impl End {
    pub(crate) fn new(tls: Tls) -> Self {
        Self::with(tls, HostSettings::default(), true)
    }

    pub(crate) fn with(mut tls: Tls, settings: HostSettings, takes_errors: bool) -> Self {
        let handshake = tls.handshake();
        let log = Log::default();
        let watch = Watch { log: log.clone(), takes_errors };
        let channel = EmbeddedChannel::with_settings(pipeline().add(tls).add(watch), settings);
        Self { channel, log, handshake }
    }

    pub(crate) fn send(&mut self, bytes: impl Into<Bytes>) {
        let bytes: Bytes = bytes.into();
        self.channel.write_outbound(bytes);
    }

    pub(crate) fn received(&mut self) -> Vec<u8> {
        std::iter::from_fn(|| self.channel.read_inbound()).flatten().collect()
    }

    pub(crate) fn agreed(&self) -> Handshake {
        self.handshake.peek().expect("the handshake is over").expect("the handshake is done")
    }

    #[allow(dead_code)]
    pub(crate) fn failure(&self) -> TlsError {
        self.handshake.peek().expect("the handshake is over").expect_err("the handshake has failed")
    }
}

/// A client and a server.
pub(crate) fn pair() -> (End, End) {
    pair_of(&acceptor(), &connector())
}

pub(crate) fn pair_of(acceptor: &Acceptor, connector: &Connector) -> (End, End) {
    (End::new(Tls::client(connector, "localhost").unwrap()), End::new(Tls::server(acceptor)))
}

/// Carries bytes to and fro until there are none, in pieces of at most `size`.
pub(crate) fn pump_in(client: &mut End, server: &mut End, size: usize) {
    loop {
        let (there, back) = (client.channel.outbound_bytes(), server.channel.outbound_bytes());
        if there.is_empty() && back.is_empty() {
            return;
        }
        for piece in there.chunks(size) {
            server.channel.write_inbound(piece);
        }
        for piece in back.chunks(size) {
            client.channel.write_inbound(piece);
        }
    }
}

pub(crate) fn pump(client: &mut End, server: &mut End) {
    pump_in(client, server, usize::MAX);
}

/// A client and a server that have shaken hands.
pub(crate) fn open_pair() -> (End, End) {
    let (mut client, mut server) = pair();
    pump(&mut client, &mut server);
    client.agreed();
    server.agreed();
    (client, server)
}
