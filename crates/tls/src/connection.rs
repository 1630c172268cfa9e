//! One TLS connection without any I/O: rustls' unbuffered connections, client's and server's alike.
//!
//! ```text
//!   inbox ──▶ advance ──▶ Data, PeerClosed, Ready, Blocked          plain ──▶ encrypt ──▶ out
//!                └──────▶ out: handshake messages, tickets, key updates, alerts
//! ```
//! Always true between calls:
//! 1. rustls holds no plaintext: a record is decrypted when `advance` is asked for it, and leaves at once. So there is always
//!    a way to encrypt.
//! 2. Whatever `out` gets has to be sent, in this order.
//! 3. After an error `out` ends with an alert, unless the peer has sent one or we have said goodbye before.

use crate::{
    inbox::{HEADER, Inbox},
    room::Out,
};
use bytes::BytesMut;
use rustls::{
    CommonState, Error, ProtocolVersion,
    client::UnbufferedClientConnection,
    server::UnbufferedServerConnection,
    unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic},
};
use std::ops::Deref;

pub(crate) struct Connection {
    side: Side,
    /// No alert may follow it.
    said_goodbye: bool,
}

enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// What came of what has arrived.
pub(crate) enum Progress {
    /// The handshake needs more.
    Blocked,
    /// Nothing to read; there may be something to write.
    Ready,
    /// The plaintext of one record.
    Data(BytesMut),
    /// The peer has said that it sends no more.
    PeerClosed,
}

/// What `advance` did on another thread, or here.
pub(crate) struct Driven {
    pub(crate) connection: Box<Connection>,
    pub(crate) inbox: Inbox,
    pub(crate) out: Out,
    pub(crate) result: Result<Progress, Error>,
}

/// Takes the handshake as far as it gets.
pub(crate) fn drive(mut connection: Box<Connection>, mut inbox: Inbox) -> Driven {
    let mut out = Out::default();
    let result = connection.advance(&mut inbox, &mut out);
    Driven { connection, inbox, out, result }
}

enum Step {
    Again,
    Blocked,
    Ready,
    Data,
    PeerClosed,
}

/// Calls the connection, whichever it is: the two have the same methods, but no common trait.
macro_rules! either {
    ($self:expr, $connection:ident => $call:expr) => {
        match $self {
            Side::Client($connection) => $call,
            Side::Server($connection) => $call,
        }
    };
}

impl Connection {
    pub(crate) fn client(connection: UnbufferedClientConnection) -> Self {
        Self { side: Side::Client(connection), said_goodbye: false }
    }

    pub(crate) fn server(connection: UnbufferedServerConnection) -> Self {
        Self { side: Side::Server(connection), said_goodbye: false }
    }

    /// Makes the most of what has arrived, up to one record of data.
    pub(crate) fn advance(&mut self, inbox: &mut Inbox, out: &mut Out) -> Result<Progress, Error> {
        loop {
            let (done, step) =
                either!(&mut self.side, conn => step(conn.process_tls_records(inbox.unprocessed()), out));
            let step = match step {
                Ok(step) => step,
                Err(error) => {
                    let noted = inbox.unprocessed().len();
                    inbox.take(done);
                    if self.wants_write() {
                        self.last_words(out);
                    } else if !matches!(error, Error::AlertReceived(_)) {
                        self.object(noted, out);
                    }
                    return Err(error);
                }
            };
            if done > 0 || matches!(step, Step::Data) {
                let record = inbox.take(done);
                if matches!(step, Step::Data) {
                    let data =
                        either!(&mut self.side, conn => take_data(conn.process_tls_records(&mut []), record));
                    match data {
                        Some(data) if !data.is_empty() => return Ok(Progress::Data(data)),
                        _ => continue,
                    }
                }
            }
            match step {
                Step::Again | Step::Data => {}
                Step::PeerClosed => return Ok(Progress::PeerClosed),
                Step::Blocked | Step::Ready if inbox.refill() => {}
                Step::Blocked => return Ok(Progress::Blocked),
                Step::Ready => return Ok(Progress::Ready),
            }
        }
    }

