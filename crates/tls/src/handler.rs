//! TLS as a stage.
//!
//! ```text
//!   Idle ─ active ─▶ Hello ─ ClientHello ─▶ Resolving ─ certificate ─▶ Handshaking ◀─▶ Away (on a worker)
//!     │             (server)               (if that takes a future)        │ done: event, future, held writes leave
//!     └──── active (client) ──────────────────────────────────────────────▶│
//!                                                                          ▼
//!   Over ◀── close_notify, alert, error, deadline, end of the channel ─── Open
//! ```
//! Always true:
//! 1. Behind this stage nothing is read before the [`Handshake`] event, and nothing that was written is sent before it, but
//!    for the first message after [`start_tls`](Tls::start_tls).
//! 2. A record is decrypted when a message is asked for, but for one that came together with the end of the handshake.
//! 3. A connection fails once: one error, one alert if one can be sent, all that waits fails, the channel closes.
//! 4. What waits to be encrypted counts as pending bytes of the channel, but for the last few kilobytes.
//! 5. An idle connection has no buffer here.
//!
//! Not here: what rustls is fed with (`connection`), how records are put together (`inbox`).

use crate::{
    Acceptor, Connector, Handshake, Hello, Plain, Resolved, TlsError,
    acceptor::{Always, without_early_data},
    connection::{Connection, Driven, Progress, drive},
    hello::{looks_like_answer, looks_like_tls},
    inbox::Inbox,
    limits::Common,
    queue::{Entry, Queue},
    room::{GATHER_MAX, SEAL_MAX, with_gather, with_room},
};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    CloseCause, Context, ENTRY_OVERHEAD, Event, Fault, FileRegion, Handler, Leftover, Outgoing, Promise,
    SharedPromised, StageTimer, WriteError, WritePromise, promise,
};
use rustls::{
    AlertDescription, client::UnbufferedClientConnection, server::Acceptor as HelloReader,
    server::UnbufferedServerConnection,
};
use rustls_pki_types::ServerName;
use std::{fmt, marker::PhantomData, sync::Arc};

/// TLS: reads and writes bytes in clear on the application's side, and records on the wire's. `W` is what is written:
/// [`Bytes`], or [`Outgoing`] where files are sent, too.
///
/// `active` is passed on when the channel is connected, so that applications can write at once; what they write is sent when
/// the handshake is done. Who wants to know more waits for the [`Handshake`] event, or for the future that
/// [`handshake`](Self::handshake) gives.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_tls::{Acceptor, Certificate, Connector, Roots, Tls};
/// use bytes::Bytes;
///
/// let certificate = Certificate::self_signed(["localhost"])?;
/// let acceptor = Acceptor::new(&certificate)?;
/// let connector = Connector::builder().roots(Roots::of(&certificate)?).build()?;
///
/// let mut server = EmbeddedChannel::new(
///     pipeline().add(Tls::server(&acceptor)).handle(|cx, bytes| cx.write_and_flush(bytes.freeze())),
/// );
/// let mut client = EmbeddedChannel::new(pipeline().add(Tls::client(&connector, "localhost")?));
/// client.write_outbound(Bytes::from("hello")); // sent when the handshake is done
/// let answer = loop {
///     server.write_inbound(client.outbound_bytes());
///     client.write_inbound(server.outbound_bytes());
///     if let Some(answer) = client.read_inbound() {
///         break answer;
///     }
/// };
/// assert_eq!(answer, "hello");
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
pub struct Tls<W = Bytes> {
    phase: Phase,
    connection: Option<Box<Connection>>,
    inbox: Inbox,
    /// Decrypted together with the end of the handshake.
    ready: Option<BytesMut>,
    queue: Queue,
    /// What waits in the queue, in bytes, and how much of it the channel has been told of.
    kept: usize,
    told: usize,
    /// A batch is on its way, and what is left follows it.
    batch_under_way: bool,
    /// What is needed until the handshake is done.
    setup: Option<Box<Setup>>,
    half_closure: bool,
    /// The next message passes as it is.
    first_in_clear: bool,
    /// It has passed: a client's handshake begins behind it, with the flush.
    begins_at_flush: bool,
    /// We have said that we send no more.
    output_closed: bool,
    /// The peer has said so.
    input_closed: bool,
    /// Our output is to be shut down when everything that was flushed is encrypted.
    shutting_down: Option<WritePromise>,
    handshake_max: usize,
    writes: PhantomData<fn(W)>,
}

