//! TLS as a stage: what happens to it, and how it ends.
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
//! Not here: the handshake (`handler/shake`), what is encrypted when (`handler/seal`), what rustls is fed with (`connection`), how
//! records are put together (`inbox`).

mod seal;
mod shake;

use crate::{
    Acceptor, Connector, Destination, Handshake, TlsError, TlsLimits,
    connection::{Connection, Progress},
    inbox::Inbox,
    queue::{Entry, Queue},
    room::with_room,
    settings::Common,
};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    CloseCause, Context, Fault, Handler, Hold, Kept, Leftover, Outgoing, Place, Promise, SharedPromised,
    StageTimer, WriteError, WritePromise, promise,
};
use rustls::{AlertDescription, server::Acceptor as HelloReader};
use rustls_pki_types::ServerName;
use std::fmt;

/// TLS: reads and writes bytes in clear on the application's side, and records on the wire's. Files are read and encrypted piece by
/// piece, as there is room for more.
///
/// `active` is passed on when the channel is connected, so that applications can write at once; what they write is sent when
/// the handshake is done. Who wants to know more waits for the [`Handshake`] event, or for the future that
/// [`handshake`](Self::handshake) gives.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_tls::{Acceptor, Certificate, Connector, Roots, Tls};
///
/// let certificate = Certificate::self_signed(["localhost"])?;
/// let acceptor = Acceptor::new(&certificate)?;
/// let connector = Connector::builder().roots(Roots::of(&certificate)?).build()?;
///
/// let mut server = EmbeddedChannel::new(
///     pipeline().add(Tls::server(&acceptor)).handle(|cx, bytes| cx.write_and_flush(bytes)),
/// );
/// let mut client = EmbeddedChannel::new(pipeline().add(Tls::client(&connector, "localhost")?));
/// client.write_outbound("hello"); // sent when the handshake is done
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
pub struct Tls {
    phase: Phase,
    connection: Option<Box<Connection>>,
    inbox: Inbox,
    /// Decrypted together with the end of the handshake.
    ready: Option<BytesMut>,
    queue: Queue,
    /// What waits in the queue, in bytes, and how much of it the channel has been told of.
    kept: usize,
    told: Option<Kept>,
    /// A batch is on its way, and what is left follows it.
    batch_under_way: bool,
    /// What is needed until the handshake is done.
    setup: Option<Box<Setup>>,
    /// `None`: as the channel has it.
    half_closure: Option<bool>,
    /// The next message passes as it is.
    first_in_clear: bool,
    /// It has passed: a client's handshake begins behind it, with the flush.
    begins_at_flush: bool,
    /// We have said that we send no more.
    output_closed: bool,
    /// The peer has said so.
    input_closed: bool,
    /// It has, and that ends the connection, when it has taken its answers or this is due.
    ending: Option<StageTimer>,
    /// Our output is to be shut down when everything that was flushed is encrypted.
    shutting_down: Option<WritePromise>,
    /// A part of a record is here, or was when this was armed; and how often something had been taken out of the inbox then.
    unfinished: Option<(StageTimer, u32)>,
    limits: TlsLimits,
}

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
    /// Reads a ClientHello that came in pieces, or that somebody has to know.
    reader: Option<HelloReader>,
    /// The peer's first bytes have been looked at.
    is_tls: bool,
    held: Option<Hold>,
    /// The peer is read to, whoever asks for messages, until hands are shaken.
    insists: Option<Hold>,
}

enum Side {
    Server(Acceptor),
    Client(Connector, ServerName<'static>),
}

impl Tls {
    /// The server's side of a connection.
    pub fn server(acceptor: &Acceptor) -> Self {
        Self::new(Side::Server(acceptor.clone()), &acceptor.0.common)
    }

    /// The client's side of a connection to the server of this name, or address.
    ///
    /// # Errors
    /// This is no name of a server.
    pub fn client(connector: &Connector, server_name: &str) -> Result<Self, TlsError> {
        Ok(Self::to(&connector.to(server_name)?))
    }

    /// The client's side of a connection to a server whose name was checked before.
    pub fn to(server: &Destination) -> Self {
        let side = Side::Client(server.connector.clone(), server.server_name.clone());
        let mut tls = Self::new(side, &server.connector.0.common);
        if let Some(setup) = &mut tls.setup {
            setup.server_name = Some(server.name().to_owned());
        }
        tls
    }