    /// The alert that an error left behind. Nothing is read any more: rustls is asked only while it has something to send.
    fn last_words(&mut self, out: &mut Out) {
        while self.wants_write() {
            let (_, step) = either!(&mut self.side, conn => step(conn.process_tls_records(&mut []), out));
            if !matches!(step, Ok(Step::Again)) {
                return;
            }
        }
    }

    /// Ends the connection with an alert, for breaks of the protocol of which rustls says nothing to the peer, or that it does not
    /// know. It has no call for that, but alerts for other breaks, encrypted as its state demands. So it is fed one of these, now
    /// that nobody listens any more: where a message can begin a change of ciphers, which is an `unexpected_message`; else, as
    /// behind a part of a handshake message, zeros, a `decode_error`.
    ///
    /// `noted`: how much it was given last. It skips at most so much, where it has noted messages or parts of one.
    pub(crate) fn object(&mut self, noted: usize, out: &mut Out) {
        if self.said_goodbye {
            return;
        }
        // Within a handshake of TLS 1.3 a right one means nothing, so it has to be wrong there; elsewhere that is hard to decode.
        let quiet = self.is_handshaking() && self.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let change = [20, 3, 3, 0, 1, if quiet { 2 } else { 1 }];
        let mut offence = vec![0; change.len() + noted + HEADER];
        offence[..change.len()].copy_from_slice(&change);
        let mut rest = &mut offence[..];
        // Messages that it has noted come out first, one for each call, and have four bytes at least.
        for _ in 0..noted / 4 + 2 {
            let (done, step) = either!(&mut self.side, conn => step(conn.process_tls_records(rest), out));
            if self.wants_write() {
                return self.last_words(out);
            }
            if step.is_ok() {
                return;
            }
            rest = rest.split_at_mut(done.min(rest.len())).1;
        }
    }

    /// Encrypts in records of at most 16 KiB, behind everything that was encrypted before.
    pub(crate) fn encrypt(&mut self, inbox: &mut Inbox, plain: &[u8], out: &mut Out) -> Result<(), Error> {
        self.writing(inbox, out, |mut traffic, out| traffic.encrypt(plain, out), room_for(plain.len()))
    }

    /// Says that we send no more.
    pub(crate) fn close_notify(&mut self, inbox: &mut Inbox, out: &mut Out) -> Result<(), Error> {
        self.said_goodbye = true;
        self.writing(inbox, out, |mut traffic, out| traffic.queue_close_notify(out), room_for(2))
    }

    fn writing(
        &mut self,
        inbox: &mut Inbox,
        out: &mut Out,
        write: impl for<'a> Fn(Traffic<'a>, &mut [u8]) -> Result<usize, EncryptError>,
        mut room: usize,
    ) -> Result<(), Error> {
        loop {
            let processed = inbox.processed();
            let wrote = match &mut self.side {
                Side::Client(conn) => match wait_to_write(conn.process_tls_records(processed), out)? {
                    Some(traffic) => write(Traffic::Client(traffic), out.room(room)),
                    None => continue,
                },
                Side::Server(conn) => match wait_to_write(conn.process_tls_records(processed), out)? {
                    Some(traffic) => write(Traffic::Server(traffic), out.room(room)),
                    None => continue,
                },
            };
            match wrote {
                Ok(len) => {
                    out.fill(len);
                    return Ok(());
                }
                Err(EncryptError::InsufficientSize(size)) => room = size.required_size,
                Err(EncryptError::EncryptExhausted) => {
                    self.last_words(out);
                    return Err(Error::EncryptError);
                }
            }
        }
    }
}

/// What is true of both.
impl Deref for Connection {
    type Target = CommonState;
    fn deref(&self) -> &CommonState {
        either!(&self.side, conn => conn)
    }
}