/// Plaintext that is encrypted at once. What is more waits until this is sent, so that a large file or message takes no
/// memory twice, and the loop's other connections have their turns.
const BATCH: usize = 256 * 1024;

/// Bytes that may wait here before the channel counts them as pending.
const UNTOLD_MAX: usize = 4 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Hello,
    Resolving,
    Handshaking,
    Away,
    Open,
    Over,
}

struct Setup {
    side: Side,
    common: Common,
    server_name: Option<String>,
    promise: Option<Promise<Handshake, TlsError>>,
    promised: Option<SharedPromised<Handshake, TlsError>>,
    deadline: Option<StageTimer>,
    reader: HelloReader,
    /// The peer's first bytes have been looked at.
    is_tls: bool,
    held: bool,
}

enum Side {
    Server(Acceptor),
    Client(Connector, ServerName<'static>),
}

impl<W: Plain> Tls<W> {
    /// The server's side of a connection.
    pub fn server(acceptor: &Acceptor) -> Self {
        Self::new(Side::Server(acceptor.clone()), &acceptor.0.common)
    }

    /// The client's side of a connection to the server of this name, or address.
    ///
    /// # Errors
    /// This is no name of a server.
    pub fn client(connector: &Connector, server_name: &str) -> Result<Self, TlsError> {
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| TlsError::ServerName(server_name.to_owned()))?;
        let mut tls = Self::new(Side::Client(connector.clone(), name), &connector.0.common);
        if let Some(setup) = &mut tls.setup {
            setup.server_name = Some(server_name.to_ascii_lowercase());
        }
        Ok(tls)
    }

    fn new(side: Side, common: &Common) -> Self {
        let setup = Setup {
            side,
            common: common.clone(),
            server_name: None,
            promise: None,
            promised: None,
            deadline: None,
            reader: HelloReader::default(),
            is_tls: false,
            held: false,
        };
        Self {
            phase: Phase::Idle,
            connection: None,
            inbox: Inbox::default(),
            ready: None,
            queue: Queue::default(),
            kept: 0,
            told: 0,
            batch_under_way: false,
            setup: Some(Box::new(setup)),
            half_closure: common.half_closure,
            first_in_clear: false,
            begins_at_flush: false,
            output_closed: false,
            input_closed: false,
            shutting_down: None,
            handshake_max: common.limits.handshake_max,
            writes: PhantomData,
        }
    }

    /// The first message that is written passes in clear: the answer to a `STARTTLS`, after which a server's connection goes
    /// on in TLS. To be put in place, by a joint, when that is asked for. A client puts a plain [`Tls`] in place when it
    /// has read the answer.
    #[must_use]
    pub fn start_tls(mut self) -> Self {
        self.first_in_clear = true;
        self
    }

    /// Resolves when the handshake is done, or when it has failed. To be asked before the stage is put into a pipeline.
    pub fn handshake(&mut self) -> SharedPromised<Handshake, TlsError> {
        let Some(setup) = &mut self.setup else {
            let (promise, promised) = promise();
            drop(promise);
            return promised.shared();
        };
        let Setup { promise: writer, promised, .. } = &mut **setup;
        promised
            .get_or_insert_with(|| {
                let (promise, reader) = promise();
                *writer = Some(promise);
                reader.shared()
            })
            .clone()
    }

    fn is_shaking_hands(&self) -> bool {
        matches!(self.phase, Phase::Hello | Phase::Resolving | Phase::Handshaking | Phase::Away)
    }

    // ---- the handshake ----

    fn begin(&mut self, cx: &mut Context<'_, Self>) {
        let Some(setup) = &mut self.setup else { return };
        if self.phase != Phase::Idle {
            return;
        }
        setup.deadline = Some(cx.arm(setup.common.limits.handshake_deadline));
        cx.insist();
        match &setup.side {
            Side::Server(_) => {
                self.phase = Phase::Hello;
                if !self.inbox.is_empty() {
                    self.shake_hands(cx, None);
                }
            }
            Side::Client(connector, name) => {
                self.phase = Phase::Handshaking;
                match UnbufferedClientConnection::new(connector.0.config.clone(), name.clone()) {
                    Ok(connection) => self.run_here(cx, Box::new(Connection::Client(connection))),
                    Err(error) => self.fail(cx, error.into()),
                }
            }
        }
    }