    fn new(side: Side, common: &Common) -> Self {
        let setup = Setup {
            side,
            common: common.clone(),
            server_name: None,
            promise: None,
            promised: None,
            deadline: None,
            reader: None,
            is_tls: false,
            held: None,
            insists: None,
        };
        Self {
            phase: Phase::Idle,
            connection: None,
            inbox: Inbox::default(),
            ready: None,
            queue: Queue::default(),
            kept: 0,
            told: None,
            batch_under_way: false,
            setup: Some(Box::new(setup)),
            half_closure: common.half_closure,
            first_in_clear: false,
            begins_at_flush: false,
            output_closed: false,
            input_closed: false,
            ending: None,
            shutting_down: None,
            unfinished: None,
            limits: common.limits,
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

    /// What has come is a part of something: the rest may come, if it is not too long for that.
    fn wait_for_more<P: Place>(&mut self, cx: &mut Context<'_, Self, P>) {
        let (max, got) = (self.limits.handshake_max, self.inbox.len());
        if got <= max {
            if got > 0 && self.phase == Phase::Open && self.unfinished.is_none() {
                self.unfinished = Some((cx.arm(self.limits.record_deadline), self.inbox.taken()));
            }
            return self.inbox.come_to_rest();
        }
        if let Some(connection) = &mut self.connection {
            let ((), alert) = with_room(0, |out| connection.object(got, out));
            cx.write(alert);
            cx.flush();
        }
        self.fail(cx, TlsError::HandshakeTooLong { limit: "handshake_max", max, got });
    }

    /// A record had begun when this was armed. If that is not whole it never will be, unless nobody wants to read it.
    fn look_for_unfinished<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, taken: u32) {
        let (limit, got) = (self.limits.record_deadline, self.inbox.len());
        if got == 0 {
            self.unfinished = None;
        } else if taken == self.inbox.taken() && !cx.view().is_paused() {
            self.unfinished = None;
            self.fail(cx, TlsError::RecordTimedOut { limit, got });
        } else {
            self.unfinished = Some((cx.arm(limit), self.inbox.taken()));
        }
    }

    // ---- the end ----

    /// Fails before there is a connection that could say so itself.
    fn refuse<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, alert: AlertDescription, error: TlsError) {
        cx.write(Bytes::copy_from_slice(&[21, 3, 3, 0, 2, 2, alert.into()]));
        cx.flush();
        self.fail(cx, error);
    }

    /// Fails: the alert, if there is one, is written already.
    fn fail<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, error: TlsError) {
        if self.phase == Phase::Over {
            return;
        }
        let fault = Fault::new(error.clone());
        self.over(cx, error, &WriteError::Fault(fault.clone()));
        cx.fire_error(fault.clone());
        cx.close_because(CloseCause::Fault(fault));
    }

    /// Ends without a goodbye: a peer that got one would take what has come for all there was.
    fn break_off<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
        let error = TlsError::ClosedInHandshake(cause.clone());
        self.over(cx, error, &WriteError::Closed(cause.clone()));
        cx.close_because(cause);
    }

    /// Nothing is read or written any more.
    fn over<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, why: TlsError, unwritten: &WriteError) {
        self.let_go(cx);
        self.phase = Phase::Over;
        if let Some(mut setup) = self.setup.take() {
            if let Some(insists) = setup.insists.take() {
                insists.release(cx);
            }
            if let Some(deadline) = setup.deadline.take() {
                cx.disarm(deadline);
            }
            if let Some(promise) = setup.promise.take() {
                promise.fail(why);
            }
        }
        let unfinished = self.unfinished.take().map(|(timer, _)| timer);
        for timer in self.ending.take().into_iter().chain(unfinished) {
            cx.disarm(timer);
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
    fn peer_closed<P: Place>(&mut self, cx: &mut Context<'_, Self, P>) {
        self.input_closed = true;
        self.inbox.clear();
        if self.lives_on(cx) {
            return cx.fire_input_closed();
        }
        self.ending = Some(cx.arm(self.limits.answers_deadline));
        // Behind what is flushed because of what came before it, as with the end of a socket.
        cx.caller().call(Self::end_if_idle);
    }

    fn lives_on<P: Place>(&self, cx: &Context<'_, Self, P>) -> bool {
        self.half_closure.unwrap_or_else(|| cx.view().allows_half_closure())
    }

    /// Ends the connection when the peer has taken its answers: it has said that it sends no more, not that it does not read.
    fn end_if_idle<P: Place>(&mut self, cx: &mut Context<'_, Self, P>) {
        if self.phase != Phase::Open || self.ending.is_none() {
            return;
        }
        if self.lives_on(cx) {
            // A stage behind has come to need it, such as an async tail that had not begun.
            if let Some(timer) = self.ending.take() {
                cx.disarm(timer);
            }
            return cx.fire_input_closed();
        }
        if !self.queue.has_flushed() && cx.view().unsent_bytes() == 0 {
            return self.close(cx, CloseCause::PeerClosed, WritePromise::untracked());
        }
        let caller = cx.caller();
        let sent = cx.write_tracked(Bytes::new()); // done when everything before it is
        sent.listen(move |sent| {
            if sent.is_ok() {
                caller.call(Self::end_if_idle);
            }
        });
        cx.flush();
    }

    /// Says that we send no more, once.
    fn say_goodbye<P: Place>(&mut self, cx: &mut Context<'_, Self, P>) {
        if std::mem::replace(&mut self.output_closed, true) {
            return;
        }
        let Some(connection) = &mut self.connection else { return };
        let inbox = &mut self.inbox;
        let out = with_room(2, |out| connection.close_notify(inbox, out).is_ok());
        if let (true, goodbye) = out {
            cx.write(goodbye);
            cx.flush();
        }
    }

    fn shut_down<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, done: WritePromise) {
        self.say_goodbye(cx);
        let counted = self.queue.fail_all(&WriteError::OutputShutDown);
        self.let_go_of(cx, counted);
        cx.shut_down_output_with(done);
    }
}