/// The right to write, of either side.
enum Traffic<'a> {
    Client(WriteTraffic<'a, rustls::client::ClientConnectionData>),
    Server(WriteTraffic<'a, rustls::server::ServerConnectionData>),
}

impl Traffic<'_> {
    fn encrypt(&mut self, plain: &[u8], out: &mut [u8]) -> Result<usize, EncryptError> {
        match self {
            Self::Client(traffic) => traffic.encrypt(plain, out),
            Self::Server(traffic) => traffic.encrypt(plain, out),
        }
    }

    fn queue_close_notify(&mut self, out: &mut [u8]) -> Result<usize, EncryptError> {
        match self {
            Self::Client(traffic) => traffic.queue_close_notify(out),
            Self::Server(traffic) => traffic.queue_close_notify(out),
        }
    }
}

/// Room for so much plaintext with the headers and tags of its records, and one message more.
fn room_for(plain: usize) -> usize {
    /// Header, explicit nonce, type and tag: 5 + 8 + 1 + 16 bytes, and a little more than any suite needs.
    const OVERHEAD: usize = 40;
    plain + (plain / (16 * 1024) + 2) * OVERHEAD
}

/// One step, and how many bytes of the input are done with.
fn step<D>(status: UnbufferedStatus<'_, '_, D>, out: &mut Out) -> (usize, Result<Step, Error>) {
    let done = status.discard;
    let step = status.state.and_then(|state| {
        Ok(match state {
            ConnectionState::ReadTraffic(_) => Step::Data,
            ConnectionState::EncodeTlsData(data) => {
                encode(data, out)?;
                Step::Again
            }
            ConnectionState::TransmitTlsData(transmit) => {
                transmit.done(); // `out` is as good as sent
                Step::Again
            }
            ConnectionState::BlockedHandshake => Step::Blocked,
            ConnectionState::WriteTraffic(_) | ConnectionState::Closed => Step::Ready,
            ConnectionState::PeerClosed => Step::PeerClosed,
            _ => return Err(Error::General("early data, which was not allowed".into())),
        })
    });
    (done, step)
}

/// The plaintext that rustls has, in the room of the record that it came in.
fn take_data<D>(status: UnbufferedStatus<'_, '_, D>, mut record: BytesMut) -> Option<BytesMut> {
    let Ok(ConnectionState::ReadTraffic(mut traffic)) = status.state else { return None };
    let plain = traffic.next_record()?.ok()?.payload;
    if record.len() < plain.len() {
        return Some(BytesMut::from(plain));
    }
    record.truncate(plain.len());
    record.copy_from_slice(plain);
    Some(record)
}

/// The right to write, once everything else that waits to be sent is in `out`.
fn wait_to_write<'c, D>(
    status: UnbufferedStatus<'c, '_, D>,
    out: &mut Out,
) -> Result<Option<WriteTraffic<'c, D>>, Error> {
    match status.state? {
        ConnectionState::WriteTraffic(traffic) => Ok(Some(traffic)),
        ConnectionState::EncodeTlsData(data) => encode(data, out).map(|()| None),
        ConnectionState::TransmitTlsData(transmit) => {
            transmit.done();
            Ok(None)
        }
        ConnectionState::PeerClosed => Ok(None), // it may still read
        _ => Err(Error::HandshakeNotComplete),
    }
}

fn encode<D>(mut data: EncodeTlsData<'_, D>, out: &mut Out) -> Result<(), Error> {
    let room = match data.encode(&mut []) {
        Err(EncodeError::InsufficientSize(size)) => size.required_size,
        Ok(_) | Err(EncodeError::AlreadyEncoded) => return Ok(()),
    };
    match data.encode(out.room(room)) {
        Ok(len) => {
            out.fill(len);
            Ok(())
        }
        Err(_) => Err(Error::General("a handshake message does not fit where it should".into())),
    }
}