    /// More has come, `news` of it not seen by anybody.
    fn shake_hands(&mut self, cx: &mut Context<'_, Self>, news: Option<usize>) {
        let Some(setup) = &mut self.setup else { return };
        if !setup.is_tls {
            let looks = match setup.side {
                Side::Server(_) => looks_like_tls,
                Side::Client(..) => looks_like_answer,
            };
            let first = self.inbox.first();
            match looks(&first) {
                Some(true) => setup.is_tls = true,
                Some(false) => {
                    return self.refuse(cx, AlertDescription::UnexpectedMessage, TlsError::NotTls { first });
                }
                None => {} // what reads hellos can start nevertheless
            }
        }
        match self.phase {
            Phase::Hello => self.read_hello(cx, news),
            Phase::Handshaking => {
                if let Some(connection) = self.connection.take() {
                    self.run(cx, connection);
                }
            }
            _ => {}
        }
    }

    /// Reads the ClientHello on the side: who decides about certificates wants to know it, and rustls gets it afterwards.
    fn read_hello(&mut self, cx: &mut Context<'_, Self>, news: Option<usize>) {
        let Some(setup) = &mut self.setup else { return };
        let max = setup.common.limits.hello_max;
        let all = self.inbox.len();
        // Only one piece can be in the inbox before this one is, so what is new is at its end.
        let mut rest = self.inbox.tail(news.unwrap_or(all));
        let accepted = loop {
            match setup.reader.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) if rest.is_empty() && all <= max => return self.inbox.come_to_rest(),
                Ok(None) if all <= max && setup.reader.read_tls(&mut rest).is_ok() => {}
                Ok(None) => {
                    let error = TlsError::HandshakeTooLong { limit: "hello_max", max, got: all };
                    return self.refuse(cx, AlertDescription::DecodeError, error);
                }
                Err((error, mut alert)) => {
                    let mut out = Vec::new();
                    if alert.write_all(&mut out).is_ok() && !out.is_empty() {
                        cx.write(W::of(out.into()));
                        cx.flush();
                    }
                    return self.fail(cx, error.into());
                }
            }
        };
        let hello = Hello::of(&accepted.client_hello());
        drop(accepted);
        setup.reader = HelloReader::default();
        setup.server_name.clone_from(&hello.server_name);
        let Side::Server(acceptor) = &setup.side else { return };
        match &acceptor.0.resolver {
            None => self.accept(cx, Resolved::Default),
            Some(resolve) => {
                let answer = resolve(hello);
                self.phase = Phase::Resolving;
                setup.held = true;
                cx.hold();
                self.inbox.come_to_rest();
                cx.spawn(answer, |tls, cx, answer| {
                    if tls.phase == Phase::Resolving {
                        tls.let_go(cx);
                        match answer {
                            Ok(resolved) => tls.accept(cx, resolved),
                            Err(fault) => {
                                tls.refuse(cx, AlertDescription::UnrecognisedName, TlsError::Resolver(fault))
                            }
                        }
                    }
                });
            }
        }
    }

    /// It is known how this client is to be served.
    fn accept(&mut self, cx: &mut Context<'_, Self>, resolved: Resolved) {
        let Some(setup) = &mut self.setup else { return };
        let Side::Server(acceptor) = &setup.side else { return };
        let config = match resolved {
            Resolved::Default => acceptor.0.config.clone(),
            Resolved::Certificate(certificate) => {
                let mut config = rustls::ServerConfig::clone(&acceptor.0.config);
                config.cert_resolver = Arc::new(Always(certificate));
                Arc::new(config)
            }
            Resolved::Config(config) => without_early_data(config),
        };
        self.phase = Phase::Handshaking;
        match UnbufferedServerConnection::new(config) {
            Ok(connection) => self.run(cx, Box::new(Connection::Server(connection))),
            Err(error) => self.refuse(cx, AlertDescription::InternalError, error.into()),
        }
    }

    /// Takes the handshake on, here or on a worker.
    fn run(&mut self, cx: &mut Context<'_, Self>, connection: Box<Connection>) {
        let workers = self.setup.as_ref().and_then(|setup| setup.common.workers.clone());
        let Some(workers) = workers.filter(|_| self.inbox.has_news()) else {
            return self.run_here(cx, connection);
        };
        let inbox = std::mem::take(&mut self.inbox);
        self.phase = Phase::Away;
        if let Some(setup) = &mut self.setup {
            setup.held = true;
            cx.hold();
        }
        let submitted = workers.submit(move || drive(connection, inbox));
        let back = async move {
            match submitted {
                Ok(driven) => driven.await.map_err(|error| error.to_string()),
                Err(refused) => Err(refused.why.to_string()),
            }
        };
        cx.spawn(back, |tls, cx, driven| {
            if tls.phase != Phase::Away {
                return; // the deadline was faster
            }
            tls.let_go(cx);
            tls.phase = Phase::Handshaking;
            match driven {
                Ok(driven) => tls.came_back(cx, driven),
                Err(why) => tls.refuse(cx, AlertDescription::InternalError, TlsError::Workers(why)),
            }
        });
    }

    fn run_here(&mut self, cx: &mut Context<'_, Self>, connection: Box<Connection>) {
        let driven = drive(connection, std::mem::take(&mut self.inbox));
        self.came_back(cx, driven);
    }

    fn came_back(&mut self, cx: &mut Context<'_, Self>, driven: Driven) {
        let later = std::mem::replace(&mut self.inbox, driven.inbox);
        let news = !later.is_empty();
        self.inbox.append(later);
        if !driven.out.is_empty() {
            cx.write(W::of(driven.out.into_bytes()));
            cx.flush();
        }
        let shaking = driven.connection.is_handshaking();
        self.connection = Some(driven.connection);
        match driven.result {
            Err(error) => self.fail(cx, error.into()),
            Ok(Progress::PeerClosed) if shaking => {
                self.fail(cx, TlsError::ClosedInHandshake(CloseCause::PeerClosed));
            }
            Ok(_) if shaking && news => self.shake_hands(cx, None),
            Ok(_) if shaking => {
                let (max, got) = (self.handshake_max, self.inbox.len());
                if got > max {
                    let error = TlsError::HandshakeTooLong { limit: "handshake_max", max, got };
                    return self.fail(cx, error);
                }
                self.inbox.come_to_rest();
            }
            Ok(progress) => self.opened(cx, progress),
        }
    }

    /// The handshake is done.
    fn opened(&mut self, cx: &mut Context<'_, Self>, progress: Progress) {
        let (Some(mut setup), Some(connection)) = (self.setup.take(), &self.connection) else { return };
        self.phase = Phase::Open;
        cx.desist();
        if let Some(deadline) = setup.deadline.take() {
            cx.disarm(deadline);
        }
        let handshake = Handshake::of(connection, setup.server_name.take());
        if let Some(promise) = setup.promise.take() {
            promise.succeed(handshake.clone());
        }
        cx.fire_event(Event::new(handshake));
        if self.queue.has_flushed() {
            self.drain(cx);
            cx.flush();
        }
        match progress {
            Progress::Data(data) => self.ready = Some(data),
            Progress::PeerClosed => self.peer_closed(cx),
            Progress::Ready | Progress::Blocked => {}
        }
    }

    fn let_go(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(setup) = &mut self.setup
            && std::mem::take(&mut setup.held)
        {
            cx.release();
        }
    }

    // ---- the end ----

    /// Fails before there is a connection that could say so itself.
    fn refuse(&mut self, cx: &mut Context<'_, Self>, alert: AlertDescription, error: TlsError) {
        cx.write(W::of(Bytes::copy_from_slice(&[21, 3, 3, 0, 2, 2, alert.into()])));
        cx.flush();
        self.fail(cx, error);
    }

    /// Fails: the alert, if there is one, is written already.
    fn fail(&mut self, cx: &mut Context<'_, Self>, error: TlsError) {
        if self.phase == Phase::Over {
            return;
        }
        let fault = Fault::new(error.clone());
        self.over(cx, error, &WriteError::Fault(fault.clone()));
        cx.fire_error(fault.clone());
        cx.close_because(CloseCause::Fault(fault));
    }

    /// Nothing is read or written any more.
    fn over(&mut self, cx: &mut Context<'_, Self>, why: TlsError, unwritten: &WriteError) {
        self.let_go(cx);
        if self.is_shaking_hands() {
            cx.desist();
        }
        self.phase = Phase::Over;
        if let Some(mut setup) = self.setup.take() {
            if let Some(deadline) = setup.deadline.take() {
                cx.disarm(deadline);
            }
            if let Some(promise) = setup.promise.take() {
                promise.fail(why);
            }
        }
        self.connection = None;
        self.ready = None;
        self.inbox.clear();
        let counted = self.queue.fail_all(unwritten);
        self.let_go_of(cx, counted);
        if let Some(done) = self.shutting_down.take() {
            done.fail(unwritten.clone());
        }
    }

    /// The peer has said that it sends no more.
    fn peer_closed(&mut self, cx: &mut Context<'_, Self>) {
        self.input_closed = true;
        self.inbox.clear();
        if self.half_closure {
            return cx.fire_input_closed();
        }
        // Behind what is flushed because of what came before it, as with the end of a socket.
        cx.caller().call(|tls, cx| {
            if tls.phase == Phase::Open {
                tls.close(cx, CloseCause::PeerClosed, WritePromise::untracked());
            }
        });
    }

    /// Says that we send no more, once.
    fn say_goodbye(&mut self, cx: &mut Context<'_, Self>) {
        if std::mem::replace(&mut self.output_closed, true) {
            return;
        }
        let Some(connection) = &mut self.connection else { return };
        let inbox = &mut self.inbox;
        let out = with_room(2, |out| connection.close_notify(inbox, out).is_ok());
        if let (true, goodbye) = out {
            cx.write(W::of(goodbye));
            cx.flush();
        }
    }

    fn shut_down(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
        self.say_goodbye(cx);
        let counted = self.queue.fail_all(&WriteError::OutputShutDown);
        self.let_go_of(cx, counted);
        cx.shut_down_output_with(done);
    }

    // ---- writing ----

    /// So many bytes wait here. The channel is told when they are worth it: what is flushed at once is not.
    fn keep(&mut self, cx: &mut Context<'_, Self>, bytes: usize) {
        self.kept += bytes;
        if self.kept - self.told > UNTOLD_MAX {
            cx.add_pending(self.kept - self.told);
            self.told = self.kept;
        }
    }

    fn let_go_of(&mut self, cx: &mut Context<'_, Self>, bytes: usize) {
        self.kept -= bytes;
        if self.told > self.kept {
            cx.sub_pending(self.told - self.kept);
            self.told = self.kept;
        }
    }

    /// Encrypts what was flushed, up to one batch: the next one follows when that is on its way.
    fn drain(&mut self, cx: &mut Context<'_, Self>) {
        if self.batch_under_way {
            return;
        }
        let mut room = BATCH;
        with_gather(|gathered| self.drain_with(cx, gathered, &mut room));
        if self.phase != Phase::Open {
            return;
        }
        if self.queue.has_flushed() {
            self.batch_under_way = true;
            let caller = cx.caller();
            let sent = cx.write_tracked(W::of(Bytes::new())); // done when everything before it is
            sent.listen(move |sent| {
                if sent.is_ok() {
                    caller.call(|tls, cx| {
                        tls.batch_under_way = false;
                        tls.drain(cx);
                        cx.flush();
                    });
                }
            });
        } else if let Some(done) = self.shutting_down.take() {
            self.shut_down(cx, done);
        }
    }

    fn drain_with(&mut self, cx: &mut Context<'_, Self>, gathered: &mut Vec<u8>, room: &mut usize) {
        while *room > 0
            && self.phase == Phase::Open
            && let Some(Entry { message, mut done, counted }) = self.queue.take()
        {
            self.let_go_of(cx, counted);
            if !done.claim() {
                continue; // cancelled
            }
            match message {
                Outgoing::Bytes(bytes) => self.put(cx, gathered, bytes, done, room),
                Outgoing::Envelope(envelope) if envelope.is_plain() => {
                    self.put(cx, gathered, envelope.bytes, done, room);
                }
                Outgoing::Envelope(_) => done.fail(WriteError::Fault(Fault::new(TlsError::NotBytes))),
                Outgoing::File(region) => {
                    self.seal_gathered(cx, gathered, WritePromise::untracked());
                    self.put_file(cx, gathered, region, done, room);
                }
            }
        }
        self.seal_gathered(cx, gathered, WritePromise::untracked());
    }

    /// Small messages are put together, so that they share a record; of large ones as much is encrypted as there is room.
    fn put(
        &mut self,
        cx: &mut Context<'_, Self>,
        gathered: &mut Vec<u8>,
        mut bytes: Bytes,
        done: WritePromise,
        room: &mut usize,
    ) {
        if bytes.len() <= GATHER_MAX {
            *room = room.saturating_sub(bytes.len());
            gathered.extend_from_slice(&bytes);
            if done.is_tracked() || gathered.len() > GATHER_MAX {
                self.seal_gathered(cx, gathered, done);
            }
            return;
        }
        self.seal_gathered(cx, gathered, WritePromise::untracked());
        let rest = bytes.split_off(bytes.len().min((*room).max(SEAL_MAX)));
        *room = room.saturating_sub(bytes.len());
        if rest.is_empty() {
            return self.seal(cx, &bytes, done);
        }
        self.seal(cx, &bytes, WritePromise::untracked());
        self.put_back(cx, rest.into(), done);
    }

    /// The rest of a message, for the next batch.
    fn put_back(&mut self, cx: &mut Context<'_, Self>, message: Outgoing, done: WritePromise) {
        if self.phase != Phase::Open {
            return done.fail(WriteError::Closed(CloseCause::Requested));
        }
        let counted = size_of(&message);
        self.keep(cx, counted);
        self.queue.put_back(Entry { message, done, counted });
    }

    fn seal_gathered(&mut self, cx: &mut Context<'_, Self>, gathered: &mut Vec<u8>, done: WritePromise) {
        if !gathered.is_empty() {
            self.seal(cx, gathered, done);
            gathered.clear();
        } else if done.is_tracked() {
            cx.write_with(W::of(Bytes::new()), done);
        }
    }

    /// Reads and encrypts as much of a file as there is room for.
    fn put_file(
        &mut self,
        cx: &mut Context<'_, Self>,
        buffer: &mut Vec<u8>,
        mut region: FileRegion,
        done: WritePromise,
        room: &mut usize,
    ) {
        while region.remaining() > 0 {
            if *room == 0 {
                return self.put_back(cx, region.into(), done);
            }
            buffer.resize(SEAL_MAX, 0);
            match region.read_into(buffer) {
                Ok(len) => {
                    buffer.truncate(len);
                    region.advance(len as u64);
                    *room = room.saturating_sub(len);
                    if region.remaining() == 0 {
                        break;
                    }
                    self.seal_gathered(cx, buffer, WritePromise::untracked());
                }
                Err(error) => {
                    buffer.clear();
                    return done.fail(WriteError::File(error.into()));
                }
            }
        }
        self.seal_gathered(cx, buffer, done);
    }

    /// Encrypts and passes on.
    fn seal(&mut self, cx: &mut Context<'_, Self>, plain: &[u8], mut done: WritePromise) {
        let mut pieces = plain.chunks(SEAL_MAX).peekable();
        while let Some(piece) = pieces.next() {
            let Some(connection) = &mut self.connection else { return };
            let inbox = &mut self.inbox;
            let (sealed, bytes) = with_room(piece.len(), |out| connection.encrypt(inbox, piece, out));
            if let Err(error) = sealed {
                if !bytes.is_empty() {
                    cx.write(W::of(bytes)); // a goodbye: the keys are used up
                    cx.flush();
                }
                return self.fail(cx, error.into());
            }
            let promise =
                if pieces.peek().is_none() { std::mem::take(&mut done) } else { WritePromise::untracked() };
            cx.write_with(W::of(bytes), promise);
        }
    }
}