impl<P: Place> Handler<P> for Tls {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn active(&mut self, cx: &mut Context<'_, Self, P>) {
        let waits = self.first_in_clear && self.setup.as_ref().is_some_and(|setup| setup.is_client());
        if !waits {
            self.begin(cx);
        }
        cx.fire_active();
    }

    fn read(&mut self, cx: &mut Context<'_, Self, P>, bytes: BytesMut) {
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

    fn pull(&mut self, cx: &mut Context<'_, Self, P>) -> Option<BytesMut> {
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
            cx.write(out);
            cx.flush();
        }
        match progress {
            Ok(Progress::Data(data)) => return Some(data),
            Ok(Progress::PeerClosed) => self.peer_closed(cx),
            Ok(Progress::Ready | Progress::Blocked) => {
                self.wait_for_more(cx);
            }
            Err(error) => self.fail(cx, error.into()),
        }
        None
    }

    fn input_closed(&mut self, cx: &mut Context<'_, Self, P>) {
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

    fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
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

    fn write(&mut self, cx: &mut Context<'_, Self, P>, message: Outgoing, done: WritePromise) {
        if self.phase == Phase::Over {
            return done.fail(WriteError::Closed(CloseCause::Requested));
        }
        if self.first_in_clear {
            self.first_in_clear = false;
            self.begins_at_flush = true;
            return cx.write_with(message, done);
        }
        if self.output_closed || self.shutting_down.is_some() {
            return done.fail(WriteError::OutputShutDown);
        }
        let counted = seal::counted(&message);
        self.keep(cx, counted);
        self.queue.push(Entry { message, done, counted });
    }

    fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
        self.queue.flush();
        if self.phase == Phase::Open && self.queue.has_flushed() {
            self.drain(cx);
        }
        cx.flush();
        if std::mem::take(&mut self.begins_at_flush) {
            self.begin(cx); // nothing, if it began with the connection
        }
    }

    fn close(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause, done: WritePromise) {
        if self.phase == Phase::Open {
            self.say_goodbye(cx);
        }
        if self.phase != Phase::Over {
            let error = TlsError::ClosedInHandshake(cause.clone());
            self.over(cx, error, &WriteError::Closed(cause.clone()));
        }
        cx.close_with(cause, done);
    }

    fn shut_down_output(&mut self, cx: &mut Context<'_, Self, P>, done: WritePromise) {
        match self.phase {
            Phase::Over => cx.shut_down_output_with(done),
            Phase::Open if !self.queue.has_flushed() => self.shut_down(cx, done),
            Phase::Idle if self.setup.is_none() => cx.shut_down_output_with(done),
            _ => self.shutting_down = Some(done), // behind what waits to be encrypted
        }
    }

    fn timer(&mut self, cx: &mut Context<'_, Self, P>, timer: StageTimer) {
        if self.ending == Some(timer) {
            self.close(cx, CloseCause::PeerClosed, WritePromise::untracked());
        } else if let Some((of, taken)) = self.unfinished
            && of == timer
        {
            self.look_for_unfinished(cx, taken);
        } else if let Some(setup) = &mut self.setup {
            setup.deadline = None;
            let limit = setup.common.limits.handshake_deadline;
            self.fail(cx, TlsError::HandshakeTimedOut { limit });
        }
    }

    fn is_busy(&self) -> bool {
        let waits = self.queue.has_flushed() || self.shutting_down.is_some() || self.ending.is_some();
        self.phase != Phase::Over && waits
    }

    fn leftover(&mut self) -> Leftover<BytesMut> {
        if self.phase == Phase::Idle && !self.inbox.is_empty() {
            return Leftover::one(self.inbox.take_all());
        }
        Leftover::nothing()
    }
}

impl Setup {
    fn is_client(&self) -> bool {
        matches!(self.side, Side::Client(..))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("phase", &self.phase).finish_non_exhaustive()
    }
}