impl<W: Plain> Handler for Tls<W> {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = W;
    type WriteOut = W;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        let waits = self.first_in_clear && self.setup.as_ref().is_some_and(|setup| setup.is_client());
        if !waits {
            self.begin(cx);
        }
        cx.fire_active();
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        let news = bytes.len();
        match self.phase {
            Phase::Over => {}
            _ if self.input_closed => {}
            Phase::Open | Phase::Idle => self.inbox.feed(bytes),
            _ => {
                self.inbox.feed(bytes);
                self.shake_hands(cx, Some(news));
            }
        }
    }

    fn pull(&mut self, cx: &mut Context<'_, Self>) -> Option<BytesMut> {
        if self.phase != Phase::Open {
            return None;
        }
        if let Some(ready) = self.ready.take() {
            return Some(ready);
        }
        if self.inbox.is_empty() {
            return None;
        }
        let connection = self.connection.as_mut()?;
        let inbox = &mut self.inbox;
        let (progress, out) = with_room(0, |out| connection.advance(inbox, out));
        if !out.is_empty() {
            cx.write(W::of(out));
            cx.flush();
        }
        match progress {
            Ok(Progress::Data(data)) => return Some(data),
            Ok(Progress::PeerClosed) => self.peer_closed(cx),
            Ok(Progress::Ready | Progress::Blocked) => {
                let (max, got) = (self.handshake_max, self.inbox.len());
                if got > max {
                    self.fail(cx, TlsError::HandshakeTooLong { limit: "handshake_max", max, got });
                }
                self.inbox.come_to_rest();
            }
            Err(error) => self.fail(cx, error.into()),
        }
        None
    }

    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        match self.phase {
            Phase::Over => cx.fire_input_closed(),
            Phase::Open if self.input_closed => {} // told already
            Phase::Open => {
                self.input_closed = true;
                let unfinished = self.inbox.len();
                self.inbox.clear();
                cx.fire_error(TlsError::Truncated { unfinished });
                cx.fire_input_closed();
            }
            _ => self.fail(cx, TlsError::ClosedInHandshake(CloseCause::PeerClosed)),
        }
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        let cause = match self.phase {
            Phase::Open if !self.input_closed && matches!(cause, CloseCause::PeerClosed) => {
                CloseCause::Fault(Fault::new(TlsError::Truncated { unfinished: self.inbox.len() }))
            }
            _ => cause,
        };
        let failed = self.is_shaking_hands() || self.phase == Phase::Idle;
        if self.phase != Phase::Over {
            let error = TlsError::ClosedInHandshake(cause.clone());
            self.over(cx, error.clone(), &WriteError::Closed(cause.clone()));
            if failed {
                cx.fire_error(error);
            }
        }
        cx.fire_inactive(cause);
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, msg: W, done: WritePromise) {
        if self.phase == Phase::Over {
            return done.fail(WriteError::Closed(CloseCause::Requested));
        }
        if self.first_in_clear {
            self.first_in_clear = false;
            self.begins_at_flush = true;
            return cx.write_with(msg, done);
        }
        if self.output_closed || self.shutting_down.is_some() {
            return done.fail(WriteError::OutputShutDown);
        }
        let message = msg.into_outgoing();
        let counted = size_of(&message);
        self.keep(cx, counted);
        self.queue.push(Entry { message, done, counted });
    }

    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        self.queue.flush();
        if self.phase == Phase::Open && self.queue.has_flushed() {
            self.drain(cx);
        }
        cx.flush();
        if std::mem::take(&mut self.begins_at_flush) {
            self.begin(cx); // nothing, if it began with the connection
        }
    }

    fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        if self.phase == Phase::Open {
            self.say_goodbye(cx);
        }
        if self.phase != Phase::Over {
            let error = TlsError::ClosedInHandshake(cause.clone());
            self.over(cx, error, &WriteError::Closed(cause.clone()));
        }
        cx.close_with(cause, done);
    }

    fn shut_down_output(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
        match self.phase {
            Phase::Over => cx.shut_down_output_with(done),
            Phase::Open if !self.queue.has_flushed() => self.shut_down(cx, done),
            Phase::Idle if self.setup.is_none() => cx.shut_down_output_with(done),
            _ => self.shutting_down = Some(done), // behind what waits to be encrypted
        }
    }

    fn timer(&mut self, cx: &mut Context<'_, Self>, _: StageTimer) {
        if let Some(setup) = &mut self.setup {
            setup.deadline = None;
            let limit = setup.common.limits.handshake_deadline;
            self.fail(cx, TlsError::HandshakeTimedOut { limit });
        }
    }

    fn is_busy(&self) -> bool {
        self.phase != Phase::Over && (self.queue.has_flushed() || self.shutting_down.is_some())
    }

    fn leftover(&mut self) -> Leftover<BytesMut> {
        if self.phase == Phase::Idle && !self.inbox.is_empty() {
            return Leftover::one(self.inbox.take_all());
        }
        Leftover::nothing()
    }
}

/// What a message counts as while it waits: its bytes in memory, and what any message costs.
fn size_of(message: &Outgoing) -> usize {
    ENTRY_OVERHEAD
        + match message {
            Outgoing::Bytes(bytes) => bytes.len(),
            Outgoing::Envelope(envelope) => envelope.bytes.len(),
            Outgoing::File(_) => 0,
        }
}

impl Setup {
    fn is_client(&self) -> bool {
        matches!(self.side, Side::Client(..))
    }
}

impl<W> fmt::Debug for Tls<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("phase", &self.phase).finish_non_exhaustive()
    }
}
